/* tests/sim/sick.h: runs in which one worker of at least three is sick from its start, and nothing
 * else is wrong.
 *
 * What it does wrong stands between its core and its links, so that the cores of all others, and
 * the routers', are the daemons' own. Two workers at least are healthy, of equal size, and could
 * serve every request: so none may end in an error for a worker's sake, not even the first one of a
 * kind that nobody knows of yet, and none may stand at the sick worker for longer than
 * SICK_STILL_NS without a token. */
#pragma once

#include "base/clock.h"
#include "proto/message.h"

#include <stdbool.h>
#include <stdint.h>

#define SICK_PERCENT  18             /* of the runs with faults, which are 85 of 100 */
#define SICK_STILL_NS (5 * NS_PER_S) /* a hang: patience of 3 s, a digest's second, and messages */

enum sick {
    SICK_NONE,
    SICK_NUMERICS,    /* the model's numbers are unusable there */
    SICK_TRANSFER,    /* each request fails there for a broken transfer */
    SICK_HUNG,        /* it beats without progress, and answers nothing */
    SICK_STUCK,       /* the same with progress */
    SICK_QUEUED,      /* the same, and lists what it got as queued */
    SICK_SLOW,        /* its steps take up to 200 times as long as it says */
    SICK_IDS,         /* it answers with token ids beyond the vocabulary */
    SICK_STEPS,       /* it hangs, and announces a step of more than an hour */
    SICK_UNREACHABLE, /* no KV reaches it; whole requests are answered right */
    SICK_ANNOUNCED,   /* it hangs, and announces the longest step but for a tenth of a second */
    SICK_FIGURES,     /* it works, and counts more blocks than it has */
    SICK_LENGTHS,     /* it answers with one token more than was asked for */
    SICK_INVALID,     /* it refuses each request as invalid */
    SICK_KINDS
};

struct sim;

/* With the other options, from draws of its own. */
void sick_draw(struct sim *sim);

/* Is this worker sick now, in this way? */
bool sick_is(const struct sim *sim, uint32_t node, enum sick kind);

/* A SUBMIT reaches it: true where its core shall not see it. */
bool sick_takes(struct sim *sim, uint32_t node, uint32_t conn, const struct message *message);

/* What it says, changed. */
void sick_says(const struct sim *sim, uint32_t node, struct message *message);

/* From here on it is well, and begins anew. */
void sick_heal(struct sim *sim);

/* After each event of a router: nobody stands there for too long, and it is found out. */
void sick_judge(struct sim *sim, uint32_t router);

/* A SUBMIT goes to this worker. */
void sick_submitted(struct sim *sim, uint32_t router, uint32_t to, enum phase phase);
