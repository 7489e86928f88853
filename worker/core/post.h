/* worker/core/post.h: small answers to the other ends of links, which wait in the link's ring
 * while they meet BUSY. Engine thread only. */
#pragma once

#include "worker/core/engine_state.h"

/* This worker does not go on with the attempt. */
void post_failed(struct engine *engine, struct peer_link *router, struct request_id req,
                 uint32_t attempt, enum phase phase, enum reason reason);

/* The same of a sequence, to its router; nothing for one without an owner. */
void post_sequence_failed(struct engine *engine, const struct sequence *sequence,
                          enum reason reason);

/* What a RESERVE is answered with. */
void post_refused(struct engine *engine, struct peer_link *router, const struct reserve *reserve,
                  enum reason reason);
void post_reserved(struct engine *engine, struct peer_link *router,
                   const struct sequence *sequence);

/* What a CHUNK is answered with, its place in a ring included. `n_done`: chunks taken so far. */
void post_chunk_ack(struct engine *engine, struct peer_link *peer_link, const struct chunk *chunk,
                    uint32_t n_done);

/* COMMIT_ACK, ABORT or FENCED. */
void post_transfer_end(struct engine *engine, struct peer_link *peer_link, enum message_type type,
                       uint64_t transfer_id, uint32_t gen, enum reason reason);

/* A message came for a session that does not exist, or no longer. Sent at once or not at all: the
 * next message of that session asks for it again. */
void post_reset(struct engine *engine, uint32_t link, uint64_t session, enum reason reason);
