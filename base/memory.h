/* base/memory.h: how much memory this process may still take. Any thread. */
#pragma once

#include <stdint.h>

/* Bytes this process may still take: MemAvailable, or less where its control group or one above has a limit
 * (a container's or a unit's). Page cache counts as free. 0: unknown. Reads files: at start alone. */
uint64_t memory_available(void);

/* The same from the files below `root` ("" for this host): proc/meminfo, proc/self/cgroup and sys/fs/cgroup,
 * groups of versions 1 and 2 of the kernel's Documentation/admin-guide. */
uint64_t memory_available_below(const char *root);
