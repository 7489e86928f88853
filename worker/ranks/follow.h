/* worker/ranks/follow.h: a process that holds ranks of another worker: `tandem-worker --follow
 * ADDRESS`.
 *
 * It joins the leader, opens its ranks in threads and then only waits for the end: an orderly one
 * (the leader says so, or a stop is requested) is status 0; when the leader's socket closes without
 * a word the process ends at once with a line, even while a rank waits in a collective. */
#pragma once

#include <stdatomic.h>

struct config;

/* The whole life; answers the process's exit code. `stop` and wake_fd as in worker_run(). */
int follow_run(const struct config *config, const atomic_uint *stop, int wake_fd);
