#include "worker/ranks/rank_wire.h"

#include "base/assert.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define MAGIC 0x31304b4e41524454ull /* "TDRANK01" */

enum status rank_wire_path(const char *address, const char **path, struct error *error) {
    struct sockaddr_un name;
    const char *found = address;
    if (strncmp(address, "ipc://", 6) == 0)
        found = address + 6;
    else if (strstr(address, "://"))
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: ranks add up through shared memory and have to be on one host: "
                         "ipc://PATH",
                         address);
    if (!found[0] || strlen(found) >= sizeof name.sun_path)
        return error_set(error, STATUS_INVALID, "%s: a path of 1 to %zu bytes is needed", address,
                         sizeof name.sun_path - 1);
    *path = found;
    return STATUS_OK;
}

static struct sockaddr_un rank_wire_name_of(const char *path) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    ASSERT(strlen(path) < sizeof name.sun_path);
    strcpy(name.sun_path, path);
    return name;
}

enum status rank_wire_connect(const char *path, int *fd, struct error *error) {
    struct sockaddr_un name = rank_wire_name_of(path);
    int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (made >= 0 && connect(made, (const struct sockaddr *)&name, sizeof name) == 0) {
        *fd = made;
        return STATUS_OK;
    }
    int refused = errno;
    if (made >= 0)
        close(made);
    bool nobody = refused == ENOENT || refused == ECONNREFUSED || refused == EAGAIN;
    return error_set(error, nobody ? STATUS_NOT_FOUND : STATUS_IO, "%s: %s", path,
                     strerror(refused));
}

enum status rank_wire_listen(const char *path, int *fd, struct error *error) {
    struct sockaddr_un name = rank_wire_name_of(path);
    struct stat info;
    int other;
    if (rank_wire_connect(path, &other, error) == STATUS_OK) {
        close(other);
        return error_passing(error, STATUS_EXISTS, "%s: another leader listens there", path);
    }
    if (lstat(path, &info) == 0 && S_ISSOCK(info.st_mode))
        (void)unlink(path); /* of a leader that died */
    int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    /* The mode is the socket's before it has a name: there is no moment with another one. */
    if (made >= 0 && fchmod(made, 0600) == 0 &&
        bind(made, (const struct sockaddr *)&name, sizeof name) == 0 && chmod(path, 0600) == 0 &&
        listen(made, COMM_RANKS_MAX) == 0) {
        *fd = made;
        return STATUS_OK;
    }
    int refused = errno;
    if (made >= 0)
        close(made);
    return error_errno(error, STATUS_IO, refused, "%s", path);
}

enum status rank_wire_peer(int fd, pid_t *pid) {
    struct ucred peer;
    socklen_t n = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) != 0)
        return STATUS_IO;
    if (peer.uid != geteuid())
        return STATUS_DENIED;
    *pid = peer.pid;
    return STATUS_OK;
}

union ancillary {
    struct cmsghdr head;
    unsigned char bytes[CMSG_SPACE(COMM_RANKS_MAX * sizeof(int))];
};

enum status rank_wire_send(int fd, struct rank_message *message, const int *fds, uint32_t n_fds) {
    union ancillary ancillary = {0};
    struct iovec piece = {.iov_base = message, .iov_len = sizeof *message};
    struct msghdr record = {.msg_iov = &piece, .msg_iovlen = 1};
    ssize_t n;
    ASSERT(n_fds <= COMM_RANKS_MAX);
    message->magic = MAGIC;
    if (n_fds > 0) {
        record.msg_control = ancillary.bytes;
        record.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        struct cmsghdr *head = CMSG_FIRSTHDR(&record);
        *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(n_fds * sizeof(int)),
                                 .cmsg_level = SOL_SOCKET,
                                 .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(head), fds, n_fds * sizeof(int));
    }
    do
        n = sendmsg(fd, &record, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)sizeof *message)
        return STATUS_OK;
    return errno == EPIPE || errno == ECONNRESET ? STATUS_CLOSED : STATUS_IO;
}

void rank_wire_close(int *fds, uint32_t n_fds) {
    for (uint32_t i = 0; i < n_fds; i++)
        close(fds[i]);
}

static void rank_wire_take_fds(struct msghdr *record, int fds[COMM_RANKS_MAX], uint32_t *n_fds) {
    *n_fds = 0;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(record); head; head = CMSG_NXTHDR(record, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int found;
            memcpy(&found, CMSG_DATA(head) + i * sizeof found, sizeof found);
            if (*n_fds < COMM_RANKS_MAX)
                fds[(*n_fds)++] = found;
            else
                close(found);
        }
    }
}

/* Texts end within their arrays, also where what was sent does not. */
static void rank_wire_end_texts(struct rank_message *message) {
    if (message->type == RANK_JOIN)
        message->u.join.version[sizeof message->u.join.version - 1] = '\0';
    if (message->type == RANK_TERMS)
        message->u.terms.backend[sizeof message->u.terms.backend - 1] = '\0';
    if (message->type == RANK_READY)
        message->u.ready.numerics[RANK_WIRE_NUMERICS_MAX - 1] = '\0';
    if (message->type == RANK_REFUSED || message->type == RANK_FAILED)
        message->u.failed.text[ERROR_TEXT_MAX - 1] = '\0';
}

enum status rank_wire_receive(int fd, struct rank_message *message, int fds[COMM_RANKS_MAX],
                              uint32_t *n_fds) {
    union ancillary ancillary;
    struct iovec piece = {.iov_base = message, .iov_len = sizeof *message};
    struct msghdr record = {.msg_iov = &piece,
                            .msg_iovlen = 1,
                            .msg_control = ancillary.bytes,
                            .msg_controllen = sizeof ancillary.bytes};
    ssize_t n;
    do
        n = recvmsg(fd, &record, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return STATUS_TIMEOUT;
    if (n < 0)
        return STATUS_CLOSED;
    rank_wire_take_fds(&record, fds, n_fds); /* an empty record, too, may bring some */
    bool sound = n == (ssize_t)sizeof *message && message->magic == MAGIC &&
                 (unsigned)message->type < RANK_MESSAGE_TYPES &&
                 !(record.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
    if (!sound) {
        rank_wire_close(fds, *n_fds);
        *n_fds = 0;
        return n == 0 ? STATUS_CLOSED : STATUS_CORRUPT;
    }
    rank_wire_end_texts(message);
    return STATUS_OK;
}
