/* worker/core/handoff_out.h: the sending side of a hand-off. Engine thread only. */
#pragma once

#include "worker/core/engine_state.h"

/* `sequence` was filled from this Submit; STATUS_INVALID, STATUS_CONFLICT (transfer id in use),
 * STATUS_NOT_FOUND (peer unknown), STATUS_CLOSED (no link to it). */
NODISCARD enum status handoff_out_submit(struct engine *engine, const struct peer_link *router,
                                         struct sequence *sequence, const struct submit *submit);
void handoff_out_chunk_ack(struct engine *engine, struct peer_link *peer_link,
                           const struct chunk_ack *ack);
void handoff_out_commit_ack(struct engine *engine, struct peer_link *peer_link,
                            const struct transfer_end *end);

/* The receiver has it all, by its own word or the router's: the sequence has ended here. */
void handoff_out_done(struct engine *engine, struct sequence *sequence);

/* The peer grants so many chunks in flight. */
void handoff_out_open(struct peer_link *peer_link, uint32_t credits);

void handoff_out_push(struct engine *engine,
                      struct peer_link *peer_link); /* pushes what may be pushed */
void handoff_out_push_all(struct engine *engine);
void handoff_out_open_links(struct engine *engine); /* those that met BUSY before */
