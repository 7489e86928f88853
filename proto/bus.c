#include "proto/bus.h"

#include "base/assert.h"
#include "base/clock.h"
#include "proto/bus_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define DEFAULT_LINKS         1024
#define DEFAULT_QUEUE_CONTROL 1024
#define DEFAULT_QUEUE_BYTES   ((size_t)16 << 20)
#define DEFAULT_CONNECT_MS    3000
#define GATHER_EVENTS         64
#define GATHER_EVERY          64 /* messages: so that a busy socket does not hide the others */
#define SOCKETS_SPARE         64

static enum status bus_open_descriptors(struct bus *bus) {
    struct itimerspec tick = {.it_interval.tv_nsec = TICK_MS * (long)NS_PER_MS,
                              .it_value.tv_nsec = TICK_MS * (long)NS_PER_MS};
    bus->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    bus->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    bus->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bus->epoll_fd < 0 || bus->timer_fd < 0 || bus->kick_fd < 0 ||
        timerfd_settime(bus->timer_fd, 0, &tick, NULL) != 0)
        return STATUS_IO;
    struct epoll_event timer = {.events = EPOLLIN, .data.ptr = &bus->timer_fd};
    struct epoll_event kick = {.events = EPOLLIN, .data.ptr = &bus->kick_fd};
    if (epoll_ctl(bus->epoll_fd, EPOLL_CTL_ADD, bus->timer_fd, &timer) != 0 ||
        epoll_ctl(bus->epoll_fd, EPOLL_CTL_ADD, bus->kick_fd, &kick) != 0)
        return STATUS_IO;
    return STATUS_OK;
}

static enum status bus_open_context(struct bus *bus, struct error *error) {
    bus->context = zmq_ctx_new();
    if (!bus->context)
        return error_set(error, STATUS_NOMEM, "no ZeroMQ context");
    zmq_ctx_set(bus->context, ZMQ_BLOCKY, 0);
    /* A link takes two sockets, a monitor's inner end one more. */
    int n_sockets = (int)(bus->config.max_links * 3 + SOCKETS_SPARE);
    if (zmq_ctx_set(bus->context, ZMQ_MAX_SOCKETS, n_sockets) != 0)
        return error_set(error, STATUS_LIMIT, "too many links for one ZeroMQ context");
    if (!bus->has_keys)
        return STATUS_OK;
    if (!zmq_has("curve"))
        return error_set(error, STATUS_UNSUPPORTED, "this libzmq was built without CURVE");
    if (zap_start(&bus->zap, bus->context, bus->keys.client_public) != STATUS_OK)
        return error_set(error, STATUS_IO, "cannot start the key handler");
    return STATUS_OK;
}

enum status bus_new(const struct bus_config *config, struct bus **made, struct error *error) {
    if (config->max_links > BUS_LINKS_MAX)
        return error_set(error, STATUS_LIMIT, "at most %d links", BUS_LINKS_MAX);
    struct bus *bus = calloc(1, sizeof *bus);
    if (!bus)
        return error_set(error, STATUS_NOMEM, "no memory for the bus");
    bus->config = *config;
    bus->config.keys = NULL;
    if (bus->config.max_links == 0)
        bus->config.max_links = DEFAULT_LINKS;
    if (bus->config.queue_control == 0)
        bus->config.queue_control = DEFAULT_QUEUE_CONTROL;
    if (bus->config.queue_bytes == 0)
        bus->config.queue_bytes = DEFAULT_QUEUE_BYTES;
    if (bus->config.connect_ms == 0)
        bus->config.connect_ms = DEFAULT_CONNECT_MS;
    bus->has_keys = config->keys != NULL;
    if (config->keys)
        bus->keys = *config->keys;
    bus->epoll_fd = bus->timer_fd = bus->kick_fd = -1;
    list_init(&bus->ready);
    list_init(&bus->waiting);
    list_init(&bus->ending);
    zmq_msg_init(&bus->head);
    zmq_msg_init(&bus->raw);
    bus->first_free = UINT32_MAX;
    bus->links = calloc(bus->config.max_links, sizeof *bus->links);
    for (uint32_t i = bus->config.max_links; bus->links && i-- > 0;) {
        bus->links[i].next_free = bus->first_free;
        bus->first_free = i;
    }
    enum status status = STATUS_OK;
    if (!bus->links || codec_init(&bus->encoder) != STATUS_OK ||
        codec_init(&bus->decoder) != STATUS_OK)
        status = error_set(error, STATUS_NOMEM, "no memory for %u links", bus->config.max_links);
    else if (bus_open_descriptors(bus) != STATUS_OK)
        status = error_set(error, STATUS_IO, "cannot open descriptors: %s", strerror(errno));
    else
        status = bus_open_context(bus, error);
    if (status != STATUS_OK) {
        bus_free(bus);
        return status;
    }
    *made = bus;
    return STATUS_OK;
}

static void bus_listener_close(struct bus *bus, struct bus_listener *listener) {
    socket_close(bus, &listener->socket);
    socket_close(bus, &listener->monitor);
    map_fini(&listener->links);
}

void bus_free(struct bus *bus) {
    if (!bus)
        return;
    for (uint32_t i = 0; bus->links && i < bus->config.max_links; i++)
        if (bus->links[i].state != LINK_FREE)
            link_drop(bus, &bus->links[i]);
    for (uint32_t i = 0; i < bus->n_listeners; i++)
        bus_listener_close(bus, &bus->listeners[i]);
    zmq_msg_close(&bus->head);
    zmq_msg_close(&bus->raw);
    if (bus->context) {
        zmq_ctx_shutdown(bus->context);
        zap_join(&bus->zap);
        zmq_ctx_term(bus->context);
    }
    for (uint32_t i = 0; i < bus->n_listeners; i++) {
        const char *path = endpoint_path(bus->listeners[i].endpoint);
        if (path)
            unlink(path);
    }
    codec_fini(&bus->encoder);
    codec_fini(&bus->decoder);
    const int fds[] = {bus->epoll_fd, bus->timer_fd, bus->kick_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    keys_wipe(&bus->keys);
    free(bus->links);
    free(bus);
}

enum status bus_bind(struct bus *bus, const char *endpoint, uint32_t *index, struct error *error) {
    if (bus->n_listeners == BUS_LISTENERS_MAX)
        return error_set(error, STATUS_LIMIT, "at most %d listeners", BUS_LISTENERS_MAX);
    struct bus_listener *listener = &bus->listeners[bus->n_listeners];
    *listener = (struct bus_listener){0};
    enum status status = socket_listen(bus, listener, bus->n_listeners, endpoint, error);
    if (status != STATUS_OK) {
        bus_listener_close(bus, listener);
        return status;
    }
    *index = bus->n_listeners++;
    return STATUS_OK;
}

const char *bus_endpoint(const struct bus *bus, uint32_t listener) {
    ASSERT(listener < bus->n_listeners);
    return bus->listeners[listener].endpoint;
}

enum status bus_connect(struct bus *bus, const char *endpoint, uint32_t *number,
                        struct error *error) {
    struct bus_link *link;
    if (link_take(bus, &link) != STATUS_OK)
        return error_set(error, STATUS_LIMIT, "all %u links are taken", bus->config.max_links);
    link->is_shown = true;
    link->connect_deadline_ns = clock_now_ns() + bus->config.connect_ms * NS_PER_MS;
    enum status status = socket_connect(bus, link, (uint32_t)(link - bus->links), endpoint, error);
    if (status != STATUS_OK) {
        link_drop(bus, link);
        return status;
    }
    *number = link_number(bus, link);
    return STATUS_OK;
}

void bus_close(struct bus *bus, uint32_t number) {
    struct bus_link *link = link_find(bus, number);
    if (link)
        link_drop(bus, link);
}

static void bus_tick(struct bus *bus) {
    uint64_t ignored;
    uint64_t now_ns = clock_now_ns();
    (void)!read(bus->timer_fd, &ignored, sizeof ignored);
    bus->n_ticks++;
    for (uint32_t i = 0; i < bus->config.max_links; i++) {
        struct bus_link *link = &bus->links[i];
        if (link->state == LINK_OPEN && !link->is_bound && !link->is_up &&
            now_ns > link->connect_deadline_ns)
            link_end(bus, link, link->is_broken_off ? BUS_WHY_BROKEN_OFF : BUS_WHY_NOBODY);
    }
    bus_audit(bus);
    bus_repair(bus);
}

/* Marks the sockets whose descriptors have something. */
static void bus_gather_events(struct bus *bus) {
    struct epoll_event events[GATHER_EVENTS];
    int n = epoll_wait(bus->epoll_fd, events, GATHER_EVENTS, 0);
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr == &bus->timer_fd) {
            bus->is_tick_due = true;
        } else if (events[i].data.ptr == &bus->kick_fd) {
            uint64_t ignored;
            (void)!read(bus->kick_fd, &ignored, sizeof ignored);
            bus->is_kicked = false;
        } else {
            struct bus_socket *socket = events[i].data.ptr;
            if (list_empty(&socket->ready))
                list_push_back(&bus->ready, &socket->ready);
        }
    }
    /* Last, because it may close sockets that are among the events. */
    if (bus->is_tick_due) {
        bus->is_tick_due = false;
        bus_tick(bus);
    }
}

/* Receives into `part`. STATUS_BUSY: nothing there. */
static enum status bus_receive_part(void *zmq, zmq_msg_t *part, bool *more) {
    zmq_msg_close(part);
    zmq_msg_init(part);
    while (zmq_msg_recv(part, zmq, ZMQ_DONTWAIT) < 0)
        if (zmq_errno() != EINTR)
            return STATUS_BUSY;
    *more = zmq_msg_more(part) != 0;
    return STATUS_OK;
}

/* A message with more parts than ours have: the rest goes unread. */
static void bus_skip_parts(void *zmq) {
    bool more = true;
    zmq_msg_t part;
    zmq_msg_init(&part);
    while (more && bus_receive_part(zmq, &part, &more) == STATUS_OK)
        continue;
    zmq_msg_close(&part);
}

/* Takes the parts of one message into bus->head and bus->raw and finds its link. STATUS_BUSY:
 * nothing there. STATUS_CORRUPT: not of our shape. STATUS_LIMIT: no link to be had. */
static enum status bus_receive_parts(struct bus *bus, struct bus_socket *socket,
                                     struct bus_link **link, bool *has_raw) {
    bool more;
    uint8_t routing_id[ROUTING_ID_BYTES];
    bool has_id = true;
    *link = socket->kind == SOCKET_LINK ? &bus->links[socket->index] : NULL;
    *has_raw = false;
    TRY(bus_receive_part(socket->zmq, &bus->head, &more));
    if (socket->kind == SOCKET_LISTENER) {
        has_id = zmq_msg_size(&bus->head) == ROUTING_ID_BYTES;
        if (has_id)
            memcpy(routing_id, zmq_msg_data(&bus->head), ROUTING_ID_BYTES);
        if (!more || bus_receive_part(socket->zmq, &bus->head, &more) != STATUS_OK)
            return STATUS_CORRUPT;
    }
    if (more) {
        *has_raw = true;
        if (bus_receive_part(socket->zmq, &bus->raw, &more) != STATUS_OK)
            return STATUS_CORRUPT;
    }
    bool is_longer = more;
    if (is_longer)
        bus_skip_parts(socket->zmq);
    if (!has_id)
        return STATUS_CORRUPT;
    if (!*link) {
        *link = link_of_peer(bus, socket->index, routing_id);
        if (!*link)
            return STATUS_LIMIT;
    }
    return is_longer ? STATUS_CORRUPT : STATUS_OK;
}

/* One message of a ready socket. STATUS_BUSY: none. STATUS_NOT_FOUND: one that was dropped. */
static enum status bus_receive_from(struct bus *bus, struct bus_socket *socket,
                                    struct bus_event *event) {
    struct bus_link *link;
    bool has_raw;
    enum status status = bus_receive_parts(bus, socket, &link, &has_raw);
    if (status == STATUS_BUSY)
        return STATUS_BUSY;
    if (status == STATUS_LIMIT) {
        bus->stats.n_unanswered++;
        return STATUS_NOT_FOUND;
    }
    if (link && link->state == LINK_BANNED)
        return STATUS_NOT_FOUND;
    if (status == STATUS_OK) {
        struct error error;
        struct frames frames = {.head = zmq_msg_data(&bus->head),
                                .n_head = zmq_msg_size(&bus->head),
                                .raw = has_raw ? zmq_msg_data(&bus->raw) : NULL,
                                .n_raw = has_raw ? zmq_msg_size(&bus->raw) : 0};
        if (has_raw && frames.n_raw == 0)
            status = STATUS_CORRUPT;
        else
            status = codec_decode(&bus->decoder, &frames, &bus->message, &error);
    }
    if (status != STATUS_OK) {
        bus->stats.n_bad++;
        if (link && ++link->n_bad >= BAD_MESSAGES_MAX && link->state == LINK_OPEN)
            link_ban(bus, link);
        return STATUS_NOT_FOUND;
    }
    bus->stats.n_received++;
    link->heard_ns = clock_now_ns();
    link->is_shown = true;
    *event = (struct bus_event){.kind = BUS_MESSAGE,
                                .link = link_number(bus, link),
                                .listener = link->listener,
                                .message = &bus->message};
    return STATUS_OK;
}

/* A link that is over, once what came on it was taken (or time is up). */
static bool bus_next_lost(struct bus *bus, struct bus_event *event) {
    list_each_entry(link, &bus->ending, struct bus_link, ending) {
        if (!list_empty(&link_socket(bus, link)->ready) &&
            clock_now_ns() < link->connect_deadline_ns)
            continue;
        bool is_shown = link->is_shown;
        *event = (struct bus_event){.kind = BUS_LOST,
                                    .link = link_number(bus, link),
                                    .listener = link->listener,
                                    .why = link->why};
        if (link->is_bound && link->n_bad >= BAD_MESSAGES_MAX) {
            /* Stays in its slot, so that the peer is not taken for a new one. */
            list_remove(&link->ending);
            link->state = LINK_BANNED;
        } else {
            link_drop(bus, link);
        }
        if (is_shown)
            return true;
    }
    return false;
}

static void bus_flush_socket(struct bus *bus, struct bus_socket *socket) {
    socket->is_unflushed = false;
    list_each_entry(link, &bus->waiting, struct bus_link, waiting) {
        if (socket == link_socket(bus, link))
            link_flush(bus, link);
    }
}

enum status bus_receive(struct bus *bus, struct bus_event *event) {
    if (++bus->n_since_gather >= GATHER_EVERY) {
        bus->n_since_gather = 0;
        bus_gather_events(bus);
    }
    for (;;) {
        if (bus_next_lost(bus, event))
            return STATUS_OK;
        struct list *first = list_first(&bus->ready);
        if (!first) {
            bus->n_since_gather = 0;
            bus_gather_events(bus);
            if (!bus_has_work(bus))
                return STATUS_BUSY;
            continue;
        }
        struct bus_socket *socket = list_entry(first, struct bus_socket, ready);
        if (socket->kind == SOCKET_MONITOR) {
            monitor_read(bus, socket);
            continue;
        }
        list_remove(first);
        enum status status = bus_receive_from(bus, socket, event);
        if (status == STATUS_BUSY) {
            /* Nothing more came; the same commands may have made room for what waits. */
            socket->is_unflushed = true;
            bus_flush_socket(bus, socket);
            continue;
        }
        if (socket->kind != SOCKET_FREE && list_empty(&socket->ready))
            list_push_back(&bus->ready, &socket->ready);
        if (status == STATUS_OK)
            return STATUS_OK;
    }
}

enum status bus_wait(struct bus *bus, uint64_t timeout_ns) {
    uint64_t start_ns = clock_now_ns();
    for (;;) {
        bus_gather_events(bus);
        if (bus_has_work(bus))
            return STATUS_OK;
        uint64_t passed_ns = clock_now_ns() - start_ns;
        if (passed_ns >= timeout_ns)
            return STATUS_TIMEOUT;
        uint64_t left_ns = timeout_ns - passed_ns;
        struct timespec left = {.tv_sec = (time_t)(left_ns / NS_PER_S),
                                .tv_nsec = (long)(left_ns % NS_PER_S)};
        struct pollfd fd = {.fd = bus->epoll_fd, .events = POLLIN};
        (void)ppoll(&fd, 1, &left, NULL);
    }
}

int bus_fd(struct bus *bus) {
    bus->uses_fd = true;
    if (bus_has_work(bus))
        bus_kick(bus);
    return bus->epoll_fd;
}

uint32_t bus_dispatch(struct bus *bus, uint32_t budget, uint64_t until_ns,
                      void (*handle)(void *context, const struct bus_event *event), void *context) {
    struct bus_event event;
    uint32_t n = 0;
    if (bus->uses_fd && bus_has_work(bus) && !bus->is_kicked)
        bus->stats.n_missed_wakeups++;
    bus->is_dispatching = true;
    while (n < budget && bus_receive(bus, &event) == STATUS_OK) {
        handle(context, &event);
        n++;
        if (until_ns != 0 && clock_now_ns() >= until_ns)
            break;
    }
    bus->is_dispatching = false;
    if (bus_has_work(bus))
        bus_kick(bus);
    return n;
}

void bus_stats(const struct bus *bus, struct bus_stats *stats) {
    *stats = bus->stats;
    stats->n_key_refused =
        atomic_load_explicit(&((struct bus *)(uintptr_t)bus)->zap.n_refused, memory_order_relaxed);
}

#ifdef __SANITIZE_THREAD__
/* Debian's libzmq is not instrumented, so ThreadSanitizer cannot see how its threads meet. Our own
 * code hands no pointer to another thread through it. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) {
    return "called_from_lib:libzmq.so\ncalled_from_lib:libsodium.so\nrace:libzmq.so\nmutex:libzmq."
           "so\n";
}
#endif
