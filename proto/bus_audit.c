/* What the tick does against lost wake-ups: it counts those that the books show (there must be none)
 * and looks again at all that may wait. */
#include "proto/bus_internal.h"

#include <poll.h>

#define TICKS_PER_LOOK 20

bool bus_has_work(const struct bus *bus) {
    return !list_empty(&bus->ready) || !list_empty(&bus->ending);
}

static bool bus_audit_is_idle(const struct bus_socket *socket) {
    return socket->kind != SOCKET_FREE && list_empty(&socket->ready);
}

static void bus_audit_socket(struct bus *bus, struct bus_socket *socket) {
    if (bus_audit_is_idle(socket) && socket->is_unread) {
        socket->is_unread = false;
        bus->stats.n_missed_wakeups++;
    }
}

void bus_audit(struct bus *bus) {
    struct pollfd kick = {.fd = bus->kick_fd, .events = POLLIN};
    if (bus->is_kicked != (poll(&kick, 1, 0) == 1))
        bus->stats.n_missed_wakeups++;
    for (uint32_t i = 0; i < bus->config.max_links; i++)
        if (bus->links[i].state != LINK_FREE)
            bus_audit_socket(bus, &bus->links[i].socket);
    for (uint32_t i = 0; i < bus->n_listeners; i++)
        bus_audit_socket(bus, &bus->listeners[i].socket);
    list_each_entry(link, &bus->waiting, struct bus_link, waiting) {
        struct bus_socket *socket = link_socket(bus, link);
        if (bus_audit_is_idle(socket) && socket->is_unflushed) {
            socket->is_unflushed = false;
            bus->stats.n_missed_wakeups++;
        }
    }
}

/* A socket that libzmq has something for, although its descriptor told nothing. */
static void bus_audit_look(struct bus *bus, struct bus_socket *socket) {
    struct pollfd fd = {.fd = socket->fd, .events = POLLIN};
    int events = 0;
    size_t n = sizeof events;
    if (!bus_audit_is_idle(socket) || poll(&fd, 1, 0) != 0)
        return;
    if (zmq_getsockopt(socket->zmq, ZMQ_EVENTS, &events, &n) == 0 && (events & ZMQ_POLLIN))
        bus_mark(bus, socket);
}

void bus_repair(struct bus *bus) {
    bool looks = bus->n_ticks % TICKS_PER_LOOK == 0;
    for (uint32_t i = 0; looks && i < bus->config.max_links; i++)
        if (bus->links[i].state != LINK_FREE)
            bus_audit_look(bus, &bus->links[i].socket);
    for (uint32_t i = 0; looks && i < bus->n_listeners; i++)
        bus_audit_look(bus, &bus->listeners[i].socket);
    list_each_entry(link, &bus->waiting, struct bus_link, waiting) {
        bus_mark(bus, link_socket(bus, link));
    }
}
