/* A sequence with a grammar runs in no step before what follows the grammar is ready; one whose grammar
 * leaves nothing fails alone. */
#include "tests/support/suite.h"
#include "tests/unit/worker/core/pair.h"

#include <string.h>

const char *const suite_name = "worker_core_constrain";
const double suite_timeout_s = 120;

static const uint8_t grammar[MESSAGE_GRAMMAR_MAX + 1];

static struct rig *one_worker(enum status constrain) {
    struct rig *rig = rig_new(1);
    rig_add(rig, rig_config());
    rig->workers[0].constrain = constrain;
    rig_hello(rig, 0);
    return rig;
}

static struct call *bound_call(struct rig *rig, uint32_t n_prompt, uint32_t max_new) {
    struct call *call = rig_call(rig, n_prompt, max_new);
    call->sampling.grammar = grammar;
    call->sampling.n_grammar = 3;
    return call;
}

static void tell(struct rig *rig, uint32_t w, enum status status) {
    struct worker *worker = &rig->workers[w];
    engine_constrained(worker->engine, rig->now_ns, worker->constrained_slot,
                       worker->constrained_serial, status);
    rig_check(rig);
}

static uint32_t n_held(const struct rig *rig, uint32_t w) {
    return rig->workers[w].engine->schedule.n_held;
}

START_TEST(a_sequence_waits_for_its_grammar_and_holds_nobody_up) {
    struct rig *rig = one_worker(STATUS_BUSY);
    struct load load;
    struct call *bound = bound_call(rig, 40, 5), *plain = rig_call(rig, 40, 5);
    rig_both(rig, 0, bound);
    rig_both(rig, 0, plain);
    ck_assert_uint_eq(rig->workers[0].n_constrained, 1);
    ck_assert_uint_eq(n_held(rig, 0), 1);
    rig_run(rig, 100);
    rig_expect_done(plain, 5, FINISH_LENGTH);
    ck_assert_uint_eq(bound->n_got, 0);
    engine_load(rig->workers[0].engine, &load);
    ck_assert_uint_eq(load.n_waiting, 1); /* routers count it */
    ck_assert_uint_eq(load.prefill_tokens_queued, 40);
    tell(rig, 0, STATUS_OK);
    ck_assert_uint_eq(n_held(rig, 0), 0);
    rig_run(rig, 100);
    rig_expect_done(bound, 5, FINISH_LENGTH);
    tell(rig, 0, STATUS_INVALID); /* said again: nothing happens */
    ck_assert(!bound->failed);
    rig_free(rig);
}
END_TEST

START_TEST(one_that_is_ready_runs_at_once) {
    struct rig *rig = one_worker(STATUS_OK);
    struct call *call = bound_call(rig, 40, 5);
    rig_both(rig, 0, call);
    ck_assert_uint_eq(n_held(rig, 0), 0);
    ck_assert_uint_eq(rig->workers[0].n_constrained, 1);
    rig_run(rig, 100);
    rig_expect_done(call, 5, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

/* No room is a reason to go elsewhere, anything else is the request's own. */
static const struct {
    enum status status;
    enum reason reason;
} failures[] = {{STATUS_NOMEM, REASON_BUSY},
                {STATUS_INVALID, REASON_GRAMMAR},
                {STATUS_CONFLICT, REASON_GRAMMAR},
                {STATUS_LIMIT, REASON_GRAMMAR}};

START_TEST(a_grammar_that_cannot_be_had_fails_its_request) {
    for (int late = 0; late < 2; late++) {
        struct rig *rig = one_worker(late ? STATUS_BUSY : failures[_i].status);
        struct call *call = bound_call(rig, 40, 5);
        rig_both(rig, 0, call);
        ck_assert_int_eq(call->failed, !late);
        if (late)
            tell(rig, 0, failures[_i].status);
        ck_assert(call->failed);
        ck_assert_int_eq(call->reason, failures[_i].reason);
        ck_assert(engine_idle(rig->workers[0].engine));
        rig_check(rig);
        rig_free(rig);
    }
}
END_TEST

/* The answer is the first that is sent to a router which is gone: its link is let go in the same turn. */
START_TEST(a_router_that_is_gone_when_its_grammar_fails_is_let_go) {
    struct rig *rig = one_worker(STATUS_BUSY);
    rig_both(rig, 0, bound_call(rig, 40, 5));
    rig->workers[0].routers_gone = true;
    uint32_t n_closed = rig->workers[0].n_closed;
    tell(rig, 0, STATUS_INVALID); /* which looks for broken links */
    ck_assert_uint_eq(rig->workers[0].n_closed, n_closed + 1);
    rig_free(rig);
}
END_TEST

START_TEST(who_serves_no_grammar_says_so) {
    struct rig *rig = one_worker(STATUS_OK);
    rig->workers[0].engine->sink.constrain = NULL;
    struct call *call = bound_call(rig, 40, 5);
    rig_both(rig, 0, call);
    ck_assert_int_eq(call->reason, REASON_GRAMMAR);
    ck_assert(engine_idle(rig->workers[0].engine));
    rig_free(rig);
}
END_TEST

START_TEST(what_is_given_up_meanwhile_is_not_told) {
    struct rig *rig = one_worker(STATUS_BUSY);
    struct call *first = bound_call(rig, 40, 5);
    rig_both(rig, 0, first);
    rig_cancel(rig, 0, first);
    ck_assert(engine_idle(rig->workers[0].engine));
    tell(rig, 0, STATUS_OK); /* the slot is empty, ... */
    uint64_t serial = rig->workers[0].constrained_serial;
    struct call *second = bound_call(rig, 40, 5);
    rig_both(rig, 0, second);
    uint64_t own = rig->workers[0].constrained_serial;
    ck_assert_uint_ne(own, serial);
    rig->workers[0].constrained_serial = serial;
    tell(rig, 0, STATUS_OK); /* ... or another's */
    ck_assert_uint_eq(n_held(rig, 0), 1);
    rig->workers[0].constrained_serial = own;
    tell(rig, 0, STATUS_OK);
    rig_run(rig, 100);
    rig_expect_done(second, 5, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

/* Ready before the transfer is complete, or after: either way the first token goes to the router. */
START_TEST(a_sequence_that_is_handed_over_waits_too) {
    for (int late = 0; late < 2; late++) {
        struct rig *rig = pair_new(3, 16);
        rig->workers[P].constrain = STATUS_OK;
        rig->workers[D].constrain = STATUS_BUSY;
        struct call *call = bound_call(rig, 100, 6);
        rig_reserve(rig, D, call);
        ck_assert(call->reserved);
        rig_prefill(rig, P, D, call);
        rig->workers[P].lose_steps = 1; /* D alone tells of the first token */
        rig_decode(rig, D, P, call);
        ck_assert_uint_eq(rig->workers[D].n_constrained, 1);
        if (!late)
            tell(rig, D, STATUS_OK);
        rig_run(rig, 100);
        ck_assert_uint_eq(n_held(rig, D), late);
        ck_assert_uint_eq(call->n_got, late ? 1 : 6);
        if (late)
            tell(rig, D, STATUS_OK);
        rig_run(rig, 100);
        rig_expect_done(call, 6, FINISH_LENGTH);
        rig_free(rig);
    }
}
END_TEST

START_TEST(a_hand_over_ends_where_the_receivers_grammar_fails) {
    struct rig *rig = pair_new(4, 16);
    rig->workers[D].constrain = STATUS_BUSY;
    struct call *call = bound_call(rig, 100, 6);
    rig_reserve(rig, D, call);
    rig_decode(rig, D, P, call);
    tell(rig, D, STATUS_LIMIT);
    ck_assert(call->failed);
    ck_assert_int_eq(call->reason, REASON_GRAMMAR);
    ck_assert(engine_idle(rig->workers[D].engine));
    rig_free(rig);
}
END_TEST

START_TEST(a_state_without_a_token_fails_alone) {
    struct rig *rig = one_worker(STATUS_OK);
    struct call *stuck = bound_call(rig, 40, 5), *after = rig_call(rig, 40, 5);
    rig_both(rig, 0, stuck);
    rig->workers[0].is_stuck = true;
    rig_run(rig, 1);
    ck_assert(stuck->failed);
    ck_assert_int_eq(stuck->reason, REASON_GRAMMAR);
    ck_assert_int_eq(stuck->finish, FINISH_NONE);
    ck_assert(engine_idle(rig->workers[0].engine));
    rig->workers[0].is_stuck = false;
    rig_both(rig, 0, after);
    rig_run(rig, 100);
    rig_expect_done(after, 5, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

START_TEST(an_end_under_a_grammar_is_an_end_whatever_else_is_asked) {
    for (int bound = 0; bound < 2; bound++) {
        struct rig *rig = rig_new(1);
        struct engine_config config = rig_config();
        struct call *call = rig_call(rig, 40, 5);
        config.n_ends = 1;
        config.ends[0] = rig_oracle(call->ids, 40);
        rig_add(rig, config);
        rig_hello(rig, 0);
        call->sampling.min_new = 3;
        call->sampling.ignore_eos = true;
        call->sampling.grammar = bound ? grammar : NULL;
        call->sampling.n_grammar = bound ? 3 : 0;
        rig_both(rig, 0, call);
        rig_run(rig, 100);
        rig_expect_done(call, bound ? 1 : 5, bound ? FINISH_STOP : FINISH_LENGTH);
        rig_free(rig);
    }
}
END_TEST

START_TEST(the_bytes_of_a_grammar_have_a_bound) {
    struct rig *rig = one_worker(STATUS_OK);
    struct call *calls[3];
    for (int i = 0; i < 3; i++)
        calls[i] = bound_call(rig, 40, 1);
    calls[0]->sampling.n_grammar = MESSAGE_GRAMMAR_MAX;
    calls[1]->sampling.n_grammar = MESSAGE_GRAMMAR_MAX + 1;
    calls[2]->sampling.grammar = NULL;
    for (int i = 0; i < 3; i++)
        rig_both(rig, 0, calls[i]);
    rig_run(rig, 100);
    rig_expect_done(calls[0], 1, FINISH_LENGTH);
    for (int i = 1; i < 3; i++)
        ck_assert_int_eq(calls[i]->reason, REASON_INVALID);
    rig_free(rig);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_sequence_waits_for_its_grammar_and_holds_nobody_up);
    tcase_add_test(tests, one_that_is_ready_runs_at_once);
    tcase_add_loop_test(tests, a_grammar_that_cannot_be_had_fails_its_request, 0,
                        sizeof failures / sizeof *failures);
    tcase_add_test(tests, a_router_that_is_gone_when_its_grammar_fails_is_let_go);
    tcase_add_test(tests, who_serves_no_grammar_says_so);
    tcase_add_test(tests, what_is_given_up_meanwhile_is_not_told);
    tcase_add_test(tests, a_sequence_that_is_handed_over_waits_too);
    tcase_add_test(tests, a_hand_over_ends_where_the_receivers_grammar_fails);
    tcase_add_test(tests, a_state_without_a_token_fails_alone);
    tcase_add_test(tests, an_end_under_a_grammar_is_an_end_whatever_else_is_asked);
    tcase_add_test(tests, the_bytes_of_a_grammar_have_a_bound);
}
