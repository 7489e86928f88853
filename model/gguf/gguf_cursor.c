#include "model/gguf/gguf_cursor.h"

#include "base/checked.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* Walked header pages are handed back in steps of this many bytes, so that a hostile file with a
 * huge header costs its reader no more memory than this. */
#define DROP_STEP ((uint64_t)4 << 20)

enum status(gguf_cursor_fail)(struct gguf_cursor *cursor, enum status status, const char *format,
                              ...) {
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(cursor->error, status, "%s: at byte %" PRIu64 ": %s", cursor->gguf->name,
                     cursor->at, text);
}

static void gguf_drop_walked_pages(struct gguf_cursor *cursor) {
    if (!cursor->gguf->file.bytes || cursor->at - cursor->dropped < DROP_STEP)
        return;
    uint64_t until = cursor->at & ~(DROP_STEP - 1);
    if (until <= cursor->dropped)
        return;
    madvise((void *)(uintptr_t)(cursor->gguf->bytes + cursor->dropped), until - cursor->dropped,
            MADV_DONTNEED);
    cursor->dropped = until;
}

enum status gguf_cursor_bytes(struct gguf_cursor *cursor, uint64_t n, const char *what,
                              const unsigned char **bytes) {
    if (!checked_range(cursor->at, n, cursor->gguf->n_bytes))
        return gguf_cursor_fail(cursor, STATUS_CORRUPT,
                                "%s needs %" PRIu64 " bytes, the file has %" PRIu64 " left", what,
                                n, cursor->gguf->n_bytes - cursor->at);
    if (cursor->at + n > GGUF_HEADER_MAX)
        return gguf_cursor_fail(cursor, STATUS_LIMIT, "the header is longer than %u bytes",
                                GGUF_HEADER_MAX);
    /* Before the step, not after: the bytes handed out are about to be read, and one read behind
     * the line would map up to 2 MiB there again. */
    gguf_drop_walked_pages(cursor);
    *bytes = cursor->gguf->bytes + cursor->at;
    cursor->at += n;
    return STATUS_OK;
}

enum status gguf_cursor_u32(struct gguf_cursor *cursor, const char *what, uint32_t *value) {
    const unsigned char *bytes = NULL;
    TRY(gguf_cursor_bytes(cursor, sizeof *value, what, &bytes));
    memcpy(value, bytes, sizeof *value);
    return STATUS_OK;
}

enum status gguf_cursor_u64(struct gguf_cursor *cursor, const char *what, uint64_t *value) {
    const unsigned char *bytes = NULL;
    TRY(gguf_cursor_bytes(cursor, sizeof *value, what, &bytes));
    memcpy(value, bytes, sizeof *value);
    return STATUS_OK;
}

enum status gguf_cursor_text(struct gguf_cursor *cursor, const char *what, uint64_t n_max,
                             struct span *text) {
    uint64_t n;
    const unsigned char *bytes;
    TRY(gguf_cursor_u64(cursor, what, &n));
    if (n > n_max) {
        cursor->at -= sizeof n;
        return gguf_cursor_fail(cursor, STATUS_CORRUPT,
                                "%s says it has %" PRIu64 " bytes, at most %" PRIu64 " are allowed",
                                what, n, n_max);
    }
    TRY(gguf_cursor_bytes(cursor, n, what, &bytes));
    *text = (struct span){(const char *)bytes, (size_t)n};
    return STATUS_OK;
}

const struct gguf_type_row gguf_types[GGUF_TYPE_COUNT] = {
    [GGUF_U8] = {"u8", 1, true, false},    [GGUF_I8] = {"i8", 1, true, true},
    [GGUF_U16] = {"u16", 2, true, false},  [GGUF_I16] = {"i16", 2, true, true},
    [GGUF_U32] = {"u32", 4, true, false},  [GGUF_I32] = {"i32", 4, true, true},
    [GGUF_F32] = {"f32", 4, false, false}, [GGUF_BOOL] = {"bool", 1, false, false},
    [GGUF_STRING] = {.name = "string"},    [GGUF_ARRAY] = {.name = "array"},
    [GGUF_U64] = {"u64", 8, true, false},  [GGUF_I64] = {"i64", 8, true, true},
    [GGUF_F64] = {"f64", 8, false, false},
};

static enum status gguf_check_bools(struct gguf_cursor *cursor, const unsigned char *bytes,
                                    uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        if (bytes[i] > 1)
            return gguf_cursor_fail(cursor, STATUS_CORRUPT, "a bool is %u, not 0 or 1", bytes[i]);
    return STATUS_OK;
}

/* Walks an array's head and items. Recursion is bounded by GGUF_ARRAY_DEPTH. */
static enum status gguf_walk_array(struct gguf_cursor *cursor, unsigned depth,
                                   struct gguf_array *array) {
    uint32_t type;
    uint64_t n;
    uint64_t n_bytes;
    if (depth >= GGUF_ARRAY_DEPTH)
        return gguf_cursor_fail(cursor, STATUS_CORRUPT, "arrays are nested more than %u deep",
                                GGUF_ARRAY_DEPTH);
    TRY(gguf_cursor_u32(cursor, "the type of an array", &type));
    TRY(gguf_cursor_u64(cursor, "the length of an array", &n));
    const unsigned char *items = cursor->gguf->bytes + cursor->at;
    if (type == GGUF_STRING || type == GGUF_ARRAY) {
        /* Each item takes bytes of the file, so a made-up length ends with the file. */
        for (uint64_t i = 0; i < n; i++) {
            struct span text;
            struct gguf_array inner;
            if (type == GGUF_STRING)
                TRY(gguf_cursor_text(cursor, "a string of an array", UINT64_MAX, &text));
            else
                TRY(gguf_walk_array(cursor, depth + 1, &inner));
        }
    } else {
        uint64_t size = type < GGUF_TYPE_COUNT ? gguf_types[type].bytes : 0;
        if (size == 0)
            return gguf_cursor_fail(cursor, STATUS_CORRUPT, "unknown array type %u", type);
        if (!checked_mul(n, size, &n_bytes))
            return gguf_cursor_fail(cursor, STATUS_CORRUPT,
                                    "an array of %" PRIu64 " items is larger than the file", n);
        TRY(gguf_cursor_bytes(cursor, n_bytes, "an array", &items));
        if (type == GGUF_BOOL)
            TRY(gguf_check_bools(cursor, items, n));
    }
    *array = (struct gguf_array){.type = (enum gguf_type)type,
                                 .n = n,
                                 .items = items,
                                 .end = cursor->gguf->bytes + cursor->at};
    return STATUS_OK;
}

enum status gguf_cursor_value(struct gguf_cursor *cursor, uint32_t type, struct gguf_value *value) {
    value->offset = cursor->at;
    value->bytes = cursor->gguf->bytes + cursor->at;
    if (type >= GGUF_TYPE_COUNT)
        return gguf_cursor_fail(cursor, STATUS_CORRUPT, "unknown value type %u", type);
    value->type = (enum gguf_type)type;
    if (type == GGUF_ARRAY)
        return gguf_walk_array(cursor, 0, &value->array);
    if (type == GGUF_STRING) {
        struct span text;
        return gguf_cursor_text(cursor, "a string", UINT64_MAX, &text);
    }
    TRY(gguf_cursor_bytes(cursor, gguf_types[type].bytes, "a value", &value->bytes));
    return type == GGUF_BOOL ? gguf_check_bools(cursor, value->bytes, 1) : STATUS_OK;
}
