#include "base/memory.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One version of control groups: where they are mounted, and what their files are named. */
struct version {
    const char *mounts[3];
    const char *limits[3];
    const char *used;
    const char *caches[2]; /* of memory.stat: what the kernel can take back */
};

static const struct version version_1 = {
    .mounts = {"/sys/fs/cgroup/memory"},
    .limits = {"memory.limit_in_bytes"},
    .used = "memory.usage_in_bytes",
    .caches = {"total_inactive_file ", "total_active_file "},
};
static const struct version version_2 = {
    .mounts = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"},
    .limits = {"memory.max", "memory.high"},
    .used = "memory.current",
    .caches = {"inactive_file ", "active_file "},
};

/* The number behind `key` at the start of a line; false when there is none, as for "max". */
static bool number_in(const char *path, const char *key, uint64_t *number) {
    char line[256];
    bool found = false;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (!found && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        const char *digits = line + strlen(key);
        digits += strspn(digits, " \t");
        if (!isdigit((unsigned char)*digits))
            break;
        errno = 0;
        *number = strtoull(digits, NULL, 10);
        found = errno == 0;
    }
    fclose(file);
    return found;
}

static bool number_of(const char *folder, const char *name, const char *key, uint64_t *number) {
    char path[3 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return number_in(path, key, number);
}

/* What one group leaves; UINT64_MAX without a limit. */
static uint64_t left_in(const struct version *version, const char *folder) {
    uint64_t least = UINT64_MAX, used = 0, number;
    for (const char *const *name = version->limits; *name; name++)
        if (number_of(folder, *name, "", &number) && number < least)
            least = number;
    if (least == UINT64_MAX || !number_of(folder, version->used, "", &used))
        return least;
    for (size_t i = 0; i < sizeof version->caches / sizeof *version->caches; i++)
        if (number_of(folder, "memory.stat", version->caches[i], &number))
            used = number < used ? used - number : 0;
    return used < least ? least - used : 0;
}

/* What group `path` ("/a/b") and all above it leave below `mount`. */
static uint64_t left_up(const struct version *version, const char *mount, const char *path) {
    char group[PATH_MAX];
    char folder[2 * PATH_MAX];
    uint64_t least = UINT64_MAX;
    /* "/.." is outside of this name space of groups: what can be seen begins at the mount. */
    if (strncmp(path, "/..", 3) == 0 && (path[3] == '/' || path[3] == 0))
        path = "";
    snprintf(group, sizeof group, "%s", path);
    for (;;) {
        snprintf(folder, sizeof folder, "%s%s", mount, group);
        uint64_t left = left_in(version, folder);
        least = left < least ? left : least;
        char *slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
}

/* A line is "NUMBER:CONTROLLERS:PATH", of version 2 "0::PATH" (cgroups(7)). */
static uint64_t left_by_line(const char *root, char *line) {
    uint64_t least = UINT64_MAX;
    char *kinds = strchr(line, ':');
    char *path = kinds ? strchr(kinds + 1, ':') : NULL;
    const struct version *version = strncmp(line, "0::", 3) == 0 ? &version_2 : NULL;
    if (!path)
        return least;
    *path++ = 0;
    path[strcspn(path, "\n")] = 0;
    for (char *rest, *kind = strtok_r(kinds, ":,", &rest); kind; kind = strtok_r(NULL, ",", &rest))
        if (strcmp(kind, "memory") == 0)
            version = &version_1;
    for (const char *const *mount = version ? version->mounts : NULL; mount && *mount; mount++) {
        char below[PATH_MAX];
        if ((size_t)snprintf(below, sizeof below, "%s%s", root, *mount) >= sizeof below)
            continue;
        uint64_t left = left_up(version, below, path);
        least = left < least ? left : least;
    }
    return least;
}

uint64_t memory_available_below(const char *root) {
    char line[PATH_MAX];
    uint64_t here = 0, least = UINT64_MAX;
    if (number_of(root, "proc/meminfo", "MemAvailable:", &here))
        here *= 1024;
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE *file = fopen(line, "re");
    while (file && fgets(line, sizeof line, file)) {
        uint64_t left = left_by_line(root, line);
        least = left < least ? left : least;
    }
    if (file)
        fclose(file);
    if (here == 0 && least == UINT64_MAX)
        return 0;
    least = here > 0 && here < least ? here : least;
    return least > 0 ? least : 1; /* a full group is not an unknown one */
}

uint64_t memory_available(void) {
    return memory_available_below("");
}
