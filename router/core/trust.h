/* router/core/trust.h: workers that keep failing are put aside.
 *
 * A worker is judged by its last answers (what its attempts came to) and by what it says. One that
 * fails too many of them, or says what cannot be, is put aside: it gets nothing for a time, then one
 * request on trial. An answer ends that; a failure doubles the time. Nothing here ends a session:
 * where every worker is put aside, requests still go to the least bad one. What is known is known of
 * a name: its next incarnation begins where the last one ended, as long as a slot has the record.
 *
 * What a second worker fails too is the request's fault: the first one's mark is taken back, once
 * between two good answers. Which pairs of workers hand over is pairs.h. */
#pragma once

#include "router/core/marks.h"
#include "router/core/router.h"

#include <stdbool.h>
#include <stdint.h>

struct part;
struct request;
struct slot;

/* Whatever its pairs are. */
enum standing trust_standing(const struct router *router, const struct slot *slot);

/* The attempt of `req` at this worker failed by the worker's fault; `why` is a constant for the
 * log. `at_once`: one such answer is enough. Call before the part leaves the slot. */
void trust_failed(struct router *router, struct request *req, struct slot *slot, const char *why,
                  bool at_once);

/* It was taken for hung, which is forgiven once between two good answers. */
void trust_hung(struct router *router, struct slot *slot);

/* This part of an attempt did what it should. */
void trust_answered(struct router *router, struct part *part);

/* The figures that came with a message: one that cannot be puts the worker aside. */
void trust_figures(struct router *router, struct slot *slot, const struct load *load);

/* The slot's worker has the name of an earlier one, which was trusted so: a restart proves nothing. */
void trust_inherits(struct slot *slot, const struct trust *trust);

/* Does anything speak against its worker? */
bool trust_has_record(const struct slot *slot);

/* An attempt begins there, and leaves. */
void trust_joins(struct slot *slot, struct part *part);
void trust_leaves(struct slot *slot, const struct part *part);

/* n tokens came from a part that is on trial. */
void trust_tokens(struct router *router, struct part *part, uint32_t n);

/* Room and trust aside, can it take this request? */
bool trust_can_hold(const struct slot *slot, const struct request *req);

/* No ready worker speaks the minor version that the request needs. */
bool trust_known_nowhere(const struct router *router, const struct request *req);

/* 0: nothing speaks against it; more is worse. A request prefers the least. */
uint32_t trust_badness(const struct router *router, const struct request *req,
                       const struct slot *slot);

/* The least badness of all that can hold it; UINT32_MAX: none can. */
uint32_t trust_least_badness(const struct router *router, const struct request *req);

/* Is a ready worker not put aside? */
bool trust_any_good(const struct router *router);

/* Is there a worker that could try this request and has not failed it yet? */
bool trust_another(const struct router *router, const struct request *req);
