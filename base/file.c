#include "base/file.h"

#include "base/buf.h"
#include "base/log/log_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXIT_IO 74 /* EX_IOERR of sysexits.h */

bool file_is_there(const char *folder, const char *name, char *path, size_t size) {
    int n = snprintf(path, size, "%s/%s", folder, name);
    struct stat info;
    return n >= 0 && (size_t)n < size && lstat(path, &info) == 0;
}

bool file_is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Of a link that leads nowhere, where it leads. */
static enum status file_cannot_open(const char *path, int reason, struct error *error) {
    char target[ERROR_TEXT_MAX / 2];
    ssize_t n = reason == ENOENT ? readlink(path, target, sizeof target) : -1;
    if (n > 0)
        return error_set(error, STATUS_NOT_FOUND,
                         "%s: cannot open it: it is a link to %.*s, which does not exist", path,
                         (int)n, target);
    return error_set(error, reason == ENOENT ? STATUS_NOT_FOUND : STATUS_IO,
                     "%s: cannot open it: %s", path, strerror(reason));
}

/* A clone without Git LFS has a few lines of text in place of each large file (github.com/git-lfs/git-lfs,
 * docs/spec.md). */
static enum status file_check_pointer(const char *path, const void *bytes, uint64_t n,
                                      struct error *error) {
    static const char begin[] = "version https://git-lfs.github.com/spec/v1";
    if (n < sizeof begin - 1 || memcmp(bytes, begin, sizeof begin - 1) != 0)
        return STATUS_OK;
    return error_set(error, STATUS_CORRUPT,
                     "%s: a Git LFS pointer, not the file: run `git lfs pull` in its folder", path);
}

enum status file_open(const char *path, int *fd, uint64_t *n_bytes, struct error *error) {
    struct stat info;
    char *resolved = realpath(path, NULL);
    int opened = resolved ? open(resolved, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    int reason = errno;
    free(resolved);
    if (opened < 0)
        return error_of_errno(error, file_cannot_open(path, reason, error), reason);
    if (fstat(opened, &info) < 0 || !S_ISREG(info.st_mode)) {
        close(opened);
        return error_set(error, STATUS_IO, "%s: no regular file", path);
    }
    *fd = opened;
    *n_bytes = (uint64_t)info.st_size;
    return STATUS_OK;
}

static enum status file_read_all(int fd, const char *path, uint64_t n_max, struct buf *out,
                                 struct error *error) {
    char block[65536];
    uint64_t n_read = 0;
    for (;;) {
        ssize_t n = read(fd, block, sizeof block);
        int reason = errno;
        if (n < 0 && reason == EINTR)
            continue;
        if (n < 0)
            return error_errno(error, STATUS_IO, reason, "%s: cannot read it", path);
        if (n == 0)
            break;
        n_read += (uint64_t)n;
        if (n_read > n_max)
            return error_set(error, STATUS_LIMIT,
                             "%s: more than %" PRIu64 " bytes, which are the most that are read",
                             path, n_max);
        buf_append(out, block, (size_t)n);
    }
    if (buf_status(out) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "%s: no memory to read it", path);
    return STATUS_OK;
}

enum status file_read(const char *path, uint64_t n_max, struct buf *out, struct error *error) {
    int fd;
    uint64_t n_bytes;
    TRY(file_open(path, &fd, &n_bytes, error));
    size_t n_before = out->n;
    enum status status = file_read_all(fd, path, n_max, out, error);
    close(fd);
    if (status == STATUS_OK && out->n > n_before)
        status = file_check_pointer(path, out->data + n_before, out->n - n_before, error);
    return status;
}

enum status file_check_mode(int fd, const char *path, bool is_private, struct error *error) {
    struct stat info;
    if (fstat(fd, &info) != 0)
        return error_set(error, STATUS_IO, "%s: %s", path, strerror(errno));
    if ((info.st_mode & (is_private ? 026 : 022)) != 0)
        return error_set(error, STATUS_DENIED, "%s: others can %s it (mode %03o); chmod go-w%s it",
                         path, (info.st_mode & 022) != 0 ? "change" : "read", info.st_mode & 0777,
                         is_private ? ",o=" : "");
    return STATUS_OK;
}

enum status file_read_trusted(const char *path, bool is_private, uint64_t n_max, struct buf *out,
                              struct error *error) {
    int fd;
    uint64_t n_bytes;
    TRY(file_open(path, &fd, &n_bytes, error));
    enum status status = file_check_mode(fd, path, is_private, error);
    if (status == STATUS_OK)
        status = file_read_all(fd, path, n_max, out, error);
    close(fd);
    return status;
}

enum status file_map(const char *path, struct file_map *map, struct error *error) {
    struct file_map opened = {0};
    TRY(file_open(path, &opened.fd, &opened.n_bytes, error));
    if (opened.n_bytes > 0) {
        void *bytes = mmap(NULL, opened.n_bytes, PROT_READ, MAP_PRIVATE, opened.fd, 0);
        if (bytes == MAP_FAILED) {
            close(opened.fd);
            return error_set(error, STATUS_NOMEM, "%s: cannot map its %" PRIu64 " bytes", path,
                             opened.n_bytes);
        }
        opened.bytes = bytes;
    }
    enum status status = file_check_pointer(path, opened.bytes, opened.n_bytes, error);
    if (status != STATUS_OK) {
        file_unmap(&opened);
        return status;
    }
    *map = opened;
    return STATUS_OK;
}

void file_unmap(struct file_map *map) {
    if (map->bytes)
        munmap((void *)(uintptr_t)map->bytes, map->n_bytes);
    /* A zeroed map has no file: descriptor 0 is somebody else's. */
    if (map->bytes || map->fd > 0)
        close(map->fd);
    *map = (struct file_map){.fd = -1};
}

enum status file_map_check(const struct file_map *map, const char *path, struct error *error) {
    struct stat info;
    if (!map->bytes)
        return STATUS_OK;
    if (fstat(map->fd, &info) < 0)
        return error_set(error, STATUS_IO, "%s: cannot ask for its size: %s", path,
                         strerror(errno));
    if ((uint64_t)info.st_size < map->n_bytes)
        return error_set(error, STATUS_IO,
                         "%s: cut short to %" PRIu64 " of %" PRIu64
                         " bytes since it was opened; install model files by rename",
                         path, (uint64_t)info.st_size, map->n_bytes);
    return STATUS_OK;
}

void file_map_drop(const struct file_map *map) {
    if (map->bytes)
        madvise((void *)(uintptr_t)map->bytes, map->n_bytes, MADV_DONTNEED);
}

static char guard_line[320];
static size_t guard_bytes;

/* Several threads may read the lost bytes at once: the first tells it, the others wait for the end. */
static void file_on_lost_bytes(int signal) {
    static atomic_flag told = ATOMIC_FLAG_INIT;
    (void)signal;
    while (atomic_flag_test_and_set(&told))
        pause();
    log_writer_last(guard_line, guard_bytes);
    _exit(EXIT_IO);
}

void file_guard(const char *what) {
    struct sigaction action = {.sa_handler = file_on_lost_bytes};
    int n = snprintf(guard_line, sizeof guard_line,
                     "error: %.200s: a file was cut short or cannot be read while it is in use\n",
                     what);
    guard_bytes = n > 0 ? (size_t)n : 0;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}
