/* router/trace/trace_span.h: what is told of a request that has ended, as a span of OpenTelemetry
 * (proto/otlp.proto). Pure. */
#pragma once

#include "base/status.h"
#include "proto/message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

#define TRACE_ATTRIBUTES_MAX 32
#define TRACE_EVENTS_MAX     12
#define TRACE_TEXT_BYTES     1024 /* of a text of a span; longer ones are cut */
#define TRACE_TEXTS_MAX      64   /* of a list of texts; the rest is left out */

struct trace_attribute {
    const char *key; /* a constant */
    enum { TRACE_TEXT, TRACE_NUMBER, TRACE_REAL, TRACE_TEXTS } kind;
    const char *text; /* borrowed */
    int64_t number;
    double real;
    const char *const *texts; /* borrowed (n_texts) */
    uint32_t n_texts;
};

struct trace_span {
    struct trace trace; /* with the span's own id */
    bool has_parent;
    uint8_t parent_id[MESSAGE_SPAN_BYTES]; /* the caller's, of another process */
    const char *state;                     /* borrowed: tracestate; NULL: none */
    const char *name;                      /* borrowed */
    uint64_t start_ns, end_ns;             /* Unix time */
    struct trace_attribute attributes[TRACE_ATTRIBUTES_MAX];
    uint32_t n_attributes;
    struct {
        const char *name; /* a constant */
        uint64_t at_ns;   /* Unix time */
    } events[TRACE_EVENTS_MAX];
    uint32_t n_events;
    const char *error; /* borrowed: it failed, so; NULL: it did not */
};

/* These add an attribute; a text that is NULL or "" is left out. */
void trace_span_text(struct trace_span *span, const char *key, const char *text);
void trace_span_number(struct trace_span *span, const char *key, int64_t number);
void trace_span_real(struct trace_span *span, const char *key, double real);
void trace_span_texts(struct trace_span *span, const char *key, const char *const *texts,
                      uint32_t n);

/* At most at the span's end, which is to be known. */
void trace_span_event(struct trace_span *span, const char *name, uint64_t at_ns);

/* Appends the bytes of a message Span. What is no UTF-8 in its texts becomes '?', since a collector
 * may refuse all that comes with it. STATUS_NOMEM, STATUS_LIMIT by the buf. */
NODISCARD enum status trace_span_pack(const struct trace_span *span, struct buf *out);
