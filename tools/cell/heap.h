/* tools/cell/heap.h: what happens when, on a virtual clock: events in order of (time, serial number).
 *
 * Who pushes gives each event a serial number of its own, rising, so that events of one moment keep their order and a
 * run repeats exactly. Grows by doubling; aborts without memory. One owner thread. */
#pragma once

#include <stdint.h>

/* Types below are those of the network (net.h); the others are their users' own. */
enum { CELL_PACKET = 1, CELL_STRAY, CELL_BROKEN, CELL_TYPES };

#define CELL_NO_NODE UINT32_MAX

struct cell_event {
    uint64_t at_ns;
    uint64_t serial;
    unsigned type;
    uint32_t node; /* the node that it is for, or CELL_NO_NODE */
    uint32_t a;
    uint32_t b;
    uint64_t c;
};

struct heap {
    struct cell_event *events; /* owned */
    uint32_t n;
    uint32_t capacity;
};

void heap_push(struct heap *heap, const struct cell_event *event);
struct cell_event heap_pop(struct heap *heap); /* of a heap that is not empty */
void heap_fini(struct heap *heap);
