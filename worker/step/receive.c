#include "worker/step/receive.h"

#include "base/clock.h"
#include "proto/bus.h"
#include "worker/core/engine.h"
#include "worker/links/kv_links.h"
#include "worker/links/links.h"

#include <poll.h>

#define CONTROL_MAX 256 /* events of one look: then a step may run */
#define KV_MAX      64

static void receive_control_event(void *context, const struct bus_event *event) {
    struct receive *receive = context;
    uint64_t now_ns = receive->looked_ns;
    if (links_took(receive->links, event))
        return;
    if (event->kind == BUS_LOST)
        engine_link_lost(receive->engine, now_ns, event->link);
    else
        engine_message(receive->engine, now_ns, event->link, event->message);
}

static void receive_kv_event(void *context, const struct bus_event *event) {
    struct receive *receive = context;
    kv_links_event(receive->kv_links, receive->looked_ns, event);
}

void receive_messages(struct receive *receive) {
    receive->looked_ns = clock_now_ns();
    bus_dispatch(receive->links->control, CONTROL_MAX, 0, receive_control_event, receive);
    bus_dispatch(receive->links->kv, KV_MAX, 0, receive_kv_event, receive);
    heartbeat_run(&receive->heartbeat, receive->links, receive->kv_links, receive->engine,
                  receive->looked_ns);
}

void receive_wait(const struct receive *receive, const int wake_fds[2], uint64_t until_ns) {
    struct pollfd fds[] = {{.fd = bus_fd(receive->links->control), .events = POLLIN},
                           {.fd = bus_fd(receive->links->kv), .events = POLLIN},
                           {.fd = wake_fds[0], .events = POLLIN},
                           {.fd = wake_fds[1], .events = POLLIN}};
    uint64_t now_ns = clock_now_ns();
    uint64_t due_ns =
        heartbeat_deadline(&receive->heartbeat, receive->links, receive->kv_links, receive->engine);
    due_ns = until_ns < due_ns ? until_ns : due_ns;
    uint64_t left_ns = due_ns > now_ns ? due_ns - now_ns : 0;
    struct timespec left = {.tv_sec = (time_t)(left_ns / NS_PER_S),
                            .tv_nsec = (long)(left_ns % NS_PER_S)};
    (void)ppoll(fds, 4, &left, NULL); /* an interrupted sleep is a turn like any other */
}
