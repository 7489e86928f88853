#include "base/http/connection.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/stream.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define SKIP_MAX     65536u /* what is left of a refused request's body, to keep the connection */
#define LINGER_TIMES 5u     /* linger_ns, in all */

static struct connection *of(const struct exchange *exchange) {
    return list_entry(exchange, struct connection, exchange);
}

static const char *reason_phrase(unsigned status) {
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

static const char *date_now(struct connection_host *host) {
    int64_t now_s = clock_unix_s();
    if (host->date_s != now_s) {
        static const char days[] = "SunMonTueWedThuFriSat";
        static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
        time_t seconds = (time_t)now_s;
        struct tm tm;
        gmtime_r(&seconds, &tm);
        snprintf(host->date, sizeof host->date, "%.3s, %02d %.3s %d %02d:%02d:%02d GMT",
                 days + 3 * tm.tm_wday, tm.tm_mday, months + 3 * tm.tm_mon, tm.tm_year + 1900,
                 tm.tm_hour, tm.tm_min, tm.tm_sec);
        host->date_s = now_s;
    }
    return host->date;
}

static void put_header(struct buf *out, const char *name, const char *value) {
    buf_puts(out, name);
    buf_puts(out, ": ");
    for (; *value; value++) /* a value with a line break would be two headers */
        if ((unsigned char)*value >= ' ' && *value != 0x7f)
            buf_putc(out, *value);
    buf_puts(out, "\r\n");
}

static void send_bytes(struct connection *connection, const void *bytes, size_t n) {
    if (stream_write(connection->stream, bytes, n) == STATUS_OK)
        connection->host->counts.bytes_out += n;
    /* Else the stream has reported its end, or will: memory that is out ends it as a stall. */
}

static void send_buf(struct connection *connection, struct buf *bytes) {
    size_t n = bytes->n;
    if (stream_write_buf(connection->stream, bytes) == STATUS_OK)
        connection->host->counts.bytes_out += n;
}

/* Sends status line and fields; `length` is the framing: "Content-Length: N", or NULL for chunks
 * (and for HTTP/1.0 the end of the connection). */
static void send_head(struct connection *connection, const struct exchange_reply *reply,
                      const char *length) {
    struct buf *out = &connection->host->scratch;
    buf_clear(out);
    buf_printf(out, "HTTP/1.1 %u %s\r\nDate: %s\r\n", reply->status, reason_phrase(reply->status),
               date_now(connection->host));
    if (reply->content_type)
        put_header(out, "Content-Type", reply->content_type);
    if (length)
        buf_puts(out, length);
    else if (connection->chunked)
        buf_puts(out, "Transfer-Encoding: chunked\r\n");
    put_header(out, "x-request-id", connection->request_id);
    for (unsigned i = 0; i < reply->n_headers; i++)
        put_header(out, reply->headers[i].name, reply->headers[i].value);
    if (connection->last)
        buf_puts(out, "Connection: close\r\n");
    buf_puts(out, "\r\n");
    send_bytes(connection, out->data, out->n);
}

static void enter(struct connection *connection, enum connection_state state) {
    connection->state = state;
    connection->since_ns = loop_now_ns(connection->host->loop);
}

static void linger(struct connection *connection) {
    enter(connection, CONNECTION_LINGER);
    connection->n_discarded = 0;
    connection->began_ns = connection->since_ns;
    stream_pause(connection->stream, false);
    stream_shutdown(connection->stream);
}

/* The reply is complete: the exchange ends, the connection goes on or closes. */
static void end_exchange(struct connection *connection) {
    exchanges_remove(connection->host->exchanges, &connection->exchange);
    if (connection->last)
        linger(connection);
    else if (connection->state == CONNECTION_READING && !http1_is_done(&connection->http1))
        enter(connection, CONNECTION_SKIP);
    else
        enter(connection, CONNECTION_ENDED);
    loop_kick_add(connection->host->loop, &connection->kick);
}

static enum status conn_reply(struct exchange *exchange, const struct exchange_reply *reply) {
    struct connection *connection = of(exchange);
    char length[48] = "";
    connection->last |= connection->host->draining;
    if (connection->state == CONNECTION_READING &&
        !http1_discard_body(&connection->http1, SKIP_MAX))
        connection->last = true;
    if (reply->status != 204 && reply->status != 304 && reply->status >= 200)
        snprintf(length, sizeof length, "Content-Length: %zu\r\n",
                 reply->body_buf ? reply->body_buf->n : reply->n_body);
    send_head(connection, reply, length);
    if (!connection->head && length[0] && reply->body_buf)
        send_buf(connection, reply->body_buf);
    else if (!connection->head && length[0] && reply->n_body > 0)
        send_bytes(connection, reply->body, reply->n_body);
    end_exchange(connection);
    return STATUS_OK;
}

static enum status conn_begin(struct exchange *exchange, const struct exchange_reply *reply) {
    struct connection *connection = of(exchange);
    ASSERT(connection->state == CONNECTION_BUSY); /* a gate has no streams to answer with */
    connection->chunked = connection->http1.minor == 1;
    connection->last |= connection->host->draining || !connection->chunked;
    send_head(connection, reply, NULL);
    /* The prompt of a stream that may run for minutes: its memory goes once no caller sees it. */
    connection->forget = true;
    loop_kick_add(connection->host->loop, &connection->kick);
    return STATUS_OK;
}

static enum status conn_write(struct exchange *exchange, const void *bytes, size_t n) {
    struct connection *connection = of(exchange);
    size_t pending = stream_pending(connection->stream);
    size_t bound = connection->host->config.output_bytes_max;
    if (connection->head)
        return STATUS_OK;
    if (pending > 0 && n > bound - (pending < bound ? pending : bound)) {
        connection->refused = true;
        return STATUS_BUSY;
    }
    char size[24];
    int n_size = snprintf(size, sizeof size, "%zx\r\n", n);
    if (connection->chunked)
        send_bytes(connection, size, (size_t)n_size);
    send_bytes(connection, bytes, n);
    if (connection->chunked)
        send_bytes(connection, "\r\n", 2);
    return STATUS_OK;
}

/* Trailers are not sent: few clients of HTTP/1.1 look at them, and proxies drop them. */
static void conn_end(struct exchange *exchange, const struct header *trailers,
                     unsigned n_trailers) {
    struct connection *connection = of(exchange);
    (void)trailers;
    (void)n_trailers;
    if (connection->chunked && !connection->head)
        send_bytes(connection, "0\r\n\r\n", 5);
    end_exchange(connection);
}

static void conn_abort(struct exchange *exchange) {
    exchange->gone = NULL; /* who aborts knows */
    connection_close(of(exchange));
}

static size_t conn_pending(const struct exchange *exchange) {
    return stream_pending(of(exchange)->stream);
}

static const struct exchange_ops http1_ops = {conn_reply, conn_begin, conn_write,
                                              conn_end,   conn_abort, conn_pending};

/* Echoed as it came if it is short and printable: it goes into a header of ours, and into the log.
 */
static bool is_request_id(const char *id) {
    size_t n = strlen(id);
    for (size_t i = 0; i < n; i++)
        if (id[i] <= ' ' || id[i] >= 0x7f)
            return false;
    return n > 0 && n <= EXCHANGE_ID_MAX;
}

static void note_request_id(struct connection *connection) {
    const char *id = http1_find(&connection->http1, "x-request-id");
    if (id && is_request_id(id))
        snprintf(connection->request_id, sizeof connection->request_id, "%s", id);
    else
        snprintf(connection->request_id, sizeof connection->request_id, "req-%016llx",
                 (unsigned long long)random_next(&connection->host->random));
}

/* Answers in the parser's name, then closes: after a broken request nobody knows where the next
 * one begins. The reasons are constants of ours without quotes, so they need no escaping. */
static void refuse(struct connection *connection, unsigned status, const char *reason) {
    static const struct header later = {"Retry-After", "1"};
    char body[256], length[48];
    if (connection->exchange.id != 0)
        exchanges_remove(connection->host->exchanges, &connection->exchange);
    else /* its head was not seen whole */
        note_request_id(connection);
    snprintf(body, sizeof body,
             "{\"error\":{\"message\":\"%s\",\"type\":\"%s\",\"param\":null,\"code\":null}}",
             reason, status >= 500 ? "server_error" : "invalid_request_error");
    snprintf(length, sizeof length, "Content-Length: %zu\r\n", strlen(body));
    connection->last = true;
    connection->host->counts.n_refused++;
    send_head(connection,
              &(struct exchange_reply){.status = status,
                                       .content_type = "application/json",
                                       .headers = &later,
                                       .n_headers = status == 503},
              length);
    if (!connection->head)
        send_bytes(connection, body, strlen(body));
    linger(connection);
}

/* The head is complete: whoever has no business here is refused before a byte of a body is kept. */
static void begin(struct connection *connection) {
    struct connection_host *host = connection->host;
    struct http1 *http1 = &connection->http1;
    connection->exchange = (struct exchange){.protocol = EXCHANGE_HTTP1,
                                             .method = http1->method,
                                             .path = http1->path,
                                             .query = http1->query,
                                             .headers = http1->fields,
                                             .n_headers = http1->n_fields,
                                             .body = "",
                                             .body_max = http1->body_max,
                                             .body_buf = &http1->body,
                                             .request_id = connection->request_id,
                                             .received_ns = loop_now_ns(host->loop),
                                             .ops = &http1_ops};
    connection->head = strcmp(http1->method, "HEAD") == 0;
    connection->last = !http1->keep_alive || connection->host->config.one_request;
    connection->chunked = false;
    connection->began_ns = connection->exchange.received_ns;
    note_request_id(connection);
    enum status status = exchanges_add(host->exchanges, &connection->exchange);
    ASSERT(status == STATUS_OK); /* as many as connections, and each has at most one */
    host->counts.n_requests++;
    if (host->calls.gate)
        host->calls.gate(host->calls.user, &connection->exchange);
    if (connection->state == CONNECTION_READING &&
        !http1_limit_body(http1, connection->exchange.body_max))
        refuse(connection, 413, "the body is too large");
}

static void deliver(struct connection *connection) {
    struct connection_host *host = connection->host;
    connection->exchange.body = connection->http1.body.data;
    connection->exchange.n_body = connection->http1.body.n;
    connection->exchange.received_ns = loop_now_ns(host->loop);
    enter(connection, CONNECTION_BUSY);
    host->calls.handler(host->calls.user, &connection->exchange);
}

/* A whole request, or the rest of one that was answered at its head. */
static void complete(struct connection *connection) {
    if (connection->state != CONNECTION_SKIP)
        deliver(connection);
    else if (connection->host->draining)
        linger(connection);
    else
        enter(connection, CONNECTION_ENDED);
}

/* The parser found a mistake; but who has its answer gets no second one. */
static void reject(struct connection *connection) {
    if (connection->state == CONNECTION_SKIP)
        linger(connection);
    else
        refuse(connection, connection->http1.status, connection->http1.reason);
}

/* All bodies together have a bound: what came of this one counts from its arrival on. */
static void charge(struct connection *connection) {
    struct connection_host *host = connection->host;
    if (connection->state != CONNECTION_READING || connection->exchange.id == 0 ||
        exchanges_charge_body(host->exchanges, &connection->exchange, connection->http1.body.n))
        return;
    host->counts.n_crowded++;
    refuse(connection, 503, "the bodies of all requests together are too large; try again later");
}

/* After a reply's end, and once no caller can look at the request any more. */
static void read_next(struct connection *connection) {
    if (connection->state != CONNECTION_ENDED)
        return;
    http1_reset(&connection->http1);
    connection->forget = false;
    enter(connection, CONNECTION_READING);
}

/* Parses and delivers until the bytes are used or a request is out. Answers how many were used. */
static size_t feed(struct connection *connection, const char *bytes, size_t n) {
    size_t at = 0;
    enum http1_event event = HTTP1_MORE;
    while (at < n || event == HTTP1_HEAD) {
        size_t used = 0;
        read_next(connection);
        if (connection->state != CONNECTION_READING && connection->state != CONNECTION_SKIP)
            break;
        bool fresh = !http1_started(&connection->http1);
        event = http1_feed(&connection->http1, bytes + at, n - at, &used);
        if (fresh || http1_has_head(&connection->http1)) /* a head has one time for all of it */
            connection->since_ns = loop_now_ns(connection->host->loop);
        at += used;
        charge(connection);
        if (connection->state != CONNECTION_READING && connection->state != CONNECTION_SKIP)
            break;
        if (event == HTTP1_HEAD) {
            begin(connection);
        } else if (event == HTTP1_REQUEST) {
            complete(connection);
        } else if (event == HTTP1_CONTINUE) {
            send_bytes(connection, "HTTP/1.1 100 Continue\r\n\r\n", 25);
        } else if (event == HTTP1_PREFACE) {
            connection->host->counts.n_http2++;
            linger(connection);
        } else if (event == HTTP1_BAD) {
            reject(connection);
        }
    }
    return at;
}

/* Keeps what a client sent ahead; when that is too much, it has to wait. */
static void keep(struct connection *connection, const char *bytes, size_t n) {
    buf_append(&connection->input, bytes, n);
    if (buf_status(&connection->input) != STATUS_OK)
        connection_close(connection);
    else if (connection->input.n > connection->host->config.pipeline_bytes_max)
        stream_pause(connection->stream, true);
}

static void on_data(void *user, const char *bytes, size_t n) {
    struct connection *connection = user;
    connection->host->counts.bytes_in += n;
    if (connection->state == CONNECTION_LINGER) {
        connection->since_ns = loop_now_ns(connection->host->loop);
        connection->n_discarded += n;
        if (connection->n_discarded > connection->host->config.limits.body_bytes + SKIP_MAX)
            connection_close(connection);
        return;
    }
    size_t used = connection->input.n > 0 ? 0 : feed(connection, bytes, n);
    if (used < n && connection->state != CONNECTION_LINGER &&
        connection->state != CONNECTION_CLOSED)
        keep(connection, bytes + used, n - used);
}

static void on_drained(void *user) {
    struct connection *connection = user;
    bool refused = connection->refused;
    connection->refused = false;
    if (refused && connection->state == CONNECTION_BUSY && connection->exchange.drained)
        connection->exchange.drained(&connection->exchange);
}

static void on_gone(void *user, enum status status) {
    (void)status;
    struct connection *connection = user;
    if (connection->state == CONNECTION_BUSY)
        connection->host->counts.n_gone++;
    connection_close(connection);
}

static const struct stream_events events = {on_data, on_drained, on_gone};

/* Before the loop sleeps: frees what is closed, and reads on after a reply's end. Doing it here and
 * not in exchange_end() keeps a client that pipelines from growing our stack. */
static void on_kick(void *user) {
    struct connection *connection = user;
    if (connection->state == CONNECTION_CLOSED) {
        http1_fini(&connection->http1);
        buf_fini(&connection->input);
        connection->host->release(connection->host, connection);
        return;
    }
    read_next(connection);
    if (connection->forget && connection->state == CONNECTION_BUSY) {
        connection->forget = false;
        connection->exchange.headers = NULL;
        connection->exchange.n_headers = 0;
        connection->exchange.method = connection->exchange.path = connection->exchange.query = "";
        connection->exchange.body = "";
        connection->exchange.n_body = 0;
        exchanges_give_body(connection->host->exchanges, connection->exchange.n_charged);
        connection->exchange.n_charged = 0;
        http1_reset(&connection->http1);
    }
    if (connection->state != CONNECTION_READING || connection->input.n == 0)
        return;
    size_t used = feed(connection, connection->input.data, connection->input.n);
    if (connection->state == CONNECTION_LINGER || connection->state == CONNECTION_CLOSED)
        return;
    buf_consume(&connection->input, used);
    if (connection->input.n == 0)
        buf_fini(&connection->input);
    if (connection->input.n <= connection->host->config.pipeline_bytes_max)
        stream_pause(connection->stream, false);
}

enum status connection_open(struct connection *connection, struct connection_host *host, int fd) {
    TRY(stream_new(host->loop, fd, &events, connection, &connection->stream));
    connection->host = host;
    http1_init(&connection->http1, &host->config.limits);
    loop_kick_init(&connection->kick, on_kick, connection);
    enter(connection, CONNECTION_READING);
    return STATUS_OK;
}

void connection_close(struct connection *connection) {
    if (connection->state == CONNECTION_CLOSED)
        return;
    connection->state = CONNECTION_CLOSED;
    stream_close(connection->stream);
    if (connection->exchange.id != 0) {
        uint64_t id = connection->exchange.id;
        exchanges_remove(connection->host->exchanges, &connection->exchange);
        connection->exchange.id = id; /* to read; it finds nothing any more */
        if (connection->exchange.gone)
            connection->exchange.gone(&connection->exchange);
    }
    loop_kick_add(connection->host->loop, &connection->kick);
}

bool connection_is_idle(const struct connection *connection) {
    return connection->state == CONNECTION_READING && !http1_started(&connection->http1) &&
           stream_pending(connection->stream) == 0;
}

static bool passed(uint64_t now_ns, uint64_t since_ns, uint64_t limit_ns) {
    return now_ns > since_ns && now_ns - since_ns > limit_ns;
}

/* A body has a bound in all, one for each pause, and a rate, so that nobody holds memory by sending
 * a byte now and then. */
static bool body_is_late(const struct connection *connection, uint64_t now_ns) {
    const struct listener_config *config = &connection->host->config;
    if (passed(now_ns, connection->since_ns, config->body_ns) ||
        passed(now_ns, connection->began_ns, config->body_total_ns))
        return true;
    if (!passed(now_ns, connection->began_ns, config->body_grace_ns))
        return false;
    uint64_t elapsed_ms = (now_ns - connection->began_ns) / NS_PER_MS;
    return connection->http1.body_seen < config->body_rate * elapsed_ms / 1000;
}

void connection_check_time(struct connection *connection, uint64_t now_ns) {
    const struct listener_config *config = &connection->host->config;
    if (connection->state == CONNECTION_CLOSED)
        return;
    if (stream_pending(connection->stream) > 0) {
        if (passed(now_ns, stream_progress_ns(connection->stream), config->stall_ns)) {
            connection->host->counts.n_timeouts++;
            connection_close(connection);
        }
        return;
    }
    if (connection->state == CONNECTION_LINGER) {
        if (passed(now_ns, connection->since_ns, config->linger_ns) ||
            passed(now_ns, connection->began_ns, LINGER_TIMES * config->linger_ns))
            connection_close(connection);
        return;
    }
    if (connection->state != CONNECTION_READING && connection->state != CONNECTION_SKIP)
        return;
    if (!http1_started(&connection->http1)) {
        if (passed(now_ns, connection->since_ns, config->idle_ns))
            connection_close(connection);
    } else if (http1_has_head(&connection->http1)
                   ? body_is_late(connection, now_ns)
                   : passed(now_ns, connection->since_ns, config->head_ns)) {
        connection->host->counts.n_timeouts++;
        if (connection->state == CONNECTION_SKIP)
            connection_close(connection);
        else
            refuse(connection, 408, "the request did not arrive in time");
    }
}
