/* worker/core/handoff_link.h: what another worker's link brings: its messages, which go to the
 * receiving or the sending side, and its loss. Engine thread only. */
#pragma once

#include "worker/core/engine_state.h"

/* A message on a KV link. */
void handoff_link_message(struct engine *engine, struct peer_link *peer_link,
                          const struct message *message);

/* The link is gone: its transfers end, which are counted. Its entry stays taken. */
uint32_t handoff_link_lost(struct engine *engine, struct peer_link *peer_link);
