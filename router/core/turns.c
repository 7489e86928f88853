#include "router/core/turns.h"

#include "base/assert.h"
#include "router/core/request.h"

#include <stdlib.h>

enum status turns_init(struct turns *turns, uint32_t capacity, uint64_t seed) {
    ASSERT(capacity > 0);
    *turns = (struct turns){.capacity = capacity};
    list_init(&turns->idle);
    list_init(&turns->looked_at);
    turns->all = calloc(capacity, sizeof *turns->all);
    turns->heap = calloc(capacity, sizeof *turns->heap);
    enum status status = turns->all && turns->heap ? STATUS_OK : STATUS_NOMEM;
    if (status == STATUS_OK)
        status = map_init(&turns->by_key, capacity, seed);
    if (status == STATUS_OK)
        status = timers_init(&turns->least, capacity);
    if (status != STATUS_OK)
        turns_fini(turns);
    return status;
}

void turns_fini(struct turns *turns) {
    free(turns->all);
    free(turns->heap);
    map_fini(&turns->by_key);
    timers_fini(&turns->least);
    *turns = (struct turns){0};
}

/* --- whose request is next ------------------------------------------------------------------- */

static struct request *at_cursor(const struct tenant *tenant) {
    return list_entry(tenant->cursor, struct request, turn);
}

static bool has_begun(const struct request *req) {
    return req->attempt > 0;
}

static bool is_before(const struct tenant *a, const struct tenant *b) {
    const struct request *one = at_cursor(a), *other = at_cursor(b);
    if (one->spec.priority != other->spec.priority)
        return one->spec.priority < other->spec.priority;
    if (has_begun(one) != has_begun(other))
        return has_begun(one);
    if (!has_begun(one) && a->n_served != b->n_served)
        return a->n_served < b->n_served;
    return one->arrival < other->arrival;
}

static void heap_put(struct turns *turns, uint32_t at, struct tenant *tenant) {
    turns->heap[at] = tenant;
    tenant->place = at;
}

static void heap_rise(struct turns *turns, struct tenant *tenant) {
    uint32_t at = tenant->place;
    while (at > 0 && is_before(tenant, turns->heap[(at - 1) / 2])) {
        heap_put(turns, at, turns->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_put(turns, at, tenant);
}

static void heap_sink(struct turns *turns, struct tenant *tenant) {
    uint32_t at = tenant->place;
    for (uint32_t child; (child = 2 * at + 1) < turns->n_heap; at = child) {
        if (child + 1 < turns->n_heap && is_before(turns->heap[child + 1], turns->heap[child]))
            child++;
        if (!is_before(turns->heap[child], tenant))
            break;
        heap_put(turns, at, turns->heap[child]);
    }
    heap_put(turns, at, tenant);
}

static void heap_take_out(struct turns *turns, struct tenant *tenant) {
    struct tenant *last = turns->heap[--turns->n_heap];
    uint32_t at = tenant->place;
    tenant->place = TENANT_NONE;
    if (last == tenant)
        return;
    heap_put(turns, at, last);
    heap_rise(turns, last);
    heap_sink(turns, last);
}

/* Its cursor or its count has changed. */
static void settle(struct turns *turns, struct tenant *tenant) {
    bool is_in = tenant->place != TENANT_NONE;
    if (tenant->cursor == &tenant->waiting) {
        if (is_in)
            heap_take_out(turns, tenant);
        return;
    }
    if (!is_in)
        heap_put(turns, turns->n_heap++, tenant);
    heap_rise(turns, tenant);
    heap_sink(turns, tenant);
}

/* --- who there is ---------------------------------------------------------------------------- */

static uint32_t index_of(const struct turns *turns, const struct tenant *tenant) {
    return (uint32_t)(tenant - turns->all);
}

/* A place for one more: a fresh one, or that of the tenant which had no request for longest. */
static struct tenant *take_place(struct turns *turns, uint64_t key) {
    struct tenant *tenant;
    if (turns->n_fresh < turns->capacity) {
        tenant = &turns->all[turns->n_fresh++];
    } else {
        ASSERT(!list_empty(&turns->idle)); /* each of the others has a request */
        tenant = list_entry(list_first(&turns->idle), struct tenant, link);
        list_remove(&tenant->link);
        map_remove(&turns->by_key, (struct map_key){.lo = tenant->key});
    }
    *tenant = (struct tenant){.key = key, .place = TENANT_NONE};
    list_init(&tenant->link);
    list_init(&tenant->waiting);
    tenant->cursor = &tenant->waiting;
    enum status status =
        map_put(&turns->by_key, (struct map_key){.lo = key}, index_of(turns, tenant));
    ASSERT(status == STATUS_OK);
    return tenant;
}

void turns_join(struct turns *turns, struct request *req) {
    uint32_t index;
    if (map_get(&turns->by_key, (struct map_key){.lo = req->spec.tenant}, &index) != STATUS_OK)
        index = index_of(turns, take_place(turns, req->spec.tenant));
    struct tenant *tenant = &turns->all[index];
    if (tenant->n_requests++ == 0)
        list_remove(&tenant->link);
    req->tenant = index;
}

void turns_leave(struct turns *turns, struct request *req) {
    struct tenant *tenant = &turns->all[req->tenant];
    ASSERT(tenant->n_requests > 0 && list_empty(&req->turn));
    if (--tenant->n_requests == 0)
        list_push_back(&turns->idle, &tenant->link);
}

/* --- who waits ------------------------------------------------------------------------------- */

static uint64_t max_of(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* It has not waited until now: what it did not take meanwhile is gone. */
static void begin_to_wait(struct turns *turns, struct tenant *tenant) {
    uint64_t least = timers_next(&turns->least);
    uint64_t n = least == TIMERS_NEVER ? turns->n_floor : least;
    tenant->n_served = max_of(tenant->n_served, n);
    timers_set(&turns->least, index_of(turns, tenant), tenant->n_served);
}

void turns_add(struct turns *turns, struct request *req) {
    struct tenant *tenant = &turns->all[req->tenant];
    struct list *at = &tenant->waiting;
    if (list_empty(&tenant->waiting))
        begin_to_wait(turns, tenant);
    while (at->prev != &tenant->waiting &&
           request_before(req, list_entry(at->prev, struct request, turn)))
        at = at->prev;
    list_insert_before(at, &req->turn);
    tenant->n_waiting++;
    if (tenant->cursor == at && list_empty(&tenant->link)) /* else its turn was over */
        tenant->cursor = &req->turn;
    settle(turns, tenant);
}

void turns_remove(struct turns *turns, struct request *req) {
    struct tenant *tenant = &turns->all[req->tenant];
    if (tenant->cursor == &req->turn)
        tenant->cursor = req->turn.next;
    list_remove(&req->turn);
    ASSERT(tenant->n_waiting > 0);
    tenant->n_waiting--;
    settle(turns, tenant);
    if (!list_empty(&tenant->waiting))
        return;
    timers_set(&turns->least, index_of(turns, tenant), TIMERS_NEVER);
    if (turns->least.n == 0)
        turns->n_floor = max_of(turns->n_floor, tenant->n_served);
}

void turns_charge(struct turns *turns, const struct request *req, uint32_t n) {
    struct tenant *tenant = &turns->all[req->tenant];
    tenant->n_served += n;
    if (!list_empty(&tenant->waiting))
        timers_set(&turns->least, index_of(turns, tenant), tenant->n_served);
    settle(turns, tenant);
}

struct request *turns_next(struct turns *turns) {
    if (turns->n_heap == 0)
        return NULL;
    struct tenant *tenant = turns->heap[0];
    struct request *req = at_cursor(tenant);
    tenant->cursor = tenant->cursor->next;
    if (list_empty(&tenant->link))
        list_push_back(&turns->looked_at, &tenant->link);
    settle(turns, tenant);
    return req;
}

void turns_pass(struct turns *turns, const struct request *req) {
    struct tenant *tenant = &turns->all[req->tenant];
    ASSERT(!list_empty(&tenant->link));
    tenant->cursor = &tenant->waiting;
    settle(turns, tenant);
}

bool turns_serves(const struct turns *turns, uint64_t tenant) {
    uint32_t index;
    if (map_get(&turns->by_key, (struct map_key){.lo = tenant}, &index) != STATUS_OK)
        return false;
    return turns->all[index].n_requests > turns->all[index].n_waiting;
}

void turns_rewind(struct turns *turns) {
    while (!list_empty(&turns->looked_at)) {
        struct tenant *tenant = list_entry(list_first(&turns->looked_at), struct tenant, link);
        list_remove(&tenant->link);
        tenant->cursor = tenant->waiting.next;
        settle(turns, tenant);
    }
}

/* --- for tests ------------------------------------------------------------------------------- */

static const char *check_tenant(const struct turns *turns, const struct tenant *tenant,
                                uint32_t *n_waiting) {
    const struct request *last = NULL;
    uint32_t n = 0;
    list_each_entry(req, &tenant->waiting, const struct request, turn) {
        if (&turns->all[req->tenant] != tenant)
            return "a request waits as another tenant's";
        if (last && !request_before(last, req))
            return "a tenant's requests are out of order";
        last = req;
        n++;
    }
    *n_waiting += n;
    if (n != tenant->n_waiting || n > tenant->n_requests ||
        (tenant->place != TENANT_NONE) != (n > 0))
        return "a tenant waits without a turn, or has one and does not wait";
    if (tenant->cursor != tenant->waiting.next || (n > 0 && !list_empty(&tenant->link)))
        return "a tenant's first request was passed over";
    if (n > 0 && turns->least.at_ns[index_of(turns, tenant)] != tenant->n_served)
        return "a tenant's count is not the one that it is found by";
    return NULL;
}

const char *turns_check(const struct turns *turns, uint32_t n_waiting) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < turns->n_fresh; i++) {
        const char *flaw = check_tenant(turns, &turns->all[i], &n);
        if (flaw)
            return flaw;
    }
    for (uint32_t i = 0; i < turns->n_heap; i++) {
        if (turns->heap[i]->place != i ||
            (i > 0 && is_before(turns->heap[i], turns->heap[(i - 1) / 2])))
            return "turns are out of order";
    }
    return n == n_waiting ? NULL : "who waits and who has a turn differ";
}
