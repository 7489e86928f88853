/* tests/unit/proto/bus_rig.h: buses in a temporary folder, for the tests of the bus. */
#pragma once

#include "base/clock.h"
#include "proto/bus.h"
#include "proto/keys.h"

#define PATIENCE_NS (100 * NS_PER_MS)

extern char folder[64];
extern char endpoint[128]; /* ipc:// in a folder that is not there yet */
extern struct error error;
extern struct keys keys;

void bus_rig_setup(void);
void bus_rig_teardown(void);

void make_keys(const char *name, struct keys *made);
/* Without the tick that repairs lost wake-ups, so that a test would wait for ever where one is lost;
 * with it where connect_ms is set. */
struct bus *open_bus_as(struct bus_config config);
struct bus *open_bus(void);
/* Frees a bus of open_bus_as(), after a look whether it lost a wake-up. */
void close_bus(struct bus *bus);
uint32_t listen_at(struct bus *bus, const char *where);
uint32_t connect_to(struct bus *bus, const char *where);

/* Waits as long as it takes; the suite's time limit catches what never comes. */
void next_event(struct bus *bus, struct bus_event *event);

struct message ping(uint64_t t_ns);
void send_ping(struct bus *bus, uint32_t link, uint64_t t_ns);
void expect_ping(struct bus *bus, uint64_t t_ns, struct bus_event *event);
