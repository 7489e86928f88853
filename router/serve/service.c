#include "router/serve/service.h"

#include "base/clock.h"
#include "base/http/listener.h"
#include "base/net/loop.h"
#include "base/notify.h"
#include "router/call/serving.h"
#include "router/core/router.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATUS_NS (5 * NS_PER_S) /* the line of status is at most this old */
#define LOOK_NS   (10 * NS_PER_MS)

struct service {
    struct serving *serving;                    /* borrowed */
    struct listener *held;                      /* borrowed; NULL once it takes clients */
    struct loop_timer *watchdog, *status_timer; /* owned */
    struct loop_timer *door;                    /* owned */
    uint64_t watchdog_ns, hold_until_ns;
    char said[128]; /* the last status: one that has not changed is not sent again */
};

static void service_on_watchdog(void *user) {
    struct service *service = user;
    notify_send("WATCHDOG=1");
    loop_timer_after(service->watchdog, service->watchdog_ns);
}

static void service_on_status(void *user) {
    struct service *service = user;
    struct router_stats stats;
    char text[sizeof service->said];
    router_stats(service->serving->core, &stats);
    snprintf(text, sizeof text, "%s: %u workers, %u running, %u waiting",
             service->serving->draining ? "draining" : "ready", serving_n_workers(service->serving),
             stats.n_running, stats.n_queued);
    if (strcmp(text, service->said) != 0)
        notify_status("%s", text);
    memcpy(service->said, text, sizeof text);
    loop_timer_after(service->status_timer, STATUS_NS);
}

static void service_on_door(void *user) {
    struct service *service = user;
    const struct serving *serving = service->serving;
    if (!service->held || serving->draining)
        return;
    if (!serving_ready(serving) && clock_now_ns() < service->hold_until_ns) {
        loop_timer_after(service->door, LOOK_NS);
        return;
    }
    listener_hold(service->held, false);
    service->held = NULL;
}

enum status service_new(struct serving *serving, struct listener *inherited, uint64_t hold_ns,
                        struct service **out) {
    struct service *service = calloc(1, sizeof *service);
    if (!service)
        return STATUS_NOMEM;
    *service = (struct service){.serving = serving,
                                .held = inherited,
                                .watchdog_ns = notify_watchdog_ns(),
                                .hold_until_ns = clock_now_ns() + hold_ns};
    if (loop_timer_new(serving->loop, service_on_door, service, &service->door) != STATUS_OK ||
        loop_timer_new(serving->loop, service_on_watchdog, service, &service->watchdog) !=
            STATUS_OK ||
        loop_timer_new(serving->loop, service_on_status, service, &service->status_timer) !=
            STATUS_OK) {
        service_free(service);
        return STATUS_NOMEM;
    }
    if (service->watchdog_ns > 0)
        loop_timer_after(service->watchdog, 0);
    if (notify_is_on())
        loop_timer_after(service->status_timer, 0);
    if (inherited) {
        listener_hold(inherited, true);
        loop_timer_after(service->door, 0);
    }
    *out = service;
    return STATUS_OK;
}

void service_free(struct service *service) {
    if (!service)
        return;
    loop_timer_free(service->door);
    loop_timer_free(service->watchdog);
    loop_timer_free(service->status_timer);
    free(service);
}
