#include "base/client/http_dial.h"

#include "base/net/address.h"
#include "base/net/dns.h"
#include "base/net/loop.h"
#include "base/net/tls.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct http_dial {
    struct loop *loop;          /* borrowed */
    const struct http_url *url; /* borrowed */
    struct tls_context *tls;    /* borrowed; or NULL */
    const struct stream_events *events;
    http_dialed_fn *fn;
    void *user;
    struct http_dial **owner;
    struct addrinfo *found; /* owned: the addresses of the host */
    struct addrinfo *next;  /* of them: to be tried when this one fails */
    uint32_t n_known;       /* of url->known: that are in `found`, or were */
    int fd;
    struct loop_watch *watch; /* owned */
};

static void http_dial_close_socket(struct http_dial *dial) {
    loop_watch_free(dial->watch);
    if (dial->fd >= 0)
        close(dial->fd);
    dial->watch = NULL;
    dial->fd = -1;
}

void http_dial_abort(struct http_dial **owner) {
    struct http_dial *dial = *owner;
    *owner = NULL;
    if (!dial)
        return;
    http_dial_close_socket(dial);
    if (dial->found)
        freeaddrinfo(dial->found);
    free(dial);
}

static void http_dial_fail(struct http_dial *dial, enum status status, const char *problem) {
    http_dialed_fn *fn = dial->fn;
    void *user = dial->user;
    http_dial_abort(dial->owner);
    fn(user, NULL, status, problem);
}

static void http_dial_try_next(struct http_dial *dial, int problem);

static void http_dial_on_connected(void *user, unsigned happened) {
    struct http_dial *dial = user;
    struct stream *stream = NULL;
    int problem = 0;
    socklen_t size = sizeof problem;
    (void)happened;
    getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &problem, &size);
    if (problem != 0) {
        http_dial_close_socket(dial);
        http_dial_try_next(dial, problem);
        return;
    }
    loop_watch_free(dial->watch);
    dial->watch = NULL;
    enum status status =
        dial->tls ? stream_new_tls_client(dial->loop, dial->fd, dial->tls, dial->url->host,
                                          dial->events, dial->user, &stream)
                  : stream_new(dial->loop, dial->fd, dial->events, dial->user, &stream);
    if (status != STATUS_OK) {
        http_dial_fail(dial, STATUS_IO, "cannot open the connection");
        return;
    }
    dial->fd = -1;
    http_dialed_fn *fn = dial->fn;
    void *owner = dial->user;
    http_dial_abort(dial->owner);
    fn(owner, stream, STATUS_OK, "");
}

static int http_dial_begin(const struct addrinfo *to) {
    int one = 1;
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, to->ai_addr, to->ai_addrlen) == 0 || errno == EINPROGRESS)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

/* False: all addresses were tried. */
static bool http_dial_has_next(struct http_dial *dial) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    const struct dns_answer *known = dial->url->known;
    while (!dial->next && known && dial->n_known < known->n) {
        if (dial->found)
            freeaddrinfo(dial->found);
        dial->found = NULL;
        if (getaddrinfo(known->addresses[dial->n_known++], dial->url->port, &hints, &dial->found) ==
            0)
            dial->next = dial->found;
    }
    return dial->next != NULL;
}

/* A name may have addresses of which one is served: localhost those of IPv6 and IPv4. `problem` is
 * what the one before met. */
static void http_dial_try_next(struct http_dial *dial, int problem) {
    while (dial->fd < 0 && http_dial_has_next(dial)) {
        dial->fd = http_dial_begin(dial->next);
        problem = errno;
        dial->next = dial->next->ai_next;
    }
    if (dial->fd < 0)
        http_dial_fail(dial, STATUS_CLOSED, strerror(problem));
    else if (loop_watch_new(dial->loop, dial->fd, http_dial_on_connected, dial, &dial->watch) !=
                 STATUS_OK ||
             loop_watch_set(dial->watch, LOOP_WRITE) != STATUS_OK)
        http_dial_fail(dial, STATUS_IO, "cannot watch the connection");
}

void http_dial(struct loop *loop, const struct http_url *url, struct tls_context *tls,
               const struct stream_events *events, http_dialed_fn *fn, void *user,
               struct http_dial **owner) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct http_dial *dial = malloc(sizeof *dial);
    *owner = dial;
    if (!dial) {
        fn(user, NULL, STATUS_NOMEM, "no memory for the connection");
        return;
    }
    *dial = (struct http_dial){.loop = loop,
                               .url = url,
                               .tls = tls,
                               .events = events,
                               .fn = fn,
                               .user = user,
                               .owner = owner,
                               .fd = -1};
    if (url->known) {
        http_dial_try_next(dial, EADDRNOTAVAIL);
        return;
    }
    /* A server that listens on every address: this host, by either kind. */
    const char *host = address_is_any(url->host) ? NULL : url->host;
    int problem = getaddrinfo(host, url->port, &hints, &dial->found);
    if (problem != 0) {
        http_dial_fail(dial, STATUS_IO, gai_strerror(problem));
        return;
    }
    dial->next = dial->found;
    http_dial_try_next(dial, 0);
}
