/* worker/step/heartbeat.h: what has to be done by the clock. The engine loop itself does it: a
 * worker whose loop hangs says nothing, and that is the point. Engine thread only. */
#pragma once

#include "worker/links/links.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct figures_box;
struct kv_links;

struct heartbeat {
    struct links_self self;      /* what announcements say */
    struct figures_box *figures; /* borrowed; NULL: there is no admin port */
    uint64_t publish_ns;         /* when its figures are due */
    uint64_t watchdog_ns;        /* between pings of systemd's watchdog; 0: none */
    uint64_t watchdog_due_ns;
    bool tells_status; /* somebody shows it: `systemctl status` */
    uint64_t status_due_ns;
    bool draining; /* the owner sets it when a stop was requested; told to readers of the figures */
};

/* Announcements, beats, leases, digests, handshakes: all that is due. */
void heartbeat_run(struct heartbeat *heartbeat, struct links *links, struct kv_links *kv_links,
                   struct engine *engine, uint64_t now_ns);

/* When something is due next. */
uint64_t heartbeat_deadline(const struct heartbeat *heartbeat, const struct links *links,
                            const struct kv_links *kv_links, const struct engine *engine);
