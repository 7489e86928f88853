/* Every model family on every backend: what a token's numbers are does not depend on what else is
 * in the batch, how the prompt was cut, where its blocks lie, or whether it came by prefill or
 * decode. */
#include "worker/family/family.h"

#include "base/assert.h"
#include "base/random.h"
#include "kernels/needs.h"
#include "model/model.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_gguf.h"
#include "tests/support/tiny_hub.h"
#include "worker/core/engine.h"
#include "worker/step/batch.h"
#include "worker/step/forward.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "family";
const double suite_timeout_s = 600;

enum { N_TOKENS = 75, N_BLOCKS = 64, MAX_TOKENS = 256, MAX_SEQS = 160 };

/* A model of each family and format. Family "hash" needs no file. */
static const struct {
    const char *family;
    const char *format;
    bool tied_head;
    bool hub;   /* a hub checkpoint's names and shapes, else a GGUF file */
    bool brief; /* taken too where only few can be */
    bool large_heads;
} models[] = {
    {"hash", NULL, .tied_head = false},
    {"llama", "f32", .tied_head = true},
    {"llama", "f16", .tied_head = false},
    {"llama", "bf16", .tied_head = true},
    {"llama", "q4_0", .tied_head = true},
    {"llama", "q4_1", .brief = true},
    {"llama", "q8_0", .tied_head = false},
    {"llama", "bf16", .hub = true},
    {"llama", "awq", .hub = true},
    {"qwen", "f16", .hub = true},
    {"qwen", "gptq4", .hub = true, .brief = true},
    {"qwen2", "f32", .hub = true},
    {"qwen2", "gptq8", .hub = true},
    {"qwen3", "bf16", .hub = true},
    {"qwen2_moe", "f16", .hub = true},
    {"qwen2_moe", "awq", .hub = true, .brief = true},
    {"qwen3_moe", "f32", .hub = true},
    {"chatglm", "f16", .hub = true},
    {"chatglm", "gptq4", .hub = true},
    {"baichuan", "gptq4", .hub = true},
    {"baichuan", "f32", .hub = true},
    {"llama", "f16", .large_heads = true},
};
enum { N_MODELS = sizeof models / sizeof *models };

struct setup {
    struct model *model;
    struct forward forward;
    struct batch batch;
};

static struct model *open_model(int which) {
    struct model *model;
    struct error error;
    if (!models[which].format) {
        ck_assert_int_eq(model_open("hash", NULL, &model, &error), STATUS_OK);
        return model;
    }
    if (models[which].hub)
        return tiny_hub_open(models[which].family, models[which].format);
    return tiny_gguf_open(&(struct tiny_gguf){.format = models[which].format,
                                              .seed = 42,
                                              .tied_head = models[which].tied_head,
                                              .large_heads = models[which].large_heads});
}

static void setup_open_for(struct setup *setup, int which, const char *backend,
                           uint32_t max_tokens) {
    struct error error;
    memset(setup, 0, sizeof *setup);
    setup->model = open_model(which);
    struct rank_options options = {.model = setup->model,
                                   .backend = backend,
                                   .n_threads = 2,
                                   .max_tokens = max_tokens,
                                   .max_seqs = max_tokens < MAX_SEQS ? max_tokens : MAX_SEQS,
                                   .context_max = 512,
                                   .n_blocks = N_BLOCKS};
    enum status status = forward_open(&setup->forward, &options, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    ck_assert_str_eq(setup->forward.rank.model->family->name, models[which].family);
    ck_assert_int_eq(batch_init(&setup->batch, MAX_TOKENS, MAX_SEQS, 512), STATUS_OK);
}

static void setup_open(struct setup *setup, int which, const char *backend) {
    setup_open_for(setup, which, backend, MAX_TOKENS);
}

static void setup_close(struct setup *setup) {
    batch_fini(&setup->batch);
    forward_close(&setup->forward);
    model_close(setup->model);
}

/* What one token's row came to: logits, or the token that the family names. */
static size_t result_bytes(const struct setup *setup) {
    return setup->forward.rank.forced ? sizeof(uint32_t)
                                      : setup->forward.rank.model->facts.n_vocab * sizeof(float);
}

static void result_read(const struct setup *setup, uint32_t row, void *out) {
    const struct rank *rank = &setup->forward.rank;
    if (rank->forced)
        memcpy(out, &rank->forced[row], sizeof rank->forced[row]);
    else
        rank->kernels->get(rank->ctx, out, rank->logits + (size_t)row * rank->model->facts.n_vocab,
                           result_bytes(setup));
}

struct sequence {
    uint32_t ids[N_TOKENS];
    uint32_t blocks[8];
    uint32_t n_done;
};

static void sequence_init(struct sequence *sequence, const struct setup *setup, uint64_t seed,
                          uint32_t first_block, uint32_t stride) {
    struct random random = {seed};
    for (uint32_t i = 0; i < N_TOKENS; i++)
        sequence->ids[i] =
            (uint32_t)random_below(&random, setup->forward.rank.model->facts.n_vocab);
    for (uint32_t i = 0; i < 8; i++)
        sequence->blocks[i] = (first_block + i * stride) % N_BLOCKS;
    sequence->n_done = 0;
}

static struct plan_row row_of(const struct sequence *sequence, uint32_t n) {
    return (struct plan_row){.begin = sequence->n_done,
                             .n_tokens = n,
                             .ids = sequence->ids + sequence->n_done,
                             .blocks = sequence->blocks,
                             .sample = true};
}

/* Runs a step with the results of every token of row `of`, and keeps those in `results`. */
static void run(struct setup *setup, struct plan_row *rows, uint32_t n_rows, uint32_t of,
                unsigned char *results) {
    struct plan plan = {.n_rows = n_rows, .rows = rows};
    struct batch *batch = &setup->batch;
    for (uint32_t i = 0; i < n_rows; i++)
        plan.n_tokens += rows[i].n_tokens;
    batch_build(batch, &plan);
    ck_assert_uint_eq(batch->n_rows, n_rows);
    batch->n_rows = rows[of].n_tokens;
    for (uint32_t i = 0; i < batch->n_rows; i++)
        batch->rows[i] = batch->seq_begin[of] + i;
    forward_run(&setup->forward, batch, NULL, NULL);
    forward_end(&setup->forward);
    for (uint32_t i = 0; i < batch->n_rows; i++)
        result_read(setup, i, results + (rows[of].begin + i) * result_bytes(setup));
}

static void run_in_chunks(struct setup *setup, struct sequence *sequence, uint32_t chunk,
                          unsigned char *results) {
    for (sequence->n_done = 0; sequence->n_done < N_TOKENS;) {
        uint32_t left = N_TOKENS - sequence->n_done;
        struct plan_row row = row_of(sequence, chunk < left ? chunk : left);
        run(setup, &row, 1, 0, results);
        sequence->n_done += row.n_tokens;
    }
}

static void check_differs_along(const struct setup *setup, const unsigned char *results) {
    size_t n = result_bytes(setup);
    for (uint32_t i = 1; i < N_TOKENS; i++)
        ck_assert(memcmp(results, results + i * n, n) != 0);
    const float *numbers = (const void *)results;
    for (uint32_t i = 0; !setup->forward.rank.forced && i < N_TOKENS * n / sizeof(float); i++)
        if (numbers[i] - numbers[i] != 0)
            ck_abort_msg("result %u is not finite", i);
}

static unsigned char *results_new(const struct setup *setup) {
    unsigned char *results = calloc(N_TOKENS, result_bytes(setup));
    ck_assert_ptr_nonnull(results);
    return results;
}

/* The cpu's many paths in each of four ways; what is emulated or computes as the reference does takes long, and
 * one of them will do, which differs from model to model. */
static bool is_taken(const char *backend, int which, uint32_t way) {
    return strncmp(backend, "cpu:", 4) == 0 || way == (uint32_t)which % 4;
}

/* Emulated kernels under sanitizers would take minutes: there some models. The preset emu has all, and
 * tests/e2e/far_test.py whole clusters of every family. */
static bool takes_minutes(const char *backend) {
#ifdef TANDEM_SANITIZED
    return strncmp(backend, "cpu:", 4) != 0; /* the others take all models in optimised builds */
#else
    (void)backend;
    return false;
#endif
}

static void check_bits(int which, const char *backend) {
    if (takes_minutes(backend) && !models[which].brief)
        return;
    struct setup setup;
    struct sequence a, other[3];
    setup_open(&setup, which, backend);
    size_t n = N_TOKENS * result_bytes(&setup);
    unsigned char *truth = results_new(&setup), *found = results_new(&setup);

    sequence_init(&a, &setup, 1, 0, 1);
    run_in_chunks(&setup, &a, N_TOKENS, truth);
    check_differs_along(&setup, truth);

    static const uint32_t chunks[] = {1, 7, 16, 64};
    for (uint32_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        if (!is_taken(backend, which, i))
            continue;
        sequence_init(&a, &setup, 1, 3 + 5 * i, 3); /* in other blocks */
        memset(found, 0, n);
        run_in_chunks(&setup, &a, chunks[i], found);
        ck_assert_msg(memcmp(truth, found, n) == 0, "%s %s on %s: chunks of %u",
                      models[which].family, models[which].format ? models[which].format : "",
                      backend, chunks[i]);
    }
    /* Among others of other lengths, at every place of the batch, in uneven steps. */
    for (uint32_t place = 0; place < 4; place++) {
        if (!is_taken(backend, which, place))
            continue;
        sequence_init(&a, &setup, 1, 0, 4);
        for (uint32_t i = 0; i < 3; i++)
            sequence_init(&other[i], &setup, 2 + i, 1 + i, 4);
        memset(found, 0, n);
        for (uint32_t step = 0; a.n_done < N_TOKENS; step++) {
            struct plan_row rows[4];
            uint32_t left = N_TOKENS - a.n_done, want = 1 + (step * 13 + place) % 21;
            uint32_t n_rows = 0, mine = 0;
            for (uint32_t i = 0; i < 4; i++) {
                struct sequence *sequence = i == place ? &a : &other[i < place ? i : i - 1];
                uint32_t share = i == place ? (want < left ? want : left) : 1 + (step + i) % 3;
                if (i != place && sequence->n_done + share > N_TOKENS)
                    continue;
                mine = i == place ? n_rows : mine;
                rows[n_rows++] = row_of(sequence, share);
                sequence->n_done += share;
            }
            run(&setup, rows, n_rows, mine, found);
        }
        ck_assert_msg(memcmp(truth, found, n) == 0, "%s %s on %s: place %u of a batch",
                      models[which].family, models[which].format ? models[which].format : "",
                      backend, place);
    }
    free(truth);
    free(found);
    setup_close(&setup);
}

START_TEST(results_do_not_depend_on_batch_chunks_blocks_or_phase) {
    for (uint32_t i = 0; kernels_table[i]; i++)
        if (subject_is_wanted(kernels_table[i]))
            check_bits(_i, subject_label(kernels_table[i]));
}
END_TEST

/* What is made at load is made in steps too. */
START_TEST(results_do_not_depend_on_the_largest_step) {
    enum { LEAST = 16 };
    struct setup setup;
    struct sequence a;
    unsigned char *results[2];
    size_t n = 0;
    for (int small = 0; small < 2; small++) {
        setup_open_for(&setup, _i, "cpu", small ? LEAST : MAX_TOKENS);
        n = N_TOKENS * result_bytes(&setup);
        results[small] = results_new(&setup);
        sequence_init(&a, &setup, 1, 0, 1);
        run_in_chunks(&setup, &a, LEAST, results[small]);
        setup_close(&setup);
    }
    ck_assert_mem_eq(results[0], results[1], n);
    free(results[0]);
    free(results[1]);
}
END_TEST

struct seen {
    struct forward *forward;
    uint32_t next;
    uint32_t n_turns; /* without a layer */
};

static void check_layers(void *context, uint32_t begin, uint32_t end) {
    struct seen *seen = context;
    const struct kernels *kernels = seen->forward->rank.kernels;
    ck_assert_uint_eq(begin, seen->next);
    ck_assert_uint_ge(end, begin);
    seen->n_turns += end == begin;
    if (kernels && kernels->marked) /* the operations are done, not only called */
        ck_assert_uint_ge(kernels->marked(seen->forward->rank.ctx), end);
    seen->next = end;
}

static void check_announcements(int which, const char *backend) {
    struct setup setup;
    struct sequence a;
    setup_open(&setup, which, backend);
    struct seen seen = {.forward = &setup.forward};
    sequence_init(&a, &setup, 1, 0, 1);
    struct plan_row row = row_of(&a, 20);
    batch_build(&setup.batch, &(struct plan){.n_rows = 1, .n_tokens = 20, .rows = &row});
    forward_run(&setup.forward, &setup.batch, check_layers, &seen);
    ck_assert_uint_eq(seen.next, setup.forward.rank.model->facts.n_layers);
    bool waits = setup.forward.rank.kernels && setup.forward.rank.kernels->marked;
    /* A GPU may be done with so small a model before it is asked. */
    if (!waits || !kernels_need_device(kernels_find(backend)->name))
        ck_assert(waits ? seen.n_turns > 0 : seen.n_turns == 0);
    forward_end(&setup.forward);
    setup_close(&setup);
}

START_TEST(layers_are_announced_once_each_in_rising_order) {
    for (uint32_t i = 0; kernels_table[i]; i++)
        if (subject_is_wanted(kernels_table[i]) &&
            (!takes_minutes(kernels_table[i]->name) || models[_i].brief))
            check_announcements(_i, subject_label(kernels_table[i]));
}
END_TEST

/* The oracle as a client would compute it: no blocks, no chunks. */
static uint32_t oracle_next(const uint32_t *ids, uint32_t n) {
    uint64_t entry = 0, s = 0;
    for (uint32_t i = 0; i < n; i++) {
        entry = mix64(entry ^ ((uint64_t)ids[i] + 1));
        s = mix64(s ^ entry);
    }
    return (uint32_t)(256 + s % 65280);
}

START_TEST(hash_names_the_tokens_that_anyone_can_recompute) {
    struct setup setup;
    struct sequence a;
    setup_open(&setup, 0, kernels_table[0]->name);
    unsigned char *results = results_new(&setup);
    sequence_init(&a, &setup, 5, 2, 3);
    run_in_chunks(&setup, &a, 9, results);
    for (uint32_t i = 0; i < N_TOKENS; i++) {
        uint32_t found;
        memcpy(&found, results + i * sizeof found, sizeof found);
        ck_assert_uint_eq(found, oracle_next(a.ids, i + 1));
    }
    free(results);
    setup_close(&setup);
}
END_TEST

START_TEST(hash_notices_one_changed_byte_in_any_layer_of_any_block) {
    struct setup setup;
    struct sequence a;
    setup_open(&setup, 0, kernels_table[0]->name);
    const struct family_kv *kv = &setup.forward.rank.kv;
    unsigned char *results = results_new(&setup);
    sequence_init(&a, &setup, 5, 2, 3);
    run_in_chunks(&setup, &a, 64, results);
    uint32_t truth;
    memcpy(&truth, results + (N_TOKENS - 1) * sizeof truth, sizeof truth);
    for (uint32_t layer = 0; layer < kv->n_layers; layer++) {
        for (uint32_t block = 0; block < N_TOKENS / KV_BLOCK_TOKENS; block++) {
            unsigned char *at =
                kv->base + layer * kv->layer_bytes + a.blocks[block] * kv->block_bytes + 77;
            a.n_done = N_TOKENS - 1;
            struct plan_row row = row_of(&a, 1);
            *at ^= 1;
            run(&setup, &row, 1, 0, results);
            ck_assert(memcmp(&truth, results + (N_TOKENS - 1) * sizeof truth, sizeof truth) != 0);
            *at ^= 1;
            run(&setup, &row, 1, 0, results);
            ck_assert_mem_eq(&truth, results + (N_TOKENS - 1) * sizeof truth, sizeof truth);
        }
    }
    free(results);
    setup_close(&setup);
}
END_TEST

START_TEST(every_family_has_a_model_here) {
    for (uint32_t i = 0; family_table[i].name; i++) {
        bool found = false;
        for (int m = 0; m < N_MODELS; m++)
            found = found || strcmp(models[m].family, family_table[i].name) == 0;
        ck_assert_msg(found, "family %s is not tested", family_table[i].name);
        ck_assert_ptr_eq(family_find(family_table[i].name), &family_table[i]);
    }
    ck_assert_ptr_null(family_find("no such family"));
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, every_family_has_a_model_here);
    tcase_add_loop_test(tests, results_do_not_depend_on_batch_chunks_blocks_or_phase, 0, N_MODELS);
    tcase_add_loop_test(tests, results_do_not_depend_on_the_largest_step, 0, N_MODELS);
    tcase_add_loop_test(tests, layers_are_announced_once_each_in_rising_order, 0, N_MODELS);
    tcase_add_test(tests, hash_names_the_tokens_that_anyone_can_recompute);
    tcase_add_test(tests, hash_notices_one_changed_byte_in_any_layer_of_any_block);
}
