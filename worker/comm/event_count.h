/* worker/comm/gate.h: a turn number in shared memory, which threads and processes wait for to rise.
 *
 * Who waits spins for a short while, as long as that paid lately, and then sleeps on a futex: with
 * more ranks than cores nobody holds a core that another rank needs. Turns count modulo 2^31; the
 * top bit says that the gate is closed for ever. All functions: any thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* All zero is a gate at turn 0. */
struct gate {
    _Atomic uint32_t value; /* what the futex sleeps on */
    _Atomic uint32_t n_asleep;
};

/* One waiter's own; gate_patience() makes it. */
struct gate_patience {
    uint32_t spin_ns;     /* how long it spins now, learnt from its last waits */
    uint32_t spin_ns_max; /* 0: it never spins */
};

/* For a waiter that shares the cores it may use with n_waiters - 1 others. */
struct gate_patience gate_patience(uint32_t n_waiters);

/* The turn to hand to gate_wait(), read before saying what others answer by raising the gate. */
static inline uint32_t gate_turn(const struct gate *gate) {
    return atomic_load_explicit(&gate->value, memory_order_acquire) & 0x7fffffffu;
}

static inline bool gate_closed(const struct gate *gate) {
    return atomic_load_explicit(&gate->value, memory_order_acquire) >> 31 != 0;
}

/* Returns when the turn is no longer `turn`: true. False: the gate is closed. */
bool gate_wait(struct gate *gate, uint32_t turn, struct gate_patience *patience);

/* The next turn: wakes all who wait. What was written before is seen by them. */
void gate_raise(struct gate *gate);

void gate_close(struct gate *gate);
