/* Pieces that several messages share, and the checks of what comes in. */
#include "proto/codec_body.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/utf8.h"
#include "proto/codec_head.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOGPROB_LEAST -9999.0f

enum status encoder_pack(struct encoder *encoder, const ProtobufCMessage *body) {
    struct codec *codec = encoder->codec;
    size_t n = CODEC_HEADER_BYTES + protobuf_c_message_get_packed_size(body);
    if (n > MESSAGE_CONTROL_MAX)
        return STATUS_LIMIT;
    if (n > codec->buffer_size) {
        uint8_t *grown = realloc(codec->buffer, 2 * n);
        if (!grown)
            return STATUS_NOMEM;
        codec->buffer = grown;
        codec->buffer_size = 2 * n;
    }
    uint8_t *head = codec->buffer;
    head_put_u16(head, HEAD_MAGIC);
    head[2] = PROTO_MAJOR;
    head[3] = encoder->type;
    head_put_u16(head + 4, encoder->frames->n_raw > 0 ? HEAD_FLAG_RAW : 0);
    head_put_u16(head + 6, CODEC_HEADER_BYTES);
    head_put_u64(head + 8, encoder->session);
    head_put_u64(head + 16, encoder->seq);
    size_t packed = protobuf_c_message_pack(body, head + CODEC_HEADER_BYTES);
    ASSERT(packed == n - CODEC_HEADER_BYTES);
    encoder->frames->head = head;
    encoder->frames->n_head = n;
    return STATUS_OK;
}

bool decoder_fail(struct decoder *decoder, enum status status, const char *field,
                  const char *problem) {
    decoder->status = status;
    error_field(decoder->error, status, field, "%s %s", field, problem);
    return false;
}

bool take_text(struct decoder *decoder, ProtobufCBinaryData from, char *to, size_t size,
               const char *field) {
    if (from.len >= size)
        return decoder_fail(decoder, STATUS_LIMIT, field, "is too long");
    const char *text = (const char *)from.data;
    if (from.len > 0) {
        if (memchr(text, '\0', from.len) || !utf8_valid(text, from.len))
            return decoder_fail(decoder, STATUS_INVALID, field, "is not text");
        memcpy(to, text, from.len);
    }
    to[from.len] = '\0';
    return true;
}

bool take_name(struct decoder *decoder, ProtobufCBinaryData from, char *to, size_t size,
               const char *field) {
    if (from.len == 0)
        return decoder_fail(decoder, STATUS_INVALID, field, "is missing");
    return take_text(decoder, from, to, size, field);
}

bool take_bytes(struct decoder *decoder, ProtobufCBinaryData from, uint8_t *to, size_t n,
                const char *field) {
    if (from.len != n)
        return decoder_fail(decoder, STATUS_INVALID, field, "has a wrong length");
    memcpy(to, from.data, n);
    return true;
}

bool take_enum(struct decoder *decoder, uint32_t from, uint32_t count, uint32_t *to,
               const char *field) {
    if (from >= count)
        return decoder_fail(decoder, STATUS_INVALID, field, "is out of range");
    *to = from;
    return true;
}

bool take_count(struct decoder *decoder, size_t n, size_t max, const char *field) {
    if (n > max)
        return decoder_fail(decoder, STATUS_LIMIT, field, "has too many entries");
    return true;
}

bool take_request(struct decoder *decoder, uint64_t hi, uint64_t lo, struct request_id *to) {
    if (hi == 0 && lo == 0)
        return decoder_fail(decoder, STATUS_INVALID, "req", "is missing");
    *to = (struct request_id){hi, lo};
    return true;
}

bool take_floats(struct decoder *decoder, const float *values, size_t n, const char *field) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return decoder_fail(decoder, STATUS_INVALID, field, "is not finite");
    return true;
}

void *take_array(struct decoder *decoder, size_t n, size_t size) {
    uint64_t bytes;
    void *array = NULL;
    if (checked_mul(n, size, &bytes))
        array = arena_alloc(decoder->arena, bytes > 0 ? bytes : 1);
    if (!array)
        decoder_fail(decoder, STATUS_LIMIT, "body", "needs more memory than its size allows");
    return array;
}

bool take_raw(struct decoder *decoder, size_t n, size_t size, const void **to, const char *field) {
    uint64_t bytes;
    if (!checked_mul(n, size, &bytes) || bytes != decoder->n_raw)
        return decoder_fail(decoder, STATUS_CORRUPT, field, "disagrees with the raw frame");
    *to = decoder->raw;
    if (n == 0 || ((uintptr_t)decoder->raw & (size - 1)) == 0)
        return true;
    /* Small frames lie anywhere in libzmq's receive buffer. */
    void *copy = take_array(decoder, n, size);
    if (!copy)
        return false;
    memcpy(copy, decoder->raw, decoder->n_raw);
    *to = copy;
    return true;
}

ProtobufCBinaryData body_text(const char *text) {
    return body_bytes((const uint8_t *)text, strlen(text));
}

ProtobufCBinaryData body_bytes(const uint8_t *bytes, size_t n) {
    /* protobuf-c's struct has no const; packing only reads. */
    return (ProtobufCBinaryData){.len = n, .data = (uint8_t *)(uintptr_t)bytes};
}

#define LOAD_FIELDS(X)                                                                             \
    X(progress)                                                                                    \
    X(step_us_expected)                                                                            \
    X(step_us_typical)                                                                             \
    X(blocks_total)                                                                                \
    X(blocks_free)                                                                                 \
    X(blocks_used)                                                                                 \
    X(blocks_reserved)                                                                             \
    X(blocks_quarantined)                                                                          \
    X(blocks_cached)                                                                               \
    X(n_running)                                                                                   \
    X(n_waiting)                                                                                   \
    X(prefill_tokens_queued)                                                                       \
    X(tokens_per_s)                                                                                \
    X(n_preemptions)                                                                               \
    X(n_handoffs_in)                                                                               \
    X(n_handoffs_out)                                                                              \
    X(handoff_bytes)                                                                               \
    X(n_stale_dropped)                                                                             \
    X(prefix_queries)                                                                              \
    X(prefix_hits)                                                                                 \
    X(n_prompt_tokens)                                                                             \
    X(n_tokens)                                                                                    \
    X(n_steps)

void load_put(Wire__Load *to, const struct load *from) {
    wire__load__init(to);
#define PUT(field) to->field = from->field;
    LOAD_FIELDS(PUT)
#undef PUT
}

void load_take(const Wire__Load *from, struct load *to) {
    *to = (struct load){0};
    if (!from)
        return;
#define TAKE(field) to->field = from->field;
    LOAD_FIELDS(TAKE)
#undef TAKE
}

static float logprob_clamped(float value) {
    return isfinite(value) ? value : LOGPROB_LEAST;
}

enum status logprobs_put(struct encoder *encoder, Wire__Logprobs *to,
                         const struct token_logprobs *logprobs, uint32_t n) {
    struct arena *arena = &encoder->codec->out;
    size_t n_tops = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (logprobs[i].n_top > MESSAGE_TOP_MAX)
            return STATUS_LIMIT;
        n_tops += logprobs[i].n_top;
    }
    wire__logprobs__init(to);
    to->logprobs = arena_alloc(arena, n * sizeof *to->logprobs);
    to->tops_per_token = arena_alloc(arena, n * sizeof *to->tops_per_token);
    to->top_ids = arena_alloc(arena, n_tops * sizeof *to->top_ids);
    to->top_logprobs = arena_alloc(arena, n_tops * sizeof *to->top_logprobs);
    if (!to->logprobs || !to->tops_per_token || !to->top_ids || !to->top_logprobs)
        return STATUS_LIMIT;
    to->n_logprobs = n;
    to->n_tops_per_token = n;
    for (uint32_t i = 0; i < n; i++) {
        const struct token_logprobs *token = &logprobs[i];
        to->logprobs[i] = logprob_clamped(token->logprob);
        to->tops_per_token[i] = token->n_top;
        for (uint32_t k = 0; k < token->n_top; k++) {
            to->top_ids[to->n_top_ids++] = token->top_ids[k];
            to->top_logprobs[to->n_top_logprobs++] = logprob_clamped(token->top_logprobs[k]);
        }
    }
    return STATUS_OK;
}

bool logprobs_take(struct decoder *decoder, const Wire__Logprobs *from, uint32_t n,
                   struct token_logprobs *to) {
    if (from->n_logprobs != n || from->n_tops_per_token != n ||
        from->n_top_ids != from->n_top_logprobs)
        return decoder_fail(decoder, STATUS_CORRUPT, "logprobs", "disagrees with its tokens");
    if (!take_floats(decoder, from->logprobs, n, "logprobs") ||
        !take_floats(decoder, from->top_logprobs, from->n_top_logprobs, "top_logprobs"))
        return false;
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t n_top = from->tops_per_token[i];
        if (n_top > MESSAGE_TOP_MAX || n_top > from->n_top_ids - at)
            return decoder_fail(decoder, STATUS_CORRUPT, "tops_per_token", "is out of range");
        to[i].logprob = from->logprobs[i];
        to[i].n_top = n_top;
        if (n_top > 0) {
            memcpy(to[i].top_ids, from->top_ids + at, n_top * sizeof *to[i].top_ids);
            memcpy(to[i].top_logprobs, from->top_logprobs + at, n_top * sizeof *to[i].top_logprobs);
        }
        at += n_top;
    }
    if (at != from->n_top_ids)
        return decoder_fail(decoder, STATUS_CORRUPT, "top_ids", "disagrees with its tokens");
    return true;
}
