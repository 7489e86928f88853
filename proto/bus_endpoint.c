/* Addresses: which are allowed without keys, and what an ipc:// bind needs on disk. */
#include "base/net/tcp.h"
#include "proto/bus_internal.h"

#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

const char *endpoint_path(const char *endpoint) {
    return strncmp(endpoint, "ipc://", 6) == 0 ? endpoint + 6 : NULL;
}

static enum status bus_endpoint_split(const char *address, struct address *at,
                                      struct error *error) {
    if (!address_split(address, at) || !at->host[0])
        return error_set(error, STATUS_INVALID,
                         "tcp://%s: not HOST:PORT, with an IPv6 address in brackets", address);
    if (address_lacks_interface(at->host))
        return error_set(error, STATUS_INVALID,
                         "tcp://%s: a link-local address needs its interface: [%s%%eth0]", address,
                         at->host);
    return STATUS_OK;
}

/* What the kernel's dev_valid_name() takes. */
bool endpoint_may_be_interface(const char *endpoint) {
    struct address at;
    if (strncmp(endpoint, "tcp://", 6) != 0 || !address_split(endpoint + 6, &at))
        return false;
    size_t n = strlen(at.host);
    for (size_t i = 0; i < n; i++)
        if (isspace((unsigned char)at.host[i]) || at.host[i] == '/' || at.host[i] == ':')
            return false;
    return n > 0 && n < IFNAMSIZ;
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
    struct address at;
    TRY(bus_endpoint_split(endpoint + 6, &at, error));
    if (!has_keys && !tcp_is_loopback(at.host))
        return error_set(error, STATUS_DENIED,
                         "%s is not a loopback address, and no keys are set: make them with "
                         "`tandem keys DIR` and set keys = DIR in [cluster]",
                         endpoint);
    *needs_curve = has_keys;
    return STATUS_OK;
}

bool endpoint_for_zmq(const char *endpoint, bool is_bind, char text[ENDPOINT_ZMQ_MAX]) {
    struct address at;
    char pair[ADDRESS_TEXT_MAX];
    snprintf(text, ENDPOINT_ZMQ_MAX, "%s", endpoint);
    if (endpoint_path(endpoint) || !address_split(endpoint + 6, &at))
        return false;
    bool is_v6 = address_is_v6(at.host) || strcmp(at.host, "*") == 0;
    if (is_v6 && is_bind && address_is_any(at.host))
        snprintf(text, ENDPOINT_ZMQ_MAX, "tcp://*:%s", at.port);
    else
        snprintf(text, ENDPOINT_ZMQ_MAX, "tcp://%s", address_join(at.host, at.port, pair));
    return is_v6;
}

enum status bus_check(const char *endpoint, bool has_keys, struct error *error) {
    bool needs_curve;
    return endpoint_check(endpoint, has_keys, &needs_curve, error);
}

/* libzmq unlinks the path before it binds, so a second process would take a living one's place. */
static enum status bus_endpoint_check_unused(const char *path, struct error *error) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set(error, STATUS_IO, "socket: %s", strerror(errno));
    int result = connect(fd, (struct sockaddr *)&address, sizeof address);
    int number = errno;
    close(fd);
    if (result == 0 || number == EAGAIN)
        return error_passing(error, STATUS_EXISTS, "ipc://%s: another process listens there", path);
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
        return bus_endpoint_check_unused(path, error);
    *slash = '\0';
    int number = mkdir(folder, 0700) == 0 ? 0 : errno;
    if (number != 0 && number != EEXIST)
        return error_errno(error, STATUS_IO, number, "cannot make the folder %s", folder);
    return bus_endpoint_check_unused(path, error);
}
