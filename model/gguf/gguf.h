/* model/gguf/gguf.h: reads GGUF files, versions 2 and 3 (format: ggml-org/ggml docs/gguf.md).
 *
 * A file is data from a stranger: every length, count, offset and product is checked against the
 * file before it is used, and whatever contradicts itself is refused with one line that says where.
 * The file is mapped, not read; keys, texts and tensors point into the mapping. After opening, a
 * struct gguf never changes and any thread may read it. What happens
 * when another process cuts it short: base/file.h. */
#pragma once

#include "base/error.h"
#include "base/file.h"
#include "base/map.h"
#include "base/span.h"
#include "base/status.h"
#include "model/tensor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GGUF_KEYS_MAX       16384u
#define GGUF_TENSORS_MAX    32768u
#define GGUF_KEY_BYTES_MAX  65535u
#define GGUF_NAME_BYTES_MAX 64u /* of a tensor */
#define GGUF_ARRAY_DEPTH    4u
#define GGUF_ALIGNMENT_MAX  65536u
#define GGUF_HEADER_MAX     (512u << 20) /* bytes of metadata and tensor table */

/* Value types, with the numbers of the file format. */
enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE_COUNT
};

/* A value of type GGUF_ARRAY. Items lie packed; strings are a u64 length and bytes each, walked
 * with gguf_array_next_text(). */
struct gguf_array {
    enum gguf_type type;        /* of the items */
    uint64_t n;                 /* items */
    const unsigned char *items; /* borrowed, unaligned */
    const unsigned char *end;   /* behind the last item */
};

struct gguf_value {
    struct span key;
    enum gguf_type type;
    uint64_t offset;            /* of the value in the file, for messages */
    const unsigned char *bytes; /* borrowed, unaligned: the value as it lies in the file */
    struct gguf_array array;    /* when type is GGUF_ARRAY */
};

struct gguf {
    char name[256];             /* the file's path for messages, cut at the front if longer */
    const unsigned char *bytes; /* the whole file */
    uint64_t n_bytes;
    struct file_map file; /* owned: the mapping behind bytes; zeroed over the caller's memory */
    uint32_t version;
    uint32_t alignment;
    uint64_t data_offset; /* where tensor data starts; all before it is header */
    uint32_t n_values;
    uint32_t n_tensors;
    struct gguf_value *values; /* owned (n_values) */
    struct tensor *tensors;    /* owned (n_tensors), in the file's order */
    struct map value_by_key;   /* hash of key -> index */
    struct map tensor_by_name;
    uint64_t seed; /* of the two maps' hashes */
};

/* Maps a regular file and reads its header. On success the caller owns *gguf. STATUS_IO when it
 * cannot be opened or is not a regular file, STATUS_CORRUPT when it contradicts itself or the format,
 * STATUS_UNSUPPORTED for a version or tensor type that is not read here, STATUS_LIMIT past a bound
 * above, STATUS_NOMEM. */
NODISCARD enum status gguf_open(const char *path, struct gguf **gguf, struct error *error);

/* The same for bytes in memory, which stay the caller's and must outlive *gguf; `name` is used in
 * messages. */
NODISCARD enum status gguf_parse(const void *bytes, size_t n, const char *name, struct gguf **gguf,
                                 struct error *error);

void gguf_close(struct gguf *gguf);

/* NULL when there is no such key, tensor. */
const struct gguf_value *gguf_find(const struct gguf *gguf, const char *key);
const struct tensor *gguf_tensor(const struct gguf *gguf, const char *name);

/* STATUS_NOT_FOUND, with a line naming file and key, when the key is absent. */
NODISCARD enum status gguf_need(const struct gguf *gguf, const char *key, struct error *error);

/* Typed getters. An absent key is STATUS_OK and keeps what the value held. STATUS_CORRUPT when it has
 * another type or a value that does not fit, with a line naming file and key. gguf_u32() and gguf_u64()
 * take any integer type that holds a fitting value. gguf_f64() takes f32 and f64. An array has to be
 * there: STATUS_NOT_FOUND. */
NODISCARD enum status gguf_u64(const struct gguf *gguf, const char *key, uint64_t *value,
                               struct error *error);
NODISCARD enum status gguf_u32(const struct gguf *gguf, const char *key, uint32_t *value,
                               struct error *error);
NODISCARD enum status gguf_f64(const struct gguf *gguf, const char *key, double *value,
                               struct error *error);
NODISCARD enum status gguf_bool(const struct gguf *gguf, const char *key, bool *value,
                                struct error *error);
NODISCARD enum status gguf_string(const struct gguf *gguf, const char *key, struct span *text,
                                  struct error *error);
NODISCARD enum status gguf_array_of(const struct gguf *gguf, const char *key, enum gguf_type type,
                                    struct gguf_array *array, struct error *error);

/* Takes the next text off the front of an array of strings; false at its end. */
bool gguf_array_next_text(struct gguf_array *array, struct span *text);

/* Item i of an array of GGUF_I32 or GGUF_U32, i < array->n. */
uint32_t gguf_array_u32(const struct gguf_array *array, uint64_t i);
