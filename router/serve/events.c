#include "router/serve/events.h"

#include "base/clock.h"
#include "base/http/exchange.h"
#include "base/http/sse.h"
#include "base/list.h"
#include "base/net/loop.h"
#include "router/api/about.h"
#include "router/api/openai.h"
#include "router/core/router.h"
#include "router/serve/endpoint.h"
#include "router/serve/picture.h"
#include "router/serve/server.h"
#include "router/serve/watches.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(WATCHES_KEPT_PAGE == EVENTS_WATCHERS_MAX, "each watcher has its place");

/* What of a worker is told as soon as it changes. */
struct seen {
    uint64_t incarnation; /* 0 with SLOT_FREE */
    enum slot_state state;
    enum standing standing;
};

struct events {
    struct server *server;               /* borrowed */
    struct list every;                   /* of struct watcher */
    unsigned n;                          /* of them */
    struct loop_timer *timer;            /* owned; runs while somebody watches */
    uint64_t told_ns;                    /* the last picture for all */
    struct seen seen[MESSAGE_PEERS_MAX]; /* in that picture, by slot */
};

struct watcher {
    struct list link;
    struct events *events; /* borrowed */
    uint64_t id;           /* the exchange's */
    struct quota *quota;   /* of the client's key; or NULL */
};

static void events_forget(struct watcher *watcher) {
    struct events *events = watcher->events;
    list_remove(&watcher->link);
    if (--events->n == 0)
        loop_timer_stop(events->timer);
    watches_leave(watcher->quota);
    free(watcher);
}

static void events_on_gone(struct exchange *exchange) {
    events_forget(exchange->user);
}

static struct seen events_look_at(const struct router *core, uint32_t slot) {
    struct worker_view view;
    if (router_worker(core, slot, &view) != STATUS_OK)
        return (struct seen){0};
    return (struct seen){view.welcome.incarnation, view.state, view.standing};
}

/* Has a worker come, gone or changed its state since this was asked last? */
static bool events_has_changed(struct events *events) {
    bool changed = false;
    for (uint32_t slot = 0; slot < MESSAGE_PEERS_MAX; slot++) {
        struct seen now = events_look_at(events->server->serving.core, slot);
        struct seen *seen = &events->seen[slot];
        changed |= now.state != seen->state || now.incarnation != seen->incarnation ||
                   now.standing != seen->standing;
        *seen = now;
    }
    return changed;
}

static void events_put_event(const struct events *events, struct buf *out) {
    sse_begin(out);
    picture_put(events->server, out);
    sse_end(out);
}

static void events_tell(const struct watcher *watcher, const struct buf *event) {
    if (buf_status(event) != STATUS_OK)
        return;
    enum status status = exchange_write(watcher->events->server->serving.exchanges, watcher->id,
                                        event->data, event->n);
    (void)status; /* STATUS_BUSY: others of its connection fill it; it is told the next one */
}

/* Who has not taken the last picture yet is told the next one instead. */
static void events_tell_all(struct events *events) {
    struct exchanges *all = events->server->serving.exchanges;
    struct buf event;
    buf_init(&event, 0);
    events_put_event(events, &event);
    list_each_entry(watcher, &events->every, const struct watcher, link) {
        if (exchange_pending(all, watcher->id) == 0)
            events_tell(watcher, &event);
    }
    buf_fini(&event);
    events->told_ns = clock_now_ns();
}

static void events_look(void *user) {
    struct events *events = user;
    bool is_due = clock_now_ns() - events->told_ns >= EVENTS_EVERY_MS * NS_PER_MS;
    if (events_has_changed(events) || is_due)
        events_tell_all(events);
    loop_timer_after(events->timer, EVENTS_LOOK_MS * NS_PER_MS);
}

void events_end(struct events *events) {
    struct exchanges *all = events->server->serving.exchanges;
    if (events->n > 0)
        events_tell_all(events);
    list_each_entry(watcher, &events->every, struct watcher, link) {
        uint64_t id = watcher->id;
        struct exchange *exchange = exchange_find(all, id);
        exchange->gone = NULL;
        exchange->user = NULL;
        events_forget(watcher);
        exchange_end(all, id, NULL, 0);
    }
}

enum status events_new(struct server *server, struct events **out) {
    struct events *events = calloc(1, sizeof *events);
    if (!events)
        return STATUS_NOMEM;
    events->server = server;
    list_init(&events->every);
    if (loop_timer_new(server->serving.loop, events_look, events, &events->timer) != STATUS_OK) {
        free(events);
        return STATUS_NOMEM;
    }
    *out = events;
    return STATUS_OK;
}

void events_free(struct events *events) {
    if (!events)
        return;
    loop_timer_free(events->timer);
    free(events);
}

/* A watcher more, or NULL with an error for the client. */
static struct watcher *events_admit(struct events *events, struct exchange *exchange,
                                    struct api_error *error) {
    struct watcher *watcher = NULL;
    struct quota *quota = NULL;
    if (events->server->serving.draining)
        error->status = error_set(&error->error, STATUS_CLOSED, "The router drains");
    else if (events->n == EVENTS_WATCHERS_MAX)
        error->status = error_set(&error->error, STATUS_BUSY,
                                  "%u clients watch already, as many as may", EVENTS_WATCHERS_MAX);
    else if (!(watcher = calloc(1, sizeof *watcher)))
        error->status = error_set(&error->error, STATUS_NOMEM, "No memory for the stream");
    if (!watcher || watches_admit(events->server, exchange, true, &quota, error) != STATUS_OK) {
        free(watcher);
        return NULL;
    }
    *watcher = (struct watcher){.events = events, .id = exchange->id, .quota = quota};
    if (events->n++ == 0) {
        events_has_changed(events); /* from here on */
        events->told_ns = clock_now_ns();
        loop_timer_after(events->timer, EVENTS_LOOK_MS * NS_PER_MS);
    }
    list_push_back(&events->every, &watcher->link);
    return watcher;
}

/* A picture at once, and more until the client leaves or the router drains. */
static void events_answer(struct server *server, const struct endpoint_request *request) {
    struct exchange *exchange = request->exchange;
    struct exchange_reply head = {.status = 200,
                                  .content_type = openai_form.stream_type,
                                  .headers = openai_form.stream_headers,
                                  .n_headers = openai_form.n_stream_headers};
    struct api_error error = {0};
    struct buf event;
    if (strcmp(exchange->method, "HEAD") == 0) {
        exchange_reply(server->serving.exchanges, exchange->id, &head);
        return;
    }
    struct watcher *watcher = events_admit(server->events, exchange, &error);
    if (!watcher) {
        endpoint_error(server, request, &error);
        return;
    }
    exchange->user = watcher;
    exchange->gone = events_on_gone;
    exchange_begin_stream(server->serving.exchanges, watcher->id, &head);
    buf_init(&event, 0);
    events_put_event(server->events, &event);
    events_tell(watcher, &event);
    buf_fini(&event);
}

static const struct dialect_about about = {
    .summary = "The cluster's picture each second, and as soon as a worker's state changes",
    .type = SSE_CONTENT_TYPE,
    .events = "`data: ` and what /admin/status answers each, without end",
};

const struct dialect dialect_events =
    DIALECT_ANSWER("events", "GET", "/admin/events", openai_form, events_answer, .is_admin = true,
                   .about = &about);
