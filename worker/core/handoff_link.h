/* worker/core/handoff_link.h: what another worker's link brings: its messages, which go to the
 * receiving or the sending side, and its loss. Engine thread only. */
#pragma once

#include "worker/core/engine_state.h"

/* A message on a KV link. */
void handoff_link_message(struct engine *engine, struct outlet *outlet,
                          const struct message *message);

/* The link is gone: its transfers end. The outlet stays taken. */
void handoff_link_lost(struct engine *engine, struct outlet *outlet);
