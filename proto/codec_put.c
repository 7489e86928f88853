/* Our structs to protobuf-c's, row by row. */
#include "proto/codec_body.h"

#include <math.h>
#include <string.h>

/* Generated structs have no const; packing only reads. */
static void codec_put_bytes(void *to, const void *bytes, size_t n) {
    *(ProtobufCBinaryData *)to =
        (ProtobufCBinaryData){.len = n, .data = (uint8_t *)(uintptr_t)bytes};
}

static enum status codec_put_nested(struct encoder *encoder, const struct shape *shape,
                                    const void *ours, void *to) {
    void *body = arena_alloc(encoder->arena, shape->descriptor->sizeof_message);
    if (!body)
        return STATUS_NOMEM;
    field_point(to, body);
    return shape_put(encoder, shape, ours, body);
}

static enum status codec_put_list(struct encoder *encoder, const struct field *field,
                                  const void *list, uint32_t n, void *to) {
    const struct shape *shape = field->shape();
    bool by_hand = field->kind == FIELD_STEP_ENTRIES;
    size_t n_bytes = shape->descriptor->sizeof_message;
    char *bodies = arena_alloc(encoder->arena, n * n_bytes);
    void **pointers = arena_alloc(encoder->arena, n * sizeof *pointers);
    if (!bodies || !pointers)
        return STATUS_NOMEM;
    for (uint32_t i = 0; i < n; i++) {
        pointers[i] = bodies + i * n_bytes;
        const void *from = field_at(list, i * shape->n_bytes);
        TRY(by_hand ? step_entry_put(encoder, from, pointers[i])
                    : shape_put(encoder, shape, from, pointers[i]));
    }
    field_point(to, pointers);
    return STATUS_OK;
}

static enum status codec_put_floats(const float *values, uint32_t n, void *to, size_t *to_n) {
    for (uint32_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return STATUS_INVALID;
    *to_n = n;
    field_point(to, values);
    return STATUS_OK;
}

static enum status codec_put_logprobs(struct encoder *encoder,
                                      const struct token_logprobs *logprobs, uint32_t n, void *to) {
    Wire__Logprobs *columns = arena_alloc(encoder->arena, sizeof *columns);
    if (!columns)
        return STATUS_NOMEM;
    field_point(to, columns);
    return logprobs_put(encoder, columns, logprobs, n);
}

static void codec_put_raw(struct encoder *encoder, const void *elements, size_t n_bytes) {
    encoder->raw = n_bytes > 0 ? elements : NULL;
    encoder->n_raw = encoder->raw ? n_bytes : 0;
}

static enum status codec_put_field(struct encoder *encoder, const struct field *field,
                                   const void *ours, void *wire) {
    const void *from = field_at(ours, field->ours);
    const uint32_t *from_n = field_at(ours, field->ours_n);
    const bool *has = field_at(ours, field->ours_n);
    void *to = field_slot(wire, field->wire);
    size_t *to_n = field_slot(wire, field->wire_n);
    switch (field->kind) {
    case FIELD_COUNT:
        if (*(const uint32_t *)from > field->bound)
            return STATUS_LIMIT;
        *(uint32_t *)to = *(const uint32_t *)from;
        return STATUS_OK;
    case FIELD_U32:
    case FIELD_ENUM:
    case FIELD_LENIENT:
        *(uint32_t *)to = *(const uint32_t *)from;
        return STATUS_OK;
    case FIELD_U64:
        *(uint64_t *)to = *(const uint64_t *)from;
        return STATUS_OK;
    case FIELD_FLOAT:
        *(float *)to = *(const float *)from;
        return isfinite(*(const float *)from) ? STATUS_OK : STATUS_INVALID;
    case FIELD_BOOL:
        *(protobuf_c_boolean *)to = *(const bool *)from;
        return STATUS_OK;
    case FIELD_TEXT:
        codec_put_bytes(to, from, strlen(from));
        return STATUS_OK;
    case FIELD_BYTES:
        codec_put_bytes(to, from, field->bound);
        return STATUS_OK;
    case FIELD_DATA:
        codec_put_bytes(to, from, *from_n);
        return *from_n <= field->bound ? STATUS_OK : STATUS_LIMIT;
    case FIELD_BLOB:
        codec_put_bytes(to, field_pointer(from), *from_n);
        return *from_n <= field->bound ? STATUS_OK : STATUS_LIMIT;
    case FIELD_REQUEST:
        *(uint64_t *)to = ((const struct request_id *)from)->hi;
        *(uint64_t *)field_slot(wire, field->wire_n) = ((const struct request_id *)from)->lo;
        return STATUS_OK;
    case FIELD_NESTED:
        return codec_put_nested(encoder, field->shape(), from, to);
    case FIELD_OPTIONAL:
        return *has ? codec_put_nested(encoder, field->shape(), from, to) : STATUS_OK;
    case FIELD_LIST:
    case FIELD_STEP_ENTRIES:
        if (*from_n > field->bound)
            return STATUS_LIMIT;
        *to_n = *from_n;
        return codec_put_list(encoder, field, field_pointer(from), *from_n, to);
    case FIELD_U32S:
        if (*from_n > field->bound)
            return STATUS_LIMIT;
        *to_n = *from_n;
        field_point(to, field_pointer(from));
        return STATUS_OK;
    case FIELD_FLOATS:
        return codec_put_floats(field_pointer(from), *from_n, to, to_n);
    case FIELD_LOGPROBS:
        return field_pointer(from) ? codec_put_logprobs(encoder, field_pointer(from), *from_n, to)
                                   : STATUS_OK;
    case FIELD_LOGPROB:
        return *has ? codec_put_logprobs(encoder, from, 1, to) : STATUS_OK;
    case FIELD_RAW:
    case FIELD_PAYLOAD:
        codec_put_raw(encoder, field_pointer(from), (size_t)*from_n * field->bound);
        return STATUS_OK;
    case FIELD_SEND_RULE:
        return field->may_send(ours) ? STATUS_OK : STATUS_LIMIT;
    case FIELD_READ_RULE:
        return STATUS_OK;
    }
    return STATUS_INVALID;
}

enum status shape_put(struct encoder *encoder, const struct shape *shape, const void *ours,
                      void *wire) {
    shape->descriptor->message_init(wire);
    for (size_t i = 0; i < shape->n_fields; i++)
        TRY(codec_put_field(encoder, &shape->fields[i], ours, wire));
    return STATUS_OK;
}
