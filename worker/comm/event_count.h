/* worker/comm/event_count.h: an event count, a turn number in shared memory: threads and processes
 * wait until it advances.
 *
 * A waiter spins for a short while, as long as that paid lately, and then sleeps on a futex: with
 * more ranks than cores no waiter holds a core that another rank needs. Turns count modulo 2^31;
 * the top bit says that it is closed for ever. All functions: any thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* All zero is an event count at turn 0. */
struct event_count {
    _Atomic uint32_t value; /* what the futex sleeps on */
    _Atomic uint32_t n_asleep;
};

/* One waiter's own; event_count_patience() makes it. */
struct event_count_patience {
    uint32_t spin_ns;     /* how long it spins now, learnt from its last waits */
    uint32_t spin_ns_max; /* 0: it never spins */
};

/* For a waiter that shares the cores it may use with n_waiters - 1 others. */
struct event_count_patience event_count_patience(uint32_t n_waiters);

/* The turn to hand to event_count_wait(), read before saying what others answer by advancing the
 * count. */
static inline uint32_t event_count_turn(const struct event_count *count) {
    return atomic_load_explicit(&count->value, memory_order_acquire) & 0x7fffffffu;
}

static inline bool event_count_closed(const struct event_count *count) {
    return atomic_load_explicit(&count->value, memory_order_acquire) >> 31 != 0;
}

/* Returns when the turn is no longer `turn`: true. False: the count is closed. */
bool event_count_wait(struct event_count *count, uint32_t turn,
                      struct event_count_patience *patience);

/* The next turn: wakes all who wait. What was written before is seen by them. */
void event_count_advance(struct event_count *count);

void event_count_close(struct event_count *count);
