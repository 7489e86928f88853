/* base/arena.h: memory that is dropped as a whole: a request's strings, a message's fields.
 *
 * Grows in chunks up to `limit` bytes; then arena_alloc() answers NULL. Nothing is freed singly.
 * One owner thread. */
#pragma once

#include <stddef.h>

struct arena_chunk;

struct arena {
    struct arena_chunk *chunk; /* owned: newest first */
    size_t n_bytes;            /* handed out or held by chunks so far */
    size_t limit;              /* bytes */
};

void arena_init(struct arena *arena, size_t limit);
void arena_fini(struct arena *arena); /* frees everything; fine on a zeroed arena */

/* Frees everything but the first chunk, ready for the next use. */
void arena_reset(struct arena *arena);

/* `size` bytes, zeroed, aligned to 16. NULL when the limit is reached or memory is short. */
void *arena_alloc(struct arena *arena, size_t size);

/* A copy of n bytes with a NUL behind it. NULL as above. */
char *arena_copy(struct arena *arena, const char *bytes, size_t n);
