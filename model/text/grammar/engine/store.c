#include "model/text/grammar/engine/store.h"

#include "base/assert.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct store_entry {
    uint64_t key[2];
    struct store_item *item;
    uint32_t newer; /* of the list; 0: the head */
    uint32_t older;
};

void *store_item_new(size_t n_bytes) {
    DASSERT(n_bytes >= sizeof(struct store_item));
    struct store_item *item = calloc(1, n_bytes);
    if (!item)
        return NULL;
    atomic_init(&item->n_holders, 1);
    item->n_bytes = n_bytes;
    return item;
}

void store_item_unref(void *block) {
    struct store_item *item = block;
    if (item && atomic_fetch_sub_explicit(&item->n_holders, 1, memory_order_acq_rel) == 1)
        free(item);
}

enum status store_init(struct store *store, size_t n_bytes_max) {
    *store =
        (struct store){.n_bytes_max = n_bytes_max, .n_entries = 64, .n_used = 1, .n_slots = 128};
    store->entries = calloc(store->n_entries, sizeof *store->entries);
    store->slots = calloc(store->n_slots, sizeof *store->slots);
    if (!store->entries || !store->slots || pthread_mutex_init(&store->lock, NULL) != 0) {
        free(store->entries);
        free(store->slots);
        *store = (struct store){0};
        return STATUS_NOMEM;
    }
    return STATUS_OK;
}

void store_fini(struct store *store) {
    if (!store->entries)
        return;
    for (uint32_t i = 1; i < store->n_used; i++)
        store_item_unref(store->entries[i].item);
    free(store->entries);
    free(store->slots);
    pthread_mutex_destroy(&store->lock);
    *store = (struct store){0};
}

static uint32_t *grammar_store_slot_of(const struct store *store, const uint64_t key[2]) {
    uint32_t at = (uint32_t)key[0] & (store->n_slots - 1);
    while (store->slots[at] != 0 &&
           memcmp(store->entries[store->slots[at]].key, key, 2 * sizeof *key) != 0)
        at = (at + 1) & (store->n_slots - 1);
    return &store->slots[at];
}

static void grammar_store_unlink_entry(struct store *store, uint32_t i) {
    struct store_entry *entry = &store->entries[i];
    store->entries[entry->newer].older = entry->older;
    store->entries[entry->older].newer = entry->newer;
}

static void grammar_store_link_entry(struct store *store, uint32_t i) {
    struct store_entry *head = &store->entries[0];
    store->entries[i].newer = 0;
    store->entries[i].older = head->older;
    store->entries[head->older].newer = i;
    head->older = i;
}

void *store_get(struct store *store, const uint64_t key[2]) {
    struct store_item *item = NULL;
    pthread_mutex_lock(&store->lock);
    uint32_t i = *grammar_store_slot_of(store, key);
    if (i != 0) {
        item = store->entries[i].item;
        atomic_fetch_add_explicit(&item->n_holders, 1, memory_order_relaxed);
        grammar_store_unlink_entry(store, i);
        grammar_store_link_entry(store, i);
        store->figures.n_found++;
    } else {
        store->figures.n_missed++;
    }
    pthread_mutex_unlock(&store->lock);
    return item;
}

/* Empties a slot and moves up what probed past it. */
static void grammar_store_empty_slot(struct store *store, uint32_t at) {
    uint32_t mask = store->n_slots - 1;
    for (uint32_t next = (at + 1) & mask; store->slots[next] != 0; next = (next + 1) & mask) {
        uint32_t home = (uint32_t)store->entries[store->slots[next]].key[0] & mask;
        if (((next - home) & mask) >= ((next - at) & mask)) {
            store->slots[at] = store->slots[next];
            at = next;
        }
    }
    store->slots[at] = 0;
}

static void grammar_store_drop_oldest(struct store *store) {
    uint32_t i = store->entries[0].newer;
    struct store_entry *entry = &store->entries[i];
    grammar_store_empty_slot(store,
                             (uint32_t)(grammar_store_slot_of(store, entry->key) - store->slots));
    grammar_store_unlink_entry(store, i);
    store->figures.n_bytes -= entry->item->n_bytes;
    store->figures.n_items--;
    store->figures.n_dropped++;
    store_item_unref(entry->item);
    entry->item = NULL;
    entry->older = store->free;
    store->free = i;
}

static bool grammar_store_grow(struct store *store) {
    struct store_entry *entries =
        realloc(store->entries, (size_t)store->n_entries * 2 * sizeof *entries);
    if (!entries)
        return false;
    store->entries = entries;
    uint32_t *slots = calloc((size_t)store->n_slots * 2, sizeof *slots);
    if (!slots)
        return false;
    memset(entries + store->n_entries, 0, store->n_entries * sizeof *entries);
    store->n_entries *= 2;
    free(store->slots);
    store->slots = slots;
    store->n_slots *= 2;
    for (uint32_t i = entries[0].older; i != 0; i = entries[i].older)
        *grammar_store_slot_of(store, entries[i].key) = i;
    return true;
}

void store_put(struct store *store, const uint64_t key[2], void *block) {
    struct store_item *item = block;
    pthread_mutex_lock(&store->lock);
    bool fits = item->n_bytes <= store->n_bytes_max && *grammar_store_slot_of(store, key) == 0;
    while (fits && store->figures.n_bytes + item->n_bytes > store->n_bytes_max)
        grammar_store_drop_oldest(store);
    if (fits && store->free == 0 && store->n_used == store->n_entries)
        fits = grammar_store_grow(store);
    if (fits) {
        uint32_t i = store->free;
        if (i != 0)
            store->free = store->entries[i].older;
        else
            i = store->n_used++;
        store->entries[i] = (struct store_entry){.key = {key[0], key[1]}, .item = item};
        *grammar_store_slot_of(store, key) = i;
        grammar_store_link_entry(store, i);
        atomic_fetch_add_explicit(&item->n_holders, 1, memory_order_relaxed);
        store->figures.n_bytes += item->n_bytes;
        store->figures.n_items++;
    }
    pthread_mutex_unlock(&store->lock);
}

struct store_figures store_figures(struct store *store) {
    pthread_mutex_lock(&store->lock);
    struct store_figures figures = store->figures;
    pthread_mutex_unlock(&store->lock);
    return figures;
}
