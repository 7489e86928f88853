/* base/groups.h: the control groups that limit this process: its own and all above it, of versions 1 and 2. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct control_group {
    const char *folder;
    bool is_v1;  /* of the version that has a hierarchy for each controller */
    bool is_own; /* the lowest that is there; the others are above it */
};

/* Looks at one group; false: those above it do not limit this process. */
typedef bool groups_look(void *context, const struct control_group *group);

/* Calls `look` for each group that `controller` ("memory") counts this process in, from its own upwards. The files are
 * those below `root` ("" for this host): proc/self/cgroup and sys/fs/cgroup (cgroups(7)). Groups outside of this
 * process's name space are not there. */
void groups_walk(const char *root, const char *controller, groups_look *look, void *context);

/* The number behind `key` at the start of a line of that file; false when there is none, as for "max". */
bool groups_number(const char *folder, const char *name, const char *key, uint64_t *number);
