#include "worker/step/heartbeat.h"

#include "base/clock.h"
#include "base/notify.h"
#include "worker/worker.h"

#define PUBLISH_NS (100 * NS_PER_MS) /* figures on the admin port are at most this old */

static uint64_t earlier(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

void heartbeat_run(struct worker *worker, uint64_t now_ns) {
    struct links_self self = {.name = worker->config->name,
                              .incarnation = worker->incarnation,
                              .role = worker->config->role};
    links_announce(&worker->links, now_ns, &self);
    kv_links_tick(&worker->kv_links, now_ns);
    if (now_ns >= engine_deadline(worker->engine))
        engine_tick(worker->engine, now_ns);
    if (worker->admin && now_ns >= worker->publish_ns) {
        struct admin_figures figures = {.chunk_tokens = engine_chunk_tokens(worker->engine),
                                        .draining = worker->draining,
                                        .at_ns = now_ns};
        engine_load(worker->engine, &figures.load);
        admin_publish(worker->admin, &figures);
        worker->publish_ns = now_ns + PUBLISH_NS;
    }
    if (worker->watchdog_ns > 0 && now_ns >= worker->watchdog_due_ns) {
        notify_send("WATCHDOG=1");
        worker->watchdog_due_ns = now_ns + worker->watchdog_ns;
    }
}

uint64_t heartbeat_deadline(const struct worker *worker) {
    uint64_t due_ns = earlier(worker->links.announce_ns, worker->kv_links.next_ns);
    due_ns = earlier(due_ns, engine_deadline(worker->engine));
    if (worker->watchdog_ns > 0)
        due_ns = earlier(due_ns, worker->watchdog_due_ns);
    if (worker->admin)
        due_ns = earlier(due_ns, worker->publish_ns);
    if (worker->draining)
        due_ns = earlier(due_ns, worker->drain_until_ns);
    return due_ns;
}
