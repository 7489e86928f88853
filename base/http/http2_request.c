#include "base/http/http2_request.h"

#include "base/checked.h"
#include "base/http/grpc.h"
#include "base/http/http2_reply.h"
#include "base/http/target.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FIELD_OVERHEAD 32u /* RFC 9113, 6.5.2 */

bool http2_request_bad(struct http2_stream *stream, unsigned status, const char *reason) {
    if (stream->bad_status == 0) {
        stream->bad_status = status;
        stream->bad_reason = reason;
    }
    return false;
}

/* Where the value of that pseudo field is kept; NULL: it is not of use here (":scheme"). */
static uint32_t *http2_place_of_pseudo_field(struct http2_stream *stream, const char *name,
                                             size_t n) {
    static const struct {
        const char *name;
        size_t offset;
    } places[] = {
        {":method", offsetof(struct http2_stream, method_at)},
        {":path", offsetof(struct http2_stream, path_at)},
        {":authority", offsetof(struct http2_stream, host_at)},
    };
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++)
        if (strlen(places[i].name) == n && memcmp(places[i].name, name, n) == 0)
            return (uint32_t *)(void *)((char *)stream + places[i].offset);
    return NULL;
}

void http2_request_field(struct http2_stream *stream, const char *name, size_t n_name,
                         const char *value, size_t n_value) {
    const struct http1_limits *limits = &stream->http2->host->config.limits;
    bool pseudo = n_name > 0 && name[0] == ':';
    stream->is_grpc |=
        n_name == 12 && memcmp(name, "content-type", n_name) == 0 && grpc_is_type(value);
    stream->head_bytes += n_name + n_value + FIELD_OVERHEAD;
    if (stream->head_bytes > limits->head_bytes)
        http2_request_bad(stream, 431, "the head is too large");
    else if (n_name + n_value > limits->line_bytes)
        http2_request_bad(stream, 431, "a line of the head is too long");
    else if (!pseudo && stream->n_fields == limits->n_fields)
        http2_request_bad(stream, 431, "there are too many header fields");
    else if (memchr(value, 0, n_value))
        http2_request_bad(stream, 400, "the head holds a NUL byte");
    if (stream->bad_status != 0)
        return;
    buf_append(&stream->text, name, n_name);
    buf_putc(&stream->text, 0);
    uint32_t *place = pseudo ? http2_place_of_pseudo_field(stream, name, n_name) : NULL;
    if (place)
        *place = (uint32_t)stream->text.n;
    buf_append(&stream->text, value, n_value);
    buf_putc(&stream->text, 0);
    stream->n_fields += !pseudo;
}

/* Puts the fields into an array, the authority among them as the Host field it stands for. */
static bool http2_point_request_fields(struct http2_stream *stream) {
    stream->fields = calloc(stream->n_fields + 1, sizeof *stream->fields);
    if (!stream->fields || buf_status(&stream->text) != STATUS_OK)
        return http2_request_bad(stream, 503, "out of memory");
    unsigned n = 0;
    if (stream->host_at > 0)
        stream->fields[n++] = (struct header){"host", stream->text.data + stream->host_at};
    for (const char *at = stream->text.data; at < stream->text.data + stream->text.n;) {
        const char *value = at + strlen(at) + 1;
        if (*at != ':')
            stream->fields[n++] = (struct header){at, value};
        at = value + strlen(value) + 1;
    }
    stream->n_fields = n;
    stream->exchange.headers = stream->fields;
    stream->exchange.n_headers = n;
    return true;
}

/* All values of a host, which may come twice: as the authority and as a field. */
static bool http2_check_host(struct http2_stream *stream) {
    const char *host = NULL;
    for (unsigned i = 0; i < stream->n_fields; i++) {
        if (strcmp(stream->fields[i].name, "host") != 0)
            continue;
        if (host && strcasecmp(host, stream->fields[i].value) != 0)
            return http2_request_bad(stream, 400, "there are two Host fields");
        host = stream->fields[i].value;
    }
    if (!host)
        return http2_request_bad(stream, 400,
                                 "the request has neither an authority nor a Host field");
    return target_is_host(host) || http2_request_bad(stream, 400, "the Host field is not a host");
}

static bool http2_check_target(struct http2_stream *stream) {
    struct exchange *exchange = &stream->exchange;
    struct target target;
    exchange->method = stream->text.data + stream->method_at;
    if (strcmp(exchange->method, "CONNECT") == 0)
        return http2_request_bad(stream, 501, target_no_proxy);
    const char *reason = target_read(stream->text.data + stream->path_at,
                                     strcmp(exchange->method, "OPTIONS") == 0, &target);
    if (reason)
        return http2_request_bad(stream, 400, reason);
    exchange->path = target.path;
    exchange->query = target.query;
    exchange->path_as_sent = target.as_sent;
    return true;
}

/* *length: what the head announces; UINT64_MAX: nothing. nghttp2 has checked that it is a number,
 * and will compare it with what comes. */
static bool http2_check_length(struct http2_stream *stream, uint64_t *length) {
    const char *text = exchange_header(&stream->exchange, "content-length");
    uint64_t n = 0;
    *length = UINT64_MAX;
    if (!text)
        return true;
    for (; *text >= '0' && *text <= '9'; text++)
        if (!checked_mul(n, 10, &n) || !checked_add(n, (uint64_t)(*text - '0'), &n))
            n = UINT64_MAX - 9;
    *length = n;
    return n <= stream->http2->host->config.limits.body_bytes ||
           http2_request_bad(stream, 413, "the body is too large");
}

static bool http2_check_expectation(struct http2_stream *stream, bool *expects) {
    const char *text = exchange_header(&stream->exchange, "expect");
    *expects = text != NULL;
    return !text || strcasecmp(text, "100-continue") == 0 ||
           http2_request_bad(stream, 417, "no expectation but 100-continue is met");
}

static void http2_deliver_request(struct http2_stream *stream) {
    struct connection_host *host = stream->http2->host;
    stream->state = HTTP2_OUT;
    stream->exchange.received_ns = loop_now_ns(host->loop);
    host->calls.handler(host->calls.user, &stream->exchange);
}

/* Every check of the head; *length and *expects are what it says of the body. */
static bool http2_check_head(struct http2_stream *stream, uint64_t *length, bool *expects) {
    return stream->bad_status == 0 && http2_point_request_fields(stream) &&
           http2_check_target(stream) && http2_check_host(stream) &&
           http2_check_length(stream, length) && http2_check_expectation(stream, expects);
}

bool http2_request_head(struct http2_stream *stream) {
    struct connection_host *host = stream->http2->host;
    struct exchange *exchange = &stream->exchange;
    uint64_t length;
    bool expects;
    stream->since_ns = stream->began_ns = loop_now_ns(host->loop);
    *exchange = (struct exchange){.protocol = EXCHANGE_HTTP2,
                                  .body = "",
                                  .body_max = host->config.limits.body_bytes,
                                  .body_buf = &stream->body,
                                  .request_id = stream->request_id,
                                  .received_ns = stream->since_ns,
                                  .ops = &http2_ops,
                                  .n_watches = &stream->http2->connection->n_watches};
    stream->head_only =
        stream->method_at > 0 && strcmp(stream->text.data + stream->method_at, "HEAD") == 0;
    bool good = http2_check_head(stream, &length, &expects);
    host_request_id(host, exchange_header(exchange, "x-request-id"), stream->request_id);
    if (!good) {
        http2_refuse(stream, stream->bad_status, stream->bad_reason);
        return true;
    }
    if (exchanges_add(host->exchanges, exchange) != STATUS_OK)
        return false;
    stream->state = HTTP2_BODY;
    buf_init(&stream->body, host->config.limits.body_bytes);
    host->counts.n_requests++;
    if (host->calls.gate)
        host->calls.gate(host->calls.user, exchange);
    if (exchange->id != 0 && !exchanges_may_stay(exchange)) {
        exchanges_remove(host->exchanges, exchange);
        return false;
    }
    if (stream->state != HTTP2_BODY)
        return true;
    if (length != UINT64_MAX && length > exchange->body_max)
        http2_refuse(stream, 413, "the body is too large");
    else if (expects && !stream->whole)
        http2_send_continue(stream);
    if (stream->state == HTTP2_BODY && exchange->body_piece)
        http2_deliver_request(stream);
    return true;
}

void http2_request_body(struct http2_stream *stream, const char *bytes, size_t n) {
    struct connection_host *host = stream->http2->host;
    struct exchange *exchange = &stream->exchange;
    if (stream->state == HTTP2_OUT && exchange->body_piece && exchange->id != 0)
        exchange->body_piece(exchange, bytes, n, false);
    if (stream->state != HTTP2_BODY)
        return;
    stream->body_seen += n;
    stream->since_ns = loop_now_ns(host->loop);
    if (stream->body_seen > exchange->body_max) {
        http2_refuse(stream, 413, "the body is too large");
        return;
    }
    buf_append(&stream->body, bytes, n);
    if (buf_status(&stream->body) != STATUS_OK) {
        http2_refuse(stream, 503, "out of memory");
    } else if (!exchanges_charge_body(host->exchanges, exchange, stream->body.n)) {
        host->counts.n_crowded++;
        http2_refuse(stream, 503,
                     "the bodies of all requests together are too large; try again later");
    }
}

void http2_request_end(struct http2_stream *stream) {
    struct exchange *exchange = &stream->exchange;
    if (stream->state == HTTP2_OUT && exchange->body_piece && exchange->id != 0)
        exchange->body_piece(exchange, "", 0, true);
    if (stream->state != HTTP2_BODY)
        return;
    buf_append(&stream->body, "", 0);
    exchange->body = stream->body.data ? stream->body.data : "";
    exchange->n_body = stream->body.n;
    http2_deliver_request(stream);
}

void http2_request_forget(struct http2_stream *stream) {
    stream->http2->kept_bytes -= stream->n_kept;
    stream->n_kept = 0;
    exchanges_forget_request(stream->http2->host->exchanges, &stream->exchange);
    free(stream->fields);
    stream->fields = NULL;
    stream->n_fields = 0;
    buf_fini(&stream->text);
    buf_fini(&stream->body);
}
