#include "base/clock.h"
#include "router/core/core.h"
#include "router/core/note.h"
#include "tests/support/suite.h"
#include "tests/unit/router/core/fake.h"

const char *const suite_name = "router_note";
const double suite_timeout_s = 60;

static struct fake fake;

START_TEST(decisions_are_told_with_their_reasons) {
    struct request_view view;
    struct router_config config = fake_config();
    fake_open(&fake, &config);
    uint32_t a = fake_worker(&fake, "a", ROLE_MIXED);
    ck_assert_int_eq(fake_ask(&fake, 0, 5, 8), STATUS_OK);
    struct submit first = fake_submitted(&fake, a);
    ck_assert_str_eq(fake_decision(&fake, 1),
                     "placed worker=a request=4d.1000000.1 reason=policy tokens=5 queued_us=0");
    ck_assert_str_eq(fake_decision(&fake, 0),
                     "dispatched worker=a request=4d.1000000.1 tokens=5 cached_tokens=0");
    fake_step(&fake, a, &first, 0, 3, FINISH_NONE);
    ck_assert_int_eq(router_view_request(fake.router, first.req.lo, &view), STATUS_OK);
    ck_assert(view.stage == STAGE_STREAM && view.n_tokens == 3 && view.attempt.attempt == 1);
    ck_assert_str_eq(view.decode_worker, "a");
    fake_lose(&fake, a);
    ck_assert_str_eq(fake_decision(&fake, 1), "attempt over worker=a request=4d.1000000.1 "
                                              "reason=worker_died tokens=3 losses=0");
    ck_assert_str_eq(fake_decision(&fake, 0), "waits for a worker request=4d.1000000.1 "
                                              "reason=no_worker tokens=8 queued=1");
    fake_pass(&fake, NS_PER_S, 0); /* said once, however often it is looked at */
    ck_assert_uint_eq(fake.n_decisions, 4);
    ck_assert_int_eq(router_view_request(fake.router, first.req.lo, &view), STATUS_OK);
    ck_assert(view.stage == STAGE_PLACE && view.n_replays == 1);
    ck_assert_str_eq(view.waits, "no_worker");
    ck_assert_str_eq(view.decode_worker, "");
    fake_worker(&fake, "b", ROLE_MIXED);
    ck_assert_str_eq(fake_decision(&fake, 0),
                     "dispatched worker=b request=4d.1000000.2 tokens=8 cached_tokens=0");
    ck_assert_int_eq(router_view_request(fake.router, first.req.lo, &view), STATUS_OK);
    ck_assert(view.stage == STAGE_STREAM && !view.waits && view.attempt.attempt == 2);
    ck_assert_int_eq(router_view_request(fake.router, 5, &view), STATUS_NOT_FOUND);
    fake_close(&fake);
}
END_TEST

START_TEST(a_hand_over_is_told_with_both_workers) {
    struct router_config config = fake_config();
    fake_open(&fake, &config);
    fake_worker(&fake, "p", ROLE_PREFILL);
    uint32_t d = fake_worker(&fake, "d", ROLE_DECODE);
    ck_assert_int_eq(fake_ask(&fake, 0, 33, 8), STATUS_OK);
    ck_assert_str_eq(fake_decision(&fake, 0), "placed worker=d request=4d.1000000.1 prefill=p "
                                              "reason=policy tokens=33 queued_us=0");
    fake_reserved(&fake, d, 9, 16);
    ck_assert_str_eq(fake_decision(&fake, 0), "dispatched worker=d request=4d.1000000.1 prefill=p "
                                              "tokens=33 cached_tokens=16");
    fake_close(&fake);
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
    static struct router router;
    router.sink = (struct router_sink){.context = &n_told, .note = on_kind};
    for (enum router_note kind = 0; kind < ROUTER_NOTES; kind++)
        note_name(&router, kind, "a", NULL, 1, 0);
    ck_assert_uint_eq(n_told, ROUTER_NOTES);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, decisions_are_told_with_their_reasons);
    tcase_add_test(tests, a_hand_over_is_told_with_both_workers);
    tcase_add_test(tests, each_kind_has_its_words);
}
