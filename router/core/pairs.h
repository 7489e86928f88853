/* router/core/pairs.h: pairs of workers whose hand-overs fail are avoided.
 *
 * Whose fault a failed hand-over is, the router cannot know: a firewall between two workers looks
 * like a fault of either. So the pair is avoided for a time, which doubles with each failure, then
 * one request tries it. A worker that has no partner left gets whole requests only. Both ends keep
 * a record of the pair, each of its PAIRS_MAX latest; a pair whose two records were displaced by
 * others is tried again early. */
#pragma once

#include "router/core/marks.h"

#include <stdbool.h>
#include <stdint.h>

struct request;
struct router;
struct slot;

/* The hand-over between the two workers of this attempt failed, or brought nothing for too long. */
void pairs_failed(struct router *router, const struct request *req, const char *why);

/* It worked. */
void pairs_worked(struct router *router, const struct request *req);

/* A hand-over between these two begins. */
void pairs_begin(struct router *router, uint32_t prefill, uint32_t decode);

/* May these two hand over now? */
bool pairs_may(const struct router *router, const struct slot *a, const struct slot *b);

/* A prefill or decode worker all of whose partners are avoided: it gets whole requests only. */
bool pairs_cut_off(const struct router *router, const struct slot *slot);

/* The slot gets another worker: no record of the old one stays. */
void pairs_forget(struct router *router, const struct slot *slot);
