/* Behind a long step: what came during it waits to be read, and nobody is silent before it is. */
#include "tests/support/suite.h"
#include "tests/unit/worker/core/pair.h"

const char *const suite_name = "worker_core_long_step";
const double suite_timeout_s = 60;

START_TEST(a_lease_that_ran_out_ends_after_what_came_is_read) {
    for (uint32_t submitted = 0; submitted < 2; submitted++) {
        struct rig *rig = pair_new(28, 2);
        struct call *busy = rig_call(rig, 20, 30);
        rig_both(rig, D, busy);
        struct call *call = rig_call(rig, 90, 12);
        rig_reserve(rig, D, call);
        ck_assert(rig_plan(rig, D));
        rig->now_ns += rig_config().lease_ns + 1;
        rig_end(rig, D);
        ck_assert(!call->failed);
        struct message ping = {.type = MESSAGE_PING};
        rig_send(rig, D, 0, &ping);
        rig_send(rig, P, 0, &ping);
        if (submitted == 1) {
            rig_prefill(rig, P, D, call);
            rig_decode(rig, D, P, call);
        }
        rig_tick(rig, 0);
        ck_assert_int_eq(call->failed, submitted == 0);
        rig_run(rig, 100);
        if (submitted == 1)
            rig_expect_done(call, 12, FINISH_LENGTH);
        else
            ck_assert_int_eq(call->reason, REASON_LEASE);
        rig_expect_done(busy, 30, FINISH_LENGTH);
        pair_expect_quiet(rig);
        rig_free(rig);
    }
}
END_TEST

START_TEST(a_router_whose_pings_wait_is_not_taken_for_silent) {
    for (uint32_t pings = 0; pings < 2; pings++) {
        struct rig *rig = rig_new(20);
        rig_add(rig, rig_config());
        rig_hello(rig, 0);
        struct call *call = rig_call(rig, 20, 30);
        rig_both(rig, 0, call);
        ck_assert(rig_plan(rig, 0));
        rig->now_ns += rig_config().router_lease_ns;
        rig_end(rig, 0);
        ck_assert_uint_eq(rig->workers[0].n_closed, 0);
        struct message ping = {.type = MESSAGE_PING};
        if (pings == 1)
            rig_send(rig, 0, 0, &ping);
        rig_tick(rig, 0);
        ck_assert_uint_eq(rig->workers[0].n_closed, 1 - pings);
        rig_run(rig, 100);
        if (pings == 1)
            rig_expect_done(call, 30, FINISH_LENGTH);
        else
            ck_assert_uint_eq(call->n_got, 1);
        rig_free(rig);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_lease_that_ran_out_ends_after_what_came_is_read);
    tcase_add_test(tests, a_router_whose_pings_wait_is_not_taken_for_silent);
}
