/* router/core/slot.h: what the router knows of a worker: its slot, its session, its share of the
 * work.
 *
 * A slot represents one (name, incarnation) and the link to it. A session begins with HELLO and
 * ends with fencing or a lost link; what a worker says under another session is dropped and
 * counted. Fencing ends this router's session only: the worker comes back with the next WELCOME.
 *
 *   FREE -> OPENING (announced: link opened, HELLO sent) -> READY -> DRAINING (it said so)
 *   READY, DRAINING -> SUSPECT (fenced: a new HELLO is under way on the same link) -> READY
 *   OPENING, SUSPECT -> REFUSED (refuse.h: another protocol, model, tokenizer, name; it is told)
 *   OPENING, SUSPECT -> RIVAL (rival.h: another worker has its name) -> READY or REFUSED
 *   LOADING (announced, its model is being read: no link yet) -> OPENING
 *   any -> FREE (link lost, no longer announced, superseded by its next incarnation) */
#pragma once

#include "base/assert.h"
#include "base/list.h"
#include "proto/message.h"
#include "router/core/marks.h"
#include "router/core/router.h"

#include <stdbool.h>
#include <stdint.h>

#define SLOT_NONE    UINT32_MAX
#define SLOT_FORGETS 128

/* What became of an attempt (replay.h). */
enum loss {
    LOSS_NONE,
    LOSS_DIED,   /* the worker died or was fenced */
    LOSS_FAILED, /* the worker lives, the attempt does not */
    LOSS_MOVED,  /* not a fault: no room, draining, making way */
};

struct slot {
    uint32_t number;
    enum slot_state state;
    enum refusal refusal; /* why it is not served: REFUSED or RIVAL; else of its last time */
    bool linked;          /* the shell has a link for it */
    struct announce announce;
    struct welcome welcome; /* once it came */
    struct load load;
    uint64_t session;
    uint64_t n_sent; /* on this link: the seq of the last message */
    uint64_t hello_ns;
    uint64_t since_ns; /* its first announcement */
    uint64_t announced_ns;
    uint64_t contested_ns; /* while RIVAL: since when */
    uint64_t asked_own_ns; /* the same in the router's own time */
    uint64_t heard_ns;
    uint64_t progress_own_ns; /* when load.progress last rose, in the router's own time */
    uint64_t moved_own_ns;    /* the same, but a new session is no progress; 0: not yet */
    uint64_t silent_own_ns;   /* its silences before, beyond what counts of each, in the same */
    uint64_t busy_until_ns;   /* it had no room a moment ago: not asked before this */
    uint64_t busy_ns;         /* how long it is left alone, doubling; 0: it has room */
    uint64_t drain_until_ns;  /* its streams are moved then; 0: it ends them itself */
    bool probing;             /* it refused, and one request asks again on behalf of all */
    struct list prefills;     /* parts of requests: prefill side of a hand-off */
    struct list decodes;      /* decode side, or both */
    struct list lost;    /* in fleet.lost: its attempts are lost, and replayed at the event's end */
    enum loss loss;      /* how, while it is there */
    struct trust *trust; /* of fleet.trusts: its name's; NULL: the slot was never used */
    struct pair pairs[PAIRS_MAX]; /* partners whose hand-overs failed */
    uint32_t n_pairs;
    bool is_cut_off; /* when a pair of it failed last: it had no partner left */
    uint32_t n_assigned;
    uint32_t n_unreflected;      /* parts that its load figures do not count yet */
    uint64_t tokens_unreflected; /* and their prompt tokens to be computed */
    uint32_t n_forgets;
    struct attempt_id forgets[SLOT_FORGETS]; /* to go out with this event */
};

struct fleet {
    struct slot *slots;   /* owned (n_slots) */
    struct trust *trusts; /* owned (n_slots): of each name, what it did */
    uint32_t n_slots;
    uint32_t n_seen; /* slots from here on were never used */
    uint32_t n_ready;
    uint64_t no_worker_since_ns; /* meaningful while n_ready == 0 */
    uint64_t no_slot_noted_ns;   /* 0: never */
    struct list lost; /* slots whose attempts are to be replayed, in the order of their losses */
    bool peers_changed;
    bool forgets_due;
    struct peer peers[MESSAGE_PEERS_MAX]; /* scratch of a PEERS message */
};

/* Every slot that was ever used. */
#define fleet_each(item, fleet)                                                                    \
    for (struct slot *item = (fleet)->slots; item < (fleet)->slots + (fleet)->n_seen; item++)

static inline struct slot *fleet_slot(struct fleet *fleet, uint32_t number) {
    ASSERT(number < fleet->n_slots);
    return &fleet->slots[number];
}

static inline bool slot_in_session(const struct slot *slot) {
    return slot->state == SLOT_READY || slot->state == SLOT_DRAINING;
}
