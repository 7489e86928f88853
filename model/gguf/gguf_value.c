/* What a GGUF header holds, by name: tensors, and values with typed getters. */
#include "base/assert.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_cursor.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

struct map_key gguf_hash(const struct gguf *gguf, const char *bytes, size_t n) {
    XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, n, gguf->seed);
    return (struct map_key){.hi = hash.high64, .lo = hash.low64};
}

const struct gguf_value *gguf_find(const struct gguf *gguf, const char *key) {
    uint32_t index;
    size_t n = strlen(key);
    if (map_get(&gguf->value_by_key, gguf_hash(gguf, key, n), &index) != STATUS_OK)
        return NULL;
    return span_is(gguf->values[index].key, key) ? &gguf->values[index] : NULL;
}

const struct tensor *gguf_tensor(const struct gguf *gguf, const char *name) {
    uint32_t index;
    if (map_get(&gguf->tensor_by_name, gguf_hash(gguf, name, strlen(name)), &index) != STATUS_OK)
        return NULL;
    return strcmp(gguf->tensors[index].name, name) == 0 ? &gguf->tensors[index] : NULL;
}

enum status gguf_need(const struct gguf *gguf, const char *key, struct error *error) {
    return gguf_find(gguf, key) ? STATUS_OK
                                : error_field(error, STATUS_NOT_FOUND, key, "%s: key %s is missing",
                                              gguf->name, key);
}

static enum status gguf_wrong_type(const struct gguf *gguf, const struct gguf_value *value,
                                   const char *key, const char *wanted, struct error *error) {
    return error_field(error, STATUS_CORRUPT, key,
                       "%s: at byte %" PRIu64 ": key %s is of type %s, not %s", gguf->name,
                       value->offset, key, gguf_types[value->type].name, wanted);
}

/* The value, if it is there, which has to be of this type. */
static enum status gguf_find_of_type(const struct gguf *gguf, const char *key, enum gguf_type type,
                                     const struct gguf_value **value, struct error *error) {
    *value = gguf_find(gguf, key);
    return !*value || (*value)->type == type
               ? STATUS_OK
               : gguf_wrong_type(gguf, *value, key, gguf_types[type].name, error);
}

/* Loads an integer of any type; false for other types and negative values. */
static bool gguf_load_unsigned(const struct gguf_value *value, uint64_t *result) {
    const struct gguf_type_row *type = &gguf_types[value->type];
    uint64_t number = 0;
    if (!type->is_integer)
        return false;
    memcpy(&number, value->bytes, type->bytes); /* both are little-endian */
    if (type->is_signed && (number >> (8 * type->bytes - 1)) != 0)
        return false;
    *result = number;
    return true;
}

enum status gguf_u64(const struct gguf *gguf, const char *key, uint64_t *value,
                     struct error *error) {
    const struct gguf_value *found = gguf_find(gguf, key);
    if (found && !gguf_load_unsigned(found, value))
        return gguf_wrong_type(gguf, found, key, "a number of 0 or more", error);
    return STATUS_OK;
}

enum status gguf_u32(const struct gguf *gguf, const char *key, uint32_t *value,
                     struct error *error) {
    uint64_t wide = *value;
    TRY(gguf_u64(gguf, key, &wide, error));
    if (wide > UINT32_MAX)
        return error_field(error, STATUS_CORRUPT, key, "%s: key %s is %" PRIu64 ", too large",
                           gguf->name, key, wide);
    *value = (uint32_t)wide;
    return STATUS_OK;
}

enum status gguf_f64(const struct gguf *gguf, const char *key, double *value, struct error *error) {
    const struct gguf_value *found = gguf_find(gguf, key);
    float single;
    if (!found)
        return STATUS_OK;
    if (found->type == GGUF_F32) {
        memcpy(&single, found->bytes, sizeof single);
        *value = (double)single;
        return STATUS_OK;
    }
    if (found->type != GGUF_F64)
        return gguf_wrong_type(gguf, found, key, "f32 or f64", error);
    memcpy(value, found->bytes, sizeof *value);
    return STATUS_OK;
}

enum status gguf_bool(const struct gguf *gguf, const char *key, bool *value, struct error *error) {
    const struct gguf_value *found;
    TRY(gguf_find_of_type(gguf, key, GGUF_BOOL, &found, error));
    if (found)
        *value = found->bytes[0] == 1;
    return STATUS_OK;
}

enum status gguf_string(const struct gguf *gguf, const char *key, struct span *text,
                        struct error *error) {
    const struct gguf_value *found;
    uint64_t n;
    TRY(gguf_find_of_type(gguf, key, GGUF_STRING, &found, error));
    if (!found)
        return STATUS_OK;
    memcpy(&n, found->bytes, sizeof n);
    *text = (struct span){(const char *)found->bytes + sizeof n, (size_t)n};
    return STATUS_OK;
}

enum status gguf_array_of(const struct gguf *gguf, const char *key, enum gguf_type type,
                          struct gguf_array *array, struct error *error) {
    const struct gguf_value *found;
    TRY(gguf_need(gguf, key, error));
    TRY(gguf_find_of_type(gguf, key, GGUF_ARRAY, &found, error));
    if (found->array.type != type)
        return error_field(error, STATUS_CORRUPT, key,
                           "%s: at byte %" PRIu64 ": key %s is an array of %s, not of %s",
                           gguf->name, found->offset, key, gguf_types[found->array.type].name,
                           gguf_types[type].name);
    *array = found->array;
    return STATUS_OK;
}

bool gguf_array_next_text(struct gguf_array *array, struct span *text) {
    ASSERT(array->type == GGUF_STRING);
    uint64_t n;
    if (array->n == 0)
        return false;
    /* The walk at opening has checked every length. */
    memcpy(&n, array->items, sizeof n);
    DASSERT(n <= (uint64_t)(array->end - array->items) - sizeof n);
    *text = (struct span){(const char *)array->items + sizeof n, (size_t)n};
    array->items += sizeof n + n;
    array->n--;
    return true;
}

uint32_t gguf_array_u32(const struct gguf_array *array, uint64_t i) {
    uint32_t value;
    ASSERT(array->type == GGUF_I32 || array->type == GGUF_U32);
    ASSERT(i < array->n);
    memcpy(&value, array->items + i * sizeof value, sizeof value);
    return value;
}
