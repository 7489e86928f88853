#include "router/core/timers.h"

#include "base/assert.h"

#include <stdlib.h>

enum status timers_init(struct timers *timers, uint32_t capacity) {
    ASSERT(capacity > 0);
    *timers = (struct timers){.capacity = capacity};
    timers->heap = calloc(capacity, sizeof *timers->heap);
    timers->place = calloc(capacity, sizeof *timers->place);
    timers->at_ns = calloc(capacity, sizeof *timers->at_ns);
    if (!timers->heap || !timers->place || !timers->at_ns) {
        timers_fini(timers);
        return STATUS_NOMEM;
    }
    for (uint32_t i = 0; i < capacity; i++)
        timers->place[i] = capacity;
    return STATUS_OK;
}

void timers_fini(struct timers *timers) {
    if (!timers)
        return;
    free(timers->heap);
    free(timers->place);
    free(timers->at_ns);
    *timers = (struct timers){0};
}

static void timers_put(struct timers *timers, uint32_t at, uint32_t i) {
    timers->heap[at] = i;
    timers->place[i] = at;
}

static void timers_rise(struct timers *timers, uint32_t at, uint32_t i) {
    while (at > 0) {
        uint32_t parent = (at - 1) / 2;
        if (timers->at_ns[timers->heap[parent]] <= timers->at_ns[i])
            break;
        timers_put(timers, at, timers->heap[parent]);
        at = parent;
    }
    timers_put(timers, at, i);
}

static void timers_sink(struct timers *timers, uint32_t at, uint32_t i) {
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= timers->n)
            break;
        if (child + 1 < timers->n &&
            timers->at_ns[timers->heap[child + 1]] < timers->at_ns[timers->heap[child]])
            child++;
        if (timers->at_ns[timers->heap[child]] >= timers->at_ns[i])
            break;
        timers_put(timers, at, timers->heap[child]);
        at = child;
    }
    timers_put(timers, at, i);
}

static void timers_take_out(struct timers *timers, uint32_t i) {
    uint32_t at = timers->place[i];
    uint32_t last = timers->heap[--timers->n];
    timers->place[i] = timers->capacity;
    if (last == i)
        return;
    timers_sink(timers, at, last);
    timers_rise(timers, timers->place[last], last);
}

void timers_set(struct timers *timers, uint32_t i, uint64_t at_ns) {
    ASSERT(i < timers->capacity);
    if (timers->place[i] != timers->capacity)
        timers_take_out(timers, i);
    if (at_ns == TIMERS_NEVER)
        return;
    timers->at_ns[i] = at_ns;
    timers_rise(timers, timers->n++, i);
}

void timers_pull(struct timers *timers, uint32_t i, uint64_t at_ns) {
    ASSERT(i < timers->capacity);
    if (timers->place[i] == timers->capacity || at_ns < timers->at_ns[i])
        timers_set(timers, i, at_ns);
}

uint64_t timers_next(const struct timers *timers) {
    return timers->n > 0 ? timers->at_ns[timers->heap[0]] : TIMERS_NEVER;
}

uint32_t timers_pop(struct timers *timers, uint64_t now_ns) {
    if (timers->n == 0 || timers->at_ns[timers->heap[0]] > now_ns)
        return UINT32_MAX;
    uint32_t i = timers->heap[0];
    timers_take_out(timers, i);
    return i;
}
