/* tests/support/logits_cli.c: logits of token ids, for scripts that compare with other engines.
 *
 *   logits_cli MODEL [--backend NAME] [--isa NAME] [--threads N] [--chunk N] [--tp N]
 *              [--kv-dtype auto|f16|f32]
 *
 * Standard input is JSON lines {"ids": [...], "greedy": N, "top": N, "binary": false}. Each gives
 * one line {"ids": [the N next greedy ids], "top": [[id, logit], ...]} with the best of the last
 * given id's logits; with "binary": true its n_vocab float32 instead, and no line; with "all": true
 * as well, those of every given id, one after the other. */
#include "base/error.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "worker/core/engine.h"
#include "worker/step/batch.h"
#include "worker/step/forward.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct runner {
    struct forward forward;
    struct batch batch;
    uint32_t n_vocab;
    uint32_t context;
    uint32_t chunk;
    uint32_t variant; /* by the length of the prompt */
    uint32_t *ids;    /* (context) */
    uint32_t *blocks; /* (context / 16) */
    float *logits;    /* (n_vocab); NULL where the family names its tokens itself */
};

static void die(const char *text) {
    fprintf(stderr, "logits_cli: %s\n", text);
    exit(1);
}

/* Computes ids [begin, end); the logits of the last one are then in `logits`. */
static void compute(struct runner *runner, uint32_t begin, uint32_t end) {
    while (begin < end) {
        uint32_t n = end - begin < runner->chunk ? end - begin : runner->chunk;
        struct plan_row row = {.begin = begin,
                               .n_tokens = n,
                               .ids = runner->ids + begin,
                               .blocks = runner->blocks,
                               .variant = runner->variant,
                               .sample = begin + n == end};
        batch_build(&runner->batch, &(struct plan){.n_rows = 1, .n_tokens = n, .rows = &row});
        forward_run(&runner->forward, &runner->batch, NULL, NULL);
        forward_end(&runner->forward);
        begin += n;
    }
    if (runner->logits)
        runner->forward.rank.kernels->get(runner->forward.rank.ctx, runner->logits,
                                          runner->forward.rank.logits,
                                          runner->n_vocab * sizeof *runner->logits);
}

static uint32_t best_id(const struct runner *runner) {
    if (runner->forward.rank.forced)
        return runner->forward.rank.forced[0];
    uint32_t best = 0;
    for (uint32_t i = 1; i < runner->n_vocab; i++)
        if (runner->logits[i] > runner->logits[best])
            best = i;
    return best;
}

static json_t *best_logits(const struct runner *runner, uint32_t n_top) {
    json_t *list = json_array();
    const float *logits = runner->logits;
    if (!logits)
        return list;
    float bound = 0;
    uint32_t bound_id = UINT32_MAX;
    for (uint32_t i = 0; i < n_top && i < runner->n_vocab; i++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t id = 0; id < runner->n_vocab; id++) {
            bool after = bound_id == UINT32_MAX || logits[id] < bound ||
                         (logits[id] == bound && id > bound_id);
            if (after && (best == UINT32_MAX || logits[id] > logits[best]))
                best = id;
        }
        if (best == UINT32_MAX)
            break; /* the rest is not a number */
        bound = logits[best];
        bound_id = best;
        json_array_append_new(list, json_pack("[i, f]", (int)best, (double)bound));
    }
    return list;
}

static uint32_t read_ids(struct runner *runner, const json_t *ids) {
    size_t n = json_array_size(ids);
    if (n == 0 || n > runner->context)
        die("\"ids\" is empty or longer than the context");
    for (size_t i = 0; i < n; i++) {
        json_int_t id = json_integer_value(json_array_get(ids, i));
        if (id < 0 || id >= runner->n_vocab)
            die("an id is outside the vocabulary");
        runner->ids[i] = (uint32_t)id;
    }
    return (uint32_t)n;
}

static void answer(struct runner *runner, const json_t *line) {
    uint32_t n = read_ids(runner, json_object_get(line, "ids"));
    const struct family_facts *facts = &runner->forward.rank.model->facts;
    for (runner->variant = 0; n > facts->variant_limits[runner->variant];)
        runner->variant++;
    json_int_t n_greedy = json_integer_value(json_object_get(line, "greedy"));
    json_int_t n_top = json_integer_value(json_object_get(line, "top"));
    bool binary = json_is_true(json_object_get(line, "binary"));
    if (binary && !runner->forward.rank.forced) {
        bool all = json_is_true(json_object_get(line, "all"));
        for (uint32_t i = all ? 0 : n - 1; i < n; i++) {
            compute(runner, all ? i : 0, i + 1);
            fwrite(runner->logits, sizeof(float), runner->n_vocab, stdout);
        }
        fflush(stdout);
        return;
    }
    compute(runner, 0, n);
    json_t *top = best_logits(runner, n_top > 0 ? (uint32_t)n_top : 0);
    json_t *greedy = json_array();
    for (json_int_t i = 0; i < n_greedy && n < runner->context; i++, n++) {
        runner->ids[n] = best_id(runner);
        json_array_append_new(greedy, json_integer(runner->ids[n]));
        if (i + 1 < n_greedy)
            compute(runner, n, n + 1);
    }
    json_t *out = json_pack("{s:o, s:o}", "ids", greedy, "top", top);
    json_dumpf(out, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(out);
}

static const char *option(int argc, char **argv, const char *name, const char *fallback) {
    for (int i = 2; i + 1 < argc; i += 2)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return fallback;
}

int main(int argc, char **argv) {
    struct runner runner = {0};
    struct model *model;
    struct error error;
    json_error_t wrong;
    if (argc < 2)
        die("which model?");
    /* Ids in, logits out: checkpoints without a tokenizer will do. */
    struct model_options how = {.any_tokenizer = true};
    if (model_open(argv[1], &how, &model, &error) != STATUS_OK)
        die(error.text);
    runner.chunk = (uint32_t)strtoul(option(argc, argv, "--chunk", "64"), NULL, 10);
    runner.context = model->config.context < 8192 ? model->config.context : 8192;
    struct rank_options options = {
        .model = model,
        .backend = option(argc, argv, "--backend", "ref"),
        .isa = option(argc, argv, "--isa", NULL),
        .n_threads = (uint32_t)strtoul(option(argc, argv, "--threads", "0"), NULL, 10),
        .max_tokens = runner.chunk,
        .max_seqs = 1,
        .context_max = runner.context,
        .n_blocks = (runner.context + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS,
        .n_ranks = (uint32_t)strtoul(option(argc, argv, "--tp", "1"), NULL, 10),
        .kv_format = forward_kv_format(model, option(argc, argv, "--kv-dtype", "f16")),
    };
    if (runner.chunk == 0 || forward_open(&runner.forward, &options, &error) != STATUS_OK)
        die(runner.chunk == 0 ? "--chunk is 0" : error.text);
    runner.n_vocab = runner.forward.rank.model->facts.n_vocab;
    runner.ids = calloc(runner.context, sizeof *runner.ids);
    runner.blocks = calloc(options.n_blocks, sizeof *runner.blocks);
    if (!runner.forward.rank.forced)
        runner.logits = calloc(runner.n_vocab, sizeof *runner.logits);
    if (!runner.ids || (!runner.logits && !runner.forward.rank.forced) || !runner.blocks ||
        batch_init(&runner.batch, runner.chunk, 1, runner.context) != STATUS_OK)
        die("no memory");
    for (uint32_t i = 0; i < options.n_blocks; i++)
        runner.blocks[i] = i;
    json_t *line;
    while ((line = json_loadf(stdin, JSON_DISABLE_EOF_CHECK, &wrong))) {
        answer(&runner, line);
        json_decref(line);
    }
    batch_fini(&runner.batch);
    forward_close(&runner.forward);
    model_close(model);
    free(runner.ids);
    free(runner.blocks);
    free(runner.logits);
    return 0;
}
