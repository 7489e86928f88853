#include "kernels/cuda/emulator/arena.h"

#include "kernels/cuda/emulator/fault.h"
#include "kernels/cuda/emulator/machine.h"

#include <map>
#include <stdlib.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define HIDE(p, n) __asan_poison_memory_region(p, n)
#define SHOW(p, n) __asan_unpoison_memory_region(p, n)
#else
#define HIDE(p, n) ((void)(p), (void)(n))
#define SHOW(p, n) ((void)(p), (void)(n))
#endif

#define ALIGN  256
#define ZONE   256 /* of poison, behind each piece */
#define SPREAD 32  /* addresses per byte, so that none is soon used again */
#define REST                                                                                       \
    ((uint64_t)16                                                                                  \
     << 20) /* bytes that rest before they are used again: all that were given out are opened
                                       and closed with each launch, which takes its time */

struct arena {
    unsigned char *base;
    uint64_t reserved; /* addresses */
    uint64_t n_bytes, used;
    uint64_t top;    /* up to here addresses were given out */
    uint64_t cursor; /* behind the piece that was taken last */
    uint32_t n_open;
    std::map<uint64_t, size_t> pieces; /* offset, bytes asked for */
};

static uint64_t room_of(size_t n_bytes) {
    return (n_bytes + ALIGN - 1) / ALIGN * ALIGN + ZONE;
}

static uint64_t pages(uint64_t n_bytes) {
    return (n_bytes + 4095) / 4096 * 4096;
}

struct arena *arena_new(uint64_t n_bytes) {
    uint64_t reserved = pages(n_bytes * SPREAD);
    void *base =
        mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return nullptr;
    struct arena *arena = new struct arena();
    arena->base = (unsigned char *)base;
    arena->reserved = reserved;
    arena->n_bytes = n_bytes;
    fault_watch(base, reserved);
    return arena;
}

void arena_free(struct arena *arena) {
    if (!arena)
        return;
    SHOW(arena->base, arena->top);
    fault_forget(arena->base);
    munmap(arena->base, arena->reserved);
    delete arena;
}

void arena_open(struct arena *arena) {
    if (arena->n_open++ == 0 && arena->top > 0 &&
        mprotect(arena->base, pages(arena->top), PROT_READ | PROT_WRITE) != 0)
        abort();
}

void arena_close(struct arena *arena) {
    if (--arena->n_open == 0 && arena->top > 0 &&
        mprotect(arena->base, pages(arena->top), PROT_NONE) != 0)
        abort();
}

/* The pages of one piece alone, while no launch has opened all. */
static void piece_access(struct arena *arena, const unsigned char *p, uint64_t room, int access) {
    uint64_t begin = (uint64_t)(p - arena->base) / 4096 * 4096;
    uint64_t end = pages((uint64_t)(p - arena->base) + room);
    if (arena->n_open == 0 && mprotect(arena->base + begin, end - begin, access) != 0)
        abort();
}

static void piece_open(struct arena *arena, const unsigned char *p, uint64_t room) {
    piece_access(arena, p, room, PROT_READ | PROT_WRITE);
}

static void piece_close(struct arena *arena, const unsigned char *p, uint64_t room) {
    piece_access(arena, p, room, PROT_NONE);
}

/* The first gap from `at` on; `reserved` where there is none. */
static uint64_t gap_from(const struct arena *arena, uint64_t at, uint64_t room) {
    for (const auto &piece : arena->pieces) {
        uint64_t end = piece.first + room_of(piece.second);
        if (end <= at)
            continue;
        if (piece.first >= at + room)
            return at;
        at = end;
    }
    return at <= arena->reserved && arena->reserved - at >= room ? at : arena->reserved;
}

/* Behind the piece that was taken last, as long as not too many bytes rest; then from the first gap on.
 * Answers `reserved` where there is none. */
static uint64_t place_for(const struct arena *arena, uint64_t room) {
    uint64_t end = 0;
    if (!arena->pieces.empty())
        end = arena->pieces.rbegin()->first + room_of(arena->pieces.rbegin()->second);
    uint64_t at = gap_from(arena, arena->cursor, room);
    bool rested = at == arena->reserved || (at >= end && at + room > end + REST);
    return rested ? gap_from(arena, 0, room) : at;
}

void *arena_take(struct arena *arena, size_t n_bytes) {
    n_bytes = n_bytes > 0 ? n_bytes : 1;
    uint64_t room = room_of(n_bytes), at = place_for(arena, room);
    if (n_bytes > arena->n_bytes - arena->used || at == arena->reserved)
        return nullptr;
    unsigned char *p = arena->base + at;
    if (at + room > arena->top)
        arena->top = at + room;
    piece_open(arena, p, room);
    SHOW(p, room);
    memset(p, 0, n_bytes);
    memset(p + n_bytes, EMU_POISON, room - n_bytes);
    HIDE(p + n_bytes, room - n_bytes);
    arena->pieces[at] = n_bytes;
    arena->cursor = at + room;
    arena->used += n_bytes;
    piece_close(arena, p, room);
    return p;
}

static bool zone_is_whole(const unsigned char *p, size_t n) {
    SHOW(p, n);
    bool whole = true;
    for (size_t i = 0; i < n; i++)
        whole = whole && p[i] == EMU_POISON;
    return whole;
}

const char *arena_give(struct arena *arena, void *memory) {
    uint64_t at = (uint64_t)((unsigned char *)memory - arena->base);
    auto piece = arena->pieces.find(at);
    if (piece == arena->pieces.end())
        return "the memory that is given back is not the device's";
    size_t n_bytes = piece->second;
    uint64_t room = room_of(n_bytes);
    unsigned char *p = arena->base + at;
    piece_open(arena, p, room);
    bool whole = zone_is_whole(p + n_bytes, room - n_bytes);
    SHOW(p, room);
    /* Who reads it later finds poison; of large pieces the pages go back and it finds zeros. */
    if (room <= (64u << 10))
        memset(p, EMU_POISON, room);
    else
        madvise((void *)pages((uint64_t)p), (room - 4096) & ~(uint64_t)4095, MADV_DONTNEED);
    piece_close(arena, p, room);
    HIDE(p, room);
    arena->used -= n_bytes;
    arena->pieces.erase(piece);
    return whole ? nullptr : "a kernel or a copy wrote behind a piece of memory";
}

uint64_t arena_free_bytes(const struct arena *arena) {
    return arena->n_bytes - arena->used;
}

bool arena_holds(const struct arena *arena, const void *p, size_t n_bytes) {
    const unsigned char *at = (const unsigned char *)p;
    if (at < arena->base || at >= arena->base + arena->top)
        return false;
    uint64_t offset = (uint64_t)(at - arena->base);
    auto after = arena->pieces.upper_bound(offset);
    if (after == arena->pieces.begin())
        return false;
    --after;
    return offset + n_bytes <= after->first + after->second;
}

uint64_t arena_offset(const struct arena *arena, const void *p) {
    return (uint64_t)((const unsigned char *)p - arena->base);
}
