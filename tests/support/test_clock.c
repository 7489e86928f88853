#include "tests/support/test_clock.h"

#include "base/assert.h"
#include "base/clock.h"

#include <stdatomic.h>

static _Atomic uint64_t still_ns; /* 0: it runs */

uint64_t __real_clock_now_ns(void);
uint64_t __wrap_clock_now_ns(void);
int64_t __wrap_clock_unix_s(void);

uint64_t __wrap_clock_now_ns(void) {
    uint64_t ns = atomic_load(&still_ns);
    return ns > 0 ? ns : __real_clock_now_ns();
}

/* The time of day goes with it: a Date field that changes between two answers changes their length. */
int64_t __wrap_clock_unix_s(void) {
    return (int64_t)(__wrap_clock_now_ns() / NS_PER_S);
}

void test_clock_stop(void) {
    atomic_store(&still_ns, __wrap_clock_now_ns());
}

void test_clock_pass(uint64_t ns) {
    ASSERT(atomic_load(&still_ns) > 0);
    atomic_fetch_add(&still_ns, ns);
}

void test_clock_run(void) {
    atomic_store(&still_ns, 0);
}
