/* Who computes a prompt, and who decodes where decode workers have no blocks: each rule at its
 * bound. */
#include "router/core/roles.h"

#include "router/core/slot.h"
#include "tests/support/suite.h"
#include "tests/unit/router/core/fake.h"

const char *const suite_name = "router_roles";
const double suite_timeout_s = 60;

static struct fake fake;

/* A worker with so many tokens waiting, whose steps of 512 tokens take step_us. */
static struct slot worker(uint32_t n_queued, uint32_t n_unreflected, uint32_t step_us) {
    return (struct slot){.welcome = {.chunk_tokens = 512, .kv = {.block_tokens = 16}},
                         .load = {.prefill_tokens_queued = n_queued, .step_us_typical = step_us},
                         .tokens_unreflected = n_unreflected};
}

START_TEST(a_prompt_is_prefilled_where_the_other_queue_is_two_prompts_longer) {
    struct slot to = worker(100, 50, 0), from = worker(0, 0, 0);
    ck_assert(!roles_prefill_here(&from, &to, 33));
    from = worker(100, 50 + 2 * 33, 0);
    ck_assert(!roles_prefill_here(&from, &to, 33));
    from.tokens_unreflected++;
    ck_assert(roles_prefill_here(&from, &to, 33));
    from = worker(100 + 50 + 2 * 33 + 1, 0, 0);
    ck_assert(roles_prefill_here(&from, &to, 33));
    to.load.prefill_tokens_queued++;
    ck_assert(!roles_prefill_here(&from, &to, 33));
}
END_TEST

START_TEST(steps_that_take_longer_count_for_more) {
    struct slot to = worker(0, 0, 30000), from = worker(3 * 66, 0, 10000);
    ck_assert(!roles_prefill_here(&from, &to, 33)); /* 66 tokens there take three times as long */
    from.load.prefill_tokens_queued++;
    ck_assert(roles_prefill_here(&from, &to, 33));
    to.load.step_us_typical = 1; /* of rows that decode: a prompt's step is no quicker than there */
    from.load.prefill_tokens_queued = 66;
    ck_assert(!roles_prefill_here(&from, &to, 33));
    from.load.prefill_tokens_queued++;
    ck_assert(roles_prefill_here(&from, &to, 33));
    to.load.step_us_expected = 20000; /* the step that runs takes longer than usual */
    ck_assert(!roles_prefill_here(&from, &to, 33));
    from.load.prefill_tokens_queued = 2 * 66 + 1;
    ck_assert(roles_prefill_here(&from, &to, 33));
    to.welcome.chunk_tokens = 256; /* half the tokens in the same time */
    ck_assert(!roles_prefill_here(&from, &to, 33));
    from.load.prefill_tokens_queued = 4 * 66 + 1;
    ck_assert(roles_prefill_here(&from, &to, 33));
    from.welcome.chunk_tokens = to.welcome.chunk_tokens = 0; /* nonsense is no division by zero */
    ck_assert(roles_prefill_here(&from, &to, 33));
}
END_TEST

START_TEST(blocks_are_had_beside_what_runs_and_waits) {
    struct slot slot = worker(16, 16, 0);
    ck_assert(roles_has_blocks(&slot, 1000)); /* it has told nothing yet */
    slot.load.blocks_total = 100;
    slot.load.n_running = 5;
    slot.load.blocks_free = 7; /* 2 wait, 5 run: and 3 for 33 tokens */
    slot.load.blocks_cached = 3;
    ck_assert(roles_has_blocks(&slot, 48));
    ck_assert(!roles_has_blocks(&slot, 49));
    slot.load.blocks_cached = 2;
    ck_assert(!roles_has_blocks(&slot, 33));
    slot.load.n_running = 4;
    ck_assert(roles_has_blocks(&slot, 33));
    slot.tokens_unreflected = 32;
    ck_assert(!roles_has_blocks(&slot, 33));
}
END_TEST

/* A worker's figures: tokens that wait and blocks that are free, of 100. */
static void tells(uint32_t slot, uint32_t n_queued, uint32_t n_free) {
    struct message message = {.type = MESSAGE_BEAT};
    message.u.beat.load = (struct load){.progress = ++fake.progress[slot],
                                        .prefill_tokens_queued = n_queued,
                                        .blocks_total = 100,
                                        .blocks_free = n_free,
                                        .blocks_used = 100 - n_free};
    message.u.beat.t_ns = fake.now_ns;
    fake_says(&fake, slot, message);
}

static void open_with(enum roles roles) {
    struct router_config config = fake_config();
    config.roles = roles;
    fake_open(&fake, &config);
}

START_TEST(a_full_prefill_worker_leaves_prompts_to_decode_workers) {
    for (uint32_t i = 0; i < 3; i++) { /* one token short, one token over, and with fixed roles */
        open_with(i == 2 ? ROLES_FIXED : ROLES_LOAD);
        uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL);
        uint32_t d = fake_worker(&fake, "d", ROLE_DECODE);
        tells(p, i == 0 ? 66 : 67, 100);
        tells(d, 0, 100);
        ck_assert_int_eq(fake_ask(&fake, 0, 33, 4), STATUS_OK);
        ck_assert_uint_eq(fake_count(&fake, MESSAGE_RESERVE, d), i == 1 ? 0 : 1);
        if (i == 1) {
            ck_assert_int_eq(fake_submitted(&fake, d).phase, PHASE_BOTH);
            ck_assert_ptr_nonnull(strstr(fake_decision(&fake, 1), "prefill_workers_busy"));
        }
        fake_close(&fake);
    }
}
END_TEST

START_TEST(requests_of_one_moment_count_before_the_worker_tells_them) {
    open_with(ROLES_LOAD);
    uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL);
    uint32_t d = fake_worker(&fake, "d", ROLE_DECODE);
    tells(p, 0, 100);
    tells(d, 0, 100);
    for (uint32_t i = 0; i < 8; i++)
        ck_assert_int_eq(fake_ask(&fake, i, 33, 4), STATUS_OK);
    /* Three there, and from then on one here and one there by turns. */
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, d), 3);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_RESERVE, d), 5);
    fake_close(&fake);
}
END_TEST

START_TEST(prefill_workers_decode_while_decode_workers_have_no_blocks) {
    for (uint32_t i = 0; i < 4; i++) {
        open_with(i == 3 ? ROLES_FIXED : ROLES_LOAD);
        uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL);
        uint32_t d = fake_worker(&fake, "d", ROLE_DECODE);
        tells(p, 0, i == 2 ? 2 : 3); /* 33 tokens are three blocks */
        tells(d, 0, i == 0 ? 3 : 2);
        ck_assert_int_eq(fake_ask(&fake, 0, 33, 4), STATUS_OK);
        ck_assert_uint_eq(fake_count(&fake, MESSAGE_RESERVE, d), i == 1 ? 0 : 1);
        if (i == 1) {
            ck_assert_int_eq(fake_submitted(&fake, p).phase, PHASE_BOTH);
            ck_assert_ptr_nonnull(strstr(fake_decision(&fake, 1), "decode_workers_full"));
        }
        fake_close(&fake);
    }
}
END_TEST

START_TEST(another_decode_worker_with_blocks_comes_before_prefill_workers) {
    open_with(ROLES_LOAD);
    uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL);
    uint32_t d = fake_worker(&fake, "d", ROLE_DECODE);
    uint32_t e = fake_worker(&fake, "e", ROLE_DECODE);
    tells(p, 0, 100);
    tells(d, 0, 2);
    tells(e, 0, 3);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 4), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_RESERVE, e), 1);
    fake_close(&fake);
}
END_TEST

START_TEST(a_refused_reservation_goes_to_a_prefill_worker_with_blocks) {
    open_with(ROLES_LOAD);
    uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL);
    uint32_t d = fake_worker(&fake, "d", ROLE_DECODE);
    tells(p, 0, 100);
    tells(d, 0, 100);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 4), STATUS_OK);
    struct submit name = {.req = {.hi = 77, .lo = fake.users[0].name}, .attempt = 1};
    fake_refuses(&fake, d, &name, REASON_BUSY);
    fake_pass(&fake, 100 * NS_PER_MS, 3);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, p), 1);
    ck_assert_int_eq(fake_submitted(&fake, p).phase, PHASE_BOTH);
    fake_close(&fake);
}
END_TEST

/* Without a tick. */
START_TEST(who_waits_for_blocks_is_placed_when_the_queue_there_is_shorter) {
    open_with(ROLES_LOAD);
    uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL);
    uint32_t d = fake_worker(&fake, "d", ROLE_DECODE);
    tells(p, 16, 3); /* a block too few for 33 tokens more */
    tells(d, 0, 100);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 4), STATUS_OK);
    struct submit name = {.req = {.hi = 77, .lo = fake.users[0].name}, .attempt = 1};
    fake_refuses(&fake, d, &name, REASON_BUSY);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, p), 0);
    tells(p, 15, 3);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, p), 1);
    fake_close(&fake);
}
END_TEST

/* A block too few for 33 tokens beside what runs; then one has ended, and another waits in its place. */
START_TEST(who_waits_for_blocks_is_placed_when_an_answer_there_ends) {
    open_with(ROLES_LOAD);
    uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL);
    uint32_t d = fake_worker(&fake, "d", ROLE_DECODE);
    struct message message = {.type = MESSAGE_BEAT};
    struct load *load = &message.u.beat.load;
    *load = (struct load){.n_running = 1, .blocks_total = 100, .blocks_free = 3, .blocks_used = 97};
    load->progress = ++fake.progress[p];
    fake_says(&fake, p, message);
    tells(d, 0, 100);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 4), STATUS_OK);
    struct submit name = {.req = {.hi = 77, .lo = fake.users[0].name}, .attempt = 1};
    fake_refuses(&fake, d, &name, REASON_BUSY);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, p), 0);
    load->progress = ++fake.progress[p];
    load->n_running = 0;
    load->n_waiting = 1;
    fake_says(&fake, p, message);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, p), 1);
    fake_close(&fake);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_prompt_is_prefilled_where_the_other_queue_is_two_prompts_longer);
    tcase_add_test(tests, steps_that_take_longer_count_for_more);
    tcase_add_test(tests, blocks_are_had_beside_what_runs_and_waits);
    tcase_add_test(tests, a_full_prefill_worker_leaves_prompts_to_decode_workers);
    tcase_add_test(tests, requests_of_one_moment_count_before_the_worker_tells_them);
    tcase_add_test(tests, prefill_workers_decode_while_decode_workers_have_no_blocks);
    tcase_add_test(tests, another_decode_worker_with_blocks_comes_before_prefill_workers);
    tcase_add_test(tests, who_waits_for_blocks_is_placed_when_the_queue_there_is_shorter);
    tcase_add_test(tests, who_waits_for_blocks_is_placed_when_an_answer_there_ends);
    tcase_add_test(tests, a_refused_reservation_goes_to_a_prefill_worker_with_blocks);
}
