/* Watches every load and store of a kernel. The .cu file is compiled with -fsanitize=thread and -fsanitize=bounds,
 * but linked with this file in place of the sanitizers' libraries: the compiler's calls come here.
 *
 * An access must lie in shared memory, in memory of the device, in the kernel's arguments or on the
 * thread's own stack. Two threads that touch the same byte, one of them writing, must have a barrier
 * between them: __syncthreads in a block, or __syncwarp in a warp (a shuffle orders no memory); threads
 * of two blocks may not, unless both do it with atomics. Before griddep_wait() a thread writes nothing,
 * and reads nothing that the launches wrote with which its own may overlap. */
#include "tests/emulator/arena.h"
#include "tests/emulator/machine.h"

#include <memory>
#include <stdio.h>
#include <stdlib.h>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace {

#define MANY 0xffffffffu

/* Who touched a byte in one way, last: lanes of one warp in one warp epoch, or many. */
struct trace {
    uint64_t launch; /* 0: nobody */
    uint32_t block, block_epoch, warp, warp_epoch;
    uint32_t lanes;
};

struct cell {
    trace of[3]; /* by emu_access */
};

#define PAGE_BYTES 64
struct page {
    cell cells[PAGE_BYTES];
};

/* Of the thread that runs launches. */
struct shadow {
    std::vector<cell> shared;
    std::unordered_map<uintptr_t, std::unique_ptr<page>> pages; /* of this launch alone */
    std::unordered_set<uintptr_t> written; /* pages: by this launch and those it overlaps with */
    uint64_t launch;
    uintptr_t last_number;
    page *last;
};
thread_local shadow *own;

struct visit {
    struct emu_clock clock;
    uint32_t warp, lane;
    bool apart; /* shared memory: other blocks have their own */
};

/* Whether all of `before` lies before what happens now. */
bool is_ordered(const trace &before, const visit &now) {
    if (before.launch != now.clock.launch)
        return true;
    /* The order in which blocks that are alive together wait for each other is not followed. */
    if (before.block != now.clock.block)
        return now.apart || now.clock.together;
    if (before.block_epoch != now.clock.block_epoch)
        return true;
    if (before.warp != now.warp)
        return false;
    return before.warp_epoch != now.clock.warp_epoch || before.lanes == 1u << now.lane;
}

void add(trace &to, const visit &now) {
    bool same_launch = to.launch == now.clock.launch;
    if (same_launch && to.block != now.clock.block && !now.apart) {
        to.block = MANY;
        return;
    }
    if (!same_launch || to.block_epoch != now.clock.block_epoch) {
        to = {now.clock.launch, now.clock.block,      now.clock.block_epoch,
              now.warp,         now.clock.warp_epoch, 1u << now.lane};
        return;
    }
    if (to.warp != now.warp) {
        to.warp = MANY;
    } else if (to.warp_epoch != now.clock.warp_epoch) {
        to.warp_epoch = now.clock.warp_epoch;
        to.lanes = 1u << now.lane;
    } else {
        to.lanes |= 1u << now.lane;
    }
}

[[noreturn]] void fail_race(const trace &before, enum emu_access was, enum emu_access is,
                            const char *where, size_t at) {
    static const char *const did[] = {"read", "wrote", "changed"};
    static const char *const does[] = {"reads", "writes", "changes"};
    char who[64];
    if (before.block == MANY)
        snprintf(who, sizeof who, "several blocks");
    else if (before.block != emu_clock_now().block)
        snprintf(who, sizeof who, "block number %u", before.block);
    else if (before.warp == MANY)
        snprintf(who, sizeof who, "several warps");
    else
        snprintf(who, sizeof who, "warp %u lanes %08x", before.warp, before.lanes);
    emu_fail("race in %s at byte %zu: %s %s it, this thread %s it, no barrier between", where, at,
             who, did[was], does[is]);
}

/* Two accesses meet in a race unless both read, or both are atomic. */
void visit_cell(cell &c, const visit &now, enum emu_access how, const char *where, size_t at) {
    for (int was = 0; was < 3; was++)
        if ((how != was || how == EMU_WRITE) && !is_ordered(c.of[was], now))
            fail_race(c.of[was], (enum emu_access)was, how, where, at);
    add(c.of[how], now);
}

cell &cell_at(uintptr_t address) {
    uintptr_t number = address / PAGE_BYTES;
    if (!own->last || own->last_number != number) {
        std::unique_ptr<page> &found = own->pages[number];
        if (!found)
            found.reset(new page());
        own->last = found.get();
        own->last_number = number;
    }
    return own->last->cells[address % PAGE_BYTES];
}

shadow *shadow_for(const struct emu_clock &clock) {
    static thread_local std::unique_ptr<shadow> of_thread;
    if (!of_thread)
        of_thread.reset(new shadow());
    if (of_thread->launch != clock.launch) {
        of_thread->launch = clock.launch;
        of_thread->pages.clear();
        if (!clock.overlaps)
            of_thread->written.clear();
        of_thread->last = nullptr;
    }
    size_t n_shared = (clock.slot + 1) * clock.shared_bytes;
    if (of_thread->shared.size() < n_shared)
        of_thread->shared.resize(n_shared);
    return of_thread.get();
}

void note_page(uintptr_t number, const visit &now, enum emu_access how) {
    if (now.clock.early && (how != EMU_READ || own->written.count(number) > 0))
        emu_fail("%s before griddep_wait()%s", how == EMU_READ ? "reads" : "writes",
                 how == EMU_READ ? " what a kernel before may still write" : "");
    if (how != EMU_READ)
        own->written.insert(number);
}

bool lies_in(const void *p, size_t n, const void *from, size_t n_from) {
    const unsigned char *at = (const unsigned char *)p, *begin = (const unsigned char *)from;
    return at >= begin && at + n <= begin + n_from;
}

void touched(const void *p, size_t n, enum emu_access how) {
    visit now = {emu_clock_now(), 0, 0, false};
    if (now.clock.launch == 0)
        return; /* the host's part of the file */
    now.warp = now.clock.thread / EMU_WARP;
    now.lane = now.clock.thread % EMU_WARP;
    if (lies_in(p, n, now.clock.stack, now.clock.stack_bytes) ||
        lies_in(p, n, &emu_now, sizeof emu_now) ||
        (how == EMU_READ && lies_in(p, n, now.clock.arguments, now.clock.arguments_bytes)))
        return;
    own = shadow_for(now.clock);
    const unsigned char *at = (const unsigned char *)p;
    if (lies_in(p, n, now.clock.shared, now.clock.shared_bytes)) {
        size_t begin = (size_t)(at - now.clock.shared);
        now.apart = true;
        cell *cells = &own->shared[now.clock.slot * now.clock.shared_bytes];
        for (size_t i = begin; i < begin + n; i++)
            visit_cell(cells[i], now, how, "shared memory", i);
        return;
    }
    if (!arena_holds(now.clock.arena, p, n))
        emu_fail("%s %zu bytes at %p: not memory of the device",
                 how == EMU_READ ? "reads" : "writes", n, p);
    note_page((uintptr_t)at / PAGE_BYTES, now, how);
    for (size_t i = 0; i < n; i++)
        visit_cell(cell_at((uintptr_t)at + i), now, how, "memory of the device",
                   arena_offset(now.clock.arena, at + i));
}

const int installed = (emu_touched = touched, 0);

} // namespace

/* The calls that g++ makes. */
extern "C" {

void __tsan_init(void);
void __tsan_init(void) {
    (void)installed;
}

#define ACCESS(n)                                                                                  \
    void __tsan_read##n(void *p);                                                                  \
    void __tsan_write##n(void *p);                                                                 \
    void __tsan_unaligned_read##n(void *p);                                                        \
    void __tsan_unaligned_write##n(void *p);                                                       \
    void __tsan_volatile_read##n(void *p);                                                         \
    void __tsan_volatile_write##n(void *p);                                                        \
    void __tsan_read##n(void *p) {                                                                 \
        touched(p, n, EMU_READ);                                                                   \
    }                                                                                              \
    void __tsan_write##n(void *p) {                                                                \
        touched(p, n, EMU_WRITE);                                                                  \
    }                                                                                              \
    void __tsan_unaligned_read##n(void *p) {                                                       \
        touched(p, n, EMU_READ);                                                                   \
    }                                                                                              \
    void __tsan_unaligned_write##n(void *p) {                                                      \
        touched(p, n, EMU_WRITE);                                                                  \
    }                                                                                              \
    void __tsan_volatile_read##n(void *p) {                                                        \
        touched(p, n, EMU_READ);                                                                   \
    }                                                                                              \
    void __tsan_volatile_write##n(void *p) {                                                       \
        touched(p, n, EMU_WRITE);                                                                  \
    }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

void __tsan_read_range(void *p, size_t n);
void __tsan_read_range(void *p, size_t n) {
    touched(p, n, EMU_READ);
}
void __tsan_write_range(void *p, size_t n);
void __tsan_write_range(void *p, size_t n) {
    touched(p, n, EMU_WRITE);
}

/* An index past an array inside a struct, which lies in memory that the thread may touch. */
struct bounds_data {
    const char *file;
    uint32_t line, column;
};
void __ubsan_handle_out_of_bounds_abort(struct bounds_data *data, uintptr_t index);
void __ubsan_handle_out_of_bounds_abort(struct bounds_data *data, uintptr_t index) {
    if (emu_clock_now().launch != 0)
        emu_fail("index %lld is out of bounds at %s:%u", (long long)index, data->file, data->line);
    fprintf(stderr, "%s:%u: index %lld is out of bounds\n", data->file, data->line,
            (long long)index);
    abort();
}
}
