/* router/core/note.h: what the router's core tells the log of its workers and requests. */
#pragma once

#include "base/log/note.h"

#include <stdint.h>

struct request;
struct router;
struct slot;

enum router_note {
    NOTE_JOINED,
    NOTE_REFUSED,
    NOTE_NAME_CONTESTED,
    NOTE_LOST,
    NOTE_LEFT,
    NOTE_FORGOTTEN,
    NOTE_NO_SLOT,
    NOTE_ODD_MESSAGE,
    NOTE_REQUEST_MISSING,
    NOTE_REQUEST_STILL,
    NOTE_NO_VERDICT,
    NOTE_NO_LOGPROBS,
    NOTE_INEXACT,
    NOTE_ALONE,
    NOTE_ASIDE,
    NOTE_TRUSTED,
    NOTE_PAIR_FAILED,
    NOTE_CUT_OFF,
    NOTE_POISONED,
    NOTE_WAITS,
    NOTE_PLACED,
    NOTE_SUBMITTED,
    NOTE_REPLACED,
    ROUTER_NOTES
};

/* About all workers of a name. `reason` is a constant or NULL. */
void note_name(const struct router *router, enum router_note kind, const char *name,
               const char *reason, uint64_t value, uint64_t more);

/* About a worker. */
void note_worker(const struct router *router, enum router_note kind, const struct slot *slot,
                 const char *reason, uint64_t value, uint64_t more);

/* About the hand-overs from one worker to another. */
void note_pair(const struct router *router, const struct slot *prefill, const struct slot *decode,
               const char *reason, uint64_t for_ms);

/* About a request at this worker; `slot` NULL: at none. */
void note_request(const struct router *router, enum router_note kind, const struct request *req,
                  const struct slot *slot);

/* What was decided of a request, and why; `name` is a worker's, or NULL. */
void note_decision(const struct router *router, enum router_note kind, const struct request *req,
                   const char *name, const char *reason, uint64_t value, uint64_t more);

/* It waits for a worker, for a reason that was another one before, or none. */
void note_waits(const struct router *router, struct request *req, const char *reason);
