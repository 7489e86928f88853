/* kernels/cuda/emulator/arena.h: the memory of an emulated device: one range of addresses, which the host may not
 * touch except between arena_open and arena_close, when a launch or a copy runs.
 *
 * Around each piece lie bytes of poison that nobody may write. The caller holds the device's lock. */
#pragma once

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

/* Whether all bytes lie in one piece that was taken and not given back. */
bool arena_holds(const struct arena *arena, const void *p, size_t n_bytes);
/* Of an address in it, for messages: the same in each run. */
uint64_t arena_offset(const struct arena *arena, const void *p);

/* Nest. */
void arena_open(struct arena *arena);
void arena_close(struct arena *arena);
