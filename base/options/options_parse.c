#include "base/options/options_internal.h"

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

static int options_count_words(const char *words) {
    int n = 0;
    for (const char *at = words; at && *at; n++) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    return n;
}

/* Digits, then one of the units. False also when the product does not fit. */
static bool options_parse_number(const char *text, const struct unit *units, uint64_t *number) {
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

static bool options_parse_bool(const char *text, uint64_t *number) {
    if (options_word("yes on true 1", text, strlen(text)) >= 0)
        *number = 1;
    else if (options_word("no off false 0", text, strlen(text)) >= 0)
        *number = 0;
    else
        return false;
    return true;
}

/* The number of `word` among `choices` and what `words` adds; -1 when it is none of them. */
static int options_word_of(const struct option_spec *option, const char *word) {
    int n_choices = options_count_words(option->choices);
    int at = *word ? options_word(option->choices, word, strlen(word)) : -1;
    for (unsigned i = 0; at < 0 && option->words && option->words(i); i++)
        if (strcmp(option->words(i), word) == 0)
            at = n_choices + (int)i;
    return at;
}

void options_put_words(const struct option_spec *option, struct buf *out) {
    bool first = !option->choices;
    buf_puts(out, option->choices ? option->choices : "");
    for (unsigned i = 0; option->words && option->words(i); i++, first = false)
        buf_printf(out, "%s%s", first ? "" : " ", option->words(i));
}

bool options_parse(const struct option_spec *option, const char *text, uint64_t *number,
                   struct buf *expected) {
    static const char *const forms[] = {
        [OPTION_UINT] = "a whole number",
        [OPTION_SIZE] = "a size such as 4096, 64K or 2GiB",
        [OPTION_DURATION] = "a time with its unit, such as 250ms or 10s",
        [OPTION_BOOL] = "yes or no",
    };
    int word;
    bool ok = true;
    switch (option->type) {
    case OPTION_STRING:
    case OPTION_LIST:
        return true;
    case OPTION_UINT:
        ok = options_parse_number(text, NULL, number);
        break;
    case OPTION_SIZE:
        ok = options_parse_number(text, size_units, number);
        break;
    case OPTION_DURATION:
        ok = options_parse_number(text, time_units, number);
        break;
    case OPTION_BOOL:
        ok = options_parse_bool(text, number);
        break;
    case OPTION_CHOICE:
    case OPTION_WORD:
        word = options_word_of(option, text);
        *number = word < 0 ? 0 : (uint64_t)word;
        if (word < 0) {
            buf_puts(expected, "one of: ");
            options_put_words(option, expected);
        }
        return word >= 0;
    }
    if (!ok)
        buf_puts(expected, forms[option->type]);
    return ok;
}
