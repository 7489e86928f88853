#include "base/net/tcp.h"

#include "base/clock.h"
#include "base/net/address.h"
#include "base/net/loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPTS_PER_TURN 64
#define SEND_BYTES       (256 * 1024) /* SO_SNDBUF: the kernel doubles it for its own use */
#define NOTSENT_BYTES    (64 * 1024)  /* what waits beyond this waits with us, where we see it */
#define RETRY_NS         (100 * NS_PER_MS) /* after running out of descriptors */

struct tcp_listener {
    int fd;                   /* owned */
    struct loop_watch *watch; /* owned */
    struct loop_timer *retry; /* owned */
    uint16_t port;
    bool is_loopback;
    bool paused;    /* by the owner */
    bool exhausted; /* by us, until the timer fires */
    uint64_t n_exhausted;
    tcp_accept_fn *fn;
    bool (*exhausted_fn)(void *user); /* NULL: not told */
    void *user;
};

static void tcp_watch_again(struct tcp_listener *listener) {
    bool on = !listener->paused && !listener->exhausted;
    if (!listener->watch) /* finished */
        return;
    (void)!loop_watch_set(listener->watch, on ? LOOP_READ : 0);
}

static void tcp_on_retry(void *user) {
    struct tcp_listener *listener = user;
    listener->exhausted = false;
    tcp_watch_again(listener);
}

/* The kernel looks for a free descriptor first, whether or not a connection waits. */
static bool tcp_has_waiting(const struct tcp_listener *listener) {
    struct pollfd poller = {.fd = listener->fd, .events = POLLIN};
    return poll(&poller, 1, 0) == 1;
}

static void tcp_rest_accepting(struct tcp_listener *listener) {
    bool has_help = listener->exhausted_fn && listener->exhausted_fn(listener->user);
    listener->n_exhausted++;
    listener->exhausted = true;
    tcp_watch_again(listener);
    loop_timer_after(listener->retry, has_help ? 0 : RETRY_NS);
}

/* Until none waits or n_max were accepted. */
static void tcp_accept_some(struct tcp_listener *listener, unsigned n_max) {
    for (unsigned i = 0; i < n_max && !listener->paused; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            listener->fn(listener->user, fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            if (tcp_has_waiting(listener))
                tcp_rest_accepting(listener);
        } else if (errno == EINTR || errno == ECONNABORTED) {
            continue;
        }
        return;
    }
}

static void tcp_on_readable(void *user, unsigned events) {
    (void)events;
    tcp_accept_some(user, ACCEPTS_PER_TURN);
}

/* What is accepted inherits these from the listening socket, which spares three calls for each. */
static void tcp_set_options(int fd) {
    int one = 1;
    int send_bytes = SEND_BYTES;
    int notsent_bytes = NOTSENT_BYTES;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof send_bytes);
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &notsent_bytes, sizeof notsent_bytes);
}

static bool tcp_is_loopback4(struct in_addr address) {
    return ntohl(address.s_addr) >> 24 == 127;
}

/* On a socket that listens already. Takes fd on success. */
static enum status tcp_listen_fd(struct loop *loop, int fd, tcp_accept_fn *fn, void *user,
                                 struct tcp_listener **out, struct error *error) {
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
        struct sockaddr_storage room;
    } bound = {.any.sa_family = AF_UNSPEC};
    socklen_t n = sizeof bound;
    if (getsockname(fd, &bound.any, &n) != 0)
        return error_set(error, STATUS_IO, "cannot listen: %s", strerror(errno));
    struct tcp_listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return error_set(error, STATUS_NOMEM, "out of memory");
    *listener = (struct tcp_listener){.fd = fd, .fn = fn, .user = user};
    if (bound.any.sa_family == AF_INET) {
        listener->port = ntohs(bound.four.sin_port);
        listener->is_loopback = tcp_is_loopback4(bound.four.sin_addr);
    } else if (bound.any.sa_family == AF_INET6) {
        listener->port = ntohs(bound.six.sin6_port);
        listener->is_loopback = IN6_IS_ADDR_LOOPBACK(&bound.six.sin6_addr);
    }
    tcp_set_options(fd);
    if (loop_watch_new(loop, fd, tcp_on_readable, listener, &listener->watch) != STATUS_OK ||
        loop_timer_new(loop, tcp_on_retry, listener, &listener->retry) != STATUS_OK ||
        loop_watch_set(listener->watch, LOOP_READ) != STATUS_OK) {
        listener->fd = -1;
        tcp_listener_free(listener);
        return error_set(error, STATUS_NOMEM, "out of memory");
    }
    *out = listener;
    return STATUS_OK;
}

/* Did a name fail to resolve that may resolve later, or is the interface of an IPv6 scope not there yet? */
static bool tcp_may_resolve(const char *host) {
    static const char digits[] = "0123456789.";
    static const char bytes[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    size_t n = strlen(host);
    return strchr(host, '%') || (strspn(host, bytes) == n && strspn(host, digits) < n);
}

static enum status tcp_resolve(const char *address, struct addrinfo **list, struct error *error) {
    struct address at;
    if (!address_split(address, &at) || strcmp(at.port, "*") == 0)
        return error_set(error, STATUS_INVALID, "\"%s\" is not HOST:PORT or [IPV6]:PORT", address);
    if (address_lacks_interface(at.host))
        return error_set(error, STATUS_INVALID,
                         "\"%s\": a link-local address needs its interface: [%s%%eth0]:%s", address,
                         at.host, at.port);
    /* Both kinds of address are one, so that a host without IPv6 takes the other. */
    bool is_any = address_is_any(at.host) && strcmp(at.host, "0.0.0.0") != 0;
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    int rc = getaddrinfo(is_any ? NULL : at.host, at.port, &hints, list);
    if (rc == 0)
        return STATUS_OK;
    enum status status = error_set(error, STATUS_INVALID, "cannot find the address \"%s\": %s",
                                   address, gai_strerror(rc));
    error->may_pass = tcp_may_resolve(at.host);
    return status;
}

static int tcp_open_socket(const struct addrinfo *info) {
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int one = 1, zero = 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (info->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

/* "fd:N": a socket inherited from who started us. */
static enum status tcp_listen_inherited(struct loop *loop, const char *address, tcp_accept_fn *fn,
                                        void *user, struct tcp_listener **listener,
                                        struct error *error) {
    const char *digits = address + 3;
    size_t n = strlen(digits);
    int listening = 0;
    socklen_t size = sizeof listening;
    if (n == 0 || n > 6 || strspn(digits, "0123456789") != n)
        return error_set(error, STATUS_INVALID, "\"%s\" is not fd:NUMBER", address);
    int fd = (int)strtol(digits, NULL, 10);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || !listening)
        return error_passing(error, STATUS_INVALID, "descriptor %d is not a listening socket", fd);
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return error_set(error, STATUS_IO, "descriptor %d: %s", fd, strerror(errno));
    return tcp_listen_fd(loop, fd, fn, user, listener, error);
}

enum status tcp_listen(struct loop *loop, const char *address, tcp_accept_fn *fn, void *user,
                       struct tcp_listener **listener, struct error *error) {
    struct addrinfo *list = NULL;
    if (strncmp(address, "fd:", 3) == 0)
        return tcp_listen_inherited(loop, address, fn, user, listener, error);
    TRY(tcp_resolve(address, &list, error));
    int fd = -1;
    /* A wildcard IPv6 socket takes IPv4 too, so it goes first; hosts without IPv6 get the other. */
    for (int pass = 0; pass < 2 && fd < 0; pass++)
        for (const struct addrinfo *info = list; info && fd < 0; info = info->ai_next)
            if ((info->ai_family == AF_INET6) == (pass == 0))
                fd = tcp_open_socket(info);
    int failure = errno;
    freeaddrinfo(list);
    if (fd < 0 && failure == EADDRINUSE)
        return error_passing(error, STATUS_EXISTS,
                             "%s is in use by another process (ss -ltnp shows which): choose "
                             "another port, or 0 for any free one",
                             address);
    if (fd < 0)
        return error_errno(error, failure == EACCES ? STATUS_DENIED : STATUS_IO, failure,
                           "cannot listen on %s", address);
    enum status status = tcp_listen_fd(loop, fd, fn, user, listener, error);
    if (status != STATUS_OK)
        close(fd);
    return status;
}

void tcp_listener_free(struct tcp_listener *listener) {
    if (!listener)
        return;
    loop_watch_free(listener->watch);
    loop_timer_free(listener->retry);
    if (listener->fd >= 0)
        close(listener->fd);
    free(listener);
}

uint16_t tcp_listener_port(const struct tcp_listener *listener) {
    return listener->port;
}

void tcp_listener_pause(struct tcp_listener *listener, bool paused) {
    listener->paused = paused;
    tcp_watch_again(listener);
}

void tcp_listener_finish(struct tcp_listener *listener) {
    if (!listener->watch)
        return;
    tcp_accept_some(listener, UINT_MAX);
    loop_watch_free(listener->watch);
    listener->watch = NULL;
    close(listener->fd);
    listener->fd = -1;
}

void tcp_listener_tell_exhausted(struct tcp_listener *listener, bool (*fn)(void *user)) {
    listener->exhausted_fn = fn;
}

uint64_t tcp_listener_n_exhausted(const struct tcp_listener *listener) {
    return listener->n_exhausted;
}

bool tcp_listener_is_loopback(const struct tcp_listener *listener) {
    return listener->is_loopback;
}

bool tcp_is_loopback(const char *host) {
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, host, &four) == 1)
        return tcp_is_loopback4(four);
    if (inet_pton(AF_INET6, host, &six) == 1)
        return IN6_IS_ADDR_LOOPBACK(&six);
    return strcmp(host, "localhost") == 0;
}
