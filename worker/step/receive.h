/* worker/step/receive.h: what came over the wire becomes events of the core. Engine thread only. */
#pragma once

#include "worker/step/heartbeat.h"

#include <stdint.h>

struct engine;
struct kv_links;
struct links;

struct receive {
    struct links *links; /* borrowed, as the next two */
    struct kv_links *kv_links;
    struct engine *engine; /* told of what comes */
    struct heartbeat heartbeat;
    uint64_t looked_ns; /* when the links were last looked at */
};

/* Takes what has come, up to a bound, and runs what is due: ticks, announcements. Called at the
 * start of every turn, and between layers of a long step, so that control is never late. */
void receive_messages(struct receive *receive);

/* Sleeps until something comes, something is due, one of wake_fds is readable (-1: none), or it is
 * until_ns. */
void receive_wait(const struct receive *receive, const int wake_fds[2], uint64_t until_ns);
