#include "base/options_internal.h"

#include "base/checked.h"
#include "base/clock.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit size_units[] = {
    {"", 1},           {"b", 1},
    {"k", 1ull << 10}, {"kib", 1ull << 10},
    {"m", 1ull << 20}, {"mib", 1ull << 20},
    {"g", 1ull << 30}, {"gib", 1ull << 30},
    {"t", 1ull << 40}, {"tib", 1ull << 40},
    {NULL, 0},
};

static const struct unit time_units[] = {
    {"ns", 1},
    {"us", NS_PER_US},
    {"ms", NS_PER_MS},
    {"s", NS_PER_S},
    {"m", 60 * NS_PER_S},
    {"h", 3600 * NS_PER_S},
    {"d", 86400 * NS_PER_S},
    {NULL, 0},
};

int options_word(const char *words, const char *word, size_t n) {
    int at = 0;
    for (const char *begin = words; begin && *begin; at++) {
        size_t length = strcspn(begin, " ");
        if (length == n && memcmp(begin, word, n) == 0)
            return at;
        begin += length;
        begin += strspn(begin, " ");
    }
    return -1;
}

/* Digits, then one of the units. False also when the product does not fit. */
static bool parse_number(const char *text, const struct unit *units, uint64_t *number) {
    uint64_t value = 0;
    const char *at = text;
    if (!isdigit((unsigned char)*at))
        return false;
    for (; isdigit((unsigned char)*at); at++)
        if (!checked_mul(value, 10, &value) || !checked_add(value, (uint64_t)(*at - '0'), &value))
            return false;
    if (!units) {
        *number = value;
        return *at == 0;
    }
    if (*at == 0 && value == 0) {
        *number = 0; /* nothing is nothing in every unit */
        return true;
    }
    for (const struct unit *unit = units; unit->name; unit++)
        if (strcasecmp(at, unit->name) == 0)
            return checked_mul(value, unit->factor, number);
    return false;
}

static bool parse_bool(const char *text, uint64_t *number) {
    if (options_word("yes on true 1", text, strlen(text)) >= 0)
        *number = 1;
    else if (options_word("no off false 0", text, strlen(text)) >= 0)
        *number = 0;
    else
        return false;
    return true;
}

const char *options_parse(const struct option_spec *option, const char *text, uint64_t *number) {
    int word;
    switch (option->type) {
    case OPTION_STRING:
    case OPTION_LIST:
        return NULL;
    case OPTION_UINT:
        return parse_number(text, NULL, number) ? NULL : "a whole number";
    case OPTION_SIZE:
        return parse_number(text, size_units, number) ? NULL : "a size such as 4096, 64K or 2GiB";
    case OPTION_DURATION:
        return parse_number(text, time_units, number)
                   ? NULL
                   : "a time with its unit, such as 250ms or 10s";
    case OPTION_BOOL:
        return parse_bool(text, number) ? NULL : "yes or no";
    case OPTION_CHOICE:
        word = *text ? options_word(option->choices, text, strlen(text)) : -1;
        if (word < 0)
            return option->choices;
        *number = (uint64_t)word;
        return NULL;
    }
    return "another type";
}
