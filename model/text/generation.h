/* model/text/generation.h: how a model's makers mean it to be sampled, where a request does not
 * say: generation_config.json of a folder, the general.sampling.* keys of a GGUF file.
 *
 * `do_sample` is not read: files carry false because it is their library's default, and a request
 * without a temperature is to be sampled in this API (vLLM does the same). Start-up only; then
 * read-only. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum generation_field {
    GENERATION_TEMPERATURE,
    GENERATION_TOP_P,
    GENERATION_TOP_K, /* 0: off */
    GENERATION_MIN_P,
    GENERATION_REPETITION,
    GENERATION_MAX_NEW, /* tokens of an answer; of folders alone */
    GENERATION_FIELDS
};

struct generation {
    bool has[GENERATION_FIELDS];
    double value[GENERATION_FIELDS]; /* within the bounds that requests have (docs/http-api.md) */
    char ignored[ERROR_TEXT_MAX];    /* the values that are out of bounds and not used, or "" */
};

/* As requests name it: "temperature"; "max_new_tokens" for the last. */
const char *generation_name(enum generation_field field);

typedef struct json_t json_t; /* jansson's */
struct gguf;

/* Fills a zeroed struct. `object` is the file's content, or NULL. A value that cannot be used is
 * left out and named: a model is served without. */
void generation_from_json(const json_t *object, const char *file, struct generation *generation);
void generation_from_gguf(const struct gguf *gguf, struct generation *generation);
