/* router/trace/tracer.h: brings spans to a collector, by OTLP over HTTP
 * (https://opentelemetry.io/docs/specs/otlp/#otlphttp).
 *
 * Spans wait in a bounded queue, and go in batches over one kept connection, one batch at a time. A
 * collector that is slow, gone or full costs no request anything: what the queue does not hold is
 * dropped and counted. Nothing here blocks: names are asked for by a thread (base/net/dns.h). Loop's
 * thread only. */
#pragma once

#include "base/client/http_url.h"
#include "base/error.h"
#include "base/status.h"
#include "router/trace/trace_queue.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct trace;
struct trace_span;
struct tracer;

#define TRACER_ANSWER_BYTES (64u << 10) /* of a collector's answer; the rest is not read */

/* Zeros are the defaults. */
struct tracer_times {
    uint64_t gather_ns;      /* 1 s: from a batch's first span until it is sent */
    uint64_t answer_ns;      /* 10 s: a request that was not answered has failed then */
    uint64_t backoff_ns_min; /* 1 s, twice as long after each failure, */
    uint64_t backoff_ns_max; /* 30 s at most */
    uint64_t retry_ns;       /* 60 s: a batch that was tried for so long is given up */
    uint64_t end_ns;         /* 1 s: all that tracer_end() takes */
};

struct tracer_config {
    const char *url;                /* as tracer_read_url() has it */
    const char *header;             /* "name: value" of each request; "": none. Borrowed for life */
    double ratio;                   /* of the traces that begin here: those that are recorded */
    struct trace_resource resource; /* borrowed for life */
    struct tracer_times times;
};

/* "http://HOST:PORT/PATH" or https://. Without a path it is /v1/traces, as OTLP has it behind a
 * collector's address. STATUS_INVALID says what is wrong. */
NODISCARD enum status tracer_read_url(const char *text, struct http_url *url, struct error *error);

/* What is wrong with a header "name: value"; NULL: nothing. */
const char *tracer_header_fault(const char *header);

/* Errors, too, as http_url_open() with the system's roots, and dns_new(). */
NODISCARD enum status tracer_new(struct loop *loop, const struct tracer_config *config,
                                 struct tracer **tracer, struct error *error);
void tracer_free(struct tracer *tracer); /* what was not sent is gone; NULL is fine */

/* Is a trace that begins here to be recorded? */
bool tracer_records(const struct tracer *tracer, const struct trace *trace);

/* Copies the span, or drops and counts it. */
void tracer_add(struct tracer *tracer, const struct trace_span *span);

/* Nothing comes any more: sends what is left, without waiting and each batch once. */
void tracer_end(struct tracer *tracer);
/* After tracer_end(): nothing is left, or its time is over. */
bool tracer_has_ended(const struct tracer *tracer);

/* What became of all spans. They only grow. */
struct tracer_counts {
    uint64_t n_sent;
    uint64_t n_dropped; /* the queue was full, or memory short */
    uint64_t n_failed;  /* the collector did not take them */
};
struct tracer_counts tracer_counts(const struct tracer *tracer); /* NULL: all zero */
