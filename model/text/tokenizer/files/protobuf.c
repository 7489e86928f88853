#include "model/text/tokenizer/files/protobuf.h"

#define VARINT_BYTES_MAX 10u

static enum status protobuf_fail(const struct protobuf_cursor *cursor, size_t at,
                                 const char *what) {
    return error_set(cursor->error, STATUS_CORRUPT, "%s: at byte %zu: %s", cursor->name,
                     cursor->offset + at, what);
}

static enum status protobuf_read_varint(struct protobuf_cursor *cursor, uint64_t *value) {
    size_t begin = cursor->at;
    uint64_t sum = 0;
    for (unsigned i = 0; i < VARINT_BYTES_MAX; i++) {
        if (cursor->at == cursor->message.n)
            return protobuf_fail(cursor, begin, "a number is cut short");
        uint64_t byte = (uint8_t)cursor->message.bytes[cursor->at++];
        if (i == VARINT_BYTES_MAX - 1 && byte > 1)
            break;
        sum |= (byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *value = sum;
            return STATUS_OK;
        }
    }
    return protobuf_fail(cursor, begin, "a number of more than 64 bits");
}

/* n bytes, least significant first; n <= 8. */
static enum status protobuf_read_fixed(struct protobuf_cursor *cursor, size_t n, uint64_t *value) {
    uint64_t sum = 0;
    if (cursor->message.n - cursor->at < n)
        return protobuf_fail(cursor, cursor->at, "a number is cut short");
    for (size_t i = 0; i < n; i++)
        sum |= (uint64_t)(uint8_t)cursor->message.bytes[cursor->at + i] << (8 * i);
    cursor->at += n;
    *value = sum;
    return STATUS_OK;
}

enum status protobuf_next(struct protobuf_cursor *cursor, struct protobuf_field *field) {
    struct protobuf_field next = {0};
    size_t begin = cursor->at;
    uint64_t tag = 0;
    if (cursor->at == cursor->message.n) {
        *field = next;
        return STATUS_OK;
    }
    TRY(protobuf_read_varint(cursor, &tag));
    if (tag >> 3 == 0 || tag >> 3 > (1u << 29) - 1)
        return protobuf_fail(cursor, begin, "a field number that cannot be");
    next.number = (uint32_t)(tag >> 3);
    next.wire = (enum protobuf_wire)(tag & 7);
    next.offset = cursor->offset + cursor->at;
    switch (tag & 7) {
    case PROTOBUF_VARINT:
        TRY(protobuf_read_varint(cursor, &next.value));
        break;
    case PROTOBUF_FIXED64:
        TRY(protobuf_read_fixed(cursor, 8, &next.value));
        break;
    case PROTOBUF_FIXED32:
        TRY(protobuf_read_fixed(cursor, 4, &next.value));
        break;
    case PROTOBUF_BYTES:
        TRY(protobuf_read_varint(cursor, &next.value));
        if (next.value > cursor->message.n - cursor->at)
            return protobuf_fail(cursor, begin, "a field that reaches past its message's end");
        next.bytes = (struct span){cursor->message.bytes + cursor->at, (size_t)next.value};
        next.offset = cursor->offset + cursor->at;
        cursor->at += next.bytes.n;
        break;
    default:
        return protobuf_fail(cursor, begin, "a field of a wire type that is not read");
    }
    *field = next;
    return STATUS_OK;
}

static enum status protobuf_expect(const struct protobuf_cursor *cursor,
                                   const struct protobuf_field *field, const char *name,
                                   enum protobuf_wire wire) {
    if (field->wire == wire)
        return STATUS_OK;
    return error_field(cursor->error, STATUS_CORRUPT, name,
                       "%s: at byte %zu: %s has wire type %d, not %d", cursor->name, field->offset,
                       name, (int)field->wire, (int)wire);
}

static enum status protobuf_put_value(const struct protobuf_cursor *cursor,
                                      const struct protobuf_field *field,
                                      const struct protobuf_row *row, char *to) {
    static const enum protobuf_wire wires[] = {[PROTOBUF_SPAN] = PROTOBUF_BYTES,
                                               [PROTOBUF_INT] = PROTOBUF_VARINT,
                                               [PROTOBUF_BOOL] = PROTOBUF_VARINT,
                                               [PROTOBUF_FLOAT] = PROTOBUF_FIXED32};
    bool is_true = field->value != 0;
    uint32_t bits = (uint32_t)field->value;
    TRY(protobuf_expect(cursor, field, row->name, wires[row->type]));
    switch (row->type) {
    case PROTOBUF_SPAN:
        memcpy(to, &field->bytes, sizeof field->bytes);
        break;
    case PROTOBUF_INT:
        memcpy(to, &field->value, sizeof field->value);
        break;
    case PROTOBUF_BOOL:
        memcpy(to, &is_true, sizeof is_true);
        break;
    case PROTOBUF_FLOAT:
        memcpy(to, &bits, sizeof bits);
        break;
    }
    return STATUS_OK;
}

enum status protobuf_read(struct protobuf_cursor *cursor, const struct protobuf_row *rows,
                          void *into) {
    struct protobuf_field field;
    for (;;) {
        TRY(protobuf_next(cursor, &field));
        if (field.number == 0)
            return STATUS_OK;
        for (const struct protobuf_row *row = rows; row->number != 0; row++)
            if (row->number == field.number)
                TRY(protobuf_put_value(cursor, &field, row, (char *)into + row->offset));
    }
}

enum status protobuf_message(const struct protobuf_cursor *cursor,
                             const struct protobuf_field *field, const char *name,
                             struct protobuf_cursor *inner) {
    TRY(protobuf_expect(cursor, field, name, PROTOBUF_BYTES));
    *inner = (struct protobuf_cursor){.message = field->bytes,
                                      .offset = field->offset,
                                      .name = cursor->name,
                                      .error = cursor->error};
    return STATUS_OK;
}
