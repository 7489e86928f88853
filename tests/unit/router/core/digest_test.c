/* What a digest says of an attempt without tokens: whether it gets on, and whether it is there. */
#include "router/core/replay.h"
#include "tests/support/suite.h"
#include "tests/unit/router/core/fake.h"

const char *const suite_name = "router_digest";
const double suite_timeout_s = 60;

static struct fake fake;
static uint64_t n_prompt_tokens; /* that the worker has computed, of whomever */

/* One worker and a request for 8 tokens there. */
static uint32_t open_with_request(struct submit *submit) {
    struct router_config config = fake_config();
    fake_open(&fake, &config);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    *submit = fake_submitted(&fake, a);
    n_prompt_tokens = 100;
    return a;
}

/* The worker has computed n more prompt tokens. */
static void beat(uint32_t slot, uint32_t n) {
    struct message message = {.type = MESSAGE_BEAT};
    n_prompt_tokens += n;
    message.u.beat.load.progress = ++fake.progress[slot];
    message.u.beat.load.n_prompt_tokens = n_prompt_tokens;
    fake_says(&fake, slot, message);
}

static void digest(uint32_t slot, const struct submit *submit, enum sequence_state state) {
    struct digest_entry entry = {
        .req = submit->req, .attempt = submit->attempt, .state = state, .next_index = 0};
    struct message message = {.type = MESSAGE_DIGEST};
    message.u.digest = (struct digest){.seen_seq = UINT64_MAX - 1, .n = 1, .entries = &entry};
    fake_says(&fake, slot, message);
}

static void empty_digest(uint32_t slot) {
    struct message message = {.type = MESSAGE_DIGEST};
    message.u.digest.seen_seq = UINT64_MAX - 1;
    fake_says(&fake, slot, message);
}

/* Time passes while the worker computes n prompt tokens each half second, and says so. */
static void pass(uint32_t slot, const struct submit *submit, uint32_t n_halves, uint32_t n) {
    for (uint32_t i = 0; i < n_halves; i++) {
        fake.now_ns += NS_PER_S / 2;
        beat(slot, n);
        digest(slot, submit, SEQUENCE_RUNNING);
        router_tick(fake.router, fake.now_ns);
        fake_forget_sent(&fake);
        if (fake_stats(&fake).n_replays > 0)
            return;
    }
}

START_TEST(missing_listed_missing_loses_nothing) {
    struct submit submit;
    uint32_t a = open_with_request(&submit);
    for (int i = 0; i < 4; i++) {
        empty_digest(a);
        ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, a), 1);
        digest(a, &submit, SEQUENCE_RUNNING);
    }
    empty_digest(a);
    empty_digest(a);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, a), 2);
    fake_close(&fake);
}
END_TEST

START_TEST(a_prompt_that_is_computed_for_long_is_not_replaced) {
    struct submit submit;
    uint32_t a = open_with_request(&submit);
    pass(a, &submit, 20, 64);
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 0);
    pass(a, &submit, 8, 0); /* and then nothing more is computed */
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 1);
    fake_close(&fake);
}
END_TEST

/* The prompts of others say nothing of a sequence that decodes. */
START_TEST(a_stream_that_stands_still_is_replaced_while_others_prompts_are_computed) {
    struct submit submit;
    uint32_t a = open_with_request(&submit);
    digest(a, &submit, SEQUENCE_RUNNING);
    fake_step(&fake, a, &submit, 0, 1, FINISH_NONE);
    pass(a, &submit, 8, 64);
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 1);
    fake_close(&fake);
}
END_TEST

START_TEST(a_preempted_stream_is_computed_again_for_as_long_as_that_takes) {
    struct submit submit;
    uint32_t a = open_with_request(&submit);
    digest(a, &submit, SEQUENCE_RUNNING);
    fake_step(&fake, a, &submit, 0, 1, FINISH_NONE);
    digest(a, &submit, SEQUENCE_WAITING);
    pass(a, &submit, 20, 64);
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 0);
    fake_step(&fake, a, &submit, 1, 1, FINISH_NONE);
    pass(a, &submit, 8, 64);
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 1);
    fake_close(&fake);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, missing_listed_missing_loses_nothing);
    tcase_add_test(tests, a_prompt_that_is_computed_for_long_is_not_replaced);
    tcase_add_test(tests, a_stream_that_stands_still_is_replaced_while_others_prompts_are_computed);
    tcase_add_test(tests, a_preempted_stream_is_computed_again_for_as_long_as_that_takes);
}
