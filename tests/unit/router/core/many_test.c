/* What is many: requests that end in one message, of which a worker is told in messages of at most
 * SLOT_FORGETS attempts; workers, of which each is told MESSAGE_PEERS_MAX at most. */
#include "base/clock.h"
#include "router/core/router.h"
#include "router/core/slot.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

const char *const suite_name = "router_many";
const double suite_timeout_s = 60;

#define BEGIN_NS (3600 * NS_PER_S)
#define REQUESTS 300
#define WORKERS  66

struct shell {
    struct router *router;
    uint64_t sessions[WORKERS];
    uint32_t n_peers; /* of the last PEERS */
    uint32_t submits[WORKERS];
    uint32_t n_forgets;      /* messages */
    uint32_t n_forgotten[8]; /* attempts of each */
    bool is_forgotten[REQUESTS];
    uint32_t n_submits;
    struct attempt_id attempts[REQUESTS]; /* as they were submitted */
    uint32_t n_ends;
};

static void on_open(void *context, uint32_t slot, const struct announce *announce) {
    (void)context, (void)slot, (void)announce;
}

static void on_close(void *context, uint32_t slot) {
    (void)context, (void)slot;
}

static void on_send(void *context, uint32_t slot, const struct message *message) {
    struct shell *shell = context;
    ck_assert_uint_lt(slot, WORKERS);
    if (message->type == MESSAGE_HELLO)
        shell->sessions[slot] = message->session;
    if (message->type == MESSAGE_PEERS)
        shell->n_peers = message->u.peers.n;
    if (message->type == MESSAGE_SUBMIT) {
        ck_assert_uint_lt(shell->n_submits, REQUESTS);
        shell->submits[slot]++;
        shell->attempts[shell->n_submits++] =
            (struct attempt_id){message->u.submit.req, message->u.submit.attempt};
    }
    if (message->type != MESSAGE_FORGET)
        return;
    ck_assert_uint_lt(shell->n_forgets, 8);
    shell->n_forgotten[shell->n_forgets++] = message->u.forget.n;
    for (uint32_t i = 0; i < message->u.forget.n; i++) {
        uint32_t which = 0;
        while (which < shell->n_submits &&
               shell->attempts[which].req.lo != message->u.forget.attempts[i].req.lo)
            which++;
        ck_assert_uint_lt(which, shell->n_submits);
        ck_assert(!shell->is_forgotten[which]);
        shell->is_forgotten[which] = true;
    }
}

static void on_tokens(void *context, uint64_t user, const struct token_run *run) {
    (void)context, (void)user, (void)run;
}

static void on_end(void *context, uint64_t user, const struct request_end *end) {
    struct shell *shell = context;
    (void)user;
    ck_assert_int_eq(end->kind, END_DONE);
    shell->n_ends++;
}

static void shell_open(struct shell *shell) {
    *shell = (struct shell){0};
    struct router_config config = {.router_id = 77,
                                   .seed = 1,
                                   .max_requests = REQUESTS,
                                   .max_queue = REQUESTS,
                                   .max_workers = WORKERS,
                                   .max_prompt = 32,
                                   .n_vocab = 2000,
                                   .policy = "least_load",
                                   .no_worker_wait_ns = 5 * NS_PER_S,
                                   .hang_ns_min = NS_PER_S};
    struct router_sink sink = {.context = shell,
                               .open_link = on_open,
                               .close_link = on_close,
                               .send = on_send,
                               .tokens = on_tokens,
                               .end = on_end};
    ck_assert_int_eq(router_new(&config, &sink, &shell->router), STATUS_OK);
}

/* The next worker: it takes the lowest slot that is free. */
static void join(struct shell *shell, uint32_t slot, uint32_t context, uint32_t n_running) {
    struct announce announce = {.incarnation = 100 + slot};
    snprintf(announce.name, sizeof announce.name, "w%u", slot);
    router_announce(shell->router, BEGIN_NS, &announce);
    struct message message = {.type = MESSAGE_WELCOME, .session = shell->sessions[slot]};
    message.u.welcome = (struct welcome){.major = PROTO_MAJOR,
                                         .incarnation = announce.incarnation,
                                         .role = ROLE_MIXED,
                                         .kv = {4, 16, 128, 1},
                                         .context = context,
                                         .max_seqs = REQUESTS,
                                         .load.n_running = n_running};
    memcpy(message.u.welcome.name, announce.name, sizeof announce.name);
    router_message(shell->router, BEGIN_NS, slot, &message);
}

/* n requests of one token that one STEP ends. */
static void end_at_once(struct shell *shell, uint32_t n) {
    static uint32_t tokens[REQUESTS][2];
    static struct step_entry entries[REQUESTS];
    static const uint32_t token = 9;
    shell_open(shell);
    join(shell, 0, 64, 0);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t name;
        tokens[i][0] = 1;
        struct request_spec spec = {
            .tokens = tokens[i], .n_prompt = 1, .capacity = 2, .sampling = {.max_new = 1}};
        ck_assert_int_eq(router_request(shell->router, BEGIN_NS, &spec, &name), STATUS_OK);
    }
    ck_assert_uint_eq(shell->n_submits, n);
    for (uint32_t i = 0; i < n; i++)
        entries[i] = (struct step_entry){.req = shell->attempts[i].req,
                                         .attempt = shell->attempts[i].attempt,
                                         .n_tokens = 1,
                                         .tokens = &token,
                                         .finish = FINISH_LENGTH};
    struct message message = {.type = MESSAGE_STEP, .session = shell->sessions[0]};
    message.u.step = (struct step){.n = n, .entries = entries};
    router_message(shell->router, BEGIN_NS, 0, &message);
    ck_assert_uint_eq(shell->n_ends, n);
    for (uint32_t i = 0; i < n; i++)
        ck_assert(shell->is_forgotten[i]);
    ck_assert_ptr_null(router_check(shell->router));
    router_free(shell->router);
}

START_TEST(a_forget_takes_128_attempts) {
    struct shell shell;
    end_at_once(&shell, SLOT_FORGETS);
    ck_assert_uint_eq(shell.n_forgets, 1);
    ck_assert_uint_eq(shell.n_forgotten[0], 128);
}
END_TEST

START_TEST(the_129th_attempt_goes_with_the_next_forget) {
    struct shell shell;
    end_at_once(&shell, SLOT_FORGETS + 1);
    ck_assert_uint_eq(shell.n_forgets, 2);
    ck_assert_uint_eq(shell.n_forgotten[0], 128);
    ck_assert_uint_eq(shell.n_forgotten[1], 1);
    end_at_once(&shell, REQUESTS);
    ck_assert_uint_eq(shell.n_forgets, 3);
    ck_assert_uint_eq(shell.n_forgotten[2], REQUESTS - 2 * 128);
}
END_TEST

START_TEST(each_worker_is_told_64_peers_and_no_more) {
    static struct shell shell;
    shell_open(&shell);
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        join(&shell, slot, 64, 0);
        uint32_t n = slot + 1;
        ck_assert_uint_eq(shell.n_peers, n < MESSAGE_PEERS_MAX ? n : MESSAGE_PEERS_MAX);
    }
    ck_assert_ptr_null(router_check(shell.router));
    router_free(shell.router);
}
END_TEST

/* Slots 0 and 64 are large enough for both requests; 0 has no room at first. */
static void expect_one_marked(enum reason reason) {
    static struct shell shell;
    static uint32_t tokens[2][30];
    shell_open(&shell);
    for (uint32_t slot = 0; slot <= 64; slot++)
        join(&shell, slot, slot % 64 == 0 ? 64 : 10, slot == 0 ? REQUESTS : 0);
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t name;
        struct request_spec spec = {.user = i,
                                    .tokens = tokens[i],
                                    .n_prompt = 20,
                                    .capacity = 30,
                                    .sampling = {.max_new = 10}};
        ck_assert_int_eq(router_request(shell.router, BEGIN_NS, &spec, &name), STATUS_OK);
    }
    ck_assert_uint_eq(shell.submits[64], 2);
    struct message message = {.type = MESSAGE_REFUSED, .session = shell.sessions[64]};
    message.u.refused = (struct refused){shell.attempts[0].req, 1, reason};
    if (reason == REASON_LEASE) {
        message.type = MESSAGE_FAILED;
        message.u.failed = (struct failed){shell.attempts[0].req, 1, PHASE_BOTH, .reason = reason};
    }
    router_message(shell.router, BEGIN_NS, 64, &message);
    router_link_lost(shell.router, BEGIN_NS, 64);
    ck_assert_uint_eq(shell.submits[0], 0);
    message = (struct message){.type = MESSAGE_BEAT, .session = shell.sessions[0]};
    message.u.beat.load.progress = 1;
    router_message(shell.router, BEGIN_NS, 0, &message);
    router_tick(shell.router, BEGIN_NS + 100 * NS_PER_MS);
    ck_assert_uint_eq(shell.submits[0], 2);
    ck_assert_uint_eq(shell.n_ends, 0);
    ck_assert_ptr_null(router_check(shell.router));
    router_free(shell.router);
}

START_TEST(what_the_65th_worker_did_to_a_request_is_remembered_of_that_request_alone) {
    expect_one_marked(REASON_TOO_LONG);
    expect_one_marked(REASON_LEASE);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_forget_takes_128_attempts);
    tcase_add_test(tests, the_129th_attempt_goes_with_the_next_forget);
    tcase_add_test(tests, each_worker_is_told_64_peers_and_no_more);
    tcase_add_test(tests,
                   what_the_65th_worker_did_to_a_request_is_remembered_of_that_request_alone);
}
