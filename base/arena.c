#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES 4096

struct arena_chunk {
    struct arena_chunk *older;
    size_t size; /* of bytes[] */
    size_t used;
    _Alignas(16) unsigned char bytes[];
};

void arena_init(struct arena *arena, size_t limit) {
    *arena = (struct arena){.limit = limit};
}

static void arena_drop_until(struct arena *arena, struct arena_chunk *last) {
    while (arena->chunk != last) {
        struct arena_chunk *older = arena->chunk->older;
        free(arena->chunk);
        arena->chunk = older;
    }
}

void arena_fini(struct arena *arena) {
    if (!arena)
        return;
    arena_drop_until(arena, NULL);
    arena->n_bytes = 0;
}

void arena_reset(struct arena *arena) {
    struct arena_chunk *first = arena->chunk;
    while (first && first->older)
        first = first->older;
    arena_drop_until(arena, first);
    if (first) {
        memset(first->bytes, 0, first->used);
        first->used = 0;
    }
    arena->n_bytes = first ? first->size : 0;
}

void *arena_alloc(struct arena *arena, size_t size) {
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + 15) & ~(size_t)15;
    struct arena_chunk *chunk = arena->chunk;
    if (!chunk || chunk->size - chunk->used < size) {
        size_t bytes = size > CHUNK_BYTES ? size : CHUNK_BYTES;
        if (arena->n_bytes > arena->limit || bytes > arena->limit - arena->n_bytes)
            bytes = size;
        if (arena->n_bytes > arena->limit || bytes > arena->limit - arena->n_bytes)
            return NULL;
        chunk = calloc(1, sizeof *chunk + bytes);
        if (!chunk)
            return NULL;
        chunk->size = bytes;
        chunk->older = arena->chunk;
        arena->chunk = chunk;
        arena->n_bytes += bytes;
    }
    void *at = chunk->bytes + chunk->used;
    chunk->used += size;
    return at;
}

char *arena_copy(struct arena *arena, const char *bytes, size_t n) {
    char *copy = arena_alloc(arena, n + 1);
    if (copy && n > 0)
        memcpy(copy, bytes, n);
    return copy;
}
