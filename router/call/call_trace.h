/* router/call/call_trace.h: the trace that a call belongs to, and its span. Loop's thread only. */
#pragma once

#include "base/error.h"
#include "base/log/note.h"
#include "proto/message.h"
#include "router/trace/trace_span.h"

#include <stdbool.h>
#include <stdint.h>

struct call;
struct exchange;

struct call_trace {
    bool is_known;      /* it belongs to one: log and workers are told */
    bool is_recorded;   /* and the collector */
    bool has_parent;    /* its client says so */
    struct trace trace; /* with the call's own span, or its client's where none is made here */
    uint8_t parent_id[MESSAGE_SPAN_BYTES];
    char *state; /* owned: tracestate, of a call that is recorded; NULL: none */
};

/* Takes up the trace of the request's headers. Where traces are sent to a collector, a request without one begins its own. */
void call_trace_begin(struct call *call, const struct exchange *exchange);

/* A span, and the texts that it borrows beside the call's. */
struct call_span {
    struct trace_span span;
    char name[320];
    char error[ERROR_TEXT_MAX];
    char attempt[NOTE_ID_MAX];
    const char *finishes[TRACE_TEXTS_MAX];
};

/* What there is to tell of a call that is over. `http`: the status that its client saw, 499 for one
 * that left. */
void call_trace_make(const struct call *call, unsigned http, struct call_span *made);

/* Gives it to the tracer, if the call is recorded. */
void call_trace_done(const struct call *call, unsigned http);

void call_trace_fini(struct call_trace *trace);
