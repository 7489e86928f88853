#include "tests/unit/proto/bus_rig.h"

#include "proto/bus_internal.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>

char folder[64];
char endpoint[128];
struct error error;
struct keys keys;

void bus_rig_setup(void) {
    snprintf(folder, sizeof folder, "/tmp/tandem-bus-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(endpoint, sizeof endpoint, "ipc://%s/run/worker.sock", folder);
}

void bus_rig_teardown(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

void make_keys(const char *name, struct keys *made) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ck_assert_int_eq(keys_make(path, &error), STATUS_OK);
    ck_assert_int_eq(keys_load(path, made, &error), STATUS_OK);
}

struct bus *open_bus_as(struct bus_config config) {
    struct bus *bus = NULL;
    enum status status = bus_new(&config, &bus, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    struct itimerspec never = {0};
    if (config.connect_ms == 0)
        ck_assert_int_eq(timerfd_settime(bus->timer_fd, 0, &never, NULL), 0);
    return bus;
}

struct bus *open_bus(void) {
    return open_bus_as((struct bus_config){.queue_bulk = 1024});
}

void close_bus(struct bus *bus) {
    bus_audit(bus);
    ck_assert_uint_eq(bus->stats.n_missed_wakeups, 0);
    bus_free(bus);
}

uint32_t listen_at(struct bus *bus, const char *where) {
    uint32_t listener;
    enum status status = bus_bind(bus, where, &listener, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return listener;
}

uint32_t connect_to(struct bus *bus, const char *where) {
    uint32_t link;
    enum status status = bus_connect(bus, where, &link, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return link;
}

void next_event(struct bus *bus, struct bus_event *event) {
    while (bus_receive(bus, event) != STATUS_OK)
        (void)!bus_wait(bus, PATIENCE_NS);
}

struct message ping(uint64_t t_ns) {
    struct message message = {.type = MESSAGE_PING, .session = 9};
    message.u.ping.t_ns = t_ns;
    return message;
}

void send_ping(struct bus *bus, uint32_t link, uint64_t t_ns) {
    struct message message = ping(t_ns);
    ck_assert_int_eq(bus_send(bus, link, &message), STATUS_OK);
}

void expect_ping(struct bus *bus, uint64_t t_ns, struct bus_event *event) {
    next_event(bus, event);
    ck_assert_int_eq(event->kind, BUS_MESSAGE);
    ck_assert_int_eq(event->message->type, MESSAGE_PING);
    ck_assert_uint_eq(event->message->u.ping.t_ns, t_ns);
}
