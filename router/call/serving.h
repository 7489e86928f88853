/* router/call/serving.h: what all calls share: the pieces that main.c puts together.
 *
 * Loop's thread only, but for `text` and `limits`, which the text pool's threads read. */
#pragma once

#include "base/list.h"
#include "base/net/loop.h"
#include "base/random.h"
#include "router/api/ask.h"
#include "router/api/retry.h"

#include <stdbool.h>
#include <stdint.h>

struct calls;
struct exchanges;
struct formats;
struct meter;
struct usage;
struct pool;
struct router;
struct text;
struct tracer;

struct api_error;

struct serving {
    struct loop *loop; /* all borrowed: main.c owns them */
    struct exchanges *exchanges;
    struct pool *pool;
    struct text *text;
    struct formats *formats; /* any thread */
    struct router *core;
    struct calls *calls;
    struct list crowded; /* of struct call.waits: no memory for their trees now */
    uint32_t n_jobs;     /* of calls, on the pool */
    struct meter *meter;
    struct usage *usage;
    struct tracer *tracer; /* NULL: traces go nowhere */

    const char *model; /* the id that clients see */
    struct ask_limits limits;
    uint32_t context;     /* of the model; workers may hold less */
    uint64_t deadline_ns; /* for each call; 0: none */
    bool draining;
    struct random random; /* ids and seeds */
    struct retry retry;   /* when refused clients may come again */
};

/* The longest sequence that a request may ask for now: the model's, or less where workers hold
 * less. */
uint32_t serving_context(const struct serving *serving);

/* "fp_" and twelve digits: what computes answers now, the numerics of all ready workers together.
 * It changes with the model, the kernels or the cut, so that who sends seeds sees it. */
void serving_fingerprint(const struct serving *serving, char text[20]);

/* Retry-After in whole seconds and in milliseconds for an error that wants them; false: it wants
 * none. */
struct serving_retry {
    char s[12];
    char ms[12];
};
bool serving_retry(struct serving *serving, const struct api_error *error,
                   struct serving_retry *retry);

/* Workers that can take work now. */
uint32_t serving_n_workers(const struct serving *serving);

/* Would a request be served now? */
bool serving_ready(const struct serving *serving);

/* Why not, for clients: "No worker can serve the request now (refused, another model: 2)". Names
 * and addresses of workers are not theirs to know. Returns `out`, of `size` bytes. */
const char *serving_no_worker(const struct serving *serving, char *out, size_t size);
