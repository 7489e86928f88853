#include "base/http/http2_reply.h"

#include "base/assert.h"
#include "base/http/grpc.h"
#include "base/net/stream.h"

#include <stdio.h>
#include <string.h>

#define FIELDS_MAX 40u /* of one reply or its trailers; all are written by us */
#define SOCKET_BYTES                                                                               \
    (64u << 10)           /* queued for the socket: more waits in the streams, where the
                                     * next frame is still chosen fairly */
#define KEEP_BYTES  1024u /* an output buffer up to this size is kept when it is empty */
#define TOTAL_TIMES 4u    /* output_bytes_max, for all streams of a connection */
#define SHARE_TIMES 3u    /* reply_bytes_share, for all streams of a connection */

static struct http2_stream *http2_of(const struct exchange *exchange) {
    return list_entry(exchange, struct http2_stream, exchange);
}

static void http2_put_header_name(struct buf *out, const char *name) {
    size_t at = out->n;
    buf_puts(out, name);
    for (; at < out->n; at++)
        if (out->data[at] >= 'A' && out->data[at] <= 'Z')
            out->data[at] |= 0x20;
}

/* Fields on their way to nghttp2, which copies them. */
struct fields {
    nghttp2_nv nv[FIELDS_MAX];
    size_t at[FIELDS_MAX]; /* where name and value begin in text */
    size_t n;
    struct buf *text; /* borrowed */
};

static void http2_add_field(struct fields *fields, const char *name, const char *value) {
    ASSERT(fields->n < FIELDS_MAX);
    size_t i = fields->n++;
    fields->at[i] = fields->text->n;
    http2_put_header_name(fields->text, name);
    fields->nv[i] = (nghttp2_nv){.namelen = fields->text->n - fields->at[i]};
    host_put_value(fields->text, value);
    fields->nv[i].valuelen = fields->text->n - fields->at[i] - fields->nv[i].namelen;
}

/* False: out of memory. */
static bool http2_point_fields(struct fields *fields) {
    for (size_t i = 0; i < fields->n; i++) {
        fields->nv[i].name = (uint8_t *)fields->text->data + fields->at[i];
        fields->nv[i].value = fields->nv[i].name + fields->nv[i].namelen;
    }
    return buf_status(fields->text) == STATUS_OK;
}

void http2_count_output(struct http2_stream *stream, size_t more, size_t less) {
    struct http2_connection *http2 = stream->http2;
    http2->out_bytes += more - less;
    if (!stream->is_reply)
        return;
    size_t share = http2->host->config.reply_bytes_share, pending = http2_stream_pending(stream);
    size_t n = pending < share ? pending : share;
    http2->reply_bytes += n - stream->n_shared;
    stream->n_shared = n;
}

static void http2_drop_own_output(struct http2_stream *stream) {
    size_t n = http2_stream_pending(stream);
    buf_fini(&stream->out);
    stream->sent = 0;
    http2_count_output(stream, 0, n);
}

void http2_drop_output(struct http2_connection *http2) {
    list_each(link, &http2->streams) {
        http2_drop_own_output(list_entry(link, struct http2_stream, link));
    }
}

bool http2_has_room(const struct http2_connection *http2) {
    const struct connection_host *host = http2->host;
    return http2->reply_bytes == 0 ||
           (http2->reply_bytes < SHARE_TIMES * host->config.reply_bytes_share &&
            !exchanges_output_is_full(host->exchanges));
}

void http2_reset(struct http2_stream *stream, uint32_t code) {
    stream->state = HTTP2_ENDED;
    http2_drop_own_output(stream);
    stream->http2->failed |=
        nghttp2_submit_rst_stream(stream->http2->session, NGHTTP2_FLAG_NONE, stream->id, code) != 0;
    connection_kick(stream->http2->connection);
}

static void http2_submit_trailers(struct http2_stream *stream) {
    nghttp2_nv nv[FIELDS_MAX];
    char *at = stream->trailers.data;
    for (unsigned i = 0; i < stream->n_trailers; i++) {
        size_t n_name = strlen(at), n_value = strlen(at + n_name + 1);
        nv[i] = (nghttp2_nv){(uint8_t *)at, (uint8_t *)at + n_name + 1, n_name, n_value,
                             NGHTTP2_NV_FLAG_NONE};
        at += n_name + n_value + 2;
    }
    stream->http2->failed |=
        nghttp2_submit_trailer(stream->http2->session, stream->id, nv, stream->n_trailers) != 0;
}

/* nghttp2 asks for at most `room` bytes: the windows and a frame hold no more. */
static ssize_t http2_provide_body(nghttp2_session *session, int32_t id, uint8_t *bytes, size_t room,
                                  uint32_t *flags, nghttp2_data_source *source, void *user) {
    struct http2_stream *stream = source->ptr;
    size_t pending = http2_stream_pending(stream);
    size_t n = pending < room ? pending : room;
    (void)session;
    (void)id;
    (void)bytes;
    (void)user;
    if (n == 0 && !stream->complete) {
        stream->waits = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (n == pending && stream->complete) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (stream->n_trailers > 0) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            http2_submit_trailers(stream);
        }
    }
    return (ssize_t)n;
}

int http2_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t n,
                    nghttp2_data_source *source, void *user) {
    struct http2_connection *http2 = user;
    struct http2_stream *stream = source->ptr;
    (void)session;
    ASSERT(n <= http2_stream_pending(stream) && frame->data.padlen == 0);
    if (stream_pending(http2->connection->stream) >= SOCKET_BYTES)
        return NGHTTP2_ERR_WOULDBLOCK;
    connection_send(http2->connection, head, 9);
    if (n == 0)
        return 0;
    connection_send(http2->connection, stream->out.data + stream->sent, n);
    stream->sent += n;
    http2_count_output(stream, 0, n);
    stream->progress_ns = loop_now_ns(http2->host->loop);
    if (http2_stream_pending(stream) > 0)
        return 0;
    stream->sent = 0;
    if (stream->out.size > KEEP_BYTES)
        buf_fini(&stream->out);
    else
        buf_clear(&stream->out);
    return 0;
}

static char status_digit(unsigned number) {
    return (char)('0' + number % 10);
}

/* Queues the head of a reply. With `body` its output follows, else it is all. */
static void http2_submit_head(struct http2_stream *stream, const struct exchange_reply *reply,
                              const char *length, bool body) {
    struct http2_connection *http2 = stream->http2;
    struct fields fields;
    fields.n = 0;
    fields.text = &http2->host->scratch;
    buf_clear(fields.text);
    const char status[] = {status_digit(reply->status / 100), status_digit(reply->status / 10),
                           status_digit(reply->status), 0};
    http2_add_field(&fields, ":status", status);
    http2_add_field(&fields, "date", host_date(http2->host));
    if (reply->content_type)
        http2_add_field(&fields, "content-type", reply->content_type);
    if (length)
        http2_add_field(&fields, "content-length", length);
    http2_add_field(&fields, "x-request-id", stream->request_id);
    /* It never comes again: in HPACK's table it would take the place of what does. */
    fields.nv[fields.n - 1].flags = NGHTTP2_NV_FLAG_NO_INDEX;
    for (unsigned i = 0; i < reply->n_headers; i++)
        http2_add_field(&fields, reply->headers[i].name, reply->headers[i].value);
    nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = http2_provide_body};
    stream->answered = true;
    if (!http2_point_fields(&fields) ||
        nghttp2_submit_response(http2->session, stream->id, fields.nv, fields.n,
                                body ? &provider : NULL) != 0)
        http2->failed = true;
    connection_kick(http2->connection);
}

static void http2_end_exchange(struct http2_stream *stream) {
    stream->state = HTTP2_ENDED;
    stream->complete = true;
    if (stream->exchange.id != 0)
        exchanges_remove(stream->http2->host->exchanges, &stream->exchange);
}

static void http2_tell_session(struct http2_stream *stream) {
    if (stream->waits) {
        stream->waits = false;
        if (nghttp2_session_resume_data(stream->http2->session, stream->id) != 0)
            stream->http2->failed = true;
    }
    connection_kick(stream->http2->connection);
}

/* False: out of memory; nothing was added. */
static bool http2_add_output(struct http2_stream *stream, const void *bytes, size_t n) {
    if (http2_stream_pending(stream) == 0)
        stream->progress_ns = loop_now_ns(stream->http2->host->loop);
    if (stream->sent > stream->out.n / 2) {
        buf_consume(&stream->out, stream->sent);
        stream->sent = 0;
    }
    buf_append(&stream->out, bytes, n);
    if (stream->out.failed) {
        stream->out.failed = false;
        return false;
    }
    http2_count_output(stream, n, 0);
    connection_account(stream->http2->connection);
    return true;
}

/* A body that is a buffer of the caller's moves, it is not copied. */
static bool http2_add_body(struct http2_stream *stream, const struct exchange_reply *reply) {
    stream->is_reply = true;
    if (!reply->body_buf)
        return http2_add_output(stream, reply->body, reply->n_body);
    stream->progress_ns = loop_now_ns(stream->http2->host->loop);
    stream->out = *reply->body_buf;
    stream->out.limit = 0;
    *reply->body_buf = (struct buf){0};
    http2_count_output(stream, stream->out.n, 0);
    connection_account(stream->http2->connection);
    return true;
}

/* Until the last byte of the body is out. */
static void http2_keep_trailers(struct http2_stream *stream, const struct header *trailers,
                                unsigned n_trailers) {
    ASSERT(n_trailers <= FIELDS_MAX);
    for (unsigned i = 0; i < n_trailers; i++) {
        http2_put_header_name(&stream->trailers, trailers[i].name);
        buf_putc(&stream->trailers, 0);
        host_put_value(&stream->trailers, trailers[i].value);
        buf_putc(&stream->trailers, 0);
    }
    stream->n_trailers = n_trailers;
    if (buf_status(&stream->trailers) != STATUS_OK)
        stream->http2->failed = true;
}

/* A stream may run for minutes, and a reply wait for its client: the memory of what it answers goes
 * once no caller sees it. */
static void http2_forget_request(struct http2_stream *stream) {
    stream->http2->n_forget += !stream->forget;
    stream->forget = true;
    connection_kick(stream->http2->connection);
}

static void http2_submit_reply(struct http2_stream *stream, const struct exchange_reply *reply) {
    size_t n = reply->body_buf ? reply->body_buf->n : reply->n_body;
    bool may = reply->status != 204 && reply->status != 304 && reply->status >= 200;
    bool body = may && n > 0 && !stream->head_only;
    char length[24];
    snprintf(length, sizeof length, "%zu", n);
    if (body && !http2_add_body(stream, reply)) {
        http2_reset(stream, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    if (body)
        http2_keep_trailers(stream, reply->trailers, reply->n_trailers);
    http2_submit_head(stream, reply, may && n > 0 ? length : NULL, body);
    http2_end_exchange(stream);
    http2_forget_request(stream);
}

static enum status http2_exch_reply(struct exchange *exchange, const struct exchange_reply *reply) {
    struct http2_stream *stream = http2_of(exchange);
    struct connection_host *host = stream->http2->host;
    size_t n = reply->body_buf ? reply->body_buf->n : reply->n_body;
    if (stream->head_only || exchanges_may_reply(host->exchanges, n)) {
        http2_submit_reply(stream, reply);
    } else {
        host->counts.n_unread++;
        http2_refuse(stream, 503, host_output_is_full);
    }
    return STATUS_OK;
}

/* What an HTTP status of host_refusal() is in gRPC (grpc/grpc, doc/statuscodes.md). */
static const char *grpc_status(unsigned status) {
    static const struct {
        unsigned http;
        const char *grpc;
    } rows[] = {
        {400, "3"},  /* INVALID_ARGUMENT */
        {408, "4"},  /* DEADLINE_EXCEEDED */
        {413, "8"},  /* RESOURCE_EXHAUSTED */
        {417, "3"},  /* INVALID_ARGUMENT */
        {431, "8"},  /* RESOURCE_EXHAUSTED */
        {501, "12"}, /* UNIMPLEMENTED */
        {503, "14"}, /* UNAVAILABLE */
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].http == status)
            return rows[i].grpc;
    return "13"; /* INTERNAL */
}

void http2_refuse(struct http2_stream *stream, unsigned status, const char *reason) {
    char text[256];
    stream->http2->host->counts.n_refused++;
    if (stream->is_grpc) {
        grpc_put_message(text, sizeof text, reason);
        const struct header headers[] = {{"grpc-status", grpc_status(status)},
                                         {"grpc-message", text}};
        const struct exchange_reply reply = {.status = 200,
                                             .content_type = GRPC_CONTENT_TYPE,
                                             .headers = headers,
                                             .n_headers = sizeof headers / sizeof *headers};
        http2_submit_reply(stream, &reply);
    } else {
        const struct exchange_reply reply = host_refusal(status, reason, text);
        http2_submit_reply(stream, &reply);
    }
}

void http2_send_continue(struct http2_stream *stream) {
    const nghttp2_nv nv = {(uint8_t *)":status", (uint8_t *)"100", 7, 3, NGHTTP2_NV_FLAG_NONE};
    stream->http2->failed |= nghttp2_submit_headers(stream->http2->session, NGHTTP2_FLAG_NONE,
                                                    stream->id, NULL, &nv, 1, NULL) != 0;
    connection_kick(stream->http2->connection);
}

static enum status http2_exch_begin(struct exchange *exchange, const struct exchange_reply *reply) {
    struct http2_stream *stream = http2_of(exchange);
    ASSERT(stream->state == HTTP2_OUT); /* a gate has no streams to answer with */
    http2_submit_head(stream, reply, NULL, true);
    http2_forget_request(stream);
    return STATUS_OK;
}

/* A stream is bounded, and all of a connection's together; but each may have its share of that, or
 * those whose windows are shut would silence the others. */
static bool http2_reply_has_room(const struct http2_stream *stream, size_t n) {
    const struct listener_config *config = &stream->http2->host->config;
    size_t own = http2_stream_pending(stream), bound = config->output_bytes_max;
    size_t total = TOTAL_TIMES * bound, share = total / config->n_streams_max;
    if (own == 0) /* others' output is no reason: who reads gets his tokens */
        return true;
    if (own > STREAM_FREE_BYTES && exchanges_output_is_full(stream->http2->host->exchanges))
        return false;
    if (n > bound - (own < bound ? own : bound))
        return false;
    return stream->http2->out_bytes + n <= total || own + n <= share;
}

static enum status http2_exch_write(struct exchange *exchange, const void *bytes, size_t n) {
    struct http2_stream *stream = http2_of(exchange);
    if (stream->head_only)
        return STATUS_OK;
    if (!http2_reply_has_room(stream, n)) {
        stream->http2->n_refused += !stream->refused;
        stream->refused = true;
        return STATUS_BUSY;
    }
    if (http2_add_output(stream, bytes, n))
        http2_tell_session(stream);
    else
        http2_reset(stream, NGHTTP2_INTERNAL_ERROR);
    return STATUS_OK;
}

static void http2_exch_end(struct exchange *exchange, const struct header *trailers,
                           unsigned n_trailers) {
    struct http2_stream *stream = http2_of(exchange);
    http2_keep_trailers(stream, trailers, n_trailers);
    http2_end_exchange(stream);
    http2_tell_session(stream);
}

static void http2_exch_abort(struct exchange *exchange) {
    struct http2_stream *stream = http2_of(exchange);
    exchange->gone = NULL; /* who aborts knows */
    exchanges_remove(stream->http2->host->exchanges, exchange);
    http2_reset(stream, NGHTTP2_INTERNAL_ERROR);
}

static size_t http2_exch_pending(const struct exchange *exchange) {
    return http2_stream_pending(http2_of(exchange));
}

const struct exchange_ops http2_ops = {http2_exch_reply, http2_exch_begin, http2_exch_write,
                                       http2_exch_end,   http2_exch_abort, http2_exch_pending};
