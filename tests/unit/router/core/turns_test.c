/* Tenants that wait take turns by what they have taken; and what the router makes of it. */
#include "router/core/request.h"
#include "router/core/turns.h"
#include "tests/support/suite.h"
#include "tests/unit/router/core/fake.h"

#include <string.h>

const char *const suite_name = "router_turns";
const double suite_timeout_s = 60;

#define REQUESTS 1200

static struct turns turns;
static struct request requests[REQUESTS];
static uint32_t n_requests, n_waiting;

static void open_turns(uint32_t capacity) {
    ck_assert_int_eq(turns_init(&turns, capacity, 1), STATUS_OK);
    n_requests = n_waiting = 0;
}

static void check_turns(void) {
    const char *flaw = turns_check(&turns, n_waiting);
    ck_assert_msg(!flaw, "%s", flaw);
}

static struct request *wait_as(uint64_t tenant, uint32_t n_prompt, uint32_t priority) {
    ck_assert_uint_lt(n_requests, REQUESTS);
    struct request *req = &requests[n_requests++];
    *req = (struct request){.arrival = n_requests,
                            .spec = {.tenant = tenant, .n_prompt = n_prompt, .priority = priority}};
    list_init(&req->turn);
    turns_join(&turns, req);
    turns_add(&turns, req);
    n_waiting++;
    return req;
}

/* The next one, as if it was sent to a worker: its prompt is charged. NULL: nobody waits. */
static struct request *send_next(void) {
    struct request *req = turns_next(&turns);
    if (req) {
        turns_remove(&turns, req);
        n_waiting--;
        req->attempt++;
        turns_charge(&turns, req, req->spec.n_prompt);
    }
    turns_rewind(&turns);
    check_turns();
    return req;
}

static uint64_t send_tenant(void) {
    struct request *req = send_next();
    return req ? req->spec.tenant : 0;
}

START_TEST(a_late_tenant_waits_behind_one_of_a_thousand) {
    open_turns(REQUESTS);
    for (uint32_t i = 0; i < 1000; i++)
        wait_as(1, 100, 0);
    for (uint32_t i = 0; i < 10; i++)
        ck_assert_uint_eq(send_tenant(), 1);
    for (uint32_t i = 0; i < 3; i++)
        wait_as(2, 100, 0);
    uint64_t order[6];
    for (uint32_t i = 0; i < 6; i++)
        order[i] = send_tenant();
    /* Of equal counts the earlier arrival goes first. */
    ck_assert_mem_eq(order, ((uint64_t[]){1, 2, 1, 2, 1, 2}), sizeof order);
    for (uint32_t i = 0; i < 987; i++)
        ck_assert_uint_eq(send_tenant(), 1);
    ck_assert_ptr_null(send_next());
    turns_fini(&turns);
}
END_TEST

START_TEST(turns_are_counted_in_tokens_of_prompts_and_answers) {
    open_turns(REQUESTS);
    for (uint32_t i = 0; i < 100; i++) {
        wait_as(1, 300, 0);
        wait_as(2, 100, 0);
    }
    uint32_t n[3] = {0};
    for (uint32_t i = 0; i < 40; i++)
        n[send_tenant()]++;
    ck_assert_uint_eq(n[1], 10);
    ck_assert_uint_eq(n[2], 30);
    struct request *last = send_next(); /* the first again: their counts are equal */
    ck_assert_uint_eq(last->spec.tenant, 1);
    turns_charge(&turns, last, 500); /* 800 tokens ahead */
    check_turns();
    for (uint32_t i = 0; i < 8; i++)
        ck_assert_uint_eq(send_tenant(), 2);
    ck_assert_uint_eq(send_tenant(), 1);
    turns_fini(&turns);
}
END_TEST

START_TEST(one_tenant_keeps_the_order_of_priority_and_arrival) {
    static const uint32_t priorities[] = {5, 3, 5, 4, 3}, order[] = {2, 5, 4, 1, 3};
    open_turns(REQUESTS);
    for (uint32_t i = 0; i < 5; i++)
        wait_as(0, 10, priorities[i]);
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_uint_eq(send_next()->arrival, order[i]);
    turns_fini(&turns);
}
END_TEST

START_TEST(priority_comes_before_turns) {
    open_turns(REQUESTS);
    for (uint32_t i = 0; i < 3; i++)
        wait_as(1, 1000, 1);
    wait_as(2, 1, 2);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_uint_eq(send_tenant(), 1);
    ck_assert_uint_eq(send_tenant(), 2);
    turns_fini(&turns);
}
END_TEST

START_TEST(who_had_a_worker_comes_before_who_had_none) {
    open_turns(REQUESTS);
    struct request *moved = wait_as(1, 1000, 0);
    ck_assert_ptr_eq(send_next(), moved);
    wait_as(2, 10, 0);
    struct request *other = wait_as(3, 10, 0);
    ck_assert_uint_eq(send_tenant(), 2);
    ck_assert_ptr_eq(send_next(), other);
    wait_as(4, 1, 0);
    turns_add(&turns, other); /* it had a worker, too, later */
    turns_add(&turns, moved);
    n_waiting += 2;
    ck_assert_ptr_eq(send_next(), moved);
    ck_assert_ptr_eq(send_next(), other);
    ck_assert_uint_eq(send_tenant(), 4);
    turns_fini(&turns);
}
END_TEST

START_TEST(nobody_saves_up_turns_while_he_does_not_wait) {
    open_turns(REQUESTS);
    wait_as(1, 10, 0);
    ck_assert_uint_eq(send_tenant(), 1);
    for (uint32_t i = 0; i < 50; i++)
        wait_as(2, 100, 0);
    for (uint32_t i = 0; i < 40; i++)
        ck_assert_uint_eq(send_tenant(), 2);
    for (uint32_t i = 0; i < 10; i++)
        wait_as(1, 100, 0); /* 4,000 tokens behind, but for this once */
    for (uint32_t i = 0; i < 10; i++) {
        ck_assert_uint_eq(send_tenant(), 2);
        ck_assert_uint_eq(send_tenant(), 1);
    }
    /* Where nobody waits, the last that did tells. */
    for (uint32_t i = 0; i < 6; i++)
        wait_as(i < 3 ? 3 : 2, 100, 0);
    uint64_t order[6];
    for (uint32_t i = 0; i < 6; i++)
        order[i] = send_tenant();
    ck_assert_mem_eq(order, ((uint64_t[]){3, 3, 2, 3, 2, 2}), sizeof order);
    turns_fini(&turns);
}
END_TEST

/* What has been looked at is not shown again before the end of the walk. */
START_TEST(a_walk_shows_everybody_once) {
    open_turns(REQUESTS);
    for (uint64_t tenant = 1; tenant <= 3; tenant++)
        for (uint32_t i = 0; i < 4; i++)
            wait_as(tenant, 10, i % 2);
    for (uint32_t round = 0; round < 2; round++) {
        bool seen[13] = {false};
        struct request *req, *last = NULL;
        uint32_t n = 0;
        while ((req = turns_next(&turns))) {
            ck_assert(!seen[req->arrival]);
            ck_assert(!last || last->spec.priority <= req->spec.priority);
            seen[req->arrival] = true;
            last = req;
            n++;
        }
        ck_assert_uint_eq(n, 12);
        turns_rewind(&turns);
        check_turns();
    }
    turns_fini(&turns);
}
END_TEST

/* As many tenants as requests can live; the place of the one that was idle for longest is the next. */
START_TEST(places_of_idle_tenants_are_used_again) {
    open_turns(3);
    struct request *first[3];
    for (uint32_t i = 0; i < 3; i++)
        first[i] = wait_as(i + 1, 100 * (i + 1), 0);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_ptr_eq(send_next(), first[i]);
    turns_leave(&turns, first[1]);
    turns_leave(&turns, first[0]);
    struct request *again = wait_as(1, 1, 0), *fourth = wait_as(4, 1, 0);
    ck_assert_uint_eq(again->tenant, first[0]->tenant);
    ck_assert_uint_eq(fourth->tenant, first[1]->tenant);
    ck_assert_uint_eq(turns.n_fresh, 3);
    check_turns();
    turns_fini(&turns);
}
END_TEST

static struct fake fake;

static void ask_as(uint64_t tenant, uint32_t user, uint32_t n_prompt) {
    struct request_spec spec = fake_spec(&fake, user, n_prompt, 4);
    spec.tenant = tenant;
    ck_assert_int_eq(fake_ask_spec(&fake, user, spec), STATUS_OK);
}

/* One place: each request that ends lets one of those that wait in. */
START_TEST(the_router_lets_tenants_in_by_turns) {
    fake_open_default(&fake);
    struct welcome welcome = fake_welcome("w", ROLE_MIXED);
    welcome.max_seqs = 1;
    uint32_t w = fake_join(&fake, &welcome);
    for (uint32_t user = 0; user < 20; user++)
        ask_as(7, user, 10);
    for (uint32_t user = 20; user < 23; user++)
        ask_as(8, user, 10);
    uint64_t order[8];
    for (uint32_t i = 0; i < 8; i++) {
        struct submit submit = fake_submitted(&fake, w);
        order[i] = submit.tenant;
        fake_step(&fake, w, &submit, 0, 2, FINISH_STOP);
    }
    ck_assert_mem_eq(order, ((uint64_t[]){7, 8, 7, 8, 7, 8, 7, 7}), sizeof order);
    for (uint32_t user = 0; user < 23; user++)
        router_cancel(fake.router, fake.now_ns, fake.users[user].name);
    ck_assert_uint_eq(fake_stats(&fake).n_queued, 0);
    fake_close(&fake);
}
END_TEST

/* Both ask as often; the answers of one are five times as long. */
START_TEST(the_router_counts_the_tokens_of_answers) {
    fake_open_default(&fake);
    struct welcome welcome = fake_welcome("w", ROLE_MIXED);
    welcome.max_seqs = 1;
    uint32_t w = fake_join(&fake, &welcome), n[9] = {0};
    for (uint32_t user = 0; user < 40; user++) {
        struct request_spec spec = fake_spec(&fake, user, 1, 9);
        spec.tenant = 7 + user % 2;
        ck_assert_int_eq(fake_ask_spec(&fake, user, spec), STATUS_OK);
    }
    for (uint32_t i = 0; i < 18; i++) {
        struct submit submit = fake_submitted(&fake, w);
        n[submit.tenant]++;
        fake_step(&fake, w, &submit, 0, submit.tenant == 7 ? 9 : 1, FINISH_STOP);
    }
    ck_assert_uint_eq(n[7], 3);
    ck_assert_uint_eq(n[8], 15);
    for (uint32_t user = 0; user < 40; user++)
        router_cancel(fake.router, fake.now_ns, fake.users[user].name);
    fake_close(&fake);
}
END_TEST

/* One is passed over: the others are shown, those behind it are not, and the next walk shows all. */
START_TEST(a_pass_ends_the_walk_of_one_tenant) {
    open_turns(REQUESTS);
    for (uint64_t i = 0; i < 6; i++)
        wait_as(1 + i % 2, 10, 0);
    for (uint32_t round = 0; round < 2; round++) {
        struct request *first = turns_next(&turns);
        ck_assert_uint_eq(first->spec.tenant, 1);
        turns_pass(&turns, first);
        for (uint32_t i = 0; i < 3; i++)
            ck_assert_uint_eq(turns_next(&turns)->spec.tenant, 2);
        ck_assert_ptr_null(turns_next(&turns));
        turns_rewind(&turns);
        check_turns();
    }
    turns_fini(&turns);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_late_tenant_waits_behind_one_of_a_thousand);
    tcase_add_test(tests, turns_are_counted_in_tokens_of_prompts_and_answers);
    tcase_add_test(tests, one_tenant_keeps_the_order_of_priority_and_arrival);
    tcase_add_test(tests, priority_comes_before_turns);
    tcase_add_test(tests, who_had_a_worker_comes_before_who_had_none);
    tcase_add_test(tests, nobody_saves_up_turns_while_he_does_not_wait);
    tcase_add_test(tests, a_walk_shows_everybody_once);
    tcase_add_test(tests, places_of_idle_tenants_are_used_again);
    tcase_add_test(tests, the_router_lets_tenants_in_by_turns);
    tcase_add_test(tests, the_router_counts_the_tokens_of_answers);
    tcase_add_test(tests, a_pass_ends_the_walk_of_one_tenant);
}
