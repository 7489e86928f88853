/* router/trace/trace_queue.h: spans that wait to be sent, in the order in which they came.
 *
 * Bounded by number and bytes over all: where it is full the newest is not taken, so that memory
 * and time of a router do not depend on its collector. Loop's thread only. */
#pragma once

#include "base/list.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct trace_span;

#define TRACE_QUEUE_SPANS 2048u
#define TRACE_QUEUE_BYTES (4u << 20)
#define TRACE_BATCH_SPANS 512u
#define TRACE_BATCH_BYTES (512u << 10)

struct trace_queue {
    struct list spans; /* of struct trace_queued, the oldest first */
    uint32_t n;
    size_t n_bytes; /* of spans as the wire has them */
};

/* Who sends. Borrowed; "" is left out. */
struct trace_resource {
    const char *service;  /* service.name */
    const char *version;  /* service.version, also of the scope */
    const char *instance; /* service.instance.id */
    const char *host;     /* host.name */
};

void trace_queue_init(struct trace_queue *queue);
void trace_queue_fini(struct trace_queue *queue);

/* STATUS_BUSY: the queue is full. STATUS_NOMEM. */
NODISCARD enum status trace_queue_add(struct trace_queue *queue, const struct trace_span *span);

/* Takes the oldest spans, at most TRACE_BATCH_SPANS and, beyond the first, TRACE_BATCH_BYTES, and
 * appends the request that brings them to a collector. *n_spans: how many were taken, also where it
 * fails: STATUS_NOMEM. The queue is not empty. */
NODISCARD enum status trace_queue_take(struct trace_queue *queue,
                                       const struct trace_resource *resource, struct buf *out,
                                       uint32_t *n_spans);

/* Reads a collector's answer, of any bytes: how many spans of a request that it took it did not want,
 * and why, for people (size bytes). 0 and "" also where it is none. */
uint64_t trace_queue_read_answer(const void *bytes, size_t n, char *why, size_t size);
