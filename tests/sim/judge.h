/* tests/sim/judge.h: is everything as it must be? Judges know the true time and may look inside the
 * cores; they never change anything. */
#pragma once

#include "tests/sim/sim.h"

struct request;
struct slot;

/* judge.c: ledgers */
void judge_node(struct sim *sim, uint32_t node);
void judge_quiet(struct sim *sim);                        /* after quiet everything is zero */
void judge_router_over(struct sim *sim, uint32_t router); /* its figures, before it is gone */

/* judge_worker.c: who runs, who waits, who is preempted. Calls engine_plan() for the node. */
void judge_plan(struct sim *sim, uint32_t node);
/* judge_tenants.c: which sequence is let in next, or NULL; whether none of its tenant's runs; whether
 * one of another tenant's makes way for it then. And what holds after every plan. */
const struct sequence *tenant_next(const struct engine *engine);
bool tenant_is_late(const struct engine *engine, const struct sequence *sequence);
bool tenant_makes_way(const struct engine *engine, const struct sequence *late);
void tenant_planned(struct sim *sim, uint32_t node);
/* How many requests of its tenant have a worker; whether there is a place for this one; and what holds
 * when it gets it. */
uint32_t tenant_n_placed(const struct router *router, const struct request *req);
/* A worker's places without those that are kept: a quarter, 32 at most, are for tenants that have none. */
uint32_t tenant_n_places(const struct slot *slot);
bool tenant_has_place(const struct router *router, const struct slot *slot,
                      const struct request *req);
void tenant_placed(struct sim *sim, const struct router *router, const struct slot *slot,
                   const struct request *req);
/* judge_ahead.c: calls engine_repeat() for the node: is it the same plan, or is there a reason? */
enum repeat judge_repeat(struct sim *sim, uint32_t node, struct plan *plan);
/* Around engine_step_end(): what was computed for nobody. */
void judge_late(struct sim *sim, uint32_t node, uint64_t n_dropped);
void judge_worker_says(struct sim *sim, uint32_t node, const struct message *message);
struct judge_eye {
    uint32_t n_reserved; /* blocks before the message */
    uint64_t n_in;       /* hand-offs received */
    uint32_t n_chunks;   /* of the hand-off that a CHUNK speaks of */
    bool asks;           /* a RESEND for tokens that this worker has */
};
struct judge_eye judge_worker_before(struct sim *sim, uint32_t node, const struct message *message);
void judge_worker_after(struct sim *sim, uint32_t node, const struct wire *wire,
                        const struct message *message, const struct judge_eye *eye);

/* judge_router.c: where requests go, and which workers are given up */
void judge_router_sends(struct sim *sim, uint32_t router, uint32_t slot,
                        const struct message *message);
void judge_router_closes(struct sim *sim, uint32_t router, uint32_t slot); /* its link */
void judge_router_hears(struct sim *sim, uint32_t router, const struct message *message);
void judge_router_after(struct sim *sim, uint32_t router); /* every event */
void judge_router_paused(struct sim *sim, uint32_t router, uint64_t ns);

/* judge_replay.c: losses, rests, who runs alone, whose tokens count, deadlines */
struct note;
void judge_replaced(struct sim *sim, uint32_t router, const struct note *note);
void judge_replacement(struct sim *sim, const struct client *client, uint32_t slot);
void judge_alone(struct sim *sim, uint32_t router);
void judge_tokens(struct sim *sim, const struct client *client, const struct token_run *run);
void judge_in_time(struct sim *sim, const struct client *client); /* when it ends */

/* judge_session.c: around a message to a router, and after each of its events */
struct judge_ear {
    uint64_t n_stale; /* before the message */
    bool foreign;     /* it is of another session */
    bool drains;      /* it says so of a worker, about an attempt that is there */
};
struct judge_ear judge_session_before(struct sim *sim, uint32_t router, uint32_t slot,
                                      const struct message *message);
void judge_session_after(struct sim *sim, uint32_t router, uint32_t slot,
                         const struct judge_ear *ear);
void judge_peers_told(struct sim *sim, uint32_t router, uint32_t slot, const struct peers *peers);
void judge_fleet(struct sim *sim, uint32_t router);
/* and to a worker */
bool judge_is_hello(const struct engine *engine, uint32_t link, const struct message *message);
void judge_greeted(struct sim *sim, uint32_t node, uint64_t router_id);
void judge_ends(struct sim *sim, uint32_t node, uint32_t link, const struct message *message);
void judge_risen(struct sim *sim, uint32_t node, const struct message *message);

/* judge_time.c: how long a request waits that is alone in a calm cluster, and who is left out of
 * plans */
void time_asked(struct sim *sim, const struct client *client);
void time_refused(struct sim *sim);
void time_sent(struct sim *sim, uint64_t delay_ns, bool kv);
void time_stepped(struct sim *sim, uint64_t ns);
void time_tokens(struct sim *sim, const struct client *client);
void time_planned(struct sim *sim, uint32_t node);
void time_repeated(struct sim *sim, uint32_t node, const struct plan *plan); /* a step ahead */

/* judge_calm.c: in a run without faults nothing is found late, or done again */
void calm_begin(struct sim *sim); /* after options_draw() */
void calm_fini(struct sim *sim);
void calm_reads(struct sim *sim, uint32_t node, enum message_type type); /* MESSAGE_NONE: no more */
void calm_ticks(struct sim *sim, uint32_t node, bool begins);
void calm_router_sends(struct sim *sim, uint32_t router, uint32_t slot,
                       const struct message *message);
void calm_router_after(struct sim *sim, uint32_t router);
void calm_ended(struct sim *sim, uint32_t router); /* one of its requests */
void calm_worker_says(struct sim *sim, uint32_t node, const struct message *message);
void calm_reminded(struct sim *sim, uint32_t node); /* a ring's room came with a try */
void calm_worker_opens(struct sim *sim, uint32_t node, const char *what); /* or pushes */
void calm_worker_after(struct sim *sim, uint32_t node);
void calm_busy(struct sim *sim, uint32_t node); /* what it sends has no room */

/* judge_error.c: who may be told no */
void judge_turned_away(struct sim *sim, const struct client *client, enum status status);
void judge_error(struct sim *sim, const struct client *client, const struct request_end *end);
