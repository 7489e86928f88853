/* Links: their numbers, their queues, and what is sent on them. */
#include "proto/bus_internal.h"

#include "base/clock.h"
#include "proto/field.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NO_SLOT         UINT32_MAX
#define EVICT_SILENT_NS (60 * NS_PER_S)

uint32_t link_number(const struct bus *bus, const struct bus_link *link) {
    return (uint32_t)link->generation << 16 | (uint32_t)(link - bus->links);
}

struct bus_link *link_find(const struct bus *bus, uint32_t number) {
    uint32_t slot = number & 0xffff;
    if (slot >= bus->config.max_links)
        return NULL;
    struct bus_link *link = &bus->links[slot];
    return link->state != LINK_FREE && link->generation == number >> 16 ? link : NULL;
}

/* A full table gives up the bound link that has been silent the longest, if that is long. */
static void bus_link_evict(struct bus *bus) {
    struct bus_link *oldest = NULL;
    for (uint32_t i = 0; i < bus->config.max_links; i++) {
        struct bus_link *link = &bus->links[i];
        bool may_go = link->state == LINK_BANNED || (link->state == LINK_OPEN && link->is_bound);
        if (may_go && (!oldest || link->heard_ns < oldest->heard_ns))
            oldest = link;
    }
    if (!oldest || clock_now_ns() - oldest->heard_ns < EVICT_SILENT_NS)
        return;
    if (oldest->state == LINK_BANNED)
        link_drop(bus, oldest);
    else
        link_end(bus, oldest, "silent for too long");
}

enum status link_take(struct bus *bus, struct bus_link **link) {
    if (bus->first_free == NO_SLOT)
        bus_link_evict(bus);
    if (bus->first_free == NO_SLOT)
        return STATUS_LIMIT;
    struct bus_link *taken = &bus->links[bus->first_free];
    bus->first_free = taken->next_free;
    uint16_t generation = (uint16_t)(taken->generation + 1);
    *taken = (struct bus_link){.state = LINK_OPEN,
                               .generation = generation ? generation : 1,
                               .listener = UINT32_MAX,
                               .heard_ns = clock_now_ns()};
    taken->socket.fd = -1;
    taken->monitor.fd = -1;
    list_init(&taken->waiting);
    list_init(&taken->ending);
    list_init(&taken->control.items);
    list_init(&taken->bulk.items);
    bus->stats.n_links++;
    *link = taken;
    return STATUS_OK;
}

static struct map_key bus_link_key_of(const uint8_t *routing_id) {
    struct map_key key;
    memcpy(&key, routing_id, sizeof key);
    return key;
}

struct bus_link *link_of_peer(struct bus *bus, uint32_t listener, const uint8_t *routing_id) {
    struct map *map = &bus->listeners[listener].links;
    uint32_t slot;
    struct bus_link *link;
    if (map_get(map, bus_link_key_of(routing_id), &slot) == STATUS_OK)
        return &bus->links[slot];
    if (link_take(bus, &link) != STATUS_OK)
        return NULL;
    link->is_bound = true;
    link->listener = listener;
    memcpy(link->routing_id, routing_id, ROUTING_ID_BYTES);
    if (map_put(map, bus_link_key_of(routing_id), (uint32_t)(link - bus->links)) != STATUS_OK) {
        link_drop(bus, link);
        return NULL;
    }
    return link;
}

struct bus_socket *link_socket(struct bus *bus, struct bus_link *link) {
    return link->is_bound ? &bus->listeners[link->listener].socket : &link->socket;
}

static void bus_link_pop(struct bus *bus, struct bus_link *link, struct queue *queue,
                         struct queued *item) {
    list_remove(&item->link);
    queue->n--;
    link->queued_bytes -= sizeof *item + item->n_head + item->n_raw;
    bus->stats.n_queued--;
    free(item);
}

static void bus_link_drop_queues(struct bus *bus, struct bus_link *link) {
    list_each_entry(item, &link->control.items, struct queued, link) {
        bus_link_pop(bus, link, &link->control, item);
    }
    list_each_entry(item, &link->bulk.items, struct queued, link) {
        bus_link_pop(bus, link, &link->bulk, item);
    }
    list_remove(&link->waiting);
}

void link_drop(struct bus *bus, struct bus_link *link) {
    bus_link_drop_queues(bus, link);
    list_remove(&link->ending);
    if (link->is_bound)
        map_remove(&bus->listeners[link->listener].links, bus_link_key_of(link->routing_id));
    socket_close(bus, &link->socket);
    socket_close(bus, &link->monitor);
    link->state = LINK_FREE;
    link->next_free = bus->first_free;
    bus->first_free = (uint32_t)(link - bus->links);
    bus->stats.n_links--;
}

void link_end(struct bus *bus, struct bus_link *link, const char *why) {
    if (link->state != LINK_OPEN)
        return;
    bus_link_drop_queues(bus, link);
    link->state = LINK_ENDING;
    link->why = why;
    link->connect_deadline_ns = clock_now_ns() + TICK_MS * NS_PER_MS;
    list_push_back(&bus->ending, &link->ending);
    /* What came before the loss is still to be read. */
    if (!link->is_bound)
        bus_mark(bus, &link->socket);
    else if (!bus->is_dispatching)
        bus_kick(bus);
}

void link_ban(struct bus *bus, struct bus_link *link) {
    bus->stats.n_banned++;
    bus_link_drop_queues(bus, link);
    if (link->is_bound && !link->is_shown) {
        link->state = LINK_BANNED;
        return;
    }
    link_end(bus, link, "messages that do not decode");
}

static enum status bus_link_send_part(void *zmq, const void *bytes, size_t n, int flags) {
    while (zmq_send(zmq, bytes, n, flags | ZMQ_DONTWAIT) < 0) {
        int number = zmq_errno();
        if (number == EINTR)
            continue;
        return number == EAGAIN ? STATUS_BUSY : STATUS_CLOSED;
    }
    return STATUS_OK;
}

/* Whole, or not at all: libzmq refuses with the first part. */
static enum status bus_link_send_parts(struct bus_socket *socket, const struct bus_link *link,
                                       const struct frames *frames) {
    socket->is_unread = true;
    if (link->is_bound)
        TRY(bus_link_send_part(socket->zmq, link->routing_id, ROUTING_ID_BYTES, ZMQ_SNDMORE));
    TRY(bus_link_send_part(socket->zmq, frames->head, frames->n_head,
                           frames->n_raw > 0 ? ZMQ_SNDMORE : 0));
    if (frames->n_raw > 0)
        TRY(bus_link_send_part(socket->zmq, frames->raw, frames->n_raw, 0));
    return STATUS_OK;
}

/* A send that found no room. To mark the socket would wake its owner, who would find no room again,
 * and so on; so libzmq is asked, once, whether a message came. */
static void bus_link_ask_for_messages(struct bus *bus, struct bus_socket *socket) {
    int events = 0;
    size_t n = sizeof events;
    if (zmq_getsockopt(socket->zmq, ZMQ_EVENTS, &events, &n) == 0 && (events & ZMQ_POLLIN))
        bus_mark(bus, socket);
    socket->is_unread = false;
}

/* Sending handles libzmq's commands, whether it finds room or not, and so can eat the wake-up of a
 * message that came. */
static enum status bus_link_transmit(struct bus *bus, struct bus_link *link,
                                     const struct frames *frames) {
    struct bus_socket *socket = link_socket(bus, link);
    enum status status = bus_link_send_parts(socket, link, frames);
    if (status == STATUS_BUSY) {
        bus_link_ask_for_messages(bus, socket);
        /* The question handles commands too: room that came meanwhile is told by nothing else. */
        status = bus_link_send_parts(socket, link, frames);
    }
    if (status == STATUS_BUSY) {
        socket->is_unread = false; /* libzmq's sends handle commands once a millisecond */
        return STATUS_BUSY;
    }
    bus->stats.n_sent += status == STATUS_OK;
    bus_mark(bus, socket);
    return status;
}

static enum status bus_link_enqueue(struct bus *bus, struct bus_link *link, struct queue *queue,
                                    uint32_t n_max, const struct message *message,
                                    const struct frames *frames) {
    size_t n = sizeof(struct queued) + frames->n_head + frames->n_raw;
    if (queue->n >= n_max || n > bus->config.queue_bytes - link->queued_bytes)
        return STATUS_BUSY;
    struct queued *item = malloc(n);
    if (!item)
        return STATUS_BUSY;
    *item = (struct queued){.type = message->type,
                            .n_head = (uint32_t)frames->n_head,
                            .n_raw = (uint32_t)frames->n_raw};
    if (message->type == MESSAGE_SUBMIT) {
        item->req = message->u.submit.req;
        item->attempt = message->u.submit.attempt;
    } else if (message->type == MESSAGE_RESERVE) {
        item->req = message->u.reserve.req;
        item->attempt = message->u.reserve.attempt;
    }
    memcpy(item->bytes, frames->head, frames->n_head);
    if (frames->n_raw > 0)
        memcpy(item->bytes + frames->n_head, frames->raw, frames->n_raw);
    list_push_back(&queue->items, &item->link);
    queue->n++;
    link->queued_bytes += n;
    bus->stats.n_queued++;
    if (list_empty(&link->waiting))
        list_push_back(&bus->waiting, &link->waiting);
    return STATUS_OK;
}

/* A request that is cancelled need not go out first. */
static void bus_link_take_back(struct bus *bus, struct bus_link *link,
                               const struct cancel *cancel) {
    list_each_entry(item, &link->bulk.items, struct queued, link) {
        bool opens = item->type == MESSAGE_SUBMIT || item->type == MESSAGE_RESERVE;
        if (opens && request_id_equal(item->req, cancel->req) && item->attempt <= cancel->attempt)
            bus_link_pop(bus, link, &link->bulk, item);
    }
}

static enum status bus_link_flush_queue(struct bus *bus, struct bus_link *link,
                                        struct queue *queue) {
    list_each_entry(item, &queue->items, struct queued, link) {
        struct frames frames = {.head = item->bytes,
                                .n_head = item->n_head,
                                .raw = item->n_raw > 0 ? item->bytes + item->n_head : NULL,
                                .n_raw = item->n_raw};
        TRY(bus_link_transmit(bus, link, &frames));
        bus_link_pop(bus, link, queue, item);
    }
    return STATUS_OK;
}

void link_flush(struct bus *bus, struct bus_link *link) {
    enum status status = bus_link_flush_queue(bus, link, &link->control);
    if (status == STATUS_OK)
        status = bus_link_flush_queue(bus, link, &link->bulk);
    if (status == STATUS_OK)
        list_remove(&link->waiting);
    else if (status == STATUS_CLOSED)
        link_end(bus, link, "no process listens there");
}

enum status bus_send(struct bus *bus, uint32_t number, const struct message *message) {
    struct bus_link *link = link_find(bus, number);
    if (!link || link->state != LINK_OPEN)
        return STATUS_CLOSED;
    struct frames frames;
    TRY(codec_encode(&bus->encoder, message, &frames));
    if (message->type == MESSAGE_CANCEL)
        bus_link_take_back(bus, link, &message->u.cancel);
    bool bulk = message_is_bulk(message->type);
    bool overtakes = !bulk && link->bulk.n > 0;
    codec_stamp(bus->encoder.buffer, overtakes ? 0 : link->seq + 1);

    bool is_first = link->control.n == 0 && (!bulk || link->bulk.n == 0);
    enum status status = STATUS_BUSY;
    if (is_first)
        status = bus_link_transmit(bus, link, &frames);
    if (status == STATUS_BUSY && bulk)
        status = bus_link_enqueue(bus, link, &link->bulk, bus->config.queue_bulk, message, &frames);
    else if (status == STATUS_BUSY)
        status = bus_link_enqueue(bus, link, &link->control, bus->config.queue_control, message,
                                  &frames);
    if (status == STATUS_CLOSED)
        link_end(bus, link, "no process listens there");
    if (status == STATUS_OK)
        link->seq++;
    return status;
}

bool bus_is_up(const struct bus *bus, uint32_t number) {
    const struct bus_link *link = link_find(bus, number);
    return link && link->state == LINK_OPEN && link->is_up;
}

uint64_t bus_seq(const struct bus *bus, uint32_t number) {
    const struct bus_link *link = link_find(bus, number);
    return link ? link->seq : 0;
}
