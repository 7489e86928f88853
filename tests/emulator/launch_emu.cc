/* Launches: room for the blocks that are alive, their beginning, their order, and how a launch ends. */
#include "tests/emulator/fault.h"
#include "tests/emulator/threads.h"

#include <atomic>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
#define SHARED_ROOM (EMU_SHARED_MOST + 1024)
#define MXCSR_FLUSH 0x8040u /* flush-to-zero and denormals-are-zero */

using namespace emu;

namespace {

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
        forget_products(t);
        t.waited = t.unfenced = t.exposed = false;
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

uint32_t emu_capability(void) {
    const char *asked = getenv("TANDEM_EMU_CAPABILITY");
    return asked && strcmp(asked, "90") == 0 ? 90 : 80;
}

size_t emu_shared_max(void) {
    return emu_capability() < 90 ? 163 * 1024 : EMU_SHARED_MOST;
}

const char *emu_launch_refused(const struct emu_launch *launch) {
    uint3 b = launch->block, g = launch->grid;
    uint64_t n_threads = (uint64_t)b.x * b.y * b.z;
    if (n_threads == 0 || n_threads > EMU_THREADS_MAX || b.z > 64)
        return "the block has no threads or more than 1024";
    if (n_blocks_of(launch) == 0 || g.y > 65535 || g.z > 65535 || n_blocks_of(launch) > 0x7fffffff)
        return "the grid is empty or too large";
    if (launch->shared_bytes > emu_shared_max())
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

void emu_figures_now(struct emu_figures *figures) {
    *figures = machine_of_thread()->figures;
}
