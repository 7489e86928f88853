/* model/text/grammar/grammar_own.h: a grammar as its own files see it.
 *
 * `lock` guards what is worked out while it is used: machine and the list of states. It is held for
 * one byte, token or mask. The vocabulary's store has a lock of its own, which is taken beneath it. */
#pragma once

#include "model/text/grammar/engine/threads.h"
#include "model/text/grammar/engine/trace.h"
#include "model/text/grammar/grammar.h"
#include "model/text/grammar/program/program.h"

#include <pthread.h>
#include <stdatomic.h>

struct grammar {
    atomic_uint n_holders;
    struct grammar_limits limits;
    struct grammar_vocabulary *vocabulary; /* borrowed, or NULL */
    struct program program;                /* owned, never changes */
    struct grammar_unenforced *unenforced; /* owned (n_unenforced) */
    uint32_t n_unenforced;
    uint64_t hash[2];
    struct threads start; /* before any text; never changes */

    pthread_mutex_t lock;
    struct machine machine;
    struct grammar_state *states; /* list of all, for the marking of frames */
};

/* Where each remembered step's threads lie in state->threads. */
struct grammar_step {
    uint32_t begin;
    uint32_t n;
};

struct grammar_state {
    struct grammar *grammar; /* held */
    struct grammar_state *next;
    struct grammar_state *before;
    struct threads threads; /* of all remembered steps, one behind the other */
    struct threads scratch;
    struct grammar_step *steps; /* owned (n_back + 1): a ring; the newest is steps[at] */
    uint32_t n_back;
    uint32_t n_known; /* steps before the newest that are remembered */
    uint32_t at;
    bool may_end;
    bool must_end;
    bool has_trace;
    struct trace trace;
    uint64_t n_followed; /* bytes since grammar_watch() */
    uint64_t told;       /* bytes whose spans were told */
};
