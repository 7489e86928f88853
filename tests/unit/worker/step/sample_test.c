/* What a sequence asks for becomes the kernels' parameters. */
#include "worker/step/sample.h"

#include "base/random.h"
#include "tests/support/suite.h"
#include "worker/core/engine.h"
#include "worker/step/batch.h"
#include "worker/step/forward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "worker sample";
const double suite_timeout_s = 60;

enum { MAX_SEQS = 4, MAX_SLOTS = 8, CONTEXT = 300, N_VOCAB = 200 };

/* The sequences in the slots. */
static struct sequence_view views[MAX_SLOTS];

void engine_sequence(const struct engine *engine, uint32_t slot, uint32_t n_tokens,
                     struct sequence_view *view) {
    (void)engine;
    *view = views[slot];
    view->n_tokens = n_tokens;
}

void engine_constrained(struct engine *engine, uint64_t now_ns, uint32_t slot, uint64_t serial,
                        enum status status) {
    (void)engine, (void)now_ns, (void)slot, (void)serial, (void)status;
}

static void open_sample(struct sample *sample) {
    static const uint32_t ends[] = {2, 199};
    struct sample_options options = {.max_seqs = MAX_SEQS,
                                     .max_slots = MAX_SLOTS,
                                     .context = CONTEXT,
                                     .n_vocab = N_VOCAB,
                                     .n_ends = 2,
                                     .ends = ends};
    ck_assert_int_eq(sample_init(sample, &options), STATUS_OK);
}

START_TEST(the_number_drawn_depends_on_seed_choice_and_index_alone) {
    struct sample sample;
    struct sampling sampling;
    uint32_t ids[64] = {0};
    open_sample(&sample);
    sampling_init(&sampling);
    sampling.seed = 77;
    sampling.choice = 3;
    struct sequence_view view = {
        .ids = ids, .n_tokens = 40, .n_prompt = 30, .sampling = &sampling, .serial = 1};
    sample_prepare(&sample, 0, 0, &view);
    float drawn = sample.params[0].uniform;
    ck_assert(drawn >= 0 && drawn < 1);
    ck_assert(drawn == random_unit(random_at(77, 3, 10)));

    view.n_tokens = 20; /* a shorter prompt, another row and slot, other ids: the same index */
    view.n_prompt = 10;
    view.serial = 9;
    ids[3] = 5;
    sample_prepare(&sample, 2, 5, &view);
    ck_assert(sample.params[2].uniform == drawn);
    view.n_tokens++;
    sample_prepare(&sample, 2, 5, &view);
    ck_assert(sample.params[2].uniform != drawn);
    view.n_tokens--;
    sampling.choice = 4;
    sample_prepare(&sample, 2, 5, &view);
    ck_assert(sample.params[2].uniform != drawn);
    sample_fini(&sample);
}
END_TEST

START_TEST(every_number_of_a_request_reaches_the_kernels) {
    struct sample sample;
    struct sampling sampling;
    uint32_t ids[8] = {0};
    uint32_t n = 0;
    open_sample(&sample);
    sampling_init(&sampling);
#define FLOAT(name) sampling.name = 0.5f + (float)n++;
#define U32(name)   sampling.name = 5 + n++;
#include "proto/sampling.def"
#undef FLOAT
#undef U32
    ck_assert_uint_ge(n, 7);
    struct sequence_view view = {
        .ids = ids, .n_tokens = 8, .n_prompt = 4, .sampling = &sampling, .serial = 1};
    sample_prepare(&sample, 0, 0, &view);
    n = 0;
#define FLOAT(name) ck_assert(sample.params[0].name == 0.5f + (float)n++);
#define U32(name)   ck_assert_uint_eq(sample.params[0].name, 5 + n++);
#include "proto/sampling.def"
#undef FLOAT
#undef U32
    sample_fini(&sample);
}
END_TEST

static uint32_t count_of(const struct sample_params *params, uint32_t id, bool *seen) {
    *seen = false;
    for (uint32_t i = 0; i < params->n_seen; i++) {
        if (params->seen_ids[i] != id)
            continue;
        ck_assert(!*seen); /* distinct */
        *seen = true;
        return params->seen_counts[i];
    }
    return 0;
}

static void check_counts(const struct sample_params *params, const struct sequence_view *view) {
    for (uint32_t id = 0; id < N_VOCAB; id++) {
        uint32_t n = 0;
        bool any = false, seen;
        for (uint32_t i = 0; i < view->n_tokens; i++) {
            any = any || view->ids[i] == id;
            n += i >= view->n_prompt && view->ids[i] == id;
        }
        ck_assert_uint_eq(count_of(params, id, &seen), n);
        ck_assert_int_eq(seen, any);
    }
}

START_TEST(penalties_count_the_output_and_know_the_prompt_as_sequences_grow_and_change) {
    struct sample sample;
    struct sampling sampling;
    struct random random = {5};
    uint32_t ids[CONTEXT];
    open_sample(&sample);
    sampling_init(&sampling);
    sampling.repetition = 1.1f;
    for (uint64_t serial = 0; serial < 20; serial++) {
        struct sequence_view view = {.ids = ids, .sampling = &sampling, .serial = serial};
        view.n_prompt = 1 + (uint32_t)random_below(&random, CONTEXT / 2);
        for (uint32_t i = 0; i < CONTEXT; i++)
            ids[i] = (uint32_t)random_below(&random, 1 + serial * 9);
        for (view.n_tokens = view.n_prompt; view.n_tokens <= CONTEXT;
             view.n_tokens += 1 + (uint32_t)random_below(&random, 40)) {
            sample_prepare(&sample, 1, 6, &view);
            check_counts(&sample.params[1], &view);
        }
    }
    sampling.repetition = 1;
    struct sequence_view view = {
        .ids = ids, .n_tokens = 9, .n_prompt = 3, .sampling = &sampling, .serial = 99};
    sample_prepare(&sample, 1, 6, &view);
    ck_assert_uint_eq(sample.params[1].n_seen, 0); /* nobody asks: nothing is counted */
    sample_fini(&sample);
}
END_TEST

static float bias_of(const struct sample_params *params, uint32_t id) {
    uint32_t n = 0;
    float bias = 0;
    for (uint32_t i = 0; i < params->n_bias; i++) {
        n += params->bias_ids[i] == id;
        bias = params->bias_ids[i] == id ? params->bias[i] : bias;
    }
    ck_assert_uint_le(n, 1);
    return bias;
}

START_TEST(ends_are_banned_until_they_may_come_whatever_the_client_wants) {
    struct sample sample;
    struct sampling sampling;
    uint32_t ids[8] = {0};
    static const uint32_t bias_ids[] = {7, 2}, stop_ids[] = {50, 199, 5000};
    static const float bias[] = {1.5f, 100};
    open_sample(&sample);
    sampling_init(&sampling);
    sampling.n_bias = 2;
    sampling.bias_ids = bias_ids;
    sampling.bias = bias;
    sampling.n_stop_ids = 3;
    sampling.stop_ids = stop_ids;
    struct sequence_view view = {
        .ids = ids, .n_tokens = 4, .n_prompt = 4, .sampling = &sampling, .ban_ends = true};
    sample_prepare(&sample, 3, 0, &view);
    const struct sample_params *params = &sample.params[3];
    ck_assert(bias_of(params, 7) == 1.5f);
    ck_assert(isinf(bias_of(params, 2)) && bias_of(params, 2) < 0);
    ck_assert(isinf(bias_of(params, 199)) && isinf(bias_of(params, 50)));
    for (uint32_t i = 0; i < params->n_bias; i++)
        ck_assert_uint_lt(params->bias_ids[i], N_VOCAB);
    view.ban_ends = false;
    sample_prepare(&sample, 3, 0, &view);
    ck_assert(bias_of(params, 2) == 100 && bias_of(params, 50) == 0);
    sample_fini(&sample);
}
END_TEST

START_TEST(ends_are_banned_where_the_client_wants_nothing) {
    struct sample sample;
    struct sampling sampling;
    uint32_t ids[8] = {0};
    open_sample(&sample);
    sampling_init(&sampling);
    struct sequence_view view = {
        .ids = ids, .n_tokens = 4, .n_prompt = 4, .sampling = &sampling, .ban_ends = true};
    sample_prepare(&sample, 0, 0, &view);
    const struct sample_params *params = &sample.params[0];
    ck_assert_uint_eq(params->n_bias, 2);
    ck_assert(isinf(bias_of(params, 2)) && bias_of(params, 2) < 0);
    ck_assert(isinf(bias_of(params, 199)) && bias_of(params, 199) < 0);
    sample_fini(&sample);
}
END_TEST

START_TEST(the_most_biases_and_stop_ids_fit) {
    struct sample sample;
    struct sampling sampling;
    static uint32_t bias_ids[MESSAGE_BIAS_MAX], stop_ids[MESSAGE_STOP_IDS_MAX], ids[4];
    static float bias[MESSAGE_BIAS_MAX];
    struct sample_options options = {.max_seqs = 1,
                                     .max_slots = 1,
                                     .context = 16,
                                     .n_vocab = 1u << 20,
                                     .n_ends = MESSAGE_STOP_IDS_MAX};
    static uint32_t ends[MESSAGE_STOP_IDS_MAX];
    for (uint32_t i = 0; i < MESSAGE_BIAS_MAX; i++)
        bias_ids[i] = i;
    for (uint32_t i = 0; i < MESSAGE_STOP_IDS_MAX; i++) {
        stop_ids[i] = 5000 + i;
        ends[i] = 6000 + i;
    }
    options.ends = ends;
    ck_assert_int_eq(sample_init(&sample, &options), STATUS_OK);
    sampling_init(&sampling);
    sampling.n_bias = MESSAGE_BIAS_MAX;
    sampling.bias_ids = bias_ids;
    sampling.bias = bias;
    sampling.n_stop_ids = MESSAGE_STOP_IDS_MAX;
    sampling.stop_ids = stop_ids;
    struct sequence_view view = {
        .ids = ids, .n_tokens = 4, .n_prompt = 4, .sampling = &sampling, .ban_ends = true};
    sample_prepare(&sample, 0, 0, &view);
    ck_assert_uint_eq(sample.params[0].n_bias, MESSAGE_BIAS_MAX + 2 * MESSAGE_STOP_IDS_MAX);
    sample_fini(&sample);
}
END_TEST

START_TEST(the_best_are_listed_for_those_who_want_logprobs_alone) {
    struct sample sample;
    struct sampling sampling;
    uint32_t ids[1] = {0};
    struct sequence_view view = {
        .ids = ids, .n_tokens = 1, .n_prompt = 1, .sampling = &sampling, .serial = 1};
    open_sample(&sample);
    sampling_init(&sampling);
    sampling.n_top = 3;
    sample_prepare(&sample, 0, 0, &view);
    ck_assert_uint_eq(sample.params[0].n_top, 0);
    ck_assert(!sample.params[0].want_logprob);
    sampling.want_logprobs = true;
    sample_prepare(&sample, 0, 0, &view);
    ck_assert_uint_eq(sample.params[0].n_top, 3);
    ck_assert(sample.params[0].want_logprob);
    sample_fini(&sample);
}
END_TEST

START_TEST(every_row_has_the_barred_ids_of_the_model) {
    struct interval barred[] = {{7, 9}, {190, 200}};
    struct sample_options options = {.max_seqs = MAX_SEQS,
                                     .max_slots = MAX_SLOTS,
                                     .context = CONTEXT,
                                     .n_vocab = N_VOCAB,
                                     .n_barred = 2,
                                     .barred = barred};
    struct sample sample;
    struct sampling sampling;
    uint32_t ids[1] = {0};
    ck_assert_int_eq(sample_init(&sample, &options), STATUS_OK);
    barred[0] = barred[1] = (struct interval){0, 1}; /* it has a copy */
    sampling_init(&sampling);
    struct sequence_view view = {.ids = ids, .n_tokens = 1, .n_prompt = 1, .sampling = &sampling};
    for (uint32_t row = 0; row < MAX_SEQS; row++) {
        sample_prepare(&sample, row, row, &view);
        ck_assert_uint_eq(sample.params[row].n_barred, 2);
        ck_assert_uint_eq(sample.params[row].barred[0].begin, 7);
        ck_assert_uint_eq(sample.params[row].barred[1].end, 200);
    }
    sample_fini(&sample);
}
END_TEST

/* The next sequence of a slot is longer than the last was when it ended. */
START_TEST(penalties_forget_the_slots_last_sequence) {
    struct sample sample;
    struct sampling sampling;
    uint32_t ids[CONTEXT];
    open_sample(&sample);
    sampling_init(&sampling);
    sampling.presence = 0.5f;
    for (uint64_t serial = 1; serial <= 3; serial++) {
        struct sequence_view view = {.ids = ids, .sampling = &sampling, .serial = serial};
        view.n_prompt = 2 + 4 * (uint32_t)serial;
        view.n_tokens = view.n_prompt + 3;
        for (uint32_t i = 0; i < view.n_tokens; i++)
            ids[i] = (uint32_t)serial * 20 + i % 5;
        sample_prepare(&sample, 0, 3, &view);
        check_counts(&sample.params[0], &view);
    }
    sample_fini(&sample);
}
END_TEST

/* A sequence only grows, so that what was counted is not looked at again. */
START_TEST(penalties_count_each_token_once) {
    struct sample sample;
    struct sampling sampling;
    uint32_t ids[] = {7, 8, 9, 8};
    bool seen;
    open_sample(&sample);
    sampling_init(&sampling);
    sampling.presence = 0.5f;
    struct sequence_view view = {
        .ids = ids, .n_tokens = 3, .n_prompt = 1, .sampling = &sampling, .serial = 4};
    sample_prepare(&sample, 0, 3, &view);
    ids[1] = 100;
    view.n_tokens = 4;
    sample_prepare(&sample, 0, 3, &view);
    ck_assert_uint_eq(count_of(&sample.params[0], 8, &seen), 2);
    ck_assert_uint_eq(count_of(&sample.params[0], 100, &seen), 0);
    sample_fini(&sample);
}
END_TEST

/* Row r of two chooses 40 + r, as the best of r + 2. */
static void choose(struct kernels_ctx *ctx, float *logits, uint32_t n_rows, uint32_t n_vocab,
                   const struct sample_params *params, struct sample_result *results) {
    (void)ctx, (void)logits, (void)params;
    ck_assert_uint_eq(n_rows, 2);
    ck_assert_uint_eq(n_vocab, N_VOCAB);
    for (uint32_t row = 0; row < n_rows; row++) {
        results[row] = (struct sample_result){.id = 40 + row,
                                              .valid = row == 0,
                                              .emptied = row == 1,
                                              .logprob = -1.5f - (float)row,
                                              .n_top = row + 2};
        for (uint32_t i = 0; i < row + 2; i++) {
            results[row].top_ids[i] = 10 * row + i + 1;
            results[row].top_logprobs[i] = -0.5f - (float)i;
        }
    }
}

static uint32_t positions[] = {9, 3, 4}, rows[] = {0, 2}, slots[] = {5, 1};

static struct batch two_rows(struct sampling *sampling) {
    static uint32_t ids[CONTEXT];
    for (uint32_t i = 0; i < MAX_SLOTS; i++)
        views[i] = (struct sequence_view){
            .ids = ids, .n_prompt = 2, .sampling = sampling, .serial = 1 + i};
    return (struct batch){
        .view.ids = ids, .positions = positions, .n_rows = 2, .rows = rows, .slots = slots};
}

START_TEST(what_kernels_choose_is_given_row_by_row) {
    struct sample sample;
    struct sampling sampling;
    struct kernels kernels = {.sample = choose};
    struct forward forward = {.rank.kernels = &kernels};
    open_sample(&sample);
    sampling_init(&sampling);
    sampling.seed = 3;
    struct batch batch = two_rows(&sampling);
    sample_run(&sample, NULL, &forward, &batch);
    ck_assert(sample.params[0].uniform == random_unit(random_at(3, sampling.choice, 8)));
    ck_assert(sample.params[1].uniform == random_unit(random_at(3, sampling.choice, 3)));
    for (uint32_t row = 0; row < 2; row++) {
        const struct sampled *sampled = &sample.sampled[row];
        ck_assert_uint_eq(sampled->id, 40 + row);
        ck_assert_int_eq(sampled->valid, row == 0);
        ck_assert_int_eq(sampled->is_stuck, row == 1);
        ck_assert(sampled->logprobs.logprob == -1.5f - (float)row);
        ck_assert_uint_eq(sampled->logprobs.n_top, row + 2);
        for (uint32_t i = 0; i < row + 2; i++) {
            ck_assert_uint_eq(sampled->logprobs.top_ids[i], 10 * row + i + 1);
            ck_assert(sampled->logprobs.top_logprobs[i] == -0.5f - (float)i);
        }
    }
    sample_fini(&sample);
}
END_TEST

START_TEST(tokens_that_the_family_names_are_certain) {
    static const struct {
        bool want_logprobs;
        uint32_t n_top, n_given;
    } cases[] = {{false, 0, 0}, {false, 2, 0}, {true, 0, 0}, {true, 2, 1}};
    uint32_t named[] = {60, 61};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sample sample;
        struct sampling sampling;
        struct forward forward = {.rank.forced = named};
        open_sample(&sample);
        sampling_init(&sampling);
        sampling.want_logprobs = cases[i].want_logprobs;
        sampling.n_top = cases[i].n_top;
        struct batch batch = two_rows(&sampling);
        sample_run(&sample, NULL, &forward, &batch);
        for (uint32_t row = 0; row < 2; row++) {
            ck_assert_uint_eq(sample.sampled[row].id, named[row]);
            ck_assert(sample.sampled[row].valid);
            ck_assert(sample.sampled[row].logprobs.logprob == 0);
            ck_assert_uint_eq(sample.sampled[row].logprobs.n_top, cases[i].n_given);
            ck_assert_uint_eq(sample.sampled[row].logprobs.top_ids[0], named[row]);
        }
        sample_fini(&sample);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, the_number_drawn_depends_on_seed_choice_and_index_alone);
    tcase_add_test(tests,
                   penalties_count_the_output_and_know_the_prompt_as_sequences_grow_and_change);
    tcase_add_test(tests, every_number_of_a_request_reaches_the_kernels);
    tcase_add_test(tests, ends_are_banned_until_they_may_come_whatever_the_client_wants);
    tcase_add_test(tests, the_best_are_listed_for_those_who_want_logprobs_alone);
    tcase_add_test(tests, every_row_has_the_barred_ids_of_the_model);
    tcase_add_test(tests, ends_are_banned_where_the_client_wants_nothing);
    tcase_add_test(tests, the_most_biases_and_stop_ids_fit);
    tcase_add_test(tests, penalties_forget_the_slots_last_sequence);
    tcase_add_test(tests, penalties_count_each_token_once);
    tcase_add_test(tests, what_kernels_choose_is_given_row_by_row);
    tcase_add_test(tests, tokens_that_the_family_names_are_certain);
}
