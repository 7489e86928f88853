/* A request can be followed: what the core notes of it at debug, with its id and the reasons. */
#include "tests/support/suite.h"
#include "tests/unit/worker/core/pair.h"
#include "worker/core/note.h"

#include <stdio.h>
#include <string.h>

const char *const suite_name = "worker_core_note";
const double suite_timeout_s = 60;

static void expect(const struct rig *rig, uint32_t w, const char *text) {
    const struct worker *worker = &rig->workers[w];
    if (rig_noted(worker, 0, text))
        return;
    for (uint32_t i = 0; i < worker->n_notes && i < RIG_NOTES; i++)
        fprintf(stderr, "worker %u: %s\n", w, worker->notes[i]);
    ck_abort_msg("not noted by worker %u: %s", w, text);
}

/* Positions of the notes among all: each is there, and after the one before. */
static void expect_in_order(const struct rig *rig, uint32_t w, const char *const *texts) {
    const struct worker *worker = &rig->workers[w];
    uint32_t at = 0;
    for (; *texts; texts++) {
        expect(rig, w, *texts);
        while (at < worker->n_notes && strcmp(worker->notes[at], *texts) != 0)
            at++;
        ck_assert_msg(at < worker->n_notes, "too early: %s", *texts);
    }
}

START_TEST(a_request_handed_over_is_followed_through_both_workers) {
    static const char *const at_d[] = {
        "reserved router=router request=1f4.1.1 tokens=40 cached_tokens=0",
        "submitted router=router request=1f4.1.1 phase=decode prompt_tokens=40 tokens=40",
        "handed over peer=worker0 request=1f4.1.1 side=in tokens=40 transfer_us=4000",
        "scheduled router=router request=1f4.1.1 waited_us=1000 cached_tokens=0",
        "ended router=router request=1f4.1.1 finish=length tokens=5",
        "forgotten router=router request=1f4.1.1 tokens=5",
        NULL};
    static const char *const at_p[] = {
        "submitted router=router request=1f4.1.1 phase=prefill prompt_tokens=40 tokens=40",
        "scheduled router=router request=1f4.1.1 waited_us=3000 cached_tokens=0",
        "first token router=router request=1f4.1.1 index=0 after_us=3100",
        "handed over peer=worker1 request=1f4.1.1 side=out tokens=40 transfer_us=5100",
        "ended router=router request=1f4.1.1 finish=none tokens=1",
        "forgotten router=router request=1f4.1.1 tokens=1",
        NULL};
    struct rig *rig = pair_new(1, 64);
    struct call *call = pair_hand_over(rig, 40, 5);
    rig_tick(rig, 3);
    rig_deliver_all(rig);
    rig_step(rig, P);
    for (uint32_t i = 0; i < 5; i++) { /* four chunks and the commit, a millisecond each */
        ck_assert(rig_deliver(rig, &rig->pipes[0], true));
        rig->now_ns += 1000000;
    }
    rig_run(rig, 100);
    rig_expect_done(call, 5, FINISH_LENGTH);
    rig_forget(rig, P, call);
    rig_forget(rig, D, call);
    expect_in_order(rig, D, at_d);
    expect_in_order(rig, P, at_p);
    ck_assert_uint_eq(rig->workers[P].n_notes, 6); /* nothing twice, nothing else */
    ck_assert_uint_eq(rig->workers[D].n_notes, 6);
    ck_assert_str_eq(rig->workers[P].note, ""); /* and nothing of it at info */
    rig_free(rig);
}
END_TEST

START_TEST(a_hand_over_that_the_router_learns_of_first_is_one_all_the_same) {
    static const char *const at_p[] = {
        "handed over peer=worker1 request=1f4.1.1 side=out tokens=20 transfer_us=200",
        "ended router=router request=1f4.1.1 finish=none tokens=1",
        "forgotten router=router request=1f4.1.1 tokens=1", NULL};
    struct rig *rig = pair_new(2, 64);
    struct call *call = pair_hand_over(rig, 20, 5);
    rig_deliver_all(rig);
    rig_step(rig, P);
    struct pipe *pipe = &rig->pipes[0];
    while (rig_deliver(rig, pipe, true)) /* what comes back stays on its way */
        ;
    ck_assert(rig_step(rig, D));
    rig_forget(rig, P, call);
    expect_in_order(rig, P, at_p);
    rig_check(rig);
    rig_free(rig);
}
END_TEST

/* All blocks are there already: what it takes begins with the commit. */
START_TEST(a_hand_over_without_a_chunk_takes_as_long_as_its_commit) {
    struct rig *rig = pair_new(4, 64);
    struct call *first = rig_call(rig, 32, 2);
    rig_both(rig, D, first);
    rig_run(rig, 100);
    struct call *again = rig_call(rig, 32, 5);
    memcpy(again->ids, first->ids, 32 * sizeof first->ids[0]);
    rig_reserve(rig, D, again);
    ck_assert_uint_eq(again->reserved_cached, 32);
    rig_prefill(rig, P, D, again);
    rig_decode(rig, D, P, again);
    struct pipe *pipe = &rig->pipes[0];
    while (!pipe->announced)
        rig_deliver_all(rig);
    while (rig_step(rig, P))
        ;
    ck_assert_uint_eq(pipe->n_to_d, 1);
    ck_assert_int_eq(pipe->to_d[0].message.type, MESSAGE_COMMIT);
    rig->now_ns += 7000000;
    rig_run(rig, 100);
    rig_expect_done(again, 5, FINISH_LENGTH);
    expect(rig, P, "handed over peer=worker1 request=1f4.2.1 side=out tokens=32 transfer_us=7000");
    rig_free(rig);
}
END_TEST

START_TEST(a_replay_is_named_by_its_attempt_and_counts_from_the_prompt) {
    struct rig *rig = rig_new(3);
    rig_add(rig, rig_config());
    rig_hello(rig, 0);
    struct call *call = rig_call(rig, 20, 12);
    rig_both(rig, 0, call);
    for (uint32_t i = 0; i < 3; i++)
        rig_step(rig, 0);
    rig_cancel(rig, 0, call);
    expect(rig, 0, "given up router=router request=1f4.1.1 reason=cancelled tokens=3");
    call->attempt = 0x1a;
    rig_both(rig, 0, call);
    rig_run(rig, 100);
    rig_expect_done(call, 12, FINISH_LENGTH);
    expect(rig, 0,
           "submitted router=router request=1f4.1.1a phase=both prompt_tokens=20 tokens=23");
    expect(rig, 0, "scheduled router=router request=1f4.1.1a waited_us=0 cached_tokens=16");
    expect(rig, 0, "first token router=router request=1f4.1.1a index=3 after_us=100");
    expect(rig, 0, "ended router=router request=1f4.1.1a finish=length tokens=12");
    rig_free(rig);
}
END_TEST

/* The next one in its place belongs to none. */
START_TEST(a_request_of_a_trace_is_noted_with_its_id) {
    static const struct trace trace = {.trace_id = {0x4b, 0xf9, [15] = 0x36}, .span_id = {1}};
#define TRACE "trace=4bf90000000000000000000000000036"
    struct rig *rig = rig_new(3);
    rig_add(rig, rig_config());
    rig_hello(rig, 0);
    struct call *call = rig_call(rig, 20, 2);
    call->has_trace = true;
    call->trace = trace;
    rig_both(rig, 0, call);
    rig_run(rig, 100);
    rig_forget(rig, 0, call);
    expect(rig, 0,
           "submitted router=router request=1f4.1.1 " TRACE
           " phase=both prompt_tokens=20 tokens=20");
    expect(rig, 0, "ended router=router request=1f4.1.1 " TRACE " finish=length tokens=2");
    expect(rig, 0, "forgotten router=router request=1f4.1.1 " TRACE " tokens=2");
    rig_both(rig, 0, rig_call(rig, 20, 2));
    rig_run(rig, 100);
    expect(rig, 0, "ended router=router request=1f4.2.1 finish=length tokens=2");
    call = rig_call(rig, 20, 2);
    call->has_trace = true;
    call->trace = trace;
    engine_drain(rig->workers[0].engine, rig->now_ns);
    rig_both(rig, 0, call);
    expect(rig, 0,
           "submit refused router=router request=1f4.3.1 " TRACE
           " phase=both reason=draining prompt_tokens=20 tokens=20");
    rig_free(rig);
}
END_TEST

START_TEST(what_is_refused_is_noted_with_its_reason) {
    struct rig *rig = pair_new(4, 8);
    rig_reserve(rig, D, rig_call(rig, 600, 5));
    expect(rig, D, "reserve refused router=router request=1f4.1.1 reason=too_long tokens=600");
    struct call *call = rig_call(rig, 50, 10);
    call->gen = 9;
    call->n_at_reserve = 50;
    rig_decode(rig, D, P, call);
    expect(rig, D,
           "submit refused router=router request=1f4.2.1 phase=decode reason=unknown "
           "prompt_tokens=50 tokens=50");
    call = rig_call(rig, 50, 10);
    rig_reserve(rig, D, call);
    call->gen++;
    rig_decode(rig, D, P, call);
    expect(rig, D,
           "submit refused router=router request=1f4.3.1 phase=decode reason=stale "
           "prompt_tokens=50 tokens=50");
    expect(rig, D, "given up router=router request=1f4.3.1 reason=stale tokens=0");
    uint32_t n = rig->workers[P].n_notes;
    engine_drain(rig->workers[P].engine, rig->now_ns);
    rig_both(rig, P, rig_call(rig, 30, 5));
    expect(rig, P,
           "submit refused router=router request=1f4.4.1 phase=both reason=draining "
           "prompt_tokens=30 tokens=30");
    ck_assert_uint_eq(rig->workers[P].n_notes, n + 1);
    rig_free(rig);
}
END_TEST

START_TEST(a_reservation_that_nobody_uses_ends_with_its_reason) {
    struct rig *rig = pair_new(5, 8);
    rig_reserve(rig, D, rig_call(rig, 50, 10));
    for (uint32_t i = 0; i < 22; i++) {
        struct message ping = {.type = MESSAGE_PING};
        rig_tick(rig, 480);
        rig_send(rig, D, 0, &ping);
    }
    expect(rig, D, "transfer ended request=1f4.1.1 side=in reason=lease tokens=50 transfer_us=0");
    expect(rig, D, "given up router=router request=1f4.1.1 reason=lease tokens=0");
    rig_free(rig);
}
END_TEST

START_TEST(a_transfer_that_breaks_says_why_on_both_sides) {
    struct rig *rig = pair_new(6, 8);
    rig->corrupt = 1;
    pair_hand_over(rig, 50, 10);
    rig_run(rig, 100);
    expect(rig, D,
           "transfer ended peer=worker0 request=1f4.1.1 side=in reason=transfer tokens=50 "
           "transfer_us=0");
    expect(rig, P,
           "transfer ended peer=worker1 request=1f4.1.1 side=out reason=transfer tokens=50 "
           "transfer_us=100");
    expect(rig, P, "given up router=router request=1f4.1.1 reason=transfer tokens=1");
    pair_hand_over(rig, 50, 10);
    rig_deliver_all(rig);
    rig_cut(rig, &rig->pipes[0]);
    expect(rig, P,
           "transfer ended peer=worker1 request=1f4.2.1 side=out reason=link_lost tokens=50 "
           "transfer_us=0");
    rig_free(rig);
}
END_TEST

START_TEST(a_preemption_names_the_one_it_is_for) {
    struct rig *rig = rig_new(7);
    struct engine_config config = rig_config();
    config.n_blocks = 6;
    rig_add(rig, config);
    rig_hello(rig, 0);
    rig_both(rig, 0, rig_call(rig, 30, 40));
    rig_both(rig, 0, rig_call(rig, 30, 40));
    rig_both(rig, 0, rig_call(rig, 30, 40));
    rig_run(rig, 500);
    for (uint32_t i = 0; i < 3; i++)
        rig_expect_done(&rig->calls[i], 40, FINISH_LENGTH);
    expect(rig, 0, "waits for blocks router=router request=1f4.2.1 blocks_missing=3");
    expect(rig, 0,
           "preempted router=router request=1f4.2.1 for=1f4.1.1 reason=blocks blocks_missing=1");
    expect(rig, 0,
           "preempted router=router request=1f4.3.1 for=1f4.3.1 reason=blocks blocks_missing=1");
    rig_free(rig);
}
END_TEST

START_TEST(a_better_priority_is_a_reason_of_its_own) {
    struct rig *rig = rig_new(8);
    struct engine_config config = rig_config();
    config.n_blocks = 8;
    rig_add(rig, config);
    rig_hello(rig, 0);
    struct call *low = rig_call(rig, 100, 20);
    low->priority = 5;
    rig_both(rig, 0, low);
    rig_step(rig, 0);
    rig_step(rig, 0);
    rig_both(rig, 0, rig_call(rig, 60, 5));
    rig_run(rig, 200);
    expect(rig, 0, "waits for blocks router=router request=1f4.2.1 blocks_missing=4");
    expect(rig, 0,
           "preempted router=router request=1f4.1.1 for=1f4.2.1 reason=priority "
           "blocks_missing=4");
    rig_expect_done(low, 20, FINISH_LENGTH);
    rig_free(rig);
}
END_TEST

/* A stop that went well warns of nothing; lost work is worth a warning. */
START_TEST(a_router_that_ends_is_warned_of_only_where_work_is_lost) {
    for (int with_work = 0; with_work < 2; with_work++) {
        struct rig *rig = rig_new(4);
        struct worker *worker = rig_add(rig, rig_config());
        rig_hello(rig, 0);
        if (with_work)
            rig_both(rig, 0, rig_call(rig, 20, 30));
        worker->routers_gone = true;
        rig_tick(rig, 400);
        ck_assert_ptr_nonnull(strstr(
            worker->note, with_work ? "router's session is over router=router reason=cannot_send"
                                    : "router has left router=router reason=cannot_send"));
        rig_free(rig);
    }
}
END_TEST

/* A line of the log without its words would end the program that writes it. */
static void on_kind(void *context, const struct note *note) {
    uint32_t *n_told = context;
    ck_assert_uint_eq(note->event, *n_told);
    ck_assert_msg(note->kind->message && note->kind->message[0], "kind %u", note->event);
    ck_assert_msg(note->kind->who && note->kind->who[0], "kind %u", note->event);
    (*n_told)++;
}

START_TEST(each_kind_has_its_words) {
    uint32_t n_told = 0;
    static struct engine engine;
    static const struct peer_link peer_link;
    engine.sink = (struct engine_sink){.context = &n_told, .note = on_kind};
    for (enum engine_note kind = 0; kind < ENGINE_NOTES; kind++)
        note_peer_link(&engine, kind, &peer_link, NULL);
    ck_assert_uint_eq(n_told, ENGINE_NOTES);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_request_handed_over_is_followed_through_both_workers);
    tcase_add_test(tests, a_hand_over_that_the_router_learns_of_first_is_one_all_the_same);
    tcase_add_test(tests, a_hand_over_without_a_chunk_takes_as_long_as_its_commit);
    tcase_add_test(tests, a_replay_is_named_by_its_attempt_and_counts_from_the_prompt);
    tcase_add_test(tests, a_request_of_a_trace_is_noted_with_its_id);
    tcase_add_test(tests, what_is_refused_is_noted_with_its_reason);
    tcase_add_test(tests, a_reservation_that_nobody_uses_ends_with_its_reason);
    tcase_add_test(tests, a_transfer_that_breaks_says_why_on_both_sides);
    tcase_add_test(tests, a_router_that_ends_is_warned_of_only_where_work_is_lost);
    tcase_add_test(tests, a_preemption_names_the_one_it_is_for);
    tcase_add_test(tests, a_better_priority_is_a_reason_of_its_own);
    tcase_add_test(tests, each_kind_has_its_words);
}
