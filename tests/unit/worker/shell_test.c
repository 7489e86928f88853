/* Two workers in this process, with their real sockets, and a router made of a few messages: what
 * the oracle names must come back, whatever carries the KV, and strangers on the KV link are kept
 * out. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/metrics.h"
#include "base/random.h"
#include "proto/bus.h"
#include "tests/support/suite.h"
#include "worker/step/step.h"
#include "worker/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const suite_name = "worker shell";
const double suite_timeout_s = 120;

enum { N_PROMPT = 333, N_NEW = 21, N_WORKERS = 2 };

struct scene {
    char folder[64];
    struct config config[N_WORKERS];
    struct worker worker[N_WORKERS];
    bool down[N_WORKERS];
    struct bus *bus; /* the router's */
    uint32_t link[N_WORKERS];
    uint64_t session[N_WORKERS];
    struct welcome welcome[N_WORKERS];
    uint32_t n_announced;
    uint32_t n_welcomed;
    struct request_id req;
    uint32_t ids[N_PROMPT + N_NEW]; /* prompt, then what came */
    uint32_t n_ids;
    enum finish finish;
    bool reserved, failed;
    struct reserved reservation;
};

static void open_worker(struct scene *scene, uint32_t w, const char *kv_transport) {
    char args[8][160];
    char *argv[9] = {args[0]};
    struct buf errors;
    struct error error;
    snprintf(args[0], sizeof args[0], "tandem-worker");
    snprintf(args[1], sizeof args[1], "--name=w%u", w);
    snprintf(args[2], sizeof args[2], "--model=hash");
    snprintf(args[3], sizeof args[3], "--routers=ipc://%s/announce", scene->folder);
    snprintf(args[4], sizeof args[4], "--endpoint=ipc://%s/w%u", scene->folder, w);
    snprintf(args[5], sizeof args[5], "--kv-endpoint=ipc://%s/w%u-kv", scene->folder, w);
    snprintf(args[6], sizeof args[6], "--kv-transport=%s", kv_transport);
    snprintf(args[7], sizeof args[7], "--kv-blocks=64");
    for (int i = 1; i < 8; i++)
        argv[i] = args[i];
    argv[8] = NULL;
    buf_init(&errors, 0);
    enum status status = config_read(&scene->config[w], 8, argv, &errors);
    ck_assert_msg(status == STATUS_OK, "%s", errors.data ? errors.data : "");
    buf_fini(&errors);
    status = worker_open(&scene->worker[w], &scene->config[w], &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
}

static void send_to(struct scene *scene, uint32_t w, struct message *message) {
    message->session = scene->session[w];
    ck_assert_int_eq(bus_send(scene->bus, scene->link[w], message), STATUS_OK);
}

static void say_hello(struct scene *scene, const struct announce *announce) {
    uint32_t w = announce->name[1] == '1';
    struct error error;
    if (scene->link[w] != BUS_NO_LINK)
        return; /* it announces itself every second */
    scene->n_announced++;
    ck_assert_uint_eq(announce->incarnation, scene->worker[w].incarnation);
    ck_assert_int_eq(bus_connect(scene->bus, announce->endpoint, &scene->link[w], &error),
                     STATUS_OK);
    scene->session[w] = 1000 + w;
    struct message message = {.type = MESSAGE_HELLO,
                              .u.hello = {.major = PROTO_MAJOR,
                                          .minor = PROTO_MINOR,
                                          .router_id = 5,
                                          .session = scene->session[w],
                                          .name = "router"}};
    send_to(scene, w, &message);
}

static void take_entry(struct scene *scene, const struct step_entry *entry) {
    for (uint32_t i = 0; i < entry->n_tokens; i++) {
        uint32_t at = N_PROMPT + entry->first_index + i;
        ck_assert_uint_le(at, scene->n_ids); /* no gap */
        ck_assert_uint_lt(at, N_PROMPT + N_NEW);
        if (at < scene->n_ids) {
            ck_assert_uint_eq(scene->ids[at], entry->tokens[i]);
        } else {
            scene->ids[scene->n_ids++] = entry->tokens[i];
        }
    }
    if (entry->finish != FINISH_NONE && scene->n_ids == N_PROMPT + N_NEW)
        scene->finish = entry->finish;
}

static void router_event(void *context, const struct bus_event *event) {
    struct scene *scene = context;
    if (event->kind == BUS_LOST)
        return;
    const struct message *message = event->message;
    switch (message->type) {
    case MESSAGE_ANNOUNCE:
        say_hello(scene, &message->u.announce);
        break;
    case MESSAGE_WELCOME:
        scene->welcome[message->u.welcome.name[1] == '1'] = message->u.welcome;
        scene->n_welcomed++;
        break;
    case MESSAGE_RESERVED:
        scene->reservation = message->u.reserved;
        scene->reserved = true;
        break;
    case MESSAGE_REFUSED:
    case MESSAGE_FAILED:
        scene->failed = true;
        break;
    case MESSAGE_STEP:
        for (uint32_t i = 0; i < message->u.step.n; i++)
            take_entry(scene, &message->u.step.entries[i]);
        break;
    default:
        break;
    }
}

static void turn(struct scene *scene) {
    bool worked = false;
    for (uint32_t w = 0; w < N_WORKERS; w++)
        worked = (!scene->down[w] && step_run(&scene->worker[w].stepper)) || worked;
    if (bus_dispatch(scene->bus, 64, 0, router_event, scene) == 0 && !worked) {
        enum status status = bus_wait(scene->bus, 1000000); /* a nap for idle turns */
        ck_assert(status == STATUS_OK || status == STATUS_TIMEOUT);
    }
}

static void scene_open(struct scene *scene, const char *kv_transport) {
    struct error error;
    char endpoint[128];
    uint32_t listener;
    struct bus_config config = {.kind = BUS_CONTROL};
    memset(scene, 0, sizeof *scene);
    log_init("test", LOG_ERROR);
    snprintf(scene->folder, sizeof scene->folder, "/tmp/tandem-shell-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scene->folder));
    snprintf(endpoint, sizeof endpoint, "ipc://%s/announce", scene->folder);
    ck_assert_int_eq(bus_new(&config, &scene->bus, &error), STATUS_OK);
    ck_assert_int_eq(bus_bind(scene->bus, endpoint, &listener, &error), STATUS_OK);
    for (uint32_t w = 0; w < N_WORKERS; w++)
        open_worker(scene, w, kv_transport);
    while (scene->n_welcomed < N_WORKERS)
        turn(scene);
    struct random random = {9};
    for (uint32_t i = 0; i < N_PROMPT; i++)
        scene->ids[i] = (uint32_t)random_below(&random, 65536);
    scene->n_ids = N_PROMPT;
    scene->req = (struct request_id){.hi = 5, .lo = 1};
}

static void scene_close(struct scene *scene) {
    char command[128];
    for (uint32_t w = 0; w < N_WORKERS; w++) {
        worker_close(&scene->worker[w]);
        config_fini(&scene->config[w]);
    }
    bus_free(scene->bus);
    snprintf(command, sizeof command, "rm -r %s", scene->folder);
    ck_assert_int_eq(system(command), 0);
}

static void submit(struct scene *scene, uint32_t w, enum phase phase, const struct xfer *xfer) {
    struct message message = {.type = MESSAGE_SUBMIT,
                              .u.submit = {.req = scene->req,
                                           .attempt = 1,
                                           .phase = phase,
                                           .n_prompt = N_PROMPT,
                                           .n_tokens = N_PROMPT,
                                           .tokens = scene->ids,
                                           .has_xfer = xfer != NULL}};
    sampling_init(&message.u.submit.sampling);
    message.u.submit.sampling.max_new = N_NEW;
    if (xfer)
        message.u.submit.xfer = *xfer;
    send_to(scene, w, &message);
}

static void check_answer(const struct scene *scene) {
    uint64_t entry = 0, s = 0;
    ck_assert(!scene->failed);
    ck_assert_int_eq(scene->finish, FINISH_LENGTH);
    for (uint32_t i = 0; i < N_PROMPT + N_NEW; i++) {
        if (i >= N_PROMPT)
            ck_assert_uint_eq(scene->ids[i], 256 + s % 65280);
        entry = mix64(entry ^ ((uint64_t)scene->ids[i] + 1));
        s = mix64(s ^ entry);
    }
}

/* Worker 0 prefills, worker 1 decodes. */
static void hand_over(struct scene *scene) {
    const struct welcome *from = &scene->welcome[0], *to = &scene->welcome[1];
    struct peer peer = {.incarnation = to->incarnation, .host = to->host};
    snprintf(peer.name, sizeof peer.name, "%s", to->name);
    snprintf(peer.kv_endpoint, sizeof peer.kv_endpoint, "%s", to->kv_endpoint);
    struct message message = {.type = MESSAGE_PEERS, .u.peers = {.n = 1, .peers = &peer}};
    send_to(scene, 0, &message);
    message =
        (struct message){.type = MESSAGE_RESERVE,
                         .u.reserve = {.req = scene->req, .attempt = 1, .n_tokens = N_PROMPT}};
    send_to(scene, 1, &message);
    while (!scene->reserved && !scene->failed)
        turn(scene);
    struct xfer xfer = {.transfer_id = 4711,
                        .gen = scene->reservation.gen,
                        .cached_tokens = scene->reservation.cached_tokens,
                        .peer_incarnation = to->incarnation};
    snprintf(xfer.peer, sizeof xfer.peer, "%s", to->name);
    submit(scene, 0, PHASE_PREFILL, &xfer);
    xfer.peer_incarnation = from->incarnation;
    snprintf(xfer.peer, sizeof xfer.peer, "%s", from->name);
    submit(scene, 1, PHASE_DECODE, &xfer);
}

static const char *const transports[] = {"auto", "local", "shm", "tcp"};

START_TEST(a_prompt_handed_over_goes_on_exactly_by_every_transport) {
    struct scene scene;
    struct load load;
    scene_open(&scene, transports[_i]);
    hand_over(&scene);
    while (scene.finish == FINISH_NONE && !scene.failed)
        turn(&scene);
    check_answer(&scene);
    engine_load(scene.worker[1].engine, &load);
    ck_assert_uint_eq(load.n_handoffs_in, 1);
    ck_assert_uint_ge(load.handoff_bytes, (N_PROMPT / 16) * 16u * 32);
    const struct transport_sender *sender = NULL;
    for (int i = 0; i < KV_LINKS_MAX; i++)
        if (scene.worker[0].kv_links.links[i].sender)
            sender = scene.worker[0].kv_links.links[i].sender;
    ck_assert_ptr_nonnull(sender);
    ck_assert_str_eq(sender->transport->name, _i == 0 ? "shm" : transports[_i]);
    ck_assert_uint_gt(sender->stage.head, 0);
    while (sender->stage.tail != sender->stage.head) /* everything is given back */
        turn(&scene);
    scene_close(&scene);
}
END_TEST

START_TEST(a_request_that_stays_is_answered_by_one_worker) {
    struct scene scene;
    scene_open(&scene, "auto");
    submit(&scene, 1, PHASE_BOTH, NULL);
    while (scene.finish == FINISH_NONE && !scene.failed)
        turn(&scene);
    check_answer(&scene);
    scene_close(&scene);
}
END_TEST

/* Each stage of every step, and all of them together no longer than the turns that they were in. */
START_TEST(every_stage_of_a_step_is_measured) {
    static const double bound = 1;
    struct metrics *metrics;
    struct buf text;
    double sum_s = 0;
    struct scene scene;
    scene_open(&scene, "auto");
    struct stepper *stepper = &scene.worker[1].stepper;
    ck_assert_int_eq(metrics_new(STEP_STAGES, &metrics), STATUS_OK);
    for (unsigned i = 0; i < STEP_STAGES; i++)
        stepper->seconds[i] = metrics_histogram(
            metrics, (struct metric_spec){.name = step_stage(i), .help = "time"}, &bound, 1);
    uint64_t begun_ns = clock_now_ns();
    submit(&scene, 1, PHASE_BOTH, NULL);
    while (scene.finish == FINISH_NONE && !scene.failed)
        turn(&scene);
    double most_s = (double)(clock_now_ns() - begun_ns) / 1e9;
    buf_init(&text, 0);
    metrics_write(metrics, &text);
    for (unsigned i = 0; i < STEP_STAGES; i++) {
        char key[32];
        snprintf(key, sizeof key, "\n%s_sum ", step_stage(i));
        const char *at = strstr(text.data, key);
        ck_assert_ptr_nonnull(at);
        ck_assert_uint_ge(metric_count(stepper->seconds[i]), N_NEW);
        ck_assert_uint_eq(metric_count(stepper->seconds[i]), metric_count(stepper->seconds[0]));
        double one_s = strtod(at + strlen(key), NULL);
        ck_assert(one_s >= 0);
        sum_s += one_s;
    }
    ck_assert(sum_s > 0 && sum_s <= most_s);
    buf_fini(&text);
    scene_close(&scene);
    metrics_free(metrics);
}
END_TEST

/* A stranger on worker 1's KV endpoint. */
struct stranger {
    struct bus *bus;
    uint32_t link;
    uint32_t n_aborts, n_acks, n_welcomes;
    struct transfer_end abort;
    struct chunk_ack ack;
    bool lost;
};

static void stranger_event(void *context, const struct bus_event *event) {
    struct stranger *stranger = context;
    if (event->kind == BUS_LOST) {
        stranger->lost = true;
        return;
    }
    switch (event->message->type) {
    case MESSAGE_ABORT:
        stranger->n_aborts++;
        stranger->abort = event->message->u.transfer_end;
        break;
    case MESSAGE_CHUNK_ACK:
        stranger->n_acks++;
        stranger->ack = event->message->u.chunk_ack;
        break;
    case MESSAGE_KV_WELCOME:
        stranger->n_welcomes++;
        break;
    default:
        break;
    }
}

static void stranger_come(struct stranger *stranger, struct scene *scene,
                          const uint8_t layout_fp[FINGERPRINT_BYTES], const char *transport) {
    struct bus_config config = {.kind = BUS_KV};
    struct error error;
    memset(stranger, 0, sizeof *stranger);
    ck_assert_int_eq(bus_new(&config, &stranger->bus, &error), STATUS_OK);
    ck_assert_int_eq(
        bus_connect(stranger->bus, scene->welcome[1].kv_endpoint, &stranger->link, &error),
        STATUS_OK);
    struct message message = {.type = MESSAGE_KV_HELLO,
                              .u.kv_hello = {.major = PROTO_MAJOR,
                                             .minor = PROTO_MINOR,
                                             .name = "stranger",
                                             .incarnation = 1,
                                             .host = scene->welcome[1].host}};
    memcpy(message.u.kv_hello.layout_fp, layout_fp, FINGERPRINT_BYTES);
    snprintf(message.u.kv_hello.transport, sizeof message.u.kv_hello.transport, "%s", transport);
    ck_assert_int_eq(bus_send(stranger->bus, stranger->link, &message), STATUS_OK);
}

static void stranger_turn(struct stranger *stranger, struct scene *scene) {
    turn(scene);
    bus_dispatch(stranger->bus, 16, 0, stranger_event, stranger);
}

START_TEST(another_layout_is_refused_at_the_hello) {
    struct scene scene;
    struct stranger stranger;
    static const uint8_t other[FINGERPRINT_BYTES] = {1, 2, 3};
    scene_open(&scene, "auto");
    stranger_come(&stranger, &scene, other, "tcp");
    while (stranger.n_aborts == 0)
        stranger_turn(&stranger, &scene);
    ck_assert_int_eq(stranger.abort.reason, REASON_MISMATCH);
    ck_assert_uint_eq(stranger.abort.transfer_id, 0);
    ck_assert_uint_eq(stranger.n_welcomes, 0);
    bus_free(stranger.bus);
    scene_close(&scene);
}
END_TEST

START_TEST(a_chunk_of_nothing_known_is_aborted_and_its_memory_given_back) {
    struct scene scene;
    struct stranger stranger;
    static const uint8_t bytes[512];
    scene_open(&scene, "auto");
    /* An offer that nobody can reach: with auto, tcp is agreed instead. */
    stranger_come(&stranger, &scene, scene.worker[1].kv_links.self.layout_fp, "shm");
    while (stranger.n_welcomes == 0)
        stranger_turn(&stranger, &scene);
    struct message message = {.type = MESSAGE_CHUNK,
                              .u.chunk = {.transfer_id = 99,
                                          .gen = 3,
                                          .layer_end = 4,
                                          .block_end = 1,
                                          .n_bytes = sizeof bytes,
                                          .where = 64000,
                                          .bytes = bytes}};
    ck_assert_int_eq(bus_send(stranger.bus, stranger.link, &message), STATUS_OK);
    while (stranger.n_aborts == 0 || stranger.n_acks == 0 || stranger.ack.where == 0)
        stranger_turn(&stranger, &scene);
    ck_assert_uint_eq(stranger.abort.transfer_id, 99);
    ck_assert_uint_eq(stranger.ack.transfer_id, 0);
    ck_assert_uint_eq(stranger.ack.where, 64000 + sizeof bytes);
    bus_free(stranger.bus);
    for (int i = 0, n = 1; n > 0; i++) { /* that it left is noticed, and its link's memory freed */
        turn(&scene);
        n = 0;
        for (int k = 0; k < KV_LINKS_MAX; k++)
            n += scene.worker[1].kv_links.links[k].link != 0;
    }
    scene_close(&scene);
}
END_TEST

START_TEST(an_idle_worker_that_is_drained_is_done) {
    struct scene scene;
    scene_open(&scene, "auto");
    atomic_uint stop = 1;
    struct error error;
    /* It comes back: nothing is held for anybody. */
    ck_assert_int_eq(worker_run(&scene.worker[0], &stop, -1, &error), STATUS_OK);
    scene.down[0] = true;
    submit(&scene, 1, PHASE_BOTH, NULL);
    while (scene.finish == FINISH_NONE)
        turn(&scene);
    check_answer(&scene);
    scene_close(&scene);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, a_prompt_handed_over_goes_on_exactly_by_every_transport, 0,
                        sizeof transports / sizeof *transports);
    tcase_add_test(tests, a_request_that_stays_is_answered_by_one_worker);
    tcase_add_test(tests, every_stage_of_a_step_is_measured);
    tcase_add_test(tests, another_layout_is_refused_at_the_hello);
    tcase_add_test(tests, a_chunk_of_nothing_known_is_aborted_and_its_memory_given_back);
    tcase_add_test(tests, an_idle_worker_that_is_drained_is_done);
}
