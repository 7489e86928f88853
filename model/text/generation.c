#include "model/text/generation.h"

#include "model/gguf/gguf.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name; /* in generation_config.json and here */
    const char *key;  /* of GGUF (llama.cpp's constants.py); NULL: none */
    double min, max;
    bool is_above; /* the least value itself is out of bounds */
    bool is_whole;
} fields[GENERATION_FIELDS] = {
    [GENERATION_TEMPERATURE] = {"temperature", "general.sampling.temp", 0, 100, false, false},
    [GENERATION_TOP_P] = {"top_p", "general.sampling.top_p", 0, 1, false, false},
    [GENERATION_TOP_K] = {"top_k", "general.sampling.top_k", -1, INT32_MAX, false, true},
    [GENERATION_MIN_P] = {"min_p", "general.sampling.min_p", 0, 1, false, false},
    [GENERATION_REPETITION] = {"repetition_penalty", "general.sampling.penalty_repeat", 0, 100,
                               true, false},
    [GENERATION_MAX_NEW] = {"max_new_tokens", NULL, 1, INT32_MAX, false, true},
};

const char *generation_name(enum generation_field field) {
    return fields[field].name;
}

static void generation_ignore(struct generation *generation, const char *file, const char *key,
                              enum generation_field field) {
    size_t n = strlen(generation->ignored);
    snprintf(generation->ignored + n, sizeof generation->ignored - n,
             "%s%s%s must be a %snumber %s %g, at most %g; it is not used", n > 0 ? "" : file,
             n > 0 ? "; " : ": ", key, fields[field].is_whole ? "whole " : "",
             fields[field].is_above ? "above" : "from", fields[field].min, fields[field].max);
}

static void generation_take(struct generation *generation, const char *file, const char *key,
                            enum generation_field field, double value) {
    bool is_low =
        fields[field].is_above ? !(value > fields[field].min) : !(value >= fields[field].min);
    if (is_low || !(value <= fields[field].max) ||
        (fields[field].is_whole && value != floor(value))) {
        generation_ignore(generation, file, key, field);
        return;
    }
    generation->has[field] = true;
    generation->value[field] = field == GENERATION_TOP_K && value < 0 ? 0 : value;
}

void generation_from_json(const json_t *object, const char *file, struct generation *generation) {
    for (unsigned field = 0; field < GENERATION_FIELDS; field++) {
        const json_t *value = json_object_get(object, fields[field].name);
        if (!value || json_is_null(value))
            continue;
        double number = json_is_number(value) ? json_number_value(value) : NAN;
        generation_take(generation, file, fields[field].name, field, number);
    }
}

static double generation_number_of(const struct gguf *gguf, const char *key) {
    struct error error;
    double number;
    uint64_t whole;
    if (gguf_f64(gguf, key, &number, &error) == STATUS_OK)
        return number;
    return gguf_u64(gguf, key, &whole, &error) == STATUS_OK ? (double)whole : NAN;
}

void generation_from_gguf(const struct gguf *gguf, struct generation *generation) {
    for (unsigned field = 0; field < GENERATION_FIELDS; field++)
        if (fields[field].key && gguf_find(gguf, fields[field].key))
            generation_take(generation, gguf->name, fields[field].key, field,
                            generation_number_of(gguf, fields[field].key));
}
