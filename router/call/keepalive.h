/* router/call/keepalive.h: streams that say nothing for long are kept alive.
 *
 * Proxies close what is silent, often after 60 s; a long prefill or a full queue is. Loop's thread
 * only. */
#pragma once

#include "base/status.h"

#include <stdint.h>

struct keepalive;
struct serving;

/* Every stream that was silent for silence_ns is sent its dialect's ping; one whose first token has
 * not come begins with it. Looks four times in that time. */
NODISCARD enum status keepalive_new(struct serving *serving, uint64_t silence_ns,
                                    struct keepalive **keepalive);
void keepalive_free(struct keepalive *keepalive); /* NULL is fine */
