#include "router/core/request.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

#define INDEX_BITS 24

static void request_part_clear(struct part *part) {
    *part = (struct part){.slot = SLOT_NONE};
    list_init(&part->link);
}

enum status requests_init(struct requests *requests, uint32_t capacity, uint32_t n_slots) {
    ASSERT(capacity > 0 && capacity < 1u << INDEX_BITS);
    *requests = (struct requests){.capacity = capacity, .n_words = (n_slots + 63) / 64};
    list_init(&requests->free);
    requests->all = calloc(capacity, sizeof *requests->all);
    requests->bits = calloc((size_t)2 * capacity * requests->n_words, sizeof *requests->bits);
    if (!requests->all || !requests->bits) {
        requests_fini(requests);
        return STATUS_NOMEM;
    }
    return STATUS_OK;
}

void requests_fini(struct requests *requests) {
    if (!requests)
        return;
    free(requests->all);
    free(requests->bits);
    *requests = (struct requests){0};
}

/* One that was used before, else a fresh one; NULL: all are in use. */
static struct request *request_take_any(struct requests *requests) {
    struct list *link = list_first(&requests->free);
    if (link) {
        list_remove(link);
        return list_entry(link, struct request, link);
    }
    if (requests->n_fresh == requests->capacity)
        return NULL;
    struct request *req = &requests->all[requests->n_fresh];
    req->index = requests->n_fresh++;
    req->too_long = requests->bits + (size_t)2 * req->index * requests->n_words;
    req->failed = req->too_long + requests->n_words;
    return req;
}

struct request *request_take(struct requests *requests, uint64_t router_id) {
    struct request *req = request_take_any(requests);
    if (!req)
        return NULL;
    uint32_t index = req->index;
    uint64_t generation = req->generation + 1;
    uint64_t *too_long = req->too_long, *failed = req->failed;
    *req = (struct request){
        .index = index, .generation = generation, .too_long = too_long, .failed = failed};
    req->id = (struct request_id){.hi = router_id, .lo = generation << INDEX_BITS | index};
    memset(too_long, 0, (size_t)2 * requests->n_words * sizeof *too_long); /* and `failed` */
    list_init(&req->link);
    list_init(&req->turn);
    request_part_clear(&req->prefill);
    request_part_clear(&req->decode);
    req->prefilled_by = SLOT_NONE;
    requests->n_used++;
    return req;
}

void request_give(struct requests *requests, struct request *req) {
    ASSERT(req->state != REQUEST_FREE);
    ASSERT(req->prefill.slot == SLOT_NONE);
    ASSERT(req->decode.slot == SLOT_NONE);
    ASSERT(list_empty(&req->link));
    req->state = REQUEST_FREE;
    list_push_back(&requests->free, &req->link);
    requests->n_used--;
}

struct request *request_find(const struct requests *requests, uint64_t lo) {
    uint64_t index = lo & ((1u << INDEX_BITS) - 1);
    if (index >= requests->n_fresh)
        return NULL;
    struct request *req = &requests->all[index];
    return req->state != REQUEST_FREE && req->id.lo == lo ? req : NULL;
}

struct part *request_part(struct request *req, uint32_t slot) {
    if (req->decode.slot == slot)
        return &req->decode;
    if (req->prefill.slot == slot)
        return &req->prefill;
    return NULL;
}

void request_forget_slot(struct request *req, uint32_t slot) {
    req->too_long[slot / 64] &= ~(1ull << (slot % 64));
    req->failed[slot / 64] &= ~(1ull << (slot % 64));
}
