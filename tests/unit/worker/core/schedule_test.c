#include "tests/support/suite.h"
#include "tests/unit/worker/core/rig.h"

#include <string.h>

const char *const suite_name = "worker_core_schedule";
const double suite_timeout_s = 120;

START_TEST(one_sequence_answers_what_its_prompt_says) {
    struct rig *rig = rig_new(1);
    struct worker *worker = rig_add(rig, rig_config());
    rig_hello(rig, 0);
    struct call *call = rig_call(rig, 37, 50);
    rig_both(rig, 0, call);
    rig_run(rig, 200);
    rig_expect_done(call, 50, FINISH_LENGTH);
    ck_assert_uint_eq(worker->n_steps, 50);
    ck_assert(!engine_idle(worker->engine)); /* ids stay until FORGET */
    ck_assert_uint_eq(worker->engine->pool.counts[KV_USED], 0);
    rig_forget(rig, 0, call);
    ck_assert(engine_idle(worker->engine));
    rig_free(rig);
}
END_TEST

/* A router fences a worker whose progress stands still; a slow step must not look so. */
START_TEST(each_layer_of_a_step_is_progress) {
    struct rig *rig = rig_new(2);
    struct worker *worker = rig_add(rig, rig_config());
    rig_hello(rig, 0);
    rig_both(rig, 0, rig_call(rig, 37, 5));
    struct load before, after;
    ck_assert(rig_plan(rig, 0));
    for (uint32_t layer = 0; layer < RIG_LAYERS; layer++) {
        engine_load(worker->engine, &before);
        ck_assert(rig_layer(rig, 0));
        engine_load(worker->engine, &after);
        ck_assert_uint_eq(after.progress, before.progress + 1);
        engine_layers_done(worker->engine, rig->now_ns, layer, layer + 1); /* nothing new */
        engine_load(worker->engine, &after);
        ck_assert_uint_eq(after.progress, before.progress + 1);
    }
    rig_end(rig, 0);
    rig_free(rig);
}
END_TEST

START_TEST(many_sequences_answer_alike_under_every_chunk_size) {
    static const uint32_t chunks[] = {1, 2, 3, 7, 15, 16, 17, 33, 64};
    for (uint32_t c = 0; c < sizeof chunks / sizeof chunks[0]; c++) {
        struct rig *rig = rig_new(40 + c);
        struct engine_config config = rig_config();
        config.chunk_tokens = chunks[c];
        config.n_blocks = 512;
        config.max_batch = 64;
        rig_add(rig, config);
        rig_hello(rig, 0);
        uint32_t n_calls = chunks[c] < 4 ? 12 : 64;
        for (uint32_t i = 0; i < n_calls; i++)
            rig_both(rig, 0, rig_call(rig, 1 + i * 7 % 90, 1 + i * 5 % 23));
        rig_run(rig, 20000);
        for (uint32_t i = 0; i < n_calls; i++)
            rig_expect_done(&rig->calls[i], rig->calls[i].sampling.max_new, FINISH_LENGTH);
        rig_free(rig);
    }
}
END_TEST

START_TEST(a_pool_of_a_quarter_preempts_and_still_answers_right) {
    struct rig *rig = rig_new(3);
    struct engine_config config = rig_config();
    config.n_blocks = 24; /* 16 sequences of 6 blocks each want 96 */
    struct worker *worker = rig_add(rig, config);
    rig_hello(rig, 0);
    for (uint32_t i = 0; i < 16; i++)
        rig_both(rig, 0, rig_call(rig, 20 + i, 60));
    rig_run(rig, 20000);
    for (uint32_t i = 0; i < 16; i++)
        rig_expect_done(&rig->calls[i], 60, FINISH_LENGTH);
    ck_assert_uint_gt(worker->engine->figures.n_preemptions, 0);
    rig_free(rig);
}
END_TEST

START_TEST(a_sequence_may_fill_the_whole_pool_but_no_more) {
    struct rig *rig = rig_new(4);
    struct engine_config config = rig_config();
    config.n_blocks = 4;
    rig_add(rig, config);
    rig_hello(rig, 0);
    struct call *fits = rig_call(rig, 63, 100);
    struct call *too_long = rig_call(rig, 64, 1);
    rig_both(rig, 0, fits);
    rig_both(rig, 0, too_long);
    rig_run(rig, 100);
    rig_expect_done(fits, 1, FINISH_LENGTH);
    ck_assert(too_long->failed);
    ck_assert_int_eq(too_long->reason, REASON_TOO_LONG);
    rig_free(rig);
}
END_TEST

START_TEST(prompts_advance_beside_decodes_that_could_take_every_token) {
    struct rig *rig = rig_new(5);
    struct engine_config config = rig_config();
    config.chunk_tokens = 2;
    config.n_blocks = 512;
    rig_add(rig, config);
    rig_hello(rig, 0);
    struct call *first = rig_call(rig, 1, 400);
    rig_both(rig, 0, first);
    rig_both(rig, 0, rig_call(rig, 1, 400));
    rig_step(rig, 0);
    struct call *second = rig_call(rig, 30, 5);
    rig_both(rig, 0, second);
    for (uint32_t i = 0; i < 60; i++)
        rig_step(rig, 0);
    rig_expect_done(second, 5, FINISH_LENGTH);
    ck_assert_uint_gt(first->n_got, 20);
    rig_free(rig);
}
END_TEST

/* `n_decode` rows that decode, then a prompt of 40: answers what its first step computes. */
static struct plan plan_beside(struct engine_config config, uint32_t budget, uint32_t n_decode) {
    struct rig *rig = rig_new(7);
    config.n_blocks = 512;
    struct worker *worker = rig_add(rig, config);
    rig_hello(rig, 0);
    for (uint32_t i = 0; i < n_decode; i++)
        rig_both(rig, 0, rig_call(rig, 1, 400));
    for (uint32_t i = 0; i < n_decode; i++)
        rig_step(rig, 0);
    engine_budget(worker->engine, budget);
    rig_both(rig, 0, rig_call(rig, 40, 5));
    ck_assert(rig_plan(rig, 0));
    struct plan plan = worker->plan;
    ck_assert_uint_eq(plan.n_tokens - plan.n_prompt, n_decode);
    rig_free(rig);
    return plan;
}

START_TEST(the_budget_is_of_prompts_and_rows_that_decode_have_max_batch) {
    struct engine_config config = rig_config();
    config.chunk_tokens = 64;
    config.max_batch = 16;
    struct plan plan = plan_beside(config, 12, 15); /* more rows than the budget has tokens */
    ck_assert_uint_eq(plan.n_rows, 16);
    ck_assert_uint_eq(plan.n_prompt, 12);
    plan = plan_beside(config, 12, 16); /* the prompt waits for a row */
    ck_assert_uint_eq(plan.n_rows, 16);
    ck_assert_uint_eq(plan.n_prompt, 0);
    config.chunk_tokens = 20; /* the step's arrays hold no more */
    plan = plan_beside(config, 20, 15);
    ck_assert_uint_eq(plan.n_rows, 16);
    ck_assert_uint_eq(plan.n_prompt, 5);
    config.chunk_tokens = 8; /* nor fewer than max_batch */
    plan = plan_beside(config, 8, 15);
    ck_assert_uint_eq(plan.n_rows, 16);
    ck_assert_uint_eq(plan.n_prompt, 1);
    plan = plan_beside(config, 8, 3);
    ck_assert_uint_eq(plan.n_rows, 4);
    ck_assert_uint_eq(plan.n_prompt, 8);
}
END_TEST

START_TEST(better_priority_runs_first_and_takes_blocks_from_worse) {
    struct rig *rig = rig_new(6);
    struct engine_config config = rig_config();
    config.n_blocks = 8;
    struct worker *worker = rig_add(rig, config);
    rig_hello(rig, 0);
    struct call *low = rig_call(rig, 100, 20);
    low->priority = 5;
    rig_both(rig, 0, low);
    rig_step(rig, 0);
    rig_step(rig, 0);
    struct call *high = rig_call(rig, 100, 20);
    high->priority = 1;
    rig_both(rig, 0, high);
    while (high->finish == FINISH_NONE && rig_step(rig, 0))
        ;
    ck_assert_uint_lt(low->n_got, 20);
    rig_run(rig, 1000);
    rig_expect_done(high, 20, FINISH_LENGTH);
    rig_expect_done(low, 20, FINISH_LENGTH);
    ck_assert_uint_gt(worker->engine->figures.n_preemptions, 0);
    rig_free(rig);
}
END_TEST

/* The calls (n) in the order of their first tokens, of a worker that computes one at a time. */
static void order_of(struct rig *rig, struct call *const *calls, uint32_t n, uint32_t *order) {
    bool seen[16] = {false};
    ck_assert_uint_le(n, 16);
    for (uint32_t n_seen = 0; n_seen < n;) {
        ck_assert(rig_step(rig, 0));
        for (uint32_t i = 0; i < n; i++) {
            if (calls[i]->n_got == 0 || seen[i])
                continue;
            seen[i] = true;
            order[n_seen++] = i;
        }
    }
}

static struct rig *one_at_a_time(uint64_t seed) {
    struct rig *rig = rig_new(seed);
    struct engine_config config = rig_config();
    config.max_batch = 1;
    rig_add(rig, config);
    rig_hello(rig, 0);
    return rig;
}

/* The same for tenants 1 to n, of each of which a long answer runs beside, so that none is late. */
static struct rig *one_at_a_time_beside(uint64_t seed, uint32_t n) {
    struct rig *rig = rig_new(seed);
    struct engine_config config = rig_config();
    config.max_batch = n + 1;
    rig_add(rig, config);
    rig_hello(rig, 0);
    for (uint32_t i = 0; i < n; i++) {
        struct call *call = rig_call(rig, 1, 100);
        call->tenant = i + 1;
        rig_both(rig, 0, call);
    }
    ck_assert(rig_step(rig, 0));
    return rig;
}

/* Eight of tenant 1 wait when tenants 2 and 3 come, each with prompts of its own length. */
START_TEST(tenants_take_turns_by_the_tokens_of_their_prompts) {
    struct rig *rig = one_at_a_time_beside(6, 3);
    struct call *calls[12];
    for (uint32_t i = 0; i < 12; i++) {
        calls[i] = rig_call(rig, i < 8 ? 20 : i < 10 ? 60 : 40, 3);
        calls[i]->tenant = i < 8 ? 1 : i < 10 ? 2 : 3;
        rig_both(rig, 0, calls[i]);
    }
    uint32_t order[12];
    order_of(rig, calls, 12, order);
    /* Turns: 0, 20, 40 ... 140 of tenant 1; 0, 60 of tenant 2; 0, 40 of tenant 3. */
    ck_assert_mem_eq(order, ((uint32_t[]){0, 8, 10, 1, 2, 11, 3, 9, 4, 5, 6, 7}), sizeof order);
    rig_run(rig, 100);
    rig_free(rig);
}
END_TEST

START_TEST(who_begins_to_wait_stands_behind_one_of_those_that_wait) {
    struct rig *rig = one_at_a_time_beside(6, 2);
    struct call *calls[12];
    uint32_t order[12];
    for (uint32_t i = 0; i < 10; i++) {
        calls[i] = rig_call(rig, 20, 3);
        calls[i]->tenant = 1;
        rig_both(rig, 0, calls[i]);
    }
    while (calls[3]->n_got == 0)
        ck_assert(rig_step(rig, 0));
    for (uint32_t i = 10; i < 12; i++) {
        calls[i] = rig_call(rig, 20, 3);
        calls[i]->tenant = 2;
        rig_both(rig, 0, calls[i]);
    }
    order_of(rig, calls + 4, 8, order);
    /* Turns of those that wait: 80, 100 ... of tenant 1; 60, 80 of tenant 2. */
    ck_assert_mem_eq(order, ((uint32_t[]){6, 0, 7, 1, 2, 3, 4, 5}), 8 * sizeof *order);
    rig_run(rig, 100);
    rig_free(rig);
}
END_TEST

START_TEST(a_better_priority_does_not_wait_for_turns) {
    struct rig *rig = one_at_a_time(6);
    struct call *calls[6];
    uint32_t order[6];
    for (uint32_t i = 0; i < 6; i++) {
        calls[i] = rig_call(rig, 20, 3);
        calls[i]->tenant = i < 5 ? 1 : 2;
        calls[i]->priority = i < 4 ? 3 : 2; /* the last two are as urgent, whatever else waits */
        rig_both(rig, 0, calls[i]);
    }
    order_of(rig, calls, 6, order);
    ck_assert_mem_eq(order, ((uint32_t[]){4, 5, 0, 1, 2, 3}), sizeof order);
    rig_run(rig, 100);
    rig_free(rig);
}
END_TEST

START_TEST(a_known_prompt_is_computed_but_for_its_last_block) {
    struct rig *rig = rig_new(7);
    struct worker *worker = rig_add(rig, rig_config());
    rig_hello(rig, 0);
    struct call *first = rig_call(rig, 64, 20);
    rig_both(rig, 0, first);
    rig_run(rig, 100);
    struct call *again = rig_call(rig, 64, 20);
    memcpy(again->ids, first->ids, 64 * sizeof again->ids[0]);
    rig_both(rig, 0, again);
    ck_assert(rig_plan(rig, 0));
    ck_assert_uint_eq(worker->plan.n_tokens, 16); /* 48 are there; the last has to give logits */
    rig_end(rig, 0);
    rig_run(rig, 100);
    rig_expect_done(again, 20, FINISH_LENGTH);
    ck_assert_uint_eq(again->cached_tokens, 48);
    ck_assert_uint_eq(worker->load.prefix_hits, 48);
    ck_assert_uint_eq(worker->load.prefix_queries, 128);
    /* Answers stay known too: a next turn builds on them. */
    struct call *turn = rig_call(rig, 81, 5);
    memcpy(turn->ids, first->ids, 81 * sizeof turn->ids[0]);
    rig_both(rig, 0, turn);
    rig_run(rig, 100);
    rig_expect_done(turn, 5, FINISH_LENGTH);
    ck_assert_uint_eq(turn->cached_tokens, 80);
    /* Another tenant sees nothing of it. */
    struct call *other = rig_call(rig, 64, 20);
    memcpy(other->ids, first->ids, 64 * sizeof other->ids[0]);
    other->salt = 3;
    rig_both(rig, 0, other);
    rig_run(rig, 100);
    ck_assert_uint_eq(other->cached_tokens, 0);
    rig_free(rig);
}
END_TEST

START_TEST(prefixes_are_shared_while_both_run) {
    struct rig *rig = rig_new(8);
    struct worker *worker = rig_add(rig, rig_config());
    rig_hello(rig, 0);
    struct call *first = rig_call(rig, 65, 40);
    struct call *second = rig_call(rig, 70, 40);
    memcpy(second->ids, first->ids, 64 * sizeof second->ids[0]);
    rig_both(rig, 0, first);
    rig_step(rig, 0);
    rig_step(rig, 0);
    rig_both(rig, 0, second);
    rig_step(rig, 0);
    ck_assert_uint_eq(worker->engine->pool.counts[KV_USED], 6);
    rig_run(rig, 200);
    rig_expect_done(first, 40, FINISH_LENGTH);
    rig_expect_done(second, 40, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

START_TEST(ends_stop_ids_and_limits_end_an_answer) {
    struct rig *rig = rig_new(9);
    struct engine_config config = rig_config();
    struct call *call = rig_call(rig, 10, 30);
    for (uint32_t i = 0; i < 30; i++) /* what will come */
        call->ids[10 + i] = rig_oracle(call->ids, 10 + i);
    config.n_ends = 1;
    config.ends[0] = call->ids[10 + 7];
    rig_add(rig, config);
    rig_hello(rig, 0);
    uint32_t stop = call->ids[10 + 4];
    struct call *copies[4];
    for (uint32_t i = 0; i < 4; i++) {
        copies[i] = rig_call(rig, 10, 30);
        memcpy(copies[i]->ids, call->ids, 10 * sizeof call->ids[0]);
    }
    copies[1]->sampling.ignore_eos = true;
    copies[2]->sampling.stop_ids = &stop;
    copies[2]->sampling.n_stop_ids = 1;
    copies[3]->sampling.stop_ids = &stop;
    copies[3]->sampling.n_stop_ids = 1;
    copies[3]->sampling.min_new = 6;
    for (uint32_t i = 0; i < 4; i++)
        rig_both(rig, 0, copies[i]);
    rig_run(rig, 100);
    rig_expect_done(copies[0], 8, FINISH_STOP); /* the end token is part of what is sent */
    rig_expect_done(copies[1], 30, FINISH_LENGTH);
    rig_expect_done(copies[2], 5, FINISH_STOP);
    rig_expect_done(copies[3], 8, FINISH_STOP); /* not at the stop id: it came before min_new */
    rig_free(rig);
}
END_TEST

START_TEST(a_replay_goes_on_where_the_answer_was) {
    struct rig *rig = rig_new(10);
    rig_add(rig, rig_config());
    rig_add(rig, rig_config());
    rig_hello(rig, 0);
    struct call *call = rig_call(rig, 33, 40);
    rig_both(rig, 0, call);
    for (uint32_t i = 0; i < 11; i++)
        rig_step(rig, 0);
    ck_assert_uint_eq(call->n_got, 11);
    call->attempt++;
    rig_both(rig, 1, call); /* elsewhere, with what was emitted */
    rig_run(rig, 100);
    rig_expect_done(call, 40, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

START_TEST(unusable_numbers_end_the_sequence_with_an_error) {
    struct rig *rig = rig_new(11);
    struct worker *worker = rig_add(rig, rig_config());
    rig_hello(rig, 0);
    struct call *call = rig_call(rig, 5, 40);
    rig_both(rig, 0, call);
    rig_step(rig, 0);
    ck_assert(rig_plan(rig, 0));
    struct sampled nan = {.valid = false};
    engine_step_end(worker->engine, rig->now_ns, &nan);
    rig_check(rig);
    rig_expect_done(call, 1, FINISH_ERROR);
    rig_free(rig);
}
END_TEST

START_TEST(a_request_cancelled_during_its_step_keeps_its_blocks_until_the_end) {
    struct rig *rig = rig_new(12);
    struct worker *worker = rig_add(rig, rig_config());
    rig_hello(rig, 0);
    struct call *call = rig_call(rig, 40, 40);
    rig_both(rig, 0, call);
    ck_assert(rig_plan(rig, 0));
    rig_cancel(rig, 0, call);
    ck_assert(call->cancelled);
    ck_assert_uint_eq(worker->engine->pool.counts[KV_USED], 3);
    rig_check(rig);
    rig_end(rig, 0);
    rig_check(rig);
    ck_assert_uint_eq(worker->engine->pool.counts[KV_USED], 0);
    ck_assert_uint_eq(call->n_got, 0);
    ck_assert(engine_idle(worker->engine));
    rig_free(rig);
}
END_TEST

START_TEST(broken_submits_are_refused_with_a_reason) {
    struct rig *rig = rig_new(13);
    struct worker *worker = rig_add(rig, rig_config());
    rig_hello(rig, 0);
    struct call *call = rig_call(rig, 10, 0); /* no token wanted */
    rig_both(rig, 0, call);
    ck_assert_int_eq(call->reason, REASON_INVALID);
    call = rig_call(rig, 10, 5);
    call->ids[3] = 65536; /* outside the vocabulary */
    rig_both(rig, 0, call);
    ck_assert_int_eq(call->reason, REASON_INVALID);
    call = rig_call(rig, 512, 5);
    rig_both(rig, 0, call);
    ck_assert_int_eq(call->reason, REASON_TOO_LONG);
    call = rig_call(rig, 10, 5);
    call->sampling.n_bias = 3; /* without the arrays */
    rig_both(rig, 0, call);
    ck_assert_int_eq(call->reason, REASON_INVALID);
    rig_check(rig);
    ck_assert(engine_idle(worker->engine));
    struct engine *engine;
    struct engine_config config = rig_config();
    struct engine_sink sink = {0};
    config.block_tokens = 8;
    ck_assert_int_eq(engine_new(&config, &sink, &engine), STATUS_INVALID);
    config = rig_config();
    config.chunk_bytes = config.block_bytes - 1;
    ck_assert_int_eq(engine_new(&config, &sink, &engine), STATUS_INVALID);
    rig_free(rig);
}
END_TEST

/* Room for one row: a batch of 1 that hand-offs have filled. */
START_TEST(a_prompt_and_an_answer_take_turns_where_one_row_fits) {
    struct rig *rig = rig_new(15);
    struct worker *worker = rig_add(rig, rig_config());
    rig_hello(rig, 0);
    struct call *answer = rig_call(rig, 1, 100), *prompt = rig_call(rig, 10, 5);
    rig_both(rig, 0, answer);
    rig_step(rig, 0);
    rig_step(rig, 0);
    ck_assert_uint_eq(answer->n_got, 2);
    engine_budget(worker->engine, 1);
    rig_both(rig, 0, prompt);
    ck_assert(rig_step(rig, 0));
    ck_assert_uint_eq(worker->plan.n_rows, 2);
    worker->engine->config.max_batch = 1;
    for (uint32_t i = 1; i <= 17; i++) {
        ck_assert_uint_eq(prompt->n_got, 0);
        ck_assert(rig_step(rig, 0));
        ck_assert_uint_eq(worker->plan.n_tokens, 1);
        ck_assert_uint_ge(answer->n_got, 3 + i / 2);
        ck_assert_uint_le(answer->n_got, 3 + (i + 1) / 2);
    }
    ck_assert_uint_eq(prompt->n_got, 1); /* ten turns of one token */
    rig_run(rig, 400);
    rig_expect_done(answer, 100, FINISH_LENGTH);
    rig_expect_done(prompt, 5, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

/* Full blocks only are given back, and all of them are kept for their names: still they are room. */
START_TEST(blocks_that_become_cached_wake_who_waits_for_blocks) {
    struct rig *rig = rig_new(16);
    struct engine_config config = rig_config();
    config.n_blocks = 9;
    struct worker *worker = rig_add(rig, config);
    rig_hello(rig, 0);
    struct call *goes_on = rig_call(rig, 1, 15), *ends = rig_call(rig, 5 * RIG_BLOCK - 1, 2);
    rig_both(rig, 0, goes_on);
    rig_both(rig, 0, ends);
    while (goes_on->n_got == 0 || ends->n_got == 0)
        ck_assert(rig_step(rig, 0));
    struct call *waits = rig_call(rig, 4 * RIG_BLOCK, 2);
    rig_both(rig, 0, waits);
    while (ends->finish == FINISH_NONE)
        ck_assert(rig_step(rig, 0));
    ck_assert_uint_eq(worker->engine->schedule.n_waiting, 1);
    ck_assert_uint_eq(worker->engine->pool.counts[KV_CACHED], 5);
    ck_assert(rig_step(rig, 0));
    ck_assert_uint_eq(worker->engine->schedule.n_waiting, 0);
    ck_assert_int_eq(goes_on->finish, FINISH_NONE);
    rig_run(rig, 100);
    rig_expect_done(waits, 2, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, one_sequence_answers_what_its_prompt_says);
    tcase_add_test(tests, each_layer_of_a_step_is_progress);
    tcase_add_test(tests, many_sequences_answer_alike_under_every_chunk_size);
    tcase_add_test(tests, a_pool_of_a_quarter_preempts_and_still_answers_right);
    tcase_add_test(tests, a_sequence_may_fill_the_whole_pool_but_no_more);
    tcase_add_test(tests, prompts_advance_beside_decodes_that_could_take_every_token);
    tcase_add_test(tests, the_budget_is_of_prompts_and_rows_that_decode_have_max_batch);
    tcase_add_test(tests, better_priority_runs_first_and_takes_blocks_from_worse);
    tcase_add_test(tests, tenants_take_turns_by_the_tokens_of_their_prompts);
    tcase_add_test(tests, who_begins_to_wait_stands_behind_one_of_those_that_wait);
    tcase_add_test(tests, a_better_priority_does_not_wait_for_turns);
    tcase_add_test(tests, a_known_prompt_is_computed_but_for_its_last_block);
    tcase_add_test(tests, prefixes_are_shared_while_both_run);
    tcase_add_test(tests, ends_stop_ids_and_limits_end_an_answer);
    tcase_add_test(tests, a_replay_goes_on_where_the_answer_was);
    tcase_add_test(tests, unusable_numbers_end_the_sequence_with_an_error);
    tcase_add_test(tests, a_request_cancelled_during_its_step_keeps_its_blocks_until_the_end);
    tcase_add_test(tests, broken_submits_are_refused_with_a_reason);
    tcase_add_test(tests, a_prompt_and_an_answer_take_turns_where_one_row_fits);
    tcase_add_test(tests, blocks_that_become_cached_wake_who_waits_for_blocks);
}
