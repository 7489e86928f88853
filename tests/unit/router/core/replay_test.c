#include "tests/support/suite.h"
#include "tests/unit/router/core/fake.h"

#include <string.h>

const char *const suite_name = "router_replay";
const double suite_timeout_s = 60;

static struct fake fake;

static struct submit hand_over(uint32_t d) {
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 8), STATUS_OK);
    fake_reserved(&fake, d, 9, 0);
    return fake_submitted(&fake, d);
}

static void welcome_again(uint32_t slot, const struct welcome *welcome) {
    struct message message = {.type = MESSAGE_WELCOME};
    message.u.welcome = *welcome;
    fake_says(&fake, slot, message);
}

static void digest(uint32_t slot, uint64_t seen_seq, const struct digest_entry *entry) {
    struct digest_entry entries[1];
    struct message message = {.type = MESSAGE_DIGEST};
    message.u.digest.seen_seq = seen_seq;
    if (entry) {
        entries[0] = *entry;
        message.u.digest.n = 1;
        message.u.digest.entries = entries;
    }
    fake_says(&fake, slot, message);
}

/* Asked while the large worker is the only one; a small one is ready when that dies. */
static uint32_t stream_too_long_for_the_rest(void) {
    fake_open_default(&fake);
    uint32_t large = fake_worker(&fake, "large", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 30, 8), STATUS_OK);
    struct submit first = fake_submitted(&fake, large);
    struct welcome welcome = fake_welcome("small", ROLE_MIXED);
    welcome.context = 20;
    uint32_t small = fake_join(&fake, &welcome);
    fake_step(&fake, large, &first, 0, 3, FINISH_NONE);
    fake_lose(&fake, large);
    return small;
}

START_TEST(stream_waits_for_a_worker_as_large_as_its_own) {
    uint32_t small = stream_too_long_for_the_rest();
    fake_pass(&fake, 4 * NS_PER_S, 1u << small);
    ck_assert_uint_eq(fake.users[0].n_ends, 0);
    uint32_t large = fake_worker(&fake, "large2", ROLE_MIXED);
    ck_assert_uint_eq(fake_submitted(&fake, large).n_tokens, 33);
    fake_close(&fake);
}
END_TEST

START_TEST(stream_too_long_for_all_that_are_left_ends_after_its_wait) {
    uint32_t small = stream_too_long_for_the_rest();
    fake_pass(&fake, 6 * NS_PER_S, 1u << small);
    ck_assert_uint_eq(fake.users[0].n_ends, 1);
    ck_assert_int_eq(fake.users[0].end.status, STATUS_LIMIT);
    ck_assert_int_eq(fake.users[0].end.kind, END_FAILED);
    fake_close(&fake);
}
END_TEST

START_TEST(stream_goes_on_with_prompt_and_what_was_emitted) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct submit first = fake_submitted(&fake, a);
    fake_step(&fake, a, &first, 0, 3, FINISH_NONE);
    uint32_t b = fake_worker(&fake, "b", ROLE_MIXED);
    fake_lose(&fake, a);
    const struct fake_message *again = fake_last(&fake, MESSAGE_SUBMIT, b);
    ck_assert_ptr_nonnull(again);
    const struct submit *submit = &again->message.u.submit;
    ck_assert_uint_eq(submit->attempt, 2);
    ck_assert_uint_eq(submit->n_prompt, 5);
    ck_assert_uint_eq(submit->n_tokens, 8);
    ck_assert_uint_eq(submit->sampling.max_new, 8);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_uint_eq(again->tokens[5 + i], fake_token(i));
    fake_step(&fake, b, submit, 3, 5, FINISH_LENGTH);
    fake_expect(&fake, 0, 8);
    ck_assert_uint_eq(fake.users[0].end.n_replays, 1);
    fake_close(&fake);
}
END_TEST

/* A backlog's oldest tokens may come without logprobs: they are computed again, not made up. */
START_TEST(tokens_without_wanted_logprobs_are_replayed) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    struct request_spec spec = fake_spec(&fake, 0, 5, 8);
    spec.sampling.want_logprobs = true;
    ck_assert_int_eq(fake_ask_spec(&fake, 0, spec), STATUS_OK);
    struct submit first = fake_submitted(&fake, a);
    const struct token_logprobs logprobs[8] = {{.logprob = -1}};
    uint32_t tokens[8];
    for (uint32_t i = 0; i < 8; i++)
        tokens[i] = fake_token(i);
    struct step_entry entries[2] = {
        {.req = first.req, .attempt = 1, .n_tokens = 2, .tokens = tokens, .logprobs = logprobs},
        {.req = first.req, .attempt = 1, .first_index = 1, .n_tokens = 3, .tokens = tokens + 1}};
    struct message message = {.type = MESSAGE_STEP};
    message.u.step = (struct step){.n = 2, .entries = entries};
    fake_says(&fake, a, message);
    ck_assert_uint_eq(fake.users[0].n_got, 2);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_CANCEL, a), 1);
    struct submit second = fake_submitted(&fake, a);
    ck_assert_uint_eq(second.attempt, 2);
    ck_assert_uint_eq(second.n_tokens, 7);
    /* What is known already needs none. */
    entries[0] = (struct step_entry){
        .req = second.req, .attempt = 2, .first_index = 1, .n_tokens = 1, .tokens = tokens + 1};
    entries[1] = (struct step_entry){.req = second.req,
                                     .attempt = 2,
                                     .first_index = 2,
                                     .n_tokens = 6,
                                     .tokens = tokens + 2,
                                     .logprobs = logprobs,
                                     .finish = FINISH_LENGTH};
    fake_says(&fake, a, message);
    fake_expect(&fake, 0, 8);
    ck_assert_uint_eq(fake.users[0].n_logprobs, 8);
    ck_assert_uint_eq(fake.users[0].end.n_replays, 1);
    fake_close(&fake);
}
END_TEST

START_TEST(late_words_of_an_old_attempt_are_dropped) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct submit first = fake_submitted(&fake, a);
    fake_fails(&fake, a, &first, REASON_TRANSFER);
    fake_step(&fake, a, &first, 0, 2, FINISH_NONE);
    fake_expect(&fake, 0, 0);
    ck_assert_uint_ge(fake_stats(&fake).n_stale_dropped, 1);
    struct submit second = fake_submitted(&fake, a);
    ck_assert_uint_eq(second.attempt, 2);
    fake_step(&fake, a, &second, 0, 2, FINISH_NONE);
    fake_expect(&fake, 0, 2);
    fake_close(&fake);
}
END_TEST

START_TEST(hung_worker_loses_its_session_only_and_comes_back) {
    fake_open_default(&fake);
    struct welcome hung = fake_welcome("a", ROLE_MIXED);
    uint32_t a = fake_join(&fake, &hung);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct submit first = fake_submitted(&fake, a);
    uint32_t b = fake_worker(&fake, "b", ROLE_MIXED);
    uint64_t session = fake.session[a];
    fake_pass(&fake, 1100 * NS_PER_MS, 1u << b);
    ck_assert_int_eq(fake_state(&fake, a), SLOT_SUSPECT);
    ck_assert_uint_eq(fake_stats(&fake).n_fenced, 1);
    ck_assert_uint_ne(fake.session[a], session); /* a new HELLO is on its way */
    fake_pass(&fake, 50 * NS_PER_MS, 1u << b);
    ck_assert_uint_eq(fake_submitted(&fake, b).attempt, 2);
    ck_assert(fake.open[a]);
    struct step_entry entry = {.req = first.req, .attempt = 1, .n_tokens = 0};
    struct message late = {.type = MESSAGE_STEP, .session = session};
    late.u.step = (struct step){.n = 1, .entries = &entry};
    fake_says(&fake, a, late);
    ck_assert_uint_eq(fake_stats(&fake).n_stale_dropped, 1);
    welcome_again(a, &hung);
    ck_assert_int_eq(fake_state(&fake, a), SLOT_READY);
    fake_close(&fake);
}
END_TEST

START_TEST(slow_is_not_dead) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED), b = fake_worker(&fake, "b", ROLE_MIXED);
    struct message message = {.type = MESSAGE_BEAT};
    message.u.beat.load = (struct load){.progress = 1, .step_us_expected = 500000};
    fake_says(&fake, a, message);
    fake_pass(&fake, 1900 * NS_PER_MS, 1u << b);
    ck_assert_int_eq(fake_state(&fake, a), SLOT_READY); /* a step of 500 ms: bound 2 s */
    fake_pass(&fake, 300 * NS_PER_MS, 1u << b);
    ck_assert_int_eq(fake_state(&fake, a), SLOT_SUSPECT);
    fake_close(&fake);
}
END_TEST

START_TEST(last_live_worker_is_not_fenced_for_slowness) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    fake_pass(&fake, 60 * NS_PER_S, 0);
    ck_assert_int_eq(fake_state(&fake, a), SLOT_READY);
    uint32_t b = fake_worker(&fake, "b", ROLE_MIXED);
    fake_pass(&fake, 100 * NS_PER_MS, 1u << b);
    ck_assert_int_eq(fake_state(&fake, a), SLOT_SUSPECT);
    ck_assert_int_eq(fake_state(&fake, b), SLOT_READY);
    fake_close(&fake);
}
END_TEST

START_TEST(prefill_workers_death_before_token_0_is_replayed) {
    fake_open_default(&fake);
    uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL), d = fake_worker(&fake, "d", ROLE_DECODE);
    hand_over(d);
    fake_lose(&fake, p);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_CANCEL, d), 1);
    fake_pass(&fake, 50 * NS_PER_MS, 1u << d);
    ck_assert_uint_eq(fake_submitted(&fake, d).phase, PHASE_BOTH); /* nobody else prefills */
    ck_assert_uint_eq(fake_submitted(&fake, d).attempt, 2);
    fake_close(&fake);
}
END_TEST

START_TEST(prefill_workers_death_after_commit_changes_nothing) {
    fake_open_default(&fake);
    uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL), d = fake_worker(&fake, "d", ROLE_DECODE);
    struct submit submit = hand_over(d);
    fake_step(&fake, p, &submit, 0, 1, FINISH_NONE);
    fake_lose(&fake, p); /* the Commit may have come: decode has the word */
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 0);
    fake_step(&fake, d, &submit, 0, 2, FINISH_NONE);
    fake_pass(&fake, NS_PER_S, 1u << d);
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 0);
    fake_step(&fake, d, &submit, 2, 6, FINISH_LENGTH);
    fake_expect(&fake, 0, 8);
    fake_close(&fake);
}
END_TEST

START_TEST(uncommitted_handoff_of_a_dead_worker_is_replayed_with_token_0) {
    fake_open_default(&fake);
    uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL), d = fake_worker(&fake, "d", ROLE_DECODE);
    struct submit submit = hand_over(d);
    fake_step(&fake, p, &submit, 0, 1, FINISH_NONE);
    fake_lose(&fake, p);
    fake_pass(&fake, 400 * NS_PER_MS, 1u << d);
    submit = fake_submitted(&fake, d);
    ck_assert_uint_eq(submit.attempt, 2);
    ck_assert_uint_eq(submit.n_tokens, 34);
    fake_step(&fake, d, &submit, 1, 7, FINISH_LENGTH);
    fake_expect(&fake, 0, 8);
    fake_close(&fake);
}
END_TEST

/* Prefill workers that die after token 0, one after the other: nothing of that is the decode worker's. */
START_TEST(death_of_a_prefill_worker_is_not_held_against_the_decode_worker) {
    fake_open_default(&fake);
    uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL), d = fake_worker(&fake, "d", ROLE_DECODE);
    for (uint32_t i = 0; i < 4; i++) {
        struct submit submit = hand_over(d);
        fake_step(&fake, p, &submit, 0, 1, FINISH_NONE);
        fake_lose(&fake, p);
        fake_pass(&fake, 400 * NS_PER_MS, 1u << d);
        ck_assert_uint_eq(fake_submitted(&fake, d).attempt, 2);
        router_cancel(fake.router, fake.now_ns, fake.users[0].name);
        fake.users[0] = (struct fake_user){0};
        fake_forget_sent(&fake);
        p = fake_worker(&fake, "p", ROLE_PREFILL);
    }
    ck_assert_uint_eq(fake_stats(&fake).n_put_aside, 0);
    ck_assert_ptr_null(fake_note(&fake, "worker put aside"));
    fake_close(&fake);
}
END_TEST

START_TEST(request_missing_from_covering_digests_is_replayed) {
    fake_open_default(&fake);
    uint32_t w = fake_worker(&fake, "w", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    const struct fake_message *sent = fake_last(&fake, MESSAGE_SUBMIT, w);
    uint64_t seq = sent->message.seq;
    for (int i = 0; i < 5; i++)
        digest(w, seq - 1, NULL); /* does not cover it */
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 0);
    digest(w, seq, NULL);
    digest(w, seq, NULL);
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 1);
    ck_assert_uint_eq(fake_submitted(&fake, w).attempt, 2);
    fake_close(&fake);
}
END_TEST

START_TEST(orphans_of_a_digest_are_cancelled_or_forgotten) {
    fake_open_default(&fake);
    uint32_t w = fake_worker(&fake, "w", ROLE_MIXED);
    struct digest_entry orphan = {
        .req = {.hi = 77, .lo = 12345}, .attempt = 3, .state = SEQUENCE_RUNNING};
    digest(w, 0, &orphan);
    const struct fake_message *cancel = fake_last(&fake, MESSAGE_CANCEL, w);
    ck_assert_ptr_nonnull(cancel);
    ck_assert_uint_eq(cancel->message.u.cancel.req.lo, 12345);
    ck_assert_uint_eq(cancel->message.u.cancel.attempt, 3);
    orphan.state = SEQUENCE_ENDED;
    digest(w, 0, &orphan);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_FORGET, w), 1);
    orphan.req.hi = 78; /* another router's */
    digest(w, 0, &orphan);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_FORGET, w), 1);
    fake_close(&fake);
}
END_TEST

START_TEST(digest_that_is_ahead_is_asked_for_the_rest) {
    fake_open_default(&fake);
    uint32_t w = fake_worker(&fake, "w", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct submit submit = fake_submitted(&fake, w);
    fake_step(&fake, w, &submit, 0, 2, FINISH_NONE);
    struct digest_entry entry = {
        .req = submit.req, .attempt = 1, .state = SEQUENCE_RUNNING, .next_index = 5};
    digest(w, 99, &entry);
    const struct fake_message *resend = fake_last(&fake, MESSAGE_RESEND, w);
    ck_assert_ptr_nonnull(resend);
    ck_assert_uint_eq(resend->message.u.resend.from, 2);
    fake_close(&fake);
}
END_TEST

START_TEST(attempt_that_stands_still_is_replaced_one_queued_behind_steps_is_not) {
    fake_open_default(&fake);
    uint32_t w = fake_worker(&fake, "w", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct submit submit = fake_submitted(&fake, w);
    struct digest_entry entry = {.req = submit.req, .attempt = 1, .state = SEQUENCE_WAITING};
    for (int i = 0; i < 10; i++) {
        fake_pass(&fake, NS_PER_S, 1u << w);
        digest(w, 0, &entry);
    }
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 0);
    entry.state = SEQUENCE_RUNNING;
    for (int i = 0; i < 5; i++) {
        fake_pass(&fake, NS_PER_S, 1u << w);
        digest(w, 0, &entry);
    }
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 1);
    ck_assert_uint_eq(fake_submitted(&fake, w).attempt, 2);
    fake_close(&fake);
}
END_TEST

START_TEST(silence_of_the_only_worker_is_not_the_attempts_fault) {
    fake_open_default(&fake);
    uint32_t w = fake_worker(&fake, "w", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct submit submit = fake_submitted(&fake, w);
    fake_pass(&fake, 20 * NS_PER_S, 0); /* stopped, and it is the last one */
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 0);
    fake_pass(&fake, 2 * NS_PER_S, 1u << w); /* goes on: it gets the full patience */
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 0);
    fake_step(&fake, w, &submit, 0, 8, FINISH_LENGTH);
    ck_assert_uint_eq(fake.users[0].n_ends, 1);
    fake_close(&fake);
}
END_TEST

START_TEST(three_losses_in_a_row_run_alone_and_a_token_resets_the_count) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    for (uint32_t i = 0; i < 3; i++) {
        struct submit submit = fake_submitted(&fake, a);
        ck_assert_uint_eq(submit.attempt, i + 1);
        fake_fails(&fake, a, &submit, REASON_TRANSFER);
    }
    ck_assert_int_eq(fake_ask(&fake, 1, 5, 8), STATUS_OK);
    ck_assert_uint_eq(fake_stats(&fake).n_queued, 1); /* the only worker is kept */
    struct submit alone = fake_submitted(&fake, a);
    ck_assert_uint_eq(alone.attempt, 4);
    fake_step(&fake, a, &alone, 0, 1, FINISH_NONE);
    ck_assert_uint_eq(fake_stats(&fake).n_queued, 0);
    fake_fails(&fake, a, &alone, REASON_TRANSFER); /* brought a token: does not count */
    alone = fake_submitted(&fake, a);
    fake_fails(&fake, a, &alone, REASON_TRANSFER);
    alone = fake_submitted(&fake, a);
    fake_fails(&fake, a, &alone, REASON_TRANSFER);
    ck_assert_uint_eq(fake.users[0].n_ends, 0);
    fake_close(&fake);
}
END_TEST

START_TEST(others_move_away_from_the_one_that_runs_alone) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED), b = fake_worker(&fake, "b", ROLE_MIXED);
    for (uint32_t user = 0; user < 4; user++)
        ck_assert_int_eq(fake_ask(&fake, user, 5, 8), STATUS_OK);
    struct submit submit = {.req = {.hi = 77, .lo = fake.users[0].name}};
    for (uint32_t i = 0; i < 3; i++) {
        submit.attempt = i + 1;
        fake_fails(&fake, a, &submit, REASON_TRANSFER); /* one of the two has it */
        fake_fails(&fake, b, &submit, REASON_TRANSFER);
    }
    struct worker_view x, y;
    ck_assert_int_eq(router_worker(fake.router, a, &x), STATUS_OK);
    ck_assert_int_eq(router_worker(fake.router, b, &y), STATUS_OK);
    ck_assert_uint_eq(x.n_assigned + y.n_assigned, 4);
    ck_assert(x.n_assigned == 1 || y.n_assigned == 1);
    fake_close(&fake);
}
END_TEST

START_TEST(poisoned_request_is_refused_when_its_own_worker_dies) {
    fake_open_default(&fake);
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    fake_worker(&fake, names[0], ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    for (uint32_t i = 1; i < 5; i++) {
        struct submit submit = fake_submitted(&fake, UINT32_MAX);
        ck_assert_uint_eq(submit.attempt, i);
        uint32_t dying = fake_last(&fake, MESSAGE_SUBMIT, UINT32_MAX)->slot;
        fake_worker(&fake, names[i], ROLE_MIXED);
        fake_lose(&fake, dying);
        fake_pass(&fake, 50 * NS_PER_MS, UINT32_MAX);
    }
    ck_assert_uint_eq(fake.users[0].n_ends, 1);
    ck_assert_int_eq(fake.users[0].end.kind, END_REFUSED);
    ck_assert_uint_eq(fake_stats(&fake).n_poisoned, 1);
    fake_close(&fake);
}
END_TEST

/* A host with four workers goes down: their ends are noticed one after the other. */
START_TEST(deaths_at_the_same_time_are_one_loss) {
    fake_open_default(&fake);
    static const char *const names[] = {"a", "b", "c", "d"};
    uint32_t slots[4];
    for (uint32_t i = 0; i < 4; i++)
        slots[i] = fake_worker(&fake, names[i], ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    uint32_t first = fake_last(&fake, MESSAGE_SUBMIT, UINT32_MAX)->slot;
    fake_lose(&fake, first);
    for (uint32_t i = 0; i < 4; i++)
        if (slots[i] != first)
            fake_lose(&fake, slots[i]);
    fake_pass(&fake, 1 * NS_PER_S, 0);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, UINT32_MAX), 1);
    uint32_t e = fake_worker(&fake, "e", ROLE_MIXED);
    struct submit second = fake_submitted(&fake, e);
    ck_assert_uint_eq(second.attempt, 2);
    fake_step(&fake, e, &second, 0, 8, FINISH_LENGTH);
    fake_expect(&fake, 0, 8);
    ck_assert_uint_eq(fake.users[0].end.n_replays, 1);
    fake_close(&fake);
}
END_TEST

START_TEST(eight_losses_in_a_row_end_with_an_error) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    for (uint32_t i = 0; i < 8; i++) {
        ck_assert_uint_eq(fake.users[0].n_ends, 0);
        struct submit submit = fake_submitted(&fake, a);
        fake_fails(&fake, a, &submit, REASON_LEASE);
    }
    ck_assert_int_eq(fake.users[0].end.kind, END_REFUSED);
    ck_assert_int_eq(fake.users[0].end.status, STATUS_IO);
    fake_close(&fake);
}
END_TEST

START_TEST(running_requests_wait_for_a_worker_then_fail) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct submit submit = fake_submitted(&fake, a);
    fake_step(&fake, a, &submit, 0, 1, FINISH_NONE);
    fake_lose(&fake, a);
    fake_pass(&fake, 4900 * NS_PER_MS, 0);
    ck_assert_uint_eq(fake.users[0].n_ends, 0);
    uint32_t b = fake_worker(&fake, "b", ROLE_MIXED);
    submit = fake_submitted(&fake, b);
    ck_assert_uint_eq(submit.attempt, 2);
    fake_lose(&fake, b);
    fake_pass(&fake, 5100 * NS_PER_MS, 0);
    ck_assert_int_eq(fake.users[0].end.kind, END_FAILED);
    ck_assert_int_eq(fake.users[0].end.status, STATUS_CLOSED);
    fake_close(&fake);
}
END_TEST

START_TEST(replays_prefer_equal_numerics_and_count_the_others) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct submit submit = fake_submitted(&fake, a);
    fake_step(&fake, a, &submit, 0, 1, FINISH_NONE);
    struct welcome other = fake_welcome("other", ROLE_MIXED);
    other.numerics_fp[0] = 1;
    uint32_t o = fake_join(&fake, &other);
    uint32_t b = fake_worker(&fake, "b", ROLE_MIXED);
    fake_lose(&fake, a);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, o), 0);
    ck_assert_uint_eq(fake_submitted(&fake, b).attempt, 2);
    ck_assert_uint_eq(fake_stats(&fake).n_inexact, 0);
    fake_lose(&fake, b);
    fake_pass(&fake, 50 * NS_PER_MS, 1u << o);
    ck_assert_uint_eq(fake_submitted(&fake, o).attempt, 3);
    ck_assert_uint_eq(fake_stats(&fake).n_inexact, 1);
    fake_close(&fake);
}
END_TEST

START_TEST(reset_by_a_worker_is_a_new_session_not_a_death) {
    fake_open_default(&fake);
    struct welcome welcome = fake_welcome("a", ROLE_MIXED);
    uint32_t a = fake_join(&fake, &welcome);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct message message = {.type = MESSAGE_RESET};
    fake_says(&fake, a, message);
    ck_assert_int_eq(fake_state(&fake, a), SLOT_SUSPECT);
    welcome_again(a, &welcome);
    ck_assert_uint_eq(fake_submitted(&fake, a).attempt, 2);
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 0);
    fake_close(&fake);
}
END_TEST

START_TEST(half_open_link_is_opened_afresh_while_its_worker_announces) {
    fake_open_default(&fake);
    struct announce announce = {.name = "a", .incarnation = 5};
    router_announce(fake.router, fake.now_ns, &announce);
    fake_pass(&fake, 2100 * NS_PER_MS, 0);
    router_announce(fake.router, fake.now_ns, &announce);
    ck_assert_uint_eq(fake.n_opened, 2);
    ck_assert_uint_eq(fake.n_closed, 1);
    fake_pass(&fake, 21 * NS_PER_S, 0); /* and is given up when it falls silent */
    ck_assert_int_eq(fake_state(&fake, 0), SLOT_FREE);
    fake_close(&fake);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, stream_waits_for_a_worker_as_large_as_its_own);
    tcase_add_test(tests, stream_too_long_for_all_that_are_left_ends_after_its_wait);
    tcase_add_test(tests, stream_goes_on_with_prompt_and_what_was_emitted);
    tcase_add_test(tests, tokens_without_wanted_logprobs_are_replayed);
    tcase_add_test(tests, late_words_of_an_old_attempt_are_dropped);
    tcase_add_test(tests, hung_worker_loses_its_session_only_and_comes_back);
    tcase_add_test(tests, slow_is_not_dead);
    tcase_add_test(tests, last_live_worker_is_not_fenced_for_slowness);
    tcase_add_test(tests, prefill_workers_death_before_token_0_is_replayed);
    tcase_add_test(tests, prefill_workers_death_after_commit_changes_nothing);
    tcase_add_test(tests, uncommitted_handoff_of_a_dead_worker_is_replayed_with_token_0);
    tcase_add_test(tests, death_of_a_prefill_worker_is_not_held_against_the_decode_worker);
    tcase_add_test(tests, request_missing_from_covering_digests_is_replayed);
    tcase_add_test(tests, orphans_of_a_digest_are_cancelled_or_forgotten);
    tcase_add_test(tests, digest_that_is_ahead_is_asked_for_the_rest);
    tcase_add_test(tests, attempt_that_stands_still_is_replaced_one_queued_behind_steps_is_not);
    tcase_add_test(tests, silence_of_the_only_worker_is_not_the_attempts_fault);
    tcase_add_test(tests, three_losses_in_a_row_run_alone_and_a_token_resets_the_count);
    tcase_add_test(tests, others_move_away_from_the_one_that_runs_alone);
    tcase_add_test(tests, poisoned_request_is_refused_when_its_own_worker_dies);
    tcase_add_test(tests, deaths_at_the_same_time_are_one_loss);
    tcase_add_test(tests, eight_losses_in_a_row_end_with_an_error);
    tcase_add_test(tests, running_requests_wait_for_a_worker_then_fail);
    tcase_add_test(tests, replays_prefer_equal_numerics_and_count_the_others);
    tcase_add_test(tests, reset_by_a_worker_is_a_new_session_not_a_death);
    tcase_add_test(tests, half_open_link_is_opened_afresh_while_its_worker_announces);
}
