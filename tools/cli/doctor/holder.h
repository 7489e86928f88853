/* tools/cli/doctor/holder.h: which process of this host listens where, by /proc. Any thread. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct holder {
    pid_t pid;
    char program[32]; /* the name that the kernel has, at most 15 bytes */
};

/* Who listens on this TCP port (decimal); of several (systemd keeps what it hands over) the one whose program is `wanted`.
 * False: no process, or one of another user. */
bool holder_find(const char *port, const char *wanted, struct holder *holder);

/* Does somebody listen on the socket at this path? Looks without connecting. */
bool holder_listens(const char *path);
