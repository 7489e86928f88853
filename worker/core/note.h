/* worker/core/note.h: what the worker's core tells the log: of its links, and at debug what it
 * decides about each request, with the reason. */
#pragma once

#include "base/log/note.h"
#include "proto/message.h"

struct engine;
struct peer_link;
struct sequence;

enum engine_note {
    NOTE_SESSION_OVER,    /* with a router that did not end it: its requests are dropped */
    NOTE_ROUTER_LEFT,     /* the same with nothing to drop: it ended, as one does that is stopped */
    NOTE_SESSION_REFUSED, /* a router gives this worker nothing */
    NOTE_PEER_DROPPED,    /* a KV link is given up */

    /* A request's way, in this order; the values in parentheses. */
    NOTE_RESERVED,        /* blocks wait for its KV (tokens, cached_tokens) */
    NOTE_RESERVE_REFUSED, /* (tokens) */
    NOTE_SUBMITTED,       /* with its phase (prompt_tokens, tokens) */
    NOTE_SUBMIT_REFUSED,  /* with its phase (prompt_tokens, tokens) */
    NOTE_BLOCKED,         /* it is the next to run and does not fit (blocks_missing) */
    NOTE_SCHEDULED,       /* in a step for the first time (waited_us, cached_tokens) */
    NOTE_PREEMPTED,       /* for another or itself (blocks_missing) */
    NOTE_NOT_AHEAD,       /* for its sake the next step waits for this one's results (rows) */
    NOTE_FIRST_TOKEN,     /* sampled here (index, after_us of Submit) */
    NOTE_HANDED_OVER,     /* the transfer is committed (tokens, transfer_us) */
    NOTE_TRANSFER_ENDED,  /* otherwise (tokens, transfer_us) */
    NOTE_ENDED,           /* with its finish, `none`: the other worker goes on (tokens of output) */
    NOTE_GIVEN_UP,        /* before its end (tokens of output) */
    NOTE_FORGOTTEN,       /* after its end (tokens of output) */
    ENGINE_NOTES
};

/* About the link's other end. `reason` is a constant. */
void note_peer_link(const struct engine *engine, enum engine_note kind,
                    const struct peer_link *peer_link, const char *reason);

/* About a sequence; hand-offs name the other worker, the rest its router. `reason` is a constant
 * or NULL. */
void note_sequence(const struct engine *engine, enum engine_note kind,
                   const struct sequence *sequence, const char *reason, uint64_t value,
                   uint64_t more);

/* A sequence loses its blocks to `other`, which may be itself. */
void note_preempted(const struct engine *engine, const struct sequence *sequence,
                    const struct sequence *other, const char *reason, uint32_t blocks_missing);

/* This worker takes no such RESERVE or SUBMIT. */
void note_reserve_refused(const struct engine *engine, const struct peer_link *router,
                          const struct reserve *reserve, enum reason reason);
void note_submit_refused(const struct engine *engine, const struct peer_link *router,
                         const struct submit *submit, enum reason reason);
