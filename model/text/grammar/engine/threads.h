/* model/text/grammar/engine/threads.h: where a grammar is: a few threads, each a set of nodes of one
 * rule over a stack of what its callers go on with.
 *
 * A thread stands where text or a special token comes next, or at SET_FINAL, where the whole text may
 * end. Texts of several readings have several threads; one without any is refused. Whoever holds the
 * grammar's lock uses it. */
#pragma once

#include "base/status.h"
#include "model/text/grammar/engine/automaton.h"
#include "model/text/grammar/engine/frames.h"

#include <stdbool.h>
#include <stdint.h>

struct thread {
    uint32_t set;
    uint32_t stack;
    uint32_t trace; /* which regions its bytes were of (trace.h); 0 where that is not asked for */
};

struct threads {
    struct thread *at; /* owned (n) */
    uint32_t n;
    uint32_t size;
};

void threads_fini(struct threads *threads);
NODISCARD enum status threads_push(struct threads *threads, struct thread thread);
/* Room for n more, so that what is appended does not move what stands there. */
NODISCARD enum status threads_reserve(struct threads *threads, uint32_t n);

struct machine_slot {
    uint32_t mark;
    uint32_t set;
    uint32_t stack;
};

/* What threads run on. */
struct machine {
    const struct program *program; /* borrowed */
    struct automaton automaton;
    struct frames frames;
    uint32_t n_threads_max;     /* of one state */
    struct machine_slot *slots; /* owned (n_slots): threads of the list that is being made */
    uint32_t n_slots;
    uint32_t mark;
};

struct machine_limits {
    uint64_t n_bytes; /* of sets and rows */
    uint32_t n_frames;
    uint32_t n_threads; /* of one state */
    uint32_t clip;      /* frames.h */
};

NODISCARD enum status machine_init(struct machine *machine, const struct program *program,
                                   struct machine_limits limits);
void machine_fini(struct machine *machine);

/* How many steps of work (automaton.h) may be done from here on, until it is said anew. */
void machine_allow(struct machine *machine, uint64_t n_steps);

/* The threads before any text, appended to `out`. STATUS_LIMIT past a bound of the machine,
 * STATUS_NOMEM. */
NODISCARD enum status machine_start(struct machine *machine, struct threads *out);

struct trace;

/* How many more a list may need while it is closed. */
static inline uint32_t machine_room(const struct machine *machine) {
    return machine->n_threads_max * 2 + 1;
}

/* Appends the threads behind one more byte of from[0..n); none is appended where it is refused.
 * `trace`: NULL, or where the regions of bytes are kept; `at`: the byte's offset there. */
NODISCARD enum status machine_byte(struct machine *machine, const struct thread *from, uint32_t n,
                                   uint8_t byte, struct threads *out, struct trace *trace,
                                   uint64_t at);

/* The same of a special token. */
NODISCARD enum status machine_token(struct machine *machine, const struct thread *from, uint32_t n,
                                    uint32_t token, struct threads *out);

/* The threads that follow where `thread`'s own set gives way: what it calls and, where its rule may
 * end, what its callers go on with; not itself. */
NODISCARD enum status machine_behind(struct machine *machine, struct thread thread,
                                     struct threads *out);

/* How often a set of a count's inner rule may still leave its node; PROGRAM_NO_BOUND elsewhere. */
uint32_t machine_count_max(const struct machine *machine, struct thread thread);

/* The thread with `n` characters counted off; false where fewer are allowed. */
NODISCARD enum status machine_count_off(struct machine *machine, struct thread *thread, uint32_t n,
                                        bool *fits);
