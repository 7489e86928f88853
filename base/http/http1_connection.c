#include "base/assert.h"
#include "base/http/connection.h"
#include "base/http/http1.h"
#include "base/net/stream.h"

#include <stdio.h>
#include <string.h>

#define SKIP_MAX 65536u /* what is left of a refused request's body, to keep the connection */

enum http1_state {
    STATE_READING, /* waits for a request or reads one */
    STATE_BUSY,    /* a request is out */
    STATE_SKIP,    /* it was refused at its head: the rest of its body is read and dropped */
    STATE_ENDED    /* its reply is complete; the next one may be read */
};

struct http1_connection {
    struct connection *connection; /* borrowed */
    struct connection_host *host;  /* borrowed */
    struct exchange exchange;
    struct http1 parser;
    struct buf input; /* sent ahead by the client; bounded by pipeline_bytes_max */
    enum http1_state state;
    uint64_t since_ns; /* idle, head or body progress: what the state counts from */
    uint64_t began_ns; /* when the body began */
    bool asked;        /* what TLS agreed on is known */
    bool used;         /* a request has come: it is too late for HTTP/2 */
    bool head;         /* HEAD: no body goes out */
    bool chunked;
    bool last;    /* close after this reply */
    bool refused; /* a write was: its exchange is told when there is room */
    bool forget;  /* the kick frees the request's memory: its reply streams already */
    char request_id[EXCHANGE_ID_MAX + 1]; /* for the reply */
};

static struct http1_connection *http1_of(const struct exchange *exchange) {
    return list_entry(exchange, struct http1_connection, exchange);
}

/* Neither closed nor about to be: what is asked after each step that may end it. */
static bool http1_is_open(const struct http1_connection *http1) {
    return http1->connection->end == CONNECTION_OPEN;
}

static const char *http1_reason_phrase(unsigned status) {
    static const struct {
        unsigned status;
        const char *phrase;
    } phrases[] = {
        {200, "OK"},
        {204, "No Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };
    for (unsigned i = 0; i < sizeof phrases / sizeof *phrases; i++)
        if (phrases[i].status == status)
            return phrases[i].phrase;
    return "Status"; /* RFC 9112, 4: clients ignore it */
}

static void http1_put_header(struct buf *out, const char *name, const char *value) {
    buf_puts(out, name);
    buf_puts(out, ": ");
    host_put_value(out, value);
    buf_puts(out, "\r\n");
}

/* Sends status line and fields; `length` is the framing: "Content-Length: N", or NULL for chunks
 * (and for HTTP/1.0 the end of the connection). */
static void http1_send_head(struct http1_connection *http1, const struct exchange_reply *reply,
                            const char *length) {
    struct buf *out = &http1->host->scratch;
    buf_clear(out);
    buf_printf(out, "HTTP/1.1 %u %s\r\nDate: %s\r\n", reply->status,
               http1_reason_phrase(reply->status), host_date(http1->host));
    if (reply->content_type)
        http1_put_header(out, "Content-Type", reply->content_type);
    if (length)
        buf_puts(out, length);
    else if (http1->chunked)
        buf_puts(out, "Transfer-Encoding: chunked\r\n");
    http1_put_header(out, "x-request-id", http1->request_id);
    for (unsigned i = 0; i < reply->n_headers; i++)
        http1_put_header(out, reply->headers[i].name, reply->headers[i].value);
    if (http1->last)
        buf_puts(out, "Connection: close\r\n");
    buf_puts(out, "\r\n");
    connection_send(http1->connection, out->data, out->n);
}

static void http1_connection_enter(struct http1_connection *http1, enum http1_state state) {
    http1->state = state;
    http1->since_ns = loop_now_ns(http1->host->loop);
}

/* While answers wait that the client does not read, its next request does. When the output of all
 * leaves no room, so does that of a client with any. */
static bool http1_has_room(const struct http1_connection *http1) {
    size_t pending = stream_pending(http1->connection->stream);
    return pending == 0 || (pending < http1->host->config.reply_bytes_share &&
                            !exchanges_output_is_full(http1->host->exchanges));
}

/* The reply is complete: the exchange ends, the connection goes on or closes. */
static void http1_end_exchange(struct http1_connection *http1) {
    exchanges_remove(http1->host->exchanges, &http1->exchange);
    if (http1->last)
        connection_linger(http1->connection);
    else if (http1->state == STATE_READING && !http1_is_done(&http1->parser))
        http1_connection_enter(http1, STATE_SKIP);
    else
        http1_connection_enter(http1, STATE_ENDED);
    connection_kick(http1->connection);
}

/* Sends head and body. */
static void http1_send_whole(struct http1_connection *http1, const struct exchange_reply *reply) {
    char length[48] = "";
    if (reply->status != 204 && reply->status != 304 && reply->status >= 200)
        snprintf(length, sizeof length, "Content-Length: %zu\r\n",
                 reply->body_buf ? reply->body_buf->n : reply->n_body);
    http1_send_head(http1, reply, length);
    if (!http1->head && length[0] && reply->body_buf)
        connection_send_buf(http1->connection, reply->body_buf);
    else if (!http1->head && length[0] && reply->n_body > 0)
        connection_send(http1->connection, reply->body, reply->n_body);
}

static enum status http1_exch_reply(struct exchange *exchange, const struct exchange_reply *reply) {
    struct http1_connection *http1 = http1_of(exchange);
    http1->last |= http1->host->draining;
    if (http1->state == STATE_READING && !http1_discard_body(&http1->parser, SKIP_MAX))
        http1->last = true;
    size_t n = reply->body_buf ? reply->body_buf->n : reply->n_body;
    if (http1->head || exchanges_may_reply(http1->host->exchanges, n)) {
        http1_send_whole(http1, reply);
    } else {
        char body[256];
        const struct exchange_reply refusal = host_refusal(503, host_output_is_full, body);
        http1->host->counts.n_unread++;
        http1_send_whole(http1, &refusal);
    }
    http1_end_exchange(http1);
    return STATUS_OK;
}

static enum status http1_exch_begin(struct exchange *exchange, const struct exchange_reply *reply) {
    struct http1_connection *http1 = http1_of(exchange);
    ASSERT(http1->state == STATE_BUSY); /* a gate has no streams to answer with */
    http1->chunked = http1->parser.minor == 1;
    http1->last |= http1->host->draining || !http1->chunked;
    http1_send_head(http1, reply, NULL);
    /* The prompt of a stream that may run for minutes: its memory goes once no caller sees it. */
    http1->forget = true;
    connection_kick(http1->connection);
    return STATUS_OK;
}

/* A chunk's first line, "1f" CR LF; returns its length. By hand: every token of a stream has one. */
static size_t http1_put_chunk_size(char line[24], size_t n) {
    size_t n_digits = 1;
    while (n_digits < 16 && n >> (4 * n_digits) > 0)
        n_digits++;
    for (size_t i = 0; i < n_digits; i++)
        line[i] = "0123456789abcdef"[n >> (4 * (n_digits - 1 - i)) & 15];
    memcpy(line + n_digits, "\r\n", 2);
    return n_digits + 2;
}

static enum status http1_exch_write(struct exchange *exchange, const void *bytes, size_t n) {
    struct http1_connection *http1 = http1_of(exchange);
    size_t pending = stream_pending(http1->connection->stream);
    size_t bound = http1->host->config.output_bytes_max;
    if (http1->head)
        return STATUS_OK;
    if (pending > STREAM_FREE_BYTES && exchanges_output_is_full(http1->host->exchanges))
        bound = 0;
    if (pending > 0 && n > bound - (pending < bound ? pending : bound)) {
        http1->refused = true;
        return STATUS_BUSY;
    }
    char size[24];
    if (http1->chunked)
        connection_send(http1->connection, size, http1_put_chunk_size(size, n));
    connection_send(http1->connection, bytes, n);
    if (http1->chunked)
        connection_send(http1->connection, "\r\n", 2);
    return STATUS_OK;
}

/* Trailers are not sent: few clients of HTTP/1.1 look at them, and proxies drop them. */
static void http1_exch_end(struct exchange *exchange, const struct header *trailers,
                           unsigned n_trailers) {
    struct http1_connection *http1 = http1_of(exchange);
    (void)trailers;
    (void)n_trailers;
    if (http1->chunked && !http1->head)
        connection_send(http1->connection, "0\r\n\r\n", 5);
    http1->last |= http1->host->draining; /* a drain that came after the stream's head */
    http1_end_exchange(http1);
}

static void http1_exch_abort(struct exchange *exchange) {
    exchange->gone = NULL; /* who aborts knows */
    connection_close(http1_of(exchange)->connection);
}

static size_t http1_exch_pending(const struct exchange *exchange) {
    return stream_pending(http1_of(exchange)->connection->stream);
}

static void http1_note_request_id(struct http1_connection *http1) {
    const struct http1 *parser = &http1->parser;
    host_request_id(http1->host, header_find(parser->fields, parser->n_fields, "x-request-id"),
                    http1->request_id);
}

static const struct exchange_ops ops = {http1_exch_reply, http1_exch_begin, http1_exch_write,
                                        http1_exch_end,   http1_exch_abort, http1_exch_pending};

/* Answers in the parser's name, then closes: after a broken request it is not known where the next
 * one begins. */
static void http1_connection_refuse(struct http1_connection *http1, unsigned status,
                                    const char *reason) {
    char body[256];
    const struct exchange_reply reply = host_refusal(status, reason, body);
    if (http1->exchange.id != 0)
        exchanges_remove(http1->host->exchanges, &http1->exchange);
    else /* its head was not seen whole */
        http1_note_request_id(http1);
    http1->last = true;
    http1->host->counts.n_refused++;
    http1_send_whole(http1, &reply);
    connection_linger(http1->connection);
}

/* The head is complete: a client without business here is refused before a byte of a body is kept. */
static void http1_connection_begin(struct http1_connection *http1) {
    struct connection_host *host = http1->host;
    struct http1 *parser = &http1->parser;
    http1->exchange = (struct exchange){.protocol = EXCHANGE_HTTP1,
                                        .method = parser->method,
                                        .path = parser->path,
                                        .path_as_sent = parser->path_as_sent,
                                        .query = parser->query,
                                        .headers = parser->fields,
                                        .n_headers = parser->n_fields,
                                        .body = "",
                                        .body_max = parser->body_max,
                                        .body_buf = &parser->body,
                                        .request_id = http1->request_id,
                                        .received_ns = loop_now_ns(host->loop),
                                        .ops = &ops,
                                        .n_watches = &http1->connection->n_watches};
    http1->used = true;
    http1->head = strcmp(parser->method, "HEAD") == 0;
    http1->last = !parser->keep_alive || host->config.one_request;
    http1->chunked = false;
    http1->began_ns = http1->exchange.received_ns;
    http1_note_request_id(http1);
    if (exchanges_add(host->exchanges, &http1->exchange) != STATUS_OK) {
        http1_connection_refuse(http1, 503, "too many requests are open; try again later");
        return;
    }
    host->counts.n_requests++;
    if (host->calls.gate)
        host->calls.gate(host->calls.user, &http1->exchange);
    if (http1->exchange.id != 0 && !exchanges_may_stay(&http1->exchange)) {
        http1_connection_refuse(http1, 503, "too many requests are open; try again later");
        return;
    }
    if (http1_is_open(http1) && http1->state == STATE_READING &&
        !http1_limit_body(parser, http1->exchange.body_max))
        http1_connection_refuse(http1, 413, "the body is too large");
}

static void http1_deliver_request(struct http1_connection *http1) {
    struct connection_host *host = http1->host;
    struct exchange *exchange = &http1->exchange;
    uint64_t id = exchange->id;
    if (!exchange->body_piece) {
        exchange->body = http1->parser.body.data;
        exchange->n_body = http1->parser.body.n;
    }
    exchange->received_ns = loop_now_ns(host->loop);
    http1_connection_enter(http1, STATE_BUSY);
    host->calls.handler(host->calls.user, exchange);
    if (exchange->body_piece && exchange_find(host->exchanges, id))
        exchange->body_piece(exchange, http1->parser.body.data, http1->parser.body.n, true);
}

/* A whole request, or the rest of one that was answered at its head. */
static void http1_complete_request(struct http1_connection *http1) {
    if (http1->state != STATE_SKIP)
        http1_deliver_request(http1);
    else if (http1->host->draining)
        connection_linger(http1->connection);
    else
        http1_connection_enter(http1, STATE_ENDED);
}

/* The parser found a mistake; but who has its answer gets no second one. */
static void http1_reject(struct http1_connection *http1) {
    if (http1->state == STATE_SKIP)
        connection_linger(http1->connection);
    else
        http1_connection_refuse(http1, http1->parser.status, http1->parser.reason);
}

/* All bodies together have a bound: what came of this one counts from its arrival on. */
static void http1_charge_bytes(struct http1_connection *http1) {
    struct connection_host *host = http1->host;
    if (http1->state != STATE_READING || http1->exchange.id == 0 ||
        exchanges_charge_body(host->exchanges, &http1->exchange, http1->parser.body.n))
        return;
    host->counts.n_crowded++;
    http1_connection_refuse(http1, 503,
                            "the bodies of all requests together are too large; try again later");
}

/* After a reply's end, and once no caller can look at the request any more. */
static void http1_read_next(struct http1_connection *http1) {
    if (http1->state != STATE_ENDED || !http1_has_room(http1))
        return;
    http1_reset(&http1->parser);
    http1->forget = false;
    http1_connection_enter(http1, STATE_READING);
}

/* While all drains: no client waits for an answer here. On a connection that is new its first bytes are
 * on their way. */
static void http1_end_if_drained(struct http1_connection *http1) {
    const struct connection_host *host = http1->host;
    if (host->draining && connection_is_idle(http1->connection) &&
        (http1->used ||
         host_passed(loop_now_ns(host->loop), http1->since_ns, host->config.first_ns)))
        connection_close(http1->connection);
}

static bool http1_reads(const struct http1_connection *http1) {
    return http1_is_open(http1) && (http1->state == STATE_READING || http1->state == STATE_SKIP);
}

/* The client has shown that it knows: by the beginning of HTTP/2's preface, which is eaten. Only as
 * the first bytes of a connection does it count. From here on our state is gone. */
static void conn_speak_http2(struct http1_connection *http1, const char *bytes, size_t n) {
    static const char eaten[] = "PRI * HTTP/2.0\r\n\r\n";
    struct connection *connection = http1->connection;
    if (http1->used || http1->host->config.one_request) {
        connection_linger(connection);
    } else if (connection_become(connection, &http2_protocol) == STATUS_OK) {
        http2_protocol.data(connection, eaten, sizeof eaten - 1);
        if (n > 0)
            http2_protocol.data(connection, bytes, n);
    }
}

/* Parses and delivers until the bytes are used or a request is out. Answers how many were used. */
static size_t http1_feed_parser(struct http1_connection *http1, const char *bytes, size_t n) {
    size_t at = 0;
    enum http1_event event = HTTP1_MORE;
    while (at < n || event == HTTP1_HEAD) {
        size_t used = 0;
        http1_read_next(http1);
        if (!http1_reads(http1))
            break;
        bool fresh = !http1_started(&http1->parser);
        event = http1_feed(&http1->parser, bytes + at, n - at, &used);
        if (fresh || http1_has_head(&http1->parser)) /* a head has one time for all of it */
            http1->since_ns = loop_now_ns(http1->host->loop);
        at += used;
        http1_charge_bytes(http1);
        if (!http1_reads(http1))
            break;
        if (event == HTTP1_HEAD) {
            http1_connection_begin(http1);
        } else if (event == HTTP1_REQUEST) {
            http1_complete_request(http1);
        } else if (event == HTTP1_CONTINUE) {
            connection_send(http1->connection, "HTTP/1.1 100 Continue\r\n\r\n", 25);
        } else if (event == HTTP1_PREFACE) {
            conn_speak_http2(http1, bytes + at, n - at);
            return n;
        } else if (event == HTTP1_BAD) {
            http1_reject(http1);
        }
    }
    return at;
}

/* Keeps what a client sent ahead; when that is too much, it has to wait. */
static void http1_keep_bytes(struct http1_connection *http1, const char *bytes, size_t n) {
    buf_append(&http1->input, bytes, n);
    if (buf_status(&http1->input) != STATUS_OK)
        connection_close(http1->connection);
    else if (http1->input.n > http1->host->config.pipeline_bytes_max)
        stream_pause(http1->connection->stream, true);
}

static enum status http1_conn_open(struct connection *connection) {
    struct http1_connection *http1 = connection->state;
    http1->connection = connection;
    http1->host = connection->host;
    http1_init(&http1->parser, &http1->host->config.limits);
    http1_connection_enter(http1, STATE_READING);
    return STATUS_OK;
}

/* TLS has agreed on a protocol by the first byte that comes. */
static bool wants_http2(struct http1_connection *http1) {
    if (http1->asked)
        return false;
    http1->asked = true;
    const char *name = stream_protocol(http1->connection->stream);
    return name && strcmp(name, "h2") == 0;
}

static void http1_conn_data(struct connection *connection, const char *bytes, size_t n) {
    struct http1_connection *http1 = connection->state;
    if (wants_http2(http1)) {
        if (connection_become(connection, &http2_protocol) == STATUS_OK)
            http2_protocol.data(connection, bytes, n);
        return;
    }
    size_t used = http1->input.n > 0 ? 0 : http1_feed_parser(http1, bytes, n);
    if (used < n && http1_is_open(http1))
        http1_keep_bytes(http1, bytes + used, n - used);
}

static void http1_conn_drained(struct connection *connection) {
    struct http1_connection *http1 = connection->state;
    bool refused = http1->refused;
    http1->refused = false;
    if (http1->state == STATE_ENDED || http1->host->draining)
        connection_kick(connection);
    if (refused && http1->state == STATE_BUSY && http1->exchange.drained)
        http1->exchange.drained(&http1->exchange);
}

static void http1_conn_gone(struct connection *connection) {
    struct http1_connection *http1 = connection->state;
    if (http1->state == STATE_BUSY)
        http1->host->counts.n_gone++;
}

static void http1_forget_request(struct http1_connection *http1) {
    http1->forget = false;
    exchanges_forget_request(http1->host->exchanges, &http1->exchange);
    http1_reset(&http1->parser);
}

/* Reads on after a reply's end. Doing it here and not in exchange_end() keeps a client that
 * pipelines from growing our stack. */
static void http1_conn_turn(struct connection *connection) {
    struct http1_connection *http1 = connection->state;
    http1_read_next(http1);
    if (http1->forget && http1->state == STATE_BUSY)
        http1_forget_request(http1);
    if (http1->input.n == 0)
        http1_end_if_drained(http1); /* its reply was out, but not yet followed by reading on */
    if (http1->state != STATE_READING || http1->input.n == 0)
        return;
    size_t used = http1_feed_parser(http1, http1->input.data, http1->input.n);
    if (!http1_is_open(http1))
        return;
    buf_consume(&http1->input, used);
    if (http1->input.n == 0)
        buf_fini(&http1->input);
    if (http1->input.n <= http1->host->config.pipeline_bytes_max)
        stream_pause(connection->stream, false);
}

static bool http1_body_is_late(const struct http1_connection *http1, uint64_t now_ns) {
    return host_body_is_late(http1->host, now_ns, http1->began_ns, http1->since_ns,
                             http1->parser.body_seen);
}

static void http1_conn_check_time(struct connection *connection, uint64_t now_ns) {
    struct http1_connection *http1 = connection->state;
    const struct listener_config *config = &http1->host->config;
    if (stream_pending(connection->stream) > 0 || !http1_reads(http1))
        return;
    if (!http1->used)
        http1_end_if_drained(http1);
    if (!http1_is_open(http1))
        return;
    if (!http1_started(&http1->parser)) {
        if (host_passed(now_ns, http1->since_ns, config->idle_ns))
            connection_close(connection);
    } else if (http1_has_head(&http1->parser)
                   ? http1_body_is_late(http1, now_ns)
                   : host_passed(now_ns, http1->since_ns, config->head_ns)) {
        http1->host->counts.n_timeouts++;
        if (http1->state == STATE_SKIP)
            connection_close(connection);
        else
            http1_connection_refuse(http1, 408, "the request did not arrive in time");
    }
}

static bool http1_conn_is_idle(const struct connection *connection) {
    const struct http1_connection *http1 = connection->state;
    return http1->state == STATE_READING && !http1_started(&http1->parser);
}

/* Who is being answered is closed with its reply. */
static void http1_conn_drain(struct connection *connection) {
    http1_end_if_drained(connection->state);
}

static void http1_conn_close(struct connection *connection) {
    struct http1_connection *http1 = connection->state;
    exchanges_lose(http1->host->exchanges, &http1->exchange);
}

static void http1_conn_fini(struct connection *connection) {
    struct http1_connection *http1 = connection->state;
    http1_fini(&http1->parser);
    buf_fini(&http1->input);
}

const struct protocol http1_protocol = {
    .state_size = sizeof(struct http1_connection),
    .open = http1_conn_open,
    .data = http1_conn_data,
    .drained = http1_conn_drained,
    .gone = http1_conn_gone,
    .turn = http1_conn_turn,
    .check_time = http1_conn_check_time,
    .is_idle = http1_conn_is_idle,
    .drain = http1_conn_drain,
    .close = http1_conn_close,
    .fini = http1_conn_fini,
};
