/* model/gguf/gguf_cursor.h: a checked walk over the bytes of a GGUF header. Private to
 * gguf*.c.
 *
 * Every read says first whether the bytes are there; a failed read fills the error with the file's
 * name and the offset. */
#pragma once

#include "base/map.h"
#include "model/gguf/gguf.h"

struct gguf_cursor {
    struct gguf *gguf;
    uint64_t at;      /* next byte */
    uint64_t dropped; /* header pages before this were given back to the system */
    struct error *error;
};

/* "NAME: at byte OFFSET: ..." and the status. */
enum status gguf_cursor_fail(struct gguf_cursor *cursor, enum status status, const char *format,
                             ...) __attribute__((format(printf, 3, 4)));
#ifdef __clang_analyzer__ /* as base/error.h */
#define gguf_cursor_fail(cursor, status, ...)                                                      \
    (gguf_cursor_fail(cursor, status, __VA_ARGS__), (status))
#endif

/* What a value type is. */
struct gguf_type_row {
    const char *name;
    uint32_t bytes; /* of a scalar; 0: not one */
    bool is_integer;
    bool is_signed; /* of an integer */
};
extern const struct gguf_type_row gguf_types[GGUF_TYPE_COUNT];

/* Where a name (n) stands in the tables of keys and tensors. */
struct map_key gguf_hash(const struct gguf *gguf, const char *bytes, size_t n);

/* Moves over n bytes and gives where they start. `what` names them in the message. */
NODISCARD enum status gguf_cursor_bytes(struct gguf_cursor *cursor, uint64_t n, const char *what,
                                        const unsigned char **bytes);
NODISCARD enum status gguf_cursor_u32(struct gguf_cursor *cursor, const char *what,
                                      uint32_t *value);
NODISCARD enum status gguf_cursor_u64(struct gguf_cursor *cursor, const char *what,
                                      uint64_t *value);

/* A u64 length of at most n_max and that many bytes. */
NODISCARD enum status gguf_cursor_text(struct gguf_cursor *cursor, const char *what, uint64_t n_max,
                                       struct span *text);

/* Reads a value of `type` and fills everything of it but the key. */
NODISCARD enum status gguf_cursor_value(struct gguf_cursor *cursor, uint32_t type,
                                        struct gguf_value *value);

/* Opens one file, which may be a part. Statuses as gguf_open(). */
NODISCARD enum status gguf_open_one(const char *path, struct gguf **gguf, struct error *error);
