#include "tools/bench/report.h"

#include "base/assert.h"
#include "base/clock.h"

#include <stdlib.h>

static enum status samples_init(struct samples *samples, uint32_t size) {
    *samples = (struct samples){.size = size};
    samples->at = calloc(size, sizeof *samples->at);
    return samples->at ? STATUS_OK : STATUS_NOMEM;
}

enum status report_init(struct report *report, uint32_t n_requests) {
    *report = (struct report){0};
    struct samples *all[] = {&report->ttft, &report->itl, &report->latency, &report->late};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        if (samples_init(all[i], n_requests) != STATUS_OK) {
            report_fini(report);
            return STATUS_NOMEM;
        }
    }
    return STATUS_OK;
}

void report_fini(struct report *report) {
    free(report->ttft.at);
    free(report->itl.at);
    free(report->latency.at);
    free(report->late.at);
    *report = (struct report){0};
}

static void add(struct samples *samples, double ns, double weight) {
    ASSERT(samples->n < samples->size);
    samples->at[samples->n++] = (struct sample){.value = ns / 1e6, .weight = weight};
}

void report_add(struct report *report, const struct stream_result *result) {
    if (report->begin_ns == 0 || (result->sent_ns && result->sent_ns < report->begin_ns))
        report->begin_ns = result->sent_ns;
    if (result->end_ns > report->end_ns)
        report->end_ns = result->end_ns;
    if (result->status != STATUS_OK) {
        if (report->n_failed++ == 0)
            report->first_error = result->error;
        return;
    }
    report->n_ok++;
    report->n_prompt_tokens += result->n_prompt;
    report->n_tokens += result->n_tokens;
    add(&report->latency, (double)(result->end_ns - result->sent_ns), 1);
    add(&report->late,
        result->sent_ns > result->due_ns ? (double)(result->sent_ns - result->due_ns) : 0, 1);
    if (result->first_ns == 0)
        return;
    add(&report->ttft, (double)(result->first_ns - result->sent_ns), 1);
    if (result->n_tokens > 1) {
        double gaps = (double)(result->n_tokens - 1);
        add(&report->itl, (double)(result->last_ns - result->first_ns) / gaps, gaps);
    }
}

static int by_value(const void *a, const void *b) {
    double x = ((const struct sample *)a)->value;
    double y = ((const struct sample *)b)->value;
    return (x > y) - (x < y);
}

double samples_percentile(struct samples *samples, double percent) {
    double total = 0;
    double seen = 0;
    qsort(samples->at, samples->n, sizeof *samples->at, by_value);
    for (uint32_t i = 0; i < samples->n; i++)
        total += samples->at[i].weight;
    for (uint32_t i = 0; i < samples->n; i++) {
        seen += samples->at[i].weight;
        if (seen >= total * percent / 100)
            return samples->at[i].value;
    }
    return 0;
}

double samples_mean(const struct samples *samples) {
    double sum = 0;
    double total = 0;
    for (uint32_t i = 0; i < samples->n; i++) {
        sum += samples->at[i].value * samples->at[i].weight;
        total += samples->at[i].weight;
    }
    return total > 0 ? sum / total : 0;
}

static void print_row(const char *name, struct samples *samples, FILE *out) {
    fprintf(out, "| %-20s | %9.2f | %9.2f | %9.2f | %9.2f |\n", name, samples_mean(samples),
            samples_percentile(samples, 50), samples_percentile(samples, 90),
            samples_percentile(samples, 99));
}

void report_print(struct report *report, const char *title, FILE *out) {
    double seconds = (double)(report->end_ns - report->begin_ns) / (double)NS_PER_S;
    if (seconds <= 0)
        seconds = 1e-9;
    uint32_t n = report->n_ok ? report->n_ok : 1;
    fprintf(out, "%s\n\n", title);
    fprintf(out, "| %-20s | %9s | %9s | %9s | %9s |\n", "milliseconds", "mean", "p50", "p90",
            "p99");
    fprintf(out, "|----------------------|-----------|-----------|-----------|-----------|\n");
    print_row("TTFT", &report->ttft, out);
    print_row("ITL", &report->itl, out);
    print_row("request latency", &report->latency, out);
    print_row("sent late", &report->late, out);
    fprintf(out,
            "\n%u completed, %u failed in %.2f s: %.2f requests/s, %.1f output tokens/s, %.1f "
            "total tokens/s; "
            "%.1f prompt and %.1f output tokens a request\n",
            report->n_ok, report->n_failed, seconds, report->n_ok / seconds,
            (double)report->n_tokens / seconds,
            (double)(report->n_tokens + report->n_prompt_tokens) / seconds,
            (double)report->n_prompt_tokens / n, (double)report->n_tokens / n);
    if (report->n_failed)
        fprintf(out, "first failure: %s\n", report->first_error.text);
}
