#include "worker/step/receive.h"

#include "base/clock.h"
#include "proto/bus.h"
#include "worker/step/heartbeat.h"
#include "worker/worker.h"

#include <poll.h>

#define CONTROL_MAX 256 /* events of one look: then a step may run */
#define KV_MAX      64

static void control_event(void *context, const struct bus_event *event) {
    struct worker *worker = context;
    uint64_t now_ns = worker->looked_ns;
    if (links_took(&worker->links, event))
        return;
    if (event->kind == BUS_LOST)
        engine_link_lost(worker->engine, now_ns, event->link);
    else
        engine_message(worker->engine, now_ns, event->link, event->message);
}

static void kv_event(void *context, const struct bus_event *event) {
    struct worker *worker = context;
    kv_links_event(&worker->kv_links, worker->looked_ns, event);
}

void receive_messages(struct worker *worker) {
    worker->looked_ns = clock_now_ns();
    bus_dispatch(worker->links.control, CONTROL_MAX, control_event, worker);
    bus_dispatch(worker->links.kv, KV_MAX, kv_event, worker);
    heartbeat_run(worker, worker->looked_ns);
}

void receive_wait(struct worker *worker, int wake_fd) {
    struct pollfd fds[] = {{.fd = bus_fd(worker->links.control), .events = POLLIN},
                           {.fd = bus_fd(worker->links.kv), .events = POLLIN},
                           {.fd = wake_fd, .events = POLLIN}};
    uint64_t now_ns = clock_now_ns(), until_ns = heartbeat_deadline(worker);
    uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    struct timespec left = {.tv_sec = (time_t)(left_ns / NS_PER_S),
                            .tv_nsec = (long)(left_ns % NS_PER_S)};
    (void)ppoll(fds, 3, &left, NULL); /* an interrupted sleep is a turn like any other */
}
