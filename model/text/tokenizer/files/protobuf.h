/* model/text/tokenizer/files/protobuf.h: walks the fields of one Protocol Buffers message as it
 * lies in a file (protobuf.dev/programming-guides/encoding). Only what model files need: no schema,
 * no groups.
 *
 * A file is data from a stranger: every length is checked before it is used, and a failed read says
 * at which byte of the file. Pure; one owner thread. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"

#include <stdint.h>

struct protobuf_cursor {
    struct span message;
    size_t at;     /* next byte of the message */
    size_t offset; /* of the message in the file, for messages */
    const char *name;
    struct error *error;
};

enum protobuf_wire {
    PROTOBUF_VARINT = 0,
    PROTOBUF_FIXED64 = 1,
    PROTOBUF_BYTES = 2,
    PROTOBUF_FIXED32 = 5,
};

struct protobuf_field {
    uint32_t number; /* 0: the message is at its end */
    enum protobuf_wire wire;
    uint64_t value;    /* of a varint or fixed field */
    struct span bytes; /* of a PROTOBUF_BYTES field, borrowed */
    size_t offset;     /* of the value in the file */
};

/* Takes the next field off the message. STATUS_CORRUPT when it is cut short, has a number or wire
 * type that cannot be, or a varint of more than ten bytes. */
NODISCARD enum status protobuf_next(struct protobuf_cursor *cursor, struct protobuf_field *field);

/* A field whose value goes into a struct. */
struct protobuf_row {
    uint32_t number; /* 0: behind the last row */
    enum {
        PROTOBUF_SPAN,
        PROTOBUF_INT,
        PROTOBUF_BOOL,
        PROTOBUF_FLOAT
    } type; /* struct span (borrowed),
                                                                                 int64_t, bool, float */
    size_t offset;
    const char *name; /* for messages */
};

/* Reads the rest of the message into the struct: of a field that comes again the last one counts, one
 * that does not come keeps what is there, and those without a row are skipped. STATUS_CORRUPT as
 * protobuf_next(), or naming the field and where it stands, when it has another wire type. */
NODISCARD enum status protobuf_read(struct protobuf_cursor *cursor, const struct protobuf_row *rows,
                                    void *into);

/* A cursor over the message inside a field. */
NODISCARD enum status protobuf_message(const struct protobuf_cursor *cursor,
                                       const struct protobuf_field *field, const char *name,
                                       struct protobuf_cursor *inner);
