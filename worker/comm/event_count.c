#include "worker/comm/event_count.h"

#include "base/clock.h"
#include "base/cores.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLOSED      0x80000000u
#define SPIN_NS_MAX 50000u /* what going to sleep and being woken costs, several times over */
#define SPIN_NS_MIN 1000u  /* so that a waiter finds out when spinning pays again */

static void event_count_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

struct event_count_patience event_count_patience(uint32_t n_waiters) {
    if (n_waiters > cores_usable()) /* who spins keeps off the core him for whom he waits */
        return (struct event_count_patience){0};
    return (struct event_count_patience){.spin_ns = SPIN_NS_MAX, .spin_ns_max = SPIN_NS_MAX};
}

/* True when the value changed within the time that spinning is worth now. */
static bool event_count_spin(const struct event_count *count, uint32_t turn,
                             struct event_count_patience *patience) {
    uint64_t until = 0;
    for (uint32_t i = 0;; i++) {
        if (atomic_load_explicit(&count->value, memory_order_acquire) != turn) {
            uint32_t longer = patience->spin_ns + patience->spin_ns / 2;
            patience->spin_ns = longer < patience->spin_ns_max ? longer : patience->spin_ns_max;
            return true;
        }
        if (patience->spin_ns_max == 0)
            return false;
        event_count_pause();
        if (i % 32 != 31)
            continue;
        uint64_t now_ns = clock_now_ns();
        if (until == 0)
            until = now_ns + patience->spin_ns;
        if (now_ns >= until)
            break;
    }
    patience->spin_ns = patience->spin_ns / 2 > SPIN_NS_MIN ? patience->spin_ns / 2 : SPIN_NS_MIN;
    return false;
}

bool event_count_wait(struct event_count *count, uint32_t turn,
                      struct event_count_patience *patience) {
    if (!event_count_spin(count, turn, patience)) {
        /* The sleeper's count and then the value here, the value and then the count in event_count_wake():
         * one of the two sees the other, so no wake-up is lost. */
        atomic_fetch_add(&count->n_asleep, 1);
        while (atomic_load(&count->value) == turn)
            syscall(SYS_futex, &count->value, FUTEX_WAIT, turn, NULL, NULL, 0);
        atomic_fetch_sub(&count->n_asleep, 1);
    }
    return !event_count_closed(count);
}

static void event_count_wake(struct event_count *count) {
    if (atomic_load(&count->n_asleep) > 0)
        syscall(SYS_futex, &count->value, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void event_count_advance(struct event_count *count) {
    uint32_t value = atomic_load(&count->value), next;
    do
        next = (value & CLOSED) | ((value + 1) & ~CLOSED);
    while (!atomic_compare_exchange_weak(&count->value, &value, next));
    event_count_wake(count);
}

void event_count_close(struct event_count *count) {
    atomic_fetch_or(&count->value, CLOSED);
    event_count_wake(count);
}
