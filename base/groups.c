#include "base/groups.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOUNTS "/sys/fs/cgroup"

struct walk {
    const char *root;
    const char *controller;
    groups_look *look;
    void *context;
};

bool groups_number(const char *folder, const char *name, const char *key, uint64_t *number) {
    char path[3 * PATH_MAX];
    char line[256];
    bool found = false;
    snprintf(path, sizeof path, "%s/%s", folder, name);
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

/* Group `path` ("/a/b") and all above it, below a mount. */
static void cgroup_walk_up(const struct walk *walk, bool is_v1, const char *mount,
                           const char *path) {
    char top[PATH_MAX], name[PATH_MAX];
    char folder[3 * PATH_MAX];
    /* "/.." is outside of this name space of groups: what can be seen begins at the mount. */
    if (strncmp(path, "/..", 3) == 0 && (path[3] == '/' || path[3] == 0))
        path = "";
    snprintf(top, sizeof top, "%s" MOUNTS "%s", walk->root, mount);
    snprintf(name, sizeof name, "%s", path);
    struct control_group group = {.folder = folder, .is_v1 = is_v1, .is_own = true};
    for (char *slash = name; slash; *slash = 0) {
        snprintf(folder, sizeof folder, "%s%s", top, name);
        if (access(folder, F_OK) == 0) {
            if (!walk->look(walk->context, &group))
                return;
            group.is_own = false;
        }
        slash = strrchr(name, '/');
        if (!slash)
            return;
    }
}

static bool cgroup_has_controller(const char *list, const char *controller) {
    size_t n = strlen(controller);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, controller, n) == 0 && (at[n] == ',' || at[n] == 0))
            return true;
    return false;
}

/* A line is "NUMBER:CONTROLLERS:PATH", of version 2 "0::PATH". Controllers of version 1 that share a hierarchy are
 * mounted by one name of theirs or by all. */
static void cgroup_walk_line(const struct walk *walk, char *line) {
    char mount[PATH_MAX];
    char *list = strchr(line, ':');
    char *path = list ? strchr(list + 1, ':') : NULL;
    if (!path)
        return;
    list++;
    *path++ = 0;
    path[strcspn(path, "\n")] = 0;
    if (strncmp(line, "0:", 2) == 0 && !*list) {
        cgroup_walk_up(walk, false, "", path);
        cgroup_walk_up(walk, false, "/unified", path);
    } else if (cgroup_has_controller(list, walk->controller)) {
        snprintf(mount, sizeof mount, "/%s", walk->controller);
        cgroup_walk_up(walk, true, mount, path);
        snprintf(mount, sizeof mount, "/%s", list);
        if (strcmp(list, walk->controller) != 0)
            cgroup_walk_up(walk, true, mount, path);
    }
}

void groups_walk(const char *root, const char *controller, groups_look *look, void *context) {
    const struct walk walk = {root, controller, look, context};
    char line[PATH_MAX];
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE *file = fopen(line, "re");
    if (!file)
        return;
    while (fgets(line, sizeof line, file))
        cgroup_walk_line(&walk, line);
    fclose(file);
}
