/* worker/core/constrain.h: what an answer must look like: until the shell has made that ready, its
 * sequence runs in no step. Engine thread only. */
#pragma once

#include "worker/core/engine_state.h"

/* Asks the shell for what follows the grammar of a Submit, which its sequence was filled with.
 * REASON_NONE: it has none, or it is ready, or will be (sequence->awaits_grammar). */
enum reason constrain_begin(struct engine *engine, struct sequence *sequence,
                            const struct submit *submit);

/* What it awaits is ready: STATUS_OK; or never will be. */
void constrain_end(struct engine *engine, struct sequence *sequence, enum status status);

/* Into the queue where its next step comes from: of those that wait, that decode (its blocks are
 * there), or whose grammar is not ready. */
void constrain_enter(struct engine *engine, struct sequence *sequence);
