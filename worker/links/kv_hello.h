/* worker/links/kv_hello.h: how two workers agree on a KV link: KV_HELLO with the sender's offer,
 * KV_WELCOME with the transport that the receiver takes. Engine thread only. */
#pragma once

#include "worker/links/kv_links.h"

/* The decode side: a prefill worker says hello on a new link of the bus. */
void kv_hello_accept(struct kv_links *kv, uint64_t now_ns, uint32_t link,
                     const struct kv_hello *hello);

/* The prefill side: opens a link and says hello. As kv_links_open(). */
NODISCARD enum status kv_hello_open(struct kv_links *kv, uint64_t now_ns, const struct peer *to,
                                    uint32_t *link);

/* The prefill side: the answer to our hello. */
void kv_hello_welcomed(struct kv_links *kv, uint64_t now_ns, struct kv_link *peer,
                       const struct kv_hello *welcome);
