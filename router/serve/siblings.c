#include "router/serve/siblings.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

/* The parent of a process; 0: it is gone. The program's name in brackets may hold anything. */
static long siblings_parent_of(uint32_t pid) {
    char path[48], text[512];
    long parent = 0;
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[n] = '\0';
    const char *end = strrchr(text, ')');
    if (!end || sscanf(end, ") %*c %ld", &parent) != 1)
        parent = 0;
    if (file)
        fclose(file);
    return parent;
}

enum status siblings_kill(uint32_t pid, struct error *error) {
    /* Held before it is looked at: the number cannot become another process meanwhile. */
    int process = pid > 0 ? pidfd_open((pid_t)pid, 0) : -1;
    if (process < 0 || siblings_parent_of(pid) != (long)getppid()) {
        if (process >= 0)
            close(process);
        return error_set(error, STATUS_DENIED,
                         "process %u is not one that `tandem up` started here", pid);
    }
    enum status status = STATUS_OK;
    if (pidfd_send_signal(process, SIGKILL, NULL, 0) != 0)
        status = error_set(error, STATUS_DENIED, "process %u: %s", pid, strerror(errno));
    close(process);
    return status;
}
