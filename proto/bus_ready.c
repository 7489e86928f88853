/* Which sockets have something to read, and how the owner's loop hears of it. */
#include "proto/bus_internal.h"

#include <unistd.h>

void bus_kick(struct bus *bus) {
    uint64_t one = 1;
    if (bus->is_kicked || !bus->uses_fd)
        return;
    bus->is_kicked = write(bus->kick_fd, &one, sizeof one) == (ssize_t)sizeof one;
}

void bus_mark(struct bus *bus, struct bus_socket *socket) {
    if (list_empty(&socket->ready))
        list_push_back(&bus->ready, &socket->ready);
    if (!bus->is_dispatching)
        bus_kick(bus);
}
