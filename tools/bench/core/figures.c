#include "tools/bench/core/figures.h"

#include "base/clock.h"
#include "tools/bench/core/ceiling.h"

#include <stdlib.h>

const char *mark_text(unsigned marks, char text[MARK_TEXT_MAX]) {
    static const char letters[] = "SPNFOICLXUK";
    unsigned n = 0;
    for (unsigned i = 0; letters[i]; i++)
        if (marks & (1u << i))
            text[n++] = letters[i];
    text[n] = 0;
    return text;
}

static struct spread bench_figures_spread_of(const struct histogram *h) {
    return (struct spread){.n = h->n,
                           .mean = histogram_mean(h),
                           .min = h->min,
                           .p50 = histogram_percentile(h, 50),
                           .p90 = histogram_percentile(h, 90),
                           .p95 = histogram_percentile(h, 95),
                           .p99 = histogram_percentile(h, 99),
                           .max = h->max};
}

struct sums { /* histograms of the honest figures */
    struct histogram ttft, ttft_due, itl, tpot, latency, latency_due;
};

struct figures_window {
    uint64_t begin_ns;
    uint64_t end_ns;
};

static uint64_t bench_figures_overlap_ns(struct figures_window window, uint64_t from_ns,
                                         uint64_t to_ns) {
    uint64_t begin = from_ns > window.begin_ns ? from_ns : window.begin_ns;
    uint64_t end = to_ns < window.end_ns ? to_ns : window.end_ns;
    return end > begin ? end - begin : 0;
}

static uint64_t bench_figures_since(uint64_t from_ns, uint64_t to_ns) {
    return to_ns > from_ns ? to_ns - from_ns : 0;
}

static void bench_figures_add_times(struct sums *sums, const struct record *record) {
    uint32_t n = record_n_output(record);
    uint64_t latency = bench_figures_since(record->sent_ns, record->end_ns);
    histogram_record(&sums->latency, latency);
    histogram_record(&sums->latency_due, bench_figures_since(record->due_ns, record->end_ns));
    if (record->n_texts == 0)
        return;
    uint64_t ttft = bench_figures_since(record->sent_ns, record->first_ns);
    histogram_record(&sums->ttft, ttft);
    histogram_record(&sums->ttft_due, bench_figures_since(record->due_ns, record->first_ns));
    if (n < 2)
        return;
    if (record->n_texts > 1)
        histogram_record(&sums->itl, (record->last_ns - record->first_ns) / (n - 1));
    histogram_record(&sums->tpot, (latency - ttft) / (n - 1));
}

/* What was given up took at least this long. */
static void bench_figures_add_bounds(struct sums *sums, const struct record *record) {
    uint64_t end = record->n_texts > 0 ? record->first_ns : record->end_ns;
    histogram_record(&sums->latency_due, bench_figures_since(record->due_ns, record->end_ns));
    histogram_record(&sums->ttft_due, bench_figures_since(record->due_ns, end));
}

static bool bench_figures_is_good(const struct record *record, const struct slo *slo) {
    uint32_t n = record_n_output(record);
    uint64_t itl = n > 1 ? (record->last_ns - record->first_ns) / (n - 1) : 0;
    return (!slo->ttft_p99_ns ||
            bench_figures_since(record->due_ns, record->first_ns) <= slo->ttft_p99_ns) &&
           (!slo->itl_p99_ns || itl <= slo->itl_p99_ns) &&
           (!slo->latency_p99_ns ||
            bench_figures_since(record->due_ns, record->end_ns) <= slo->latency_p99_ns);
}

static unsigned bench_figures_marks_of(const struct record *record) {
    unsigned marks = 0;
    uint32_t n_output = record_n_output(record);
    if (n_output < record->ask.n_output) {
        marks |= MARK_SHORT;
        if (record->finish == FINISH_LENGTH)
            marks |= MARK_CONTEXT;
    }
    if (!record->has_usage)
        marks |= MARK_UNCOUNTED;
    else if (record->usage_prompt != record->ask.n_prompt)
        marks |= MARK_PROMPT;
    return marks;
}

struct counts { /* of completed requests */
    uint64_t n_prompt, n_output, n_cached;
    uint64_t in_window, output_in_window, total_in_window, good;
    uint64_t flying_ns, decoding_ns;
};

static void bench_figures_add_ok(struct figures *figures, struct counts *counts,
                                 const struct record *record, struct figures_window window,
                                 const struct slo *slo) {
    uint32_t n_output = record_n_output(record), n_prompt = record_n_prompt(record);
    figures->marks |= bench_figures_marks_of(record);
    if (figures->n_ok == 0 || n_output < figures->output_min)
        figures->output_min = n_output;
    figures->n_ok++;
    counts->n_prompt += n_prompt;
    counts->n_output += n_output;
    counts->n_cached += record->usage_cached;
    if (record->end_ns > window.end_ns)
        return;
    counts->in_window++;
    figures->n_in_window++;
    counts->output_in_window += n_output;
    counts->total_in_window += n_output + n_prompt;
    counts->good += bench_figures_is_good(record, slo);
}

/* 80 % of the tokens over the time between 10 % and 90 % of them: ramp and drain are cut off. The
 * level's chunks give the times, n_tokens the count. */
static double bench_figures_steady_rate(const struct level *level, uint64_t n_tokens) {
    uint64_t seen = 0, from_ms = 0, to_ms = 0;
    bool begun = false;
    for (uint32_t i = 0; i < level->n_bins; i++) {
        seen += level->tokens_at[i];
        if (!begun && seen * 10 >= level->n_texts) {
            begun = true;
            from_ms = i;
        }
        if (seen * 10 >= level->n_texts * 9) {
            to_ms = i;
            break;
        }
    }
    return to_ms > from_ms ? 0.8 * (double)n_tokens / ((double)(to_ms - from_ms) / 1000) : 0;
}

static void bench_figures_make_timeline(struct figures *figures, const struct level *level) {
    uint64_t n_ms = (level->end_ns - level->begin_ns) / NS_PER_MS + 1;
    figures->timeline_s = (double)n_ms / 1000;
    for (uint32_t i = 0; i < level->n_bins && i < n_ms; i++)
        figures->timeline[(uint64_t)i * TIMELINE_BINS / n_ms] += (float)level->tokens_at[i];
}

static bool bench_figures_is_slo_held(const struct figures *figures, const struct slo *slo) {
    return figures->n_ok > 0 && figures->n_failed == 0 &&
           (!slo->ttft_p99_ns || figures->ttft_due.p99 <= slo->ttft_p99_ns) &&
           (!slo->itl_p99_ns || figures->itl.p99 <= slo->itl_p99_ns) &&
           (!slo->latency_p99_ns || figures->latency_due.p99 <= slo->latency_p99_ns);
}

static unsigned bench_figures_level_marks(const struct figures *figures, double asked_rate) {
    unsigned marks = 0;
    if (figures->n_failed)
        marks |= MARK_FAILED;
    if (figures->n_incomplete)
        marks |= MARK_INCOMPLETE;
    if (asked_rate > 0 && figures->requests_per_s < 0.75 * asked_rate)
        marks |= MARK_OVERLOAD;
    if (figures->cached_share > 0.01)
        marks |= MARK_CACHED;
    if (figures->late_max_ns > FIGURES_LATE_NS || figures->loop_late_max_ns > FIGURES_LATE_NS)
        marks |= MARK_LATE;
    return marks;
}

static void figures_finish(struct figures *figures, const struct counts *counts,
                           const struct sums *sums, const struct level *level) {
    double ok = figures->n_ok ? figures->n_ok : 1;
    double window_s = figures->window_s > 0 ? figures->window_s : 1;
    figures->requests_per_s = (double)counts->in_window / window_s;
    figures->output_tokens_per_s = (double)counts->output_in_window / window_s;
    figures->total_tokens_per_s = (double)counts->total_in_window / window_s;
    figures->goodput_per_s = (double)counts->good / window_s;
    figures->concurrency = (double)counts->flying_ns / (double)NS_PER_S / window_s;
    figures->decoding = (double)counts->decoding_ns / (double)NS_PER_S / window_s;
    figures->prompt_mean = (double)counts->n_prompt / ok;
    figures->output_mean = (double)counts->n_output / ok;
    figures->cached_share =
        counts->n_prompt ? (double)counts->n_cached / (double)counts->n_prompt : 0;
    figures->steady_tokens_per_s = bench_figures_steady_rate(level, counts->n_output);
    figures->loop_late_max_ns = level->loop_late_max_ns;
    figures->ttft = bench_figures_spread_of(&sums->ttft);
    figures->ttft_due = bench_figures_spread_of(&sums->ttft_due);
    figures->itl = bench_figures_spread_of(&sums->itl);
    figures->tpot = bench_figures_spread_of(&sums->tpot);
    figures->gap = bench_figures_spread_of(level->gaps);
    figures->latency = bench_figures_spread_of(&sums->latency);
    figures->latency_due = bench_figures_spread_of(&sums->latency_due);
}

enum status figures_make(struct figures *figures, const struct level *level, double asked_rate,
                         const struct slo *slo) {
    struct sums *sums = calloc(1, sizeof *sums);
    struct counts counts = {0};
    struct figures_window window = {level->begin_ns + level->spec.warmup_ns, level->issued_ns};
    if (!sums)
        return STATUS_NOMEM;
    *figures = (struct figures){
        .window_s = (double)bench_figures_since(window.begin_ns, window.end_ns) / (double)NS_PER_S};
    for (uint32_t i = 0; i < level->n_records; i++) {
        const struct record *record = &level->records[i];
        counts.flying_ns += bench_figures_overlap_ns(window, record->sent_ns, record->end_ns);
        if (record->n_texts > 0)
            counts.decoding_ns +=
                bench_figures_overlap_ns(window, record->first_ns, record->last_ns);
        if (record->due_ns < window.begin_ns)
            continue;
        figures->n_sent++;
        uint64_t late_ns = bench_figures_since(record->due_ns, record->sent_ns);
        if (late_ns > figures->late_max_ns)
            figures->late_max_ns = late_ns;
        if (record->outcome == OUTCOME_OK) {
            bench_figures_add_ok(figures, &counts, record, window, slo);
            bench_figures_add_times(sums, record);
        } else if (record->outcome == OUTCOME_ERROR) {
            figures->n_failed++;
            figures->n_faults[record->fault]++;
        } else {
            figures->n_incomplete++;
            bench_figures_add_bounds(sums, record);
        }
    }
    figures_finish(figures, &counts, sums, level);
    bench_figures_make_timeline(figures, level);
    free(sums);
    figures->marks |= bench_figures_level_marks(figures, asked_rate);
    if (level->n_preempted > 0 || ceiling_shows(level))
        figures->marks |= MARK_KV;
    figures->slo_held = !(slo->ttft_p99_ns || slo->itl_p99_ns || slo->latency_p99_ns) ||
                        bench_figures_is_slo_held(figures, slo);
    return STATUS_OK;
}

int figures_knee(const struct figures *figures, const double *asked_rates, uint32_t n) {
    int knee = -1;
    for (uint32_t i = 0; i < n; i++) {
        if (figures[i].requests_per_s < 0.9 * asked_rates[i] || figures[i].n_ok == 0 ||
            figures[i].ttft_due.p99 > 4 * figures[0].ttft_due.p99)
            break;
        knee = (int)i;
    }
    return knee;
}

static double bench_figures_whole_rate(const struct figures *figures) {
    return figures->timeline_s > 0 ? figures->n_ok / figures->timeline_s : 0;
}

struct figures_span figures_span(const struct figures *alone, const struct figures *burst) {
    struct figures_span span = {alone->requests_per_s, burst->requests_per_s};
    if (span.high > span.low)
        return span;
    double low = span.low > 0 ? span.low : bench_figures_whole_rate(alone);
    double high = bench_figures_whole_rate(burst);
    return high > low ? (struct figures_span){low, high} : (struct figures_span){0, low};
}
