/* router/core/fleet.h: the table of workers, what is sent to them, who may work with whom. */
#pragma once

#include "base/status.h"
#include "router/core/slot.h"

#include <stdbool.h>
#include <stdint.h>

struct router;

NODISCARD enum status fleet_init(struct fleet *fleet, uint32_t n_slots);
void fleet_fini(struct fleet *fleet);

/* A free slot. */
void fleet_empty(struct slot *slot, uint32_t number);

bool fleet_same_name(const char *a, const char *b); /* (MESSAGE_NAME_MAX) each */

/* Moves the slot to another state and keeps the counts. */
void fleet_set_state(struct router *router, struct slot *slot, enum slot_state state);

/* The step that its worker announced; 0 for one that cannot be. */
uint64_t fleet_step_ns(const struct slot *slot);

/* Its worker's progress is that much now. Where it rose, what was announced until now is over: it
 * shows how long a step of this worker may be (liveness.h). Call before slot->load changes. */
void fleet_progress(const struct router *router, struct slot *slot, uint64_t progress);

/* How long its worker was silent beyond what counts of each silence (half a second), in own time: so
 * much less than the router it has had for what it holds. In a session it only grows. */
uint64_t fleet_silent_own_ns(const struct router *router, const struct slot *slot);

/* All attempts on the slot are lost. replay_losses() takes them off it before the event ends; of
 * two losses in one event the first counts. */
void fleet_lose(struct router *router, struct slot *slot, enum loss loss);

/* Stamps session and seq and hands the message to the shell. */
void fleet_send(struct router *router, struct slot *slot, struct message *message);

void fleet_ping(struct router *router, struct slot *slot);

/* Closes the link alone, if there is one. */
void fleet_unlink(struct router *router, struct slot *slot);

/* Queues a FORGET; they leave together at the end of the event. */
void fleet_forget(struct router *router, struct slot *slot, struct attempt_id attempt);

/* Tells a worker to drop this attempt and all lower ones. */
void fleet_cancel(struct router *router, struct slot *slot, struct attempt_id attempt,
                  enum reason reason);

/* End of an event: FORGETs and PEERS that have collected. */
void fleet_flush(struct router *router);

/* Could these two hand over KV? Their tensor-parallel sizes may differ: on the wire KV is the whole
 * model's. */
bool fleet_pairs(const struct slot *a, const struct slot *b);

/* Would they compute the same bits? */
bool fleet_equals(const struct slot *a, const struct slot *b);
