#include "tools/bench/rows/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct reference_row reference_rows[] = {
#define ROW(table, system, model, hardware, level, input, output, ...)                             \
    {table, system, model, hardware, level, input, output, __VA_ARGS__},
#include "tools/bench/reference.def"
#undef ROW
};
const size_t reference_n_rows = sizeof reference_rows / sizeof *reference_rows;

/* The models by their config.json (tests/models/reference.py). context: max_model_len of vLLM 0.2, which bounded how
 * many tokens of prompts it computed at once (max_num_batched_tokens, at least 2,048). */
static const struct {
    const char *name;
    struct roofline_shape shape;
    uint32_t context;
} models[] = {
    {"Mistral-7B-OpenOrca awq", {32, 4096, 32, 8, 128, 14336, 32002, 0, 0, 0, 4, 128}, 32768},
    {"Baichuan2-13B gptq", {40, 5120, 40, 40, 128, 13696, 125696, 0, 0, 0, 4, 128}, 4096},
    {"Qwen-14B none", {40, 5120, 40, 40, 128, 13696, 152064, 0, 0, 0, 16, 0}, 2048},
    {"ChatGLM3-6B none", {28, 4096, 32, 2, 128, 13696, 65024, 0, 0, 0, 16, 0}, 8192},
    {"Qwen2-MoE-57B-A14B-Instruct none",
     {28, 3584, 28, 4, 128, 20480, 151936, 64, 8, 2560, 16, 0},
     32768},
    {"Qwen2-72B-Instruct none", {80, 8192, 64, 8, 128, 29568, 152064, 0, 0, 0, 16, 0}, 32768},
    {"Qwen2-72B-Instruct awq", {80, 8192, 64, 8, 128, 29696, 152064, 0, 0, 0, 4, 128}, 32768},
    {"Qwen2-72B-Instruct gptq-int8", {80, 8192, 64, 8, 128, 29696, 152064, 0, 0, 0, 8, 128}, 32768},
};

bool reference_is_same(const struct reference_row *a, const struct reference_row *b) {
    return strcmp(a->table, b->table) == 0 && strcmp(a->system, b->system) == 0 &&
           strcmp(a->model, b->model) == 0 && strcmp(a->hardware, b->hardware) == 0;
}

/* "4x A100-80GB" */
static void bench_reference_take_hardware(struct reference_configuration *own,
                                          const char *hardware) {
    char *end;
    own->tp = (uint32_t)strtoul(hardware, &end, 10);
    own->device = device_find(end + 2);
}

static void bench_reference_take_model(struct reference_configuration *own, const char *name) {
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        if (strcmp(models[i].name, name) != 0)
            continue;
        roofline_model(&own->model, &models[i].shape);
        own->prefill_tokens = models[i].context;
    }
}

size_t reference_configurations(struct reference_configuration all[REFERENCE_CONFIGURATIONS_MAX]) {
    size_t n = 0;
    for (size_t i = 0; i < reference_n_rows; i++) {
        const struct reference_row *row = &reference_rows[i];
        if (n > 0 && reference_is_same(all[n - 1].rows, row)) {
            all[n - 1].n_rows++;
            continue;
        }
        if (n == REFERENCE_CONFIGURATIONS_MAX)
            abort();
        struct reference_configuration *own = &all[n++];
        *own = (struct reference_configuration){
            .rows = row, .n_rows = 1, .pads = row->level[0] == '\0'};
        bench_reference_take_hardware(own, row->hardware);
        bench_reference_take_model(own, row->model);
    }
    return n;
}

enum reference_kind reference_kind(const struct reference_row *row) {
    if (row->level[0] == '\0')
        return REFERENCE_GRID;
    return row->level[0] == 's'   ? REFERENCE_ALONE
           : row->level[0] == 't' ? REFERENCE_BURST
                                  : REFERENCE_RATE;
}

double reference_rate(const struct reference_row *row) {
    const char *at = strchr(row->level, '@');
    return at ? strtod(at + 1, NULL) : 0;
}

/* Rows of a configuration whose asked rates lie in a range. */
static const struct {
    const char *model, *hardware;
    double low, high;
    const char *why;
} stalls[] = {
    {"Qwen2-MoE-57B-A14B-Instruct none", "2x A100-80GB", 1.2, 2.7,
     "the client or the server stalled"},
    {"Qwen2-72B-Instruct awq", "2x A100-80GB", .6, 1.9, "the client or the server stalled"},
    {"Qwen2-72B-Instruct awq", "4x A100-80GB", .9, 3.4, "the client or the server stalled"},
    {"Qwen2-72B-Instruct none", "4x A100-80GB", 0, 1e9, "the labels do not fit their rows"},
};

const char *reference_artefact(const struct reference_row *row) {
    double rate = reference_rate(row);
    if (strcmp(row->table, "qwen-14b") == 0 && row->n_output == 2048 && row->n_input < 2048)
        return "answers stopped at 2,048 tokens in all and were counted as whole";
    if (reference_kind(row) == REFERENCE_RATE && row->tokens_per_s <= 0)
        return "nothing was completed";
    for (size_t i = 0; i < sizeof stalls / sizeof *stalls; i++)
        if (rate > 0 && strcmp(row->model, stalls[i].model) == 0 &&
            strcmp(row->hardware, stalls[i].hardware) == 0 && rate > stalls[i].low &&
            rate < stalls[i].high)
            return stalls[i].why;
    return NULL;
}

bool reference_is_saturated(const struct reference_row *row) {
    double rate = reference_rate(row);
    return rate > 0 && row->requests_per_s < 0.9 * rate;
}

bool reference_has_itl(const struct reference_row *row) {
    bool shifted = strcmp(row->system, "vllm") == 0 && strcmp(row->hardware, "8x L20-48GB") == 0 &&
                   reference_rate(row) > 1.5;
    return row->itl_ms > 0 && !shifted;
}
