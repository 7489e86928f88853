/* base/metrics.h: counters, gauges and histograms, written in Prometheus' text format 0.0.4.
 *
 * Families (name, help, type) and series (a family's label values) are bounded: past the bound a
 * call answers a metric that counts for nobody, and tandem_metrics_dropped_total goes up. Label
 * values come from bounded sets, never from requests. Registering, removing and writing belong to
 * one thread; counters may be added to by any, gauges and histograms by one thread each. */
#pragma once

#include "base/buf.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct metrics;
struct metric; /* one series; valid until metrics_free() or metrics_remove() */

struct metric_label {
    const char *name;
    const char *value; /* copied; any text */
};

/* `labels` may be NULL when n_labels is 0. A series that exists already is answered again. */
struct metric_spec {
    const char *name; /* borrowed for life, like help: string constants */
    const char *help;
    const struct metric_label *labels;
    unsigned n_labels;
};

NODISCARD enum status metrics_new(uint32_t n_series_max, struct metrics **metrics);
void metrics_free(struct metrics *metrics); /* NULL is fine */

struct metric *metrics_counter(struct metrics *metrics, struct metric_spec spec);
struct metric *metrics_gauge(struct metrics *metrics, struct metric_spec spec);

/* A gauge read when it is written out. */
struct metric *metrics_gauge_fn(struct metrics *metrics, struct metric_spec spec,
                                double (*fn)(void *user), void *user);

/* bounds: (n_bounds), ascending upper bounds, borrowed for life; +Inf is added. */
struct metric *metrics_histogram(struct metrics *metrics, struct metric_spec spec,
                                 const double *bounds, unsigned n_bounds);
void metrics_remove(struct metrics *metrics, struct metric *metric); /* a worker left */

void metric_add(struct metric *metric, uint64_t n);       /* counters */
void metric_set(struct metric *metric, double value);     /* gauges */
void metric_observe(struct metric *metric, double value); /* histograms */
uint64_t metric_count(const struct metric *metric);       /* a counter, or observations */

/* Appends everything, families in order of registration. */
void metrics_write(const struct metrics *metrics, struct buf *out);
#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
