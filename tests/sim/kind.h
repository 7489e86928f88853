/* tests/sim/kind.h: the kinds of fault, one row each. */
#pragma once

#include <stdint.h>

enum kind {
    /* struck at a moment */
    KIND_CRASH,
    KIND_CRASH_MANY, /* several workers at once */
    KIND_HOST_DEATH, /* nobody's kernel closes the connections */
    KIND_PAUSE,
    KIND_SLOW,
    KIND_STEAL, /* somebody else uses the CPU: turns come late, steps take longer */
    KIND_BREAK,
    KIND_BREAK_KV,
    KIND_PART,
    KIND_PART_ONE_WAY,
    KIND_ISOLATE,
    KIND_EAT, /* for a while no message of one type gets through */
    KIND_ROUTER_CRASH,
    KIND_ROUTER_PAUSE,
    KIND_DRAIN,
    KIND_TERM,
    KIND_CANCEL_STORM,
    KIND_BURST,
    KIND_STRUCK, /* how many there are of these */
    /* in force for the whole run */
    KIND_LOSS = KIND_STRUCK,
    KIND_DUPLICATE,
    KIND_REORDER,
    KIND_GARBLE,  /* bytes and lengths of any message */
    KIND_CORRUPT, /* bits of KV */
    KIND_CLOCKS,
    KIND_NUMERICS, /* workers whose answers differ */
    KIND_MODEL,
    KIND_SPOIL,    /* the model's numbers are unusable now and then */
    KIND_BUSY,     /* short queues */
    KIND_ESTIMATE, /* announced step times are wrong */
    KIND_COUNT
};

/* A word for --without; NULL past the last. */
const char *kind_name(uint32_t kind);
