/* router/serving.h: what all requests share: the pieces that main.c puts together.
 *
 * Loop's thread only, but for `text` and `limits`, which the text pool's threads read. */
#pragma once

#include "base/list.h"
#include "base/loop.h"
#include "base/random.h"
#include "router/api/ask.h"

#include <stdbool.h>
#include <stdint.h>

struct calls;
struct exchanges;
struct api_keys;
struct link;
struct listener;
struct meter;
struct metrics;
struct pool;
struct router;
struct text;

struct serving {
    struct loop *loop; /* all borrowed: main.c owns them */
    struct exchanges *exchanges;
    struct listener *listener;
    struct pool *pool;
    struct text *text;
    struct router *core;
    struct calls *calls;
    struct link *link;
    struct api_keys *keys;      /* NULL: everybody may ask */
    const char *const *origins; /* (n_origins) whose pages may read our answers: CORS */
    unsigned n_origins;
    struct metrics *metrics;
    struct meter *meter;

    const char *name;  /* this router's */
    const char *model; /* the id that clients see */
    struct ask_limits limits;
    uint32_t context;     /* of the model; workers may hold less */
    uint64_t deadline_ns; /* for each call; 0: none */
    int64_t created_s;    /* Unix time of the start */
    uint64_t started_ns;
    bool draining;
    struct random random; /* ids and seeds */
};

/* The longest sequence that a request may ask for now: the model's, or less where workers hold
 * less. */
uint32_t serving_context(const struct serving *serving);

/* Workers that can take work now. */
uint32_t serving_n_workers(const struct serving *serving);

/* Would a request be served now? */
bool serving_ready(const struct serving *serving);
