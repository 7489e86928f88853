#include "base/cores.h"

#include "base/groups.h"

#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>

static uint32_t cores_of_affinity(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    return (uint32_t)CPU_COUNT(&set);
}

/* Cores that a quota of so many microseconds in each period pays for; 0: no such number. */
static uint32_t cores_paid(uint64_t quota, uint64_t period) {
    if (quota == 0 || period == 0)
        return 0;
    uint64_t n = quota / period + (quota % period > 0);
    return n < UINT32_MAX ? (uint32_t)n : 0;
}

/* cpu.max is "max 100000" or "150000 100000"; version 1 has a file for each, and -1 where there is no quota. */
static uint32_t cores_of_group(const struct control_group *group) {
    char path[2 * PATH_MAX];
    uint64_t quota = 0, period = 0;
    if (group->is_v1) {
        if (!groups_number(group->folder, "cpu.cfs_quota_us", "", &quota) ||
            !groups_number(group->folder, "cpu.cfs_period_us", "", &period))
            return 0;
        return cores_paid(quota, period);
    }
    snprintf(path, sizeof path, "%s/cpu.max", group->folder);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    bool is_limited = fscanf(file, "%" SCNu64 " %" SCNu64, &quota, &period) == 2;
    fclose(file);
    return is_limited ? cores_paid(quota, period) : 0;
}

static bool cores_look(void *context, const struct control_group *group) {
    uint32_t *least = context;
    uint32_t cores = cores_of_group(group);
    if (cores > 0 && (*least == 0 || cores < *least))
        *least = cores;
    return true;
}

uint32_t cores_of_quota(const char *root) {
    uint32_t least = 0;
    groups_walk(root, "cpu", cores_look, &least);
    return least;
}

uint32_t cores_usable(void) {
    uint32_t here = cores_of_affinity();
    uint32_t paid = cores_of_quota("");
    uint32_t n = paid > 0 && paid < here ? paid : here;
    return n > 0 ? n : 1;
}
