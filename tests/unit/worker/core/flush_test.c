/* What goes to a router in which message: bounds of a STEP, and what is said first. The router here
 * only counts; it takes as many messages as a test allows. */
#include "base/clock.h"
#include "tests/support/suite.h"
#include "tests/unit/worker/core/rig.h"

#include <stdlib.h>

const char *const suite_name = "worker_core_flush";
const double suite_timeout_s = 120;

#define LINK     1
#define SENT_MAX 128

struct sent {
    enum message_type type;
    uint32_t n_entries, n_ids, n_logprobs;
    uint32_t last_index; /* first_index of the last entry */
    enum finish last_finish;
    uint64_t seen_seq; /* of a DIGEST */
};

struct desk {
    struct engine *engine;
    uint64_t now_ns;
    uint32_t n_allowed; /* so many messages from now are taken */
    uint32_t n_sent;
    struct sent sent[SENT_MAX];
    struct sampled sampled[MESSAGE_ENTRIES_MAX];
    uint32_t n_calls;
    uint32_t n_closed;
};

static enum status take(void *context, uint32_t link, const struct message *message) {
    struct desk *desk = context;
    ck_assert_uint_eq(link, LINK);
    if (desk->n_allowed == 0)
        return STATUS_BUSY;
    desk->n_allowed--;
    ck_assert_uint_lt(desk->n_sent, SENT_MAX);
    struct sent *sent = &desk->sent[desk->n_sent++];
    *sent = (struct sent){.type = message->type};
    if (message->type == MESSAGE_DIGEST)
        sent->seen_seq = message->u.digest.seen_seq;
    if (message->type != MESSAGE_STEP)
        return STATUS_OK;
    sent->n_entries = message->u.step.n;
    for (uint32_t i = 0; i < sent->n_entries; i++) {
        const struct step_entry *entry = &message->u.step.entries[i];
        sent->n_ids += entry->n_tokens;
        sent->n_logprobs += entry->logprobs ? entry->n_tokens : 0;
        sent->last_index = entry->first_index;
        sent->last_finish = entry->finish;
    }
    return STATUS_OK;
}

static void close_link(void *context, uint32_t link) {
    struct desk *desk = context;
    ck_assert_uint_eq(link, LINK);
    desk->n_closed++;
}

static struct desk *desk_new(uint32_t n_seqs, uint32_t n_tokens) {
    struct desk *desk = calloc(1, sizeof *desk);
    struct engine_config config = rig_config();
    struct engine_sink sink = {.context = desk, .send = take, .close_link = close_link};
    config.max_seqs = n_seqs;
    config.max_batch = n_seqs;
    config.chunk_tokens = n_seqs > 64 ? n_seqs : 64;
    config.context = n_tokens + 1;
    config.n_blocks = n_seqs * (n_tokens / RIG_BLOCK + 2);
    config.max_links = 2;
    for (uint32_t i = 0; i < MESSAGE_ENTRIES_MAX; i++)
        desk->sampled[i] = (struct sampled){.id = 300, .valid = true};
    desk->now_ns = 3600 * NS_PER_S;
    ck_assert_int_eq(engine_new(&config, &sink, &desk->engine), STATUS_OK);
    struct message message = {.type = MESSAGE_HELLO, .session = 7};
    message.u.hello = (struct hello){.major = PROTO_MAJOR, .router_id = 500, .session = 7};
    desk->n_allowed = 1;
    engine_message(desk->engine, desk->now_ns, LINK, &message);
    ck_assert_uint_eq(desk->n_sent, 1);
    ck_assert_int_eq(desk->sent[0].type, MESSAGE_WELCOME);
    desk->n_sent = 0;
    return desk;
}

static void desk_free(struct desk *desk) {
    ck_assert_ptr_null(engine_check(desk->engine));
    engine_free(desk->engine);
    free(desk);
}

static void submit(struct desk *desk, uint32_t n_prompt, uint32_t max_new, bool logprobs) {
    static const uint32_t ids[64] = {5, 6, 7};
    struct message message = {.type = MESSAGE_SUBMIT, .session = 7};
    message.u.submit = (struct submit){
        .req = {.hi = 500, .lo = ++desk->n_calls},
        .attempt = 1,
        .phase = PHASE_BOTH,
        .n_prompt = n_prompt,
        .n_tokens = n_prompt,
        .tokens = ids,
        .sampling = {.top_p = 1, .max_new = max_new, .want_logprobs = logprobs},
    };
    engine_message(desk->engine, desk->now_ns, LINK, &message);
}

static void run(struct desk *desk) {
    for (;;) {
        struct plan plan;
        engine_plan(desk->engine, desk->now_ns, &plan);
        if (plan.n_rows == 0)
            return;
        engine_step_end(desk->engine, desk->now_ns, desk->sampled);
    }
}

static void tick(struct desk *desk, uint32_t n_allowed, uint64_t ns) {
    desk->now_ns += ns;
    desk->n_allowed = n_allowed;
    engine_tick(desk->engine, desk->now_ns);
}

/* 16 answers of 4,096 ids and, where `more`, one of one id before them wait for the router. */
static struct desk *ids_behind(bool more) {
    struct desk *desk = desk_new(17, 4097);
    if (more)
        submit(desk, 1, 1, false);
    for (int i = 0; i < 16; i++)
        submit(desk, 1, 4096, false);
    run(desk);
    ck_assert_uint_eq(desk->n_sent, 0);
    tick(desk, UINT32_MAX, ENGINE_RETRY_NS);
    return desk;
}

START_TEST(a_step_takes_65536_ids) {
    struct desk *desk = ids_behind(false);
    ck_assert_uint_eq(desk->n_sent, 1);
    ck_assert_int_eq(desk->sent[0].type, MESSAGE_STEP);
    ck_assert_uint_eq(desk->sent[0].n_entries, 16);
    ck_assert_uint_eq(desk->sent[0].n_ids, 65536);
    ck_assert_int_eq(desk->sent[0].last_finish, FINISH_LENGTH);
    desk_free(desk);
}
END_TEST

START_TEST(the_65537th_id_goes_with_the_next_step) {
    struct desk *desk = ids_behind(true);
    ck_assert_uint_eq(desk->n_sent, 2);
    ck_assert_uint_eq(desk->sent[0].n_entries, 17);
    ck_assert_uint_eq(desk->sent[0].n_ids, 65536);
    ck_assert_int_eq(desk->sent[0].last_finish, FINISH_NONE);
    ck_assert_uint_eq(desk->sent[1].n_entries, 1);
    ck_assert_uint_eq(desk->sent[1].n_ids, 1);
    ck_assert_uint_eq(desk->sent[1].last_index, 4095);
    ck_assert_int_eq(desk->sent[1].last_finish, FINISH_LENGTH);
    desk_free(desk);
}
END_TEST

/* An answer whose log-probabilities lie in two pieces, so two entries, and n answers of one. */
static struct desk *entries_behind(uint32_t n) {
    struct desk *desk = desk_new(MESSAGE_ENTRIES_MAX, 96);
    for (uint32_t i = 0; i < n; i++)
        submit(desk, 1, 1, false);
    submit(desk, 60, 8, true);
    run(desk);
    ck_assert_uint_eq(desk->n_sent, 0);
    tick(desk, UINT32_MAX, ENGINE_RETRY_NS);
    return desk;
}

START_TEST(a_step_takes_4096_entries) {
    struct desk *desk = entries_behind(4094);
    ck_assert_uint_eq(desk->n_sent, 1);
    ck_assert_uint_eq(desk->sent[0].n_entries, 4096);
    ck_assert_uint_eq(desk->sent[0].n_ids, 4094 + 8);
    desk_free(desk);
}
END_TEST

START_TEST(the_4097th_entry_goes_with_the_next_step) {
    struct desk *desk = entries_behind(4095);
    ck_assert_uint_eq(desk->n_sent, 2);
    ck_assert_uint_eq(desk->sent[0].n_entries, 4096);
    ck_assert_uint_eq(desk->sent[0].n_ids, 4095 + 4);
    ck_assert_int_eq(desk->sent[0].last_finish, FINISH_NONE);
    ck_assert_uint_eq(desk->sent[1].n_entries, 1);
    ck_assert_uint_eq(desk->sent[1].last_index, 4);
    ck_assert_uint_eq(desk->sent[1].n_logprobs, 4);
    ck_assert_int_eq(desk->sent[1].last_finish, FINISH_LENGTH);
    desk_free(desk);
}
END_TEST

static void expect_logprobs(uint32_t n, uint32_t first, uint32_t second) {
    struct desk *desk = desk_new(64, 80);
    for (uint32_t i = 0; i < n / 64; i++)
        submit(desk, 1, 64, true);
    if (n % 64 > 0)
        submit(desk, 1, n % 64, true);
    run(desk);
    tick(desk, UINT32_MAX, ENGINE_RETRY_NS);
    ck_assert_uint_eq(desk->n_sent, second > 0 ? 2 : 1);
    ck_assert_uint_eq(desk->sent[0].n_logprobs, first);
    ck_assert_uint_eq(desk->sent[1].n_logprobs, second);
    desk_free(desk);
}

START_TEST(a_step_takes_2048_log_probabilities) {
    expect_logprobs(2048, 2048, 0);
    expect_logprobs(2049, 2048, 1);
}
END_TEST

/* Log-probabilities of the last 64 tokens are kept: the one before has been overwritten. */
START_TEST(no_log_probability_is_sent_that_was_overwritten) {
    for (uint32_t n = 63; n <= 67; n++) {
        struct desk *desk = desk_new(4, 128);
        submit(desk, 1, n, true);
        run(desk);
        tick(desk, UINT32_MAX, ENGINE_RETRY_NS);
        ck_assert_uint_eq(desk->n_sent, 1);
        ck_assert_uint_eq(desk->sent[0].n_ids, n);
        ck_assert_uint_eq(desk->sent[0].n_logprobs, n < 64 ? n : 64);
        desk_free(desk);
    }
}
END_TEST

static void cancel(struct desk *desk, uint64_t lo) {
    struct message message = {.type = MESSAGE_CANCEL, .session = 7};
    message.u.cancel = (struct cancel){{.hi = 500, .lo = lo}, 1, REASON_CANCELLED};
    engine_message(desk->engine, desk->now_ns, LINK, &message);
}

START_TEST(a_sign_of_life_that_is_due_goes_before_answers_that_wait) {
    struct desk *desk = desk_new(4, 64);
    for (uint32_t i = 1; i <= 3; i++)
        cancel(desk, i);
    tick(desk, 1, 50000000); /* not due yet */
    ck_assert_uint_eq(desk->n_sent, 1);
    ck_assert_int_eq(desk->sent[0].type, MESSAGE_CANCELLED);
    tick(desk, 1, 50000000); /* due: a link that takes one message a tick is told at once */
    ck_assert_uint_eq(desk->n_sent, 2);
    ck_assert_int_eq(desk->sent[1].type, MESSAGE_BEAT);
    tick(desk, UINT32_MAX, ENGINE_RETRY_NS);
    ck_assert_uint_eq(desk->n_sent, 4);
    ck_assert_int_eq(desk->sent[2].type, MESSAGE_CANCELLED);
    ck_assert_int_eq(desk->sent[3].type, MESSAGE_CANCELLED);
    desk_free(desk);
}
END_TEST

START_TEST(what_a_full_link_did_not_take_is_tried_again_a_millisecond_later) {
    struct desk *desk = desk_new(4, 64);
    uint64_t begin_ns = desk->now_ns;
    ck_assert_uint_eq(engine_deadline(desk->engine), begin_ns + 100000000);
    tick(desk, 0, 1100000000); /* beat and digest are overdue, and stay so */
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(engine_deadline(desk->engine), desk->now_ns + ENGINE_RETRY_NS);
        tick(desk, 0, ENGINE_RETRY_NS);
    }
    tick(desk, 1, ENGINE_RETRY_NS); /* the digest alone is overdue */
    ck_assert_int_eq(desk->sent[0].type, MESSAGE_BEAT);
    ck_assert_uint_eq(engine_deadline(desk->engine), desk->now_ns + ENGINE_RETRY_NS);
    tick(desk, UINT32_MAX, ENGINE_RETRY_NS);
    ck_assert_uint_eq(desk->n_sent, 2);
    ck_assert_int_eq(desk->sent[1].type, MESSAGE_DIGEST);
    desk_free(desk);
}
END_TEST

START_TEST(a_ping_is_answered_in_the_middle_of_a_step) {
    struct desk *desk = desk_new(4, 64);
    submit(desk, 1, 2, false);
    struct plan plan;
    desk->n_allowed = UINT32_MAX;
    engine_plan(desk->engine, desk->now_ns, &plan);
    ck_assert_uint_eq(plan.n_rows, 1);
    struct message ping = {.type = MESSAGE_PING, .session = 7};
    engine_message(desk->engine, desk->now_ns, LINK, &ping);
    ck_assert_uint_eq(desk->n_sent, 1);
    ck_assert_int_eq(desk->sent[0].type, MESSAGE_BEAT);
    engine_step_end(desk->engine, desk->now_ns, desk->sampled);
    run(desk);
    desk_free(desk);
}
END_TEST

static void ping(struct desk *desk, uint64_t seq) {
    struct message message = {.type = MESSAGE_PING, .session = 7, .seq = seq};
    engine_message(desk->engine, desk->now_ns, LINK, &message);
}

START_TEST(a_digest_says_which_message_was_the_last_one_heard) {
    struct desk *desk = desk_new(4, 64);
    desk->n_allowed = UINT32_MAX;
    ping(desk, 41);
    tick(desk, UINT32_MAX, 1000000000);
    const struct sent *last = &desk->sent[desk->n_sent - 1];
    ck_assert_int_eq(last->type, MESSAGE_DIGEST);
    ck_assert_uint_eq(last->seen_seq, 41);
    desk_free(desk);
}
END_TEST

/* The ring of small messages has room for 2 * max_seqs + 64. */
START_TEST(so_many_answers_wait_for_a_router_and_no_more) {
    for (uint32_t more = 0; more < 2; more++) {
        struct desk *desk = desk_new(4, 64);
        for (uint32_t i = 1; i <= 72 + more; i++)
            cancel(desk, i);
        ck_assert_uint_eq(desk->n_closed, more);
        tick(desk, UINT32_MAX, ENGINE_RETRY_NS);
        ck_assert_uint_eq(desk->n_sent, more ? 0 : 72);
        desk_free(desk);
    }
}
END_TEST

START_TEST(the_next_deadline_is_the_earliest_of_lease_drain_and_router) {
    struct desk *desk = desk_new(4, 64);
    desk->n_allowed = UINT32_MAX;
    uint64_t begin_ns = desk->now_ns;
    struct message message = {.type = MESSAGE_RESERVE, .session = 7};
    message.u.reserve = (struct reserve){.req = {.hi = 500, .lo = 90}, .attempt = 1, .n_tokens = 5};
    engine_message(desk->engine, begin_ns, LINK, &message);
    tick(desk, UINT32_MAX, 4950000000); /* 50 ms before the router counts as silent */
    ck_assert_uint_eq(engine_deadline(desk->engine), begin_ns + 5000000000);
    ping(desk, 1);
    tick(desk, UINT32_MAX, 4990000000); /* 60 ms before the lease is over: a beat has just gone */
    ck_assert_uint_eq(engine_deadline(desk->engine), begin_ns + 9950000000);
    tick(desk, UINT32_MAX, 5000000);
    ping(desk, 2);
    tick(desk, UINT32_MAX, 0);
    ck_assert_uint_eq(engine_deadline(desk->engine), begin_ns + 10000000000);
    message = (struct message){.type = MESSAGE_DRAIN, .session = 7};
    message.u.drain = (struct drain){20, DRAIN_STOP};
    engine_message(desk->engine, desk->now_ns, LINK, &message);
    ck_assert_uint_eq(engine_deadline(desk->engine), desk->now_ns + 20000000);
    desk_free(desk);
}
END_TEST

/* A step's length moves the typical one by a sixteenth, and by one at least. */
START_TEST(the_typical_step_follows_slowly) {
    static const uint32_t us[][6] = {{100, 1000, 10, 101, 3, 95}, {17, 3, 3, 16, 15, 3}};
    static const uint32_t typical[][6] = {{100, 107, 101, 101, 95, 95}, {17, 16, 15, 16, 15, 14}};
    for (int row = 0; row < 2; row++) {
        struct desk *desk = desk_new(4, 64);
        desk->n_allowed = UINT32_MAX;
        submit(desk, 3, 6, false);
        for (uint32_t i = 0; i < 6; i++) {
            struct plan plan;
            struct load load;
            engine_plan(desk->engine, desk->now_ns, &plan);
            engine_step_begin(desk->engine, desk->now_ns, 500);
            engine_load(desk->engine, &load);
            ck_assert_uint_eq(load.step_us_expected, 500);
            desk->now_ns += us[row][i] * 1000ull;
            engine_step_end(desk->engine, desk->now_ns, desk->sampled);
            engine_load(desk->engine, &load);
            ck_assert_uint_eq(load.step_us_typical, typical[row][i]);
            ck_assert_uint_eq(load.step_us_expected, 0);
            ck_assert_uint_eq(load.n_prompt_tokens, 3); /* of the first step alone */
            ck_assert_uint_eq(load.n_tokens, i + 1);
        }
        desk_free(desk);
    }
}
END_TEST

START_TEST(no_step_is_announced_to_take_longer_than_routers_believe) {
    static const uint32_t guesses[] = {MESSAGE_STEP_US_MAX, MESSAGE_STEP_US_MAX + 1, UINT32_MAX};
    for (unsigned i = 0; i < sizeof guesses / sizeof *guesses; i++) {
        struct desk *desk = desk_new(4, 64);
        struct plan plan;
        struct load load;
        desk->n_allowed = UINT32_MAX;
        submit(desk, 3, 6, false);
        engine_plan(desk->engine, desk->now_ns, &plan);
        engine_step_begin(desk->engine, desk->now_ns, guesses[i]);
        engine_load(desk->engine, &load);
        ck_assert_uint_eq(load.step_us_expected, MESSAGE_STEP_US_MAX);
        desk_free(desk);
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_step_takes_65536_ids);
    tcase_add_test(tests, the_65537th_id_goes_with_the_next_step);
    tcase_add_test(tests, a_step_takes_4096_entries);
    tcase_add_test(tests, the_4097th_entry_goes_with_the_next_step);
    tcase_add_test(tests, a_step_takes_2048_log_probabilities);
    tcase_add_test(tests, no_log_probability_is_sent_that_was_overwritten);
    tcase_add_test(tests, a_sign_of_life_that_is_due_goes_before_answers_that_wait);
    tcase_add_test(tests, what_a_full_link_did_not_take_is_tried_again_a_millisecond_later);
    tcase_add_test(tests, a_ping_is_answered_in_the_middle_of_a_step);
    tcase_add_test(tests, a_digest_says_which_message_was_the_last_one_heard);
    tcase_add_test(tests, so_many_answers_wait_for_a_router_and_no_more);
    tcase_add_test(tests, the_next_deadline_is_the_earliest_of_lease_drain_and_router);
    tcase_add_test(tests, the_typical_step_follows_slowly);
    tcase_add_test(tests, no_step_is_announced_to_take_longer_than_routers_believe);
}
