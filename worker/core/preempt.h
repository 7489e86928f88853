/* worker/core/preempt.h: which running sequence gives its blocks back, and for whom.
 *
 * It is recomputed later. Of those with the worst priority it is the newest, and where several tenants have
 * sequences here, the newest of the tenant with the most blocks among those of which two or more run. So nobody's
 * only sequence goes while others have more, and the oldest one of the best priority goes for no other.
 * Engine thread only; nothing is preempted while a step is in flight. */
#pragma once

#include "worker/core/engine_state.h"

/* Takes the blocks of a running sequence, which waits then. `reason` is a constant; `n_missing`: blocks that
 * `other` lacks, which may be the sequence itself. */
void preempt_sequence(struct engine *engine, struct sequence *sequence,
                      const struct sequence *other, const char *reason, uint32_t n_missing);

/* Whom a running sequence takes a block from, perhaps itself. Some sequence runs. */
struct sequence *preempt_choose(struct engine *engine);

/* One of worse priority than that of `waiting`, which did not fit when it was tried last; or NULL. */
struct sequence *preempt_find_worse(struct engine *engine, const struct sequence *waiting);

/* One of the priority of `waiting`, whose tenant is late (shares.h): where the other tenant keeps two
 * sequences' blocks less one's, and no fewer than `waiting` takes. So two tenants never preempt each other in
 * turns: the one that gains has no sequence that runs, and the one that loses keeps one. NULL: there is none. */
struct sequence *preempt_find_for_late(struct engine *engine, const struct sequence *waiting);
