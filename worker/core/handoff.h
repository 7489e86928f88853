/* worker/core/handoff.h: KV from the worker that prefills to the one that decodes.
 *
 * Receiving: RESERVE takes blocks under a generation and a lease (reserve.h); chunks fill them
 * in any order, twice if need be; COMMIT brings token 0; when Submit has come too, the sequence
 * decodes (handoff_in.h). The receiver executes every copy itself (take_chunk), so blocks given up
 * are quarantined only while a copy runs, and its return is the proof that ends it.
 * Sending (handoff_out.h): while a prompt is computed, groups of layers of finished blocks are
 * pushed as far as the peer's credits go; the last, partly filled block once at the end; then
 * COMMIT; the blocks are held until COMMIT_ACK, ABORT or the link's loss.
 *
 * Here is what both sides stand on: which sequence a hand-off belongs to, and how it is let go.
 * Engine thread only. */
#pragma once

#include "worker/core/engine_state.h"
#include "worker/core/note.h"

/* The sequence of a hand-off, by generation when receiving, by transfer id when sending; or NULL. */
struct sequence *handoff_find(struct engine *engine, enum handoff_side side, uint64_t id);
NODISCARD enum status handoff_register(struct engine *engine, enum handoff_side side, uint64_t id,
                                       const struct sequence *sequence);

/* Whether a link's other end is the worker that Submit named: same name, same process. */
bool handoff_is_peer(const struct handoff *handoff, const struct peer_link *peer_link);

/* The sequence is being given up or has ended: leaves every list, gives reserved blocks back, tells
 * the peer ABORT where that still matters. Fine without a hand-off. */
void handoff_end(struct engine *engine, struct sequence *sequence, enum reason reason);

/* Notes how a transfer ended; before handoff_end(). `reason` is a constant or NULL. */
void handoff_note(const struct engine *engine, enum engine_note kind,
                  const struct sequence *sequence, const char *reason);

/* Where a quarantine ends: blocks without a writer are free. */
void handoff_settle(struct engine *engine);
