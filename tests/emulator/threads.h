/* tests/emulator/threads.h: the threads, warps and blocks of the launch that the calling thread runs: what launch_emu.cc
 * (room for them, their beginning and end) and emu.cc (who of them runs next, where they meet) share. */
#pragma once

#include "tests/emulator/fiber.h"
#include "tests/emulator/machine.h"

#include <vector>

namespace emu {

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
    /* wgmma, in order: products that were not done yet, and committed groups, as above */
    std::vector<struct emu_product> products;
    std::vector<size_t> product_groups;
    size_t n_multiplied;
    /* Copies of the thread have come since its last fence for wgmma; and a barrier lies behind them. */
    bool unfenced, exposed;
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
    uint32_t n_epochs, n_spins, n_pauses;
    block *in;    /* of the thread that runs */
    uint32_t now; /* its number there */
    fiber home;   /* of the launching thread */
    bool from_home, failed;
    char text[400];
    struct emu_figures figures;
};
extern __thread machine *m;

static inline uint32_t random_below(uint32_t n) {
    m->seed = m->seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((m->seed >> 33) % n);
}

static inline thread &self() {
    return m->in->threads[m->now];
}

static inline warp &own_warp() {
    return m->in->warps[m->now / EMU_WARP];
}

static inline void place(block *b, uint32_t now) {
    m->in = b;
    m->now = now;
    emu_now.block = b->index;
    emu_now.thread = b->threads[now].index;
}

/* The room of the lists stays for the next ones. */
static inline void forget_copies(thread &t) {
    t.copies.clear();
    t.groups.clear();
    t.n_come = t.n_waited = 0;
}

static inline void forget_products(thread &t) {
    t.products.clear();
    t.product_groups.clear();
    t.n_multiplied = 0;
}

/* Where a CUDA thread begins. */
void entry();

} // namespace emu
