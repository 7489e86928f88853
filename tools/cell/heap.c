#include "tools/cell/heap.h"

#include <stdbool.h>
#include <stdlib.h>

static bool cell_heap_before(const struct cell_event *a, const struct cell_event *b) {
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->serial < b->serial;
}

void heap_push(struct heap *heap, const struct cell_event *event) {
    if (heap->n == heap->capacity) {
        uint32_t capacity = heap->capacity ? 2 * heap->capacity : 1024;
        struct cell_event *events = realloc(heap->events, capacity * sizeof *events);
        if (!events)
            abort();
        heap->events = events;
        heap->capacity = capacity;
    }
    uint32_t at = heap->n++;
    while (at > 0 && cell_heap_before(event, &heap->events[(at - 1) / 2])) {
        heap->events[at] = heap->events[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->events[at] = *event;
}

struct cell_event heap_pop(struct heap *heap) {
    struct cell_event first = heap->events[0], last = heap->events[--heap->n];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= heap->n)
            break;
        if (child + 1 < heap->n && cell_heap_before(&heap->events[child + 1], &heap->events[child]))
            child++;
        if (!cell_heap_before(&heap->events[child], &last))
            break;
        heap->events[at] = heap->events[child];
        at = child;
    }
    heap->events[at] = last;
    return first;
}

void heap_fini(struct heap *heap) {
    free(heap->events);
    *heap = (struct heap){0};
}
