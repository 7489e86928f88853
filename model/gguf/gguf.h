/* model/gguf/gguf.h: reads GGUF files, versions 2 and 3 (format: ggml-org/ggml docs/gguf.md).
 *
 * A file is data from a stranger: every length, count, offset and product is checked against the
 * file before it is used, and a contradiction is refused with one line that says where.
 * The file is mapped, not read; keys, texts and tensors point into the mapping. After opening, a
 * struct gguf never changes and any thread may read it. What happens
 * when another process cuts it short: base/file.h.
 *
 * A file may be in parts, as llama.cpp's gguf-split cuts it: STEM-00001-of-00003.gguf, each a GGUF file
 * with the keys split.no (from 0 on), split.count and split.tensors.count (of all). The first has the
 * metadata, and each has some of the tensors. */
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
/* GGUF_TENSORS_MAX in gguf-split's parts of 128. Each holds a descriptor, of 1024 that a process has at least. */
#define GGUF_PARTS_MAX 256u

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
    uint32_t n_tensors;        /* of all parts */
    struct gguf_value *values; /* owned (n_values) */
    struct tensor *tensors;    /* owned (n_tensors), in the files' order */
    struct map value_by_key;   /* hash of key -> index */
    struct map tensor_by_name;
    uint64_t seed;        /* of the two maps' hashes */
    uint32_t n_others;    /* 0 of a file in one piece; else this is the first part, */
    struct gguf **others; /* owned (n_others): and these are the rest, in their order */
};

/* Maps a regular file and reads its header; if it is a part, which may be any of them, those of all that
 * lie beside it, and *gguf is the first with everybody's tensors. On success the caller owns *gguf.
 * STATUS_IO when it cannot be opened or is not a regular file, STATUS_CORRUPT when it contradicts itself,
 * the format or the other parts, STATUS_NOT_FOUND naming a part that is not there, STATUS_INVALID for a
 * name that is not that of such a part, STATUS_UNSUPPORTED for a version or tensor type that is not read
 * here, STATUS_LIMIT past a bound above, STATUS_NOMEM. */
NODISCARD enum status gguf_open(const char *path, struct gguf **gguf, struct error *error);

/* The same for bytes in memory, which stay the caller's and must outlive *gguf; `name` is used in
 * messages. */
NODISCARD enum status gguf_parse(const void *bytes, size_t n, const char *name, struct gguf **gguf,
                                 struct error *error);

/* Makes one of n parts (2..GGUF_PARTS_MAX) in their order, whose keys fit to their places. Takes them over
 * and closes them on failure. STATUS_CORRUPT, STATUS_NOT_FOUND naming a key, STATUS_LIMIT, STATUS_NOMEM. */
NODISCARD enum status gguf_join(struct gguf **parts, uint32_t n, struct gguf **gguf,
                                struct error *error);

void gguf_close(struct gguf *gguf); /* and its other parts */

/* STATUS_IO naming a file that is shorter than it was when it was mapped. */
NODISCARD enum status gguf_check(const struct gguf *gguf, struct error *error);

void gguf_drop_pages(const struct gguf *gguf);

/* Part i of it, itself for 0; i <= n_others. */
const struct gguf *gguf_part(const struct gguf *gguf, uint32_t i);

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
