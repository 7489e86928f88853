/* Any text as JSON: integers that fit into 64 bits are those of jansson, and every number is the double
 * that it reads where all integers are reals; what it refuses then is refused in the same place. */
#include "base/assert.h"
#include "base/json/json_read.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* `reals` is the same text with every integer as a real. */
static void check_numbers(const json_t *value, const json_t *reals) {
    const char *key;
    json_t *member;
    ASSERT(json_typeof(value) == json_typeof(reals) ||
           (json_is_integer(value) && json_is_real(reals)));
    if (json_is_number(value))
        ASSERT(json_number_value(value) == json_real_value(reals));
    ASSERT(json_array_size(value) == json_array_size(reals) &&
           json_object_size(value) == json_object_size(reals));
    for (size_t i = 0; i < json_array_size(value); i++)
        check_numbers(json_array_get(value, i), json_array_get(reals, i));
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
        check_numbers(member, json_object_get(reals, key));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    size_t flags = JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | (size % 2 ? JSON_ALLOW_NUL : 0);
    json_error_t found, wanted;
    json_t *value = json_read(text, size, flags, &found);
    json_t *reals = json_loadb(size ? text : "", size, flags | JSON_DECODE_INT_AS_REAL, &wanted);
    json_t *plain = json_loadb(size ? text : "", size, flags, NULL);
    ASSERT(!value == !reals);
    if (value)
        check_numbers(value, reals);
    else
        ASSERT(found.line == wanted.line && found.column == wanted.column &&
               found.position == wanted.position && strcmp(found.text, wanted.text) == 0);
    ASSERT(!plain || json_equal(plain, value));
    json_decref(value);
    json_decref(reals);
    json_decref(plain);
    return 0;
}
