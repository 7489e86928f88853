#include "base/map.h"

#include "base/assert.h"
#include "base/random.h"

#include <stdlib.h>

enum status map_init(struct map *map, uint32_t capacity, uint64_t seed) {
    ASSERT(capacity > 0 && capacity <= 1u << 30);
    uint32_t n_slots = 8;
    while (n_slots < 2 * capacity)
        n_slots *= 2;
    *map = (struct map){.n_slots = n_slots, .capacity = capacity, .seed = seed};
    map->slots = calloc(n_slots, sizeof *map->slots);
    return map->slots ? STATUS_OK : STATUS_NOMEM;
}

void map_fini(struct map *map) {
    if (!map)
        return;
    free(map->slots);
    *map = (struct map){0};
}

static uint32_t map_home_slot(const struct map *map, struct map_key key) {
    return (uint32_t)mix64(mix64(key.hi ^ map->seed) ^ key.lo) & (map->n_slots - 1);
}

/* The key's slot, or the free slot where it would go. */
static uint32_t map_find_slot(const struct map *map, struct map_key key) {
    uint32_t at = map_home_slot(map, key);
    while (map->slots[at].used && !map_key_equal(map->slots[at].key, key))
        at = (at + 1) & (map->n_slots - 1);
    return at;
}

enum status map_get(const struct map *map, struct map_key key, uint32_t *value) {
    const struct map_slot *slot = &map->slots[map_find_slot(map, key)];
    if (!slot->used)
        return STATUS_NOT_FOUND;
    *value = slot->value;
    return STATUS_OK;
}

enum status map_put(struct map *map, struct map_key key, uint32_t value) {
    struct map_slot *slot = &map->slots[map_find_slot(map, key)];
    if (!slot->used) {
        if (map->n_used == map->capacity)
            return STATUS_LIMIT;
        map->n_used++;
    }
    *slot = (struct map_slot){.key = key, .value = value, .used = 1};
    return STATUS_OK;
}

bool map_remove(struct map *map, struct map_key key) {
    uint32_t hole = map_find_slot(map, key);
    if (!map->slots[hole].used)
        return false;
    /* Shift back every follower that would no longer be reachable across the hole. */
    uint32_t mask = map->n_slots - 1;
    for (uint32_t at = (hole + 1) & mask; map->slots[at].used; at = (at + 1) & mask) {
        uint32_t home = map_home_slot(map, map->slots[at].key);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            map->slots[hole] = map->slots[at];
            hole = at;
        }
    }
    map->slots[hole].used = 0;
    map->n_used--;
    return true;
}
