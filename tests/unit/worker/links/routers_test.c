/* Which routers a worker announces itself to, as names and losses change them: names by a fake, routers made of buses. */
#include "base/clock.h"
#include "base/log/log.h"
#include "proto/bus.h"
#include "proto/keys.h"
#include "tests/support/suite.h"
#include "tests/support/test_clock.h"
#include "tests/unit/worker/links/fake_dns.h"
#include "worker/links/links.h"
#include "worker/links/lookup.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "worker routers";
const double suite_timeout_s = 60;

enum { ROUTERS = 2 };

struct rig {
    char folder[64];
    char told[128]; /* an endpoint of ipc in the folder */
    char keys[128]; /* a folder; "" */
    struct links links;
    struct bus *routers[ROUTERS];
    uint32_t n_announced[ROUTERS];
    struct announce announce; /* the last */
};

static enum status try_open(struct rig *rig, const struct links_options *options,
                            struct error *error) {
    struct links_options all = *options;
    char endpoint[128], kv_endpoint[128];
    snprintf(endpoint, sizeof endpoint, "ipc://%s/w", rig->folder);
    snprintf(kv_endpoint, sizeof kv_endpoint, "ipc://%s/kv", rig->folder);
    all.endpoint = all.endpoint ? all.endpoint : endpoint;
    all.kv_endpoint = all.kv_endpoint ? all.kv_endpoint : kv_endpoint;
    all.keys = all.keys ? all.keys : rig->keys;
    all.dns_server = all.dns_server ? all.dns_server : FAKE_DNS_SERVER;
    return links_open(&rig->links, &all, error);
}

static void rig_init(struct rig *rig) {
    memset(rig, 0, sizeof *rig);
    log_init("test", LOG_ERROR);
    test_clock_stop();
    snprintf(rig->folder, sizeof rig->folder, "/tmp/tandem-routers-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(rig->folder));
    snprintf(rig->told, sizeof rig->told, "ipc://%s/told", rig->folder);
    fake_dns_forget();
}

/* Names are connected to only with keys. */
static void make_keys(struct rig *rig) {
    struct error error;
    snprintf(rig->keys, sizeof rig->keys, "%s/keys", rig->folder);
    ck_assert_int_eq(keys_make(rig->keys, &error), STATUS_OK);
}

static void rig_fini(struct rig *rig) {
    char command[128];
    links_close(&rig->links);
    ck_assert_uint_eq(fake_dns_n_open(), 0);
    for (uint32_t i = 0; i < ROUTERS; i++)
        bus_free(rig->routers[i]);
    snprintf(command, sizeof command, "rm -r %s", rig->folder);
    ck_assert_int_eq(system(command), 0);
}

static void rig_open(struct rig *rig, const char *const *routers, uint32_t n) {
    struct links_options options = {.routers = routers, .n_routers = n};
    struct error error;
    rig_init(rig);
    ck_assert_int_eq(try_open(rig, &options, &error), STATUS_OK);
}

/* One round of announcing, a second after the last. */
static void next_round(struct rig *rig) {
    struct links_self self = {.name = "w", .incarnation = 3, .role = 2, .loading = 51};
    test_clock_pass(LINKS_ANNOUNCE_NS);
    links_announce(&rig->links, clock_now_ns(), &self);
}

static bool announces_to(const struct rig *rig, const char *endpoint) {
    for (uint32_t i = 0; i < rig->links.n_announced; i++)
        if (strcmp(rig->links.announced[i].endpoint, endpoint) == 0)
            return true;
    return false;
}

static uint32_t link_to(const struct rig *rig, const char *endpoint) {
    for (uint32_t i = 0; i < rig->links.n_announced; i++)
        if (strcmp(rig->links.announced[i].endpoint, endpoint) == 0)
            return rig->links.announced[i].link;
    return BUS_NO_LINK;
}

/* What has come, to the worker and to the routers. Answers whether anything has. */
static bool turn(struct rig *rig) {
    struct bus_event event;
    bool any = false;
    while (bus_receive(rig->links.control, &event) == STATUS_OK)
        ck_assert(any = links_took(&rig->links, &event));
    for (uint32_t i = 0; i < ROUTERS; i++)
        while (rig->routers[i] && bus_receive(rig->routers[i], &event) == STATUS_OK) {
            ck_assert_int_eq(event.message->type, MESSAGE_ANNOUNCE);
            rig->announce = event.message->u.announce;
            rig->n_announced[i]++;
            any = true;
        }
    return any;
}

/* A round, and a while of the machine's for what comes of it: a connection has three seconds of the test's. */
static void round_and_turns(struct rig *rig) {
    next_round(rig);
    for (int i = 0; i < 40 && !turn(rig); i++)
        poll(NULL, 0, 1);
}

static void router_opens(struct rig *rig, uint32_t i, const char *endpoint) {
    struct error error;
    struct keys keys;
    struct bus_config config = {.kind = BUS_CONTROL, .keys = rig->keys[0] ? &keys : NULL};
    if (rig->keys[0])
        ck_assert_int_eq(keys_load(rig->keys, &keys, &error), STATUS_OK);
    uint32_t listener;
    ck_assert_int_eq(bus_new(&config, &rig->routers[i], &error), STATUS_OK);
    enum status status;
    while ((status = bus_bind(rig->routers[i], endpoint, &listener, &error)) == STATUS_EXISTS)
        poll(NULL, 0, 1); /* the one before it is still being closed */
    ck_assert_int_eq(status, STATUS_OK);
}

static void until_announced(struct rig *rig, uint32_t i) {
    uint32_t before = rig->n_announced[i];
    while (rig->n_announced[i] == before) {
        round_and_turns(rig);
    }
}

START_TEST(an_announcement_says_who_announces) {
    struct rig rig;
    const char *routers[] = {rig.told};
    rig_open(&rig, routers, 0); /* for its folder */
    links_close(&rig.links);
    struct links_options options = {.routers = routers, .n_routers = 1};
    struct error error;
    ck_assert_int_eq(try_open(&rig, &options, &error), STATUS_OK);
    router_opens(&rig, 0, rig.told);
    until_announced(&rig, 0);
    ck_assert_str_eq(rig.announce.name, "w");
    ck_assert_uint_eq(rig.announce.incarnation, 3);
    ck_assert_uint_eq(rig.announce.role, 3); /* on the wire 0 is none */
    ck_assert_uint_eq(rig.announce.loading, 51);
    ck_assert_str_eq(rig.announce.endpoint, links_endpoint(&rig.links));
    rig_fini(&rig);
}
END_TEST

START_TEST(routers_behind_a_name_come_and_go_and_the_others_stay) {
    struct rig rig;
    const char *routers[] = {"ipc:///tmp/tandem-told", "dns://routers:5555"};
    rig_open(&rig, routers, 2);
    next_round(&rig);
    ck_assert_uint_eq(rig.links.n_announced, 1); /* the name has no answer yet */
    fake_dns_say("routers", "127.0.0.2 ::1", "");
    next_round(&rig);
    ck_assert_uint_eq(rig.links.n_announced, 3);
    ck_assert(announces_to(&rig, "ipc:///tmp/tandem-told"));
    ck_assert(announces_to(&rig, "tcp://127.0.0.2:5555"));
    ck_assert(announces_to(&rig, "tcp://[::1]:5555"));
    uint32_t stays = link_to(&rig, "tcp://127.0.0.2:5555");
    uint32_t leaves = link_to(&rig, "tcp://[::1]:5555");
    ck_assert_uint_ne(stays, BUS_NO_LINK);
    ck_assert_uint_gt(bus_seq(rig.links.control, leaves), 0);
    fake_dns_say("routers", "127.0.0.2 127.0.0.3", "");
    next_round(&rig);
    ck_assert_uint_eq(rig.links.n_announced, 3);
    ck_assert(announces_to(&rig, "ipc:///tmp/tandem-told"));
    ck_assert(announces_to(&rig, "tcp://127.0.0.3:5555"));
    ck_assert_uint_eq(link_to(&rig, "tcp://127.0.0.2:5555"), stays);
    ck_assert_uint_eq(bus_seq(rig.links.control, leaves), 0); /* it is closed */
    fake_dns_say("routers", "127.0.0.2 127.0.0.3", "no server answers");
    next_round(&rig);
    ck_assert_uint_eq(rig.links.n_announced, 3);
    fake_dns_say("routers", "127.0.0.2", "");
    next_round(&rig);
    ck_assert_uint_eq(rig.links.n_announced, 2);
    ck_assert_uint_eq(link_to(&rig, "tcp://127.0.0.2:5555"), stays);
    rig_fini(&rig);
}
END_TEST

START_TEST(who_is_told_twice_or_behind_two_names_is_announced_to_once) {
    struct rig rig;
    const char *routers[] = {"tcp://127.0.0.2:5555", "dns://a:5555", "tcp://127.0.0.2:5555",
                             "dns://b:5555"};
    fake_dns_forget();
    rig_open(&rig, routers, 4);
    ck_assert_uint_eq(rig.links.n_announced, 1);
    fake_dns_say("a", "127.0.0.2 127.0.0.3", "");
    fake_dns_say("b", "127.0.0.3 127.0.0.4", "");
    next_round(&rig);
    ck_assert_uint_eq(rig.links.n_announced, 3);
    rig_fini(&rig);
}
END_TEST

START_TEST(there_are_so_many_routers_and_no_more) {
    for (uint32_t n = LINKS_ROUTERS_MAX - 1; n <= LINKS_ROUTERS_MAX; n++) {
        struct rig rig;
        const char *routers[] = {"ipc:///tmp/tandem-told", "dns://routers:5555"};
        char all[LINKS_ROUTERS_MAX * 16] = "", last[64];
        size_t at = 0;
        for (uint32_t i = 0; i < n; i++)
            at += (size_t)snprintf(all + at, sizeof all - at, "127.0.1.%u ", i + 1);
        rig_open(&rig, routers, 2);
        fake_dns_say("routers", all, "");
        next_round(&rig);
        ck_assert_uint_eq(rig.links.n_announced, LINKS_ROUTERS_MAX);
        snprintf(last, sizeof last, "tcp://127.0.1.%u:5555", n);
        ck_assert_int_eq(announces_to(&rig, last), n < LINKS_ROUTERS_MAX);
        rig_fini(&rig);
    }
}
END_TEST

/* Where the router is: another address of the loopback than the one that its name is, for libzmq, at the same port. */
static void other_endpoint(char endpoint[64], const char *host, const struct bus *bus) {
    const char *port = strrchr(bus_endpoint(bus, 0), ':');
    snprintf(endpoint, 64, "tcp://%s%s", host, port);
}

/* "127.1" is a name for us, and for libzmq 127.0.0.1 without a name server. */
START_TEST(a_router_that_its_name_does_not_reach_is_reached_at_an_address_behind_it) {
    struct rig rig;
    char name[64];
    const char *routers[] = {name};
    struct links_options options = {.routers = routers, .n_routers = 1};
    struct error error;
    rig_init(&rig);
    make_keys(&rig);
    router_opens(&rig, 0, "tcp://127.0.0.2:0");
    other_endpoint(name, "127.1", rig.routers[0]);
    ck_assert_int_eq(try_open(&rig, &options, &error), STATUS_OK);
    fake_dns_say("127.1", "127.0.0.2", "");
    next_round(&rig);
    ck_assert_uint_eq(fake_dns_n_open(), 0); /* a second is waited first */
    until_announced(&rig, 0);
    const struct announced *row = &rig.links.announced[0];
    ck_assert(row->by_lookup);
    until_announced(&rig, 0);
    ck_assert_uint_eq(fake_dns_n_open(), 1); /* and it may move */
    rig_fini(&rig);
}
END_TEST

START_TEST(a_router_that_its_name_reaches_is_not_looked_for_any_more) {
    struct rig rig;
    char name[64];
    const char *routers[] = {name};
    struct links_options options = {.routers = routers, .n_routers = 1};
    struct error error;
    rig_init(&rig);
    make_keys(&rig);
    router_opens(&rig, 0, "tcp://127.0.0.1:0");
    other_endpoint(name, "127.1", rig.routers[0]);
    bus_free(rig.routers[0]);
    rig.routers[0] = NULL;
    ck_assert_int_eq(try_open(&rig, &options, &error), STATUS_OK);
    for (int i = 0; i < 4; i++) {
        round_and_turns(&rig);
    }
    ck_assert_uint_eq(fake_dns_n_open(), 1); /* nothing is known of it */
    char there[64];
    snprintf(there, sizeof there, "tcp://127.0.0.1%s", strrchr(name, ':'));
    router_opens(&rig, 0, there);
    until_announced(&rig, 0);
    while (fake_dns_n_open() > 0) {
        round_and_turns(&rig);
    }
    ck_assert(!rig.links.announced[0].by_lookup);
    until_announced(&rig, 0);
    ck_assert_uint_eq(fake_dns_n_open(), 0);
    rig_fini(&rig);
}
END_TEST

START_TEST(a_router_that_went_and_came_back_is_announced_to) {
    struct rig rig;
    char name[128];
    const char *routers[] = {name};
    struct links_options options = {.routers = routers, .n_routers = 1};
    struct error error;
    rig_init(&rig);
    snprintf(name, sizeof name, "%s", rig.told);
    ck_assert_int_eq(try_open(&rig, &options, &error), STATUS_OK);
    router_opens(&rig, 0, name);
    until_announced(&rig, 0);
    uint32_t link = rig.links.announced[0].link;
    bus_free(rig.routers[0]);
    rig.routers[0] = NULL;
    while (rig.links.announced[0].link == link) {
        round_and_turns(&rig);
    }
    router_opens(&rig, 1, name);
    until_announced(&rig, 1);
    struct bus_event other = {.kind = BUS_LOST, .link = rig.links.announced[0].link + 1};
    ck_assert(!links_took(&rig.links, &other)); /* a session's */
    rig_fini(&rig);
}
END_TEST

START_TEST(addresses_behind_a_name_are_taken_in_turn) {
    struct lookup *lookup;
    struct error error;
    char endpoint[MESSAGE_ENDPOINT_MAX];
    fake_dns_forget();
    ck_assert_int_eq(lookup_new("tcp://router:5555", FAKE_DNS_SERVER, &lookup, &error), STATUS_OK);
    ck_assert(!lookup_next(lookup, endpoint));
    ck_assert_str_eq(lookup_why(lookup), "");
    fake_dns_say("router", "", "no such name");
    ck_assert(!lookup_next(lookup, endpoint));
    ck_assert_str_eq(lookup_why(lookup), "no such name");
    fake_dns_say("router", "127.0.0.2 ::1", "");
    ck_assert_str_eq(lookup_why(lookup), "");
    static const char *const turns[] = {"tcp://127.0.0.2:5555", "tcp://[::1]:5555",
                                        "tcp://127.0.0.2:5555"};
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        ck_assert(lookup_next(lookup, endpoint));
        ck_assert_str_eq(endpoint, turns[i]);
    }
    fake_dns_say("router", "127.0.0.2 ::1", "no server answers");
    ck_assert_str_eq(lookup_why(lookup), ""); /* some are known */
    ck_assert(lookup_next(lookup, endpoint));
    lookup_free(lookup);
    ck_assert_uint_eq(fake_dns_n_open(), 0);
    lookup = NULL;
    ck_assert_int_eq(lookup_new("tcp://router:5555", "1.1.1.1", &lookup, &error), STATUS_INVALID);
    ck_assert_ptr_null(lookup);
    ck_assert(!lookup_next(NULL, endpoint));
    ck_assert_str_eq(lookup_why(NULL), "");
}
END_TEST

START_TEST(endpoints_that_others_cannot_connect_to_are_refused) {
    static const struct {
        const char *endpoint, *kv_endpoint, *names; /* whom the error names; NULL: none */
    } cases[] = {{"tcp://127.0.0.1:0", "tcp://127.0.0.1:0", NULL},
                 {"tcp://*:0", NULL, "endpoint: tcp://[::]:"},
                 {NULL, "tcp://*:0", "kv-endpoint: tcp://[::]:"},
                 {"nonsense", NULL, "endpoint: "},
                 {NULL, "nonsense", "kv-endpoint: "}};
    struct rig rig;
    struct error error;
    rig_init(&rig);
    make_keys(&rig); /* without them nothing but loopback is listened at */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct links_options options = {.endpoint = cases[i].endpoint,
                                        .kv_endpoint = cases[i].kv_endpoint};
        enum status status = try_open(&rig, &options, &error);
        if (!cases[i].names) {
            ck_assert_int_eq(status, STATUS_OK);
            links_close(&rig.links);
            continue;
        }
        ck_assert_int_ne(status, STATUS_OK);
        ck_assert_msg(strncmp(error.text, cases[i].names, strlen(cases[i].names)) == 0, "%s",
                      error.text);
    }
    rig_fini(&rig);
}
END_TEST

START_TEST(workers_with_the_same_keys_name_prefixes_alike) {
    struct rig rig;
    char folders[2][128];
    struct error error;
    uint64_t of[2];
    rig_init(&rig);
    for (int i = 0; i < 2; i++) {
        snprintf(folders[i], sizeof folders[i], "%s/keys%d", rig.folder, i);
        ck_assert_int_eq(keys_make(folders[i], &error), STATUS_OK);
        for (int again = 0; again < 2; again++) {
            struct links_options options = {.keys = folders[i]};
            ck_assert_int_eq(try_open(&rig, &options, &error), STATUS_OK);
            ck_assert(again == 0 || of[i] == rig.links.prefix_key);
            of[i] = rig.links.prefix_key;
            links_close(&rig.links);
        }
    }
    ck_assert_uint_ne(of[0], of[1]);
    struct links_options options = {0};
    ck_assert_int_eq(try_open(&rig, &options, &error), STATUS_OK);
    ck_assert_uint_eq(rig.links.prefix_key, 0);
    rig_fini(&rig);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, an_announcement_says_who_announces);
    tcase_add_test(tests, routers_behind_a_name_come_and_go_and_the_others_stay);
    tcase_add_test(tests, who_is_told_twice_or_behind_two_names_is_announced_to_once);
    tcase_add_test(tests, there_are_so_many_routers_and_no_more);
    tcase_add_test(tests, a_router_that_its_name_does_not_reach_is_reached_at_an_address_behind_it);
    tcase_add_test(tests, a_router_that_its_name_reaches_is_not_looked_for_any_more);
    tcase_add_test(tests, a_router_that_went_and_came_back_is_announced_to);
    tcase_add_test(tests, addresses_behind_a_name_are_taken_in_turn);
    tcase_add_test(tests, endpoints_that_others_cannot_connect_to_are_refused);
    tcase_add_test(tests, workers_with_the_same_keys_name_prefixes_alike);
}
