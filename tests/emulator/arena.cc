#include "tests/emulator/arena.h"

#include "tests/emulator/fault.h"
#include "tests/emulator/machine.h"
#include "tests/emulator/pages.h"

#include <fcntl.h>
#include <map>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

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
    std::map<uint64_t, size_t> pieces;     /* offset, bytes asked for */
    std::map<uint64_t, int> lent;          /* offset of a piece, its memfd */
    std::map<uint64_t, uint64_t> borrowed; /* the same, the bytes that were mapped for it */
};

static uint64_t room_of(size_t n_bytes) {
    return (n_bytes + ALIGN - 1) / ALIGN * ALIGN + ZONE;
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
    for (const auto &piece : arena->lent)
        close(piece.second);
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

/* Where the page begins that an offset lies in; others may end there. */
static uint64_t first_page(uint64_t at) {
    return at / PAGE * PAGE;
}

/* The pages of one piece alone, while no launch has opened all. */
static void piece_access(struct arena *arena, const unsigned char *p, uint64_t room, int access) {
    uint64_t begin = first_page((uint64_t)(p - arena->base));
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

static void close_pages(struct arena *arena, uint64_t begin, uint64_t end) {
    int access = arena->n_open > 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
    if (mprotect(arena->base + begin, end - begin, access) != 0)
        abort();
}

/* Whole pages, with what is in them, into a file or (-1) into memory of this process alone. */
static bool move_pages(struct arena *arena, uint64_t begin, uint64_t end, int fd) {
    unsigned char *at = arena->base + begin;
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
    if (mprotect(at, end - begin, PROT_READ | PROT_WRITE) != 0)
        abort();
    std::vector<unsigned char> kept(end - begin);
    SHOW(at, end - begin);
    memcpy(kept.data(), at, end - begin);
    bool moved = mmap(at, end - begin, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0) == at;
    if (moved)
        memcpy(at, kept.data(), end - begin);
    close_pages(arena, begin, end);
    return moved;
}

/* The end of the pages that a piece lies in. */
static uint64_t last_page(uint64_t at, size_t n_bytes) {
    return pages(at + room_of(n_bytes));
}

enum status arena_lend(struct arena *arena, void *memory, struct arena_share *share) {
    uint64_t at = (uint64_t)((unsigned char *)memory - arena->base);
    auto piece = arena->pieces.find(at);
    if (piece == arena->pieces.end() || arena->borrowed.count(at) > 0)
        return STATUS_INVALID;
    uint64_t begin = first_page(at), n_file = last_page(at, piece->second) - begin;
    auto lent = arena->lent.find(at);
    if (lent == arena->lent.end()) {
        int fd = memfd_create("tandem-emu", MFD_CLOEXEC);
        if (fd < 0)
            return STATUS_IO;
        if (ftruncate(fd, (off_t)n_file) != 0 || !move_pages(arena, begin, begin + n_file, fd)) {
            close(fd);
            return STATUS_IO;
        }
        lent = arena->lent.emplace(at, fd).first;
    }
    *share = {lent->second, n_file, at - begin, piece->second};
    return STATUS_OK;
}

/* Where a piece begins and ends, with nothing of another one between. What is beside a borrowed one on its pages is the lender's. */
struct extent {
    uint64_t begin, end;
};
static struct extent extent_of(const struct arena *arena, uint64_t at, size_t n_bytes) {
    auto borrowed = arena->borrowed.find(at);
    if (borrowed == arena->borrowed.end())
        return {at, at + room_of(n_bytes)};
    return {first_page(at), first_page(at) + borrowed->second};
}

/* The first gap from `at` on; `reserved` where there is none. */
static uint64_t gap_from(const struct arena *arena, uint64_t at, uint64_t room) {
    for (const auto &piece : arena->pieces) {
        struct extent taken = extent_of(arena, piece.first, piece.second);
        if (taken.end <= at)
            continue;
        if (taken.begin >= at + room)
            return at;
        at = taken.end;
    }
    return at <= arena->reserved && arena->reserved - at >= room ? at : arena->reserved;
}

/* Behind the piece that was taken last, as long as not too many bytes rest; then from the first gap on.
 * Answers `reserved` where there is none. */
static uint64_t place_for(const struct arena *arena, uint64_t room) {
    uint64_t end = 0;
    if (!arena->pieces.empty())
        end = extent_of(arena, arena->pieces.rbegin()->first, arena->pieces.rbegin()->second).end;
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
    size_t n_used = at >= arena->top ? 0 : arena->top - at; /* what was never given out is zero */
    if (at + room > arena->top)
        arena->top = at + room;
    piece_open(arena, p, room);
    SHOW(p, room);
    memset(p, 0, n_used < n_bytes ? n_used : n_bytes);
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

void *arena_borrow(struct arena *arena, const struct arena_share *share) {
    uint64_t at = place_for(arena, share->n_file + PAGE);
    if (at == arena->reserved || share->at + share->n_bytes > share->n_file)
        return nullptr;
    uint64_t begin = pages(at);
    unsigned char *p = arena->base + begin;
    if (mmap(p, share->n_file, PROT_NONE, MAP_SHARED | MAP_FIXED, share->fd, 0) != p)
        return nullptr;
    SHOW(p, share->n_file);
    close_pages(arena, begin, begin + share->n_file);
    arena->pieces[begin + share->at] = share->n_bytes;
    arena->borrowed[begin + share->at] = share->n_file;
    arena->cursor = begin + share->n_file;
    arena->top = arena->cursor > arena->top ? arena->cursor : arena->top;
    return p + share->at;
}

const char *arena_return(struct arena *arena, void *memory) {
    uint64_t at = (uint64_t)((unsigned char *)memory - arena->base), begin = first_page(at);
    auto borrowed = arena->borrowed.find(at);
    if (borrowed == arena->borrowed.end())
        return "the memory that is released was not adopted";
    if (mmap(arena->base + begin, borrowed->second, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        abort();
    close_pages(arena, begin, begin + borrowed->second);
    arena->borrowed.erase(borrowed);
    arena->pieces.erase(at);
    return nullptr;
}

const char *arena_give(struct arena *arena, void *memory) {
    uint64_t at = (uint64_t)((unsigned char *)memory - arena->base);
    auto piece = arena->pieces.find(at);
    if (piece == arena->pieces.end() || arena->borrowed.count(at) > 0)
        return "the memory that is given back is not the device's";
    size_t n_bytes = piece->second;
    uint64_t room = room_of(n_bytes);
    auto lent = arena->lent.find(at);
    if (lent != arena->lent.end()) {
        if (!move_pages(arena, first_page(at), last_page(at, n_bytes), -1))
            abort();
        close(lent->second);
        arena->lent.erase(lent);
    }
    unsigned char *p = arena->base + at;
    piece_open(arena, p, room);
    bool whole = zone_is_whole(p + n_bytes, room - n_bytes);
    SHOW(p, room);
    /* Who reads it later finds poison; of large pieces the pages go back and it finds zeros. */
    if (room <= (64u << 10))
        memset(p, EMU_POISON, room);
    else
        madvise((void *)pages((uint64_t)p), first_page(room - PAGE), MADV_DONTNEED);
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
