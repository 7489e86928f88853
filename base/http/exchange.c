#include "base/http/exchange.h"

#include "base/assert.h"

#include <stdlib.h>

#define SMALL_BODY_BYTES  65536u
#define SMALL_REPLY_BYTES 4096u

struct exchange_slot {
    struct exchange *exchange; /* borrowed; NULL when free */
    uint32_t generation;       /* the upper half of the id */
    uint32_t next_free;
};

struct exchanges {
    struct exchanges_bounds bounds;
    struct exchange_slot *slots; /* owned (n_slots) */
    uint32_t n_slots;            /* of all kinds of places */
    uint32_t n;
    uint32_t n_of[EXCHANGE_PLACES]; /* by enum exchange_place */
    struct list probes;             /* who has a probe's place, oldest first */
    uint32_t first_free;            /* n_slots: none */
    size_t body_bytes;              /* of all bodies that are kept somewhere */
    size_t output_bytes;            /* that clients have not taken */
};

enum status exchanges_new(const struct exchanges_bounds *bounds, struct exchanges **out) {
    ASSERT(bounds->n_max > 0);
    uint32_t n_slots = bounds->n_max + bounds->n_probes_max + bounds->n_watches_max;
    struct exchanges *all = calloc(1, sizeof *all);
    struct exchange_slot *slots = calloc(n_slots, sizeof *slots);
    if (!all || !slots) {
        free(all);
        free(slots);
        return STATUS_NOMEM;
    }
    *all = (struct exchanges){.slots = slots, .n_slots = n_slots, .bounds = *bounds};
    list_init(&all->probes);
    for (uint32_t i = 0; i < n_slots; i++)
        slots[i] = (struct exchange_slot){.generation = 1, .next_free = i + 1};
    *out = all;
    return STATUS_OK;
}

void exchanges_free(struct exchanges *all) {
    if (!all)
        return;
    free(all->slots);
    free(all);
}

/* A place that is kept for probes is never held by one that has not come whole: who probes now goes
 * before those that have not ended theirs. */
static bool exchanges_free_probe_place(struct exchanges *all) {
    if (all->n_of[EXCHANGE_PROBE] < all->bounds.n_probes_max)
        return true;
    struct list *oldest = list_first(&all->probes);
    if (!oldest)
        return false;
    struct exchange *exchange = list_entry(oldest, struct exchange, place_link);
    exchange->ops->abort(exchange);
    ASSERT(all->n_of[EXCHANGE_PROBE] < all->bounds.n_probes_max);
    return true;
}

static void exchanges_take_place(struct exchanges *all, struct exchange *exchange,
                                 enum exchange_place place) {
    exchange->place = place;
    list_init(&exchange->place_link);
    all->n_of[place]++;
    if (place == EXCHANGE_PROBE)
        list_push_back(&all->probes, &exchange->place_link);
}

static void exchanges_give_place(struct exchanges *all, struct exchange *exchange) {
    all->n_of[exchange->place]--;
    if (exchange->place == EXCHANGE_WATCH)
        --*exchange->n_watches;
    list_remove(&exchange->place_link);
}

enum status exchanges_add(struct exchanges *all, struct exchange *exchange) {
    bool has_room = all->n_of[EXCHANGE_REQUEST] < all->bounds.n_max;
    if (!has_room && !exchanges_free_probe_place(all))
        return STATUS_LIMIT;
    uint32_t at = all->first_free;
    ASSERT(at < all->n_slots);
    exchanges_take_place(all, exchange, has_room ? EXCHANGE_REQUEST : EXCHANGE_PROBE);
    struct exchange_slot *slot = &all->slots[at];
    all->first_free = slot->next_free;
    slot->exchange = exchange;
    exchange->id = (uint64_t)slot->generation << 32 | at;
    all->n++;
    return STATUS_OK;
}

bool exchanges_may_stay(const struct exchange *exchange) {
    return exchange->is_probe || exchange->place != EXCHANGE_PROBE;
}

enum status exchanges_watch(struct exchanges *all, struct exchange *exchange, uint32_t n_kept) {
    ASSERT(exchange->id != 0 && exchange->place != EXCHANGE_WATCH);
    uint32_t n_free = all->bounds.n_watches_max - all->n_of[EXCHANGE_WATCH];
    if (n_free <= n_kept || *exchange->n_watches == all->bounds.n_watches_of_each)
        return STATUS_LIMIT;
    exchanges_give_place(all, exchange);
    exchanges_take_place(all, exchange, EXCHANGE_WATCH);
    ++*exchange->n_watches;
    return STATUS_OK;
}

void exchanges_remove(struct exchanges *all, struct exchange *exchange) {
    uint32_t at = (uint32_t)exchange->id;
    struct exchange_slot *slot = &all->slots[at];
    ASSERT(exchange->id != 0 && slot->exchange == exchange);
    slot->exchange = NULL;
    exchanges_give_place(all, exchange);
    all->body_bytes -= exchange->n_charged;
    exchange->n_charged = 0;
    if (++slot->generation == 0)
        slot->generation = 1;
    slot->next_free = all->first_free;
    all->first_free = at;
    all->n--;
    exchange->id = 0;
}

void exchanges_lose(struct exchanges *all, struct exchange *exchange) {
    uint64_t id = exchange->id;
    if (id == 0)
        return;
    exchanges_remove(all, exchange);
    exchange->id = id;
    if (exchange->gone)
        exchange->gone(exchange);
    exchange->id = 0;
}

void exchanges_forget_request(struct exchanges *all, struct exchange *exchange) {
    exchange->headers = NULL;
    exchange->n_headers = 0;
    exchange->method = exchange->path = exchange->query = exchange->body = "";
    exchange->n_body = 0;
    exchanges_give_body(all, exchange->n_charged);
    exchange->n_charged = 0;
}

uint32_t exchanges_count(const struct exchanges *all) {
    return all->n;
}

struct exchange *exchange_find(struct exchanges *all, uint64_t id) {
    uint32_t at = (uint32_t)id;
    if (at >= all->n_slots || all->slots[at].generation != (uint32_t)(id >> 32))
        return NULL;
    return all->slots[at].exchange;
}

const char *exchange_header(const struct exchange *exchange, const char *name) {
    return header_find(exchange->headers, exchange->n_headers, name);
}

void exchange_take_body(struct exchange *exchange, struct buf *body) {
    *body = *exchange->body_buf;
    *exchange->body_buf = (struct buf){0};
    exchange->body = "";
    exchange->n_body = 0;
    exchange->n_charged = 0; /* the caller's now */
}

bool exchanges_charge_body(struct exchanges *all, struct exchange *exchange, size_t n) {
    ASSERT(all->body_bytes >= exchange->n_charged);
    all->body_bytes += n - exchange->n_charged;
    exchange->n_charged = n;
    size_t max = all->bounds.body_bytes_max;
    return all->body_bytes <= (n > SMALL_BODY_BYTES ? max - max / 8 : max);
}

void exchanges_give_body(struct exchanges *all, size_t n) {
    ASSERT(all->body_bytes >= n);
    all->body_bytes -= n;
}

size_t exchanges_body_bytes(const struct exchanges *all) {
    return all->body_bytes;
}

void exchanges_account_output(struct exchanges *all, size_t before, size_t after) {
    ASSERT(all->output_bytes >= before);
    all->output_bytes += after - before;
}

size_t exchanges_output_bytes(const struct exchanges *all) {
    return all->output_bytes;
}

bool exchanges_output_is_full(const struct exchanges *all) {
    return all->output_bytes >= all->bounds.output_bytes_max;
}

bool exchanges_output_is_scarce(const struct exchanges *all) {
    return all->output_bytes >= all->bounds.output_bytes_max / 4 * 3;
}

bool exchanges_may_reply(const struct exchanges *all, size_t n) {
    return n <= SMALL_REPLY_BYTES || !exchanges_output_is_full(all);
}

/* For a call that wants the reply's head out (`begun`), or not yet. */
static enum status exchanges_find_for(struct exchanges *all, uint64_t id, bool begun,
                                      struct exchange **out) {
    *out = exchange_find(all, id);
    if (!*out)
        return STATUS_NOT_FOUND;
    return (*out)->begun == begun ? STATUS_OK : STATUS_CONFLICT;
}

enum status exchange_reply(struct exchanges *all, uint64_t id, const struct exchange_reply *reply) {
    struct exchange *exchange;
    TRY(exchanges_find_for(all, id, false, &exchange));
    return exchange->ops->reply(exchange, reply);
}

enum status exchange_begin_stream(struct exchanges *all, uint64_t id,
                                  const struct exchange_reply *reply) {
    struct exchange *exchange;
    TRY(exchanges_find_for(all, id, false, &exchange));
    exchange->begun = true;
    return exchange->ops->begin(exchange, reply);
}

enum status exchange_write(struct exchanges *all, uint64_t id, const void *bytes, size_t n) {
    struct exchange *exchange;
    TRY(exchanges_find_for(all, id, true, &exchange));
    return n == 0 ? STATUS_OK : exchange->ops->write(exchange, bytes, n);
}

enum status exchange_end(struct exchanges *all, uint64_t id, const struct header *trailers,
                         unsigned n_trailers) {
    struct exchange *exchange;
    TRY(exchanges_find_for(all, id, true, &exchange));
    exchange->ops->end(exchange, trailers, n_trailers);
    return STATUS_OK;
}

enum status exchange_abort(struct exchanges *all, uint64_t id) {
    struct exchange *exchange = exchange_find(all, id);
    if (!exchange)
        return STATUS_NOT_FOUND;
    exchange->ops->abort(exchange);
    return STATUS_OK;
}

size_t exchange_pending(struct exchanges *all, uint64_t id) {
    const struct exchange *exchange = exchange_find(all, id);
    return exchange ? exchange->ops->pending(exchange) : 0;
}
