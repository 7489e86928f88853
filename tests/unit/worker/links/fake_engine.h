/* tests/unit/worker/links/fake_engine.h: an engine that only notes what it is told, in place of
 * worker/core/engine.h's: for tests of what stands around the core. One thread. */
#pragma once

#include "proto/message.h"

#include <stdbool.h>
#include <stdint.h>

struct engine {
    uint64_t deadline_ns; /* what engine_deadline() answers */
    uint32_t n_ticks;
    uint32_t n_read_at_tick; /* n_messages at the last one */
    uint32_t n_messages;
    enum message_type type; /* of the last message */
    uint32_t n_opened;      /* KV links */
    uint32_t opened_link;   /* the last one's facts */
    uint32_t credits;
    bool accepted;
    uint32_t n_lost;
    uint32_t lost_link;
    uint32_t n_rooms; /* told of room on a KV link */
    uint32_t n_layers_done;
};
