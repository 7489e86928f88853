#include "tools/cli/sibling.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGS_MAX 16

static enum status find(const char *name, char *path, size_t size, struct error *error) {
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    if (n <= 0)
        return error_set(error, STATUS_IO, "/proc/self/exe: %s", strerror(errno));
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    size_t begin = slash ? (size_t)(slash - path) + 1 : 0;
    if (begin + strlen(name) >= size)
        return error_set(error, STATUS_LIMIT, "%s: its path is too long", name);
    memcpy(path + begin, name, strlen(name) + 1);
    if (access(path, X_OK) != 0)
        return error_set(error, STATUS_NOT_FOUND, "%s: %s", path, strerror(errno));
    return STATUS_OK;
}

/* A file in memory: a program that writes much to both ends of two pipes could wait for ever. */
static enum status read_all(int fd, struct buf *out) {
    char bytes[4096];
    off_t at = 0;
    for (ssize_t n; (n = pread(fd, bytes, sizeof bytes, at)) > 0; at += n)
        buf_append(out, bytes, (size_t)n);
    return buf_status(out);
}

static enum status run(char *const *argv, const int files[2], int *code, struct error *error) {
    extern char **environ;
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int end = 0;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, files[0], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, files[1], STDERR_FILENO);
    int failure = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failure != 0)
        return error_set(error, STATUS_IO, "%s: %s", argv[0], strerror(failure));
    while (waitpid(pid, &end, 0) < 0 && errno == EINTR)
        ;
    *code = WIFEXITED(end) ? WEXITSTATUS(end) : -1;
    return STATUS_OK;
}

enum status sibling_run(const char *name, const char *const *args, struct buf *out,
                        struct buf *errors, int *code, struct error *error) {
    char path[4096];
    char *argv[ARGS_MAX + 2] = {path};
    TRY(find(name, path, sizeof path, error));
    for (unsigned i = 0; args[i]; i++) {
        if (i == ARGS_MAX)
            return error_set(error, STATUS_LIMIT, "%s: too many arguments", name);
        argv[i + 1] = (char *)(uintptr_t)args[i]; /* execve() does not write there */
    }
    int files[2] = {memfd_create("out", MFD_CLOEXEC), memfd_create("errors", MFD_CLOEXEC)};
    enum status status = files[0] < 0 || files[1] < 0
                             ? error_set(error, STATUS_IO, "memfd_create: %s", strerror(errno))
                             : run(argv, files, code, error);
    if (status == STATUS_OK &&
        (read_all(files[0], out) != STATUS_OK || read_all(files[1], errors) != STATUS_OK))
        status = error_set(error, STATUS_LIMIT, "%s: it says too much", path);
    for (unsigned i = 0; i < 2; i++)
        if (files[i] >= 0)
            close(files[i]);
    return status;
}
