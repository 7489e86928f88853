#include "base/clock.h"

#include <time.h>

static uint64_t clock_read_ns(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t clock_now_ns(void) {
    return clock_read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_coarse_ns(void) {
    return clock_read_ns(CLOCK_MONOTONIC_COARSE);
}

uint64_t clock_thread_cpu_ns(void) {
    return clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

int64_t clock_unix_s(void) {
    return (int64_t)time(NULL);
}

uint64_t clock_unix_ns(void) {
    return clock_read_ns(CLOCK_REALTIME);
}
