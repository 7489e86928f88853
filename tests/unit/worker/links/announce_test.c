/* Announcements, and what is looked at by the clock: by a fake core and a router made of a bus. */
#include "base/clock.h"
#include "base/log/log.h"
#include "proto/bus.h"
#include "tests/support/suite.h"
#include "tests/support/test_clock.h"
#include "tests/unit/worker/links/fake_engine.h"
#include "worker/links/kv_links.h"
#include "worker/links/links.h"
#include "worker/step/emit.h"
#include "worker/step/figures.h"
#include "worker/step/heartbeat.h"
#include "worker/step/receive.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

const char *const suite_name = "worker announce";
const double suite_timeout_s = 60;

struct rig {
    char folder[64];
    struct bus *router;
    struct links links;
    struct kv_links kv;
    struct engine engine;
    struct receive receive;
    uint32_t n_announced;
    char endpoint[MESSAGE_ENDPOINT_MAX]; /* the worker's, as announced */
};

static void rig_open(struct rig *rig) {
    struct bus_config config = {.kind = BUS_CONTROL};
    struct kv_links_self self = {.name = "w"};
    struct transport_kv pool = {0};
    struct error error;
    uint32_t listener;
    char announce[128], endpoint[128], kv_endpoint[128];
    const char *routers[] = {announce};
    memset(rig, 0, sizeof *rig);
    log_init("test", LOG_ERROR);
    snprintf(rig->folder, sizeof rig->folder, "/tmp/tandem-announce-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(rig->folder));
    snprintf(announce, sizeof announce, "ipc://%s/announce", rig->folder);
    snprintf(endpoint, sizeof endpoint, "ipc://%s/w", rig->folder);
    snprintf(kv_endpoint, sizeof kv_endpoint, "ipc://%s/kv", rig->folder);
    ck_assert_int_eq(bus_new(&config, &rig->router, &error), STATUS_OK);
    ck_assert_int_eq(bus_bind(rig->router, announce, &listener, &error), STATUS_OK);
    struct links_options options = {.endpoint = endpoint,
                                    .kv_endpoint = kv_endpoint,
                                    .keys = "",
                                    .routers = routers,
                                    .n_routers = 1,
                                    .dns_server = ""};
    ck_assert_int_eq(links_open(&rig->links, &options, &error), STATUS_OK);
    kv_links_init(&rig->kv, rig->links.kv, &self, "tcp", 4096, &pool);
    rig->kv.engine = &rig->engine;
    rig->engine.deadline_ns = UINT64_MAX;
    rig->receive = (struct receive){.links = &rig->links,
                                    .kv_links = &rig->kv,
                                    .engine = &rig->engine,
                                    .heartbeat = {.self = {.name = "w", .incarnation = 3}}};
}

static void rig_close(struct rig *rig) {
    char command[128];
    kv_links_fini(&rig->kv);
    links_close(&rig->links);
    bus_free(rig->router);
    snprintf(command, sizeof command, "rm -r %s", rig->folder);
    ck_assert_int_eq(system(command), 0);
}

/* The router's events, and the worker's bus, which libzmq's connects need. */
static void router_turn(struct rig *rig) {
    struct bus_event event;
    while (bus_receive(rig->router, &event) == STATUS_OK) {
        ck_assert_int_eq(event.kind, BUS_MESSAGE);
        ck_assert_int_eq(event.message->type, MESSAGE_ANNOUNCE);
        snprintf(rig->endpoint, sizeof rig->endpoint, "%s", event.message->u.announce.endpoint);
        rig->n_announced++;
    }
    (void)!bus_wait(rig->router, 1000000);
}

START_TEST(a_worker_announces_itself_every_second) {
    struct rig rig;
    struct links_self self = {.name = "w", .incarnation = 3};
    uint64_t now_ns = 5 * LINKS_ANNOUNCE_NS;
    rig_open(&rig);
    for (uint32_t n = 1; n <= 3; n++) {
        links_announce(&rig.links, now_ns, &self);
        while (rig.n_announced < n)
            router_turn(&rig);
        links_announce(&rig.links, now_ns + LINKS_ANNOUNCE_NS - 1, &self); /* not yet */
        ck_assert_uint_eq(rig.links.announce_ns, now_ns + LINKS_ANNOUNCE_NS);
        ck_assert_uint_eq(bus_seq(rig.links.control, rig.links.announced[0].link), n);
        now_ns += LINKS_ANNOUNCE_NS;
    }
    ck_assert_str_eq(rig.endpoint, links_endpoint(&rig.links));
    rig_close(&rig);
}
END_TEST

START_TEST(whatever_is_due_first_wakes_the_loop) {
    struct rig rig;
    struct figures_box *some = (struct figures_box *)(uintptr_t)&rig; /* never looked into */
    rig_open(&rig);
    struct heartbeat heartbeat = {.figures = some,
                                  .watchdog_ns = 1,
                                  .tells_status = true,
                                  .publish_ns = 30,
                                  .watchdog_due_ns = 30,
                                  .status_due_ns = 30};
    uint64_t *dues[] = {&rig.links.announce_ns,     &rig.kv.next_ns,
                        &rig.engine.deadline_ns,    &heartbeat.publish_ns,
                        &heartbeat.watchdog_due_ns, &heartbeat.status_due_ns};
    rig.links.announce_ns = rig.kv.next_ns = rig.engine.deadline_ns = 30;
    for (size_t i = 0; i < sizeof dues / sizeof *dues; i++) {
        *dues[i] = 20;
        ck_assert_uint_eq(heartbeat_deadline(&heartbeat, &rig.links, &rig.kv, &rig.engine), 20);
        *dues[i] = 30;
        ck_assert_uint_eq(heartbeat_deadline(&heartbeat, &rig.links, &rig.kv, &rig.engine), 30);
    }
    /* What nobody asked for wakes nobody. */
    heartbeat.figures = NULL;
    heartbeat.watchdog_ns = 0;
    heartbeat.tells_status = false;
    heartbeat.publish_ns = heartbeat.watchdog_due_ns = heartbeat.status_due_ns = 10;
    ck_assert_uint_eq(heartbeat_deadline(&heartbeat, &rig.links, &rig.kv, &rig.engine), 30);
    rig_close(&rig);
}
END_TEST

START_TEST(the_core_ticks_when_its_time_has_come_and_not_before) {
    struct rig rig;
    rig_open(&rig);
    rig.engine.deadline_ns = 1000;
    heartbeat_run(&rig.receive.heartbeat, &rig.links, &rig.kv, &rig.engine, 999);
    ck_assert_uint_eq(rig.engine.n_ticks, 0);
    heartbeat_run(&rig.receive.heartbeat, &rig.links, &rig.kv, &rig.engine, 1000);
    ck_assert_uint_eq(rig.engine.n_ticks, 1);
    rig_close(&rig);
}
END_TEST

START_TEST(figures_are_published_ten_times_a_second) {
    struct rig rig;
    struct figures_box box;
    struct heartbeat *heartbeat = &rig.receive.heartbeat;
    rig_open(&rig);
    figures_init(&box, 7);
    ck_assert_uint_eq(figures_latest(&box).at_ns, 7);
    heartbeat->figures = &box;
    heartbeat->draining = true;
    for (uint64_t now_ns = 50 * NS_PER_MS; now_ns < NS_PER_S; now_ns += 100 * NS_PER_MS) {
        heartbeat_run(heartbeat, &rig.links, &rig.kv, &rig.engine, now_ns);
        heartbeat_run(heartbeat, &rig.links, &rig.kv, &rig.engine, now_ns + 100 * NS_PER_MS - 1);
        ck_assert_uint_eq(figures_latest(&box).at_ns, now_ns);
        ck_assert_uint_eq(heartbeat->publish_ns, now_ns + 100 * NS_PER_MS);
    }
    ck_assert(figures_latest(&box).draining);
    ck_assert_uint_eq(figures_latest(&box).chunk_tokens, 40);
    ck_assert_uint_eq(figures_latest(&box).load.n_running, 3);
    figures_fini(&box);
    rig_close(&rig);
}
END_TEST

/* An abstract name: length bytes of it count. */
static int open_manager(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[64];
    int n = snprintf(name, sizeof name, "@tandem-announce-%d", (int)getpid());
    memcpy(address.sun_path, name, (size_t)n);
    address.sun_path[0] = 0;
    int manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(manager, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n)),
                     0);
    setenv("NOTIFY_SOCKET", name, 1);
    return manager;
}

/* Everything that the service manager was told, one word behind the other. */
static const char *heard(int manager) {
    static char text[1024];
    size_t n_all = 0;
    ssize_t n;
    while ((n = recv(manager, text + n_all, sizeof text - 1 - n_all, MSG_DONTWAIT)) > 0) {
        n_all += (size_t)n;
        text[n_all++] = ';';
    }
    text[n_all] = '\0';
    return text;
}

START_TEST(the_service_manager_hears_that_we_live_and_how_we_are) {
    struct rig rig;
    struct heartbeat *heartbeat = &rig.receive.heartbeat;
    uint64_t now_ns = NS_PER_S;
    rig_open(&rig);
    int manager = open_manager();
    heartbeat_run(heartbeat, &rig.links, &rig.kv, &rig.engine, now_ns);
    ck_assert_str_eq(heard(manager), ""); /* nobody asked */
    heartbeat->watchdog_ns = 2 * NS_PER_S;
    heartbeat->tells_status = true;
    heartbeat_run(heartbeat, &rig.links, &rig.kv, &rig.engine, now_ns);
    ck_assert_str_eq(heard(manager), "WATCHDOG=1;STATUS=ready: 3 running, 4 waiting, KV 75 %;");
    heartbeat->draining = true;
    heartbeat_run(heartbeat, &rig.links, &rig.kv, &rig.engine, now_ns + 2 * NS_PER_S - 1);
    ck_assert_str_eq(heard(manager), "");
    heartbeat_run(heartbeat, &rig.links, &rig.kv, &rig.engine, now_ns + 2 * NS_PER_S);
    ck_assert_str_eq(heard(manager), "WATCHDOG=1;");
    heartbeat_run(heartbeat, &rig.links, &rig.kv, &rig.engine, now_ns + 5 * NS_PER_S);
    ck_assert_str_eq(heard(manager), "WATCHDOG=1;STATUS=draining: 3 running, 4 waiting, KV 75 %;");
    unsetenv("NOTIFY_SOCKET");
    close(manager);
    rig_close(&rig);
}
END_TEST

static void router_pings(struct rig *rig) {
    struct message ping = {.type = MESSAGE_PING};
    struct error error;
    uint32_t link;
    while (rig->n_announced == 0) {
        receive_messages(&rig->receive);
        router_turn(rig);
    }
    ck_assert_int_eq(bus_connect(rig->router, rig->endpoint, &link, &error), STATUS_OK);
    ck_assert_int_eq(bus_send(rig->router, link, &ping), STATUS_OK);
    while (bus_wait(rig->links.control, NS_PER_S) != STATUS_OK)
        router_turn(rig);
}

/* Or a lease would end though what it waits for has come. */
START_TEST(what_came_is_read_before_the_core_ticks) {
    struct rig rig;
    rig_open(&rig);
    router_pings(&rig);
    rig.engine.deadline_ns = 0;
    while (rig.engine.n_messages == 0) {
        receive_messages(&rig.receive);
        router_turn(&rig);
    }
    ck_assert_uint_eq(rig.engine.n_read_at_tick, rig.engine.n_messages);
    rig_close(&rig);
}
END_TEST

/* Between the layers of a step: not at each, but where the last look is long ago. */
START_TEST(in_a_long_step_the_links_are_looked_at) {
    struct rig rig;
    rig_open(&rig);
    router_pings(&rig);
    test_clock_stop();
    uint64_t looked_ns = rig.receive.looked_ns = clock_now_ns();
    emit_layers(&rig.receive, 0, 1);
    ck_assert_uint_eq(rig.engine.n_layers_done, 1);
    ck_assert_uint_eq(rig.receive.looked_ns, looked_ns);
    ck_assert_uint_eq(rig.engine.n_messages, 0);
    looked_ns = rig.receive.looked_ns = clock_now_ns() - 5 * NS_PER_MS;
    emit_layers(&rig.receive, 1, 1);
    ck_assert_uint_eq(rig.receive.looked_ns, looked_ns);
    test_clock_pass(1);
    emit_layers(&rig.receive, 1, 1);
    ck_assert_uint_eq(rig.receive.looked_ns, clock_now_ns());
    test_clock_run();
    for (uint32_t layer = 1; rig.engine.n_messages == 0; layer++) {
        uint64_t long_ago_ns = clock_now_ns() - 6 * NS_PER_MS;
        rig.receive.looked_ns = long_ago_ns;
        emit_layers(&rig.receive, layer, layer + 1);
        ck_assert_uint_eq(rig.engine.n_layers_done, layer + 1);
        ck_assert_uint_gt(rig.receive.looked_ns, long_ago_ns);
        router_turn(&rig);
    }
    ck_assert_int_eq(rig.engine.type, MESSAGE_PING);
    rig_close(&rig);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_worker_announces_itself_every_second);
    tcase_add_test(tests, whatever_is_due_first_wakes_the_loop);
    tcase_add_test(tests, the_core_ticks_when_its_time_has_come_and_not_before);
    tcase_add_test(tests, figures_are_published_ten_times_a_second);
    tcase_add_test(tests, the_service_manager_hears_that_we_live_and_how_we_are);
    tcase_add_test(tests, what_came_is_read_before_the_core_ticks);
    tcase_add_test(tests, in_a_long_step_the_links_are_looked_at);
}
