/* model/text/grammar/engine/trace.h: which region each byte of a followed text was of, as far as each
 * thread reads it.
 *
 * A thread has the number of its last change; a change knows the one before. Threads of two readings
 * may tell different changes, until one of them ends. One state owns it. */
#pragma once

#include "base/status.h"

#include <stdint.h>

struct trace_change {
    uint32_t before; /* 0: none */
    uint32_t region; /* that begins, or PROGRAM_NONE: text outside of all regions */
    uint64_t at;     /* offset of its first byte */
};

struct trace {
    struct trace_change *changes; /* owned (n); [0] is no change */
    uint32_t n;
    uint32_t size;
    uint32_t region; /* where threads without any change are */
};

NODISCARD enum status trace_init(struct trace *trace);
void trace_fini(struct trace *trace);

/* Notes that the byte at `at` is of `region`, behind change `before`; answers the thread's change.
 * STATUS_LIMIT past TRACE_CHANGES_MAX, STATUS_NOMEM. */
#define TRACE_CHANGES_MAX 65536u
NODISCARD enum status trace_note(struct trace *trace, uint32_t before, uint32_t region, uint64_t at,
                                 uint32_t *change);
