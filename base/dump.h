/* base/dump.h: what a core dump leaves out: prompts, answers, KV. */
#pragma once

#include <stddef.h>
#include <sys/mman.h>

/* Of a mapping of whole pages. A kernel without this keeps them in: no failure. Any thread. */
static inline void dump_leave_out(void *bytes, size_t n_bytes) {
    (void)madvise(bytes, n_bytes, MADV_DONTDUMP);
}
