/* tools/bench/core/figures_compat.c: the columns of the two published formats, as their programs
 * work them out. Sources: guidellm v0.1.0, src/guidellm/core/result.py and report.py; ZJUICI/
 * inference-framework-benchmark, benchmark/benchmark_serving.py. */
#include "tools/bench/core/figures.h"

#include "base/clock.h"

#include <stddef.h>

static double figures_compat_seconds(uint64_t from_ns, uint64_t to_ns) {
    return ((double)to_ns - (double)from_ns) / (double)NS_PER_S;
}

void figures_sweep(struct figures_sweep *columns, const struct level *level) {
    const struct record *first = NULL; /* in completion order */
    uint64_t last_ns = 0, n = 0, n_chunks = 0, n_gaps = 0;
    double latency_s = 0, ttft_s = 0, gaps_s = 0;
    *columns = (struct figures_sweep){0};
    for (uint32_t i = 0; i < level->n_records; i++) {
        const struct record *record = &level->records[i];
        if (record->outcome != OUTCOME_OK || record->end_ns > level->issued_ns ||
            record->n_chunks == 0)
            continue; /* what ran when the level ended is dropped without a word */
        if (!first || record->end_ns < first->end_ns)
            first = record;
        if (record->end_ns > last_ns)
            last_ns = record->end_ns;
        n++;
        n_chunks += record->n_chunks;
        n_gaps += record->n_chunks - 1;
        latency_s += figures_compat_seconds(record->sent_ns, record->end_ns);
        ttft_s += figures_compat_seconds(record->sent_ns, record->chunk_first_ns);
        gaps_s += figures_compat_seconds(record->chunk_first_ns, record->chunk_last_ns);
    }
    double duration_s = first ? figures_compat_seconds(first->sent_ns, last_ns) : 0;
    if (duration_s <= 0)
        return;
    columns->requests_per_s = (double)n / duration_s;
    columns->latency_s = latency_s / (double)n;
    columns->ttft_ms = 1000 * ttft_s / (double)n;
    columns->itl_ms = n_gaps ? 1000 * gaps_s / (double)n_gaps : 0;
    columns->tokens_per_s = (double)n_chunks / duration_s;
}

void figures_grid(struct figures_grid *columns, const struct level *alone,
                  const struct level *burst, uint32_t n_asked, bool assumed) {
    double per_token = 0, per_output = 0, n_output = 0;
    uint32_t n_alone = 0, n_done = 0;
    uint64_t last_ns = burst->begin_ns;
    *columns = (struct figures_grid){0};
    for (uint32_t i = 0; i < alone->n_records; i++) {
        const struct record *record = &alone->records[i];
        uint32_t gen = assumed ? record->ask.n_output : record_n_output(record);
        if (record->outcome != OUTCOME_OK || gen == 0)
            continue;
        double ms = 1000 * figures_compat_seconds(record->sent_ns, record->end_ns);
        per_token += ms / (record->ask.n_prompt + gen);
        per_output += ms / gen;
        n_alone++;
    }
    for (uint32_t i = 0; i < burst->n_records; i++) {
        const struct record *record = &burst->records[i];
        if (record->end_ns > last_ns)
            last_ns = record->end_ns;
        if (record->outcome != OUTCOME_OK)
            continue;
        n_done++;
        n_output += record_n_output(record);
    }
    if (assumed) {
        n_output = (double)n_asked * burst->spec.n_output;
        n_done = n_asked;
    }
    double took_s = figures_compat_seconds(burst->begin_ns, last_ns);
    if (n_alone > 0) {
        columns->ms_per_token = per_token / n_alone;
        columns->ms_per_output_token = per_output / n_alone;
    }
    if (took_s > 0) {
        columns->requests_per_s = n_done / took_s;
        columns->tokens_per_s = n_output / took_s;
    }
}
