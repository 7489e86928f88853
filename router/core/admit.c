#include "router/core/admit.h"

#include "router/core/core.h"
#include "router/core/finish.h"
#include "router/core/place.h"
#include "router/core/queue.h"

#include <stddef.h>

/* The longest sequence any ready worker holds; 0: there is none. */
static uint32_t admit_longest_context(const struct router *router) {
    uint32_t longest = 0;
    fleet_each(slot, &router->fleet) {
        if (slot->state == SLOT_READY && slot->welcome.context > longest)
            longest = slot->welcome.context;
    }
    return longest;
}

static enum status admit_check_one(const struct router *router, const struct request_spec *spec) {
    if (!spec->tokens || spec->n_prompt == 0 || spec->sampling.max_new == 0 ||
        spec->capacity < spec->n_prompt || spec->capacity - spec->n_prompt < spec->sampling.max_new)
        return STATUS_INVALID;
    uint32_t context = admit_longest_context(router);
    if (context == 0)
        return STATUS_CLOSED;
    if (spec->n_prompt > router->config.max_prompt || spec->n_prompt >= context)
        return STATUS_LIMIT;
    return STATUS_OK;
}

enum status admit_check(const struct router *router, const struct request_spec *specs, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        TRY(admit_check_one(router, &specs[i]));
    if (n > router->requests.capacity - router->requests.n_used)
        return STATUS_BUSY;
    if (n == 1)
        return STATUS_OK; /* the attempt to place it shows whether it waits */
    uint32_t room = place_room(router, specs[0].tenant);
    uint32_t n_waits = n > room ? n - room : 0;
    return (uint64_t)router->n_waiting + n_waits > router->config.max_queue && n_waits > 0
               ? STATUS_BUSY
               : STATUS_OK;
}

enum turn admit_request(struct router *router, struct request *req) {
    req->arrival = ++router->arrivals;
    req->admitted_ns = router->now_ns;
    turns_join(&router->turns, req);
    if (req->spec.deadline_ns != 0)
        timers_pull(&router->timers, req->index, req->spec.deadline_ns);
    queue_add(router, req);
    return TURN_LATER;
}

void admit_tick(struct router *router) {
    if (router->fleet.n_ready > 0 || router->n_waiting == 0 ||
        router->now_ns < router->fleet.no_worker_since_ns + router->config.no_worker_wait_ns)
        return;
    list_each(link, &router->waiting) {
        finish_unplaced(router, list_entry(link, struct request, link), STATUS_CLOSED, REASON_NONE);
    }
}
