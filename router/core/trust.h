/* router/core/trust.h: workers that keep failing are put aside.
 *
 * A worker is judged by its last answers (what its attempts came to) and by what it says. One that
 * fails too many of them, or says what cannot be, is put aside: it gets nothing for a time, then one
 * request on trial. An answer ends that; a failure doubles the time. Nothing here ends a session:
 * where every worker is put aside, requests still go to the least bad one. What is known is known of
 * a name: its next incarnation begins where the last one ended. There are as many records as slots;
 * a new name takes one that no worker has.
 *
 * What a second worker fails too is the request's fault: the first one's failure is taken back, once
 * between two good answers, with the time aside that it began. Which pairs of workers hand over is pairs.h. */
#pragma once

#include "router/core/marks.h"
#include "router/core/router.h"

#include <stdbool.h>
#include <stdint.h>

struct fleet;
struct part;
struct request;
struct slot;

/* Without regard to its pairs. */
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

/* The record of this name: what an earlier worker of that name left, or a new one in place of the
 * record that is missed least. At least one slot must be free. */
struct trust *trust_of(struct fleet *fleet, const char *name);

/* The slot's worker was served and has left. A restart proves nothing. */
void trust_left(struct slot *slot);

/* n tokens came from this part: of a trial, so many are a good answer. */
void trust_tokens(struct router *router, struct part *part, uint32_t n);

/* Room and trust aside, can it take this request? */
bool trust_can_hold(const struct slot *slot, const struct request *req);

/* No ready worker speaks the minor version that the request needs. */
bool trust_known_nowhere(const struct router *router, const struct request *req);

/* 0: nothing speaks against it; more is worse. A request takes the least only. Its own attempt there
 * does not count. */
uint32_t trust_badness(const struct router *router, const struct request *req,
                       const struct slot *slot);

/* Is there a worker that could try this request and has not failed it yet? */
bool trust_another(const struct router *router, const struct request *req);
/* The same of workers that go on as `slot` does: of equal numerics, and not itself. */
bool trust_elsewhere(const struct router *router, const struct request *req,
                     const struct slot *slot);
