/* Which workers a router takes: its own model's, one of each name, and those that answer. */
#include "tests/support/suite.h"
#include "tests/unit/router/core/fake.h"

#include <stdio.h>
#include <string.h>

const char *const suite_name = "router_fleet";
const double suite_timeout_s = 60;

static struct fake fake;

static struct worker_view view_of(uint32_t slot) {
    struct worker_view view = {.state = SLOT_FREE};
    (void)!router_worker(fake.router, slot, &view);
    return view;
}

static void announce(const struct welcome *welcome) {
    struct announce announce = {.incarnation = welcome->incarnation, .endpoint = "ipc:///w"};
    memcpy(announce.name, welcome->name, sizeof announce.name);
    router_announce(fake.router, fake.now_ns, &announce);
}

static const struct reset *told(uint32_t slot) {
    const struct fake_message *message = fake_last(&fake, MESSAGE_RESET, slot);
    return message ? &message->message.u.reset : NULL;
}

/* --- refused ---------------------------------------------------------------------------------- */

START_TEST(refused_worker_is_told_why_shown_and_noted_once) {
    fake_open_default(&fake);
    struct welcome other = fake_welcome("w0", ROLE_MIXED);
    other.tokenizer_fp[31] = 1;
    other.pid = 17;
    snprintf(other.model, sizeof other.model, "other");
    uint32_t slot = fake_join(&fake, &other);
    struct worker_view view = view_of(slot);
    ck_assert_int_eq(view.state, SLOT_REFUSED);
    ck_assert_int_eq(view.refusal, REFUSAL_TOKENIZER);
    ck_assert_str_eq(view.welcome.model, "other");
    ck_assert_str_eq(fake_note(&fake, "worker refused"),
                     "worker refused name=w0 reason=other_tokenizer pid=17");
    ck_assert_int_eq(told(slot)->reason, REASON_MISMATCH);
    ck_assert_int_eq(told(slot)->refusal, REFUSAL_TOKENIZER);
    for (int second = 0; second < 20; second++) { /* it goes on announcing itself */
        fake_pass(&fake, NS_PER_S, 0);
        announce(&other);
    }
    ck_assert_int_eq(fake_state(&fake, slot), SLOT_REFUSED);
    ck_assert_uint_eq(fake_count_notes(&fake, "worker refused"), 1);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_HELLO, slot), 1);
    fake_close(&fake);
}
END_TEST

START_TEST(refused_worker_is_shown_until_it_falls_silent_link_or_not) {
    fake_open_default(&fake);
    struct welcome other = fake_welcome("w0", ROLE_MIXED);
    other.model_fp[0] = 1;
    uint32_t slot = fake_join(&fake, &other);
    fake_lose(&fake, slot);
    ck_assert_int_eq(fake_state(&fake, slot), SLOT_REFUSED);
    announce(&other);
    ck_assert_int_eq(fake_state(&fake, slot), SLOT_REFUSED);
    fake_pass(&fake, 2900 * NS_PER_MS, 0);
    ck_assert_int_eq(fake_state(&fake, slot), SLOT_REFUSED);
    fake_pass(&fake, 700 * NS_PER_MS, 0);
    ck_assert_int_eq(fake_state(&fake, slot), SLOT_FREE);
    fake_close(&fake);
}
END_TEST

START_TEST(every_refusal_has_its_reason) {
    static const enum refusal expected[] = {REFUSAL_PROTOCOL, REFUSAL_MODEL,  REFUSAL_TOKENIZER,
                                            REFUSAL_LIMITS,   REFUSAL_LIMITS, REFUSAL_LIMITS,
                                            REFUSAL_IDENTITY};
    fake_open_default(&fake);
    for (uint32_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%u", i);
        struct welcome welcome = fake_welcome(name, ROLE_MIXED);
        announce(&welcome);
        struct message message = {.type = MESSAGE_WELCOME};
        struct welcome *flawed = &message.u.welcome;
        *flawed = welcome;
        flawed->major += i == 0;
        flawed->model_fp[16] = i == 1;
        flawed->tokenizer_fp[16] = i == 2;
        flawed->context *= i != 3;
        flawed->max_seqs *= i != 4;
        flawed->kv.block_tokens *= i != 5;
        flawed->incarnation += i == 6;
        fake_says(&fake, i, message);
        ck_assert_int_eq(view_of(i).refusal, expected[i]);
        ck_assert_int_eq(fake_state(&fake, i), SLOT_REFUSED);
        /* Who speaks another language, or is not the one that is meant, is told nothing. */
        bool is_told = expected[i] != REFUSAL_PROTOCOL && expected[i] != REFUSAL_IDENTITY;
        ck_assert_int_eq(told(i) != NULL, is_told);
        ck_assert_int_eq(fake.open[i], is_told);
    }
    ck_assert(!router_ready(fake.router));
    fake_close(&fake);
}
END_TEST

START_TEST(another_worker_at_an_endpoint_is_looked_at_again_later) {
    fake_open_default(&fake);
    struct welcome welcome = fake_welcome("w0", ROLE_MIXED);
    announce(&welcome);
    struct message message = {.type = MESSAGE_WELCOME};
    message.u.welcome = welcome;
    message.u.welcome.incarnation++;
    fake_says(&fake, 0, message);
    for (int second = 0; second < 9; second++) {
        fake_pass(&fake, NS_PER_S, 0);
        announce(&welcome);
    }
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_HELLO, 0), 1);
    fake_pass(&fake, NS_PER_S, 0);
    ck_assert_uint_eq(fake_join(&fake, &welcome), 0);
    ck_assert_int_eq(fake_state(&fake, 0), SLOT_READY);
    fake_close(&fake);
}
END_TEST

/* --- one name --------------------------------------------------------------------------------- */

/* A READY worker "a" in slot 0 with a request, and another of its name in slot 1. */
static void open_rivals(struct welcome *first, struct welcome *second) {
    fake_open_default(&fake);
    *first = fake_welcome("a", ROLE_MIXED);
    *second = fake_welcome("a", ROLE_MIXED);
    ck_assert_uint_eq(fake_join(&fake, first), 0);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    fake_pass(&fake, 600 * NS_PER_MS, 1);
    announce(first);
    fake_pong(&fake, 0);
    ck_assert_uint_eq(fake_join(&fake, second), 1);
}

START_TEST(second_live_worker_of_a_name_is_refused_the_first_goes_on) {
    struct welcome first, second;
    open_rivals(&first, &second);
    ck_assert_int_eq(fake_state(&fake, 1), SLOT_RIVAL);
    ck_assert_ptr_nonnull(fake_note(&fake, "worker announces a name that is in use name=a"));
    fake_beat(&fake, 0); /* on its way before it was asked: proves nothing */
    ck_assert_int_eq(fake_state(&fake, 1), SLOT_RIVAL);
    fake_pong(&fake, 0);
    ck_assert_int_eq(fake_state(&fake, 1), SLOT_REFUSED);
    ck_assert_int_eq(view_of(1).refusal, REFUSAL_NAME);
    ck_assert_int_eq(told(1)->refusal, REFUSAL_NAME);
    ck_assert_uint_eq(told(1)->incarnation, first.incarnation);
    ck_assert_str_eq(told(1)->endpoint, fake.announced[0].endpoint);
    ck_assert_ptr_null(told(0));
    ck_assert_ptr_nonnull(fake_note(&fake, "worker refused name=a reason=name_taken"));
    for (int i = 0; i < 2; i++) {
        fake_pass(&fake, NS_PER_S, 1);
        announce(&second);
    }
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_HELLO, 1), 1);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_HELLO, 0), 1);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, 1), 0);
    ck_assert_int_eq(fake_state(&fake, 0), SLOT_READY);
    ck_assert_uint_eq(fake_stats(&fake).n_fenced, 0);
    ck_assert_uint_eq(fake_stats(&fake).n_replays, 0);
    fake_close(&fake);
}
END_TEST

START_TEST(a_refused_name_is_free_again_when_its_holder_is_gone) {
    struct welcome first, second;
    open_rivals(&first, &second);
    fake_pong(&fake, 0);
    fake_lose(&fake, 0);
    ck_assert_int_eq(fake_join(&fake, &second), 1);
    ck_assert_int_eq(fake_state(&fake, 1), SLOT_READY);
    fake_close(&fake);
}
END_TEST

/* The restart was announced before the router heard of the death. */
START_TEST(restart_takes_over_at_once_when_the_link_is_lost) {
    struct welcome first, second;
    open_rivals(&first, &second);
    fake_lose(&fake, 0);
    ck_assert_int_eq(fake_state(&fake, 0), SLOT_FREE);
    ck_assert_int_eq(fake_state(&fake, 1), SLOT_READY);
    ck_assert_ptr_nonnull(fake_note(&fake, "worker lost name=a reason=link_lost"));
    fake_pass(&fake, 50 * NS_PER_MS, 2);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, 1), 1); /* its request goes on there */
    fake_close(&fake);
}
END_TEST

/* A host that died, or a process that is stopped: nothing closes the connection. */
START_TEST(restart_takes_over_when_the_old_one_counts_as_lost) {
    struct welcome first, second;
    open_rivals(&first, &second);
    fake_pass(&fake, 900 * NS_PER_MS, 2);
    ck_assert_int_eq(fake_state(&fake, 1), SLOT_RIVAL);
    fake_pass(&fake, 200 * NS_PER_MS, 2);
    ck_assert_int_eq(fake_state(&fake, 1), SLOT_READY);
    ck_assert_int_eq(fake_state(&fake, 0), SLOT_FREE);
    ck_assert(!fake.open[0]);
    ck_assert_ptr_nonnull(fake_note(&fake, "worker lost name=a reason=superseded"));
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, 1), 1);
    /* It comes back to life: now it is the one too many. */
    fake_pass(&fake, 600 * NS_PER_MS, 2);
    ck_assert_uint_eq(fake_join(&fake, &first), 0);
    ck_assert_int_eq(fake_state(&fake, 0), SLOT_RIVAL);
    fake_pong(&fake, 1);
    ck_assert_int_eq(fake_state(&fake, 0), SLOT_REFUSED);
    ck_assert_uint_eq(told(0)->incarnation, second.incarnation);
    ck_assert_int_eq(fake_state(&fake, 1), SLOT_READY);
    fake_close(&fake);
}
END_TEST

/* Answers that came while this router stood still are read first. */
START_TEST(restart_waits_for_its_name_in_the_routers_own_time) {
    fake_open_default(&fake);
    struct welcome first = fake_welcome("a", ROLE_MIXED), second = fake_welcome("a", ROLE_MIXED);
    fake_join(&fake, &first);
    fake_pass(&fake, 600 * NS_PER_MS, 1);
    fake_join(&fake, &second);
    fake_stand_still(&fake, 5 * NS_PER_S); /* 100 ms of its own */
    ck_assert_int_eq(fake_state(&fake, 1), SLOT_RIVAL);
    fake_pass(&fake, 900 * NS_PER_MS, 2);
    ck_assert_int_eq(fake_state(&fake, 1), SLOT_RIVAL);
    fake_pass(&fake, 50 * NS_PER_MS, 2);
    ck_assert_int_eq(fake_state(&fake, 1), SLOT_READY);
    ck_assert_int_eq(fake_state(&fake, 0), SLOT_FREE);
    fake_close(&fake);
}
END_TEST

/* The only worker is not fenced, however long it is silent: its double comes, and it is asked. */
START_TEST(silent_holder_has_time_to_answer_from_when_its_double_comes) {
    fake_open_default(&fake);
    struct welcome first = fake_welcome("a", ROLE_MIXED), second = fake_welcome("a", ROLE_MIXED);
    fake_join(&fake, &first);
    fake_pass(&fake, 5 * NS_PER_S, 0);
    fake_join(&fake, &second);
    fake_stand_still(&fake, 5 * NS_PER_S); /* 100 ms of its own */
    fake_pass(&fake, 900 * NS_PER_MS, 2);
    ck_assert_int_eq(fake_state(&fake, 1), SLOT_RIVAL);
    fake_pass(&fake, 50 * NS_PER_MS, 2);
    ck_assert_int_eq(fake_state(&fake, 1), SLOT_READY);
    fake_close(&fake);
}
END_TEST

/* One that hangs when its double comes still has the time that everybody has. */
START_TEST(fenced_worker_keeps_its_name_for_as_long_as_a_hang_takes) {
    fake_open_default(&fake);
    struct welcome first = fake_welcome("a", ROLE_MIXED), second = fake_welcome("a", ROLE_MIXED);
    fake_join(&fake, &first);
    uint32_t b = fake_worker(&fake, "b", ROLE_MIXED);
    fake_pass(&fake, 1100 * NS_PER_MS, 1u << b);
    ck_assert_int_eq(fake_state(&fake, 0), SLOT_SUSPECT);
    ck_assert_ptr_nonnull(fake_note(&fake, "worker lost name=a reason=hung after_ms=10"));
    uint32_t rival = fake_join(&fake, &second);
    ck_assert_int_eq(fake_state(&fake, rival), SLOT_RIVAL);
    fake_pass(&fake, 500 * NS_PER_MS, 1u << b);
    struct message message = {.type = MESSAGE_WELCOME};
    message.u.welcome = first;
    fake_says(&fake, 0, message);
    ck_assert_int_eq(fake_state(&fake, 0), SLOT_READY);
    fake_pass(&fake, 550 * NS_PER_MS, 1u << b | 1u);
    fake_pong(&fake, 0);
    ck_assert_int_eq(fake_state(&fake, rival), SLOT_REFUSED);
    fake_close(&fake);
}
END_TEST

START_TEST(a_rival_that_dies_leaves_no_trace) {
    struct welcome first, second;
    open_rivals(&first, &second);
    fake_lose(&fake, 1);
    ck_assert_int_eq(fake_state(&fake, 1), SLOT_FREE);
    fake_pong(&fake, 0);
    ck_assert_int_eq(fake_state(&fake, 0), SLOT_READY);
    ck_assert_ptr_null(told(UINT32_MAX));
    fake_close(&fake);
}
END_TEST

START_TEST(rival_of_another_model_is_refused_for_its_model) {
    struct welcome first, second;
    open_rivals(&first, &second);
    struct welcome third = fake_welcome("a", ROLE_MIXED);
    third.model_fp[0] = 1;
    uint32_t slot = fake_join(&fake, &third);
    ck_assert_int_eq(view_of(slot).refusal, REFUSAL_MODEL);
    fake_close(&fake);
}
END_TEST

/* --- slots ------------------------------------------------------------------------------------ */

START_TEST(names_that_answer_nothing_give_their_slots_up) {
    fake_open_default(&fake);
    uint32_t good = fake_worker(&fake, "good", ROLE_MIXED);
    struct welcome ghosts[FAKE_SLOTS - 1];
    for (uint32_t i = 0; i < FAKE_SLOTS - 1; i++) {
        char name[16];
        snprintf(name, sizeof name, "ghost%u", i);
        ghosts[i] = fake_welcome(name, ROLE_MIXED);
        announce(&ghosts[i]);
    }
    struct welcome late = fake_welcome("late", ROLE_MIXED);
    announce(&late);
    ck_assert_ptr_nonnull(fake_note(&fake, "no room for another worker name=late workers=12"));
    for (int second = 0; second < 3; second++) { /* they go on announcing themselves */
        fake_pass(&fake, NS_PER_S, 1u << good);
        for (uint32_t i = 0; i < FAKE_SLOTS - 1; i++)
            announce(&ghosts[i]);
    }
    uint32_t slot = fake_join(&fake, &late);
    ck_assert_uint_ne(slot, UINT32_MAX);
    ck_assert_int_eq(fake_state(&fake, slot), SLOT_READY);
    ck_assert_int_eq(fake_state(&fake, good), SLOT_READY);
    ck_assert_uint_eq(fake_count_notes(&fake, "no room"), 1);
    fake_close(&fake);
}
END_TEST

START_TEST(ready_workers_never_give_their_slots_up) {
    fake_open_default(&fake);
    for (uint32_t i = 0; i < FAKE_SLOTS; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%u", i);
        fake_worker(&fake, name, ROLE_MIXED);
    }
    fake_pass(&fake, 5 * NS_PER_S, UINT32_MAX);
    struct welcome late = fake_welcome("late", ROLE_MIXED);
    ck_assert_uint_eq(fake_join(&fake, &late), UINT32_MAX);
    for (uint32_t i = 0; i < FAKE_SLOTS; i++)
        ck_assert_int_eq(fake_state(&fake, i), SLOT_READY);
    fake_close(&fake);
}
END_TEST

/* --- what the log hears ----------------------------------------------------------------------- */

START_TEST(joining_leaving_and_loss_are_told_apart) {
    fake_open_default(&fake);
    struct welcome welcome = fake_welcome("a", ROLE_MIXED);
    welcome.pid = 4;
    uint32_t a = fake_join(&fake, &welcome);
    ck_assert_str_eq(fake_note(&fake, "worker joined"), "worker joined name=a pid=4");
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    fake_pass(&fake, 300 * NS_PER_MS, 0);
    fake_lose(&fake, a);
    ck_assert_str_eq(fake_note(&fake, "worker lost"),
                     "worker lost name=a reason=link_lost after_ms=300 requests=1");
    uint32_t b = fake_worker(&fake, "b", ROLE_MIXED);
    struct message message = {.type = MESSAGE_BEAT};
    message.u.beat.state = WORKER_DRAINING;
    uint32_t c = fake_worker(&fake, "c", ROLE_MIXED);
    fake_says(&fake, c, message);
    fake_lose(&fake, c);
    ck_assert_str_eq(fake_note(&fake, "worker left"),
                     "worker left name=c reason=link_lost after_ms=0");
    message = (struct message){.type = MESSAGE_HELLO};
    fake_says(&fake, b, message);
    ck_assert_str_eq(
        fake_note(&fake, "worker sent"),
        "worker sent a message of a type that workers do not send name=b reason=hello");
    fake_close(&fake);
}
END_TEST

static void beats(uint32_t worker, enum worker_state state) {
    struct message message = {.type = MESSAGE_BEAT};
    message.u.beat.state = state;
    message.u.beat.t_ns = fake.now_ns;
    fake_says(&fake, worker, message);
}

START_TEST(a_drain_can_be_taken_back) {
    fake_open_default(&fake);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    struct worker_view view;
    ck_assert_int_eq(router_resume_worker(fake.router, fake.now_ns, "nobody"), STATUS_NOT_FOUND);
    ck_assert_int_eq(router_resume_worker(fake.router, fake.now_ns, "a"), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_DRAIN, a), 0); /* there is nothing to take back */
    ck_assert_int_eq(router_drain_worker(fake.router, fake.now_ns, "a", false), STATUS_OK);
    ck_assert_int_eq(fake_last(&fake, MESSAGE_DRAIN, a)->message.u.drain.order, DRAIN_STOP);
    ck_assert(!router_ready(fake.router));
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 4), STATUS_CLOSED);
    beats(a, WORKER_READY); /* from before it had read the word */
    ck_assert(!router_ready(fake.router));
    ck_assert_int_eq(router_resume_worker(fake.router, fake.now_ns, "a"), STATUS_OK);
    ck_assert_int_eq(fake_last(&fake, MESSAGE_DRAIN, a)->message.u.drain.order, DRAIN_UNDO);
    ck_assert(!router_ready(fake.router));
    beats(a, WORKER_DRAINING);
    ck_assert(!router_ready(fake.router));
    beats(a, WORKER_READY);
    ck_assert(router_ready(fake.router));
    ck_assert_int_eq(fake_ask(&fake, 1, 5, 4), STATUS_OK);
    ck_assert_uint_eq(fake_count(&fake, MESSAGE_SUBMIT, a), 1);
    ck_assert_int_eq(router_worker(fake.router, 0, &view), STATUS_OK);
    ck_assert_int_eq(view.state, SLOT_READY);
    ck_assert_int_eq(router_drain_worker(fake.router, fake.now_ns, "a", true), STATUS_OK);
    ck_assert_int_eq(fake_last(&fake, MESSAGE_DRAIN, a)->message.u.drain.order, DRAIN_EXIT);
    fake_close(&fake);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, refused_worker_is_told_why_shown_and_noted_once);
    tcase_add_test(tests, refused_worker_is_shown_until_it_falls_silent_link_or_not);
    tcase_add_test(tests, every_refusal_has_its_reason);
    tcase_add_test(tests, another_worker_at_an_endpoint_is_looked_at_again_later);
    tcase_add_test(tests, second_live_worker_of_a_name_is_refused_the_first_goes_on);
    tcase_add_test(tests, a_refused_name_is_free_again_when_its_holder_is_gone);
    tcase_add_test(tests, restart_takes_over_at_once_when_the_link_is_lost);
    tcase_add_test(tests, restart_takes_over_when_the_old_one_counts_as_lost);
    tcase_add_test(tests, restart_waits_for_its_name_in_the_routers_own_time);
    tcase_add_test(tests, silent_holder_has_time_to_answer_from_when_its_double_comes);
    tcase_add_test(tests, fenced_worker_keeps_its_name_for_as_long_as_a_hang_takes);
    tcase_add_test(tests, a_rival_that_dies_leaves_no_trace);
    tcase_add_test(tests, rival_of_another_model_is_refused_for_its_model);
    tcase_add_test(tests, names_that_answer_nothing_give_their_slots_up);
    tcase_add_test(tests, ready_workers_never_give_their_slots_up);
    tcase_add_test(tests, joining_leaving_and_loss_are_told_apart);
    tcase_add_test(tests, a_drain_can_be_taken_back);
}
