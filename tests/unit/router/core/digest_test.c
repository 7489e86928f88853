/* What a digest says of an attempt without tokens: whether it gets on, and whether it is there. */
#include "router/core/replay.h"
#include "tests/support/suite.h"
#include "tests/unit/router/core/fake.h"

#include <string.h>

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
        fake_pass(&fake, NS_PER_S / 2, 0);
        beat(slot, n);
        digest(slot, submit, SEQUENCE_RUNNING);
        router_tick(fake.router, fake.now_ns);
        fake_forget_sent(&fake);
        if (fake_stats(&fake).n_replays > 0)
            return;
    }
}

/* The same for one that is queued, with another router's in some state beside it; in each half
 * second the worker's figures rise by `rise`'s counts, and its other figures are those. */
static void pass_queued(uint32_t slot, const struct submit *submit, uint32_t n_halves,
                        struct load rise, enum sequence_state beside) {
    static struct load load;
    for (uint32_t i = 0; i < n_halves && fake_stats(&fake).n_replays == 0; i++) {
        fake_pass(&fake, NS_PER_S / 2, 0);
        load.n_steps += rise.n_steps;
        load.handoff_bytes += rise.handoff_bytes;
        load.progress = ++fake.progress[slot];
        load.n_running = rise.n_running;
        load.n_waiting = 1;
        load.blocks_total = 8;
        load.blocks_reserved = rise.blocks_reserved;
        struct message message = {.type = MESSAGE_BEAT};
        message.u.beat.load = load;
        fake_says(&fake, slot, message);
        struct digest_entry entries[] = {
            {.req = submit->req, .attempt = submit->attempt, .state = SEQUENCE_WAITING},
            {.req = {.hi = submit->req.hi + 1, .lo = 1}, .attempt = 1, .state = beside}};
        message = (struct message){.type = MESSAGE_DIGEST};
        message.u.digest = (struct digest){.seen_seq = UINT64_MAX - 1, .n = 2, .entries = entries};
        fake_says(&fake, slot, message);
        router_tick(fake.router, fake.now_ns);
        fake_forget_sent(&fake);
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

/* Its first digest is news; REPLAY_PATIENCE_NS later it is replaced, and not before. */
START_TEST(a_queued_request_is_replaced_where_nothing_gets_on) {
    struct submit submit;
    uint32_t a = open_with_request(&submit);
    pass_queued(a, &submit, 6, (struct load){0}, SEQUENCE_WAITING);
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 0);
    pass_queued(a, &submit, 1, (struct load){0}, SEQUENCE_WAITING);
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 1);
    fake_close(&fake);
}
END_TEST

START_TEST(a_queued_request_waits_while_others_get_on) {
    static const struct load rises[] = {{.n_steps = 1, .n_running = 1},
                                        {.handoff_bytes = 1, .n_running = 1}};
    struct submit submit;
    uint32_t a = open_with_request(&submit);
    pass_queued(a, &submit, 20, rises[_i], SEQUENCE_RUNNING);
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 0);
    pass_queued(a, &submit, 5, (struct load){.n_running = 1}, SEQUENCE_RUNNING);
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 0);
    pass_queued(a, &submit, 1, (struct load){.n_running = 1}, SEQUENCE_RUNNING);
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 1);
    fake_close(&fake);
}
END_TEST

/* Blocks that wait for a hand-over are no fault of the worker; but who could run something has to. */
START_TEST(a_queued_request_waits_behind_hand_overs_where_nothing_can_run) {
    static const struct {
        uint32_t blocks_reserved;
        enum sequence_state beside;
    } rows[] = {{1, SEQUENCE_WAITING},
                {0, SEQUENCE_RESERVED},
                {0, SEQUENCE_FILLING},
                {0, SEQUENCE_SENDING}};
    struct submit submit;
    uint32_t a = open_with_request(&submit);
    struct load load = {.blocks_reserved = rows[_i].blocks_reserved};
    pass_queued(a, &submit, 20, load, rows[_i].beside);
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 0);
    load.n_running = 1;
    pass_queued(a, &submit, 6, load, rows[_i].beside);
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 1);
    fake_close(&fake);
}
END_TEST

enum { N_KEPT = 3, OTHER = N_KEPT };

/* What the worker says of the request of user OTHER, whose prompt it computes all the while; or, with
 * a submit of its own, a token of which comes each 2.5 s. */
static enum sequence_state other_state;
static struct submit other_submit;
static uint32_t n_other;

/* A worker ends steps and lists ours as queued, each half second. */
static void keep(uint32_t slot, uint32_t n_halves, uint32_t alive) {
    struct digest_entry entries[N_KEPT + 1];
    for (uint32_t i = 0; i < n_halves; i++) {
        fake_forget_sent(&fake);
        fake_pass(&fake, NS_PER_S / 2, alive);
        struct message message = {.type = MESSAGE_BEAT};
        message.u.beat.load.progress = message.u.beat.load.n_steps =
            message.u.beat.load.n_prompt_tokens = ++fake.progress[slot];
        fake_says(&fake, slot, message);
        if (other_submit.attempt > 0 && i % 5 == 0)
            fake_step(&fake, slot, &other_submit, n_other++, 1, FINISH_NONE);
        for (uint32_t k = 0; k <= N_KEPT; k++)
            entries[k] =
                (struct digest_entry){.req = {.hi = 77, .lo = fake.users[k].name},
                                      .attempt = 1,
                                      .state = k == OTHER ? other_state : SEQUENCE_WAITING};
        message = (struct message){.type = MESSAGE_DIGEST};
        message.u.digest =
            (struct digest){.seen_seq = UINT64_MAX - 1, .n = N_KEPT + 1, .entries = entries};
        fake_says(&fake, slot, message);
    }
}

static void ask_other(uint32_t priority, uint64_t tenant) {
    struct request_spec spec = fake_spec(&fake, OTHER, 33, 30);
    spec.priority = priority;
    spec.tenant = tenant;
    ck_assert_int_eq(fake_ask_spec(&fake, OTHER, spec), STATUS_OK);
}

static void ask_kept(uint32_t priority) {
    for (uint32_t user = 0; user < N_KEPT; user++) {
        struct request_spec spec = fake_spec(&fake, user, 5, 8);
        spec.priority = priority;
        ck_assert_int_eq(fake_ask_spec(&fake, user, spec), STATUS_OK);
    }
}

static uint32_t open_kept(void) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ask_kept(1);
    ask_other(1, 0);
    other_state = SEQUENCE_RUNNING;
    return a;
}

/* However long: those that run came earlier, are more urgent or another tenant's, or were handed over; or none runs. */
START_TEST(a_queued_request_waits_for_its_turn) {
    enum { EARLIER, URGENT, FOREIGN, HANDED_OVER };
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", _i == HANDED_OVER ? ROLE_DECODE : ROLE_MIXED);
    other_state = _i <= HANDED_OVER ? SEQUENCE_RUNNING : SEQUENCE_WAITING;
    if (_i == EARLIER)
        ask_other(1, 0);
    ask_kept(1);
    if (_i == HANDED_OVER)
        fake_worker(&fake, "p", ROLE_PREFILL);
    if (_i > EARLIER)
        ask_other(_i == URGENT ? 0 : 1, _i == FOREIGN);
    if (_i == HANDED_OVER) {
        ck_assert_uint_eq(fake_count(&fake, MESSAGE_RESERVE, a), 1);
        fake_reserved(&fake, a, 1, 0);
        other_submit = fake_submitted(&fake, a);
    }
    uint32_t b = fake_worker(&fake, "b", ROLE_MIXED);
    keep(a, 135, 6u << a | 1u << b);
    ck_assert_ptr_null(fake_note(&fake, "attempt makes no progress"));
    ck_assert_uint_eq(fake_stats(&fake).n_running, N_KEPT + 1);
    fake_close(&fake);
}
END_TEST

/* Of prompts that are handed over it is the prefill worker that may keep them back, not the decode
 * worker, which lists them as they come. */
START_TEST(a_queued_prompt_is_kept_back_for_a_minute_and_no_longer) {
    fake_open_default(&fake);
    uint32_t p = fake_worker(&fake, "p", ROLE_PREFILL), d = fake_worker(&fake, "d", ROLE_DECODE);
    uint32_t at = _i == 0 ? p : d;
    for (uint32_t user = 0; user <= N_KEPT; user++) {
        ck_assert_int_eq(fake_ask(&fake, user, 33, user == OTHER ? 30 : 8), STATUS_OK);
        fake_reserved(&fake, d, user + 1, 0);
        struct submit submit = fake_submitted(&fake, d);
        if (at == d) /* which has it now */
            fake_step(&fake, d, &submit, 0, 1, FINISH_NONE);
        if (at == d && user == OTHER)
            other_submit = submit;
    }
    n_other = 1;
    uint32_t q = fake_worker(&fake, "q", _i == 0 ? ROLE_PREFILL : ROLE_DECODE);
    other_state = SEQUENCE_RUNNING;
    uint32_t alive = 1u << q | 1u << (at == p ? d : p);
    keep(at, 121, alive);
    ck_assert_ptr_null(fake_note(&fake, "attempt makes no progress"));
    keep(at, 1, alive);
    ck_assert_uint_eq(fake_count_notes(&fake, "attempt makes no progress"), _i == 0 ? N_KEPT : 0);
    fake_close(&fake);
}
END_TEST

/* From its first digest on it is 60 s of the router's own time; and what keeps three requests back is
 * put aside. */
START_TEST(a_queued_request_is_kept_back_for_a_minute_and_no_longer) {
    uint32_t a = open_kept(), b = fake_worker(&fake, "b", ROLE_MIXED);
    keep(a, 1, 1u << b);
    fake_stand_still(&fake, 30 * NS_PER_S); /* 100 ms of its own */
    fake_pass(&fake, 400 * NS_PER_MS, 1u << a | 1u << b);
    keep(a, 119, 1u << b);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, b), 0);
    ck_assert_ptr_null(fake_note(&fake, "attempt makes no progress"));
    fake.now_ns += 1;
    fake_beat(&fake, a);
    struct digest_entry entry = {
        .req = {.hi = 77, .lo = fake.users[0].name}, .attempt = 1, .state = SEQUENCE_WAITING};
    for (uint32_t user = 0; user < N_KEPT; user++) {
        entry.req.lo = fake.users[user].name;
        struct message message = {.type = MESSAGE_DIGEST};
        message.u.digest = (struct digest){.n = 1, .entries = &entry};
        fake_says(&fake, a, message);
        ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, b), user + 1);
        ck_assert_uint_eq(fake_submitted(&fake, b).attempt, 2);
    }
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 0); /* they are moved: no loss of theirs */
    ck_assert_ptr_nonnull(
        fake_note(&fake, "worker put aside: it gets no requests name=a reason=kept_back"));
    fake_close(&fake);
}
END_TEST

/* Preempted a moment before its minute is over, with a token behind it. */
START_TEST(a_token_gives_a_queued_request_another_minute) {
    uint32_t a = open_kept(), b = fake_worker(&fake, "b", ROLE_MIXED);
    keep(a, 121, 1u << b);
    struct submit submit = {.req = {.hi = 77, .lo = fake.users[0].name}, .attempt = 1};
    fake_step(&fake, a, &submit, 0, 1, FINISH_NONE);
    keep(a, 1, 1u << b);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, b), N_KEPT - 1);
    for (uint32_t user = 1; user < N_KEPT; user++)
        router_cancel(fake.router, fake.now_ns, fake.users[user].name);
    keep(a, 120, 1u << b);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, b), 0);
    keep(a, 1, 1u << b);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, b), 1);
    fake_close(&fake);
}
END_TEST

/* It would wait anew. One of other numerics is no other. */
START_TEST(the_only_worker_keeps_what_is_queued) {
    uint32_t a = open_kept(), b = UINT32_MAX;
    struct welcome welcome = fake_welcome("b", ROLE_MIXED);
    memset(welcome.numerics_fp, 1, sizeof welcome.numerics_fp);
    if (_i > 0)
        b = fake_join(&fake, &welcome);
    keep(a, 200, _i > 0 ? 1u << b : 0);
    ck_assert_ptr_null(fake_note(&fake, "attempt makes no progress"));
    ck_assert_uint_eq(fake_stats(&fake).n_running, N_KEPT + 1);
    fake_close(&fake);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_queued_request_is_replaced_where_nothing_gets_on);
    tcase_add_loop_test(tests, a_queued_request_waits_while_others_get_on, 0, 2);
    tcase_add_loop_test(tests, a_queued_request_waits_behind_hand_overs_where_nothing_can_run, 0,
                        4);
    tcase_add_test(tests, a_queued_request_is_kept_back_for_a_minute_and_no_longer);
    tcase_add_loop_test(tests, a_queued_prompt_is_kept_back_for_a_minute_and_no_longer, 0, 2);
    tcase_add_loop_test(tests, a_queued_request_waits_for_its_turn, 0, 5);
    tcase_add_loop_test(tests, the_only_worker_keeps_what_is_queued, 0, 2);
    tcase_add_test(tests, a_token_gives_a_queued_request_another_minute);
    tcase_add_test(tests, missing_listed_missing_loses_nothing);
    tcase_add_test(tests, a_prompt_that_is_computed_for_long_is_not_replaced);
    tcase_add_test(tests, a_stream_that_stands_still_is_replaced_while_others_prompts_are_computed);
    tcase_add_test(tests, a_preempted_stream_is_computed_again_for_as_long_as_that_takes);
}
