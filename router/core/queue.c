#include "router/core/queue.h"

#include "base/assert.h"
#include "router/core/core.h"

void queue_add(struct router *router, struct request *req) {
    ASSERT(list_empty(&req->link));
    struct list *at = &router->waiting;
    while (at->prev != &router->waiting &&
           request_before(req, list_entry(at->prev, struct request, link)))
        at = at->prev;
    list_insert_before(at, &req->link);
    turns_add(&router->turns, req);
    req->state = REQUEST_WAITING;
    router->n_waiting++;
    router->queue_due = true;
}

void queue_remove(struct router *router, struct request *req) {
    ASSERT(req->state == REQUEST_WAITING);
    ASSERT(router->n_waiting > 0);
    list_remove(&req->link);
    turns_remove(&router->turns, req);
    router->n_waiting--;
}
