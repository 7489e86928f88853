/* worker/step/receive.h: what came over the wire becomes events of the core. Engine thread only. */
#pragma once

#include <stdint.h>

struct worker;

/* Takes what has come, up to a bound, and runs what is due: ticks, announcements. Called at the
 * start of every turn, and between layers of a long step, so that control is never late. */
void receive_messages(struct worker *worker);

/* Sleeps until something comes, something is due, or wake_fd is readable. */
void receive_wait(struct worker *worker, int wake_fd);
