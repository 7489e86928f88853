#include "base/memory.h"

#include "base/groups.h"

#include <stddef.h>

/* What the files of one version of control groups are named. */
struct version {
    const char *limits[3];
    const char *used;
    const char *caches[2]; /* of memory.stat: what the kernel can take back */
};

static const struct version version_1 = {
    .limits = {"memory.limit_in_bytes"},
    .used = "memory.usage_in_bytes",
    .caches = {"total_inactive_file ", "total_active_file "},
};
static const struct version version_2 = {
    .limits = {"memory.max", "memory.high"},
    .used = "memory.current",
    .caches = {"inactive_file ", "active_file "},
};

/* What one group leaves; UINT64_MAX without a limit. */
static uint64_t memory_left_in_group(const struct version *version, const char *folder) {
    uint64_t least = UINT64_MAX, used = 0, number;
    for (const char *const *name = version->limits; *name; name++)
        if (groups_number(folder, *name, "", &number) && number < least)
            least = number;
    if (least == UINT64_MAX || !groups_number(folder, version->used, "", &used))
        return least;
    for (size_t i = 0; i < sizeof version->caches / sizeof *version->caches; i++)
        if (groups_number(folder, "memory.stat", version->caches[i], &number))
            used = number < used ? used - number : 0;
    return used < least ? least - used : 0;
}

/* A group of version 1 counts those below it only where it says so (memory.use_hierarchy). */
static bool memory_look(void *context, const struct control_group *group) {
    uint64_t *least = context, counts_below = 1;
    if (group->is_v1 && !group->is_own &&
        groups_number(group->folder, "memory.use_hierarchy", "", &counts_below) &&
        counts_below == 0)
        return false;
    uint64_t left = memory_left_in_group(group->is_v1 ? &version_1 : &version_2, group->folder);
    *least = left < *least ? left : *least;
    return true;
}

uint64_t memory_available_below(const char *root) {
    uint64_t here = 0, least = UINT64_MAX;
    if (groups_number(root, "proc/meminfo", "MemAvailable:", &here))
        here *= 1024;
    groups_walk(root, "memory", memory_look, &least);
    if (here == 0 && least == UINT64_MAX)
        return 0;
    least = here > 0 && here < least ? here : least;
    return least > 0 ? least : 1; /* a full group is not an unknown one */
}

uint64_t memory_available(void) {
    return memory_available_below("");
}
