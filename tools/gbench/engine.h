/* tools/gbench/engine.h: an engine of grammars as the bench uses it: ours, or llguidance's library.
 *
 * One thread. What is handed back belongs to the engine unless a line says otherwise. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tokenizer;

/* The tokens, in both engines' forms. All borrowed. */
struct bench_tokens {
    const struct tokenizer *tokenizer;
    const uint32_t
        *lengths; /* (n) bytes of each in `bytes`; a special token begins with 0xff there */
    const uint8_t *bytes;
    uint32_t n;
    uint32_t end;        /* the token that ends a text */
    size_t n_mask_bytes; /* the bound of masks that are kept, where the engine keeps any */
};

struct bench_figures {
    uint64_t n_made;  /* masks; those that were found are not counted */
    uint64_t n_bytes; /* of masks that are kept; 0: the engine keeps none */
    uint64_t n_bytes_max;
    uint64_t n_dropped;
};

struct bench_engine {
    const char *name;

    /* Makes the vocabulary: its time is a figure. NULL, with a line in `error`, where it cannot. */
    void *(*open)(const struct bench_tokens *tokens, char *error, size_t n_error);
    void (*close)(void *engine);

    /* A JSON schema, compiled, at the beginning of its text; the caller gives it back with free().
     * `lenient`: keywords that cannot be kept are left unenforced. NULL, with a line in `error`, where it is refused. */
    void *(*compile)(void *engine, const char *schema, bool lenient, char *error, size_t n_error);
    void (*free)(void *grammar);

    bool (*reset)(void *grammar);
    /* Bits of the tokens that may come, until the next call; NULL past a bound. */
    const uint32_t *(*mask)(void *grammar);
    bool (*accept)(void *grammar, uint32_t token);
    bool (*may_end)(void *grammar);
    struct bench_figures (*figures)(void *engine);
};

extern const struct bench_engine bench_ours;
extern const struct bench_engine bench_llguidance;

/* Loads llguidance's shared object, and before it the Python library whose symbols it wants. False,
 * with a line in `error`, where that cannot be. */
bool bench_llguidance_load(const char *python, const char *library, char *error, size_t n_error);
