/* router/core/timers.h: the earliest wake-up among a fixed set of numbered things.
 *
 * An indexed binary heap: thing i has at most one time. Only timers_init() allocates. A time may
 * be early (the owner looks and sets the next one), never late. */
#pragma once

#include "base/status.h"

#include <stdint.h>

#define TIMERS_NEVER UINT64_MAX

struct timers {
    uint32_t capacity;
    uint32_t n;
    uint32_t *heap;  /* owned (capacity): numbers, earliest first */
    uint32_t *place; /* owned (capacity): a number's index in `heap`; capacity: none */
    uint64_t *at_ns; /* owned (capacity) */
};

NODISCARD enum status timers_init(struct timers *timers, uint32_t capacity);
void timers_fini(struct timers *timers);

/* Sets or moves the time of thing `i`; TIMERS_NEVER takes it out. */
void timers_set(struct timers *timers, uint32_t i, uint64_t at_ns);

/* The same, but only if that is earlier than what is set. */
void timers_pull(struct timers *timers, uint32_t i, uint64_t at_ns);

/* The earliest time, TIMERS_NEVER if none. */
uint64_t timers_next(const struct timers *timers);

/* Takes out one thing whose time has come; UINT32_MAX: none. */
uint32_t timers_pop(struct timers *timers, uint64_t now_ns);
