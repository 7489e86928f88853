/* Two workers in this process, with a tiny model and their real sockets, and a router made of a few
 * messages: answers are what their grammars say, wherever and however often they go on. */
#include "base/buf.h"
#include "base/log/log.h"
#include "model/text/grammar/pack.h"
#include "proto/bus.h"
#include "tests/support/suite.h"
#include "tests/support/tiny_gguf.h"
#include "worker/worker.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const suite_name = "worker structured";
const double suite_timeout_s = 240;

enum { WORKERS = 2, ASKS = 40, OUTPUT_MAX = 200, PROMPT = 20, END = 258 };

/* A request and what came of it. */
struct ask {
    uint32_t attempt;
    struct sampling sampling;
    struct buf grammar;
    uint32_t ids[PROMPT + OUTPUT_MAX]; /* prompt, then what came */
    uint32_t n_ids;
    float logprobs[OUTPUT_MAX];
    enum finish finish;
    bool failed;
    enum reason reason;
    bool reserved;
    struct reserved reservation;
};

struct scene {
    char folder[64];
    struct config config[WORKERS];
    struct worker worker[WORKERS];
    struct bus *bus; /* the router's */
    uint32_t link[WORKERS];
    struct welcome welcome[WORKERS];
    uint32_t n_welcomed;
    struct ask asks[ASKS];
    uint32_t n_asks;
};

static struct scene scene;

static void write_model(const char *path) {
    struct buf file;
    buf_init(&file, 0);
    tiny_gguf_write(&file, &(struct tiny_gguf){.format = "f32", .seed = 3});
    FILE *to = fopen(path, "wb");
    ck_assert_ptr_nonnull(to);
    ck_assert_uint_eq(fwrite(file.data, 1, file.n, to), file.n);
    fclose(to);
    buf_fini(&file);
}

static void open_worker(uint32_t w, unsigned kv_blocks) {
    char args[9][160];
    char *argv[10] = {args[0]};
    struct buf errors;
    struct error error;
    snprintf(args[0], sizeof args[0], "tandem-worker");
    snprintf(args[1], sizeof args[1], "--name=w%u", w);
    snprintf(args[2], sizeof args[2], "--model=%s/tiny.gguf", scene.folder);
    snprintf(args[3], sizeof args[3], "--routers=ipc://%s/announce", scene.folder);
    snprintf(args[4], sizeof args[4], "--endpoint=ipc://%s/w%u", scene.folder, w);
    snprintf(args[5], sizeof args[5], "--kv-endpoint=ipc://%s/w%u-kv", scene.folder, w);
    snprintf(args[6], sizeof args[6], "--threads=1");
    snprintf(args[7], sizeof args[7], "--kv-blocks=%u", kv_blocks);
    snprintf(args[8], sizeof args[8], "--max-batch=8");
    for (int i = 1; i < 9; i++)
        argv[i] = args[i];
    argv[9] = NULL;
    buf_init(&errors, 0);
    enum status status = config_read(&scene.config[w], 9, argv, &errors);
    ck_assert_msg(status == STATUS_OK, "%s", errors.data ? errors.data : "");
    buf_fini(&errors);
    status = worker_open(&scene.worker[w], &scene.config[w], &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
}

static void send_to(uint32_t w, struct message *message) {
    message->session = 1000 + w;
    ck_assert_int_eq(bus_send(scene.bus, scene.link[w], message), STATUS_OK);
}

static void say_hello(const struct announce *announce) {
    uint32_t w = announce->name[1] == '1';
    struct error error;
    if (scene.link[w] != BUS_NO_LINK)
        return; /* it announces itself every second */
    ck_assert_int_eq(bus_connect(scene.bus, announce->endpoint, &scene.link[w], &error), STATUS_OK);
    struct message message = {.type = MESSAGE_HELLO,
                              .u.hello = {.major = PROTO_MAJOR,
                                          .minor = PROTO_MINOR,
                                          .router_id = 5,
                                          .session = 1000 + w,
                                          .name = "router"}};
    send_to(w, &message);
}

static struct ask *ask_of(struct request_id req, uint32_t attempt) {
    ck_assert(req.hi == 5 && req.lo > 0 && req.lo <= scene.n_asks);
    struct ask *ask = &scene.asks[req.lo - 1];
    return ask->attempt == attempt ? ask : NULL;
}

static void take_entry(const struct step_entry *entry) {
    struct ask *ask = ask_of(entry->req, entry->attempt);
    if (!ask)
        return;
    for (uint32_t i = 0; i < entry->n_tokens; i++) {
        uint32_t index = entry->first_index + i, at = PROMPT + index;
        ck_assert_uint_le(at, ask->n_ids); /* no gap */
        ck_assert_uint_lt(index, OUTPUT_MAX);
        if (entry->logprobs)
            ask->logprobs[index] = entry->logprobs[i].logprob;
        if (at < ask->n_ids)
            ck_assert_uint_eq(ask->ids[at], entry->tokens[i]);
        else
            ask->ids[ask->n_ids++] = entry->tokens[i];
    }
    if (entry->finish != FINISH_NONE)
        ask->finish = entry->finish;
}

static void router_event(void *context, const struct bus_event *event) {
    (void)context;
    const struct message *message = event->message;
    struct ask *ask;
    if (event->kind == BUS_LOST)
        return;
    switch (message->type) {
    case MESSAGE_ANNOUNCE:
        say_hello(&message->u.announce);
        break;
    case MESSAGE_WELCOME:
        scene.welcome[message->u.welcome.name[1] == '1'] = message->u.welcome;
        scene.n_welcomed++;
        break;
    case MESSAGE_RESERVED:
        ask = ask_of(message->u.reserved.req, message->u.reserved.attempt);
        ask->reservation = message->u.reserved;
        ask->reserved = true;
        break;
    case MESSAGE_FAILED:
        ask = ask_of(message->u.failed.req, message->u.failed.attempt);
        if (!ask)
            break;
        ask->failed = true;
        ask->reason = message->u.failed.reason;
        break;
    case MESSAGE_STEP:
        for (uint32_t i = 0; i < message->u.step.n; i++)
            take_entry(&message->u.step.entries[i]);
        break;
    default:
        break;
    }
}

static void turn(void) {
    bool worked = false;
    for (uint32_t w = 0; w < WORKERS; w++)
        worked = step_run(&scene.worker[w].stepper) || worked;
    if (bus_dispatch(scene.bus, 64, 0, router_event, NULL) == 0 && !worked) {
        enum status status = bus_wait(scene.bus, 200000); /* a nap for idle turns */
        ck_assert(status == STATUS_OK || status == STATUS_TIMEOUT);
    }
}

static void scene_open(unsigned kv_blocks) {
    struct error error;
    char path[128];
    uint32_t listener;
    struct bus_config config = {.kind = BUS_CONTROL};
    memset(&scene, 0, sizeof scene);
    log_init("test", LOG_ERROR);
    snprintf(scene.folder, sizeof scene.folder, "/tmp/tandem-structured-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scene.folder));
    snprintf(path, sizeof path, "%s/tiny.gguf", scene.folder);
    write_model(path);
    snprintf(path, sizeof path, "ipc://%s/announce", scene.folder);
    ck_assert_int_eq(bus_new(&config, &scene.bus, &error), STATUS_OK);
    ck_assert_int_eq(bus_bind(scene.bus, path, &listener, &error), STATUS_OK);
    for (uint32_t w = 0; w < WORKERS; w++)
        open_worker(w, kv_blocks);
    while (scene.n_welcomed < WORKERS)
        turn();
}

static void scene_close(void) {
    char command[128];
    for (uint32_t w = 0; w < WORKERS; w++) {
        ck_assert_ptr_null(engine_check(scene.worker[w].engine));
        worker_close(&scene.worker[w]);
        config_fini(&scene.config[w]);
    }
    for (uint32_t i = 0; i < scene.n_asks; i++)
        buf_fini(&scene.asks[i].grammar);
    bus_free(scene.bus);
    snprintf(command, sizeof command, "rm -r %s", scene.folder);
    ck_assert_int_eq(system(command), 0);
}

static struct ask *new_ask(const struct grammar_part *part) {
    ck_assert_uint_lt(scene.n_asks, ASKS);
    struct ask *ask = &scene.asks[scene.n_asks++];
    ask->attempt = 1;
    buf_init(&ask->grammar, 0);
    if (part)
        ck_assert_int_eq(grammar_pack(part, &ask->grammar), STATUS_OK);
    for (uint32_t i = 0; i < PROMPT; i++)
        ask->ids[i] = 97 + i;
    ask->n_ids = PROMPT;
    sampling_init(&ask->sampling);
    ask->sampling.temperature = 2.0f;
    ask->sampling.seed = scene.n_asks;
    ask->sampling.max_new = OUTPUT_MAX - 1;
    return ask;
}

static struct ask *new_regex(const char *text) {
    struct grammar_part part = {.kind = GRAMMAR_REGEX, .text = span_of(text)};
    return new_ask(&part);
}

static void submit(struct ask *ask, uint32_t w, enum phase phase, const struct xfer *xfer) {
    struct message message = {.type = MESSAGE_SUBMIT,
                              .u.submit = {.req = {5, (uint64_t)(ask - scene.asks) + 1},
                                           .attempt = ask->attempt,
                                           .phase = phase,
                                           .n_prompt = PROMPT,
                                           .n_tokens = ask->n_ids,
                                           .tokens = ask->ids,
                                           .has_xfer = xfer != NULL,
                                           .sampling = ask->sampling}};
    message.u.submit.sampling.grammar = (const uint8_t *)ask->grammar.data;
    message.u.submit.sampling.n_grammar = (uint32_t)ask->grammar.n;
    if (xfer)
        message.u.submit.xfer = *xfer;
    send_to(w, &message);
}

static bool is_over(const struct ask *ask) {
    return ask->failed || ask->finish != FINISH_NONE;
}

static void run(struct ask *ask) {
    while (!is_over(ask))
        turn();
}

/* The same request from its first tokens of the answer on. */
static struct ask *replay(const struct ask *of, uint32_t n) {
    ck_assert_uint_lt(scene.n_asks, ASKS);
    struct ask *ask = &scene.asks[scene.n_asks++];
    ask->attempt = 2;
    ask->sampling = of->sampling;
    buf_init(&ask->grammar, 0);
    buf_append(&ask->grammar, of->grammar.data, of->grammar.n);
    ask->n_ids = PROMPT + n;
    memcpy(ask->ids, of->ids, ask->n_ids * sizeof *ask->ids);
    return ask;
}

static void same_answer(const struct ask *a, const struct ask *b) {
    ck_assert(!a->failed && !b->failed);
    ck_assert_int_eq(a->finish, b->finish);
    ck_assert_uint_eq(a->n_ids, b->n_ids);
    ck_assert_mem_eq(a->ids, b->ids, a->n_ids * sizeof *a->ids);
}

/* The answer's bytes without its end. */
static const char *text_of(const struct ask *ask) {
    static char text[OUTPUT_MAX + 1];
    uint32_t n = 0;
    for (uint32_t i = PROMPT; i < ask->n_ids && ask->ids[i] != END; i++) {
        ck_assert_uint_lt(ask->ids[i], 256);
        text[n++] = (char)ask->ids[i];
    }
    text[n] = '\0';
    return text;
}

static void expect_match(const struct ask *ask, const char *pattern) {
    regex_t regex;
    ck_assert(!ask->failed);
    ck_assert_int_eq(ask->finish, FINISH_STOP);
    ck_assert_uint_eq(ask->ids[ask->n_ids - 1], END);
    ck_assert_int_eq(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    ck_assert_msg(regexec(&regex, text_of(ask), 0, NULL, 0) == 0, "\"%s\"", text_of(ask));
    regfree(&regex);
}

#define WORDS  "(red|green|blue)(, [a-f0-9]{3,12}){2,6}\\."
#define POSIX_ "^(red|green|blue)(, [a-f0-9]{3,12}){2,6}\\.$"

START_TEST(answers_are_what_the_grammar_says_beside_others_that_have_none) {
    struct ask *asks[16], *plain[2];
    scene_open(200);
    for (int i = 0; i < 2; i++) {
        plain[i] = new_ask(NULL);
        plain[i]->sampling.ignore_eos = true;
        submit(plain[i], 0, PHASE_BOTH, NULL);
    }
    for (uint32_t i = 0; i < 16; i++) {
        asks[i] = new_regex(WORDS);
        asks[i]->sampling.choice = i % 4; /* as n = 4 has them */
        asks[i]->sampling.seed = 7 + i / 4;
        submit(asks[i], 0, PHASE_BOTH, NULL);
    }
    for (uint32_t i = 0; i < 16; i++) {
        run(asks[i]);
        expect_match(asks[i], POSIX_);
    }
    for (int i = 0; i < 2; i++) {
        run(plain[i]);
        ck_assert_int_eq(plain[i]->finish, FINISH_LENGTH);
    }
    ck_assert_uint_eq(scene.worker[0].stepper.constraint.grammars.figures.n_compiled, 1);
    scene_close();
}
END_TEST

START_TEST(a_json_schema_is_kept) {
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":-20,"
        "\"maximum\":300},\"b\":{\"enum\":[\"x\",null]}},\"required\":[\"a\",\"b\"],"
        "\"additionalProperties\":false}";
    struct grammar_part part = {.kind = GRAMMAR_JSON_SCHEMA, .text = span_of(schema)};
    scene_open(200);
    struct ask *ask = new_ask(&part);
    submit(ask, 1, PHASE_BOTH, NULL);
    run(ask);
    expect_match(ask,
                 "^\\{[ \n\t\r]*\"a\":[ \n\t\r]*-?[0-9]+,[ \n\t\r]*\"b\":[ \n\t\r]*(\"x\"|null)"
                 "[ \n\t\r]*\\}$");
    scene_close();
}
END_TEST

/* Wherever the answer is taken up, by whoever: the rest is the same. */
START_TEST(a_replay_goes_on_as_it_was) {
    scene_open(200);
    struct ask *ask = new_regex("([a-z]{5} ){9,20}end");
    submit(ask, 0, PHASE_BOTH, NULL);
    run(ask);
    uint32_t n = ask->n_ids - PROMPT;
    ck_assert_uint_gt(n, GRAMMARS_INLINE + 20);
    const uint32_t cuts[] = {1, 5, GRAMMARS_INLINE, GRAMMARS_INLINE + 1, n - 1};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        struct ask *again = replay(ask, cuts[i]);
        submit(again, (uint32_t)i % 2, PHASE_BOTH, NULL);
        run(again);
        same_answer(ask, again);
    }
    scene_close();
}
END_TEST

START_TEST(sequences_that_lose_their_blocks_go_on_as_they_were) {
    struct ask *asks[6], *alone[6];
    struct load load;
    scene_open(30);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 6; i++) {
            struct ask *ask = new_regex("([a-z]{5} ){12,25}end");
            ask->sampling.seed = 50 + (uint64_t)i;
            (round ? asks : alone)[i] = ask;
            submit(ask, 0, PHASE_BOTH, NULL);
            if (round == 0)
                run(ask);
        }
    for (int i = 0; i < 6; i++) {
        run(asks[i]);
        same_answer(asks[i], alone[i]);
    }
    engine_load(scene.worker[0].engine, &load);
    ck_assert_uint_gt(load.n_preemptions, 0);
    scene_close();
}
END_TEST

static void hand_over(struct ask *ask) {
    const struct welcome *from = &scene.welcome[0], *to = &scene.welcome[1];
    struct peer peer = {.incarnation = to->incarnation, .host = to->host};
    snprintf(peer.name, sizeof peer.name, "%s", to->name);
    snprintf(peer.kv_endpoint, sizeof peer.kv_endpoint, "%s", to->kv_endpoint);
    struct message message = {.type = MESSAGE_PEERS, .u.peers = {.n = 1, .peers = &peer}};
    send_to(0, &message);
    message = (struct message){.type = MESSAGE_RESERVE,
                               .u.reserve = {.req = {5, (uint64_t)(ask - scene.asks) + 1},
                                             .attempt = 1,
                                             .n_tokens = PROMPT}};
    send_to(1, &message);
    while (!ask->reserved)
        turn();
    struct xfer xfer = {.transfer_id = 4711,
                        .gen = ask->reservation.gen,
                        .cached_tokens = ask->reservation.cached_tokens,
                        .peer_incarnation = to->incarnation};
    snprintf(xfer.peer, sizeof xfer.peer, "%s", to->name);
    submit(ask, 0, PHASE_PREFILL, &xfer);
    xfer.peer_incarnation = from->incarnation;
    snprintf(xfer.peer, sizeof xfer.peer, "%s", from->name);
    ask->n_ids = PROMPT;
    submit(ask, 1, PHASE_DECODE, &xfer);
}

START_TEST(a_hand_over_goes_on_as_it_was) {
    scene_open(200);
    struct ask *alone = new_regex(WORDS);
    submit(alone, 0, PHASE_BOTH, NULL);
    run(alone);
    struct ask *ask = new_regex(WORDS);
    ask->sampling.seed = alone->sampling.seed;
    hand_over(ask);
    run(ask);
    same_answer(ask, alone);
    struct load load;
    engine_load(scene.worker[1].engine, &load);
    ck_assert_uint_eq(load.n_handoffs_in, 1);
    scene_close();
}
END_TEST

static void expect_stuck(struct ask *ask) {
    run(ask);
    ck_assert(ask->failed);
    ck_assert_int_eq(ask->reason, REASON_GRAMMAR);
}

/* Those that cannot go on fail alone, for a reason of their own. */
START_TEST(a_state_without_a_token_ends_its_request_alone) {
    static const uint32_t digits[] = {'0', '1'}, no_end[] = {'a', 'b'};
    scene_open(200);
    struct ask *plain = new_ask(NULL);
    plain->sampling.ignore_eos = true;
    submit(plain, 0, PHASE_BOTH, NULL);
    struct ask *allowed = new_regex("a[01]{3}b"); /* the `b` is not among the allowed */
    allowed->sampling.n_allowed = 2;
    allowed->sampling.allowed_ids = digits;
    struct ask *endless = new_regex("[ab]{4}"); /* its end is not among the allowed */
    endless->sampling.n_allowed = 2;
    endless->sampling.allowed_ids = no_end;
    struct ask *other = new_regex("abc"); /* its output is not of the grammar */
    other->ids[other->n_ids++] = 'z';
    struct ask *broken = new_regex("a");
    broken->grammar.n = 5;
    struct ask *wrong = new_regex("(");
    struct ask *all[] = {allowed, endless, other, broken, wrong};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        submit(all[i], 0, PHASE_BOTH, NULL);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        expect_stuck(all[i]);
    ck_assert_uint_eq(allowed->n_ids, PROMPT);
    ck_assert_uint_eq(endless->n_ids, PROMPT + 4);
    run(plain);
    ck_assert_int_eq(plain->finish, FINISH_LENGTH);
    scene_close();
}
END_TEST

/* What is not to end goes on as long as the grammar lets it, and no longer. */
START_TEST(ends_come_where_they_must_and_not_before) {
    static const uint32_t stop[] = {'!'}, letter[] = {'b'};
    scene_open(200);
    for (int i = 0; i < 4; i++) {
        struct ask *ask = new_regex("[ab]{2,30}");
        if (i == 0)
            ask->sampling.min_new = 31;
        if (i == 1)
            ask->sampling.ignore_eos = true;
        if (i == 2)
            ask->sampling.min_new = 12;
        submit(ask, 0, PHASE_BOTH, NULL);
        run(ask);
        expect_match(ask, i < 2 ? "^[ab]{30}$" : i == 2 ? "^[ab]{12,30}$" : "^[ab]{2,30}$");
    }
    /* A stop id ends it where the text is whole though the grammar has no such text, ... */
    struct ask *ask = new_regex("[ab]{40}");
    ask->sampling.n_stop_ids = 1;
    ask->sampling.stop_ids = stop;
    ask->sampling.n_allowed = 0;
    submit(ask, 0, PHASE_BOTH, NULL);
    run(ask);
    ck_assert_int_eq(ask->finish, FINISH_STOP);
    ck_assert(ask->n_ids == PROMPT + 41 &&
              (ask->ids[PROMPT + 40] == '!' || ask->ids[PROMPT + 40] == END));
    /* ... and wherever the text has it, but not before min_tokens. */
    for (int i = 0; i < 2; i++) {
        ask = new_regex("(ab|bb|aa){10}");
        ask->sampling.n_stop_ids = 1;
        ask->sampling.stop_ids = letter;
        ask->sampling.min_new = i ? 8 : 0;
        submit(ask, 0, PHASE_BOTH, NULL);
        run(ask);
        ck_assert_int_eq(ask->finish, FINISH_STOP);
        for (uint32_t at = PROMPT; at + 1 < ask->n_ids; at++)
            ck_assert_uint_eq(ask->ids[at], 'a');
        ck_assert(!i || ask->n_ids - PROMPT > 8);
    }
    scene_close();
}
END_TEST

/* Logprobs are the model's own: the mask changes what is chosen, not how likely it was. */
START_TEST(logprobs_are_those_without_the_mask) {
    static uint32_t letters[26];
    scene_open(200);
    struct ask *free_ = new_ask(NULL);
    for (uint32_t i = 0; i < 26; i++)
        letters[i] = 'a' + i;
    free_->sampling.n_allowed = 26;
    free_->sampling.allowed_ids = letters;
    free_->sampling.want_logprobs = true;
    free_->sampling.temperature = 0.0f;
    free_->sampling.max_new = 1;
    submit(free_, 0, PHASE_BOTH, NULL);
    run(free_);
    const char only[] = {(char)free_->ids[PROMPT], '\0'};
    struct ask *bound = new_regex(only);
    bound->sampling.want_logprobs = true;
    submit(bound, 0, PHASE_BOTH, NULL);
    run(bound);
    ck_assert_uint_eq(bound->ids[PROMPT], free_->ids[PROMPT]);
    ck_assert_float_eq(bound->logprobs[0], free_->logprobs[0]);
    scene_close();
}
END_TEST

/* A sequence that was cancelled while its grammar was made leaves nothing behind. */
START_TEST(what_is_given_up_is_let_go) {
    scene_open(200);
    for (int i = 0; i < 8; i++) {
        char text[32];
        snprintf(text, sizeof text, "[a-%c]{3,30}", 'c' + i);
        struct ask *ask = new_regex(text);
        submit(ask, 0, PHASE_BOTH, NULL);
        struct message message = {.type = MESSAGE_CANCEL,
                                  .u.cancel = {.req = {5, scene.n_asks}, .attempt = 1}};
        for (int k = 0; k < i; k++)
            turn();
        send_to(0, &message);
    }
    struct ask *last = new_regex("x");
    submit(last, 0, PHASE_BOTH, NULL);
    run(last);
    struct message message = {.type = MESSAGE_CANCEL,
                              .u.cancel = {.req = {5, scene.n_asks}, .attempt = 1}};
    send_to(0, &message);
    struct constraint *constraint = &scene.worker[0].stepper.constraint;
    while (constraint->n_open > 0 || constraint->grammars.n_jobs > 0)
        turn();
    ck_assert(engine_idle(scene.worker[0].engine));
    scene_close();
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, answers_are_what_the_grammar_says_beside_others_that_have_none);
    tcase_add_test(tests, a_json_schema_is_kept);
    tcase_add_test(tests, a_replay_goes_on_as_it_was);
    tcase_add_test(tests, sequences_that_lose_their_blocks_go_on_as_they_were);
    tcase_add_test(tests, a_hand_over_goes_on_as_it_was);
    tcase_add_test(tests, a_state_without_a_token_ends_its_request_alone);
    tcase_add_test(tests, ends_come_where_they_must_and_not_before);
    tcase_add_test(tests, logprobs_are_those_without_the_mask);
    tcase_add_test(tests, what_is_given_up_is_let_go);
}
