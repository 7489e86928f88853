#include "base/part_name.h"

#include "base/assert.h"
#include "base/span.h"

#include <stdio.h>
#include <string.h>

#define DIGITS 5

static bool part_name_digits(const char *text, uint32_t *number) {
    *number = 0;
    for (int i = 0; i < DIGITS; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *number = 10 * *number + (uint32_t)(text[i] - '0');
    }
    return true;
}

bool part_name_read(const char *name, const char *end, struct part_name *part) {
    size_t n = strlen(name), n_end = strlen(end);
    if (!span_ends((struct span){name, n}, end) || n < PART_NAME_BYTES + n_end)
        return false;
    struct part_name read = {.n_stem = n - n_end - PART_NAME_BYTES};
    const char *text = name + read.n_stem;
    if (text[0] != '-' || !part_name_digits(text + 1, &read.number) ||
        strncmp(text + 1 + DIGITS, "-of-", 4) != 0 ||
        !part_name_digits(text + PART_NAME_BYTES - DIGITS, &read.count) || read.number == 0 ||
        read.number > read.count)
        return false;
    *part = read;
    return true;
}

void part_name_set(char *name, const struct part_name *part, uint32_t number) {
    char digits[16];
    ASSERT(number > 0 && number <= part->count);
    snprintf(digits, sizeof digits, "%05u", number);
    memcpy(name + part->n_stem + 1, digits, DIGITS);
}

bool part_name_same_set(const char *name, const struct part_name *part, const char *other_name,
                        const struct part_name *other) {
    return part->count == other->count && part->n_stem == other->n_stem &&
           memcmp(name, other_name, part->n_stem) == 0;
}
