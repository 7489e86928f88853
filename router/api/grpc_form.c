/* gRPC's form: statuses in trailers, messages in frames. */
#include "base/http/exchange.h"
#include "base/http/grpc.h"
#include "router/api/grpc.h"

#include <stdio.h>
#include <string.h>

static bool grpc_form_takes(const char *content_type, bool is_strict) {
    (void)is_strict;
    return grpc_is_type(content_type);
}

/* All but a foreign content type or protocol are a 200 (grpc/grpc, doc/PROTOCOL-HTTP2.md, "Responses"). */
static void grpc_form_refuse(const struct api_error *error, struct dialect_refusal *refusal) {
    char *status = refusal->text;
    int n = snprintf(status, 8, "%d", errors_grpc(error));
    char *text = status + n + 1;
    int http = errors_http(error);
    refusal->http = http == 415 || http == 505 ? (unsigned)http : 200;
    grpc_put_message(text, sizeof refusal->text - (size_t)n - 1, error->error.text);
    refusal->headers[refusal->n_headers++] = (struct header){"grpc-status", status};
    refusal->headers[refusal->n_headers++] = (struct header){"grpc-message", text};
    if (error->code && strcmp(error->code, "unknown_compression") == 0)
        refusal->headers[refusal->n_headers++] =
            (struct header){"grpc-accept-encoding", GRPC_ACCEPT_ENCODING};
}

static const struct header stream_headers[] = {{"grpc-accept-encoding", GRPC_ACCEPT_ENCODING}};
static const struct header good[] = {{"grpc-status", "0"}};

const struct dialect_form grpc_form = {
    .content_type = GRPC_CONTENT_TYPE,
    .stream_type = GRPC_CONTENT_TYPE,
    .stream_headers = stream_headers,
    .n_stream_headers = 1,
    .needs_http2 = true,
    .trailers = good,
    .n_trailers = 1,
    .takes = grpc_form_takes,
    .refuse = grpc_form_refuse,
};

enum status grpc_read_headers(const struct exchange *exchange, struct ask *ask,
                              struct api_error *error) {
    const char *timeout = exchange_header(exchange, "grpc-timeout");
    const char *encoding = exchange_header(exchange, "grpc-encoding");
    if (timeout && !grpc_timeout(timeout, &ask->timeout_ns))
        return error_set(&error->error, STATUS_INVALID, "grpc-timeout: `%.40s` is not a timeout",
                         timeout);
    if (timeout && ask->timeout_ns == 0)
        return error_set(&error->error, STATUS_TIMEOUT, "The deadline has passed already");
    snprintf(ask->encoding, sizeof ask->encoding, "%s", encoding ? encoding : "");
    return STATUS_OK;
}

/* Unpacking takes memory of the arena; nothing is given back before the whole is. */
static void *grpc_form_take(void *arena, size_t n) {
    return arena_alloc(arena, n);
}

static void grpc_form_give(void *arena, void *bytes) {
    (void)arena, (void)bytes;
}

enum status grpc_unpack(const struct span *body, const char *encoding,
                        const ProtobufCMessageDescriptor *type, struct arena *arena,
                        ProtobufCMessage **message, struct api_error *error) {
    struct buf room;
    struct span bytes;
    buf_init(&room, 0);
    enum status status = grpc_take_only(*body, encoding && *encoding ? encoding : NULL,
                                        GRPC_MESSAGE_MAX, &room, &bytes, &error->error);
    if (status == STATUS_LIMIT)
        error->code = "body_too_large";
    if (status == STATUS_UNSUPPORTED)
        error->code = "unknown_compression";
    if (status == STATUS_INVALID)
        error->code = "not_one_message";
    if (status == STATUS_OK) {
        ProtobufCAllocator allocator = {grpc_form_take, grpc_form_give, arena};
        *message =
            protobuf_c_message_unpack(type, &allocator, bytes.n, (const uint8_t *)bytes.bytes);
        /* Many empty messages take far more than their bytes. */
        bool is_full = !*message && !arena_alloc(arena, 4096);
        if (is_full) {
            error->code = "body_too_large";
            status = error_set(&error->error, STATUS_LIMIT, "the message has too many parts");
        } else if (!*message) {
            status =
                error_set(&error->error, STATUS_INVALID, "the message is not a %s", type->name);
        }
    }
    buf_fini(&room);
    return status;
}

struct sink {
    ProtobufCBuffer base;
    struct buf *out;
};

static void grpc_form_append(ProtobufCBuffer *base, size_t n, const uint8_t *bytes) {
    buf_append(((struct sink *)base)->out, bytes, n);
}

void grpc_put(const ProtobufCMessage *message, struct buf *out) {
    struct sink sink = {{grpc_form_append}, out};
    size_t begun = grpc_begin(out);
    protobuf_c_message_pack_to_buffer(message, &sink.base);
    grpc_end(out, begun);
}
