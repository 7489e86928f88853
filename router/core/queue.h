/* router/core/queue.h: the requests that wait for a worker, by priority, then by arrival: a replay
 * comes before what came after it. */
#pragma once

struct request;
struct router;

void queue_add(struct router *router, struct request *req);
void queue_remove(struct router *router, struct request *req);
