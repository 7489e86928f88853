/* base/ring.h: a bounded ring of fixed-size items between exactly two threads.
 *
 * One thread pushes, one pops; neither ever waits. Only ring_init() allocates. */
#pragma once

#include "base/assert.h"
#include "base/checked.h"
#include "base/status.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct ring {
    unsigned char *items; /* owned (n_slots, item_bytes) */
    uint32_t item_bytes;
    uint32_t n_slots; /* power of two */
    /* Each end's counter on a cache line of its own: they are written by different threads. */
    alignas(64) atomic_uint_fast32_t head; /* next to pop; written by the popper */
    alignas(64) atomic_uint_fast32_t tail; /* next to push; written by the pusher */
};

/* Room for at least n_items (up to 2^30), rounded up to a power of two. */
NODISCARD static inline enum status ring_init(struct ring *ring, uint32_t n_items,
                                              uint32_t item_bytes) {
    ASSERT(n_items > 0 && n_items <= 1u << 30 && item_bytes > 0);
    uint32_t n_slots = 1;
    while (n_slots < n_items)
        n_slots *= 2;
    memset(ring, 0, sizeof *ring);
    ring->items = calloc(n_slots, item_bytes);
    ring->item_bytes = item_bytes;
    ring->n_slots = n_slots;
    return ring->items ? STATUS_OK : STATUS_NOMEM;
}

static inline void ring_fini(struct ring *ring) {
    free(ring->items);
    ring->items = NULL;
}

/* Pusher only. Copies *item in; false when the ring is full. */
NODISCARD static inline bool ring_push(struct ring *ring, const void *item) {
    uint32_t tail = (uint32_t)atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint32_t head = (uint32_t)atomic_load_explicit(&ring->head, memory_order_acquire);
    if (tail - head == ring->n_slots)
        return false;
    memcpy(ring->items + (size_t)(tail & (ring->n_slots - 1)) * ring->item_bytes, item,
           ring->item_bytes);
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    return true;
}

/* Popper only. Copies the oldest item out; false when the ring is empty. */
NODISCARD static inline bool ring_pop(struct ring *ring, void *item) {
    uint32_t head = (uint32_t)atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint32_t tail = (uint32_t)atomic_load_explicit(&ring->tail, memory_order_acquire);
    if (tail == head)
        return false;
    memcpy(item, ring->items + (size_t)(head & (ring->n_slots - 1)) * ring->item_bytes,
           ring->item_bytes);
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return true;
}

/* Either thread: how many items are there, about. */
static inline uint32_t ring_count(struct ring *ring) {
    return (uint32_t)atomic_load(&ring->tail) - (uint32_t)atomic_load(&ring->head);
}
