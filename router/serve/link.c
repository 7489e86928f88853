#include "router/serve/link.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/log/note.h"
#include "base/net/loop.h"
#include "proto/bus.h"
#include "router/call/calls.h"
#include "router/call/serving.h"

#include <stdlib.h>
#include <string.h>

#define HANDSHAKES_SAID_NS (60 * NS_PER_S)
#define EVENTS_PER_TURN    256u /* then clients get their turn, */
#define TURN_NS            NS_PER_MS /* and after this: a step of 256 sequences with logprobs takes as long */

struct link {
    struct serving *serving; /* borrowed */
    struct bus *bus;         /* owned */
    struct loop_watch *watch;
    struct loop_timer *timer;
    struct loop_kick kick;
    uint32_t listener;
    uint32_t max_workers;
    struct way {
        uint32_t number;             /* the bus's, or BUS_NO_LINK */
        bool lost;                   /* failed inside the core, not yet told */
        char name[MESSAGE_NAME_MAX]; /* whose it is or was */
    } * ways;                        /* owned (max_workers): to the worker in each slot */
    bool any_lost;
    uint64_t n_failed_said; /* handshakes that a log line told of */
    uint64_t say_failed_ns; /* when the next such line may come */
};

static uint32_t router_link_slot_of(const struct link *link, uint32_t number) {
    for (uint32_t slot = 0; slot < link->max_workers; slot++)
        if (link->ways[slot].number == number)
            return slot;
    return link->max_workers;
}

static void router_link_on_event(void *context, const struct bus_event *event) {
    struct link *link = context;
    struct router *core = link->serving->core;
    uint32_t slot = router_link_slot_of(link, event->link);
    if (event->kind == BUS_LOST && slot < link->max_workers) {
        char name[2 * MESSAGE_NAME_MAX];
        log_info("link lost", "worker=%s why=\"%s\"",
                 log_text(name, sizeof name, link->ways[slot].name), event->why);
        link->ways[slot].number = BUS_NO_LINK;
        router_link_lost(core, clock_now_ns(), slot);
    } else if (event->kind == BUS_MESSAGE && slot < link->max_workers) {
        router_message(core, clock_now_ns(), slot, event->message);
    } else if (event->kind == BUS_MESSAGE && event->message->type == MESSAGE_ANNOUNCE) {
        router_announce(core, clock_now_ns(), &event->message->u.announce);
    }
    /* Anything else comes from a link that is over, or from a worker that talks out of turn. */
}

uint64_t link_handshakes_failed(const struct link *link) {
    struct bus_stats stats;
    bus_stats(link->bus, &stats);
    return stats.n_handshake_failed + stats.n_key_refused;
}

/* Somebody who tries again and again is one line a minute. */
static void router_link_look_at_handshakes(struct link *link) {
    char endpoint[MESSAGE_ENDPOINT_MAX + 16];
    uint64_t n = link_handshakes_failed(link), now_ns = clock_now_ns();
    if (n == link->n_failed_said || now_ns < link->say_failed_ns)
        return;
    log_warn("handshakes fail",
             "announce=%s n=%llu hint=\"a worker has other --keys, or only one "
             "side has keys\"",
             log_text(endpoint, sizeof endpoint, bus_endpoint(link->bus, link->listener)),
             (unsigned long long)(n - link->n_failed_said));
    link->n_failed_said = n;
    link->say_failed_ns = now_ns + HANDSHAKES_SAID_NS;
}

static void router_link_on_readable(void *user, unsigned events) {
    struct link *link = user;
    (void)events;
    bus_dispatch(link->bus, EVENTS_PER_TURN, clock_now_ns() + TURN_NS, router_link_on_event, link);
    router_link_look_at_handshakes(link);
}

static void router_link_on_timer(void *user) {
    struct link *link = user;
    router_tick(link->serving->core, clock_now_ns());
}

static void router_link_report_lost(struct link *link) {
    while (link->any_lost) {
        link->any_lost = false;
        for (uint32_t slot = 0; slot < link->max_workers; slot++) {
            if (!link->ways[slot].lost)
                continue;
            link->ways[slot].lost = false;
            router_link_lost(link->serving->core, clock_now_ns(), slot);
        }
    }
}

static void router_link_before_sleep(void *user) {
    struct link *link = user;
    router_link_report_lost(link);
    uint64_t deadline_ns = router_deadline(link->serving->core);
    if (deadline_ns == UINT64_MAX)
        loop_timer_stop(link->timer);
    else
        loop_timer_at(link->timer, deadline_ns);
}

/* --- what the core asks for ----------------------------------------------------------------- */

/* Sets the core's timer before the loop sleeps. */
static void router_link_on_touched(void *context) {
    struct link *link = context;
    loop_kick_add(link->serving->loop, &link->kick);
}

static void router_link_close_link(void *context, uint32_t slot) {
    struct link *link = context;
    ASSERT(slot < link->max_workers);
    if (link->ways[slot].number != BUS_NO_LINK)
        bus_close(link->bus, link->ways[slot].number);
    link->ways[slot].number = BUS_NO_LINK;
    link->ways[slot].lost = false;
}

static void router_link_lose(struct link *link, uint32_t slot) {
    router_link_close_link(link, slot);
    link->ways[slot].lost = true;
    link->any_lost = true; /* told before the loop sleeps: this is inside an event */
}

static void router_link_open_link(void *context, uint32_t slot, const struct announce *announce) {
    struct link *link = context;
    struct error error;
    char shown[2][MESSAGE_ENDPOINT_MAX + 16];
    ASSERT(slot < link->max_workers);
    link->ways[slot].lost = false;
    memcpy(link->ways[slot].name, announce->name, sizeof link->ways[slot].name);
    if (bus_connect(link->bus, announce->endpoint, &link->ways[slot].number, &error) == STATUS_OK)
        return;
    log_warn("cannot reach worker", "worker=%s why=%s",
             log_text(shown[0], sizeof shown[0], announce->name),
             log_text(shown[1], sizeof shown[1], error.text));
    router_link_lose(link, slot);
}

static void router_link_send_message(void *context, uint32_t slot, const struct message *message) {
    struct link *link = context;
    ASSERT(slot < link->max_workers);
    if (link->ways[slot].number == BUS_NO_LINK) {
        router_link_lose(link, slot);
        return;
    }
    enum status status = bus_send(link->bus, link->ways[slot].number, message);
    if (status == STATUS_OK)
        return;
    /* A full queue means a worker that reads nothing: as good as gone. */
    char name[2 * MESSAGE_NAME_MAX];
    log_warn("cannot send to worker", "worker=%s message=%s why=%s",
             log_text(name, sizeof name, link->ways[slot].name), message_name(message->type),
             status_name(status));
    router_link_lose(link, slot);
}

static void router_link_on_tokens(void *context, uint64_t user, const struct token_run *run) {
    struct link *link = context;
    calls_tokens(link->serving->calls, user, run);
}

static void router_link_on_end(void *context, uint64_t user, const struct request_end *end) {
    struct link *link = context;
    calls_end(link->serving->calls, user, end);
}

static void router_link_on_note(void *context, const struct note *note) {
    struct link *link = context;
    note_log(note, note->request == NOTE_NO_REQUEST
                       ? NULL
                       : calls_id(link->serving->calls, note->request));
}

struct router_sink link_sink(struct link *link) {
    return (struct router_sink){
        .context = link,
        .open_link = router_link_open_link,
        .close_link = router_link_close_link,
        .send = router_link_send_message,
        .tokens = router_link_on_tokens,
        .end = router_link_on_end,
        .touched = router_link_on_touched,
        .note = router_link_on_note,
    };
}

/* --- life ----------------------------------------------------------------------------------- */

static enum status link_start(struct link *link, const struct link_config *config,
                              struct error *error) {
    struct bus_config bus = {.kind = BUS_CONTROL,
                             .keys = config->keys,
                             .max_links = 2 * config->max_workers + 64,
                             .queue_bulk = 4096};
    struct loop *loop = link->serving->loop;
    TRY(bus_new(&bus, &link->bus, error));
    TRY(bus_bind(link->bus, config->announce, &link->listener, error));
    enum status status =
        loop_watch_new(loop, bus_fd(link->bus), router_link_on_readable, link, &link->watch);
    if (status == STATUS_OK)
        status = loop_watch_set(link->watch, LOOP_READ);
    if (status == STATUS_OK)
        status = loop_timer_new(loop, router_link_on_timer, link, &link->timer);
    if (status != STATUS_OK)
        error_set(error, status, "cannot watch the announce socket: %s", status_name(status));
    return status;
}

enum status link_new(struct serving *serving, const struct link_config *config, struct link **out,
                     struct error *error) {
    struct link *link = calloc(1, sizeof *link);
    if (!link)
        return error_set(error, STATUS_NOMEM, "no memory for the bus");
    link->serving = serving;
    link->max_workers = config->max_workers;
    link->ways = calloc(config->max_workers, sizeof *link->ways);
    loop_kick_init(&link->kick, router_link_before_sleep, link);
    enum status status = link->ways ? link_start(link, config, error)
                                    : error_set(error, STATUS_NOMEM, "no memory for the bus");
    if (status != STATUS_OK) {
        link_free(link);
        return status;
    }
    *out = link;
    return STATUS_OK;
}

void link_free(struct link *link) {
    if (!link)
        return;
    loop_kick_remove(&link->kick);
    loop_timer_free(link->timer);
    loop_watch_free(link->watch);
    bus_free(link->bus);
    free(link->ways);
    free(link);
}

const char *link_endpoint(const struct link *link) {
    return bus_endpoint(link->bus, link->listener);
}
