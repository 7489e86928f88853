/* A late tenant, whose sequences wait while none of them runs, waits for nobody's end. */
#include "tests/support/suite.h"
#include "tests/unit/worker/core/rig.h"
#include "worker/core/run_queue.h"

#include <string.h>

const char *const suite_name = "worker_core_late";
const double suite_timeout_s = 120;

#define BATCH 4

static struct worker *open_worker(struct rig *rig, uint32_t n_blocks, uint32_t chunk_tokens) {
    struct engine_config config = rig_config();
    config.max_batch = BATCH;
    config.n_blocks = n_blocks;
    config.chunk_tokens = chunk_tokens;
    struct worker *worker = rig_add(rig, config);
    rig_hello(rig, 0);
    return worker;
}

static struct call *ask_as(struct rig *rig, uint64_t tenant, uint32_t n_prompt, uint32_t max_new) {
    struct call *call = rig_call(rig, n_prompt, max_new);
    call->tenant = tenant;
    rig_both(rig, 0, call);
    return call;
}

static void step(struct rig *rig, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        ck_assert(rig_step(rig, 0));
    rig_check(rig);
}

START_TEST(a_late_tenant_runs_beside_a_full_batch) {
    struct rig *rig = rig_new(1);
    struct worker *worker = open_worker(rig, 64, 64);
    struct call *busy[BATCH + 1];
    for (uint32_t i = 0; i <= BATCH; i++)
        busy[i] = ask_as(rig, 1, 10, 60);
    step(rig, 3);
    ck_assert_uint_eq(busy[BATCH]->n_got, 0); /* a full batch waits for an end */
    struct call *late[2] = {ask_as(rig, 2, 10, 20), ask_as(rig, 2, 10, 20)};
    step(rig, 1);
    ck_assert_uint_eq(late[0]->n_got, 1);
    step(rig, 5);
    ck_assert_uint_eq(late[1]->n_got, 0); /* one of its own runs now */
    struct call *other = ask_as(rig, 3, 10, 20);
    step(rig, 1);
    ck_assert_uint_eq(other->n_got, 1);
    ck_assert_uint_eq(worker->engine->schedule.n_decode, BATCH + 2);
    ck_assert_uint_le(worker->max_rows, BATCH);
    rig_run(rig, 600);
    for (uint32_t i = 0; i <= BATCH; i++)
        rig_expect_done(busy[i], 60, FINISH_LENGTH);
    rig_expect_done(late[0], 20, FINISH_LENGTH);
    rig_expect_done(late[1], 20, FINISH_LENGTH);
    rig_expect_done(other, 20, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

/* Five take turns on four rows: in five steps each has four tokens. */
START_TEST(those_that_are_too_many_for_a_batch_take_turns) {
    struct rig *rig = rig_new(2);
    open_worker(rig, 64, 64);
    struct call *calls[BATCH + 1];
    for (uint32_t i = 0; i < BATCH; i++)
        calls[i] = ask_as(rig, 1, 10, 60);
    step(rig, 2);
    calls[BATCH] = ask_as(rig, 2, 10, 60);
    step(rig, 2);
    uint32_t before[BATCH + 1];
    for (uint32_t i = 0; i <= BATCH; i++)
        before[i] = calls[i]->n_got;
    step(rig, 2 * (BATCH + 1));
    for (uint32_t i = 0; i <= BATCH; i++)
        ck_assert_uint_eq(calls[i]->n_got - before[i], 2 * BATCH);
    rig_free(rig);
}
END_TEST

/* Nobody named, or one who is: none is late while one of its own runs. */
START_TEST(one_tenant_waits_for_its_own) {
    for (uint64_t tenant = 0; tenant < 2; tenant++) {
        struct rig *rig = rig_new(3);
        struct worker *worker = open_worker(rig, 64, 64);
        for (uint32_t i = 0; i < 3 * BATCH; i++)
            ask_as(rig, tenant, 10, 20);
        while (rig_step(rig, 0))
            ck_assert_uint_le(
                worker->engine->schedule.n_prefill + worker->engine->schedule.n_decode, BATCH);
        ck_assert_uint_eq(worker->engine->figures.n_preemptions, 0);
        rig_free(rig);
    }
}
END_TEST

START_TEST(a_late_tenant_of_worse_priority_waits) {
    struct rig *rig = rig_new(4);
    open_worker(rig, 64, 64);
    struct call *busy[BATCH + 1];
    for (uint32_t i = 0; i <= BATCH; i++) {
        busy[i] = rig_call(rig, 10, 20);
        busy[i]->tenant = 1;
        busy[i]->priority = 3;
        rig_both(rig, 0, busy[i]);
    }
    step(rig, 2);
    struct call *late = rig_call(rig, 10, 5);
    late->tenant = 2;
    late->priority = 4;
    rig_both(rig, 0, late);
    step(rig, 5);
    ck_assert_uint_eq(late->n_got, 0);
    rig_cancel(rig, 0, busy[BATCH]); /* nobody better waits any more */
    step(rig, 1);
    ck_assert_uint_eq(late->n_got, 1);
    rig_free(rig);
}
END_TEST

/* Four of tenant 1 hold 24 of 25 blocks, and grow into the last. One of tenant 2 that needs n blocks gets those of the
 * newest ones, as long as tenant 1 keeps n. */
START_TEST(a_late_tenant_gets_blocks_as_long_as_the_other_keeps_as_many) {
    for (uint32_t n = 12; n <= 13; n++) {
        struct rig *rig = rig_new(5);
        struct worker *worker = open_worker(rig, 24, 512);
        struct call *busy[BATCH];
        for (uint32_t i = 0; i < BATCH; i++)
            busy[i] = ask_as(rig, 1, 6 * RIG_BLOCK - 8, 40);
        step(rig, 1);
        ck_assert_uint_eq(worker->engine->pool.counts[KV_USED], 24);
        struct call *late = ask_as(rig, 2, n * RIG_BLOCK - 8, 40);
        step(rig, 1);
        ck_assert_uint_eq(late->n_got, n == 12);
        ck_assert_uint_eq(worker->engine->figures.n_preemptions, n == 12 ? 2 : 1);
        ck_assert(busy[0]->n_got == 2 && busy[1]->n_got == 2);
        rig_run(rig, 1000);
        for (uint32_t i = 0; i < BATCH; i++)
            rig_expect_done(busy[i], 40, FINISH_LENGTH);
        rig_expect_done(late, 40, FINISH_LENGTH);
        rig_free(rig);
    }
}
END_TEST

/* The only sequence of a tenant goes for no other tenant's. */
START_TEST(a_late_tenant_leaves_the_other_one_sequence) {
    struct rig *rig = rig_new(6);
    struct worker *worker = open_worker(rig, 16, 512);
    struct call *busy = ask_as(rig, 1, 12 * RIG_BLOCK, 30);
    step(rig, 2);
    struct call *late = ask_as(rig, 2, 5 * RIG_BLOCK, 30);
    while (busy->finish == FINISH_NONE) {
        step(rig, 1);
        ck_assert_uint_eq(late->n_got, 0);
    }
    ck_assert_uint_eq(worker->engine->figures.n_preemptions, 0);
    rig_run(rig, 100);
    rig_expect_done(late, 30, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

/* Each loses no more than it must: both grow in a pool that is too small for all, and nobody comes or goes. */
START_TEST(two_tenants_do_not_preempt_each_other_in_turns) {
    struct rig *rig = rig_new(7);
    struct worker *worker = open_worker(rig, 24, 512);
    struct call *calls[6];
    for (uint32_t i = 0; i < 6; i++)
        calls[i] = ask_as(rig, 1 + i % 2, 3 * RIG_BLOCK, 12 * RIG_BLOCK);
    rig_run(rig, 4000);
    for (uint32_t i = 0; i < 6; i++)
        rig_expect_done(calls[i], 12 * RIG_BLOCK, FINISH_LENGTH);
    /* Two of them fill the pool, so each of the others may be thrown out whenever one comes in. */
    ck_assert_uint_le(worker->engine->figures.n_preemptions, 12);
    ck_assert_uint_gt(worker->engine->figures.n_preemptions, 0);
    rig_free(rig);
}
END_TEST

/* Whose block it needs: that of the tenant with the most, though the late one is the newest. */
START_TEST(growth_takes_blocks_from_the_tenant_with_the_most) {
    struct rig *rig = rig_new(8);
    struct worker *worker = open_worker(rig, 24, 512);
    struct call *busy[3];
    for (uint32_t i = 0; i < 3; i++)
        busy[i] = ask_as(rig, 1, 7 * RIG_BLOCK - 2, 40);
    step(rig, 1);
    struct call *late = ask_as(rig, 2, 3 * RIG_BLOCK - 2, 40);
    step(rig, 1);
    ck_assert_uint_eq(late->n_got, 1);
    step(rig, 4); /* all four need one more block now */
    ck_assert_uint_eq(worker->engine->figures.n_preemptions, 1);
    ck_assert_int_eq(worker->engine->sequences.slots[2].queue, QUEUE_WAITING);
    ck_assert_uint_ge(late->n_got, 4);
    rig_run(rig, 400);
    for (uint32_t i = 0; i < 3; i++)
        rig_expect_done(busy[i], 40, FINISH_LENGTH);
    rig_expect_done(late, 40, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

/* The tenant with the most blocks has one sequence, and keeps it. */
START_TEST(growth_leaves_a_tenant_its_only_sequence) {
    struct rig *rig = rig_new(15);
    struct worker *worker = open_worker(rig, 24, 512);
    struct call *large = ask_as(rig, 1, 12 * RIG_BLOCK - 2, 40);
    struct call *small[2] = {ask_as(rig, 2, 5 * RIG_BLOCK - 2, 40),
                             ask_as(rig, 2, 5 * RIG_BLOCK - 2, 40)};
    step(rig, 4); /* all three need one more block then, and two are free */
    ck_assert_uint_eq(worker->engine->figures.n_preemptions, 1);
    ck_assert_int_eq(worker->engine->sequences.slots[2].queue, QUEUE_WAITING);
    ck_assert_uint_eq(large->n_got, 4);
    rig_run(rig, 400);
    rig_expect_done(large, 40, FINISH_LENGTH);
    rig_expect_done(small[0], 40, FINISH_LENGTH);
    rig_expect_done(small[1], 40, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

/* No step goes ahead of a late tenant: of 64 blocks enough are free for it, beside a full batch; of 24
 * some are to be had from others. One that did not fit is looked at again, unless it was late then. */
START_TEST(a_late_tenant_ends_steps_ahead) {
    for (uint32_t n_blocks = 24; n_blocks <= 64; n_blocks += 40) {
        struct rig *rig = rig_new(16);
        struct worker *worker = open_worker(rig, n_blocks, 512);
        for (uint32_t i = 0; i < BATCH; i++)
            ask_as(rig, 1, 6 * RIG_BLOCK - 9, 40);
        step(rig, 1);
        ck_assert(rig_plan(rig, 0));
        ck_assert_int_eq(rig_repeat(rig, 0), REPEAT_GRANTED);
        rig_end(rig, 0);
        ask_as(rig, 1, 2 * RIG_BLOCK, 5); /* no late tenant's: the batch is full */
        ck_assert_int_eq(rig_repeat(rig, 0), REPEAT_GRANTED);
        rig_end(rig, 0);
        ask_as(rig, 2, (n_blocks == 24 ? 2 : 20) * RIG_BLOCK, 5);
        ck_assert_int_eq(rig_repeat(rig, 0), REPEAT_WAITING);
        struct sequence *late = run_queue_next(worker->engine);
        late->blocked = true;
        late->pool_version = worker->engine->pool.version;
        ck_assert_int_eq(rig_repeat(rig, 0), REPEAT_WAITING);
        late->blocked_late = true;
        ck_assert_int_eq(rig_repeat(rig, 0), n_blocks == 24 ? REPEAT_WAITING : REPEAT_GRANTED);
        rig_end(rig, 0);
        rig_free(rig);
    }
}
END_TEST

/* Prompts of 400 and of 96 tokens in steps of 32: alone the short one takes three. */
START_TEST(prompts_of_several_tenants_take_turns) {
    struct rig *rig = rig_new(9);
    open_worker(rig, 64, 32);
    struct call *lengthy = ask_as(rig, 1, 400, 5);
    step(rig, 2);
    struct call *late = ask_as(rig, 2, 96, 5);
    uint32_t n_steps = 0;
    for (; late->n_got == 0; n_steps++)
        step(rig, 1);
    ck_assert_uint_eq(n_steps, 5); /* the first, the third and the fifth */
    for (; lengthy->n_got == 0; n_steps++)
        step(rig, 1);
    ck_assert_uint_le(
        n_steps, 11 + 3 + 1); /* its 11 that were left, and the other's; one of them was shared */
    rig_free(rig);
}
END_TEST

/* It goes first, and then every second step is the other's, which has two of three left. */
START_TEST(a_long_prompt_of_a_late_tenant_leaves_every_second_step) {
    struct rig *rig = rig_new(14);
    open_worker(rig, 64, 32);
    struct call *brief = ask_as(rig, 1, 96, 5);
    step(rig, 1);
    struct call *late = ask_as(rig, 2, 400, 5);
    step(rig, 3);
    ck_assert_uint_eq(brief->n_got, 0);
    step(rig, 1);
    ck_assert_uint_eq(brief->n_got, 1);
    ck_assert_uint_eq(late->n_got, 0);
    rig_run(rig, 100);
    rig_expect_done(brief, 5, FINISH_LENGTH);
    rig_expect_done(late, 5, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

/* Three that come late again and again, one with each step, leave the long prompt every fourth step. */
START_TEST(late_tenants_do_not_keep_a_prompt_out) {
    for (uint32_t batch = 1; batch <= 2; batch++) {
        struct rig *rig = rig_new(10);
        struct engine_config config = rig_config();
        config.max_batch = batch;
        config.chunk_tokens = 32;
        rig_add(rig, config);
        rig_hello(rig, 0);
        struct call *lengthy = ask_as(rig, 1, 320, 1);
        step(rig, 1);
        uint32_t n_steps = 1;
        for (; lengthy->n_got == 0; n_steps++) {
            ask_as(rig, 2 + n_steps % 3, 32, 1);
            step(rig, 1);
        }
        ck_assert_uint_le(n_steps, 4 * 10);
        rig_free(rig);
    }
}
END_TEST

/* It did not fit beside what its tenant's other one needed; that one was handed over, and no block is free for it. */
START_TEST(one_that_becomes_late_is_tried_again) {
    struct rig *rig = rig_new(11);
    struct worker *worker = open_worker(rig, 20, 512);
    struct call *first = ask_as(rig, 2, 7 * RIG_BLOCK, 3);
    struct call *busy = ask_as(rig, 1, 8 * RIG_BLOCK, 60);
    step(rig, 1);
    struct call *second = ask_as(rig, 2, 3 * RIG_BLOCK, 5);
    step(rig, 1);
    ck_assert_uint_eq(second->n_got, 0);
    while (first->finish == FINISH_NONE)
        step(rig, 1);
    step(rig, 1);
    ck_assert_uint_eq(second->n_got, 1);
    ck_assert_uint_eq(worker->engine->figures.n_preemptions, 0);
    rig_run(rig, 100);
    rig_expect_done(busy, 60, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

START_TEST(one_whose_time_is_over_takes_no_blocks) {
    struct rig *rig = rig_new(12);
    struct worker *worker = open_worker(rig, 24, 512);
    for (uint32_t i = 0; i < BATCH; i++)
        ask_as(rig, 1, 6 * RIG_BLOCK - 8, 40);
    step(rig, 1);
    struct call *late = ask_as(rig, 2, 3 * RIG_BLOCK, 5);
    struct list *first = list_first(&worker->engine->schedule.waiting);
    list_entry(first, struct sequence, at)->deadline_ns = rig->now_ns;
    step(rig, 1);
    ck_assert(late->failed && late->reason == REASON_CANCELLED);
    ck_assert_uint_eq(worker->engine->figures.n_preemptions, 0);
    rig_free(rig);
}
END_TEST

/* As many tenants as sequences, n of n; each gives its share back. */
START_TEST(each_sequence_may_be_another_tenants) {
    struct rig *rig = rig_new(13);
    struct engine_config config = rig_config();
    config.n_blocks = 128;
    struct worker *worker = rig_add(rig, config);
    rig_hello(rig, 0);
    for (uint32_t round = 0; round < 2; round++) {
        struct call *calls[64];
        for (uint32_t i = 0; i < 64; i++)
            calls[i] = ask_as(rig, 100 * round + i, 5, 3);
        ck_assert_uint_eq(worker->engine->schedule.shares.n_used, 64);
        ck_assert_uint_eq(worker->engine->schedule.shares.n_late, 64);
        rig_check(rig);
        rig_run(rig, 300);
        for (uint32_t i = 0; i < 64; i++) {
            rig_expect_done(calls[i], 3, FINISH_LENGTH);
            rig_forget(rig, 0, calls[i]);
        }
        ck_assert_uint_eq(worker->engine->schedule.shares.n_used, 0);
        rig_check(rig);
    }
    rig_free(rig);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_late_tenant_runs_beside_a_full_batch);
    tcase_add_test(tests, those_that_are_too_many_for_a_batch_take_turns);
    tcase_add_test(tests, one_tenant_waits_for_its_own);
    tcase_add_test(tests, a_late_tenant_of_worse_priority_waits);
    tcase_add_test(tests, a_late_tenant_gets_blocks_as_long_as_the_other_keeps_as_many);
    tcase_add_test(tests, a_late_tenant_leaves_the_other_one_sequence);
    tcase_add_test(tests, two_tenants_do_not_preempt_each_other_in_turns);
    tcase_add_test(tests, growth_takes_blocks_from_the_tenant_with_the_most);
    tcase_add_test(tests, growth_leaves_a_tenant_its_only_sequence);
    tcase_add_test(tests, a_late_tenant_ends_steps_ahead);
    tcase_add_test(tests, prompts_of_several_tenants_take_turns);
    tcase_add_test(tests, a_long_prompt_of_a_late_tenant_leaves_every_second_step);
    tcase_add_test(tests, late_tenants_do_not_keep_a_prompt_out);
    tcase_add_test(tests, one_that_becomes_late_is_tried_again);
    tcase_add_test(tests, one_whose_time_is_over_takes_no_blocks);
    tcase_add_test(tests, each_sequence_may_be_another_tenants);
}
