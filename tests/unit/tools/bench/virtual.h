/* tests/unit/tools/bench/virtual.h: the bench's core on a virtual clock, against a scripted server.
 *
 * Every request goes through the script alone: so many milliseconds to the first token, between
 * tokens and to the end. What is special is a field. All times are exact. */
#pragma once

#include "tools/bench/core/level.h"

struct script {
    uint64_t ttft_ns;
    uint64_t itl_ns;       /* between chunks with content */
    uint64_t tail_ns;      /* from the last chunk to the end */
    uint32_t n_tokens;     /* 0: as many as asked */
    uint32_t chunk_tokens; /* tokens in a chunk; 0: 1 */
    bool role_first;       /* a chunk with the role alone comes at once */
    uint64_t role_ns;      /* and when, after sending */
    bool no_usage;
    int usage_off;       /* added to usage.completion_tokens */
    uint32_t prompt_off; /* added to usage.prompt_tokens */
    uint32_t n_cached;
    enum finish finish;
    uint64_t stall_from_ns; /* since the begin: nothing is heard until stall_to_ns */
    uint64_t stall_to_ns;
    enum fault fault;      /* of every request whose number is a multiple of fault_every */
    uint32_t fault_every;  /* 0: none */
    uint32_t silent_every; /* such requests are never answered */
    uint32_t slow_every;   /* such requests' first token takes slow_ns */
    uint64_t slow_ns;
    uint64_t send_late_ns; /* the client itself: from due to sent */
    bool endless;          /* tokens without an end */
    uint64_t prefill_ns;   /* of a prompt, one after the other: request n waits for n before it */
    uint32_t n_slots;      /* requests that are held at a time, at most 64; 0: all */
};

/* Runs a whole level, which the caller ends with level_fini(). It begins at an hour. */
void virtual_run(struct level *level, const struct level_spec *spec, const struct script *script);
