/* What a socket's monitor tells: handshakes and connections that end. */
#include "proto/bus_internal.h"

#include <string.h>

/* One monitor event: a frame (event u16, value u32) and a frame with the address. */
static bool bus_monitor_next_event(void *zmq, uint16_t *event) {
    uint8_t frame[6];
    int n = zmq_recv(zmq, frame, sizeof frame, ZMQ_DONTWAIT);
    if (n < 0)
        return false;
    *event = 0;
    if (n == (int)sizeof frame)
        memcpy(event, frame, sizeof *event);
    zmq_recv(zmq, frame, sizeof frame, ZMQ_DONTWAIT);
    return true;
}

static void bus_monitor_link_event(struct bus *bus, struct bus_link *link, uint16_t event) {
    switch (event) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        link->is_up = true;
        break;
    case ZMQ_EVENT_DISCONNECTED:
        /* Before the handshake this is only a try that failed; the deadline ends those. */
        link->is_broken_off = true;
        if (link->is_up)
            link_end(bus, link, "connection lost");
        break;
    default:
        bus->stats.n_handshake_failed++;
        link_end(bus, link, BUS_WHY_HANDSHAKE);
    }
}

void monitor_read(struct bus *bus, struct bus_socket *monitor) {
    struct bus_socket *watched = monitor->watches;
    uint16_t event;
    while (monitor->kind == SOCKET_MONITOR && bus_monitor_next_event(monitor->zmq, &event)) {
        if (watched->kind == SOCKET_LISTENER)
            bus->stats.n_handshake_failed++;
        else if (watched->kind == SOCKET_LINK)
            bus_monitor_link_event(bus, &bus->links[watched->index], event);
    }
    if (monitor->kind == SOCKET_MONITOR)
        list_remove(&monitor->ready);
}
