/* base/cores.h: how many threads of this process can run at once. Any thread. */
#pragma once

#include <stdint.h>

/* At least 1: the cores that sched_setaffinity() leaves to the calling thread, or as many as its group's CPU quota
 * pays for (a container's or a unit's limit), rounded up, if those are fewer. Reads files: at start alone. */
uint32_t cores_usable(void);

/* What the quotas of group `path` ("/a/b") and of all above it leave below `mount`, rounded up: cpu.max of the
 * kernel's Documentation/admin-guide/cgroup-v2.rst. 0: no quota. Groups of version 1 are not read. */
uint32_t cores_of_quota(const char *mount, const char *path);
