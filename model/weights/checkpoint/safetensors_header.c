/* The header of one safetensors file. */
#include "model/weights/checkpoint/safetensors.h"

#include "base/checked.h"
#include "base/json/json_text.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors are read in place");

/* The format's dtypes of whole bytes. All can lie in a file; what cannot be a weight is refused by
 * the caller that asks for it. */
static const struct {
    const char *dtype;
    const char *format;
    uint32_t bytes;
} dtypes[] = {
    {"BF16", "bf16", 2},
    {"F16", "f16", 2},
    {"F32", "f32", 4},
    {"I32", "i32", 4},
    {"F64", "f64", 8},
    {"I64", "i64", 8},
    {"U64", "u64", 8},
    {"U32", "u32", 4},
    {"I16", "i16", 2},
    {"U16", "u16", 2},
    {"I8", "i8", 1},
    {"U8", "u8", 1},
    {"BOOL", "bool", 1},
    {"F8_E4M3", "f8_e4m3", 1},
    {"F8_E5M2", "f8_e5m2", 1},
    {"F8_E8M0", "f8_e8m0", 1},
    {"F8_E4M3FNUZ", "f8_e4m3fnuz", 1},
    {"F8_E5M2FNUZ", "f8_e5m2fnuz", 1},
    {"C64", "c64", 8},
};

/* A row of the header while it is read: the tensor and where it lies in the data. */
struct safetensors_header_row {
    struct tensor tensor;
    uint64_t begin;
    uint64_t end;
};

struct safetensors_header_reader {
    const struct safetensors_file *file;
    struct error *error;
};

static enum status safetensors_header_fail(const struct safetensors_header_reader *reader,
                                           enum status status, const char *name, const char *what) {
    return error_field(reader->error, status, name, "%s: tensor %.128s: %s", reader->file->name,
                       name, what);
}

static bool safetensors_is_size(const json_t *value, uint64_t *size) {
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *size = (uint64_t)json_integer_value(value);
    return true;
}

static enum status safetensors_read_shape(const struct safetensors_header_reader *reader,
                                          const json_t *shape, struct tensor *tensor,
                                          uint64_t *n_items) {
    size_t n_dims = json_array_size(shape);
    if (!json_is_array(shape))
        return safetensors_header_fail(reader, STATUS_CORRUPT, tensor->name, "shape is not a list");
    if (n_dims > TENSOR_DIMS_MAX)
        return safetensors_header_fail(reader, STATUS_LIMIT, tensor->name,
                                       "more than 4 dimensions");
    /* A scalar counts as a vector of one. */
    tensor->n_dims = n_dims ? (uint32_t)n_dims : 1;
    *n_items = 1;
    for (size_t i = 0; i < TENSOR_DIMS_MAX; i++) {
        tensor->shape[i] = 1;
        if (i < n_dims && !safetensors_is_size(json_array_get(shape, i), &tensor->shape[i]))
            return safetensors_header_fail(reader, STATUS_CORRUPT, tensor->name,
                                           "shape holds no whole number");
        if (!checked_mul(*n_items, tensor->shape[i], n_items))
            return safetensors_header_fail(reader, STATUS_CORRUPT, tensor->name,
                                           "the product of its shape overflows");
    }
    return STATUS_OK;
}

static enum status safetensors_read_dtype(const struct safetensors_header_reader *reader,
                                          const json_t *dtype, struct tensor *tensor,
                                          uint32_t *item_bytes) {
    if (!json_is_string(dtype))
        return safetensors_header_fail(reader, STATUS_CORRUPT, tensor->name, "dtype is not text");
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(json_string_value(dtype), dtypes[i].dtype) == 0) {
            tensor->format = dtypes[i].format;
            *item_bytes = dtypes[i].bytes;
            return STATUS_OK;
        }
    }
    return error_field(reader->error, STATUS_UNSUPPORTED, tensor->name,
                       "%s: tensor %s: dtype %.32s is not known", reader->file->name, tensor->name,
                       json_string_value(dtype));
}

static enum status safetensors_read_offsets(const struct safetensors_header_reader *reader,
                                            const json_t *offsets,
                                            struct safetensors_header_row *row) {
    const char *name = row->tensor.name;
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !safetensors_is_size(json_array_get(offsets, 0), &row->begin) ||
        !safetensors_is_size(json_array_get(offsets, 1), &row->end) || row->end < row->begin)
        return safetensors_header_fail(reader, STATUS_CORRUPT, name,
                                       "data_offsets are not a pair of a begin and an end");
    if (row->end > reader->file->n_bytes - reader->file->data_offset)
        return safetensors_header_fail(reader, STATUS_CORRUPT, name,
                                       "data_offsets reach past the file's end");
    return STATUS_OK;
}

static enum status safetensors_read_row(const struct safetensors_header_reader *reader,
                                        const char *name, const json_t *value,
                                        struct safetensors_header_row *row) {
    struct tensor *tensor = &row->tensor;
    uint64_t n_items = 0;
    uint32_t item_bytes = 0;
    size_t n = strlen(name);
    if (n == 0 || n > TENSOR_NAME_MAX)
        return safetensors_header_fail(reader, STATUS_LIMIT, name,
                                       "its name is empty or longer than 127 bytes");
    memcpy(tensor->name, name, n + 1);
    if (!json_is_object(value))
        return safetensors_header_fail(reader, STATUS_CORRUPT, name,
                                       "its description is not an object");
    TRY(safetensors_read_dtype(reader, json_object_get(value, "dtype"), tensor, &item_bytes));
    TRY(safetensors_read_shape(reader, json_object_get(value, "shape"), tensor, &n_items));
    TRY(safetensors_read_offsets(reader, json_object_get(value, "data_offsets"), row));
    tensor->n_bytes = row->end - row->begin;
    uint64_t wanted;
    if (!checked_mul(n_items, item_bytes, &wanted) || wanted != tensor->n_bytes)
        return error_field(reader->error, STATUS_CORRUPT, name,
                           "%s: tensor %s: %" PRIu64 " bytes are not what its shape needs in %s",
                           reader->file->name, name, tensor->n_bytes, tensor->format);
    tensor->data = reader->file->bytes + reader->file->data_offset + row->begin;
    return STATUS_OK;
}

static int safetensors_compare_rows(const void *a, const void *b) {
    const struct safetensors_header_row *left = a;
    const struct safetensors_header_row *right = b;
    if (left->begin != right->begin)
        return left->begin < right->begin ? -1 : 1;
    return left->end < right->end ? -1 : left->end > right->end;
}

/* The format wants every byte of the data to belong to exactly one tensor. */
static enum status safetensors_check_places(const struct safetensors_header_reader *reader,
                                            struct safetensors_header_row *rows, uint32_t n) {
    uint64_t at = 0;
    qsort(rows, n, sizeof *rows, safetensors_compare_rows);
    for (uint32_t i = 0; i < n; i++) {
        if (rows[i].begin < at)
            return error_field(reader->error, STATUS_CORRUPT, rows[i].tensor.name,
                               "%s: tensors %s and %s overlap", reader->file->name,
                               rows[i - 1].tensor.name, rows[i].tensor.name);
        if (rows[i].begin > at)
            return error_field(reader->error, STATUS_CORRUPT, rows[i].tensor.name,
                               "%s: a gap of %" PRIu64 " bytes before tensor %s",
                               reader->file->name, rows[i].begin - at, rows[i].tensor.name);
        at = rows[i].end;
    }
    uint64_t n_data = reader->file->n_bytes - reader->file->data_offset;
    if (at != n_data)
        return error_set(reader->error, STATUS_CORRUPT,
                         "%s: %" PRIu64 " bytes of data, but its tensors end at %" PRIu64,
                         reader->file->name, n_data, at);
    return STATUS_OK;
}

static enum status safetensors_append(struct safetensors *files, uint32_t index,
                                      const struct safetensors_header_row *rows, uint32_t n,
                                      struct error *error) {
    uint32_t total = files->n_tensors + n;
    if (total > files->size) {
        uint32_t size = total + total / 2;
        struct tensor *tensors = realloc(files->tensors, size * sizeof *tensors);
        if (tensors)
            files->tensors = tensors;
        uint32_t *file_of = realloc(files->file_of, size * sizeof *file_of);
        if (file_of)
            files->file_of = file_of;
        if (!tensors || !file_of)
            return error_set(error, STATUS_NOMEM, "%s: no memory for its header",
                             files->files[index].name);
        files->size = size;
    }
    for (uint32_t i = 0; i < n; i++) {
        files->tensors[files->n_tensors] = rows[i].tensor;
        files->file_of[files->n_tensors++] = index;
    }
    return STATUS_OK;
}

static enum status safetensors_read_rows(struct safetensors *files, uint32_t index, json_t *header,
                                         struct error *error) {
    struct safetensors_header_reader reader = {.file = &files->files[index], .error = error};
    enum status status = STATUS_OK;
    const char *name;
    json_t *value;
    uint32_t n = 0;
    size_t n_keys = json_object_size(header);
    if (n_keys > SAFETENSORS_TENSORS_MAX - files->n_tensors)
        return error_set(error, STATUS_LIMIT, "%s: more than %u tensors", reader.file->name,
                         SAFETENSORS_TENSORS_MAX);
    struct safetensors_header_row *rows = calloc(n_keys + 1, sizeof *rows);
    if (!rows)
        return error_set(error, STATUS_NOMEM, "%s: no memory for its header", reader.file->name);
    json_object_foreach(header, name, value) {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        status = safetensors_read_row(&reader, name, value, &rows[n++]);
        if (status != STATUS_OK)
            break;
    }
    if (status == STATUS_OK)
        status = safetensors_check_places(&reader, rows, n);
    if (status == STATUS_OK)
        status = safetensors_append(files, index, rows, n, error);
    free(rows);
    return status;
}

enum status safetensors_read_header(struct safetensors *files, uint32_t index,
                                    struct error *error) {
    static const struct json_limits limits = {
        .n_bytes = SAFETENSORS_HEADER_MAX, .depth = 3, .n_values = 16ull * SAFETENSORS_TENSORS_MAX};
    struct safetensors_file *file = &files->files[index];
    uint64_t n_header;
    json_t *header;
    if (file->n_bytes < 8)
        return error_set(error, STATUS_CORRUPT,
                         "%s: at byte 0: %" PRIu64 " bytes are not a safetensors file", file->name,
                         file->n_bytes);
    memcpy(&n_header, file->bytes, sizeof n_header);
    if (n_header > file->n_bytes - 8)
        return error_set(error, STATUS_CORRUPT,
                         "%s: at byte 0: a header of %" PRIu64 " bytes in a file of %" PRIu64,
                         file->name, n_header, file->n_bytes);
    if (n_header > SAFETENSORS_HEADER_MAX)
        return error_set(error, STATUS_LIMIT,
                         "%s: at byte 0: a header of %" PRIu64 " bytes, at most %u are read",
                         file->name, n_header, SAFETENSORS_HEADER_MAX);
    if (n_header == 0 || file->bytes[8] != '{')
        return error_set(error, STATUS_CORRUPT, "%s: at byte 8: the header does not start with {",
                         file->name);
    file->data_offset = 8 + n_header;
    struct span text = {(const char *)file->bytes + 8, (size_t)n_header};
    TRY(json_text_parse(text, file->name, &limits, &header, error));
    enum status status = safetensors_read_rows(files, index, header, error);
    json_decref(header);
    return status;
}
