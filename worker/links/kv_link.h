/* worker/links/kv_link.h: one KV link to another worker, in the table of kv_links.h. Engine thread
 * only. */
#pragma once

#include "base/log/log.h"
#include "worker/links/kv_links.h"

/* The link with this number on the bus, or NULL. */
struct kv_link *kv_link_find(struct kv_links *kv, uint32_t bus_link);

/* A free row, or NULL. */
struct kv_link *kv_link_take(struct kv_links *kv);

/* Frees what the link owns and empties its row. */
void kv_link_forget(struct kv_link *peer);

/* A line for the log: `what` is a constant. */
void kv_link_say(enum log_level level, const struct kv_link *peer, const char *what,
                 const char *why);

/* Ends a link from our side; the core hears of it if it knows the number. */
void kv_link_drop(struct kv_links *kv, uint64_t now_ns, struct kv_link *peer, const char *why);

/* The other side has gone, as it does at each of its stops. That is a warning only if a hand-off ends with it. */
void kv_link_lost(struct kv_links *kv, uint64_t now_ns, struct kv_link *peer, const char *why);
