/* router/trace/traceparent.h: the trace that a request belongs to, as W3C Trace Context has it in the
 * headers `traceparent` and `tracestate` (https://www.w3.org/TR/trace-context/), and whether it is
 * recorded. Pure. */
#pragma once

#include "base/random.h"
#include "proto/message.h"

#include <stdbool.h>

#define TRACEPARENT_BYTES 56 /* "00-", 32 digits, 16, 2, with dashes between, and NUL */
#define TRACE_STATE_BYTES                                                                          \
    512 /* of a tracestate that is kept, without NUL: what the standard asks for */
#define TRACE_FLAG_SAMPLED 1u

/* False, and *trace as it was: not one, or none whose ids are not zero. trace->span_id is the
 * caller's. Of a version that is not known yet what is known is read. */
bool traceparent_read(const char *text, struct trace *trace);

/* Random ids, of which none is zero; no flags. */
void traceparent_draw(struct random *random, struct trace *trace);
void traceparent_draw_span(struct random *random, uint8_t span_id[MESSAGE_SPAN_BYTES]);

/* Is a trace that begins here one of those that are recorded, of all the share `ratio` (0 to 1)? As
 * OpenTelemetry's TraceIdRatioBased: by the last eight bytes of its id, so that all programs with one
 * ratio agree, and those with a larger one record it, too. */
bool traceparent_is_within(const struct trace *trace, double ratio);

/* May it be kept: printable ASCII, at most TRACE_STATE_BYTES? */
bool traceparent_keeps_state(const char *state);

/* A share as options have it: "0.25". False: no number of 0 to 1. */
bool traceparent_read_ratio(const char *text, double *ratio);
