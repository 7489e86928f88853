#include "tools/bench/rows/predict.h"

#include "base/clock.h"
#include "tools/bench/core/figures.h"
#include "tools/bench/rows/cluster.h"
#include "tools/bench/rows/prompt_first.h"
#include "tools/bench/rows/virtual.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GRID_REQUESTS 399
#define LEVEL_S       120.0
#define BURST_OF_SYNC                                                                              \
    5 /* guidellm 0.1.0: the throughput level has five times the requests of the synchronous one */
#define BURST_GAP_S   0.001
#define SEQS_MAX      256
#define PREFILL_LEAST 2048

/* What of a row is run: alone or together, how many, and how they come. */
struct predict_load {
    uint32_t n;
    uint32_t n_output;
    double gap_s;   /* between two requests */
    double until_s; /* what has not ended by then is left out; 0: no limit */
};

/* Answers of a sweep were shorter than asked: as many tokens as the row had for each request. */
static uint32_t bench_predict_output_of(const struct reference_row *row) {
    if (reference_kind(row) == REFERENCE_GRID || row->requests_per_s <= 0)
        return row->n_output;
    double n = round(row->tokens_per_s / row->requests_per_s);
    return n < 2 ? 2 : n > row->n_output ? row->n_output : (uint32_t)n;
}

static struct predict_load
bench_predict_load_of(const struct reference_configuration *configuration,
                      const struct reference_row *row) {
    struct predict_load load = {.n = GRID_REQUESTS, .n_output = bench_predict_output_of(row)};
    double sync =
        configuration->rows->requests_per_s; /* the first of a sweep is the synchronous level */
    switch (reference_kind(row)) {
    case REFERENCE_GRID:
        break;
    case REFERENCE_ALONE:
        load.n = 1;
        load.n_output = row->n_output;
        break;
    case REFERENCE_RATE:
        load.gap_s = 1 / reference_rate(row);
        load.n = (uint32_t)(LEVEL_S * reference_rate(row));
        load.until_s = LEVEL_S;
        break;
    case REFERENCE_BURST:
        load.gap_s = BURST_GAP_S;
        load.n = BURST_OF_SYNC * (uint32_t)(LEVEL_S * sync);
    }
    return load;
}

static void bench_predict_take_grid(struct prediction *prediction, const struct level *alone,
                                    const struct level *burst) {
    struct figures_grid grid;
    figures_grid(&grid, alone, burst, GRID_REQUESTS, true);
    prediction->requests_per_s = grid.requests_per_s;
    prediction->tokens_per_s = grid.tokens_per_s;
    prediction->ms_per_token = grid.ms_per_token;
    prediction->ms_per_output_token = grid.ms_per_output_token;
}

static void bench_predict_take_sweep(struct prediction *prediction, const struct level *level) {
    struct figures_sweep sweep;
    figures_sweep(&sweep, level);
    prediction->requests_per_s = sweep.requests_per_s;
    prediction->tokens_per_s = sweep.tokens_per_s;
    prediction->latency_s = sweep.latency_s;
    prediction->ttft_ms = sweep.ttft_ms;
    prediction->itl_ms = sweep.itl_ms;
}

static uint64_t bench_predict_ns_of(double s) {
    return NS_PER_S + (uint64_t)(s * (double)NS_PER_S);
}

/* The records of a level, as figures_compat.c reads them. */
static enum status bench_predict_make_level(struct level *level,
                                            const struct prompt_first_request *requests,
                                            const struct predict_load *load, uint32_t n_output) {
    *level = (struct level){.begin_ns = NS_PER_S, .n_records = load->n, .spec.n_output = n_output};
    level->issued_ns = load->until_s > 0 ? bench_predict_ns_of(load->until_s) : UINT64_MAX;
    level->records = calloc(load->n, sizeof *level->records);
    if (!level->records)
        return STATUS_NOMEM;
    for (uint32_t i = 0; i < load->n; i++) {
        const struct prompt_first_request *request = &requests[i];
        bool ended = request->end_s > 0;
        level->records[i] =
            (struct record){.ask = {.n_prompt = request->n_input, .n_output = request->n_output},
                            .outcome = ended ? OUTCOME_OK : OUTCOME_INCOMPLETE,
                            .sent_ns = bench_predict_ns_of(request->at_s),
                            .chunk_first_ns = bench_predict_ns_of(request->first_s),
                            .chunk_last_ns = bench_predict_ns_of(request->end_s),
                            .end_ns = bench_predict_ns_of(request->end_s),
                            .n_chunks = ended ? request->n_output : 0,
                            .n_texts = ended ? request->n_output : 0};
    }
    return STATUS_OK;
}

static enum status bench_predict_run_published(const struct reference_configuration *configuration,
                                               const struct reference_row *row,
                                               const struct roofline *roofline,
                                               const struct predict_load *load, struct level *level,
                                               struct prediction *prediction,
                                               double us[ROOFLINE_TERMS]) {
    struct prompt_first_spec spec = {.roofline = roofline,
                                     .kv_tokens = cluster_kv_tokens(roofline),
                                     .max_seqs = SEQS_MAX,
                                     .prefill_tokens = configuration->prefill_tokens,
                                     .pads = configuration->pads,
                                     .until_s = load->until_s};
    struct prompt_first_result result;
    if (row->n_input > spec.prefill_tokens || spec.prefill_tokens < PREFILL_LEAST)
        spec.prefill_tokens = PREFILL_LEAST;
    struct prompt_first_request *requests = calloc(load->n, sizeof *requests);
    if (!requests)
        return STATUS_NOMEM;
    for (uint32_t i = 0; i < load->n; i++)
        requests[i] = (struct prompt_first_request){
            .at_s = i * load->gap_s, .n_input = row->n_input, .n_output = load->n_output};
    enum status status = prompt_first_run(&spec, requests, load->n, &result);
    if (status == STATUS_OK)
        status = bench_predict_make_level(level, requests, load, load->n_output);
    free(requests);
    for (unsigned i = 0; status == STATUS_OK && i < ROOFLINE_TERMS; i++)
        us[i] = result.us[i];
    prediction->n_tokens += (uint64_t)load->n * load->n_output;
    return status;
}

enum status predict_published(const struct reference_configuration *configuration,
                              const struct reference_row *row,
                              const struct efficiencies *efficiencies,
                              struct prediction *prediction) {
    struct roofline roofline = {.model = configuration->model,
                                .device = configuration->device,
                                .efficiencies = *efficiencies,
                                .tp = configuration->tp};
    struct predict_load load = bench_predict_load_of(configuration, row),
                        one = {.n = 1, .n_output = load.n_output};
    struct level level, alone;
    *prediction = (struct prediction){0};
    enum status status = bench_predict_run_published(configuration, row, &roofline, &load, &level,
                                                     prediction, prediction->us);
    if (status == STATUS_LIMIT)
        return STATUS_OK; /* it does not fit */
    TRY(status);
    prediction->fits = true;
    if (reference_kind(row) == REFERENCE_GRID) {
        status = bench_predict_run_published(configuration, row, &roofline, &one, &alone,
                                             prediction, prediction->alone_us);
        if (status == STATUS_OK)
            bench_predict_take_grid(prediction, &alone, &level);
        level_fini(&alone);
    } else {
        bench_predict_take_sweep(prediction, &level);
    }
    level_fini(&level);
    return status;
}

static enum status bench_predict_run_tandem(const struct reference_row *row,
                                            struct cluster *cluster,
                                            const struct predict_load *load, struct level *level) {
    struct level_spec spec = {
        .n_prompt = row->n_input,
        .n_output = load->n_output,
        .serial = 1,
        .schedule = {.profile = PROFILE_THROUGHPUT, .concurrency = 512, .n_requests = load->n}};
    if (load->gap_s > 0) {
        spec.schedule.profile = PROFILE_CONSTANT;
        spec.schedule.concurrency = load->n;
        spec.schedule.rate = 1 / load->gap_s;
        spec.schedule.duration_ns = (uint64_t)(load->until_s * (double)NS_PER_S);
    }
    return virtual_run(&cluster->spec, &spec, level, NULL);
}

enum status predict_tandem(const struct reference_configuration *configuration,
                           const struct reference_row *row, const struct efficiencies *efficiencies,
                           struct prediction *prediction) {
    struct roofline roofline = {.model = configuration->model,
                                .device = configuration->device,
                                .efficiencies = *efficiencies,
                                .tp = configuration->tp};
    struct predict_load load = bench_predict_load_of(configuration, row),
                        one = {.n = 1, .n_output = load.n_output};
    struct cluster cluster;
    struct level level = {0}, alone = {0};
    *prediction = (struct prediction){0};
    if (!cluster_one(&cluster, &roofline, row->n_input + row->n_output))
        return STATUS_OK; /* it does not fit */
    prediction->fits = true;
    TRY(bench_predict_run_tandem(row, &cluster, &load, &level));
    memcpy(prediction->us, cluster.us, sizeof cluster.us);
    memset(cluster.us, 0, sizeof cluster.us);
    enum status status = STATUS_OK;
    if (reference_kind(row) == REFERENCE_GRID)
        status = bench_predict_run_tandem(row, &cluster, &one, &alone);
    if (status == STATUS_OK && reference_kind(row) == REFERENCE_GRID)
        bench_predict_take_grid(prediction, &alone, &level);
    else if (status == STATUS_OK)
        bench_predict_take_sweep(prediction, &level);
    prediction->n_tokens = level.n_texts + alone.n_texts;
    memcpy(prediction->alone_us, cluster.us, sizeof cluster.us);
    level_fini(&alone);
    level_fini(&level);
    return status;
}
