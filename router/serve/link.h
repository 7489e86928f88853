/* router/serve/link.h: the bus to the workers: messages in become events of the core, what the core
 * wants sent becomes messages.
 *
 * Also keeps the core's time: its timer is set anew after each turn in which it had an event. What
 * the core asks for from inside its own calls (sink) never calls back into it: a link that fails
 * there is reported before the loop sleeps. Loop's thread only. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "router/core/router.h"

#include <stdint.h>

struct keys;
struct link;
struct serving;

struct link_config {
    const char *announce;    /* endpoint to bind: ipc:// or tcp:// */
    const struct keys *keys; /* the cluster's CURVE keys, or NULL */
    uint32_t max_workers;
};

/* Binds the announce socket and watches it. `serving->core` is set afterwards, before the loop
 * turns. */
NODISCARD enum status link_new(struct serving *serving, const struct link_config *config,
                               struct link **link, struct error *error);
void link_free(struct link *link); /* NULL is fine */

/* The sink for router_new(): bus and log here, tokens and ends to calls.h. */
struct router_sink link_sink(struct link *link);

/* Peers whose greeting failed: other keys, no keys, not ZeroMQ at all. */
uint64_t link_handshakes_failed(const struct link *link);

/* What the announce socket became (port 0). Borrowed. */
const char *link_endpoint(const struct link *link);
