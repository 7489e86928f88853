#include "tools/cli/doctor/holder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LISTENS 0x0a    /* TCP_LISTEN, in /proc/net/tcp */
#define INODES  16      /* sockets on one port: addresses, families, SO_REUSEPORT */
#define ACCEPTS 0x10000 /* __SO_ACCEPTCON, in /proc/net/unix */

/* Adds the inodes of sockets that listen on `port`; answers how many there are then. */
static unsigned port_holder_find_inodes(const char *table, unsigned port,
                                        unsigned long inodes[INODES], unsigned n) {
    char line[512];
    FILE *file = fopen(table, "re");
    while (file && n < INODES && fgets(line, sizeof line, file)) {
        unsigned at, state;
        unsigned long inode;
        /* sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode */
        if (sscanf(line, " %*u: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %lu",
                   &at, &state, &inode) == 3 &&
            at == port && state == LISTENS)
            inodes[n++] = inode;
    }
    if (file)
        fclose(file);
    return n;
}

static bool port_holder_has_inode(const char *pid, const unsigned long inodes[INODES], unsigned n) {
    char path[64], target[64];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%.16s/fd", pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && !found && (entry = readdir(folder));) {
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        if (strncmp(target, "socket:[", 8) != 0)
            continue;
        unsigned long inode = strtoul(target + 8, NULL, 10);
        for (unsigned i = 0; i < n; i++)
            found |= inodes[i] == inode;
    }
    if (folder)
        closedir(folder);
    return found;
}

static void port_holder_read_name(struct holder *holder) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/comm", (int)holder->pid);
    FILE *file = fopen(path, "re");
    if (!file || !fgets(holder->program, sizeof holder->program, file))
        snprintf(holder->program, sizeof holder->program, "a process");
    holder->program[strcspn(holder->program, "\n")] = '\0';
    if (file)
        fclose(file);
}

bool holder_find(const char *port, const char *wanted, struct holder *holder) {
    unsigned long inodes[INODES];
    unsigned number = (unsigned)strtoul(port, NULL, 10);
    unsigned n = port_holder_find_inodes("/proc/net/tcp", number, inodes, 0);
    n = port_holder_find_inodes("/proc/net/tcp6", number, inodes, n);
    DIR *folder = n > 0 ? opendir("/proc") : NULL;
    bool found = false, is_wanted = false;
    for (struct dirent *entry; folder && !is_wanted && (entry = readdir(folder));) {
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9' ||
            !port_holder_has_inode(entry->d_name, inodes, n))
            continue;
        struct holder one = {.pid = (pid_t)strtol(entry->d_name, NULL, 10)};
        port_holder_read_name(&one);
        is_wanted = strcmp(one.program, wanted) == 0;
        if (!found || is_wanted)
            *holder = one;
        found = true;
    }
    if (folder)
        closedir(folder);
    return found;
}

bool holder_listens(const char *path) {
    char line[512];
    bool found = false;
    FILE *file = fopen("/proc/net/unix", "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        unsigned flags;
        int at = 0;
        /* Num: RefCount Protocol Flags Type St Inode Path */
        if (sscanf(line, "%*x: %*x %*x %x %*x %*x %*u %n", &flags, &at) != 1 || at == 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        found = (flags & ACCEPTS) && strcmp(line + at, path) == 0;
    }
    if (file)
        fclose(file);
    return found;
}
