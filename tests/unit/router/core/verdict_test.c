/* Whose fault a failure is: verdicts on which two workers agree, tokens and figures that cannot be, and
 * silence that a worker's own word explains. */
#include "tests/unit/router/core/trust_rig.h"

const char *const suite_name = "router_verdict";
const double suite_timeout_s = 60;

START_TEST(unusable_numbers_are_final_when_another_worker_agrees_and_both_are_excused) {
    open_two();
    uint32_t first = ask(0), second = first == a ? b : a;
    fails(first, REASON_NUMERICS);
    ck_assert_uint_eq(fake.users[0].n_ends, 0);
    ck_assert_int_eq(standing_of(first), STANDING_ASIDE);
    fails(second, REASON_NUMERICS);
    ck_assert_int_eq(fake.users[0].end.status, STATUS_CORRUPT);
    ck_assert_int_eq(fake.users[0].end.reason, REASON_NUMERICS);
    ck_assert_int_eq(standing_of(first), STANDING_GOOD);
    ck_assert_int_eq(standing_of(second), STANDING_GOOD);
    ck_assert_str_eq(fake_note(&fake, "worker no longer"),
                     first == a
                         ? "worker no longer put aside name=a reason=another_agrees after_ms=1000"
                         : "worker no longer put aside name=b reason=another_agrees after_ms=1000");
    fake_close(&fake);
}
END_TEST

START_TEST(a_grammar_that_leaves_nothing_ends_its_request_and_blames_no_worker) {
    open_two();
    for (uint32_t user = 0; user < 12; user++) {
        uint32_t first = ask(user);
        fails(first, REASON_GRAMMAR);
        ck_assert_uint_eq(fake.users[user].n_ends, 1);
        ck_assert_int_eq(fake.users[user].end.status, STATUS_CONFLICT);
        ck_assert_int_eq(fake.users[user].end.reason, REASON_GRAMMAR);
    }
    ck_assert_int_eq(standing_of(a), STANDING_GOOD);
    ck_assert_int_eq(standing_of(b), STANDING_GOOD);
    fake_close(&fake);
}
END_TEST

/* Workers of the last minor version would answer as if there were none. */
START_TEST(a_grammar_goes_only_where_it_is_known) {
    struct router_config config = fake_config();
    fake_open(&fake, &config);
    struct welcome old = fake_welcome("a", ROLE_MIXED), new = fake_welcome("b", ROLE_MIXED);
    old.minor = PROTO_MINOR_GRAMMAR - 1;
    new.minor = PROTO_MINOR_GRAMMAR;
    a = fake_join(&fake, &old);
    struct request_spec spec = fake_spec(&fake, 0, 5, 1);
    spec.sampling.grammar = (const uint8_t *)"g";
    spec.sampling.n_grammar = 1;
    ck_assert_int_eq(fake_ask_spec(&fake, 0, spec), STATUS_OK);
    ck_assert_uint_eq(fake.users[0].n_ends, 1);
    ck_assert_int_eq(fake.users[0].end.status, STATUS_CLOSED);
    ck_assert_int_eq(fake.users[0].end.reason, REASON_GRAMMAR);
    b = fake_join(&fake, &new);
    beat_with(b, (struct load){.n_running = 8}); /* the other one has nothing to do */
    for (uint32_t user = 1; user < 5; user++) {
        spec.user = user;
        fake_forget_sent(&fake);
        ck_assert_int_eq(fake_ask_spec(&fake, user, spec), STATUS_OK);
        ck_assert_uint_eq(fake_last(&fake, MESSAGE_SUBMIT, UINT32_MAX)->slot, b);
    }
    spec = fake_spec(&fake, 5, 5, 1);
    fake_forget_sent(&fake);
    ck_assert_int_eq(fake_ask_spec(&fake, 5, spec), STATUS_OK);
    ck_assert_uint_eq(fake_last(&fake, MESSAGE_SUBMIT, UINT32_MAX)->slot, a);
    fake_close(&fake);
}
END_TEST

/* A grammar that the minor version before cannot read, and one that it can. */
START_TEST(a_grammar_of_json_strings_goes_only_where_they_are_known) {
    static const uint8_t strings[] = {MESSAGE_GRAMMAR_STRINGS}, plain[] = {1};
    struct router_config config = fake_config();
    fake_open(&fake, &config);
    struct welcome old = fake_welcome("a", ROLE_MIXED), new = fake_welcome("b", ROLE_MIXED);
    old.minor = PROTO_MINOR_STRINGS - 1;
    new.minor = PROTO_MINOR_STRINGS;
    a = fake_join(&fake, &old);
    b = fake_join(&fake, &new);
    beat_with(b, (struct load){.n_running = 8}); /* the other one has nothing to do */
    for (uint32_t user = 0; user < 6; user++) {
        struct request_spec spec = fake_spec(&fake, user, 5, 1);
        spec.sampling.grammar = user % 2 ? plain : strings;
        spec.sampling.n_grammar = 1;
        fake_forget_sent(&fake);
        ck_assert_int_eq(fake_ask_spec(&fake, user, spec), STATUS_OK);
        ck_assert_uint_eq(fake_last(&fake, MESSAGE_SUBMIT, UINT32_MAX)->slot, user % 2 ? a : b);
    }
    fake_close(&fake);
}
END_TEST

START_TEST(excused_once_between_two_good_answers) {
    open_two();
    for (uint32_t user = 0; user < 2; user++) {
        uint32_t first = ask(user), second = first == a ? b : a;
        fails(first, REASON_NUMERICS);
        fails(second, REASON_NUMERICS);
        ck_assert_int_eq(fake.users[user].end.status, STATUS_CORRUPT);
    }
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    ck_assert_int_eq(standing_of(b), STANDING_ASIDE);
    fake_close(&fake);
}
END_TEST

START_TEST(one_workers_refusal_as_invalid_is_tried_elsewhere) {
    open_two();
    uint32_t first = ask(0), second = first == a ? b : a;
    struct submit submit = fake_submitted(&fake, first);
    fake_refuses(&fake, first, &submit, REASON_INVALID);
    answer(second);
    ck_assert_int_eq(fake.users[0].end.kind, END_DONE);
    first = ask(1), second = first == a ? b : a;
    submit = fake_submitted(&fake, first);
    fake_refuses(&fake, first, &submit, REASON_INVALID);
    submit = fake_submitted(&fake, second);
    fake_refuses(&fake, second, &submit, REASON_INVALID);
    ck_assert_int_eq(fake.users[1].end.status, STATUS_INVALID);
    fake_close(&fake);
}
END_TEST

/* The second one that says so is believed; the third is not asked. */
START_TEST(two_workers_that_agree_end_a_request_beside_a_third) {
    open_two();
    uint32_t c = fake_worker(&fake, "c", ROLE_MIXED);
    uint32_t at = ask(0);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(fake.users[0].n_ends, 0);
        struct submit submit = fake_submitted(&fake, at);
        fake_forget_sent(&fake);
        fake_refuses(&fake, at, &submit, REASON_INVALID);
        const struct fake_message *next = fake_last(&fake, MESSAGE_SUBMIT, UINT32_MAX);
        ck_assert_uint_eq(next != NULL, i == 0);
        at = next ? next->slot : at;
    }
    ck_assert_int_eq(fake.users[0].end.status, STATUS_INVALID);
    ck_assert_int_eq(standing_of(c), STANDING_GOOD);
    fake_close(&fake);
}
END_TEST

/* Other than unusable numbers it may be the request: three of four such answers put a worker aside. */
START_TEST(one_refusal_as_invalid_puts_no_worker_aside) {
    open_two();
    for (uint32_t user = 0; user < TRUST_FAILURES; user++) {
        ck_assert_int_eq(standing_of(a), STANDING_GOOD);
        ck_assert_uint_eq(ask_at(user, a), a);
        struct submit submit = fake_submitted(&fake, a);
        fake_refuses(&fake, a, &submit, REASON_INVALID);
        answer(b);
    }
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    fake_close(&fake);
}
END_TEST

START_TEST(different_verdicts_are_no_agreement) {
    struct router_config config = fake_config();
    fake_open(&fake, &config);
    a = fake_worker(&fake, "a", ROLE_MIXED);
    b = fake_worker(&fake, "b", ROLE_MIXED);
    fake_worker(&fake, "c", ROLE_MIXED);
    uint32_t at = ask(0);
    fails(at, REASON_NUMERICS);
    at = fake_last(&fake, MESSAGE_SUBMIT, UINT32_MAX)->slot;
    struct submit submit = fake_submitted(&fake, at);
    fake_refuses(&fake, at, &submit, REASON_INVALID);
    ck_assert_uint_eq(fake.users[0].n_ends, 0);
    at = fake_last(&fake, MESSAGE_SUBMIT, UINT32_MAX)->slot;
    answer(at);
    ck_assert_int_eq(fake.users[0].end.kind, END_DONE);
    fake_close(&fake);
}
END_TEST

/* --- what cannot be --------------------------------------------------------------------------- */

static void say(uint32_t slot, struct step_entry entry) {
    struct message message = {.type = MESSAGE_STEP};
    message.u.step = (struct step){.n = 1, .entries = &entry};
    message.u.step.load.progress = ++fake.progress[slot];
    fake_says(&fake, slot, message);
}

struct odd {
    uint32_t first_index, n, last_id;
    enum finish finish;
    bool fails;
};

/* The answer is to have 4 tokens; ids are below FAKE_VOCAB. */
static const struct odd odd[] = {
    {0, 2, FAKE_VOCAB - 1, FINISH_NONE, false},
    {0, 2, FAKE_VOCAB, FINISH_NONE, true},
    {0, 2, UINT32_MAX, FINISH_NONE, true},
    {0, 4, 7, FINISH_NONE, false},
    {0, 5, 7, FINISH_NONE, true},
    {4, 1, 7, FINISH_NONE, true},
    {5, 0, 7, FINISH_NONE, true},
    {UINT32_MAX, 2, 7, FINISH_NONE, true},
    {0, 0, 7, FINISH_STOP, true},
    {0, 1, 7, FINISH_STOP, false},
    {0, 3, 7, FINISH_LENGTH, true},
    {0, 4, 7, FINISH_LENGTH, false},
};

START_TEST(tokens_that_cannot_be_reach_no_client_and_put_their_worker_aside) {
    for (uint32_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        open_two();
        ck_assert_int_eq(fake_ask(&fake, 0, 5, 4), STATUS_OK);
        uint32_t at = fake_last(&fake, MESSAGE_SUBMIT, UINT32_MAX)->slot;
        struct submit submit = fake_submitted(&fake, at);
        uint32_t tokens[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        if (odd[i].n > 0)
            tokens[odd[i].n - 1] = odd[i].last_id;
        say(at, (struct step_entry){.req = submit.req,
                                    .attempt = 1,
                                    .first_index = odd[i].first_index,
                                    .n_tokens = odd[i].n,
                                    .tokens = tokens,
                                    .finish = odd[i].finish});
        ck_assert_msg(fake.users[0].n_got == (odd[i].fails ? 0 : odd[i].n), "row %u", i);
        ck_assert_int_eq(standing_of(at), odd[i].fails ? STANDING_ASIDE : STANDING_GOOD);
        ck_assert_uint_eq(fake_stats(&fake).n_replays, odd[i].fails);
        fake_close(&fake);
    }
}
END_TEST

START_TEST(an_answer_may_end_where_the_context_does) {
    for (uint32_t n = 2; n <= 3; n++) {
        struct router_config config = fake_config();
        fake_open(&fake, &config);
        struct welcome welcome = fake_welcome("a", ROLE_MIXED);
        welcome.context = 8;
        a = fake_join(&fake, &welcome);
        ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
        struct submit submit = fake_submitted(&fake, a);
        fake_step(&fake, a, &submit, 0, n, FINISH_LENGTH);
        ck_assert_uint_eq(fake.users[0].n_ends, n == 3);
        fake_close(&fake);
    }
}
END_TEST

START_TEST(ids_beyond_the_vocabulary_beside_the_logprobs_count_too) {
    for (uint32_t id = FAKE_VOCAB - 1; id <= FAKE_VOCAB; id++) {
        open_two();
        struct request_spec spec = fake_spec(&fake, 0, 5, 4);
        spec.sampling.want_logprobs = true;
        ck_assert_int_eq(fake_ask_spec(&fake, 0, spec), STATUS_OK);
        uint32_t at = fake_last(&fake, MESSAGE_SUBMIT, UINT32_MAX)->slot, token = 7;
        struct submit submit = fake_submitted(&fake, at);
        struct token_logprobs logprobs = {.n_top = 2, .top_ids = {1, id}};
        say(at, (struct step_entry){.req = submit.req,
                                    .attempt = 1,
                                    .n_tokens = 1,
                                    .tokens = &token,
                                    .logprobs = &logprobs});
        ck_assert_uint_eq(fake.users[0].n_got, id < FAKE_VOCAB);
        fake_close(&fake);
    }
}
END_TEST

START_TEST(figures_that_cannot_be_put_a_worker_aside) {
    open_two();
    beat_with(a, (struct load){.step_us_expected = MESSAGE_STEP_US_MAX,
                               .blocks_total = 5,
                               .blocks_free = 1,
                               .blocks_used = 1,
                               .blocks_reserved = 1,
                               .blocks_quarantined = 1,
                               .blocks_cached = 1});
    ck_assert_int_eq(standing_of(a), STANDING_GOOD);
    beat_with(a, (struct load){.step_us_expected = MESSAGE_STEP_US_MAX + 1});
    ck_assert_int_eq(standing_of(a), STANDING_ASIDE);
    beat_with(a, (struct load){.step_us_expected = MESSAGE_STEP_US_MAX + 1});
    ck_assert_uint_eq(fake_count_notes(&fake, "worker put aside"), 1);
    ck_assert_ptr_nonnull(
        strstr(fake_note(&fake, "worker put aside"), "reason=impossible_figures"));
    beat_with(b, (struct load){.blocks_total = 5, .blocks_free = UINT32_MAX, .blocks_used = 3});
    ck_assert_int_eq(standing_of(b), STANDING_ASIDE);
    fake_close(&fake);
}
END_TEST

/* How long `a` may be silent now. */
static uint64_t silence_ms(void) {
    uint64_t ms = 0;
    while (fake_stats(&fake).n_fenced == 0 && ms < 100000) {
        fake_forget_sent(&fake);
        fake_pass(&fake, 50 * NS_PER_MS, 1u << b);
        ms += 50;
    }
    return ms;
}

static uint64_t fenced_after_ms(uint32_t step_us) {
    open_two();
    beat_with(a, (struct load){.step_us_expected = step_us});
    uint64_t ms = silence_ms();
    fake_close(&fake);
    return ms;
}

/* It announces this, has nothing to say for so long, and ends the step. */
static void ends_step(uint32_t step_us, uint64_t ms) {
    beat_with(a, (struct load){.step_us_expected = step_us});
    fake_pass(&fake, ms * NS_PER_MS, 1u << b);
    beat_with(a, (struct load){0});
}

START_TEST(a_word_alone_explains_four_seconds_of_silence) {
    ck_assert_uint_eq(fenced_after_ms(900000), 3650);
    ck_assert_uint_eq(fenced_after_ms(1000000), 4050);
    ck_assert_uint_eq(fenced_after_ms(1000001), 4050);
    ck_assert_uint_eq(fenced_after_ms(14900000), 4050);
    ck_assert_uint_eq(fenced_after_ms(MESSAGE_STEP_US_MAX), 4050);
    ck_assert_uint_eq(fenced_after_ms(MESSAGE_STEP_US_MAX + 1), 1050); /* not believed */
    ck_assert_uint_eq(fenced_after_ms(UINT32_MAX), 1050);
}
END_TEST

/* {announced, lasted} of its longest step before, and how long one of 14.9 s may be silent then. */
START_TEST(a_step_is_believed_up_to_twice_the_longest_that_was_taken) {
    static const struct {
        uint32_t step_us, lasted_ms, silence_ms;
    } steps[] =
        {
            {500000, 500, 4050},   {550000, 550, 4450},  {3000000, 3000, 24050},
            {3000000, 1000, 8050}, {600000, 2000, 4850}, {7400000, 3900, 31250},
            {20000000, 900, 4050}, /* impossible, so not announced */
            {0, 900, 4050},
        };
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
        open_two();
        ends_step(steps[i].step_us, steps[i].lasted_ms);
        ends_step(10000, 50); /* short ones take nothing back */
        ck_assert_uint_eq(fake_stats(&fake).n_fenced, 0);
        beat_with(a, (struct load){.step_us_expected = 14900000});
        ck_assert_uint_eq(silence_ms(), steps[i].silence_ms);
        fake_close(&fake);
    }
}
END_TEST

START_TEST(silence_may_last_a_minute_at_most_whatever_a_worker_says) {
    for (unsigned over = 0; over < 2; over++) {
        open_two();
        ends_step(4000000, 4000);
        ends_step(8000000, 8000); /* steps that grow are followed */
        ends_step(MESSAGE_STEP_US_MAX, 15000);
        ck_assert_uint_eq(fake_stats(&fake).n_fenced, 0);
        beat_with(a, (struct load){.step_us_expected = MESSAGE_STEP_US_MAX + over});
        ck_assert_uint_eq(silence_ms(), over ? 1050 : 60050);
        fake_close(&fake);
    }
}
END_TEST

/* Its first step is longer than a word explains: the hang is forgiven, and from then on it is known. */
START_TEST(a_step_that_outlasts_its_session_is_one_that_was_taken) {
    struct router_config config = fake_config();
    struct welcome welcome = fake_welcome("a", ROLE_MIXED);
    fake_open(&fake, &config);
    a = fake_join(&fake, &welcome);
    b = fake_worker(&fake, "b", ROLE_MIXED);
    beat_with(a, (struct load){.step_us_expected = 9000000});
    ck_assert_uint_eq(silence_ms(), 4050);
    struct message message = {.type = MESSAGE_WELCOME};
    message.u.welcome = welcome;
    message.u.welcome.load =
        (struct load){.progress = fake.progress[a], .step_us_expected = 9000000};
    fake_says(&fake, a, message); /* it still computes */
    fake_pass(&fake, 3950 * NS_PER_MS, 1u << b);
    ck_assert_uint_eq(fake_stats(&fake).n_fenced, 1);
    ck_assert_int_eq(standing_of(a), STANDING_GOOD);
    beat_with(a, (struct load){.step_us_expected = 9000000}); /* the next one */
    fake_pass(&fake, 36000 * NS_PER_MS, 1u << b);
    ck_assert_uint_eq(fake_stats(&fake).n_fenced, 1);
    fake_pass(&fake, 50 * NS_PER_MS, 1u << b);
    ck_assert_uint_eq(fake_stats(&fake).n_fenced, 2);
    fake_close(&fake);
}
END_TEST

START_TEST(what_steps_take_is_known_of_a_name) {
    open_two();
    ends_step(3000000, 3000);
    fake_lose(&fake, a);
    a = fake_worker(&fake, "a", ROLE_MIXED);
    beat_with(a, (struct load){.step_us_expected = 14900000});
    ck_assert_uint_eq(silence_ms(), 24050);
    uint32_t c = fake_worker(&fake, "c", ROLE_MIXED);
    ck_assert_uint_ne(c, a);
    a = c;
    beat_with(a, (struct load){.step_us_expected = 14900000});
    uint64_t before = fake_stats(&fake).n_fenced;
    fake_pass(&fake, 4000 * NS_PER_MS, 1u << b);
    ck_assert_uint_eq(fake_stats(&fake).n_fenced, before);
    fake_pass(&fake, 50 * NS_PER_MS, 1u << b);
    ck_assert_uint_eq(fake_stats(&fake).n_fenced, before + 1);
    fake_close(&fake);
}
END_TEST

/* A worker that comes with a long step under way, and a count of nothing. */
START_TEST(a_first_step_shows_what_it_took_and_not_what_was_before) {
    struct router_config config = fake_config();
    fake_open(&fake, &config);
    b = fake_worker(&fake, "b", ROLE_MIXED);
    fake_pass(&fake, 20000 * NS_PER_MS, 1u << b);
    a = fake_worker(&fake, "a", ROLE_MIXED);
    beat_with(a, (struct load){.step_us_expected = 14900000});
    beat_with(a, (struct load){.step_us_expected = 14900000});
    ck_assert_uint_eq(silence_ms(), 4050);
    fake_close(&fake);
}
END_TEST

START_TEST(a_beat_that_comes_twice_does_not_shorten_a_step) {
    open_two();
    struct message first = {.type = MESSAGE_BEAT};
    first.u.beat.load = (struct load){.progress = ++fake.progress[a], .step_us_expected = 20000};
    fake_says(&fake, a, first);
    beat_with(a, (struct load){.step_us_expected = 2000000});
    fake_says(&fake, a, first);
    ck_assert_uint_eq(silence_ms(), 4050);
    fake_close(&fake);
}
END_TEST

START_TEST(the_last_live_worker_that_lies_is_not_fenced) {
    struct router_config config = fake_config();
    fake_open(&fake, &config);
    a = fake_worker(&fake, "a", ROLE_MIXED);
    beat_with(a, (struct load){.step_us_expected = UINT32_MAX});
    ck_assert_uint_eq(ask(0), a);
    fake_pass(&fake, 10 * NS_PER_S, 0);
    ck_assert_uint_eq(fake_stats(&fake).n_fenced, 0);
    answer(a);
    ck_assert_int_eq(fake.users[0].end.kind, END_DONE);
    fake_close(&fake);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests,
                   unusable_numbers_are_final_when_another_worker_agrees_and_both_are_excused);
    tcase_add_test(tests, a_grammar_that_leaves_nothing_ends_its_request_and_blames_no_worker);
    tcase_add_test(tests, a_grammar_goes_only_where_it_is_known);
    tcase_add_test(tests, a_grammar_of_json_strings_goes_only_where_they_are_known);
    tcase_add_test(tests, excused_once_between_two_good_answers);
    tcase_add_test(tests, one_workers_refusal_as_invalid_is_tried_elsewhere);
    tcase_add_test(tests, two_workers_that_agree_end_a_request_beside_a_third);
    tcase_add_test(tests, one_refusal_as_invalid_puts_no_worker_aside);
    tcase_add_test(tests, different_verdicts_are_no_agreement);
    tcase_add_test(tests, tokens_that_cannot_be_reach_no_client_and_put_their_worker_aside);
    tcase_add_test(tests, an_answer_may_end_where_the_context_does);
    tcase_add_test(tests, ids_beyond_the_vocabulary_beside_the_logprobs_count_too);
    tcase_add_test(tests, figures_that_cannot_be_put_a_worker_aside);
    tcase_add_test(tests, a_word_alone_explains_four_seconds_of_silence);
    tcase_add_test(tests, a_step_is_believed_up_to_twice_the_longest_that_was_taken);
    tcase_add_test(tests, a_step_that_outlasts_its_session_is_one_that_was_taken);
    tcase_add_test(tests, what_steps_take_is_known_of_a_name);
    tcase_add_test(tests, a_first_step_shows_what_it_took_and_not_what_was_before);
    tcase_add_test(tests, silence_may_last_a_minute_at_most_whatever_a_worker_says);
    tcase_add_test(tests, a_beat_that_comes_twice_does_not_shorten_a_step);
    tcase_add_test(tests, the_last_live_worker_that_lies_is_not_fenced);
}
