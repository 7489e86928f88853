/* worker/step/heartbeat.h: what has to be done by the clock. The engine loop itself does it: a
 * worker whose loop hangs says nothing, and that is the point. Engine thread only. */
#pragma once

#include <stdint.h>

struct worker;

/* Announcements, beats, leases, digests, handshakes: whatever is due. */
void heartbeat_run(struct worker *worker, uint64_t now_ns);

/* When something is due next. */
uint64_t heartbeat_deadline(const struct worker *worker);
