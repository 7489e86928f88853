/* proto/bus.h: messages between processes, over ZeroMQ.
 *
 * A bus is a ZeroMQ context with its sockets. One thread owns it: all calls come from there. KV
 * links take a second bus (BUS_KV), so that bulk bytes never stand before control messages.
 *
 * Links are numbers. bus_connect() makes one, and each peer that connects to a bound endpoint
 * becomes one with its first valid message. A link is one connection: it ends when either side
 * closes it, when the connecting side loses the connection, when a send finds no listener, or after
 * three messages that do not decode; then BUS_LOST comes, once, and the number is not used again.
 * The bound side does not hear of a peer that goes away in silence: liveness is the caller's (PING,
 * BEAT). Nothing reconnects: a process that wants the peer again connects again, and is a new peer.
 *
 * A send that succeeds means "queued", never "arrived" (ZeroMQ can lose what it queued when a peer
 * dies). No send is dropped in silence by a full queue: STATUS_BUSY says it.
 *
 * ipc:///folder/name: the folder is made 0700 if it does not exist, the socket is 0600 under any
 * umask. tcp://host:port: between loopback addresses, or with keys (CURVE, RFC 26). A bus is made
 * after the last fork(). */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "proto/message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUS_NO_LINK       0u
#define BUS_LISTENERS_MAX 8
#define BUS_LINKS_MAX     32768

struct bus;
struct keys;

enum bus_kind {
    BUS_CONTROL, /* frames of at most MESSAGE_CONTROL_MAX */
    BUS_KV,      /* frames of at most MESSAGE_CHUNK_MAX; short queues */
};

struct bus_config {
    enum bus_kind kind;
    const struct keys *keys; /* copied; NULL: ipc and loopback only */
    uint32_t max_links;      /* 0: 1024 */
    uint32_t queue_bulk;     /* messages that wait per link when the peer reads slowly, beside what
                                libzmq holds; then STATUS_BUSY. 0: STATUS_BUSY at once */
    uint32_t queue_control;  /* the same for control messages, which go first. 0: 1024 */
    size_t queue_bytes;      /* of both, per link. 0: 16 MiB */
    uint32_t connect_ms;     /* a connect that takes longer is lost. 0: 3000 */
};

/* `error` names what was wrong with the configuration. */
NODISCARD enum status bus_new(const struct bus_config *config, struct bus **bus,
                              struct error *error);
void bus_free(struct bus *bus); /* drops what is queued; returns at once */

/* Whether bus_connect() takes the endpoint, with keys or without: STATUS_INVALID, STATUS_LIMIT,
 * STATUS_DENIED (bus_bind()), each with a line. Any thread. */
NODISCARD enum status bus_check(const char *endpoint, bool has_keys, struct error *error);

/* Listens. The port may be 0 or *: bus_endpoint() says which it became. STATUS_DENIED: not a
 * loopback address and no keys. STATUS_EXISTS: somebody listens there. */
NODISCARD enum status bus_bind(struct bus *bus, const char *endpoint, uint32_t *listener,
                               struct error *error);
const char *bus_endpoint(const struct bus *bus, uint32_t listener); /* borrowed */

/* Starts to connect and returns; messages may be sent at once. */
NODISCARD enum status bus_connect(struct bus *bus, const char *endpoint, uint32_t *link,
                                  struct error *error);

/* Closes and drops what is queued. No BUS_LOST follows. Fine on a link that is over. */
void bus_close(struct bus *bus, uint32_t link);

/* Stamps the link's next seq and sends, or queues behind what waits. CONTROL messages overtake
 * queued bulk (RESERVE, SUBMIT, STEP, DIGEST, FORGET, FAILED, CHUNK, COMMIT); one that does carries
 * seq 0, so that seq never falls on the wire. CANCEL takes back what is still queued of its request
 * up to its attempt. STATUS_BUSY: nothing was taken, try after the next event. STATUS_CLOSED: the
 * link is over (if it just ended, BUS_LOST follows). STATUS_LIMIT, STATUS_INVALID: codec.h. */
NODISCARD enum status bus_send(struct bus *bus, uint32_t link, const struct message *message);

/* The seq of the last message that bus_send() took on this link; 0: none, or no such link. */
uint64_t bus_seq(const struct bus *bus, uint32_t link);

/* Why a link that never came up was lost. The first two: somebody listens there, but with other
 * keys, or with keys where we have none, or the reverse. */
#define BUS_WHY_HANDSHAKE  "handshake failed"
#define BUS_WHY_BROKEN_OFF "connection broken off before the handshake"
#define BUS_WHY_NOBODY     "no connection in time"

/* Has this link, which we connected, finished its handshake? */
bool bus_is_up(const struct bus *bus, uint32_t link);

enum bus_event_kind { BUS_MESSAGE, BUS_LOST };

struct bus_event {
    enum bus_event_kind kind;
    uint32_t link;
    uint32_t listener;             /* the one it came in by; UINT32_MAX: a link we connected */
    const char *why;               /* BUS_LOST: constant text */
    const struct message *message; /* BUS_MESSAGE: borrowed until the next event is taken */
};

/* The next event. STATUS_BUSY: nothing now. */
NODISCARD enum status bus_receive(struct bus *bus, struct bus_event *event);

/* For a thread without an event loop: waits until bus_receive() is worth a call, at most
 * `timeout_ns` (STATUS_TIMEOUT). */
NODISCARD enum status bus_wait(struct bus *bus, uint64_t timeout_ns);

/* For an event loop: a descriptor that is readable (level-triggered) whenever bus_dispatch() has
 * something to do. Its timers are inside. */
int bus_fd(struct bus *bus);

/* Hands at most `budget` events to the function, which may send, connect and close, and after the
 * first no more once it is until_ns (0: without a limit). Answers how many. Stopping early leaves
 * the descriptor readable. */
uint32_t bus_dispatch(struct bus *bus, uint32_t budget, uint64_t until_ns,
                      void (*handle)(void *context, const struct bus_event *event), void *context);

struct bus_stats {
    uint64_t n_sent, n_received; /* messages */
    uint64_t n_bad;              /* messages that did not decode */
    uint64_t n_banned;           /* links ended for that */
    uint64_t n_handshake_failed; /* no, wrong or broken greeting: raw bytes, another key */
    uint64_t n_key_refused;      /* a client key that is not the cluster's */
    uint64_t n_unanswered;       /* messages dropped: no room for another link */
    uint64_t n_missed_wakeups;   /* work that only the tick of 50 ms found. Must stay 0 */
    uint32_t n_links;
    uint32_t n_queued; /* messages that wait in our own queues */
};
void bus_stats(const struct bus *bus, struct bus_stats *stats);
