#include "base/cores.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static uint32_t cores_of_affinity(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    return (uint32_t)CPU_COUNT(&set);
}

/* "max 100000" or "150000 100000": microseconds of a core in each period of so many. */
static uint32_t cores_of_file(const char *file_path) {
    unsigned long long quota;
    unsigned long long period;
    FILE *file = fopen(file_path, "re");
    if (!file)
        return 0;
    bool is_limited = fscanf(file, "%llu %llu", &quota, &period) == 2 && quota > 0 && period > 0;
    fclose(file);
    if (!is_limited)
        return 0;
    unsigned long long n = quota / period + (quota % period > 0);
    return n < UINT32_MAX ? (uint32_t)n : 0;
}

uint32_t cores_of_quota(const char *mount, const char *path) {
    char group[PATH_MAX];
    char file_path[2 * PATH_MAX];
    uint32_t least = 0;
    if ((size_t)snprintf(group, sizeof group, "%s", path) >= sizeof group)
        return 0;
    for (;;) {
        snprintf(file_path, sizeof file_path, "%s%s/cpu.max", mount, group);
        uint32_t cores = cores_of_file(file_path);
        if (cores > 0 && (least == 0 || cores < least))
            least = cores;
        char *slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
}

/* The line of version 2 is "0::PATH" (cgroups(7)). */
static uint32_t cores_of_group(void) {
    char line[PATH_MAX];
    uint32_t cores = 0;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "0::", 3) == 0) {
            line[strcspn(line, "\n")] = 0;
            cores = cores_of_quota("/sys/fs/cgroup", line + 3);
        }
    fclose(file);
    return cores;
}

uint32_t cores_usable(void) {
    uint32_t here = cores_of_affinity();
    uint32_t paid = cores_of_group();
    uint32_t n = paid > 0 && paid < here ? paid : here;
    return n > 0 ? n : 1;
}
