/* Families whose decode steps are launched as graphs, on the emulated device: the logits of every step are those without
 * graphs, bit for bit, while sequences come and go and grow over a chunk of attention. So are those of two ranks whose devices
 * add up by themselves, against ranks whose sums go through the host; and those of ranks whose parts cross rounded are near. */
#include "kernels/cuda/context.h"
#include "model/model.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_gguf.h"
#include "tests/support/tiny_hub.h"
#include "worker/core/engine.h"
#include "worker/step/batch.h"
#include "worker/step/forward.h"
#include "worker/step/rehearse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const suite_name = "family_graph";
const double suite_timeout_s = 600;

enum { N_SEQS = 5, N_BLOCKS = 64, MAX_TOKENS = 256, CONTEXT = 512 };

/* Experts; biases and logn, norms of heads, ALiBi; attention on tensor cores, whose shapes are rows alone; experts of ranks
 * whose parts cross rounded. Emulated kernels
 * take long under sanitizers: there the first two. */
static const struct {
    const char *family;
    const char *format;
    bool is_fast;
    bool is_large; /* its heads are, for attention on tensor cores */
} models[] = {
    {"llama", "q4_1", false, false},     {"qwen2_moe", "awq", false, false},
#ifndef TANDEM_SANITIZED
    {"qwen", "gptq4", false, false},     {"qwen3", "bf16", false, false},
    {"baichuan", "gptq4", false, false}, {"llama", "f16", true, true},
    {"qwen2_moe", "awq", true, false},
#endif
};
enum { N_MODELS = sizeof models / sizeof *models };

/* What they begin with: the blocks before are as memory comes, zeros. */
static const struct {
    uint32_t begin, n;
} prompts[N_SEQS] = {{0, 3}, {248, 4}, {16, 4}, {24, 7}, {0, 7}};

/* Sequences [from, to) that decode in a step: some steps of one shape, then others, then the first again. */
static const struct {
    uint32_t from, to;
} steps[] = {{0, 1}, {0, 1}, {0, 1}, {0, 2}, {0, 2}, {0, 2}, {1, 4}, {1, 4}, {0, 5},
             {0, 5}, {0, 5}, {2, 5}, {2, 4}, {2, 4}, {0, 1}, {3, 4}, {1, 2}};
enum { N_STEPS = sizeof steps / sizeof *steps };

static const struct device_kind *real;
static uint32_t n_launched, n_made;

static void launch_counted(struct device_graph *graph, struct device_stream *stream) {
    n_launched++;
    real->graph_launch(graph, stream);
}

static struct device_graph *end_counted(struct device_stream *stream) {
    n_made++;
    return real->graph_end(stream);
}

struct run {
    struct model *model;
    struct forward forward;
    struct batch batch;
    struct device_kind counted;
    uint32_t n_done[N_SEQS];
    uint32_t n_layers; /* that the running step has told of, in their order */
    uint32_t blocks[N_SEQS][CONTEXT / KV_BLOCK_TOKENS];
};

/* How a model's steps are computed. */
struct way {
    bool no_graphs;
    bool rehearses;
    uint32_t n_ranks;
    enum sums sums;
};

static void run_open(struct run *run, int which, const struct way *way) {
    struct error error = {0};
    *run = (struct run){0};
    run->model = strcmp(models[which].family, "llama") == 0
                     ? tiny_gguf_open(&(struct tiny_gguf){.format = models[which].format,
                                                          .seed = 42,
                                                          .large_heads = models[which].is_large})
                     : tiny_hub_open(models[which].family, models[which].format);
    struct rank_options options = {.model = run->model,
                                   .backend =
                                       models[which].is_fast ? "cuda-emu:fast" : "cuda-emu:exact",
                                   .no_graphs = way->no_graphs,
                                   .n_ranks = way->n_ranks,
                                   .sums = way->sums,
                                   .n_threads = 1,
                                   .max_tokens = MAX_TOKENS,
                                   .max_seqs = 16,
                                   .context_max = CONTEXT,
                                   .n_blocks = N_BLOCKS};
    enum status status = forward_open(&run->forward, &options, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    if (way->n_ranks > 1)
        ck_assert_str_eq(run->forward.rank.staged->kind->name,
                         way->sums == SUMS_HOST ? "staged" : "device");
    ck_assert_int_eq(batch_init(&run->batch, MAX_TOKENS, 16, CONTEXT), STATUS_OK);
    for (uint32_t s = 0, next = 0; s < N_SEQS; s++)
        for (uint32_t b = 0; b <= (prompts[s].begin + prompts[s].n + N_STEPS) / KV_BLOCK_TOKENS;
             b++)
            run->blocks[s][b] = N_BLOCKS - 1 - next++;
    real = run->forward.rank.ctx->kind;
    run->counted = *real;
    run->counted.graph_launch = launch_counted;
    run->counted.graph_end = end_counted;
    run->forward.rank.ctx->kind = &run->counted;
    n_launched = n_made = 0;
}

static void run_close(struct run *run) {
    batch_fini(&run->batch);
    forward_close(&run->forward);
    model_close(run->model);
}

/* At their end, or before. */
static void tell_layers(void *context, uint32_t begin, uint32_t end) {
    struct run *run = context;
    ck_assert_uint_eq(begin, run->n_layers);
    ck_assert_uint_ge(end, begin);
    run->n_layers = end;
}

/* Computes the next tokens of the sequences; logits of the last one of each go to `out`. Answers behind them. */
static float *advance(struct run *run, uint32_t from, uint32_t to, uint32_t n_tokens, float *out) {
    uint32_t n_vocab = run->forward.rank.model->facts.n_vocab, ids[MAX_TOKENS];
    struct plan_row rows[N_SEQS];
    struct plan plan = {.n_rows = to - from, .n_tokens = n_tokens * (to - from), .rows = rows};
    for (uint32_t i = 0; i < n_tokens; i++)
        ids[i] = (i * 7 + from * 13 + run->n_done[from]) % n_vocab;
    for (uint32_t s = from; s < to; s++) {
        rows[s - from] = (struct plan_row){.begin = run->n_done[s],
                                           .n_tokens = n_tokens,
                                           .ids = ids,
                                           .blocks = run->blocks[s],
                                           .sample = true};
        run->n_done[s] += n_tokens;
    }
    batch_build(&run->batch, &plan);
    run->n_layers = 0;
    forward_run(&run->forward, &run->batch, tell_layers, run);
    ck_assert_uint_eq(run->n_layers, run->forward.rank.model->facts.n_layers);
    forward_end(&run->forward);
    size_t n = (size_t)(to - from) * n_vocab;
    run->forward.rank.kernels->get(run->forward.rank.ctx, out, run->forward.rank.logits,
                                   n * sizeof *out);
    return out + n;
}

/* All logits of the prompts and steps, one after the other; the caller frees them. */
static float *decode(int which, const struct way *way, size_t *n_floats, uint32_t *n_graphs) {
    struct run run;
    run_open(&run, which, way);
    size_t n_vocab = run.forward.rank.model->facts.n_vocab;
    float *all = malloc((N_SEQS + N_STEPS * N_SEQS) * n_vocab * sizeof *all), *at = all;
    ck_assert_ptr_nonnull(all);
    if (way->rehearses) /* 1, 2, 4, 8 and 16 sequences */
        ck_assert_uint_eq(rehearse_run(&run.forward, &run.batch), 5);
    ck_assert_uint_eq(n_made, way->rehearses ? 5 : 0);
    for (uint32_t s = 0; s < N_SEQS; s++) {
        run.n_done[s] = prompts[s].begin;
        at = advance(&run, s, s + 1, prompts[s].n, at);
    }
    ck_assert_uint_eq(n_launched, 0);
    for (uint32_t i = 0; i < N_STEPS; i++)
        at = advance(&run, steps[i].from, steps[i].to, 1, at);
    *n_floats = (size_t)(at - all);
    *n_graphs = n_launched;
    ck_assert(!way->rehearses || n_made == 5);
    run_close(&run);
    return all;
}

static void compare(int which, const struct way ways[2]) {
    size_t n[2];
    uint32_t n_graphs[2];
    float *plain = decode(which, &ways[0], &n[0], &n_graphs[0]);
    float *graphs = decode(which, &ways[1], &n[1], &n_graphs[1]);
    ck_assert_uint_eq(n[0], n[1]);
    ck_assert_uint_eq(n_graphs[0], 0);
    /* All but the first step of each shape: 1, 2 and 4 tokens and one chunk, 1, 4 and 8 tokens and two; or rows alone. */
    uint32_t n_first = ways[1].rehearses ? 0 : models[which].is_large ? 4 : 6;
    ck_assert_uint_eq(n_graphs[1], N_STEPS - n_first);
    for (size_t i = 0; i < n[0]; i++)
        ck_assert_msg(memcmp(&plain[i], &graphs[i], sizeof *plain) == 0, "%s %s: logit %zu",
                      models[which].family, models[which].format, i);
    free(plain);
    free(graphs);
}

START_TEST(graphs_have_the_bits_of_launches) {
    static const struct way ways[2] = {{.no_graphs = true, .n_ranks = 1}, {.n_ranks = 1}};
    compare(_i, ways);
}
END_TEST

/* Then all steps that decode are graphs, the first of each shape too, and no graph is made while they run. */
START_TEST(rehearsed_graphs_have_the_bits_of_launches) {
    static const struct way one[2] = {{.no_graphs = true, .n_ranks = 1},
                                      {.rehearses = true, .n_ranks = 1}};
    static const struct way two[2] = {{.n_ranks = 2, .sums = SUMS_HOST},
                                      {.rehearses = true, .n_ranks = 2, .sums = SUMS_DEVICE}};
    compare(_i, one);
    compare(_i, two);
#ifdef FAKE_NCCL
    static const struct way by_nccl[2] = {{.n_ranks = 2, .sums = SUMS_HOST},
                                          {.rehearses = true, .n_ranks = 2, .sums = SUMS_NCCL}};
    compare(_i, by_nccl);
#endif
}
END_TEST

static void use_slowly(struct device *device) {
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    real->use(device);
}

/* A step whose layers nobody follows may still run on another rank when it has ended on the first. */
START_TEST(ranks_are_rehearsed_behind_their_last_step) {
    static const struct way way = {.n_ranks = 2, .sums = SUMS_HOST};
    struct run run;
    run_open(&run, 1, &way);
    struct device_kind slow = *real;
    slow.use = use_slowly;
    run.forward.others.threads[0].rank.ctx->kind = &slow;
    uint32_t id = 7;
    struct plan_row row = {.n_tokens = 1, .ids = &id, .blocks = run.blocks[0], .sample = true};
    struct plan plan = {.n_rows = 1, .n_tokens = 1, .rows = &row};
    batch_build(&run.batch, &plan);
    forward_run(&run.forward, &run.batch, NULL, NULL);
    forward_end(&run.forward);
    ck_assert_uint_eq(rehearse_run(&run.forward, &run.batch), 0); /* the host adds up: no graphs */
    run_close(&run);
}
END_TEST

START_TEST(devices_that_add_up_have_the_bits_of_the_host) {
    static const struct way ways[2] = {{.n_ranks = 2, .sums = SUMS_HOST},
                                       {.n_ranks = 2, .sums = SUMS_DEVICE}};
    compare(_i, ways);
}
END_TEST

#ifdef FAKE_NCCL
START_TEST(what_nccl_brings_has_the_bits_of_the_host) {
    static const struct way ways[2] = {{.n_ranks = 2, .sums = SUMS_HOST},
                                       {.n_ranks = 2, .sums = SUMS_NCCL}};
    compare(_i, ways);
}
END_TEST
#endif

/* What crosses rounded is near what does not, of one rank that has it all: a part that lies in the wrong place, or comes twice,
 * is not. All ways may have the same bits and be wrong together. An expert may be another one by a near tie. */
START_TEST(ranks_that_round_are_near_one_that_does_not) {
    static const struct way one = {.n_ranks = 1}, two = {.n_ranks = 2, .sums = SUMS_DEVICE};
    size_t n[2];
    uint32_t n_graphs;
    double difference = 0, all = 0;
    float *whole = decode(_i, &one, &n[0], &n_graphs), *cut = decode(_i, &two, &n[1], &n_graphs);
    ck_assert_uint_eq(n[0], n[1]);
    for (size_t i = 0; i < n[0]; i++) {
        difference += pow((double)whole[i] - cut[i], 2);
        all += pow(whole[i], 2);
    }
    ck_assert_msg(sqrt(difference / all) < 0.1, "%s: %g of the logits", models[_i].family,
                  sqrt(difference / all));
    free(whole);
    free(cut);
}
END_TEST

/* Where the devices are to add up and there are none, or no NCCL. */
START_TEST(devices_that_cannot_add_up_are_refused_where_they_must) {
    struct forward forward;
    struct error error = {0};
    struct model *model = tiny_hub_open("qwen2_moe", "awq");
    const struct rank_options options = {.model = model,
                                         .backend = _i == 0 ? "cpu" : "cuda-emu:exact",
                                         .n_threads = 1,
                                         .n_ranks = 2,
                                         .sums = _i == 0 ? SUMS_DEVICE : SUMS_NCCL,
                                         .max_tokens = MAX_TOKENS,
                                         .max_seqs = 16,
                                         .context_max = CONTEXT,
                                         .n_blocks = N_BLOCKS};
    setenv("TANDEM_NCCL", "/nonexistent.so", 1);
    ck_assert_int_eq(forward_open(&forward, &options, &error), STATUS_UNSUPPORTED);
    ck_assert_str_eq(error.field, "sums");
    ck_assert_ptr_nonnull(strstr(error.text, _i == 0 ? "the ranks compute on the host" : "NCCL"));
    model_close(model);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, devices_that_cannot_add_up_are_refused_where_they_must, 0, 2);
#ifdef FAKE_NCCL
    setenv("TANDEM_NCCL", FAKE_NCCL, 1);
#endif
    tcase_add_loop_test(tests, graphs_have_the_bits_of_launches, 0, N_MODELS);
    tcase_add_test(tests, ranks_are_rehearsed_behind_their_last_step);
    for (int i = 0; i < N_MODELS; i++)
        if (models[i].is_large)
            tcase_add_loop_test(tests, rehearsed_graphs_have_the_bits_of_launches, i, i + 1);
    for (int i = 0; i < N_MODELS; i++)
        if (models[i].is_fast)
            tcase_add_loop_test(tests, ranks_that_round_are_near_one_that_does_not, i, i + 1);
    tcase_add_loop_test(tests, devices_that_add_up_have_the_bits_of_the_host, 1,
                        N_MODELS); /* heads of the first cannot be cut */
#ifdef FAKE_NCCL
    tcase_add_loop_test(tests, what_nccl_brings_has_the_bits_of_the_host, 1, N_MODELS);
#else
    suite_skip("what_nccl_brings_has_the_bits_of_the_host", "there was no nccl.h");
#endif
}
