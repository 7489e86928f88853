/* protobuf-c's structs to ours, row by row, with the checks of what comes in. */
#include "proto/codec_body.h"

#include "base/checked.h"
#include "base/utf8.h"

#include <string.h>

static bool codec_take_text(struct decoder *decoder, const ProtobufCBinaryData *from, char *to,
                            size_t size, const char *field) {
    if (from->len >= size)
        return decoder_fail(decoder, STATUS_LIMIT, field, "is too long");
    const char *text = (const char *)from->data;
    if (from->len > 0) {
        if (memchr(text, '\0', from->len) || !utf8_valid(text, from->len))
            return decoder_fail(decoder, STATUS_INVALID, field, "is not text");
        memcpy(to, text, from->len);
    }
    to[from->len] = '\0';
    return true;
}

static bool codec_take_bytes(struct decoder *decoder, const ProtobufCBinaryData *from, void *to,
                             size_t n, const char *field) {
    if (from->len != n)
        return decoder_fail(decoder, STATUS_INVALID, field, "has a wrong length");
    memcpy(to, from->data, n);
    return true;
}

static bool codec_take_data(struct decoder *decoder, const ProtobufCBinaryData *from, void *to,
                            uint32_t *n, size_t max, const char *field) {
    if (!take_count(decoder, from->len, max, n, field))
        return false;
    if (from->len > 0)
        memcpy(to, from->data, from->len);
    return true;
}

static bool codec_take_list(struct decoder *decoder, const struct field *field, void *const *from,
                            uint32_t n, void *to) {
    const struct shape *shape = field->shape();
    bool by_hand = field->kind == FIELD_STEP_ENTRIES;
    void *list = take_array(decoder, n, shape->n_bytes);
    if (!list)
        return false;
    field_point(to, list);
    for (uint32_t i = 0; i < n; i++) {
        void *item = field_slot(list, i * shape->n_bytes);
        if (!(by_hand ? step_entry_take(decoder, from[i], item)
                      : shape_take(decoder, shape, from[i], item)))
            return false;
    }
    return true;
}

static bool codec_take_logprobs(struct decoder *decoder, const Wire__Logprobs *from, uint32_t n,
                                void *to) {
    struct token_logprobs *logprobs = take_array(decoder, n, sizeof *logprobs);
    field_point(to, logprobs);
    return logprobs && logprobs_take(decoder, from, n, logprobs);
}

/* The raw frame as n elements of `size` bytes, aligned for them (copied if it must). */
static bool codec_take_raw(struct decoder *decoder, size_t n, size_t size, void *to,
                           const char *field) {
    uint64_t bytes;
    if (!checked_mul(n, size, &bytes) || bytes != decoder->n_raw)
        return decoder_fail(decoder, STATUS_CORRUPT, field, "disagrees with the raw frame");
    field_point(to, decoder->raw);
    if (n == 0 || ((uintptr_t)decoder->raw & (size - 1)) == 0)
        return true;
    /* Small frames lie anywhere in libzmq's receive buffer. */
    void *copy = take_array(decoder, n, size);
    if (!copy)
        return false;
    memcpy(copy, decoder->raw, decoder->n_raw);
    field_point(to, copy);
    return true;
}

static bool codec_take_payload(struct decoder *decoder, uint32_t n, void *to, const char *field) {
    if (decoder->raw && decoder->n_raw != n)
        return decoder_fail(decoder, STATUS_CORRUPT, field, "disagrees with the raw frame");
    field_point(to, decoder->raw);
    return true;
}

static bool codec_take_field(struct decoder *decoder, const struct shape *shape,
                             const struct field *field, const void *wire, void *ours) {
    const void *from = field_at(wire, field->wire);
    const size_t *from_n = field_at(wire, field->wire_n);
    void *to = field_slot(ours, field->ours);
    uint32_t *to_n = field_slot(ours, field->ours_n);
    bool *has = field_slot(ours, field->ours_n);
    const char *name = field->name;
    uint32_t bound = field->bound;
    switch (field->kind) {
    case FIELD_U32:
        *(uint32_t *)to = *(const uint32_t *)from;
        return true;
    case FIELD_U64:
        *(uint64_t *)to = *(const uint64_t *)from;
        return true;
    case FIELD_FLOAT: /* their errors name the struct */
        *(float *)to = *(const float *)from;
        return take_floats(decoder, from, 1, shape->name);
    case FIELD_BOOL:
        *(bool *)to = *(const protobuf_c_boolean *)from != 0;
        return true;
    case FIELD_COUNT:
        return take_count(decoder, *(const uint32_t *)from, bound, to, name);
    case FIELD_ENUM:
        return take_enum(decoder, *(const uint32_t *)from, bound, to, name);
    case FIELD_LENIENT:
        *(uint32_t *)to =
            *(const uint32_t *)from < bound ? *(const uint32_t *)from : field->otherwise;
        return true;
    case FIELD_TEXT:
        if (field->is_required && ((const ProtobufCBinaryData *)from)->len == 0)
            return decoder_fail(decoder, STATUS_INVALID, name, "is missing");
        return codec_take_text(decoder, from, to, bound, name);
    case FIELD_BYTES:
        return codec_take_bytes(decoder, from, to, bound, name);
    case FIELD_DATA:
        return codec_take_data(decoder, from, to, to_n, bound, name);
    case FIELD_BLOB:
        field_point(to, ((const ProtobufCBinaryData *)from)->data);
        return take_count(decoder, ((const ProtobufCBinaryData *)from)->len, bound, to_n, name);
    case FIELD_REQUEST:
        return take_request(decoder, *(const uint64_t *)from,
                            *(const uint64_t *)field_at(wire, field->wire_n), to, name);
    case FIELD_NESTED:
        if (field->is_required && !field_pointer(from))
            return decoder_fail(decoder, STATUS_INVALID, name, "is missing");
        return !field_pointer(from) || shape_take(decoder, field->shape(), field_pointer(from), to);
    case FIELD_OPTIONAL:
        *has = field_pointer(from) != NULL;
        return !*has || shape_take(decoder, field->shape(), field_pointer(from), to);
    case FIELD_LIST:
    case FIELD_STEP_ENTRIES:
        return take_count(decoder, *from_n, bound, to_n, name) &&
               codec_take_list(decoder, field, field_pointer(from), *to_n, to);
    case FIELD_U32S:
        field_point(to, field_pointer(from));
        return take_count(decoder, *from_n, bound, to_n, name);
    case FIELD_FLOATS:
        field_point(to, field_pointer(from));
        return take_floats(decoder, field_pointer(from), *from_n, name);
    case FIELD_LOGPROBS:
        return !field_pointer(from) || codec_take_logprobs(decoder, field_pointer(from), *to_n, to);
    case FIELD_LOGPROB:
        *has = field_pointer(from) != NULL;
        return !*has || logprobs_take(decoder, field_pointer(from), 1, to);
    case FIELD_RAW:
        return codec_take_raw(decoder, *to_n, bound, to, name);
    case FIELD_PAYLOAD:
        return codec_take_payload(decoder, *to_n, to, name);
    case FIELD_SEND_RULE:
        return true;
    case FIELD_READ_RULE:
        return field->may_read(decoder, wire, ours);
    }
    return false;
}

bool shape_take(struct decoder *decoder, const struct shape *shape, const void *wire, void *ours) {
    for (size_t i = 0; i < shape->n_fields; i++)
        if (!codec_take_field(decoder, shape, &shape->fields[i], wire, ours))
            return false;
    return true;
}
