#include "worker/step/heartbeat.h"

#include "base/clock.h"
#include "base/notify.h"
#include "worker/core/engine.h"
#include "worker/links/kv_links.h"
#include "worker/step/figures.h"

#define PUBLISH_NS (100 * NS_PER_MS) /* figures on the admin port are at most this old */
#define STATUS_NS  (5 * NS_PER_S)    /* so is the line of status */

static uint64_t earlier(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static void heartbeat_publish(const struct heartbeat *heartbeat, const struct engine *engine,
                              uint64_t now_ns) {
    struct figures figures = {.chunk_tokens = engine_chunk_tokens(engine),
                              .repeats = *engine_repeats(engine),
                              .draining = heartbeat->draining,
                              .at_ns = now_ns};
    engine_load(engine, &figures.load);
    figures_publish(heartbeat->figures, &figures);
}

static void heartbeat_tell_status(const struct heartbeat *heartbeat, const struct engine *engine) {
    struct load load;
    engine_load(engine, &load);
    notify_status("%s: %u running, %u waiting, KV %u %%",
                  heartbeat->draining ? "draining" : "ready", load.n_running, load.n_waiting,
                  load.blocks_total > 0 ? (unsigned)(100ull * load.blocks_used / load.blocks_total)
                                        : 0);
}

void heartbeat_run(struct heartbeat *heartbeat, struct links *links, struct kv_links *kv_links,
                   struct engine *engine, uint64_t now_ns) {
    links_announce(links, now_ns, &heartbeat->self);
    kv_links_tick(kv_links, now_ns);
    if (now_ns >= engine_deadline(engine))
        engine_tick(engine, now_ns);
    if (heartbeat->figures && now_ns >= heartbeat->publish_ns) {
        heartbeat_publish(heartbeat, engine, now_ns);
        heartbeat->publish_ns = now_ns + PUBLISH_NS;
    }
    if (heartbeat->watchdog_ns > 0 && now_ns >= heartbeat->watchdog_due_ns) {
        notify_send("WATCHDOG=1");
        heartbeat->watchdog_due_ns = now_ns + heartbeat->watchdog_ns;
    }
    if (heartbeat->tells_status && now_ns >= heartbeat->status_due_ns) {
        heartbeat_tell_status(heartbeat, engine);
        heartbeat->status_due_ns = now_ns + STATUS_NS;
    }
}

uint64_t heartbeat_deadline(const struct heartbeat *heartbeat, const struct links *links,
                            const struct kv_links *kv_links, const struct engine *engine) {
    uint64_t due_ns = earlier(links->announce_ns, kv_links->next_ns);
    due_ns = earlier(due_ns, engine_deadline(engine));
    if (heartbeat->watchdog_ns > 0)
        due_ns = earlier(due_ns, heartbeat->watchdog_due_ns);
    if (heartbeat->tells_status)
        due_ns = earlier(due_ns, heartbeat->status_due_ns);
    if (heartbeat->figures)
        due_ns = earlier(due_ns, heartbeat->publish_ns);
    return due_ns;
}
