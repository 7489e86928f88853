/* base/patience.h: when to say that something is waited for: after 5 s, then every 60 s, and once
 * when the wait is over. A waiter keeps one of these for each thing; zeroed is a fresh one. Pure:
 * the caller brings the time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct patience {
    uint64_t since_ns; /* 0: nothing is waited for */
    uint64_t said_ns;  /* 0: nothing was said of this wait */
};

enum patience_turn { PATIENCE_QUIET, PATIENCE_SAY, PATIENCE_OVER };

/* To be asked now and then, at least once a second. `waits`: it is still so. SAY: a line is due;
 * OVER: a wait of which something was said has ended. now_ns is never 0. */
enum patience_turn patience_turn(struct patience *patience, uint64_t now_ns, bool waits);

/* How long the wait lasts, in seconds. */
unsigned patience_s(const struct patience *patience, uint64_t now_ns);
