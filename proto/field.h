/* proto/field.h: the fields of the messages as tables, from the rows of message.def.
 *
 * Constant data for the codec and for tests that make, compare and check messages of any type. */
#pragma once

#include "proto/message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct decoder;
struct ProtobufCMessageDescriptor; /* of protobuf-c */

/* The kinds of rows: message.def says what each means. */
enum field_kind {
    FIELD_U32,
    FIELD_U64,
    FIELD_FLOAT,
    FIELD_BOOL,
    FIELD_COUNT,
    FIELD_ENUM,
    FIELD_LENIENT,
    FIELD_TEXT,
    FIELD_BYTES,
    FIELD_DATA,
    FIELD_BLOB,
    FIELD_REQUEST,
    FIELD_NESTED,
    FIELD_OPTIONAL,
    FIELD_LIST,
    FIELD_STEP_ENTRIES,
    FIELD_U32S,
    FIELD_FLOATS,
    FIELD_LOGPROBS,
    FIELD_LOGPROB,
    FIELD_RAW,
    FIELD_PAYLOAD,
    FIELD_SEND_RULE,
    FIELD_READ_RULE,
};

/* Says whether a struct may be sent. */
typedef bool send_rule(const void *ours);
/* Compares fields of a struct that was read; false with the reason kept in the decoder. */
typedef bool read_rule(struct decoder *decoder, const void *wire, const void *ours);

struct field {
    const char *name; /* in tandem.proto and in errors; a rule's own name */
    enum field_kind kind;
    uint32_t bound;     /* COUNT and arrays: the most; ENUM, LENIENT: one more than the last;
                           TEXT, BYTES, DATA: bytes in our struct; RAW: bytes of an element */
    bool is_required;   /* TEXT, NESTED: it may not be empty, absent */
    uint32_t otherwise; /* LENIENT: replaces a value that is out of range */
    uint16_t ours;      /* offset in our struct */
    uint16_t ours_n;    /* offset of the count, or of an optional part's flag */
    uint16_t wire;      /* offset in protobuf-c's struct; of a REQUEST: of its first half */
    uint16_t wire_n;    /* offset of the count, a size_t; of a REQUEST: of its second half */
    const struct shape *(*shape)(void); /* NESTED, OPTIONAL, lists: what is inside */
    send_rule *may_send;
    read_rule *may_read;
};

/* A struct of message.def, in the order of its rows. */
struct shape {
    const char *name;
    size_t n_bytes; /* of our struct */
    const struct field *fields;
    size_t n_fields;
    const struct ProtobufCMessageDescriptor *descriptor;
};

/* The body of a message type, from MESSAGE_NONE + 1 to MESSAGE_TYPES - 1. */
const struct shape *message_shape(enum message_type type);

/* Do messages that are not bulk overtake it? */
bool message_is_bulk(enum message_type type);

/* Most bytes of its raw frame; 0: it has none. */
size_t message_raw_max(enum message_type type);

/* What lies at an offset of a struct. */
static inline const void *field_at(const void *base, size_t offset) {
    return (const char *)base + offset;
}

static inline void *field_slot(void *base, size_t offset) {
    return (char *)base + offset;
}

/* A pointer of any type that lies at `from` or goes to `to`. */
static inline const void *field_pointer(const void *from) {
    const void *pointer;
    memcpy(&pointer, from, sizeof pointer);
    return pointer;
}

static inline void field_point(void *to, const void *pointer) {
    memcpy(to, &pointer, sizeof pointer);
}
