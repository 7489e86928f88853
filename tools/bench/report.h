/* tools/bench/report.h: collects finished requests and prints the table. */
#pragma once

#include "tools/bench/stream.h"

#include <stdio.h>

struct sample {
    double value; /* milliseconds */
    double weight;
};

struct samples {
    struct sample *at; /* owned (size) */
    uint32_t n;
    uint32_t size;
};

struct report {
    struct samples ttft;
    struct samples itl; /* weighted by tokens - 1 */
    struct samples latency;
    struct samples late; /* sent after it was due */
    uint32_t n_ok;
    uint32_t n_failed;
    uint64_t n_prompt_tokens;
    uint64_t n_tokens;
    uint64_t begin_ns; /* first request sent */
    uint64_t end_ns;   /* last answer's end */
    struct error first_error;
};

NODISCARD enum status report_init(struct report *report, uint32_t n_requests);
void report_fini(struct report *report);
void report_add(struct report *report, const struct stream_result *result);

/* The value at or below which `percent` of the weight lies; 0 when empty. Sorts. */
double samples_percentile(struct samples *samples, double percent);
double samples_mean(const struct samples *samples);

/* Markdown: a line of conditions, then one row per figure: mean, p50, p90, p99. */
void report_print(struct report *report, const char *title, FILE *out);
