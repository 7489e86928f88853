/* Addresses: which are allowed without keys, and what an ipc:// bind needs on disk. */
#include "base/net/tcp.h"
#include "proto/bus_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

const char *endpoint_path(const char *endpoint) {
    return strncmp(endpoint, "ipc://", 6) == 0 ? endpoint + 6 : NULL;
}

/* host:port or [host]:port */
static enum status split_host(const char *address, char host[MESSAGE_ENDPOINT_MAX],
                              struct error *error) {
    const char *colon = strrchr(address, ':');
    if (!colon || colon == address || colon[1] == '\0')
        return error_set(error, STATUS_INVALID, "tcp://%s: host:port is wanted", address);
    bool is_any_port = strcmp(colon + 1, "*") == 0;
    if (!is_any_port &&
        (strspn(colon + 1, "0123456789") != strlen(colon + 1) || strlen(colon + 1) > 5))
        return error_set(error, STATUS_INVALID, "tcp://%s: not a port", address);
    size_t n = (size_t)(colon - address);
    if (address[0] == '[' && address[n - 1] == ']') {
        address++;
        n -= 2;
    }
    memcpy(host, address, n);
    host[n] = '\0';
    return STATUS_OK;
}

enum status endpoint_check(const char *endpoint, bool has_keys, bool *needs_curve,
                           struct error *error) {
    if (strlen(endpoint) >= MESSAGE_ENDPOINT_MAX)
        return error_set(error, STATUS_LIMIT, "endpoint longer than %d bytes",
                         MESSAGE_ENDPOINT_MAX - 1);
    const char *path = endpoint_path(endpoint);
    if (path) {
        if (path[0] != '/')
            return error_set(error, STATUS_INVALID, "%s: ipc:// wants an absolute path", endpoint);
        if (strlen(path) >= sizeof((struct sockaddr_un *)0)->sun_path)
            return error_set(error, STATUS_LIMIT, "%s: longer than a socket's path may be (%zu)",
                             endpoint, sizeof((struct sockaddr_un *)0)->sun_path - 1);
        *needs_curve = false;
        return STATUS_OK;
    }
    if (strncmp(endpoint, "tcp://", 6) != 0)
        return error_set(error, STATUS_INVALID, "%s: neither ipc:// nor tcp://", endpoint);
    char host[MESSAGE_ENDPOINT_MAX];
    TRY(split_host(endpoint + 6, host, error));
    if (!has_keys && !tcp_is_loopback(host))
        return error_set(error, STATUS_DENIED,
                         "%s is not a loopback address, and there are no keys: make some with "
                         "`tandem keys DIR` and say keys = DIR in [cluster]",
                         endpoint);
    *needs_curve = has_keys;
    return STATUS_OK;
}

enum status bus_check(const char *endpoint, bool has_keys, struct error *error) {
    bool needs_curve;
    return endpoint_check(endpoint, has_keys, &needs_curve, error);
}

/* libzmq unlinks the path before it binds, so a second process would take a living one's place. */
static enum status check_unused(const char *path, struct error *error) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set(error, STATUS_IO, "socket: %s", strerror(errno));
    int result = connect(fd, (struct sockaddr *)&address, sizeof address);
    int number = errno;
    close(fd);
    if (result == 0 || number == EAGAIN)
        return error_set(error, STATUS_EXISTS, "ipc://%s: somebody listens there", path);
    struct stat there;
    if (lstat(path, &there) == 0 && !S_ISSOCK(there.st_mode))
        return error_set(error, STATUS_EXISTS, "ipc://%s: a file that is not a socket", path);
    return STATUS_OK;
}

enum status endpoint_prepare_bind(const char *endpoint, struct error *error) {
    const char *path = endpoint_path(endpoint);
    if (!path)
        return STATUS_OK;
    char folder[MESSAGE_ENDPOINT_MAX];
    memcpy(folder, path, strlen(path) + 1);
    char *slash = strrchr(folder, '/');
    if (slash == folder)
        return check_unused(path, error);
    *slash = '\0';
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return error_set(error, STATUS_IO, "cannot make the folder %s: %s", folder,
                         strerror(errno));
    return check_unused(path, error);
}
