/* The machine: who runs next, barriers, meetings of a warp, launches. Everything is the calling thread's own. */
#include "kernels/cuda/emulator/machine.h"

#include "kernels/cuda/emulator/fault.h"
#include "kernels/cuda/emulator/fiber.h"

#include <atomic>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#include <xmmintrin.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define HIDE(p, n) __asan_poison_memory_region(p, n)
#define SHOW(p, n) __asan_unpoison_memory_region(p, n)
#define HIDES      true
#else
#define HIDE(p, n) ((void)(p), (void)(n))
#define SHOW(p, n) ((void)(p), (void)(n))
#define HIDES      false
#endif

#define GUARD       128 /* bytes behind shared memory that nobody may write */
#define SHARED_ROOM (EMU_SHARED_MAX + 1024)
#define MXCSR_FLUSH 0x8040u   /* flush-to-zero and denormals-are-zero */
#define SPINS_MAX   (1 << 20) /* yields in a row while nothing else happens */

__thread struct emu_place emu_now;
void (*emu_touched)(const void *p, size_t n, enum emu_access how);

namespace {

enum state { READY, IN_WARP, AT_BARRIER, DONE };

/* A CUDA thread. */
struct thread {
    struct fiber fiber;
    uint3 index;
    state at;
    int line;                            /* of the barrier */
    std::vector<struct emu_copy> copies; /* cp.async, in order; emptied once all have come */
    std::vector<size_t> groups;          /* committed ones: how many copies there were then */
    size_t n_come, n_waited;             /* copies that have come, groups that were waited for */
    bool waited;                         /* for the kernels before this one */
};

struct warp {
    uint32_t alive, ready, arrived; /* lanes */
    uint32_t mask[EMU_WARP];
    enum emu_operation what[EMU_WARP];
    void *operand[EMU_WARP];
    uint32_t epoch;
};

/* A block that is alive, or room for one. */
struct block {
    uint3 index;
    uint32_t number, slot; /* slot: in machine.blocks */
    uint32_t n_waiting, n_done, epoch;
    uint32_t n_stacks;
    unsigned char *stacks; /* (n_stacks) */
    unsigned char *shared; /* (SHARED_ROOM) */
    thread threads[EMU_THREADS_MAX];
    warp warps[EMU_THREADS_MAX / EMU_WARP];
};

struct machine {
    std::vector<block *> blocks;     /* owned */
    const struct emu_launch *launch; /* NULL: none runs */
    uint64_t number;                 /* of the launch */
    uint64_t seed;
    uint32_t n;       /* threads of a block */
    uint32_t n_alive; /* blocks that run now: 1, or all of the grid */
    uint32_t n_epochs, n_spins;
    block *in;    /* of the thread that runs */
    uint32_t now; /* its number there */
    fiber home;   /* of the launching thread */
    bool from_home, failed;
    char text[400];
    struct emu_figures figures;
};
__thread machine *m;

const char *name_of(enum emu_operation what) {
    static const char *const names[] = {"nothing",  "shfl",     "ballot",
                                        "syncwarp", "ldmatrix", "ldmatrix.trans",
                                        "mma.f16",  "mma.bf16", "mma.s8"};
    return names[what];
}

uint32_t random_below(uint32_t n) {
    m->seed = m->seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((m->seed >> 33) % n);
}

thread &self() {
    return m->in->threads[m->now];
}

warp &own_warp() {
    return m->in->warps[m->now / EMU_WARP];
}

void place(block *b, uint32_t now) {
    m->in = b;
    m->now = now;
    emu_now.block = b->index;
    emu_now.thread = b->threads[now].index;
}

/* A thread of the block that can run: of the same warp if there is one, so that its lanes meet soon. */
bool next_in(const block *b, uint32_t *next) {
    uint32_t n_warps = (m->n + EMU_WARP - 1) / EMU_WARP;
    uint32_t own = b == m->in ? m->now / EMU_WARP : 0, lane = m->now % EMU_WARP;
    uint32_t first = m->seed ? random_below(n_warps) : own;
    for (uint32_t i = 0; i <= n_warps; i++) {
        uint32_t w = i == 0 ? own : (first + i) % n_warps;
        uint32_t ready = b->warps[w].ready;
        if (!ready)
            continue;
        uint32_t after = w == own && lane < 31 ? ready & (~0u << (lane + 1)) : ready;
        *next = w * EMU_WARP + (uint32_t)__builtin_ctz(after ? after : ready);
        return true;
    }
    return false;
}

/* Of this block, else of the next one that is alive. */
bool next_thread(block **b, uint32_t *next) {
    for (uint32_t i = 0; i < m->n_alive; i++) {
        *b = m->blocks[(m->in->slot + i) % m->n_alive];
        if (next_in(*b, next))
            return true;
    }
    return false;
}

[[noreturn]] void stuck() {
    for (uint32_t k = 0; k < m->n_alive; k++) {
        const block *b = m->blocks[k];
        for (uint32_t i = 0; i < m->n; i++) {
            const warp &w = b->warps[i / EMU_WARP];
            if (b->threads[i].at == IN_WARP)
                emu_fail("warp %u: lanes %08x wait in %s for lanes %08x, of which %08x have ended",
                         i / EMU_WARP, w.arrived, name_of(w.what[i % EMU_WARP]),
                         w.mask[i % EMU_WARP] & ~w.arrived, w.mask[i % EMU_WARP] & ~w.alive);
        }
    }
    emu_fail("%u of %u threads wait at a barrier, %u have ended", m->in->n_waiting, m->n,
             m->in->n_done);
}

bool all_done() {
    for (uint32_t k = 0; k < m->n_alive; k++)
        if (m->blocks[k]->n_done != m->n)
            return false;
    return true;
}

/* Lets another thread run; returns when this one may go on (never after DONE). */
void leave(state at) {
    thread &t = self();
    block *b = m->in;
    uint32_t bit = 1u << m->now % EMU_WARP, next = m->now;
    t.at = at;
    own_warp().ready &= ~bit;
    if (at == DONE) {
        own_warp().alive &= ~bit;
        b->n_done++;
    }
    m->n_spins = 0;
    m->figures.n_switches++;
    if (!next_thread(&b, &next)) {
        if (!all_done())
            stuck();
        fiber_go(&t.fiber, &m->home, true);
    }
    place(b, next);
    fiber_go(&t.fiber, &self().fiber, at == DONE);
}

void release_block(block *b) {
    for (uint32_t i = 0; i < m->n; i++)
        if (b->threads[i].at == AT_BARRIER) {
            b->threads[i].at = READY;
            b->warps[i / EMU_WARP].ready |= 1u << i % EMU_WARP;
        }
    b->n_waiting = 0;
    b->epoch = ++m->n_epochs;
}

/* Where a CUDA thread begins. */
void entry() {
    fiber_begin(m->from_home ? &m->home : nullptr);
    m->from_home = false;
    m->launch->call(m->launch->what);
    const thread &t = self();
    if (t.n_waited < t.groups.size() || t.n_come < t.copies.size())
        emu_fail("ends with copies that it did not wait for");
    if (m->launch->ahead && !t.waited)
        emu_fail("ends without griddep_wait()");
    block *b = m->in;
    if (b->n_waiting > 0 && b->n_waiting + b->n_done + 1 == m->n)
        release_block(b); /* the others do not wait for a thread that has ended */
    leave(DONE);
    __builtin_unreachable();
}

/* Room for blocks of n threads: a block is made once and its stacks grow. */
bool make_room(uint32_t n_blocks, uint32_t n_threads) {
    while (m->blocks.size() < n_blocks) {
        block *made = new block();
        made->slot = (uint32_t)m->blocks.size();
        made->shared = (unsigned char *)aligned_alloc(1024, SHARED_ROOM);
        m->blocks.push_back(made);
        if (!made->shared)
            return false;
    }
    for (uint32_t k = 0; k < n_blocks; k++) {
        block *b = m->blocks[k];
        if (b->n_stacks >= n_threads)
            continue;
        fiber_stacks_free(b->stacks, b->n_stacks);
        b->n_stacks = 0;
        b->stacks = fiber_stacks_new(n_threads);
        if (!b->stacks)
            return false;
        b->n_stacks = n_threads;
    }
    return true;
}

struct machine_owner {
    machine *own = nullptr;
    ~machine_owner() {
        if (!own)
            return;
        for (block *b : own->blocks) {
            fiber_stacks_free(b->stacks, b->n_stacks);
            SHOW(b->shared, b->shared ? SHARED_ROOM : 0);
            free(b->shared);
            delete b;
        }
        delete own;
    }
};

void where(const void *p, char *line, size_t n) {
    if (!m || !m->launch)
        return;
    bool over = p >= self().fiber.stack && p < self().fiber.stack + FIBER_STACK;
    snprintf(line, n, "emu: block %u,%u,%u thread %u: %s\n", emu_now.block.x, emu_now.block.y,
             emu_now.block.z, m->now, over ? "runs over its stack" : "touches what is no memory");
}

machine *machine_of_thread() {
    static thread_local machine_owner of_thread;
    if (!of_thread.own) {
        const char *seed = getenv("EMU_SEED");
        of_thread.own = new machine();
        of_thread.own->seed = seed ? strtoull(seed, nullptr, 10) : 0;
        fault_thread(where);
    }
    return of_thread.own;
}

/* The room of the lists stays for the next ones. */
void forget_copies(thread &t) {
    t.copies.clear();
    t.groups.clear();
    t.n_come = t.n_waited = 0;
}

/* The block's threads stand at their beginning. `left`: they may have been left in a call. */
void prepare_threads(block *b, bool left) {
    uint3 d = emu_now.block_dim;
    for (uint32_t i = 0; i < m->n; i++) {
        thread &t = b->threads[i];
        t.fiber.stack = b->stacks + i * FIBER_STACK;
        fiber_prepare(&t.fiber, entry, left);
        t.at = READY;
        t.index = {i % d.x, i / d.x % d.y, i / (d.x * d.y)};
        forget_copies(t);
        t.waited = false;
    }
}

void begin_block(block *b, uint32_t number) {
    uint3 grid = emu_now.grid_dim;
    size_t n_bytes = m->launch->shared_bytes;
    b->number = number;
    b->index = {number % grid.x, number / grid.x % grid.y, number / grid.x / grid.y};
    b->n_waiting = b->n_done = 0;
    b->epoch = ++m->n_epochs;
    m->figures.n_blocks++;
    SHOW(b->shared, SHARED_ROOM);
    memset(b->shared, EMU_POISON, n_bytes + GUARD);
    HIDE(b->shared + n_bytes, SHARED_ROOM - n_bytes);
    prepare_threads(b, false);
    for (uint32_t w = 0; w * EMU_WARP < m->n; w++) {
        uint32_t left = m->n - w * EMU_WARP;
        b->warps[w].alive = b->warps[w].ready = left >= EMU_WARP ? ~0u : (1u << left) - 1;
        b->warps[w].arrived = 0;
    }
}

void look_behind_shared(const block *b) {
    for (size_t i = 0; i < GUARD && !HIDES && !m->failed; i++)
        if (b->shared[m->launch->shared_bytes + i] != EMU_POISON) {
            m->failed = true;
            snprintf(m->text, sizeof m->text,
                     "block %u,%u,%u wrote behind its shared memory, at byte %zu", b->index.x,
                     b->index.y, b->index.z, m->launch->shared_bytes + i);
        }
}

/* Until all threads of the blocks that are alive have ended. */
void run_alive(uint32_t n_alive) {
    m->n_alive = n_alive;
    m->from_home = true;
    m->n_spins = 0;
    place(m->blocks[0], 0);
    fiber_go(&m->home, &self().fiber, false);
    for (uint32_t k = 0; k < n_alive; k++)
        look_behind_shared(m->blocks[k]);
}

uint64_t common_factor(uint64_t a, uint64_t b) {
    return b == 0 ? a : common_factor(b, a % b);
}

/* Blocks in order, or with a seed from a random one on in random steps; one by one or together. */
void run_blocks(uint32_t n, bool together) {
    uint64_t at = 0, step = 1;
    if (m->seed && n > 1) {
        at = random_below(n);
        step = 1 + random_below(n - 1);
        while (common_factor(n, step) != 1) /* else some blocks are left out */
            step++;
    }
    for (uint32_t i = 0; i < n && !m->failed; i++, at = (at + step) % n) {
        begin_block(m->blocks[together ? i : 0], (uint32_t)at);
        if (!together)
            run_alive(1);
    }
    if (together)
        run_alive(n);
}

uint64_t n_blocks_of(const struct emu_launch *launch) {
    return (uint64_t)launch->grid.x * launch->grid.y * launch->grid.z;
}

} // namespace

void emu_fail(const char *format, ...) {
    int n = snprintf(m->text, sizeof m->text, "block %u,%u,%u thread %u: ", emu_now.block.x,
                     emu_now.block.y, emu_now.block.z, m->now);
    va_list list;
    va_start(list, format);
    vsnprintf(m->text + n, sizeof m->text - (size_t)n, format, list);
    va_end(list);
    m->failed = true;
    fiber_go(&self().fiber, &m->home, true); /* no thread of the launch is ever run again */
    __builtin_unreachable();
}

const char *emu_launch_refused(const struct emu_launch *launch) {
    uint3 b = launch->block, g = launch->grid;
    uint64_t n_threads = (uint64_t)b.x * b.y * b.z;
    if (n_threads == 0 || n_threads > EMU_THREADS_MAX || b.z > 64)
        return "the block has no threads or more than 1024";
    if (n_blocks_of(launch) == 0 || g.y > 65535 || g.z > 65535 || n_blocks_of(launch) > 0x7fffffff)
        return "the grid is empty or too large";
    if (launch->shared_bytes > EMU_SHARED_MAX)
        return "more shared memory than a block may have";
    if (launch->together && n_blocks_of(launch) > EMU_TOGETHER_MAX)
        return "more blocks than can be alive together";
    return nullptr;
}

bool emu_run(const struct emu_launch *launch, char *text, size_t text_bytes) {
    static std::atomic<uint64_t> n_launches;
    const char *refused = emu_launch_refused(launch);
    m = machine_of_thread();
    m->n = launch->block.x * launch->block.y * launch->block.z;
    uint32_t n_blocks = refused ? 0 : (uint32_t)n_blocks_of(launch);
    if (!refused && !make_room(launch->together ? n_blocks : 1, m->n))
        refused = "no memory for its threads";
    if (refused) {
        snprintf(text, text_bytes, "%s", refused);
        return false;
    }
    m->launch = launch;
    m->number = ++n_launches;
    emu_now.block_dim = launch->block;
    emu_now.grid_dim = launch->grid;
    uint32_t saved = _mm_getcsr();
    _mm_setcsr(saved | MXCSR_FLUSH);
    run_blocks(n_blocks, launch->together);
    _mm_setcsr(saved);
    m->launch = nullptr;
    m->figures.n_launches++;
    m->figures.n_threads += (uint64_t)m->n * n_blocks;
    if (!m->failed)
        return true;
    for (uint32_t k = 0; k < m->n_alive; k++)
        prepare_threads(m->blocks[k], true);
    m->failed = false;
    snprintf(text, text_bytes, "%s", m->text);
    fprintf(stderr, "emu: %s\n", m->text);
    return false;
}

unsigned char *emu_shared(size_t n_bytes) {
    if (n_bytes > m->launch->shared_bytes)
        emu_fail("the kernel wants %zu bytes of shared memory, the launch gave %zu", n_bytes,
                 m->launch->shared_bytes);
    return m->in->shared;
}

size_t emu_shared_bytes(void) {
    return m->launch->shared_bytes;
}

void emu_barrier(int line) {
    block *b = m->in;
    self().line = line;
    if (++b->n_waiting + b->n_done < m->n) {
        leave(AT_BARRIER);
        return;
    }
    for (uint32_t i = 0; i < m->n; i++)
        if (b->threads[i].at == AT_BARRIER && b->threads[i].line != line)
            emu_fail("is at the barrier of line %d, thread %u at that of line %d", line, i,
                     b->threads[i].line);
    release_block(b);
}

void emu_meet(uint32_t mask, enum emu_operation what, void *operand,
              void (*act)(const struct emu_meeting *meeting)) {
    warp &w = own_warp();
    uint32_t lane = m->now % EMU_WARP, first = m->now - lane;
    if (!(mask >> lane & 1))
        emu_fail("lane %u is not in the mask %08x of its own %s", lane, mask, name_of(what));
    w.arrived |= 1u << lane;
    w.mask[lane] = mask;
    w.what[lane] = what;
    w.operand[lane] = operand;
    if ((w.arrived & mask) != mask) {
        leave(IN_WARP);
        return;
    }
    struct emu_meeting meeting = {{}, mask};
    for (uint32_t i = 0; i < EMU_WARP; i++) {
        if (!(mask >> i & 1))
            continue;
        if (w.what[i] != what || w.mask[i] != mask)
            emu_fail("warp %u diverges: lane %u is in %s of %08x, lane %u in %s of %08x",
                     first / EMU_WARP, lane, name_of(what), mask, i, name_of(w.what[i]), w.mask[i]);
        meeting.operand[i] = w.operand[i];
    }
    if (act)
        act(&meeting);
    if (what == EMU_SYNCWARP)
        w.epoch++;
    w.arrived &= ~mask;
    w.ready |= mask;
    for (uint32_t i = 0; i < EMU_WARP; i++)
        if (mask >> i & 1)
            m->in->threads[first + i].at = READY;
}

/* Goes round all threads that can run, so that whoever is waited for has its turn. */
void emu_spin(void) {
    if (++m->n_spins > SPINS_MAX)
        emu_fail("waits for a value that nobody writes%s",
                 m->launch->together ? "" : "; other blocks run only with gpu_launch_together()");
    uint32_t n_warps = (m->n + EMU_WARP - 1) / EMU_WARP, lane = m->now % EMU_WARP;
    uint32_t begin = m->in->slot * n_warps + m->now / EMU_WARP, n = m->n_alive * n_warps;
    for (uint32_t i = 0; i <= n; i++) {
        uint32_t at = (begin + i) % n;
        block *b = m->blocks[at / n_warps];
        uint32_t ready = b->warps[at % n_warps].ready;
        if (i == 0) /* the lanes behind this one; at the end of the round those before it */
            ready &= lane < 31 ? ~0u << (lane + 1) : 0;
        if (!ready)
            continue;
        thread &t = self();
        uint32_t next = at % n_warps * EMU_WARP + (uint32_t)__builtin_ctz(ready);
        if (b == m->in && next == m->now)
            return;
        place(b, next);
        fiber_go(&t.fiber, &self().fiber, false);
        return;
    }
}

void emu_count_ldmatrix(uint32_t n_conflicts) {
    m->figures.n_ldmatrix++;
    m->figures.n_bank_conflicts += n_conflicts;
}

void emu_copy_begin(const struct emu_copy *copy) {
    if (m->launch->overlaps && !self().waited && copy->n > 0) /* it may read at once */
        emu_touch(copy->from, copy->n, EMU_READ);
    self().copies.push_back(*copy);
}

void emu_copy_commit(void) {
    thread &t = self();
    t.groups.push_back(t.copies.size());
}

static void finish_copy(const struct emu_copy *copy) {
    if (copy->n > 0)
        emu_touch(copy->from, copy->n, EMU_READ);
    emu_touch(copy->to, 16, EMU_WRITE);
    if (copy->n == 16) { /* nearly always: no call */
        memcpy(copy->to, copy->from, 16);
        return;
    }
    memset(copy->to, 0, 16);
    memcpy(copy->to, copy->from, copy->n);
}

/* The bytes arrive as late as they may: here. */
void emu_copy_wait(uint32_t n_left) {
    thread &t = self();
    for (; t.groups.size() - t.n_waited > n_left; t.n_waited++)
        for (; t.n_come < t.groups[t.n_waited]; t.n_come++)
            finish_copy(&t.copies[t.n_come]);
    if (t.n_waited == t.groups.size() && t.n_come == t.copies.size())
        forget_copies(t);
}

void emu_griddep_wait(void) {
    self().waited = true;
}

void emu_touch_atomic(void *p, size_t n) {
    m->n_spins = 0;
    emu_touch(p, n, EMU_ATOMIC);
}

void emu_figures_now(struct emu_figures *figures) {
    *figures = machine_of_thread()->figures;
}

struct emu_clock emu_clock_now(void) {
    if (!m || !m->launch)
        return {};
    struct emu_clock clock = {};
    clock.launch = m->number;
    clock.together = m->launch->together;
    clock.overlaps = m->launch->overlaps;
    clock.early = clock.overlaps && !self().waited;
    clock.block = m->in->number;
    clock.slot = m->in->slot;
    clock.thread = m->now;
    clock.block_epoch = m->in->epoch;
    clock.warp_epoch = own_warp().epoch;
    clock.shared = m->in->shared;
    clock.shared_bytes = m->launch->shared_bytes;
    clock.stack = self().fiber.stack;
    clock.stack_bytes = FIBER_STACK;
    clock.arguments = (const unsigned char *)m->launch->what;
    clock.arguments_bytes = m->launch->what_bytes;
    clock.arena = m->launch->arena;
    return clock;
}
