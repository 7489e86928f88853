#include "model/gguf/gguf.h"

#include "base/checked.h"
#include "base/random.h"
#include "model/gguf/gguf_cursor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

_Static_assert(GGUF_NAME_BYTES_MAX <= TENSOR_NAME_MAX, "names fit into struct tensor");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "GGUF is little-endian, read in place");

/* Tensor types of ggml that are read here (ggml/include/ggml.h; sizes from ggml-common.h). */
static const struct {
    uint32_t number;
    const char *format;
    uint32_t block_items;
    uint32_t block_bytes;
} formats[] = {
    {0, "f32", 1, 4},       {1, "f16", 1, 2},       {30, "bf16", 1, 2},     {2, "q4_0", 32, 18},
    {3, "q4_1", 32, 20},    {6, "q5_0", 32, 22},    {7, "q5_1", 32, 24},    {8, "q8_0", 32, 34},
    {12, "q4_k", 256, 144}, {13, "q5_k", 256, 176}, {14, "q6_k", 256, 210},
};

/* Names of types that are not read here, for the message. */
static const char *const other_names[] = {
    [9] = "q8_1",    [10] = "q2_k",    [11] = "q3_k",  [15] = "q8_k",   [16] = "iq2_xxs",
    [17] = "iq2_xs", [18] = "iq3_xxs", [19] = "iq1_s", [20] = "iq4_nl", [21] = "iq3_s",
    [22] = "iq2_s",  [23] = "iq4_xs",  [24] = "i8",    [25] = "i16",    [26] = "i32",
    [27] = "i64",    [28] = "f64",     [29] = "iq1_m", [34] = "tq1_0",  [35] = "tq2_0",
    [39] = "mxfp4",
};

static enum status gguf_read_value(struct gguf_cursor *cursor, uint32_t index) {
    struct gguf *gguf = cursor->gguf;
    struct gguf_value *value = &gguf->values[index];
    uint32_t type;
    uint32_t earlier;
    TRY(gguf_cursor_text(cursor, "a key", GGUF_KEY_BYTES_MAX, &value->key));
    /* Now, while its page is there: the walk over the value may hand it back. */
    struct map_key key = gguf_hash(gguf, value->key.bytes, value->key.n);
    if (map_get(&gguf->value_by_key, key, &earlier) == STATUS_OK)
        return gguf_cursor_fail(cursor, STATUS_CORRUPT, "key \"%.*s\" appears twice",
                                span_shown(value->key), value->key.bytes);
    TRY(map_put(&gguf->value_by_key, key, index));
    TRY(gguf_cursor_u32(cursor, "a value's type", &type));
    return error_within(cursor->error, gguf_cursor_value(cursor, type, value), "key \"%.*s\"",
                        span_shown(value->key), value->key.bytes);
}

static enum status gguf_refuse_type(struct gguf_cursor *cursor, uint32_t type, const char *tensor) {
    const char *known = type < sizeof other_names / sizeof *other_names ? other_names[type] : NULL;
    char names[128] = "";
    for (size_t i = 0, n = 0; i < sizeof formats / sizeof *formats && n < sizeof names; i++)
        n +=
            (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", formats[i].format);
    return gguf_cursor_fail(cursor, STATUS_UNSUPPORTED,
                            "tensor %s has type %u (%s); supported are %s", tensor, type,
                            known ? known : "unknown", names);
}

/* Format and bytes of a tensor from its type number and shape. */
static enum status gguf_size_tensor(struct gguf_cursor *cursor, uint32_t type,
                                    struct tensor *tensor) {
    uint64_t n_items = 1;
    uint64_t n_bytes = 0;
    for (uint32_t i = 0; i < tensor->n_dims; i++) {
        if (tensor->shape[i] == 0)
            return gguf_cursor_fail(cursor, STATUS_CORRUPT, "tensor %s has a dimension of 0",
                                    tensor->name);
        if (!checked_mul(n_items, tensor->shape[i], &n_items))
            return gguf_cursor_fail(cursor, STATUS_CORRUPT, "the dimensions of tensor %s overflow",
                                    tensor->name);
    }
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (formats[i].number != type)
            continue;
        /* Blocks run along a row: a row of a fraction of a block cannot be addressed. */
        if (tensor->shape[tensor->n_dims - 1] % formats[i].block_items != 0)
            return gguf_cursor_fail(cursor, STATUS_CORRUPT,
                                    "the rows of tensor %s are not a multiple of %u, as %s needs",
                                    tensor->name, formats[i].block_items, formats[i].format);
        if (!checked_mul(n_items / formats[i].block_items, formats[i].block_bytes, &n_bytes))
            return gguf_cursor_fail(cursor, STATUS_CORRUPT, "the size of tensor %s overflows",
                                    tensor->name);
        tensor->format = formats[i].format;
        tensor->n_bytes = n_bytes;
        return STATUS_OK;
    }
    return gguf_refuse_type(cursor, type, tensor->name);
}

/* One row of the tensor table. Leaves the offset relative to the data, as an integer in *offset. */
static enum status gguf_read_tensor(struct gguf_cursor *cursor, uint32_t index, uint64_t *offset) {
    struct gguf *gguf = cursor->gguf;
    struct tensor *tensor = &gguf->tensors[index];
    struct span name;
    uint32_t type;
    uint32_t earlier;
    TRY(gguf_cursor_text(cursor, "a tensor's name", GGUF_NAME_BYTES_MAX, &name));
    if (name.n == 0 || memchr(name.bytes, 0, name.n))
        return gguf_cursor_fail(cursor, STATUS_CORRUPT, "a tensor's name is empty or holds a NUL");
    memcpy(tensor->name, name.bytes, name.n);
    TRY(gguf_cursor_u32(cursor, "a tensor's dimensions", &tensor->n_dims));
    if (tensor->n_dims == 0 || tensor->n_dims > TENSOR_DIMS_MAX)
        return gguf_cursor_fail(cursor, STATUS_CORRUPT, "tensor %s has %u dimensions, not 1 to %u",
                                tensor->name, tensor->n_dims, TENSOR_DIMS_MAX);
    for (uint32_t i = 0; i < TENSOR_DIMS_MAX; i++)
        tensor->shape[i] = 1;
    for (uint32_t i = tensor->n_dims; i-- > 0;)
        TRY(gguf_cursor_u64(cursor, "a tensor's dimension", &tensor->shape[i]));
    TRY(gguf_cursor_u32(cursor, "a tensor's type", &type));
    TRY(gguf_cursor_u64(cursor, "a tensor's offset", offset));
    TRY(gguf_size_tensor(cursor, type, tensor));
    struct map_key key = gguf_hash(gguf, name.bytes, name.n);
    if (map_get(&gguf->tensor_by_name, key, &earlier) == STATUS_OK)
        return gguf_cursor_fail(cursor, STATUS_CORRUPT, "tensor %s appears twice", tensor->name);
    return map_put(&gguf->tensor_by_name, key, index);
}

struct extent {
    uint64_t offset; /* in the file */
    uint32_t index;
};

static int gguf_compare_extents(const void *a, const void *b) {
    const struct extent *left = a;
    const struct extent *right = b;
    return left->offset < right->offset ? -1 : left->offset > right->offset;
}

/* Offsets (relative to the data) aligned, inside the file, and no two tensors over each other. */
static enum status gguf_place_tensors(struct gguf_cursor *cursor, struct extent *extents) {
    struct gguf *gguf = cursor->gguf;
    for (uint32_t i = 0; i < gguf->n_tensors; i++) {
        struct tensor *tensor = &gguf->tensors[i];
        uint64_t relative = extents[i].offset;
        if (relative % gguf->alignment != 0)
            return gguf_cursor_fail(cursor, STATUS_CORRUPT,
                                    "tensor %s starts at %" PRIu64 ", no multiple of %u",
                                    tensor->name, relative, gguf->alignment);
        if (!checked_range(relative, tensor->n_bytes, gguf->n_bytes - gguf->data_offset))
            return gguf_cursor_fail(cursor, STATUS_CORRUPT,
                                    "tensor %s (%" PRIu64 " bytes at %" PRIu64
                                    " of the data) reaches past the file's end",
                                    tensor->name, tensor->n_bytes, relative);
        extents[i] = (struct extent){gguf->data_offset + relative, i};
        tensor->data = gguf->bytes + extents[i].offset;
    }
    qsort(extents, gguf->n_tensors, sizeof *extents, gguf_compare_extents);
    for (uint32_t i = 1; i < gguf->n_tensors; i++) {
        const struct tensor *before = &gguf->tensors[extents[i - 1].index];
        if (extents[i - 1].offset + before->n_bytes > extents[i].offset)
            return gguf_cursor_fail(cursor, STATUS_CORRUPT, "tensors %s and %s overlap",
                                    before->name, gguf->tensors[extents[i].index].name);
    }
    return STATUS_OK;
}

static enum status gguf_read_alignment(struct gguf_cursor *cursor) {
    struct gguf *gguf = cursor->gguf;
    uint32_t alignment = 32;
    TRY(gguf_u32(gguf, "general.alignment", &alignment, cursor->error));
    if (alignment < 8 || alignment > GGUF_ALIGNMENT_MAX || (alignment & (alignment - 1)) != 0)
        return gguf_cursor_fail(cursor, STATUS_CORRUPT,
                                "general.alignment is %u, not a power of two from 8 to %u",
                                alignment, GGUF_ALIGNMENT_MAX);
    gguf->alignment = alignment;
    return STATUS_OK;
}

/* The fixed head of the file. */
static enum status gguf_read_counts(struct gguf_cursor *cursor) {
    struct gguf *gguf = cursor->gguf;
    const unsigned char *magic;
    uint64_t n_tensors;
    uint64_t n_values;
    TRY(gguf_cursor_bytes(cursor, 4, "the magic", &magic));
    if (memcmp(magic, "GGUF", 4) != 0) {
        cursor->at = 0;
        return gguf_cursor_fail(cursor, STATUS_CORRUPT,
                                "not a GGUF file: its first four bytes are others");
    }
    TRY(gguf_cursor_u32(cursor, "the version", &gguf->version));
    if (gguf->version != 2 && gguf->version != 3) {
        cursor->at -= 4;
        return gguf_cursor_fail(cursor, STATUS_UNSUPPORTED, "GGUF version %u; 2 and 3 are read",
                                gguf->version);
    }
    TRY(gguf_cursor_u64(cursor, "the number of tensors", &n_tensors));
    TRY(gguf_cursor_u64(cursor, "the number of keys", &n_values));
    if (n_tensors > GGUF_TENSORS_MAX)
        return gguf_cursor_fail(cursor, STATUS_LIMIT, "%" PRIu64 " tensors, at most %u are read",
                                n_tensors, GGUF_TENSORS_MAX);
    if (n_values > GGUF_KEYS_MAX)
        return gguf_cursor_fail(cursor, STATUS_LIMIT, "%" PRIu64 " keys, at most %u are read",
                                n_values, GGUF_KEYS_MAX);
    /* A key takes at least 13 bytes and a tensor 32: counts that the file cannot hold cost no
     * memory. */
    uint64_t left = gguf->n_bytes - cursor->at;
    if (n_values * 13 + n_tensors * 32 > left)
        return gguf_cursor_fail(cursor, STATUS_CORRUPT,
                                "%" PRIu64 " keys and %" PRIu64
                                " tensors do not fit into the %" PRIu64 " bytes left",
                                n_values, n_tensors, left);
    gguf->n_tensors = (uint32_t)n_tensors;
    gguf->n_values = (uint32_t)n_values;
    return STATUS_OK;
}

static enum status gguf_allocate_tables(struct gguf *gguf, struct error *error) {
    gguf->values = calloc(gguf->n_values + 1, sizeof *gguf->values);
    gguf->tensors = calloc(gguf->n_tensors + 1, sizeof *gguf->tensors);
    if (!gguf->values || !gguf->tensors ||
        map_init(&gguf->value_by_key, gguf->n_values + 1, gguf->seed) != STATUS_OK ||
        map_init(&gguf->tensor_by_name, gguf->n_tensors + 1, gguf->seed) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "%s: no memory for the header", gguf->name);
    return STATUS_OK;
}

static enum status gguf_read_tensor_table(struct gguf_cursor *cursor) {
    struct gguf *gguf = cursor->gguf;
    enum status status = STATUS_OK;
    struct extent *extents = calloc(gguf->n_tensors + 1, sizeof *extents);
    if (!extents)
        return error_set(cursor->error, STATUS_NOMEM, "%s: no memory for the header", gguf->name);
    for (uint32_t i = 0; i < gguf->n_tensors && status == STATUS_OK; i++)
        status = gguf_read_tensor(cursor, i, &extents[i].offset);
    if (status == STATUS_OK) {
        gguf->data_offset = (cursor->at + gguf->alignment - 1) & ~(uint64_t)(gguf->alignment - 1);
        /* A file without tensors may end right behind its header. */
        if (gguf->data_offset > gguf->n_bytes)
            gguf->data_offset = gguf->n_bytes;
        status = gguf_place_tensors(cursor, extents);
    }
    free(extents);
    return status;
}

static enum status gguf_read_header(struct gguf *gguf, struct error *error) {
    struct gguf_cursor cursor = {.gguf = gguf, .error = error};
    TRY(gguf_read_counts(&cursor));
    TRY(gguf_allocate_tables(gguf, error));
    for (uint32_t i = 0; i < gguf->n_values; i++)
        TRY(gguf_read_value(&cursor, i));
    TRY(gguf_read_alignment(&cursor));
    return gguf_read_tensor_table(&cursor);
}

/* Takes the file over, which may be zeroed. */
static enum status gguf_new(const void *bytes, uint64_t n, struct file_map file, const char *name,
                            struct gguf **gguf, struct error *error) {
    struct gguf *made = calloc(1, sizeof *made);
    if (!made) {
        file_unmap(&file);
        return error_set(error, STATUS_NOMEM, "%s: no memory", name);
    }
    size_t n_name = strlen(name);
    size_t cut = n_name < sizeof made->name ? 0 : n_name - (sizeof made->name - 1);
    memcpy(made->name, name + cut, n_name - cut);
    made->file = file;
    made->bytes = bytes;
    made->n_bytes = n;
    made->seed = random_seed();
    enum status status = gguf_read_header(made, error);
    if (status != STATUS_OK)
        gguf_close(made);
    else
        *gguf = made;
    return status;
}

enum status gguf_parse(const void *bytes, size_t n, const char *name, struct gguf **gguf,
                       struct error *error) {
    return gguf_new(bytes, n, (struct file_map){0}, name, gguf, error);
}

enum status gguf_open_one(const char *path, struct gguf **gguf, struct error *error) {
    struct file_map file;
    TRY(file_map(path, &file, error));
    uint64_t n = file.n_bytes;
    if (n >= 24)
        return gguf_new(file.bytes, n, file, path, gguf, error);
    file_unmap(&file);
    return error_set(error, STATUS_CORRUPT, "%s: at byte 0: %" PRIu64 " bytes are not a GGUF file",
                     path, n);
}

void gguf_close(struct gguf *gguf) {
    if (!gguf)
        return;
    for (uint32_t i = 0; i < gguf->n_others; i++)
        gguf_close(gguf->others[i]);
    free(gguf->others);
    file_unmap(&gguf->file);
    map_fini(&gguf->value_by_key);
    map_fini(&gguf->tensor_by_name);
    free(gguf->values);
    free(gguf->tensors);
    free(gguf);
}
