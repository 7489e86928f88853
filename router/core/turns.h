/* router/core/turns.h: whose request is next among those that wait: that of the tenant whose requests took the
 * fewest tokens.
 *
 * Every request is some tenant's (struct request_spec). What a tenant has taken is counted: the prompt of a
 * request when it is first sent to a worker, and each token that it generates. Tenants that wait take turns by
 * that count, within one priority; one that comes late begins with the least count of those that wait,
 * so it neither waits for what others took before nor makes up for it. This is VTC of Sheng et al., "Fairness
 * in Serving Large Language Models" (OSDI 2024), prompt and generated tokens weighing the same.
 *
 * The requests of one tenant stand by priority, then arrival: with one tenant that is the order of all. One that
 * had a worker before comes before all that had none, of any tenant. Only turns_init() allocates; an operation
 * takes time by the logarithm of the number of tenants that wait. */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "base/status.h"
#include "router/core/timers.h"

#include <stdint.h>

struct request;

struct tenant {
    uint64_t key;        /* as requests name it */
    uint32_t n_requests; /* that live; 0: the count is kept until the place is needed */
    uint32_t n_waiting;  /* of them that wait; the others have a worker */
    uint32_t place;      /* in the heap, or TENANT_NONE */
    uint64_t n_served;   /* tokens */
    struct list waiting; /* of struct request.turn */
    struct list *cursor; /* the first of them that was not looked at; the head: there is none */
    struct list link;    /* idle, or looked at; else empty */
};

#define TENANT_NONE UINT32_MAX

struct turns {
    struct tenant *all; /* owned (capacity) */
    uint32_t capacity;
    uint32_t n_fresh;      /* were used before */
    struct map by_key;     /* to an index of `all` */
    struct list idle;      /* tenants without requests, the longest without any first */
    struct list looked_at; /* tenants whose cursor is not at their first */
    struct tenant **heap;  /* owned (capacity): with a cursor at a request, the next one first */
    uint32_t n_heap;
    struct timers least; /* n_served of tenants that wait: the least is at hand */
    uint64_t n_floor;    /* tokens: what a tenant begins with where nobody waits */
};

/* `capacity`: requests that live at once, and so tenants. */
NODISCARD enum status turns_init(struct turns *turns, uint32_t capacity, uint64_t seed);
void turns_fini(struct turns *turns);

/* A request lives; and no longer. */
void turns_join(struct turns *turns, struct request *req);
void turns_leave(struct turns *turns, struct request *req);

/* It waits; and no longer. */
void turns_add(struct turns *turns, struct request *req);
void turns_remove(struct turns *turns, struct request *req);

/* Its tenant has taken n tokens more. */
void turns_charge(struct turns *turns, const struct request *req, uint32_t n);

/* Whether a request of this tenant has a worker. */
bool turns_serves(const struct turns *turns, uint64_t tenant);

/* The next one that waits and was not looked at yet, or NULL. It may be removed before the next call. */
struct request *turns_next(struct turns *turns);
/* Nor are those behind it of its tenant looked at: what keeps this one waiting, which turns_next()
 * answered last, keeps them. */
void turns_pass(struct turns *turns, const struct request *req);
/* Nobody has been looked at. */
void turns_rewind(struct turns *turns);

/* NULL, or what is broken; `n_waiting`: how many wait. For tests. */
const char *turns_check(const struct turns *turns, uint32_t n_waiting);
