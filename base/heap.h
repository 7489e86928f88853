/* base/heap.h: a least-first binary heap of 64-bit entries in an array of the caller's. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The array has room for one more; *n counts it then. */
static inline void heap_push(uint64_t *heap, size_t *n, uint64_t entry) {
    size_t at = (*n)++;
    while (at > 0 && heap[(at - 1) / 2] > entry) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = entry;
}

/* Takes the least entry out; *n > 0. */
static inline uint64_t heap_pop(uint64_t *heap, size_t *n) {
    uint64_t least = heap[0];
    uint64_t last = heap[--*n];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= *n)
            break;
        if (child + 1 < *n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= last)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return least;
}
