/* Steps that begin before what the one before chose was read, on every backend that has them: what comes out
 * is what comes out one step after the other, bit by bit. The emulated device does nothing before somebody
 * waits for it, so an order that is left out shows. */
#include "tests/support/kernels_subject.h"
#include "tests/support/random_sampling.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "conform_kernels_ahead";
const double suite_timeout_s = 120;

/* A model of one matrix: the sum of the rows of all tokens so far are the logits of the next. */
enum { VOCAB = 300, SEQS = 16, STEPS = 24 };

static const struct kernels_limits limits = {SEQS, SEQS, 64, VOCAB, VOCAB, 1, 1, 64, KV_F16};

struct toy {
    struct subject *subject;
    struct weight table;
    size_t table_bytes;
    float *x, *sums, *logits; /* (SEQS, VOCAB) each */
    uint32_t n;               /* sequences of each step */
};

static void toy_open(struct toy *toy, struct subject *subject, uint32_t n) {
    struct random random = {.state = 11};
    struct weight_tensor tensor = random_tensor(&random, "f32", VOCAB, VOCAB);
    *toy = (struct toy){.subject = subject, .n = n};
    toy->table = subject_pack_tensor(subject, &tensor, &toy->table_bytes);
    toy->x = subject_floats(subject, NULL, SEQS * VOCAB);
    toy->sums = subject_floats(subject, NULL, SEQS * VOCAB);
    toy->logits = subject_floats(subject, NULL, SEQS * VOCAB);
    tensor_free(&tensor);
}

static void toy_close(struct toy *toy) {
    subject_unpack(toy->subject, &toy->table, toy->table_bytes);
    subject_close(toy->subject);
}

/* The operations of a step; ids NULL: of one that is ahead. The logits of the real rows come first. */
static void toy_step(struct toy *toy, const uint32_t *ids) {
    const struct kernels *k = toy->subject->kernels;
    struct kernels_ctx *ctx = toy->subject->ctx;
    uint32_t own[SEQS], zeros[SEQS] = {0}, seq_begin[SEQS + 1], rows[SEQS];
    for (uint32_t i = 0; i <= toy->n; i++)
        seq_begin[i] = i;
    for (uint32_t i = 0; i < toy->n; i++) {
        own[i] = ids ? ids[i] : 0;
        rows[i] = i;
    }
    struct kernels_batch batch = {.n_tokens = toy->n,
                                  .n_seqs = toy->n,
                                  .ids = ids ? own : NULL,
                                  .positions = zeros,
                                  .seq_begin = seq_begin,
                                  .block_tables = zeros,
                                  .block_table_stride = 1};
    struct kernels_step step = subject_begin(toy->subject, &batch, rows, toy->n);
    if (k->sample_begin) { /* the host's may change */
        memset(own, 0xff, sizeof own);
        memset(rows, 0xff, sizeof rows);
    }
    k->embed(ctx, toy->x, &toy->table, &step.batch, 0);
    k->add_gated(ctx, toy->sums, toy->x, NULL, step.batch.n_tokens, VOCAB);
    k->gather_rows(ctx, toy->logits, toy->sums, step.rows, step.n_rows, VOCAB);
}

/* What is asked for in step `step` of row `row`: the same in each run. */
static void ask(uint64_t seed, uint32_t step, uint32_t n, struct sample_params *params) {
    for (uint32_t row = 0; row < n; row++) {
        struct random random = {.state = random_at(seed, step, row)};
        params[row] = random_sampling(&random, VOCAB);
    }
}

/* It begins, and all that it was given is gone. */
static enum status begin_choice(struct toy *toy, const struct sample_params *params) {
    struct sample_params own[SEQS];
    uint32_t *arrays[SEQS][3] = {{0}};
    for (uint32_t i = 0; i < toy->n; i++) {
        own[i] = params[i];
        const uint32_t **ids[] = {&own[i].seen_ids, &own[i].bias_ids, &own[i].allowed_ids};
        uint32_t n[] = {own[i].n_seen, own[i].n_bias, own[i].n_allowed};
        for (int k = 0; k < 3; k++) {
            arrays[i][k] = malloc((n[k] + 1) * sizeof(uint32_t));
            if (n[k] > 0)
                memcpy(arrays[i][k], *ids[k], n[k] * sizeof(uint32_t));
            *ids[k] = arrays[i][k];
        }
    }
    enum status status =
        toy->subject->kernels->sample_begin(toy->subject->ctx, toy->logits, toy->n, VOCAB, own);
    memset(own, 0xff, sizeof own);
    for (uint32_t i = 0; i < toy->n; i++)
        for (int k = 0; k < 3; k++)
            free(arrays[i][k]);
    return status;
}

static void ids_of(const struct sample_result *results, uint32_t n, uint32_t *ids) {
    for (uint32_t i = 0; i < n; i++)
        ids[i] = results[i].valid ? results[i].id : 0;
}

static const uint32_t first_ids[SEQS] = {3, 299, 0, 7, 12, 200, 64, 64, 1, 2, 5, 8, 13, 21, 34, 55};

/* One step after the other. */
static void run_plain(struct toy *toy, uint64_t seed, struct sample_result results[STEPS][SEQS]) {
    struct sample_params params[SEQS];
    uint32_t ids[SEQS];
    memcpy(ids, first_ids, sizeof ids);
    for (uint32_t step = 0; step < STEPS; step++) {
        ask(seed, step, toy->n, params);
        toy_step(toy, ids);
        toy->subject->kernels->sample(toy->subject->ctx, toy->logits, toy->n, VOCAB, params,
                                      results[step]);
        subject_end(toy->subject);
        ids_of(results[step], toy->n, ids);
    }
}

/* Chains of steps ahead, of several lengths; now and then somebody asks first whether results are there. */
static void run_ahead(struct toy *toy, uint64_t seed, struct sample_result results[STEPS][SEQS]) {
    const struct kernels *k = toy->subject->kernels;
    struct sample_params params[SEQS];
    struct random random = {.state = seed};
    uint32_t ids[SEQS];
    bool is_ahead = false;
    memcpy(ids, first_ids, sizeof ids);
    for (uint32_t step = 0; step < STEPS; step++) {
        if (!is_ahead) {
            ask(seed, step, toy->n, params);
            toy_step(toy, ids);
            ck_assert_int_eq(begin_choice(toy, params), STATUS_OK);
        }
        is_ahead = step + 1 < STEPS && random_below(&random, 5) > 0;
        if (is_ahead) {
            ask(seed, step + 1, toy->n, params);
            toy_step(toy, NULL);
            ck_assert_int_eq(begin_choice(toy, params), STATUS_OK);
        }
        if (random_below(&random, 2))
            while (!k->sample_done(toy->subject->ctx))
                ;
        ck_assert_int_eq(k->sample_end(toy->subject->ctx, results[step]), STATUS_OK);
        ids_of(results[step], toy->n, ids);
        if (!is_ahead)
            subject_end(toy->subject);
    }
}

static void compare(const struct toy *toy, struct sample_result got[STEPS][SEQS],
                    struct sample_result wanted[STEPS][SEQS]) {
    bool over[SEQS] = {false};
    uint32_t n_compared = 0;
    for (uint32_t step = 0; step < STEPS; step++)
        for (uint32_t i = 0; i < toy->n; i++) {
            const struct sample_result *a = &got[step][i], *b = &wanted[step][i];
            if (over[i]) /* a choice behind one that was not valid */
                continue;
            ck_assert_msg(a->valid == b->valid && a->id == b->id && a->n_top == b->n_top &&
                              memcmp(&a->logprob, &b->logprob, sizeof a->logprob) == 0,
                          "%s: step %u, row %u: %u, not %u", toy->subject->kernels->name, step, i,
                          a->id, b->id);
            ck_assert_mem_eq(a->top_ids, b->top_ids, b->n_top * sizeof *b->top_ids);
            ck_assert_mem_eq(a->top_logprobs, b->top_logprobs, b->n_top * sizeof(float));
            over[i] = !b->valid;
            n_compared++;
        }
    ck_assert_uint_gt(n_compared, STEPS * toy->n / 3);
}

static struct sample_result wanted[STEPS][SEQS], got[STEPS][SEQS];

START_TEST(choices_are_those_of_steps_one_after_the_other) {
    static const uint32_t counts[] = {1, 5, 3, 8};
    uint64_t seed = (uint64_t)_i + 1;
    struct subject ref = subject_ref(&limits), subject;
    struct toy toy;
    uint32_t n = counts[_i % 4];
    toy_open(&toy, &ref, n);
    run_plain(&toy, seed, wanted);
    toy_close(&toy);
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        toy_open(&toy, &subject, n);
        if (subject.kernels->sample_begin) {
            run_ahead(&toy, seed, got);
            compare(&toy, got, wanted);
        }
        toy_close(&toy);
    }
}
END_TEST

START_TEST(a_backend_has_all_of_it_or_nothing) {
    for (uint32_t i = 0; kernels_table[i]; i++) {
        const struct kernels *k = kernels_table[i];
        ck_assert((k->sample_begin != NULL) == (k->sample_done != NULL));
        ck_assert((k->sample_begin != NULL) == (k->sample_end != NULL));
    }
}
END_TEST

/* Row 1 holds no number in the first step: the others' steps ahead know nothing of it. */
START_TEST(a_choice_that_is_not_valid_leaves_the_others_alone) {
    struct subject subject;
    const struct sample_params greedy = {.top_p = 1.0f, .repetition = 1.0f};
    const struct sample_params params[3] = {greedy, greedy, greedy};
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        struct toy toy;
        struct sample_result first[3], second[3], plain[3];
        float nan = __builtin_nanf("");
        uint32_t ids[3];
        toy_open(&toy, &subject, 3);
        if (!subject.kernels->sample_begin) {
            toy_close(&toy);
            continue;
        }
        subject_write(&subject, toy.sums + VOCAB + 17, &nan, sizeof nan);
        toy_step(&toy, first_ids);
        ck_assert_int_eq(begin_choice(&toy, params), STATUS_OK);
        toy_step(&toy, NULL);
        ck_assert_int_eq(begin_choice(&toy, params), STATUS_OK);
        ck_assert_int_eq(subject.kernels->sample_end(subject.ctx, first), STATUS_OK);
        ck_assert_int_eq(subject.kernels->sample_end(subject.ctx, second), STATUS_OK);
        subject_end(&subject);
        ck_assert(first[0].valid && !first[1].valid && first[2].valid);
        float zeros[3 * VOCAB] = {0};
        subject_write(&subject, toy.sums, zeros, sizeof zeros);
        toy_step(&toy, first_ids);
        subject_end(&subject);
        ids_of(first, 3, ids);
        toy_step(&toy, ids);
        subject.kernels->sample(subject.ctx, toy.logits, 3, VOCAB, params, plain);
        subject_end(&subject);
        ck_assert_uint_eq(second[0].id, plain[0].id);
        ck_assert_uint_eq(second[2].id, plain[2].id);
        toy_close(&toy);
    }
}
END_TEST

/* More rows, or more parameters, than fit at once: nothing was begun, and the step goes on as any. */
START_TEST(what_is_too_much_at_once_is_chosen_in_its_step) {
    struct subject subject;
    uint32_t all[VOCAB], counts[VOCAB] = {0};
    float biases[VOCAB] = {0};
    for (uint32_t i = 0; i < VOCAB; i++)
        all[i] = i;
    struct sample_params params[SEQS];
    for (uint32_t i = 0; i < SEQS; i++)
        params[i] = (struct sample_params){.top_p = 1.0f,
                                           .repetition = 1.0f,
                                           .presence = 1.0f,
                                           .n_seen = VOCAB,
                                           .seen_ids = all,
                                           .seen_counts = counts,
                                           .n_bias = VOCAB,
                                           .bias_ids = all,
                                           .bias = biases,
                                           .n_allowed = VOCAB,
                                           .allowed_ids = all};
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        struct toy toy;
        struct sample_result results[SEQS];
        toy_open(&toy, &subject, SEQS);
        if (!subject.kernels->sample_begin) {
            toy_close(&toy);
            continue;
        }
        run_ahead(&(struct toy){toy.subject, toy.table, 0, toy.x, toy.sums, toy.logits, 4}, 3, got);
        toy_step(&toy, first_ids);
        ck_assert_int_eq(begin_choice(&toy, params), STATUS_BUSY);
        subject.kernels->sample(subject.ctx, toy.logits, SEQS, VOCAB, params, results);
        subject_end(&subject);
        for (uint32_t k = 0; k < SEQS; k++)
            ck_assert(results[k].valid);
        toy.n = 4;
        toy_step(&toy, first_ids); /* and behind it one that can */
        ask(3, 0, 4, params);
        ck_assert_int_eq(begin_choice(&toy, params), STATUS_OK);
        ck_assert_int_eq(subject.kernels->sample_end(subject.ctx, results), STATUS_OK);
        subject_end(&subject);
        toy_close(&toy);
    }
}
END_TEST

/* Put while two steps are in flight: the next one that begins sees it, ahead or not. */
START_TEST(kv_that_is_put_beside_two_steps_is_seen_by_the_next) {
    enum { N = 64, ROUNDS = 6 };
    struct subject subject;
    const struct sample_params greedy = {.top_p = 1.0f, .repetition = 1.0f};
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        const struct kernels *k = subject.kernels;
        struct toy toy;
        struct sample_result result;
        toy_open(&toy, &subject, 1);
        float *kv = subject_floats(&subject, NULL, ROUNDS * N);
        float *out = subject_floats(&subject, NULL, N);
        float host[N], sum = 0.0f;
        for (uint32_t step = 0; k->sample_begin && step + 1 < ROUNDS; step++) {
            toy_step(&toy, step == 0 ? first_ids : NULL);
            k->add_gated(subject.ctx, out, kv + step * N, NULL, 1, N);
            ck_assert_int_eq(begin_choice(&toy, &greedy), STATUS_OK);
            float *next = kv + (step + 1) * N; /* of which neither step knows */
            for (int n = 0; n < N; n++)
                host[n] = (float)(step + 1);
            sum += host[0];
            k->put_beside(subject.ctx, next, host, sizeof host);
            ck_assert_int_eq(k->get_beside(subject.ctx, host, next, sizeof host), STATUS_OK);
            ck_assert(host[N - 1] == (float)(step + 1));
            if (step > 0)
                ck_assert_int_eq(k->sample_end(subject.ctx, &result), STATUS_OK);
        }
        if (k->sample_begin) {
            toy_step(&toy, NULL);
            k->add_gated(subject.ctx, out, kv + (ROUNDS - 1) * N, NULL, 1, N);
            ck_assert_int_eq(k->sample_end(subject.ctx, &result), STATUS_OK);
            subject_end(&subject);
            subject_read(&subject, host, out, sizeof host);
            ck_assert(host[0] == sum && host[N - 1] == sum);
        }
        toy_close(&toy);
    }
}
END_TEST

START_TEST(marks_are_those_of_the_step_ahead) {
    struct subject subject;
    const struct sample_params greedy = {.top_p = 1.0f, .repetition = 1.0f};
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        const struct kernels *k = subject.kernels;
        struct toy toy;
        struct sample_result results[2];
        toy_open(&toy, &subject, 2);
        const struct sample_params params[2] = {greedy, greedy};
        for (uint32_t step = 0; k->sample_begin && step < 5; step++) {
            toy_step(&toy, step == 0 ? first_ids : NULL);
            ck_assert_uint_eq(k->marked(subject.ctx), 0);
            for (uint32_t layer = 1; layer <= 3; layer++) {
                k->add_gated(subject.ctx, toy.x, toy.sums, NULL, 1, VOCAB);
                k->mark(subject.ctx, layer);
            }
            ck_assert_int_eq(begin_choice(&toy, params), STATUS_OK);
            for (uint32_t was = 0, now; step == 2 && was < 3; was = now) {
                now = k->marked(subject.ctx);
                ck_assert(now >= was && now <= 3);
            }
            if (step > 0)
                ck_assert_int_eq(k->sample_end(subject.ctx, results), STATUS_OK);
        }
        if (k->sample_begin) {
            ck_assert_int_eq(k->sample_end(subject.ctx, results), STATUS_OK);
            subject_end(&subject);
        }
        toy_close(&toy);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, choices_are_those_of_steps_one_after_the_other, 0, 4);
    tcase_add_test(tests, a_backend_has_all_of_it_or_nothing);
    tcase_add_test(tests, a_choice_that_is_not_valid_leaves_the_others_alone);
    tcase_add_test(tests, what_is_too_much_at_once_is_chosen_in_its_step);
    tcase_add_test(tests, kv_that_is_put_beside_two_steps_is_seen_by_the_next);
    tcase_add_test(tests, marks_are_those_of_the_step_ahead);
}
