/* tests/sim/judge.h: is everything as it must be? Judges know the true time and may look inside the
 * cores; they never change anything. */
#pragma once

#include "tests/sim/sim.h"

/* judge.c: ledgers */
void judge_node(struct sim *sim, uint32_t node);
void judge_quiet(struct sim *sim);                        /* after quiet everything is zero */
void judge_router_over(struct sim *sim, uint32_t router); /* its figures, before it is gone */

/* judge_worker.c: who runs, who waits, who is preempted. Calls engine_plan() for the node. */
void judge_plan(struct sim *sim, uint32_t node);
void judge_worker_says(struct sim *sim, uint32_t node, const struct message *message);
struct judge_eye {
    uint32_t n_reserved; /* blocks before the message */
    uint64_t n_in;       /* hand-offs received */
    uint32_t n_chunks;   /* of the hand-off that a CHUNK speaks of */
    bool asks;           /* a RESEND for tokens that this worker has */
};
struct judge_eye judge_worker_before(struct sim *sim, uint32_t node, const struct message *message);
void judge_worker_after(struct sim *sim, uint32_t node, const struct conn *conn,
                        const struct message *message, const struct judge_eye *eye);

/* judge_router.c: where requests go, and which workers are given up */
void judge_router_sends(struct sim *sim, uint32_t router, uint32_t slot,
                        const struct message *message);
void judge_router_closes(struct sim *sim, uint32_t router, uint32_t slot); /* its link */
void judge_router_hears(struct sim *sim, uint32_t router, const struct message *message);
void judge_router_after(struct sim *sim, uint32_t router); /* every event */

/* judge_error.c: who may be told no */
void judge_turned_away(struct sim *sim, const struct client *client, enum status status);
void judge_error(struct sim *sim, const struct client *client, const struct request_end *end);
