/* A model cut for several ranks computes what it computes whole, and per size its bits depend on
 * nothing else: not on the batch, nor on how a prompt was cut, nor on the threads. */
#include "worker/step/forward.h"

#include "base/random.h"
#include "model/model.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_gguf.h"
#include "tests/support/tiny_hub.h"
#include "worker/core/engine.h"
#include "worker/ranks/rank_wire.h"
#include "worker/step/batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "worker rank";
const double suite_timeout_s = 300;

enum { N_TOKENS = 70, N_BLOCKS = 32, MAX_TOKENS = 128, MAX_SEQS = 8, N_FORMATS = 4, N_SIZES = 3 };

/* How far apart logits may lie, against their largest: floats are added in another order; where
 * activations are rounded to 8 bits such a difference may tip one of them over. */
static const struct {
    const char *format;
    float tolerance;
} formats[N_FORMATS] = {{"f32", 1e-5f}, {"f16", 2e-3f}, {"q4_1", 2e-2f}, {"q8_0", 2e-2f}};
static const uint32_t sizes[N_SIZES] = {2, 4, 8};

/* Threads meet alike whatever the format; that is what a build that looks for races is for. */
#ifdef __SANITIZE_THREAD__
#define N_TRIED 1
#else
#define N_TRIED N_FORMATS
#endif

struct setup {
    struct model *model;
    struct forward forward;
    struct batch batch;
};

static struct rank_options options_of(const struct model *model, uint32_t n_ranks) {
    return (struct rank_options){.model = model,
                                 .backend = "cpu",
                                 .n_threads = 1,
                                 .max_tokens = MAX_TOKENS,
                                 .max_seqs = MAX_SEQS,
                                 .context_max = 512,
                                 .n_blocks = N_BLOCKS,
                                 .n_ranks = n_ranks,
                                 .kv_format = forward_kv_format(model, "auto")};
}

static void setup_open(struct setup *setup, const char *format, uint32_t n_ranks,
                       uint32_t n_threads, const char *backend) {
    struct error error;
    setup->model = tiny_gguf_open(&(struct tiny_gguf){.format = format, .seed = 5, .wide = true});
    struct rank_options options = options_of(setup->model, n_ranks);
    options.n_threads = n_threads;
    options.backend = backend;
    enum status status = forward_open(&setup->forward, &options, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    ck_assert_uint_eq(setup->forward.n_ranks, n_ranks);
    ck_assert_int_eq(batch_init(&setup->batch, MAX_TOKENS, MAX_SEQS, 512), STATUS_OK);
}

static void setup_close(struct setup *setup) {
    batch_fini(&setup->batch);
    forward_close(&setup->forward);
    model_close(setup->model);
}

static void make_ids(uint32_t ids[N_TOKENS], uint64_t seed) {
    struct random random = {seed};
    for (int i = 0; i < N_TOKENS; i++)
        ids[i] = (uint32_t)random_below(&random, 256);
}

/* Computes tokens [begin, end) of a sequence; `out` gets the last one's logits. */
static void compute(struct setup *setup, uint32_t *ids, uint32_t *blocks, uint32_t begin,
                    uint32_t end, float out[TINY_N_VOCAB]) {
    struct plan_row row = {.begin = begin,
                           .n_tokens = end - begin,
                           .ids = ids + begin,
                           .blocks = blocks,
                           .sample = true};
    batch_build(&setup->batch, &(struct plan){.n_rows = 1, .n_tokens = end - begin, .rows = &row});
    forward_run(&setup->forward, &setup->batch, NULL, NULL);
    forward_end(&setup->forward);
    memcpy(out, setup->forward.rank.logits, TINY_N_VOCAB * sizeof *out);
}

static uint32_t best_of(const float *logits) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < TINY_N_VOCAB; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

/* The prompt, then greedy decoding up to N_TOKENS; logits of every step from the prompt's end. */
enum { N_PROMPT = 40, N_STEPS = N_TOKENS - N_PROMPT };
struct answer {
    uint32_t ids[N_TOKENS + 1];
    float logits[N_STEPS][TINY_N_VOCAB];
};

static void ask(struct setup *setup, struct answer *answer) {
    uint32_t blocks[] = {9, 3, 17, 4, 11};
    make_ids(answer->ids, 3);
    compute(setup, answer->ids, blocks, 0, N_PROMPT, answer->logits[0]);
    for (uint32_t n = N_PROMPT; n < N_TOKENS; n++) {
        answer->ids[n] = best_of(answer->logits[n - N_PROMPT]);
        if (n + 1 < N_TOKENS)
            compute(setup, answer->ids, blocks, n, n + 1, answer->logits[n + 1 - N_PROMPT]);
    }
}

static void check_close(const float *a, const float *b, float tolerance) {
    float largest = 0, off = 0;
    for (uint32_t i = 0; i < TINY_N_VOCAB; i++) {
        ck_assert(isfinite(a[i]) && isfinite(b[i]));
        largest = fmaxf(largest, fabsf(a[i]));
        off = fmaxf(off, fabsf(a[i] - b[i]));
    }
    ck_assert_msg(off <= tolerance * largest, "off by %g of %g", (double)off, (double)largest);
}

static const char *const backends[] = {"ref", "cpu"};
static struct answer wholes[N_TRIED][2]; /* by format and backend */

/* Once, and not again in each test of a size. */
static void ask_wholes(void) {
    for (int f = 0; f < N_TRIED; f++) {
        for (int b = 0; b < 2; b++) {
            struct setup setup;
            setup_open(&setup, formats[f].format, 1, 1, backends[b]);
            ask(&setup, &wholes[f][b]);
            setup_close(&setup);
        }
    }
}

START_TEST(a_cut_model_computes_what_the_whole_one_does) {
    static struct answer cut;
    const char *format = formats[_i / N_SIZES].format;
    struct setup setup;
    for (int b = 0; b < 2; b++) {
        const struct answer *whole = &wholes[_i / N_SIZES][b];
        setup_open(&setup, format, sizes[_i % N_SIZES], 1, backends[b]);
        ask(&setup, &cut);
        setup_close(&setup);
        for (uint32_t step = 0; step < N_STEPS; step++) {
            check_close(whole->logits[step], cut.logits[step], formats[_i / N_SIZES].tolerance);
            if (whole->ids[N_PROMPT + step] != cut.ids[N_PROMPT + step]) {
                ck_assert_str_ne(format, "f32"); /* exact enough never to differ here */
                break;                           /* another way from here on */
            }
        }
    }
}
END_TEST

START_TEST(per_size_the_bits_do_not_depend_on_chunks_batch_or_threads) {
    static float whole[TINY_N_VOCAB], chunked[TINY_N_VOCAB];
    uint32_t ids[2][N_TOKENS], blocks[2][5] = {{1, 2, 3, 4, 5}, {20, 18, 16, 14, 12}};
    const char *format = formats[_i / N_SIZES].format;
    uint32_t n_ranks = sizes[_i % N_SIZES];
    struct setup setup;
    make_ids(ids[0], 7);
    make_ids(ids[1], 8);
    setup_open(&setup, format, n_ranks, 1, "cpu");
    compute(&setup, ids[0], blocks[0], 0, N_TOKENS, whole);
    for (uint32_t chunk = 1; chunk < N_TOKENS; chunk = chunk * 3 + 1) {
        for (uint32_t at = 0; at < N_TOKENS; at += chunk)
            compute(&setup, ids[0], blocks[1], at, at + chunk < N_TOKENS ? at + chunk : N_TOKENS,
                    chunked);
        ck_assert_mem_eq(whole, chunked, sizeof whole);
    }
    /* Beside another one, that decodes. */
    compute(&setup, ids[1], blocks[1], 0, N_TOKENS - 1, chunked);
    struct plan_row rows[2] = {
        {.begin = N_TOKENS - 1,
         .n_tokens = 1,
         .ids = ids[1] + N_TOKENS - 1,
         .blocks = blocks[1],
         .sample = true},
        {.n_tokens = N_TOKENS, .ids = ids[0], .blocks = blocks[0], .sample = true},
    };
    batch_build(&setup.batch, &(struct plan){.n_rows = 2, .n_tokens = N_TOKENS + 1, .rows = rows});
    forward_run(&setup.forward, &setup.batch, NULL, NULL);
    forward_end(&setup.forward);
    ck_assert_mem_eq(whole, setup.forward.rank.logits + TINY_N_VOCAB, sizeof whole);
    setup_close(&setup);
    setup_open(&setup, format, n_ranks, 2 * n_ranks, "cpu");
    compute(&setup, ids[0], blocks[0], 0, N_TOKENS, chunked);
    ck_assert_mem_eq(whole, chunked, sizeof whole);
    setup_close(&setup);
}
END_TEST

struct seen {
    uint32_t next;
};

static void see_layers(void *context, uint32_t layer_begin, uint32_t layer_end) {
    struct seen *seen = context;
    ck_assert_uint_eq(layer_begin, seen->next);
    ck_assert_uint_gt(layer_end, layer_begin);
    seen->next = layer_end;
}

/* K and V of head `head` in layer `layer` of block `block`, from any rank that holds it. */
static void check_copies(const struct forward *forward, uint32_t layer, uint32_t block) {
    const struct family_facts *facts = &forward->rank.model->facts;
    size_t head_bytes = (size_t)(forward_block_bytes(facts) / (2 * facts->n_kv_heads_all));
    for (uint32_t half = 0; half < 2; half++) {
        const unsigned char *first[2] = {NULL, NULL};
        for (uint32_t rank = 0; rank < forward->n_ranks; rank++) {
            const struct transport_rank *kv = &forward->kv_of_ranks[rank];
            for (uint32_t head = kv->head_begin; head < kv->head_begin + kv->n_heads; head++) {
                const unsigned char *at = kv->base + layer * kv->layer_bytes +
                                          (size_t)block * kv->block_bytes +
                                          (half * kv->n_heads + head - kv->head_begin) * head_bytes;
                if (first[head])
                    ck_assert_mem_eq(first[head], at, head_bytes);
                first[head] = at;
            }
        }
        ck_assert(first[0] && first[1]);
    }
}

START_TEST(layers_are_done_in_order_and_heads_held_twice_are_equal) {
    uint32_t ids[N_TOKENS], blocks[] = {0, 1, 2, 3, 4};
    struct seen seen = {0};
    struct setup setup;
    make_ids(ids, 9);
    setup_open(&setup, "f16", sizes[_i], 2, "cpu");
    struct plan_row row = {.n_tokens = N_TOKENS, .ids = ids, .blocks = blocks};
    batch_build(&setup.batch, &(struct plan){.n_rows = 1, .n_tokens = N_TOKENS, .rows = &row});
    forward_run(&setup.forward, &setup.batch, see_layers, &seen); /* a chunk without a sample */
    forward_end(&setup.forward);
    ck_assert_uint_eq(seen.next, setup.forward.rank.model->facts.n_layers);
    for (uint32_t layer = 0; layer < seen.next; layer++)
        for (uint32_t block = 0; block < 4; block++)
            check_copies(&setup.forward, layer, block);
    setup_close(&setup);
}
END_TEST

/* So that workers whose sums had other bits are not taken for equal; one of a single rank adds up nothing. */
START_TEST(numerics_of_several_ranks_name_how_they_add_up) {
    for (uint32_t n = 1; n <= 2; n++) {
        struct setup setup;
        char text[RANK_WIRE_NUMERICS_MAX];
        setup_open(&setup, "f32", n, 1, "cpu");
        rank_numerics(&setup.forward.rank, text, sizeof text);
        ck_assert_msg((strstr(text, "; sums in order ftz") != NULL) == (n > 1), "%u: %s", n, text);
        setup_close(&setup);
    }
}
END_TEST

START_TEST(what_cannot_be_cut_is_refused_and_leaves_nothing) {
    struct error error;
    struct forward forward;
    struct forward_bytes bytes;
    struct model *model = tiny_gguf_open(&(struct tiny_gguf){.format = "f16", .wide = true});
    struct rank_options options = options_of(model, 3); /* of eight heads */
    ck_assert_int_eq(forward_open(&forward, &options, &error), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "3"));
    ck_assert_int_eq(forward_measure(&options, &bytes, &error), STATUS_UNSUPPORTED);
    options.n_ranks = COMM_RANKS_MAX + 1;
    ck_assert_int_eq(forward_open(&forward, &options, &error), STATUS_UNSUPPORTED);
    options.n_ranks = 2;
    options.backend = "abacus";
    ck_assert_int_eq(forward_open(&forward, &options, &error), STATUS_NOT_FOUND);
    forward_close(&forward); /* also fine after a failure */
    model_close(model);
    model = tiny_gguf_open(
        &(struct tiny_gguf){.format = "f16", .wide = true, .without = "blk.1.ffn_down.weight"});
    options = options_of(model, 4);
    ck_assert_int_eq(forward_open(&forward, &options, &error), STATUS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "blk.1.ffn_down.weight"));
    model_close(model);
    model = tiny_hub_open("llama", "awq"); /* eight heads of 16, inner widths of 192 */
    options = options_of(model, 8);
    ck_assert_int_eq(forward_measure(&options, &bytes, &error), STATUS_OK); /* 16 inputs each */
    model_close(model);
    model = tiny_hub_open("llama", "f16");
    options = options_of(model, 8);
    model->config.ffn_dim = 8;
    ck_assert_int_eq(forward_measure(&options, &bytes, &error), STATUS_OK);
    model->config.ffn_dim = 7;
    ck_assert_int_eq(forward_measure(&options, &bytes, &error), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "tensor model.layers.0.mlp.down_proj: 7 inputs cannot "
                                             "be cut for tp 8: each rank needs one"));
    model_close(model);
    ck_assert_int_eq(model_open("hash", NULL, &model, &error), STATUS_OK);
    options = options_of(model, 2);
    ck_assert_int_eq(forward_open(&forward, &options, &error), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "tp"));
    model_close(model);
}
END_TEST

START_TEST(figures_are_the_largest_ranks_and_add_up) {
    struct error error;
    struct forward_bytes whole, cut;
    struct model *model = tiny_gguf_open(&(struct tiny_gguf){.format = "q8_0", .wide = true});
    struct rank_options options = options_of(model, 1);
    ck_assert_int_eq(forward_measure(&options, &whole, &error), STATUS_OK);
    options.n_ranks = 2;
    ck_assert_int_eq(forward_measure(&options, &cut, &error), STATUS_OK);
    ck_assert_uint_eq(cut.kv_per_token * 2, whole.kv_per_token);
    ck_assert_uint_eq(cut.kv_per_token_here, whole.kv_per_token);
    ck_assert_uint_lt(cut.weights, whole.weights * 2 / 3);
    ck_assert_uint_gt(cut.weights, whole.weights * 2 / 5);
    ck_assert_uint_eq(forward_block_bytes(&cut.facts), forward_block_bytes(&whole.facts));
    options.n_ranks = 8; /* each of two heads is held four times */
    ck_assert_int_eq(forward_measure(&options, &cut, &error), STATUS_OK);
    ck_assert_uint_eq(cut.kv_per_token_here, 4 * whole.kv_per_token);
    ck_assert_uint_eq(forward_block_bytes(&cut.facts), forward_block_bytes(&whole.facts));
    model_close(model);
}
END_TEST

START_TEST(the_kv_format_follows_the_matrices_unless_it_is_named) {
    for (int i = 0; i < N_FORMATS; i++) {
        struct model *model = tiny_gguf_open(&(struct tiny_gguf){.format = formats[i].format});
        bool f32 = strcmp(formats[i].format, "f32") == 0;
        ck_assert_int_eq(forward_kv_format(model, "auto"), f32 ? KV_F32 : KV_F16);
        ck_assert_int_eq(forward_kv_format(model, "f16"), KV_F16);
        ck_assert_int_eq(forward_kv_format(model, "f32"), KV_F32);
        model_close(model);
    }
}
END_TEST

/* A dummy has no tensors before they are asked for, and the plan must be what is run then. */
START_TEST(the_kv_format_of_a_dummy_is_the_same_before_and_after) {
    static const char *const formats_of_dummies[] = {"f32", "bf16", "gptq4"};
    for (int i = 0; i < 3; i++) {
        struct model *model = tiny_hub_open("llama", formats_of_dummies[i]);
        enum kv_format wanted = i == 0 ? KV_F32 : KV_F16;
        ck_assert_int_eq(forward_kv_format(model, "auto"), wanted);
        struct rank_options options = {.model = model, .backend = "cpu", .kv_format = wanted};
        struct forward_bytes bytes;
        struct error error;
        options.max_tokens = options.max_seqs = 4;
        ck_assert_int_eq(forward_measure(&options, &bytes, &error), STATUS_OK);
        ck_assert_int_eq(forward_kv_format(model, "auto"), wanted);
        model_close(model);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_unchecked_fixture(tests, ask_wholes, NULL);
    tcase_add_loop_test(tests, a_cut_model_computes_what_the_whole_one_does, 0, N_TRIED * N_SIZES);
    tcase_add_loop_test(tests, per_size_the_bits_do_not_depend_on_chunks_batch_or_threads, 0,
                        N_TRIED * N_SIZES);
    tcase_add_loop_test(tests, layers_are_done_in_order_and_heads_held_twice_are_equal, 0, N_SIZES);
    tcase_add_test(tests, numerics_of_several_ranks_name_how_they_add_up);
    tcase_add_test(tests, what_cannot_be_cut_is_refused_and_leaves_nothing);
    tcase_add_test(tests, figures_are_the_largest_ranks_and_add_up);
    tcase_add_test(tests, the_kv_format_follows_the_matrices_unless_it_is_named);
    tcase_add_test(tests, the_kv_format_of_a_dummy_is_the_same_before_and_after);
}
