/* tests/emulator/arena.h: the memory of an emulated device: one range of addresses, which the host may not
 * touch except between arena_open and arena_close, when a launch or a copy runs.
 *
 * Around each piece lie bytes of poison that nobody may write. The caller holds the device's lock. */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct arena;

struct arena *arena_new(uint64_t n_bytes); /* NULL: no address space */
void arena_free(struct arena *arena);      /* NULL is fine */

/* Zeroed, 256-byte aligned; NULL where there is none. */
void *arena_take(struct arena *arena, size_t n_bytes);
/* NULL, or what was wrong: not a piece of this arena, or somebody wrote beside it. */
const char *arena_give(struct arena *arena, void *memory);
uint64_t arena_free_bytes(const struct arena *arena);

/* A piece, moved to a memfd of the arena's, which is closed when the piece is given back: all of it that another
 * process needs to map it too. STATUS_IO: no memfd; STATUS_INVALID: not a piece of this arena. */
struct arena_share {
    int fd;
    uint64_t n_file;  /* bytes of the file: whole pages */
    uint64_t at;      /* of the piece in it */
    uint64_t n_bytes; /* of the piece */
};
enum status arena_lend(struct arena *arena, void *memory, struct arena_share *share);
/* Another process's piece, whose file is open here: takes no memory of this arena. NULL: it cannot be mapped. */
void *arena_borrow(struct arena *arena, const struct arena_share *share);
/* NULL, or what was wrong: not a piece that was borrowed. */
const char *arena_return(struct arena *arena, void *memory);

/* Whether all bytes lie in one piece that was taken and not given back. */
bool arena_holds(const struct arena *arena, const void *p, size_t n_bytes);
/* Of an address in it, for messages: the same in each run. */
uint64_t arena_offset(const struct arena *arena, const void *p);

/* Nest. */
void arena_open(struct arena *arena);
void arena_close(struct arena *arena);
