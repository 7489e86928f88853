/* ZeroMQ sockets: made with our options, watched by a monitor, closed; which have something to read, and
 * how the owner's loop hears of it. */
#include "proto/bus_internal.h"

#include "base/random.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#define HANDSHAKE_MS     3000
#define RECONNECT_MS     100 /* only until the first connection; then a loss ends the link */
#define RECONNECT_MS_MAX 2000
#define SNDHWM_CONTROL   64
#define SNDHWM_KV        4
/* Large, because a full input stops everything of that peer; what bounds memory is the protocol:
 * credits for KV, admission for requests. */
#define RCVHWM_CONTROL 16384
#define RCVHWM_KV      256

void bus_kick(struct bus *bus) {
    uint64_t one = 1;
    if (bus->is_kicked || !bus->uses_fd)
        return;
    bus->is_kicked = write(bus->kick_fd, &one, sizeof one) == (ssize_t)sizeof one;
}

void bus_mark(struct bus *bus, struct bus_socket *socket) {
    socket->is_unread = false;
    if (list_empty(&socket->ready))
        list_push_back(&bus->ready, &socket->ready);
    if (!bus->is_dispatching)
        bus_kick(bus);
}

static bool bus_socket_set_int(void *zmq, int option, int value) {
    return zmq_setsockopt(zmq, option, &value, sizeof value) == 0;
}

static bool bus_socket_set_text(void *zmq, int option, const char *text) {
    return zmq_setsockopt(zmq, option, text, strlen(text)) == 0;
}

static bool bus_socket_set_options(struct bus *bus, void *zmq, bool is_v6) {
    bool is_kv = bus->config.kind == BUS_KV;
    int64_t frame_max = is_kv ? MESSAGE_CHUNK_MAX : MESSAGE_CONTROL_MAX;
    return bus_socket_set_int(zmq, ZMQ_LINGER, 0) && bus_socket_set_int(zmq, ZMQ_IMMEDIATE, 0) &&
           zmq_setsockopt(zmq, ZMQ_MAXMSGSIZE, &frame_max, sizeof frame_max) == 0 &&
           bus_socket_set_int(zmq, ZMQ_SNDHWM, is_kv ? SNDHWM_KV : SNDHWM_CONTROL) &&
           bus_socket_set_int(zmq, ZMQ_RCVHWM, is_kv ? RCVHWM_KV : RCVHWM_CONTROL) &&
           bus_socket_set_int(zmq, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS) &&
           bus_socket_set_int(zmq, ZMQ_CONNECT_TIMEOUT, (int)bus->config.connect_ms) &&
           bus_socket_set_int(zmq, ZMQ_RECONNECT_IVL, RECONNECT_MS) &&
           bus_socket_set_int(zmq, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MS_MAX) &&
           /* Otherwise a v4 listener would call itself [::ffff:a.b.c.d]. */
           bus_socket_set_int(zmq, ZMQ_IPV6, is_v6);
}

static bool bus_socket_set_server_keys(void *zmq, const struct keys *keys) {
    return bus_socket_set_int(zmq, ZMQ_CURVE_SERVER, 1) &&
           bus_socket_set_text(zmq, ZMQ_CURVE_SECRETKEY, keys->server_secret);
}

static bool bus_socket_set_client_keys(void *zmq, const struct keys *keys) {
    return bus_socket_set_text(zmq, ZMQ_CURVE_SERVERKEY, keys->server_public) &&
           bus_socket_set_text(zmq, ZMQ_CURVE_PUBLICKEY, keys->client_public) &&
           bus_socket_set_text(zmq, ZMQ_CURVE_SECRETKEY, keys->client_secret);
}

/* Puts the socket's descriptor under the bus's epoll. */
static enum status bus_socket_watch(struct bus *bus, struct bus_socket *socket) {
    size_t n = sizeof socket->fd;
    list_init(&socket->ready);
    if (zmq_getsockopt(socket->zmq, ZMQ_FD, &socket->fd, &n) != 0)
        return STATUS_IO;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = socket};
    return epoll_ctl(bus->epoll_fd, EPOLL_CTL_ADD, socket->fd, &event) == 0 ? STATUS_OK : STATUS_IO;
}

void socket_close(struct bus *bus, struct bus_socket *socket) {
    if (socket->kind == SOCKET_FREE)
        return;
    if (socket->kind != SOCKET_MONITOR)
        zmq_socket_monitor(socket->zmq, NULL, 0);
    if (socket->ready.next)
        list_remove(&socket->ready);
    if (socket->fd >= 0)
        epoll_ctl(bus->epoll_fd, EPOLL_CTL_DEL, socket->fd, NULL);
    zmq_close(socket->zmq);
    *socket = (struct bus_socket){.kind = SOCKET_FREE, .fd = -1};
}

static enum status bus_socket_open_monitor(struct bus *bus, struct bus_socket *watched,
                                           struct bus_socket *monitor, int events) {
    char name[64];
    snprintf(name, sizeof name, "inproc://monitor-%u", bus->n_monitors++);
    *monitor = (struct bus_socket){
        .kind = SOCKET_MONITOR, .fd = -1, .watches = watched, .index = watched->index};
    if (zmq_socket_monitor(watched->zmq, name, events) != 0 ||
        !(monitor->zmq = zmq_socket(bus->context, ZMQ_PAIR))) {
        monitor->kind = SOCKET_FREE;
        return STATUS_IO;
    }
    if (!bus_socket_set_int(monitor->zmq, ZMQ_LINGER, 0) || zmq_connect(monitor->zmq, name) != 0)
        return STATUS_IO;
    TRY(bus_socket_watch(bus, monitor));
    bus_mark(bus, monitor);
    return STATUS_OK;
}

/* A name is an interface's, which may come later; one that no interface can have never does. */
static enum status bus_socket_bind_failed(const char *endpoint, int number, struct error *error) {
    enum status status =
        error_set(error, number == EADDRINUSE ? STATUS_EXISTS : STATUS_IO,
                  "cannot listen on %s: %s", endpoint,
                  number == ENODEV ? "no address or interface of this host (names are not looked "
                                     "up here)"
                                   : zmq_strerror(number));
    if (number == ENODEV && !endpoint_may_be_interface(endpoint))
        return status;
    return error_of_errno(error, status, number);
}

static enum status bus_socket_bind_private(void *zmq, const char *endpoint, struct error *error) {
    /* libzmq makes the socket file with the mode that the umask leaves. */
    mode_t before = umask(0177);
    int result = zmq_bind(zmq, endpoint);
    if (result != 0 && zmq_errno() == ENODEV && bus_socket_set_int(zmq, ZMQ_IPV6, 1))
        result = zmq_bind(zmq, endpoint); /* an interface with IPv6 alone */
    int number = zmq_errno();
    umask(before);
    if (result != 0)
        return bus_socket_bind_failed(endpoint, number, error);
    const char *path = endpoint_path(endpoint);
    struct stat there;
    if (path && (stat(path, &there) != 0 || (there.st_mode & 0777) != 0600))
        return error_set(error, STATUS_DENIED, "%s did not get mode 0600", endpoint);
    return STATUS_OK;
}

enum status socket_listen(struct bus *bus, struct bus_listener *listener, uint32_t index,
                          const char *endpoint, struct error *error) {
    bool needs_curve;
    struct bus_socket *socket = &listener->socket;
    TRY(endpoint_check(endpoint, bus->has_keys, &needs_curve, error));
    TRY(endpoint_prepare_bind(endpoint, error));
    void *zmq = zmq_socket(bus->context, ZMQ_ROUTER);
    if (!zmq)
        return error_set(error, STATUS_IO, "socket: %s", zmq_strerror(zmq_errno()));
    *socket = (struct bus_socket){.kind = SOCKET_LISTENER, .zmq = zmq, .fd = -1, .index = index};
    char form[ENDPOINT_ZMQ_MAX];
    bool is_v6 = endpoint_for_zmq(endpoint, true, form);
    if (!bus_socket_set_options(bus, zmq, is_v6) ||
        !bus_socket_set_int(zmq, ZMQ_ROUTER_MANDATORY, 1) ||
        !bus_socket_set_int(zmq, ZMQ_ROUTER_HANDOVER, 0) ||
        (needs_curve && !bus_socket_set_server_keys(zmq, &bus->keys)))
        return error_set(error, STATUS_IO, "socket option: %s", zmq_strerror(zmq_errno()));
    TRY(bus_socket_bind_private(zmq, form, error));
    size_t n = sizeof listener->endpoint;
    if (zmq_getsockopt(zmq, ZMQ_LAST_ENDPOINT, listener->endpoint, &n) != 0)
        return error_set(error, STATUS_IO, "endpoint: %s", zmq_strerror(zmq_errno()));
    int failures = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                   ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    if (bus_socket_watch(bus, socket) != STATUS_OK ||
        bus_socket_open_monitor(bus, socket, &listener->monitor, failures) != STATUS_OK)
        return error_set(error, STATUS_IO, "cannot watch %s: %s", endpoint, strerror(errno));
    if (map_init(&listener->links, bus->config.max_links, random_seed()) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for links");
    bus_mark(bus, socket);
    return STATUS_OK;
}

enum status socket_connect(struct bus *bus, struct bus_link *link, uint32_t index,
                           const char *endpoint, struct error *error) {
    bool needs_curve;
    struct bus_socket *socket = &link->socket;
    TRY(endpoint_check(endpoint, bus->has_keys, &needs_curve, error));
    void *zmq = zmq_socket(bus->context, ZMQ_DEALER);
    if (!zmq)
        return error_set(error, STATUS_LIMIT, "socket: %s", zmq_strerror(zmq_errno()));
    *socket = (struct bus_socket){.kind = SOCKET_LINK, .zmq = zmq, .fd = -1, .index = index};
    uint64_t id[2] = {random_seed(), random_seed()};
    _Static_assert(sizeof id == ROUTING_ID_BYTES, "a routing id is 128 random bits");
    ((uint8_t *)id)[0] |= 1; /* a first byte of 0 is libzmq's own */
    char form[ENDPOINT_ZMQ_MAX];
    bool is_v6 = endpoint_for_zmq(endpoint, false, form);
    if (!bus_socket_set_options(bus, zmq, is_v6) ||
        zmq_setsockopt(zmq, ZMQ_ROUTING_ID, id, sizeof id) != 0 ||
        (needs_curve && !bus_socket_set_client_keys(zmq, &bus->keys)))
        return error_set(error, STATUS_IO, "socket option: %s", zmq_strerror(zmq_errno()));
    int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |
                 ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                 ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    if (bus_socket_watch(bus, socket) != STATUS_OK ||
        bus_socket_open_monitor(bus, socket, &link->monitor, events) != STATUS_OK)
        return error_set(error, STATUS_LIMIT, "cannot watch %s: %s", endpoint, strerror(errno));
    if (zmq_connect(zmq, form) != 0)
        return error_set(error, STATUS_INVALID, "cannot connect to %s: %s", endpoint,
                         zmq_strerror(zmq_errno()));
    return STATUS_OK;
}
