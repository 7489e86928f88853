/* router/core/rival.h: two workers of one name: who of them is served.
 *
 * The one that has the name keeps it for as long as it answers. One that comes to the same name
 * (RIVAL) waits until the holder is lost, and takes its place then: that is the restart of a worker
 * that died, however late the router hears of the death. Or until the holder has answered a PING
 * that was sent after the rival's WELCOME: then both live, and the rival is refused. No clock
 * decides that, so a restart can never be taken for a second worker. */
#pragma once

#include "router/core/slot.h"

#include <stdbool.h>
#include <stdint.h>

struct router;

/* Another worker of this name in session, or fenced but not given up; or NULL. */
struct slot *rival_holder(const struct router *router, const struct slot *slot);

/* A worker was welcomed. True: another has its name, so it is a RIVAL from now on. */
bool rival_contests(struct router *router, struct slot *slot);

/* The worker has answered the PING of this time. */
void rival_answered(struct router *router, const struct slot *holder, uint64_t t_ns);

/* The holder was asked and has answered nothing for as long as its steps may take (`bound_ns`). */
bool rival_outlasts(const struct router *router, const struct slot *rival,
                    const struct slot *holder, uint64_t bound_ns);

/* Who had this name is gone: the rival that has waited the longest, or NULL. */
struct slot *rival_heir(const struct router *router, const char *name);
