/* model/text/grammar/engine/store.h: what was worked out once, kept by the hash of what it follows
 * from, under a bound of memory; what was not asked for the longest leaves first.
 *
 * An item is a block of the heap that never changes, held by as many as use it: the store is one of
 * them. Any thread: one lock, held for a look-up. */
#pragma once

#include "base/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Stands first in every block that is kept. */
struct store_item {
    atomic_uint n_holders;
    size_t n_bytes; /* of the block */
};

struct store_entry;

struct store_figures {
    uint64_t n_found;
    uint64_t n_missed;
    uint64_t n_bytes;
    uint64_t n_items;
    uint64_t n_dropped;
};

struct store {
    pthread_mutex_t lock;
    size_t n_bytes_max;
    struct store_entry *entries; /* owned (n_entries): [0] heads the list of all, newest first */
    uint32_t n_entries;
    uint32_t n_used;
    uint32_t free; /* list of unused entries */
    uint32_t *slots;
    uint32_t n_slots;
    struct store_figures figures;
};

NODISCARD enum status store_init(struct store *store, size_t n_bytes_max);
void store_fini(struct store *store); /* no thread uses it any more; held items live on */

/* The item of a key, held by the caller too; NULL: not there. */
void *store_get(struct store *store, const uint64_t key[2]);

/* Keeps an item, which the caller goes on to hold. Where one of that key came meanwhile, or there is no
 * memory for one more, it is not kept. */
void store_put(struct store *store, const uint64_t key[2], void *item);

/* A fresh block of n_bytes, zeroed, with one holder; NULL: no memory. */
void *store_item_new(size_t n_bytes);
void store_item_unref(void *item); /* NULL is fine */

struct store_figures store_figures(struct store *store);
