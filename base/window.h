/* base/window.h: the largest of the values of the last WINDOW_S seconds, by whole seconds: of one second less
 * at least. Zeroed is empty. Pure: the caller brings the time. */
#pragma once

#include "base/clock.h"

#include <stdint.h>

#define WINDOW_S 10u

struct window {
    uint64_t second[WINDOW_S]; /* which one the value beside it is of */
    uint64_t most[WINDOW_S];
};

static inline void window_note(struct window *window, uint64_t now_ns, uint64_t value) {
    uint64_t second = now_ns / NS_PER_S, at = second % WINDOW_S;
    if (window->second[at] != second || value > window->most[at])
        window->most[at] = value;
    window->second[at] = second;
}

/* 0: there was none. */
static inline uint64_t window_most(const struct window *window, uint64_t now_ns) {
    uint64_t most = 0;
    for (unsigned i = 0; i < WINDOW_S; i++)
        if (window->second[i] + WINDOW_S > now_ns / NS_PER_S && window->most[i] > most)
            most = window->most[i];
    return most;
}
