/* base/cores.h: how many threads of this process can run at once. Any thread. */
#pragma once

#include <stdint.h>

/* At least 1: the cores that sched_setaffinity() leaves to the calling thread, or as many as its group's CPU quota
 * pays for (a container's or a unit's limit), rounded up, if those are fewer. Reads files: at start alone. */
uint32_t cores_usable(void);

/* What the quotas of this process's group and of all above it leave, rounded up, from the files below `root` ("" for this
 * host; groups.h): cpu.max of the kernel's Documentation/admin-guide/cgroup-v2.rst, cpu.cfs_quota_us of version 1. 0: no
 * quota. */
uint32_t cores_of_quota(const char *root);
