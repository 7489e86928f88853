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
#include "worker/step/batch.h"
#include "worker/step/estimate.h"
#include "worker/step/forward.h"
#include "worker/step/sample.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Steps are sized for this: below the bound of 250 ms by which routers notice a hang, with room for
 * attention in longer contexts than those that were measured. */
#define WORKER_STEP_US_GOAL 120000u

struct worker {
    const struct config *config; /* borrowed */
    struct worker_sizes sizes;
    uint64_t incarnation;
    uint64_t host; /* hash of the machine's boot id */
    struct forward forward;
    struct batch batch;
    struct sample sample;
    struct estimate estimate;
    struct links links;
    struct kv_links kv_links;
    struct admin *admin; /* owned; NULL: no admin port */
    uint64_t publish_ns; /* when its figures are due */
    struct engine_sink sink;
    struct engine *engine; /* owned */
    struct plan plan;      /* of the step that runs */
    uint64_t step_begin_ns;
    uint64_t looked_ns;   /* when the links were last looked at */
    uint64_t watchdog_ns; /* between pings of systemd's watchdog; 0: none */
    uint64_t watchdog_due_ns;
    bool draining;
    uint64_t drain_until_ns;
};

/* All pieces up, in order. Statuses of the pieces, with one line. */
NODISCARD enum status worker_open(struct worker *worker, const struct config *config,
                                  struct error *error);
void worker_close(struct worker *worker); /* the reverse; fine on a half-opened one */

/* Turns until a stop was requested and the running answers are done. `stop` rises by one with every
 * request; wake_fd is an eventfd that is written then. STATUS_EXISTS, with a line: another live
 * worker has this one's name. */
NODISCARD enum status worker_run(struct worker *worker, const atomic_uint *stop, int wake_fd,
                                 struct error *error);
