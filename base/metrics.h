/* base/metrics.h: counters, gauges and histograms, written in Prometheus' text format 0.0.4.
 *
 * Families (name, help, type) and series (a family's label values) are bounded: past the bound a
 * call answers a metric that is not exported, and tandem_metrics_dropped_total goes up. Label
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

/* bounds: (n_bounds), ascending upper bounds, borrowed for life; +Inf is added. */
struct metric *metrics_histogram(struct metrics *metrics, struct metric_spec spec,
                                 const double *bounds, unsigned n_bounds);

/* A metric that shows a member of a struct: a table of such rows is registered and brought up to
 * date as a whole, so a figure costs its member, its row and the line that counts. */
struct metric_row {
    const char *name; /* constants, as in struct metric_spec */
    const char *help;
    enum metric_kind { METRIC_GAUGE, METRIC_COUNTER, METRIC_HISTOGRAM } kind;
    enum metric_type { METRIC_UINT32, METRIC_UINT64, METRIC_DOUBLE } type;
    size_t at;            /* METRIC_AT() gives both */
    const double *bounds; /* a histogram's (n_bounds) */
    unsigned n_bounds;
    const struct metric_label *labels; /* (n_labels) behind those that all rows have */
    unsigned n_labels;
};

#define METRIC_AT(owner, member)                                                                   \
    .at = offsetof(owner, member), .type = _Generic(((owner *)0)->member, uint32_t                 \
                                                    : METRIC_UINT32, uint64_t                      \
                                                    : METRIC_UINT64, double                        \
                                                    : METRIC_DOUBLE)

/* Fills series (n), which all have `labels` in front of their own. */
void metrics_add_rows(struct metrics *metrics, const struct metric_row *rows, size_t n,
                      const struct metric_label *labels, unsigned n_labels, struct metric **series);

/* Takes the rows' members of `figures` over: a gauge shows it, a counter goes up to it, a histogram
 * observes it (but no NaN). */
void metric_rows_take(const struct metric_row *rows, size_t n, struct metric *const *series,
                      const void *figures);

void metrics_remove(struct metrics *metrics, struct metric *metric); /* a worker left */

void metric_add(struct metric *metric, uint64_t n);       /* counters */
void metric_set(struct metric *metric, double value);     /* gauges */
void metric_observe(struct metric *metric, double value); /* histograms */
uint64_t metric_count(const struct metric *metric);       /* a counter, or observations */

/* Appends everything, families in order of registration. */
void metrics_write(const struct metrics *metrics, struct buf *out);
#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
