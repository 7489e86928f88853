/* worker/worker.h: the worker as a whole: what its engine thread owns.
 *
 * One thread runs everything here; the kernels' own threads only compute while it waits in a call.
 * Everything that a step needs is taken in worker_open(); a step allocates nothing. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "worker/admin.h"
#include "worker/config.h"
#include "worker/core/engine.h"
#include "worker/links/kv_links.h"
#include "worker/links/links.h"
#include "worker/memory.h"
#include "worker/step/figures.h"
#include "worker/step/step.h"

#include <stdatomic.h>
#include <stdint.h>

struct worker {
    const struct config *config; /* borrowed */
    struct worker_sizes sizes;
    uint64_t incarnation;
    uint64_t host; /* hash of the machine's boot id */
    struct stepper stepper;
    struct links links;
    struct kv_links kv_links;
    unsigned char *kv_staging;  /* owned: two blocks, where KV is not in the host's memory */
    struct figures_box figures; /* for the admin port */
    struct admin *admin;        /* owned; NULL: no admin port */
    struct engine_sink sink;
    struct engine *engine;   /* owned */
    uint64_t drain_until_ns; /* UINT64_MAX until it drains */
};

/* Opens all pieces in order. Returns the first failing status and fills `error`. */
NODISCARD enum status worker_open(struct worker *worker, const struct config *config,
                                  struct error *error);
void worker_close(struct worker *worker); /* the reverse; fine on a half-opened one */

/* Turns until a stop was requested and the running answers are done. `stop` rises by one with every
 * request; wake_fd is an eventfd that is written then. STATUS_EXISTS, with a line: another live
 * worker has this one's name. */
NODISCARD enum status worker_run(struct worker *worker, const atomic_uint *stop, int wake_fd,
                                 struct error *error);
