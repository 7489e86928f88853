#include "proto/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#define N_FILES 4

static const char *const file_names[N_FILES] = {"server.public", "server.secret", "client.public",
                                                "client.secret"};

static enum status keys_failed_with_errno(struct error *error, const char *what, const char *path) {
    int number = errno;
    enum status status = number == ENOENT                      ? STATUS_NOT_FOUND
                         : number == EEXIST                    ? STATUS_EXISTS
                         : number == EACCES || number == EPERM ? STATUS_DENIED
                                                               : STATUS_IO;
    return error_errno(error, status, number, "%s %s", what, path);
}

static enum status keys_path_in(char path[PATH_MAX], const char *folder, const char *name,
                                struct error *error) {
    int n = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    if (n < 0 || n >= PATH_MAX)
        return error_set(error, STATUS_LIMIT, "the path of the key folder is too long");
    return STATUS_OK;
}

static enum status keys_write_file(const char *path, const char *text, struct error *error) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return keys_failed_with_errno(error, "cannot create", path);
    size_t n = strlen(text);
    bool ok = fchmod(fd, 0600) == 0 && write(fd, text, n) == (ssize_t)n &&
              write(fd, "\n", 1) == 1 && fsync(fd) == 0;
    int number = errno;
    if (close(fd) != 0 && ok) {
        ok = false;
        number = errno;
    }
    if (ok)
        return STATUS_OK;
    unlink(path);
    errno = number;
    return keys_failed_with_errno(error, "cannot write", path);
}

enum status keys_make(const char *folder, struct error *error) {
    char path[PATH_MAX];
    struct keys keys;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return keys_failed_with_errno(error, "cannot make the folder", folder);
    for (int i = 0; i < N_FILES; i++) {
        TRY(keys_path_in(path, folder, file_names[i], error));
        struct stat there;
        if (lstat(path, &there) == 0)
            return error_set(error, STATUS_EXISTS, "%s exists; keys are never overwritten", path);
    }
    if (chmod(folder, 0700) != 0)
        return keys_failed_with_errno(error, "cannot make private", folder);
    if (zmq_curve_keypair(keys.server_public, keys.server_secret) != 0 ||
        zmq_curve_keypair(keys.client_public, keys.client_secret) != 0)
        return error_set(error, STATUS_UNSUPPORTED, "this libzmq was built without CURVE");
    const char *const texts[N_FILES] = {keys.server_public, keys.server_secret, keys.client_public,
                                        keys.client_secret};
    enum status status = STATUS_OK;
    int n_written = 0;
    while (status == STATUS_OK && n_written < N_FILES) {
        status = keys_path_in(path, folder, file_names[n_written], error);
        if (status == STATUS_OK)
            status = keys_write_file(path, texts[n_written], error);
        if (status == STATUS_OK)
            n_written++;
    }
    struct error ignored;
    for (int i = 0; status != STATUS_OK && i < n_written; i++)
        if (keys_path_in(path, folder, file_names[i], &ignored) == STATUS_OK)
            unlink(path); /* half a set of keys would only stop the next try */
    keys_wipe(&keys);
    return status;
}

/* What root owns its group may read: so keys come as a Secret of Kubernetes (fsGroup), as a
 * credential of systemd, or as root:tandem 0640. */
static enum status keys_check_private(const struct stat *stat, const char *path,
                                      struct error *error) {
    if ((stat->st_mode & (stat->st_uid == 0 ? 037 : 077)) != 0)
        return error_set(error, STATUS_DENIED,
                         "%s can be used by others (mode %03o); chmod go= it and everything in it",
                         path, stat->st_mode & 0777);
    if (stat->st_uid != geteuid() && stat->st_uid != 0)
        return error_set(error, STATUS_DENIED, "%s belongs to another user", path);
    return STATUS_OK;
}

/* Root's folder may be seen by others, whom the files themselves keep out, and even be written by
 * them if it is sticky, as the one of a Secret is: what root put there stays. */
static enum status keys_check_folder(const struct stat *stat, const char *path,
                                     struct error *error) {
    bool stays = (stat->st_mode & 022) == 0 || (stat->st_mode & S_ISVTX) != 0;
    if (stat->st_uid == 0 && stays)
        return STATUS_OK;
    return keys_check_private(stat, path, error);
}

static enum status keys_read_file(const char *path, char text[KEY_TEXT_BYTES],
                                  struct error *error) {
    char bytes[KEY_TEXT_BYTES + 2];
    struct stat stat;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a Secret's files are links */
    if (fd < 0)
        return keys_failed_with_errno(error, "cannot open", path);
    enum status status = STATUS_OK;
    ssize_t n = -1;
    if (fstat(fd, &stat) != 0)
        status = keys_failed_with_errno(error, "cannot look at", path);
    else if (!S_ISREG(stat.st_mode))
        status = error_set(error, STATUS_INVALID, "%s is not a file", path);
    else
        status = keys_check_private(&stat, path, error);
    if (status == STATUS_OK) {
        n = read(fd, bytes, sizeof bytes);
        if (n < 0)
            status = keys_failed_with_errno(error, "cannot read", path);
    }
    close(fd);
    if (status != STATUS_OK)
        return status;
    if (n > 0 && bytes[n - 1] == '\n')
        n--;
    uint8_t binary[32];
    if (n != KEY_TEXT_BYTES - 1)
        return error_set(error, STATUS_INVALID, "%s does not hold a key of 40 characters", path);
    memcpy(text, bytes, KEY_TEXT_BYTES - 1);
    text[KEY_TEXT_BYTES - 1] = '\0';
    bool valid = !memchr(text, '\0', KEY_TEXT_BYTES - 1) && zmq_z85_decode(binary, text);
    explicit_bzero(binary, sizeof binary);
    explicit_bzero(bytes, sizeof bytes);
    if (!valid)
        return error_set(error, STATUS_INVALID, "%s does not hold a Z85 key", path);
    return STATUS_OK;
}

static bool keys_is_pair(const char *public, const char *secret) {
    char derived[KEY_TEXT_BYTES];
    return zmq_curve_public(derived, secret) == 0 && strcmp(derived, public) == 0;
}

enum status keys_load(const char *folder, struct keys *keys, struct error *error) {
    struct stat stat_folder;
    struct keys loaded;
    char path[PATH_MAX];
    if (stat(folder, &stat_folder) != 0)
        return keys_failed_with_errno(error,
                                      "no key folder (make one with: tandem keys DIR):", folder);
    TRY(keys_check_folder(&stat_folder, folder, error));
    char *const texts[N_FILES] = {loaded.server_public, loaded.server_secret, loaded.client_public,
                                  loaded.client_secret};
    for (int i = 0; i < N_FILES; i++) {
        TRY(keys_path_in(path, folder, file_names[i], error));
        TRY(keys_read_file(path, texts[i], error));
    }
    if (!keys_is_pair(loaded.server_public, loaded.server_secret) ||
        !keys_is_pair(loaded.client_public, loaded.client_secret))
        return error_set(error, STATUS_INVALID, "%s: public and secret keys do not belong together",
                         folder);
    *keys = loaded;
    keys_wipe(&loaded);
    return STATUS_OK;
}

void keys_wipe(struct keys *keys) {
    explicit_bzero(keys, sizeof *keys);
}
