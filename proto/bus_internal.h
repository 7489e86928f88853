/* proto/bus_internal.h: what the files of the bus share. Private to proto/.
 *
 * Each of these calls only those after it: bus.c runs the sockets and the events, bus_audit.c counts
 * what its tick finds, bus_monitor.c reads the sockets' monitors, bus_link.c has the links and their queues, bus_socket.c makes
 * sockets and knows which have something, bus_endpoint.c knows addresses, bus_zap.c lets keys in.
 *
 * Locks: none. The owner's thread does everything except bus_zap.c, whose thread shares one atomic
 * counter and a key that does not change. */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "base/net/address.h"
#include "proto/bus.h"
#include "proto/codec.h"
#include "proto/keys.h"

#include <pthread.h>
#include <stdatomic.h>
#include <zmq.h>

#define ROUTING_ID_BYTES 16
#define BAD_MESSAGES_MAX 3
#define TICK_MS          50

/* A ZeroMQ socket that the loop looks at. Its descriptor is edge-triggered, so a socket stays in
 * the ready list until a receive said EAGAIN, and every send puts it back (zmq_getsockopt(3)). */
struct bus_socket {
    enum { SOCKET_FREE, SOCKET_LISTENER, SOCKET_LINK, SOCKET_MONITOR } kind;
    void *zmq; /* owned */
    int fd;    /* libzmq's */
    struct list ready;
    bool is_unread;             /* sent on, and neither marked nor asked for messages since */
    bool is_unflushed;          /* read to its end, and what waits for it not tried since */
    struct bus_socket *watches; /* of a monitor */
    uint32_t index;             /* of the listener or link slot */
};

struct bus_listener {
    struct bus_socket socket;
    struct bus_socket monitor;
    struct map links; /* routing id -> slot */
    char endpoint[MESSAGE_ENDPOINT_MAX];
};

/* A message that waits: struct, head, raw. */
struct queued {
    struct list link;
    enum message_type type;
    struct request_id req; /* of RESERVE and SUBMIT */
    uint32_t attempt;
    uint32_t n_head;
    uint32_t n_raw;
    uint8_t bytes[];
};

struct queue {
    struct list items; /* of struct queued; owned */
    uint32_t n;
};

enum link_state {
    LINK_FREE,
    LINK_OPEN,
    LINK_ENDING, /* over: BUS_LOST once everything that came was taken */
    LINK_BANNED, /* its messages are dropped unread */
};

struct bus_link {
    enum link_state state;
    uint16_t generation;
    bool is_bound;
    bool is_shown;      /* the owner knows it */
    bool is_up;         /* connecting side: the handshake is done */
    bool is_broken_off; /* connecting side: somebody took the connection and gave it up */
    uint32_t listener;  /* UINT32_MAX: we connected it */
    uint8_t routing_id[ROUTING_ID_BYTES]; /* of the peer (bound) */
    struct bus_socket socket;             /* connecting side */
    struct bus_socket monitor;
    uint64_t connect_deadline_ns;
    uint64_t heard_ns;
    uint64_t seq;
    uint32_t n_bad;
    struct queue control;
    struct queue bulk;
    size_t queued_bytes;
    struct list waiting; /* in bus.waiting while anything is queued */
    struct list ending;  /* in bus.ending */
    const char *why;
    uint32_t next_free;
};

struct zap {
    pthread_t thread;
    bool is_running;
    void *zmq; /* owned by the thread once it runs */
    char client_public[KEY_TEXT_BYTES];
    atomic_uint_fast64_t n_refused;
};

struct bus {
    struct bus_config config;
    struct keys keys;
    bool has_keys;
    void *context; /* owned */
    struct zap zap;
    struct codec encoder;
    struct codec decoder;
    zmq_msg_t head; /* what the last message borrows */
    zmq_msg_t raw;
    struct message message;
    struct bus_listener listeners[BUS_LISTENERS_MAX];
    uint32_t n_listeners;
    struct bus_link *links; /* owned (max_links) */
    uint32_t first_free;
    uint32_t n_monitors; /* names of their endpoints */
    struct list ready;
    struct list waiting;
    struct list ending;
    int epoll_fd;
    int timer_fd;
    int kick_fd;
    bool is_kicked;
    bool uses_fd;
    bool is_dispatching;
    bool is_tick_due;
    uint32_t n_ticks;
    uint32_t n_since_gather;
    struct bus_stats stats;
};

/* bus_endpoint.c: STATUS_INVALID, STATUS_DENIED with the way out. For ipc:// binds the folder is
 * made, and a process that already listens there is found. */
NODISCARD enum status endpoint_check(const char *endpoint, bool has_keys, bool *needs_curve,
                                     struct error *error);
NODISCARD enum status endpoint_prepare_bind(const char *endpoint, struct error *error);
/* The endpoint as libzmq takes it, and whether ZMQ_IPV6 has to be on: IPv6 in brackets; to listen at
 * [::] as "*", which is IPv4 where the host has nothing else. */
#define ENDPOINT_ZMQ_MAX (6 + ADDRESS_TEXT_MAX)
bool endpoint_for_zmq(const char *endpoint, bool is_bind, char text[ENDPOINT_ZMQ_MAX]);
/* The path of an ipc:// endpoint, or NULL. */
const char *endpoint_path(const char *endpoint);

/* May the host of a tcp:// endpoint be the name of an interface, whether or not there is one now? */
bool endpoint_may_be_interface(const char *endpoint);

/* bus_zap.c */
NODISCARD enum status zap_start(struct zap *zap, void *context, const char *client_public);
void zap_join(struct zap *zap); /* after zmq_ctx_shutdown() */

/* bus_socket.c */
NODISCARD enum status socket_listen(struct bus *bus, struct bus_listener *listener, uint32_t index,
                                    const char *endpoint, struct error *error);
NODISCARD enum status socket_connect(struct bus *bus, struct bus_link *link, uint32_t index,
                                     const char *endpoint, struct error *error);
void socket_close(struct bus *bus, struct bus_socket *socket);
void bus_mark(struct bus *bus, struct bus_socket *socket); /* it may have something to read */
void bus_kick(struct bus *bus);                            /* makes bus_fd() readable */

/* bus_audit.c */
bool bus_has_work(const struct bus *bus); /* for bus_receive() */
/* Counts, in stats.n_missed_wakeups, work that no wake-up told of: the owner would sleep on it
 * until the next tick. Exact also while messages arrive: it reads only our own counts. */
void bus_audit(struct bus *bus);
/* Looks again at what can have been lost, without trust in the counts. */
void bus_repair(struct bus *bus);

/* bus_monitor.c */
void monitor_read(struct bus *bus, struct bus_socket *monitor);

/* bus_link.c */
uint32_t link_number(const struct bus *bus, const struct bus_link *link);
struct bus_link *link_find(const struct bus *bus, uint32_t number);
NODISCARD enum status link_take(struct bus *bus, struct bus_link **link);
/* The link of a peer's routing id, made when there is none. NULL: no room. */
struct bus_link *link_of_peer(struct bus *bus, uint32_t listener, const uint8_t *routing_id);
/* Its own, or the listener's that it came in by. */
struct bus_socket *link_socket(struct bus *bus, struct bus_link *link);
void link_drop(struct bus *bus, struct bus_link *link);
void link_end(struct bus *bus, struct bus_link *link, const char *why);
void link_ban(struct bus *bus, struct bus_link *link);
/* Sends what waits, as far as it goes. */
void link_flush(struct bus *bus, struct bus_link *link);
