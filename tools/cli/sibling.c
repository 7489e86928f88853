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

enum status sibling_folder(char *folder, size_t size, struct error *error) {
    ssize_t n = readlink("/proc/self/exe", folder, size - 1);
    if (n <= 0)
        return error_set(error, STATUS_IO, "/proc/self/exe: %s", strerror(errno));
    folder[n] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    return STATUS_OK;
}

static void sibling_close_files(struct sibling *sibling) {
    for (unsigned i = 0; i < 2; i++)
        if (sibling->files[i] >= 0)
            close(sibling->files[i]);
}

static enum status sibling_spawn(struct sibling *sibling, const char **args, struct error *error) {
    extern char **environ;
    posix_spawn_file_actions_t actions;
    args[0] = sibling->path;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, sibling->files[0], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, sibling->files[1], STDERR_FILENO);
    /* execve() does not write to its arguments. */
    int failure = posix_spawn(&sibling->pid, sibling->path, &actions, NULL,
                              (char **)(uintptr_t)args, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failure != 0)
        return error_set(error, failure == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: %s",
                         sibling->path, strerror(failure));
    return STATUS_OK;
}

enum status sibling_start(struct sibling *sibling, const char *folder, const char *name,
                          const char **args, struct error *error) {
    *sibling = (struct sibling){0};
    snprintf(sibling->path, sizeof sibling->path, "%s/%s", folder, name);
    /* Files in memory: one that writes much to two pipes could wait for ever. */
    sibling->files[0] = memfd_create("out", MFD_CLOEXEC);
    sibling->files[1] = memfd_create("errors", MFD_CLOEXEC);
    enum status status = sibling->files[0] < 0 || sibling->files[1] < 0
                             ? error_set(error, STATUS_IO, "memfd_create: %s", strerror(errno))
                             : sibling_spawn(sibling, args, error);
    if (status != STATUS_OK) {
        sibling_close_files(sibling);
        sibling->pid = 0;
    }
    return status;
}

static enum status sibling_read_all(int fd, struct buf *out) {
    char bytes[4096];
    off_t at = 0;
    for (ssize_t n; (n = pread(fd, bytes, sizeof bytes, at)) > 0; at += n)
        buf_append(out, bytes, (size_t)n);
    return buf_status(out);
}

enum status sibling_end(struct sibling *sibling, struct buf *out, struct buf *errors, int *code,
                        struct error *error) {
    int end = 0;
    while (waitpid(sibling->pid, &end, 0) < 0 && errno == EINTR)
        ;
    *code = WIFEXITED(end) ? WEXITSTATUS(end) : -1;
    enum status status = sibling_read_all(sibling->files[0], out);
    if (status == STATUS_OK)
        status = sibling_read_all(sibling->files[1], errors);
    sibling_close_files(sibling);
    sibling->pid = 0;
    return status == STATUS_OK
               ? STATUS_OK
               : error_set(error, status, "%s: its output is too long", sibling->path);
}
