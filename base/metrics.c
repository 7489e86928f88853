#include "base/metrics.h"

#include "base/assert.h"
#include "base/list.h"

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {
    [METRIC_GAUGE] = "gauge", [METRIC_COUNTER] = "counter", [METRIC_HISTOGRAM] = "histogram"};

struct metrics_family {
    struct list link;
    struct list series;
    const char *name; /* borrowed */
    const char *help; /* borrowed */
    enum metric_kind kind;
};

struct metric {
    struct list link;
    struct metrics_family *family;
    char *labels; /* owned: `a="b",c="d"`, or "" */
    atomic_uint_fast64_t count;
    _Atomic double value; /* a gauge's value, a histogram's sum */
    const double *bounds; /* borrowed (n_bounds) */
    unsigned n_bounds;
    atomic_uint_fast64_t *buckets; /* owned (n_bounds): not cumulative */
};

struct metrics {
    struct list families;
    uint32_t n_series;
    uint32_t n_series_max;
    struct metric *dropped; /* counts refused registrations; has its own series */
    struct metric nobody;   /* what refused callers write to */
    struct metrics_family nowhere;
};

static void metrics_free_one(struct metric *metric) {
    free(metric->labels);
    free(metric->buckets);
    free(metric);
}

enum status metrics_new(uint32_t n_series_max, struct metrics **out) {
    struct metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics)
        return STATUS_NOMEM;
    list_init(&metrics->families);
    list_init(&metrics->nobody.link);
    metrics->nobody.family = &metrics->nowhere;
    metrics->n_series_max = n_series_max + 1;
    metrics->dropped = metrics_counter(
        metrics, (struct metric_spec){.name = "tandem_metrics_dropped_total",
                                      .help = "Series refused because the registry was full."});
    *out = metrics;
    return STATUS_OK;
}

void metrics_free(struct metrics *metrics) {
    if (!metrics)
        return;
    list_each_entry(family, &metrics->families, struct metrics_family, link) {
        list_each(s, &family->series) {
            metrics_free_one(list_entry(s, struct metric, link));
        }
        free(family);
    }
    free(metrics);
}

/* Label values may hold anything; the format has escapes for these three. */
static void metrics_write_escaped(struct buf *out, const char *text, bool quotes) {
    for (; *text; text++) {
        if (*text == '\\')
            buf_puts(out, "\\\\");
        else if (*text == '\n')
            buf_puts(out, "\\n");
        else if (*text == '"' && quotes)
            buf_puts(out, "\\\"");
        else
            buf_putc(out, *text);
    }
}

static char *metrics_render_labels(struct metric_spec spec) {
    struct buf text;
    buf_init(&text, 4096);
    buf_puts(&text, "");
    for (unsigned i = 0; i < spec.n_labels; i++) {
        buf_printf(&text, "%s%s=\"", i ? "," : "", spec.labels[i].name);
        metrics_write_escaped(&text, spec.labels[i].value, true);
        buf_putc(&text, '"');
    }
    return buf_take(&text);
}

static struct metrics_family *metrics_find_family(struct metrics *metrics, struct metric_spec spec,
                                                  enum metric_kind kind) {
    list_each_entry(family, &metrics->families, struct metrics_family, link) {
        if (strcmp(family->name, spec.name) != 0)
            continue;
        ASSERT(family->kind == kind);
        return family;
    }
    struct metrics_family *family = calloc(1, sizeof *family);
    if (!family)
        return NULL;
    *family = (struct metrics_family){.name = spec.name, .help = spec.help, .kind = kind};
    list_init(&family->series);
    list_push_back(&metrics->families, &family->link);
    return family;
}

static struct metric *metrics_refuse(struct metrics *metrics) {
    if (metrics->dropped)
        metric_add(metrics->dropped, 1);
    return &metrics->nobody;
}

static struct metric *metrics_add_series(struct metrics *metrics, struct metric_spec spec,
                                         enum metric_kind kind, const double *bounds,
                                         unsigned n_bounds) {
    struct metrics_family *family = metrics_find_family(metrics, spec, kind);
    char *labels = metrics_render_labels(spec);
    if (!family || !labels) {
        free(labels);
        return metrics_refuse(metrics);
    }
    list_each_entry(metric, &family->series, struct metric, link) {
        if (strcmp(metric->labels, labels) == 0) {
            free(labels);
            return metric;
        }
    }
    struct metric *metric =
        metrics->n_series < metrics->n_series_max ? calloc(1, sizeof *metric) : NULL;
    atomic_uint_fast64_t *buckets = n_bounds ? calloc(n_bounds, sizeof *buckets) : NULL;
    if (!metric || (n_bounds && !buckets)) {
        free(labels);
        free(metric);
        free(buckets);
        return metrics_refuse(metrics);
    }
    metric->family = family;
    metric->labels = labels;
    metric->bounds = bounds;
    metric->n_bounds = n_bounds;
    metric->buckets = buckets;
    list_push_back(&family->series, &metric->link);
    metrics->n_series++;
    return metric;
}

struct metric *metrics_counter(struct metrics *metrics, struct metric_spec spec) {
    return metrics_add_series(metrics, spec, METRIC_COUNTER, NULL, 0);
}

struct metric *metrics_gauge(struct metrics *metrics, struct metric_spec spec) {
    return metrics_add_series(metrics, spec, METRIC_GAUGE, NULL, 0);
}

struct metric *metrics_histogram(struct metrics *metrics, struct metric_spec spec,
                                 const double *bounds, unsigned n_bounds) {
    ASSERT(n_bounds > 0);
    return metrics_add_series(metrics, spec, METRIC_HISTOGRAM, bounds, n_bounds);
}

#define LABELS_MAX 4

void metrics_add_rows(struct metrics *metrics, const struct metric_row *rows, size_t n,
                      const struct metric_label *labels, unsigned n_labels,
                      struct metric **series) {
    for (size_t i = 0; i < n; i++) {
        const struct metric_row *row = &rows[i];
        struct metric_label all[LABELS_MAX];
        unsigned n_all = n_labels + row->n_labels;
        ASSERT(n_all <= LABELS_MAX);
        ASSERT((row->kind == METRIC_HISTOGRAM) == (row->n_bounds > 0));
        for (unsigned k = 0; k < n_all; k++)
            all[k] = k < n_labels ? labels[k] : row->labels[k - n_labels];
        struct metric_spec spec = {row->name, row->help, all, n_all};
        series[i] = metrics_add_series(metrics, spec, row->kind, row->bounds, row->n_bounds);
    }
}

static void metrics_take_figure(const struct metric_row *row, struct metric *metric,
                                const void *figure) {
    uint64_t whole = row->type == METRIC_UINT32   ? *(const uint32_t *)figure
                     : row->type == METRIC_UINT64 ? *(const uint64_t *)figure
                                                  : 0;
    double value = row->type == METRIC_DOUBLE ? *(const double *)figure : (double)whole;
    if (row->kind == METRIC_GAUGE)
        metric_set(metric, value);
    else if (row->kind == METRIC_HISTOGRAM && !isnan(value))
        metric_observe(metric, value);
    else if (row->kind == METRIC_COUNTER && whole > metric_count(metric))
        metric_add(metric, whole - metric_count(metric));
}

void metric_rows_take(const struct metric_row *rows, size_t n, struct metric *const *series,
                      const void *figures) {
    for (size_t i = 0; i < n; i++)
        metrics_take_figure(&rows[i], series[i], (const char *)figures + rows[i].at);
}

void metrics_remove(struct metrics *metrics, struct metric *metric) {
    if (!metric || metric == &metrics->nobody)
        return;
    list_remove(&metric->link);
    metrics_free_one(metric);
    metrics->n_series--;
}

void metric_add(struct metric *metric, uint64_t n) {
    atomic_fetch_add_explicit(&metric->count, n, memory_order_relaxed);
}

void metric_set(struct metric *metric, double value) {
    atomic_store_explicit(&metric->value, value, memory_order_relaxed);
}

void metric_observe(struct metric *metric, double value) {
    double sum = atomic_load_explicit(&metric->value, memory_order_relaxed);
    atomic_store_explicit(&metric->value, sum + value, memory_order_relaxed);
    metric_add(metric, 1);
    for (unsigned i = 0; i < metric->n_bounds; i++) {
        if (value <= metric->bounds[i]) {
            atomic_fetch_add_explicit(&metric->buckets[i], 1, memory_order_relaxed);
            return;
        }
    }
}

uint64_t metric_count(const struct metric *metric) {
    return atomic_load_explicit(&metric->count, memory_order_relaxed);
}

static void metrics_write_number(struct buf *out, double value) {
    if (isnan(value))
        buf_puts(out, "NaN");
    else if (isinf(value))
        buf_puts(out, value > 0 ? "+Inf" : "-Inf");
    else if (value == floor(value) && fabs(value) < 1e15)
        buf_printf(out, "%.0f", value);
    else
        buf_printf(out, "%.15g", value);
}

static void metrics_write_head(const struct metric *metric, struct buf *out, const char *suffix) {
    buf_puts(out, metric->family->name);
    buf_puts(out, suffix);
    if (metric->labels[0])
        buf_printf(out, "{%s}", metric->labels);
    buf_putc(out, ' ');
}

static void metrics_write_histogram(const struct metric *metric, struct buf *out) {
    const char *name = metric->family->name;
    const char *comma = metric->labels[0] ? "," : "";
    uint64_t seen = 0;
    for (unsigned i = 0; i < metric->n_bounds; i++) {
        seen += atomic_load_explicit(&metric->buckets[i], memory_order_relaxed);
        buf_printf(out, "%s_bucket{%s%sle=\"%.15g\"} %llu\n", name, metric->labels, comma,
                   metric->bounds[i], (unsigned long long)seen);
    }
    unsigned long long n = (unsigned long long)metric_count(metric);
    buf_printf(out, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, metric->labels, comma, n);
    metrics_write_head(metric, out, "_sum");
    metrics_write_number(out, atomic_load_explicit(&metric->value, memory_order_relaxed));
    buf_putc(out, '\n');
    metrics_write_head(metric, out, "_count");
    buf_printf(out, "%llu\n", n);
}

static void metrics_write_series(const struct metric *metric, struct buf *out) {
    if (metric->family->kind == METRIC_HISTOGRAM) {
        metrics_write_histogram(metric, out);
        return;
    }
    metrics_write_head(metric, out, "");
    if (metric->family->kind == METRIC_COUNTER)
        buf_printf(out, "%llu", (unsigned long long)metric_count(metric));
    else
        metrics_write_number(out, atomic_load_explicit(&metric->value, memory_order_relaxed));
    buf_putc(out, '\n');
}

void metrics_write(const struct metrics *metrics, struct buf *out) {
    list_each_entry(family, &metrics->families, const struct metrics_family, link) {
        if (list_empty(&family->series))
            continue;
        buf_printf(out, "# HELP %s ", family->name);
        metrics_write_escaped(out, family->help, false);
        buf_printf(out, "\n# TYPE %s %s\n", family->name, kind_names[family->kind]);
        list_each(s, &family->series) {
            metrics_write_series(list_entry(s, struct metric, link), out);
        }
    }
}
