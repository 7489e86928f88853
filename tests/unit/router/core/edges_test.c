/* Conditions of the router's core that only a narrow case shows: each test here is one that,
 * without the condition, would pass all the others. */
#include "tests/support/suite.h"
#include "tests/unit/router/core/fake.h"

#include <string.h>

const char *const suite_name = "router_edges";
const double suite_timeout_s = 60;

static struct fake fake;

/* A digest that lists nothing and covers all that was sent. */
static void empty_digest(uint32_t slot) {
    struct message message = {.type = MESSAGE_DIGEST};
    message.u.digest.seen_seq = UINT64_MAX - 1;
    fake_says(&fake, slot, message);
}

START_TEST(an_old_end_ends_nothing) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct submit submit = fake_submitted(&fake, a);
    fake_step(&fake, a, &submit, 0, 5, FINISH_NONE);
    fake_step(&fake, a, &submit, 0, 3, FINISH_STOP); /* two tokens behind */
    ck_assert_uint_eq(fake.users[0].n_ends, 0);
    fake_step(&fake, a, &submit, 3, 2,
              FINISH_STOP); /* no new token, but the end of what is known */
    ck_assert_uint_eq(fake.users[0].n_ends, 1);
    fake_expect(&fake, 0, 5);
    fake_close(&fake);
}
END_TEST

START_TEST(one_missing_digest_replays_nothing) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    empty_digest(a);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, a), 1);
    empty_digest(a);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, a), 2);
    fake_close(&fake);
}
END_TEST

START_TEST(too_long_for_a_worker_is_not_too_long_for_the_next_one_of_its_slot) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    uint32_t b = fake_worker(&fake, "b", ROLE_MIXED);
    struct submit submit = fake_submitted(&fake, a);
    fake_refuses(&fake, a, &submit, REASON_TOO_LONG);
    ck_assert_uint_eq(fake_submitted(&fake, b).attempt, 2);
    fake_lose(&fake, a);
    ck_assert_uint_eq(fake_worker(&fake, "c", ROLE_MIXED), a);
    fake_forget_sent(&fake);
    fake_lose(&fake, b);
    fake_pass(&fake, 100 * NS_PER_MS, 1u << a);
    ck_assert_uint_eq(fake.users[0].n_ends, 0);
    ck_assert_uint_eq(fake_submitted(&fake, a).attempt, 3);
    fake_close(&fake);
}
END_TEST

START_TEST(a_sequence_goes_where_its_context_fits) {
    fake_open_default(&fake);
    struct welcome small = fake_welcome("small", ROLE_MIXED);
    small.context = 10;
    uint32_t s = fake_join(&fake, &small);
    uint32_t large = fake_worker(&fake, "large", ROLE_MIXED);
    for (uint32_t user = 0; user < 4; user++) /* by load, two of them would go to the small one */
        ck_assert_int_eq(fake_ask(&fake, user, 10, 4), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, s), 0);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, large), 4);
    ck_assert_int_eq(fake_ask(&fake, 4, 9, 4), STATUS_OK); /* one token less fits */
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, s), 1);
    fake_close(&fake);
}
END_TEST

static uint32_t join_of_context(const char *name, enum worker_role role, uint32_t context) {
    struct welcome welcome = fake_welcome(name, role);
    welcome.context = context;
    return fake_join(&fake, &welcome);
}

/* The small worker has 5 tokens of 8 asked for, and the rest comes from the other one. */
START_TEST(an_answer_goes_on_where_the_context_is_longer) {
    static const uint32_t contexts[] = {FAKE_PROMPT + FAKE_NEW, 18, 16};
    for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++) {
        fake_open_default(&fake);
        uint32_t small = join_of_context("small", ROLE_MIXED, 15);
        ck_assert_int_eq(fake_ask(&fake, 0, 10, 8), STATUS_OK);
        uint32_t large = join_of_context("large", ROLE_MIXED, contexts[i]);
        struct submit first = fake_submitted(&fake, small);
        fake_step(&fake, small, &first, 0, 5, FINISH_LENGTH);
        ck_assert_uint_eq(fake_count(&fake, MESSAGE_FORGET, small), 1);
        ck_assert_uint_eq(fake_count(&fake, MESSAGE_CANCEL, small), 0);
        struct submit second = fake_submitted(&fake, large);
        ck_assert_uint_eq(second.n_prompt, 10);
        ck_assert_uint_eq(second.n_tokens, 15);
        uint32_t n_more = contexts[i] - 15 < 3 ? contexts[i] - 15 : 3;
        fake_step(&fake, large, &second, 5, n_more, FINISH_LENGTH);
        fake_expect(&fake, 0, 5 + n_more);
        ck_assert_int_eq(fake.users[0].end.kind, END_DONE);
        ck_assert_int_eq(fake.users[0].end.finish, FINISH_LENGTH);
        ck_assert_uint_eq(fake.users[0].end.n_replays, 0); /* no worker was lost */
        fake_close(&fake);
    }
}
END_TEST

/* Neither a context that is no longer, nor one that left meanwhile, takes the answer that there is. */
START_TEST(an_answer_ends_with_the_longest_context) {
    fake_open_default(&fake);
    uint32_t a = join_of_context("a", ROLE_MIXED, 15);
    uint32_t b = join_of_context("b", ROLE_MIXED, 15);
    ck_assert_int_eq(fake_ask(&fake, 0, 10, 8), STATUS_OK);
    struct submit only = fake_submitted(&fake, a);
    fake_step(&fake, a, &only, 0, 5, FINISH_LENGTH);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, b), 0);
    ck_assert_int_eq(fake.users[0].end.finish, FINISH_LENGTH);
    fake_expect(&fake, 0, 5);
    fake_close(&fake);
    for (int is_last = 0; is_last < 2; is_last++) { /* the other one is left, or nobody */
        fake_open_default(&fake);
        uint32_t small = join_of_context("small", ROLE_MIXED, 15);
        ck_assert_int_eq(fake_ask(&fake, 0, 10, 8), STATUS_OK);
        uint32_t large = join_of_context("large", ROLE_MIXED, 18);
        struct submit first = fake_submitted(&fake, small);
        fake_step(&fake, small, &first, 0, 5, FINISH_LENGTH);
        struct submit second = fake_submitted(&fake, large);
        fake_step(&fake, large, &second, 5, 1, FINISH_NONE);
        fake_lose(&fake, large);
        if (is_last)
            fake_lose(&fake, small);
        ck_assert_uint_eq(fake.users[0].n_ends, 0);
        fake_pass(&fake, fake.config.no_worker_wait_ns + 100 * NS_PER_MS,
                  is_last ? 0 : 1u << small);
        fake_expect(&fake, 0, 6);
        ck_assert_int_eq(fake.users[0].end.kind, END_DONE);
        ck_assert_int_eq(fake.users[0].end.finish, FINISH_LENGTH);
        fake_close(&fake);
    }
}
END_TEST

static uint32_t join_with_room_for(uint32_t n, const char *name, uint32_t context) {
    struct welcome welcome = fake_welcome(name, ROLE_MIXED);
    welcome.context = context;
    welcome.max_seqs = n;
    return fake_join(&fake, &welcome);
}

/* The longer worker, which computes other bits, is full, and the other one has room. */
START_TEST(what_goes_on_at_a_full_worker_holds_up_nobody) {
    fake_open_default(&fake);
    uint32_t small = join_with_room_for(1, "small", 15);
    ck_assert_int_eq(fake_ask(&fake, 0, 10, 8), STATUS_OK);
    struct welcome other = fake_welcome("large", ROLE_MIXED);
    memset(other.numerics_fp, 0x5a, sizeof other.numerics_fp);
    other.max_seqs = 1;
    uint32_t large = fake_join(&fake, &other);
    ck_assert_int_eq(fake_ask(&fake, 1, 5, 8), STATUS_OK);
    struct submit submit = fake_submitted(&fake, small);
    fake_step(&fake, small, &submit, 0, 5, FINISH_LENGTH);
    fake_beat(&fake, small);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, large), 1);
    ck_assert_int_eq(fake_ask(&fake, 2, 5, 1), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, small), 2);
    submit = fake_submitted(&fake, large);
    fake_step(&fake, large, &submit, 0, 1, FINISH_STOP);
    ck_assert_uint_eq(fake_submitted(&fake, large).n_tokens, 15);
    fake_close(&fake);
}
END_TEST

/* A stream that moves waits for a worker that computes the same bits, and the next request takes one that does not. */
START_TEST(what_waits_for_equal_numerics_holds_up_nobody) {
    fake_open_default(&fake);
    struct welcome other = fake_welcome("other", ROLE_MIXED);
    memset(other.numerics_fp, 0x5a, sizeof other.numerics_fp);
    uint32_t a = join_with_room_for(1, "a", 32);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    uint32_t b = join_with_room_for(1, "b", 32);
    ck_assert_int_eq(fake_ask(&fake, 1, 5, 8), STATUS_OK);
    uint32_t c = fake_join(&fake, &other);
    struct submit submit = fake_submitted(&fake, a);
    fake_step(&fake, a, &submit, 0, 1, FINISH_NONE);
    fake_fails(&fake, a, &submit, REASON_DRAINING);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, c), 0);
    ck_assert_int_eq(fake_ask(&fake, 2, 5, 1), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, c), 1);
    submit = fake_submitted(&fake, b);
    fake_step(&fake, b, &submit, 0, 1, FINISH_STOP);
    ck_assert_uint_eq(fake_submitted(&fake, b).n_tokens, 6);
    fake_close(&fake);
}
END_TEST

/* Also where nobody is left who knows its form. */
START_TEST(an_answer_of_a_form_ends_with_the_longest_context) {
    fake_open_default(&fake);
    struct welcome welcome = fake_welcome("old", ROLE_MIXED);
    welcome.minor = PROTO_MINOR_GRAMMAR - 1;
    uint32_t old = fake_join(&fake, &welcome);
    welcome = fake_welcome("small", ROLE_MIXED);
    welcome.minor = PROTO_MINOR_GRAMMAR;
    welcome.context = 15;
    uint32_t small = fake_join(&fake, &welcome);
    struct request_spec spec = fake_spec(&fake, 0, 10, 8);
    spec.sampling.grammar = (const uint8_t *)"g";
    spec.sampling.n_grammar = 1;
    ck_assert_int_eq(fake_ask_spec(&fake, 0, spec), STATUS_OK);
    welcome = fake_welcome("large", ROLE_MIXED);
    welcome.minor = PROTO_MINOR_GRAMMAR;
    uint32_t large = fake_join(&fake, &welcome);
    struct submit first = fake_submitted(&fake, small);
    fake_step(&fake, small, &first, 0, 5, FINISH_LENGTH);
    ck_assert_uint_eq(fake_submitted(&fake, large).n_tokens, 15);
    fake_lose(&fake, large);
    fake_lose(&fake, small);
    fake_pass(&fake, fake.config.no_worker_wait_ns + 100 * NS_PER_MS, 1u << old);
    fake_expect(&fake, 0, 5);
    ck_assert_int_eq(fake.users[0].end.kind, END_DONE);
    ck_assert_int_eq(fake.users[0].end.finish, FINISH_LENGTH);
    fake_close(&fake);
}
END_TEST

/* A request that takes the place of one whose context ended it knows nothing of that. */
START_TEST(the_next_request_has_outgrown_nothing) {
    fake_open_default(&fake);
    uint32_t small = join_of_context("small", ROLE_MIXED, 15);
    ck_assert_int_eq(fake_ask(&fake, 0, 10, 8), STATUS_OK);
    uint32_t large = join_of_context("large", ROLE_MIXED, 18);
    struct submit submit = fake_submitted(&fake, small);
    fake_step(&fake, small, &submit, 0, 5, FINISH_LENGTH);
    submit = fake_submitted(&fake, large);
    fake_step(&fake, large, &submit, 5, 3, FINISH_LENGTH);
    ck_assert_int_eq(fake.users[0].end.kind, END_DONE);
    fake_lose(&fake, small);
    ck_assert_int_eq(fake_ask(&fake, 1, 5, 8), STATUS_OK);
    submit = fake_submitted(&fake, large);
    fake_step(&fake, large, &submit, 0, 2, FINISH_NONE);
    fake_lose(&fake, large);
    fake_pass(&fake, fake.config.no_worker_wait_ns + 100 * NS_PER_MS, 0);
    fake_expect(&fake, 1, 2);
    ck_assert_int_eq(fake.users[1].end.kind, END_FAILED);
    fake_close(&fake);
}
END_TEST

/* The same of two that hand over: the decode worker is the small one, or the one that computes the prompt. */
START_TEST(an_answer_goes_on_at_a_prefill_worker_and_at_a_decode_worker) {
    fake_open_default(&fake);
    uint32_t p = join_of_context("p", ROLE_PREFILL, 32), d = join_of_context("d", ROLE_DECODE, 15);
    ck_assert_int_eq(fake_ask(&fake, 0, 10, 8), STATUS_OK);
    fake_reserved(&fake, d, 1, 0);
    struct submit first = fake_submitted(&fake, d);
    fake_step(&fake, p, &first, 0, 1, FINISH_NONE);
    fake_step(&fake, d, &first, 0, 5, FINISH_LENGTH);
    struct submit second = fake_submitted(&fake, p);
    ck_assert_uint_eq(second.n_tokens, 15);
    ck_assert_int_eq(second.phase, PHASE_BOTH);
    fake_step(&fake, p, &second, 5, 3, FINISH_LENGTH);
    fake_expect(&fake, 0, 8);
    ck_assert_int_eq(fake.users[0].end.finish, FINISH_LENGTH);
    fake_close(&fake);
    fake_open_default(&fake);
    p = join_of_context("p", ROLE_PREFILL, 11);
    d = join_of_context("d", ROLE_DECODE, 32);
    ck_assert_int_eq(fake_ask(&fake, 0, 10, 8), STATUS_OK);
    fake_reserved(&fake, d, 1, 0);
    first = fake_submitted(&fake, p);
    fake_step(&fake, p, &first, 0, 1, FINISH_LENGTH);
    second = fake_submitted(&fake, d);
    ck_assert_uint_eq(second.n_tokens, 11);
    fake_step(&fake, d, &second, 1, 7, FINISH_LENGTH);
    fake_expect(&fake, 0, 8);
    fake_close(&fake);
}
END_TEST

START_TEST(prompts_as_long_as_the_context_are_refused_at_once) {
    fake_open_default(&fake);
    struct welcome small = fake_welcome("small", ROLE_MIXED);
    small.context = 10;
    fake_join(&fake, &small);
    ck_assert_int_eq(fake_ask(&fake, 0, 10, 4), STATUS_LIMIT);
    ck_assert_uint_eq(fake.users[0].n_ends, 0);
    ck_assert_int_eq(fake_ask(&fake, 0, 9, 4), STATUS_OK);
    fake_close(&fake);
}
END_TEST

/* The equal worker comes second by order and has more to do: nothing but its numerics speaks for
 * it. */
START_TEST(a_stream_continues_where_the_numerics_are_its_own) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct submit submit = fake_submitted(&fake, a);
    fake_step(&fake, a, &submit, 0, 1, FINISH_NONE);
    uint32_t equal = fake_worker(&fake, "equal", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 1, 5, 8), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, equal), 1);
    struct welcome other = fake_welcome("other", ROLE_MIXED);
    other.numerics_fp[FINGERPRINT_BYTES - 1] = 1;
    uint32_t o = fake_join(&fake, &other);
    fake_lose(&fake, a);
    fake_pass(&fake, 100 * NS_PER_MS, 1u << equal | 1u << o);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, o), 0);
    ck_assert_uint_eq(fake_submitted(&fake, equal).attempt, 2);
    ck_assert_uint_eq(fake_stats(&fake).n_inexact, 0);
    fake_close(&fake);
}
END_TEST

START_TEST(numerics_are_compared_to_the_last_byte) {
    fake_open_default(&fake);
    struct welcome other = fake_welcome("other", ROLE_PREFILL);
    other.numerics_fp[FINGERPRINT_BYTES - 1] = 1;
    uint32_t o = fake_join(&fake, &other);
    uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL);
    uint32_t d = fake_worker(&fake, "d", ROLE_DECODE);
    for (uint32_t user = 0; user < 4; user++) {
        ck_assert_int_eq(fake_ask(&fake, user, 33, 8), STATUS_OK);
        fake_reserved(&fake, d, 9 + user, 0);
    }
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, p), 4);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, o), 0);
    fake_lose(&fake, p);
    ck_assert_int_eq(fake_ask(&fake, 4, 33, 8), STATUS_OK);
    fake_reserved(&fake, d, 20, 0);
    ck_assert_uint_ge(fake_count(&fake, MESSAGE_SUBMIT, o), 1);
    ck_assert_uint_ge(fake_stats(&fake).n_inexact, 1);
    fake_close(&fake);
}
END_TEST

START_TEST(blocks_of_an_older_attempt_submit_nothing) {
    fake_open_default(&fake);
    uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL);
    uint32_t d = fake_worker(&fake, "d", ROLE_DECODE);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 8), STATUS_OK);
    const struct fake_message *asked = fake_last(&fake, MESSAGE_RESERVE, d);
    struct message late = {.type = MESSAGE_RESERVED};
    late.u.reserved =
        (struct reserved){.req = asked->message.u.reserve.req, .attempt = 1, .gen = 9};
    fake_lose(&fake, p); /* moved: it had only asked for blocks */
    p = fake_worker(&fake, "p", ROLE_PREFILL);
    fake_pass(&fake, 100 * NS_PER_MS, 1u << p | 1u << d);
    asked = fake_last(&fake, MESSAGE_RESERVE, d);
    if (!asked || asked->message.u.reserve.attempt == 1) {
        /* No prefill worker was there meanwhile: decoded where it was; not for long. */
        struct submit submit = fake_submitted(&fake, d);
        fake_refuses(&fake, d, &submit, REASON_BUSY);
        fake_pass(&fake, 100 * NS_PER_MS, 1u << p | 1u << d);
        asked = fake_last(&fake, MESSAGE_RESERVE, d);
    }
    uint32_t attempt = asked->message.u.reserve.attempt;
    ck_assert_uint_gt(attempt, 1);
    uint32_t n_before = fake_count(&fake, MESSAGE_SUBMIT, UINT32_MAX);
    fake_says(&fake, d, late);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, UINT32_MAX), n_before);
    fake_reserved(&fake, d, 10, 0);
    ck_assert_uint_eq(fake_submitted(&fake, d).xfer.gen, 10);
    ck_assert_uint_eq(fake_submitted(&fake, p).attempt, attempt);
    fake_close(&fake);
}
END_TEST

START_TEST(a_token_forgets_all_losses_before_it) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct submit submit = fake_submitted(&fake, a);
    for (int i = 0; i < 2; i++) {
        fake_fails(&fake, a, &submit, REASON_LEASE);
        submit = fake_submitted(&fake, a);
    }
    fake_step(&fake, a, &submit, 0, 1, FINISH_NONE);
    fake_fails(&fake, a, &submit, REASON_LEASE); /* this attempt brought a token: no loss */
    for (int i = 0; i < 7; i++) {
        submit = fake_submitted(&fake, a);
        fake_fails(&fake, a, &submit, REASON_LEASE);
        ck_assert_uint_eq(fake.users[0].n_ends, 0);
    }
    submit = fake_submitted(&fake, a);
    fake_fails(&fake, a, &submit, REASON_LEASE);
    ck_assert_int_eq(fake.users[0].end.kind, END_FAILED);
    fake_close(&fake);
}
END_TEST

START_TEST(a_late_failure_of_an_older_attempt_costs_the_newer_nothing) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct submit first = fake_submitted(&fake, a);
    fake_fails(&fake, a, &first, REASON_LEASE);
    ck_assert_uint_eq(fake_submitted(&fake, a).attempt, 2);
    fake_fails(&fake, a, &first, REASON_LEASE);
    fake_refuses(&fake, a, &first, REASON_INVALID);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, a), 2);
    ck_assert_uint_eq(fake.users[0].n_ends, 0);
    fake_close(&fake);
}
END_TEST

START_TEST(logits_that_are_no_numbers_are_an_error_to_the_client) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct submit submit = fake_submitted(&fake, a);
    fake_step(&fake, a, &submit, 0, 2, FINISH_ERROR);
    ck_assert_int_eq(fake.users[0].end.kind, END_FAILED);
    ck_assert_int_eq(fake.users[0].end.status, STATUS_CORRUPT);
    ck_assert_int_eq(fake.users[0].end.reason, REASON_NUMERICS);
    fake_close(&fake);
}
END_TEST

START_TEST(no_more_requests_than_there_is_memory_for) {
    struct router_config config = fake_config();
    config.max_requests = 2;
    fake_open(&fake, &config);
    fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    ck_assert_int_eq(fake_ask(&fake, 1, 5, 8), STATUS_OK);
    ck_assert_int_eq(fake_ask(&fake, 2, 5, 8), STATUS_BUSY);
    fake_close(&fake);
}
END_TEST

START_TEST(a_replayed_request_goes_before_those_that_came_later) {
    fake_open_default(&fake);
    struct welcome narrow = fake_welcome("a", ROLE_MIXED);
    narrow.max_seqs = 1;
    uint32_t a = fake_join(&fake, &narrow);
    for (uint32_t user = 0; user < 3; user++)
        ck_assert_int_eq(fake_ask(&fake, user, 5, 8), STATUS_OK);
    struct submit first = fake_submitted(&fake, a);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, a), 1);
    fake_fails(&fake, a, &first, REASON_LEASE);
    ck_assert_uint_eq(fake_submitted(&fake, a).attempt, 2);
    ck_assert_uint_eq(fake_submitted(&fake, a).req.lo, first.req.lo);
    fake_close(&fake);
}
END_TEST

START_TEST(too_long_for_the_last_request_of_its_place_is_not_too_long_for_the_next) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 20, 8), STATUS_OK);
    struct submit submit = fake_submitted(&fake, a);
    fake_refuses(&fake, a, &submit, REASON_TOO_LONG);
    ck_assert_int_eq(fake.users[0].end.kind, END_REFUSED);
    ck_assert_int_eq(fake.users[0].end.status, STATUS_LIMIT);
    ck_assert_int_eq(fake_ask(&fake, 1, 5, 8), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, a), 2);
    ck_assert_uint_eq(fake.users[1].n_ends, 0);
    fake_close(&fake);
}
END_TEST

START_TEST(no_more_tokens_are_cached_than_the_prompt_has) {
    static const uint32_t says[] = {4, 5, 1000}, counts[] = {4, 5, 5};
    for (int i = 0; i < 3; i++) {
        fake_open_default(&fake);
        uint32_t a = fake_worker(&fake, "a", ROLE_MIXED), token = fake_token(0);
        ck_assert_int_eq(fake_ask(&fake, 0, 5, 1), STATUS_OK);
        struct submit submit = fake_submitted(&fake, a);
        struct step_entry entry = {.req = submit.req,
                                   .attempt = submit.attempt,
                                   .n_tokens = 1,
                                   .tokens = &token,
                                   .finish = FINISH_LENGTH,
                                   .cached_tokens = says[i]};
        struct message message = {.type = MESSAGE_STEP};
        message.u.step = (struct step){.n = 1, .entries = &entry};
        fake_says(&fake, a, message);
        ck_assert_uint_eq(fake.users[0].n_ends, 1);
        ck_assert_uint_eq(fake.users[0].end.cached_tokens, counts[i]);
        fake_close(&fake);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, an_old_end_ends_nothing);
    tcase_add_test(tests, one_missing_digest_replays_nothing);
    tcase_add_test(tests, too_long_for_a_worker_is_not_too_long_for_the_next_one_of_its_slot);
    tcase_add_test(tests, a_sequence_goes_where_its_context_fits);
    tcase_add_test(tests, an_answer_goes_on_where_the_context_is_longer);
    tcase_add_test(tests, an_answer_ends_with_the_longest_context);
    tcase_add_test(tests, what_goes_on_at_a_full_worker_holds_up_nobody);
    tcase_add_test(tests, what_waits_for_equal_numerics_holds_up_nobody);
    tcase_add_test(tests, an_answer_of_a_form_ends_with_the_longest_context);
    tcase_add_test(tests, the_next_request_has_outgrown_nothing);
    tcase_add_test(tests, an_answer_goes_on_at_a_prefill_worker_and_at_a_decode_worker);
    tcase_add_test(tests, prompts_as_long_as_the_context_are_refused_at_once);
    tcase_add_test(tests, a_stream_continues_where_the_numerics_are_its_own);
    tcase_add_test(tests, numerics_are_compared_to_the_last_byte);
    tcase_add_test(tests, blocks_of_an_older_attempt_submit_nothing);
    tcase_add_test(tests, a_token_forgets_all_losses_before_it);
    tcase_add_test(tests, a_late_failure_of_an_older_attempt_costs_the_newer_nothing);
    tcase_add_test(tests, logits_that_are_no_numbers_are_an_error_to_the_client);
    tcase_add_test(tests, no_more_requests_than_there_is_memory_for);
    tcase_add_test(tests, a_replayed_request_goes_before_those_that_came_later);
    tcase_add_test(tests, too_long_for_the_last_request_of_its_place_is_not_too_long_for_the_next);
    tcase_add_test(tests, no_more_tokens_are_cached_than_the_prompt_has);
}
