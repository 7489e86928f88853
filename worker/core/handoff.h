/* worker/core/handoff.h: KV from the worker that prefills to the one that decodes.
 *
 * Receiving (handoff_in.c): RESERVE takes blocks under a generation and a lease; chunks fill them
 * in any order, twice if need be; COMMIT brings token 0; when Submit has come too, the sequence
 * decodes. The receiver executes every copy itself (take_chunk), so blocks given up are quarantined
 * only while a copy runs, and its return is the proof that ends it.
 * Sending (handoff_out.c): while a prompt is computed, groups of layers of finished blocks are
 * pushed as far as the peer's credits go; the last, partly filled block once at the end; then
 * COMMIT; the blocks are held until COMMIT_ACK, ABORT or the link's loss.
 * Engine thread only. */
#pragma once

#include "worker/core/engine_state.h"
#include "worker/core/note.h"

/* Receiving side. */
void handoff_reserve(struct engine *engine, struct outlet *router, const struct reserve *reserve);
void handoff_submit_in(struct engine *engine, struct outlet *router, const struct submit *submit);
void handoff_chunk(struct engine *engine, struct outlet *outlet, const struct chunk *chunk);
void handoff_commit(struct engine *engine, struct outlet *outlet, const struct commit *commit);
void handoff_expire(struct engine *engine); /* reservations whose lease ran out */

/* Sending side. `sequence` was filled from this Submit; STATUS_INVALID, STATUS_CONFLICT (transfer
 * id in use), STATUS_NOT_FOUND (peer unknown), STATUS_CLOSED (no link to it). */
NODISCARD enum status handoff_submit_out(struct engine *engine, const struct outlet *router,
                                         struct sequence *sequence, const struct submit *submit);
void handoff_chunk_ack(struct engine *engine, struct outlet *outlet, const struct chunk_ack *ack);
void handoff_commit_ack(struct engine *engine, struct outlet *outlet,
                        const struct transfer_end *end);
void handoff_pump(struct engine *engine, struct outlet *outlet); /* pushes what may be pushed */
void handoff_pump_all(struct engine *engine);
void handoff_open_links(struct engine *engine); /* those that met BUSY before */

/* Both. */
void handoff_abort(struct engine *engine, struct outlet *outlet, const struct transfer_end *end);
void handoff_link_lost(struct engine *engine, struct outlet *outlet);

/* The sequence is being given up or has ended: leaves every list, gives reserved blocks back, tells
 * the peer ABORT where that still matters. Fine without a hand-off. */
void handoff_end(struct engine *engine, struct sequence *sequence, enum reason reason);

/* Notes how a transfer ended; before handoff_end(). `reason` is a constant or NULL. */
void handoff_note(const struct engine *engine, enum engine_note kind,
                  const struct sequence *sequence, const char *reason);

/* Answers a transfer message. */
void handoff_post_end(struct engine *engine, struct outlet *outlet, enum message_type type,
                      uint64_t transfer_id, uint32_t gen, enum reason reason);

/* The sequence of a hand-off, or NULL: by generation when receiving, by transfer id when sending.
 */
struct sequence *handoff_find(struct engine *engine, enum handoff_side side, uint64_t id);
NODISCARD enum status handoff_register(struct engine *engine, enum handoff_side side, uint64_t id,
                                       const struct sequence *sequence);

/* Where a quarantine ends: blocks that nobody writes to any more are free. */
void handoff_settle(struct engine *engine);

/* The receiving side's part of handoff_end(). */
void handoff_end_in(struct engine *engine, struct sequence *sequence);
