/* worker/core/block_hash.h: the name of a block of tokens in the chain of prefixes, as router and
 * worker compute it. The one place where the core meets the room `model`. Pure. */
#pragma once

#include "base/map.h"

#include <stdint.h>

#define BLOCK_HASH_TOKENS 16 /* tokens in one KV block */

/* The name before a sequence's first block. */
#define BLOCK_HASH_START ((struct map_key){0, 0})

/* The name of the block of ids (BLOCK_HASH_TOKENS) behind the block named `previous`. `key` is the
 * cluster's secret, `salt` keeps tenants apart. */
struct map_key block_hash(uint64_t key, uint64_t salt, struct map_key previous,
                          const uint32_t *ids);
