/* worker/step/grammars.h: the grammars that sequences of this worker ask for, compiled, and a state in
 * one that has followed a sequence's output so far.
 *
 * What takes long is done in a thread of its own, one job after the other: the vocabulary, with the
 * first grammar that comes; a grammar; a long output. Compiled grammars are kept by their bytes, those
 * that were asked for last, and shared.
 *
 * Locking: `lock` guards the two queues of jobs and `ends`. A job belongs to the thread that took it
 * out of a queue; the vocabulary and the tokenizer belong to the maker thread. Everything else is the
 * engine thread's, which alone calls the functions below. */
#pragma once

#include "base/list.h"
#include "base/span.h"
#include "base/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct grammar;
struct grammar_state;
struct grammar_vocabulary;
struct tokenizer;

#define GRAMMARS_BACK   16 /* tokens that a state can be set back by */
#define GRAMMARS_INLINE 32 /* output tokens that the state's first user follows itself */

/* Of work for one mask, or one token that is followed, beside eight looks at all of the vocabulary's trie: the engine thread does
 * it, and 1,000,000 steps are some 10 ms. */
#define GRAMMARS_MASK_STEPS 1000000u

struct grammars_options {
    struct tokenizer *tokenizer; /* owned from here on */
    uint32_t n_jobs_max;         /* at a time */
    uint32_t n_kept_max;         /* compiled grammars */
    size_t n_bytes_max;          /* of those, together */
    size_t n_mask_bytes;         /* of masks that are kept for all of them */
};

struct grammars_figures {
    uint64_t n_asked;
    uint64_t n_hits; /* of these, compiled already or about to be */
    uint64_t n_compiled;
    uint64_t compile_ns; /* of all that were compiled, and of those that could not be */
    uint32_t n_kept;
};

struct grammars {
    struct grammars_options options;
    struct list kept; /* struct kept_grammar, the one last asked for in front */
    uint64_t hash_seed;
    uint32_t n_jobs;
    struct grammars_figures figures;
    int fd; /* owned: an eventfd, readable while grammars_next() has something */

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct list asked; /* struct job: for the maker */
    struct list made;  /* for the engine */
    bool ends;
    atomic_uint n_made;

    struct tokenizer *tokenizer;           /* owned; NULL once the vocabulary is built */
    struct grammar_vocabulary *vocabulary; /* owned; for all who have a state: it never changes */
};

/* What was asked for: whose it is, and a state that has followed the first n_followed output tokens,
 * the caller's to free. */
struct grammars_made {
    uint32_t slot;
    uint64_t serial;
    enum status status;
    struct grammar_state *state; /* NULL unless STATUS_OK */
    uint32_t n_followed;
};

/* STATUS_NOMEM, STATUS_IO (no eventfd). The tokenizer is closed even then. */
NODISCARD enum status grammars_open(struct grammars *grammars,
                                    const struct grammars_options *options);
void grammars_close(struct grammars *grammars); /* no state may be left; fine on a zeroed one */

/* A state in the packed grammar (model/text/grammar/pack.h) for output ids (n). STATUS_OK: *made is
 * it. STATUS_BUSY: grammars_next() will answer. STATUS_NOMEM: too many are under way. */
NODISCARD enum status grammars_ask(struct grammars *grammars, struct span packed, uint32_t slot,
                                   uint64_t serial, const uint32_t *ids, uint32_t n,
                                   struct grammars_made *made);

/* The next that was made; false: none. Costs next to nothing where there is none. Its status, beside
 * STATUS_OK: of grammar_unpack(), grammar_compile() and grammar_accept(). */
bool grammars_next(struct grammars *grammars, struct grammars_made *made);
