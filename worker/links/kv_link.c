#include "worker/links/kv_link.h"

#include "proto/bus.h"
#include "worker/core/engine.h"
#include "worker/links/links.h"

#include <string.h>

void kv_link_forget(struct kv_link *peer) {
    transport_sender_close(peer->sender);
    transport_receiver_close(peer->receiver);
    memset(peer, 0, sizeof *peer);
}

struct kv_link *kv_link_find(struct kv_links *kv, uint32_t bus_link) {
    for (uint32_t i = 0; bus_link != BUS_NO_LINK && i < KV_LINKS_MAX; i++)
        if (kv->links[i].link == bus_link)
            return &kv->links[i];
    return NULL;
}

struct kv_link *kv_link_take(struct kv_links *kv) {
    for (uint32_t i = 0; i < KV_LINKS_MAX; i++)
        if (kv->links[i].link == BUS_NO_LINK)
            return &kv->links[i];
    return NULL;
}

void kv_link_say(enum log_level level, const struct kv_link *peer, const char *what,
                 const char *why) {
    char name[2 * MESSAGE_NAME_MAX], text[ERROR_TEXT_MAX];
    log_line(level, what, "peer=%s why=%s", log_text(name, sizeof name, peer->name),
             log_text(text, sizeof text, why));
}

/* Empties the row and tells the core, if it knows the number. Answers how many hand-offs ended. */
static uint32_t kv_link_end(struct kv_links *kv, uint64_t now_ns, struct kv_link *peer) {
    uint32_t link = peer->link;
    bool known = peer->ready || !peer->accepted;
    kv_link_forget(peer);
    bus_close(kv->bus, link);
    return known ? engine_link_lost(kv->engine, now_ns, link_kv(link)) : 0;
}

void kv_link_drop(struct kv_links *kv, uint64_t now_ns, struct kv_link *peer, const char *why) {
    kv_link_say(LOG_WARN, peer, "kv link dropped", why);
    (void)kv_link_end(kv, now_ns, peer);
}

void kv_link_lost(struct kv_links *kv, uint64_t now_ns, struct kv_link *peer, const char *why) {
    struct kv_link was = *peer; /* for its name */
    uint32_t n_ended = kv_link_end(kv, now_ns, peer);
    kv_link_say(n_ended > 0 ? LOG_WARN : LOG_INFO, &was, "kv link lost", why);
}
