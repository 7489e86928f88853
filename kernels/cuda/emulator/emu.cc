/* The machine: fibers, who runs next, barriers, meetings of a warp, launches. Everything is the calling
 * thread's own. */
#include "kernels/cuda/emulator/machine.h"

#include <atomic>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <vector>
#include <xmmintrin.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#define STACK       ((size_t)128 * 1024)
#define PAGE        4096
#define GUARD       128     /* bytes behind shared memory that nobody may write */
#define MXCSR_FLUSH 0x8040u /* flush-to-zero and denormals-are-zero */

__thread struct emu_place emu_now;
void (*emu_touched)(const void *p, size_t n, enum emu_access how);

namespace {

enum state { READY, IN_WARP, AT_BARRIER, DONE };

struct fiber {
    void *sp;
    uint3 index;
    state at;
    int line;                                         /* of the barrier */
    std::vector<struct emu_copy> open;                /* cp.async since the last commit */
    std::vector<std::vector<struct emu_copy>> groups; /* committed and not waited for */
};

struct warp {
    uint32_t alive, ready, arrived; /* lanes */
    uint32_t mask[EMU_WARP];
    enum emu_operation what[EMU_WARP];
    void *operand[EMU_WARP];
    uint32_t epoch;
};

struct machine {
    unsigned char *stacks;
    unsigned char *shared; /* (EMU_SHARED_MAX + GUARD) */
    fiber fibers[EMU_THREADS_MAX];
    warp warps[EMU_THREADS_MAX / EMU_WARP];
    const struct emu_launch *launch; /* NULL: none runs */
    uint64_t number;                 /* of the launch */
    uint64_t seed;
    uint32_t n, now; /* threads of the block; the one that runs */
    uint32_t n_waiting, n_done, block, epoch;
    void *home; /* stack pointer of the launching thread */
    const void *home_stack;
    size_t home_bytes;
    bool from_home, failed;
    char text[400];
    struct emu_figures figures;
};
__thread machine *m;

const char *name_of(enum emu_operation what) {
    static const char *const names[] = {"nothing",  "shfl",           "ballot",  "syncwarp",
                                        "ldmatrix", "ldmatrix.trans", "mma.f16", "mma.s8"};
    return names[what];
}

#if !defined(__x86_64__)
#error "the emulator switches stacks on x86-64 only"
#endif
/* Saves the callee's registers on this stack and takes those on the other. */
extern "C" void emu_switch(void **save, void *load);
asm(".text\n.globl emu_switch\n.hidden emu_switch\n.type emu_switch, @function\nemu_switch:\n"
    "endbr64\npush %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
    ".size emu_switch, .-emu_switch\n");

unsigned char *stack_of(uint32_t i) {
    return m->stacks + i * STACK;
}

void go(void **save, void *load, const void *stack, size_t n, bool ends) {
    m->figures.n_switches++;
#if defined(__SANITIZE_ADDRESS__)
    void *fake = nullptr;
    __sanitizer_start_switch_fiber(ends ? nullptr : &fake, stack, n);
    emu_switch(save, load);
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#else
    (void)stack, (void)n, (void)ends;
    emu_switch(save, load);
#endif
}

void go_home(void **save) {
    go(save, m->home, m->home_stack, m->home_bytes, true);
}

uint32_t random_below(uint32_t n) {
    m->seed = m->seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((m->seed >> 33) % n);
}

/* The next thread that can run: of the same warp if there is one, so that its lanes meet soon. */
bool next_thread(uint32_t *next) {
    uint32_t n_warps = (m->n + EMU_WARP - 1) / EMU_WARP;
    uint32_t own = m->now / EMU_WARP, lane = m->now % EMU_WARP;
    uint32_t first = m->seed ? random_below(n_warps) : own;
    for (uint32_t i = 0; i <= n_warps; i++) {
        uint32_t w = i == 0 ? own : (first + i) % n_warps;
        uint32_t ready = m->warps[w].ready;
        if (!ready)
            continue;
        uint32_t after = w == own && lane < 31 ? ready & (~0u << (lane + 1)) : ready;
        *next = w * EMU_WARP + (uint32_t)__builtin_ctz(after ? after : ready);
        return true;
    }
    return false;
}

[[noreturn]] void stuck() {
    for (uint32_t i = 0; i < m->n; i++) {
        const warp &w = m->warps[i / EMU_WARP];
        if (m->fibers[i].at == IN_WARP)
            emu_fail("warp %u: lanes %08x wait in %s for lanes %08x, of which %08x have ended",
                     i / EMU_WARP, w.arrived, name_of(w.what[i % EMU_WARP]),
                     w.mask[i % EMU_WARP] & ~w.arrived, w.mask[i % EMU_WARP] & ~w.alive);
    }
    emu_fail("%u of %u threads wait at a barrier, %u have ended", m->n_waiting, m->n, m->n_done);
}

void place_thread(uint32_t i) {
    m->now = i;
    emu_now.thread = m->fibers[i].index;
}

/* Lets another thread run; returns when this one may go on (never after DONE). */
void leave(state at) {
    fiber &f = m->fibers[m->now];
    warp &w = m->warps[m->now / EMU_WARP];
    uint32_t bit = 1u << m->now % EMU_WARP, next = m->now;
    f.at = at;
    w.ready &= ~bit;
    if (at == DONE) {
        w.alive &= ~bit;
        m->n_done++;
    }
    if (!next_thread(&next)) {
        if (m->n_done != m->n)
            stuck();
        go_home(&f.sp);
    }
    place_thread(next);
    go(&f.sp, m->fibers[next].sp, stack_of(next), STACK, at == DONE);
}

void release_block() {
    for (uint32_t i = 0; i < m->n; i++)
        if (m->fibers[i].at == AT_BARRIER) {
            m->fibers[i].at = READY;
            m->warps[i / EMU_WARP].ready |= 1u << i % EMU_WARP;
        }
    m->n_waiting = 0;
    m->epoch++;
}

/* Where a fiber begins: emu_switch returns into it. */
void entry() {
#if defined(__SANITIZE_ADDRESS__)
    const void *left;
    size_t n_left;
    __sanitizer_finish_switch_fiber(nullptr, &left, &n_left);
    if (m->from_home) { /* the first of a block tells where home is */
        m->home_stack = left;
        m->home_bytes = n_left;
    }
    m->from_home = false;
#endif
    m->launch->call(m->launch->what);
    fiber &f = m->fibers[m->now];
    if (!f.open.empty() || !f.groups.empty())
        emu_fail("ends with copies that it did not wait for");
    if (m->n_waiting > 0 && m->n_waiting + m->n_done + 1 == m->n)
        release_block(); /* the others do not wait for a thread that has ended */
    leave(DONE);
    __builtin_unreachable();
}

void prepare(uint32_t i) {
#if defined(__SANITIZE_ADDRESS__)
    /* A fiber ends inside its calls; what these had marked is marked still. */
    size_t marked = m->failed ? STACK - PAGE : PAGE;
    __asan_unpoison_memory_region(stack_of(i) + STACK - marked, marked);
#endif
    void **sp = (void **)(stack_of(i) + STACK - 64);
    *--sp = nullptr; /* entry()'s frame is aligned as after a call */
    *--sp = (void *)entry;
    for (int r = 0; r < 6; r++)
        *--sp = nullptr;
    fiber &f = m->fibers[i];
    uint3 d = emu_now.block_dim;
    f.sp = sp;
    f.at = READY;
    f.index = {i % d.x, i / d.x % d.y, i / (d.x * d.y)};
    f.open.clear();
    f.groups.clear();
}

machine *machine_of_thread() {
    struct owner {
        machine *own = nullptr;
        ~owner() {
            if (!own)
                return;
            munmap(own->stacks, EMU_THREADS_MAX * STACK);
            free(own->shared);
            delete own;
        }
    };
    static thread_local owner of_thread;
    if (of_thread.own)
        return of_thread.own;
    machine *made = new machine();
    const char *seed = getenv("EMU_SEED");
    made->seed = seed ? strtoull(seed, nullptr, 10) : 0;
    made->stacks = (unsigned char *)mmap(nullptr, EMU_THREADS_MAX * STACK, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    made->shared = (unsigned char *)aligned_alloc(1024, EMU_SHARED_MAX + 1024);
    if (made->stacks == MAP_FAILED || !made->shared)
        abort();
    for (uint32_t i = 0; i < EMU_THREADS_MAX;
         i++) /* a stack that runs over meets its lowest page */
        mprotect(made->stacks + i * STACK, PAGE, PROT_NONE);
    return of_thread.own = made;
}

void poison_shared(size_t n_bytes) {
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(m->shared, EMU_SHARED_MAX + GUARD);
#endif
    memset(m->shared, EMU_POISON, n_bytes + GUARD);
#if defined(__SANITIZE_ADDRESS__)
    __asan_poison_memory_region(m->shared + n_bytes, EMU_SHARED_MAX + GUARD - n_bytes);
#endif
}

void look_behind_shared(size_t n_bytes) {
#if !defined(__SANITIZE_ADDRESS__) /* it has seen to that */
    for (size_t i = 0; i < GUARD && !m->failed; i++)
        if (m->shared[n_bytes + i] != EMU_POISON) {
            m->failed = true;
            snprintf(m->text, sizeof m->text,
                     "block %u,%u,%u wrote %zu bytes behind its shared memory", emu_now.block.x,
                     emu_now.block.y, emu_now.block.z, i + 1);
        }
#else
    (void)n_bytes;
#endif
}

void run_block(uint3 index, uint32_t number) {
    size_t shared_bytes = m->launch->shared_bytes;
    emu_now.block = index;
    m->block = number;
    m->n_waiting = m->n_done = 0;
    m->epoch++;
    m->figures.n_blocks++;
    poison_shared(shared_bytes);
    for (uint32_t i = 0; i < m->n; i++)
        prepare(i);
    for (uint32_t w = 0; w * EMU_WARP < m->n; w++) {
        uint32_t left = m->n - w * EMU_WARP;
        m->warps[w].alive = m->warps[w].ready = left >= EMU_WARP ? ~0u : (1u << left) - 1;
        m->warps[w].arrived = 0;
    }
    m->from_home = true;
    place_thread(0);
    go(&m->home, m->fibers[0].sp, stack_of(0), STACK, false);
    look_behind_shared(shared_bytes);
}

uint64_t common_factor(uint64_t a, uint64_t b) {
    return b == 0 ? a : common_factor(b, a % b);
}

/* Blocks in order, or with a seed from a random one on in random steps. */
void run_blocks(uint3 grid) {
    uint64_t n = (uint64_t)grid.x * grid.y * grid.z, at = 0, step = 1;
    if (m->seed && n > 1) {
        at = random_below((uint32_t)n);
        step = 1 + random_below((uint32_t)n - 1);
        while (common_factor(n, step) != 1) /* else some blocks are left out */
            step++;
    }
    for (uint64_t i = 0; i < n && !m->failed; i++, at = (at + step) % n)
        run_block({(unsigned)(at % grid.x), (unsigned)(at / grid.x % grid.y),
                   (unsigned)(at / ((uint64_t)grid.x * grid.y))},
                  (uint32_t)at);
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
    void *left;
    go_home(&left); /* the block's fibers are never run again */
    __builtin_unreachable();
}

const char *emu_launch_refused(const struct emu_launch *launch) {
    uint3 b = launch->block, g = launch->grid;
    uint64_t n_threads = (uint64_t)b.x * b.y * b.z;
    if (n_threads == 0 || n_threads > EMU_THREADS_MAX || b.z > 64)
        return "the block has no threads or more than 1024";
    if (g.x == 0 || g.y == 0 || g.z == 0 || g.y > 65535 || g.z > 65535 || g.x > 0x7fffffffu)
        return "the grid is empty or too large";
    if (launch->shared_bytes > EMU_SHARED_MAX)
        return "more shared memory than a block may have";
    return nullptr;
}

bool emu_run(const struct emu_launch *launch, char *text, size_t text_bytes) {
    static std::atomic<uint64_t> n_launches;
    const char *refused = emu_launch_refused(launch);
    if (refused) {
        snprintf(text, text_bytes, "%s", refused);
        return false;
    }
    m = machine_of_thread();
    m->launch = launch;
    m->number = ++n_launches;
    m->n = launch->block.x * launch->block.y * launch->block.z;
    emu_now.block_dim = launch->block;
    emu_now.grid_dim = launch->grid;
    uint32_t saved = _mm_getcsr();
    _mm_setcsr(saved | MXCSR_FLUSH);
    run_blocks(launch->grid);
    _mm_setcsr(saved);
    m->launch = nullptr;
    m->figures.n_launches++;
    m->figures.n_threads += (uint64_t)m->n * launch->grid.x * launch->grid.y * launch->grid.z;
    bool failed = m->failed;
    if (failed) {
        for (uint32_t i = 0; i < m->n; i++)
            prepare(i);
        m->failed = false;
        snprintf(text, text_bytes, "%s", m->text);
        fprintf(stderr, "emu: %s\n", m->text);
    }
    return !failed;
}

unsigned char *emu_shared(size_t n_bytes) {
    if (n_bytes > m->launch->shared_bytes)
        emu_fail("the kernel wants %zu bytes of shared memory, the launch gave %zu", n_bytes,
                 m->launch->shared_bytes);
    return m->shared;
}

size_t emu_shared_bytes(void) {
    return m->launch->shared_bytes;
}

uint32_t emu_thread(void) {
    return m->now;
}

void emu_barrier(int line) {
    m->fibers[m->now].line = line;
    if (++m->n_waiting + m->n_done < m->n) {
        leave(AT_BARRIER);
        return;
    }
    for (uint32_t i = 0; i < m->n; i++)
        if (m->fibers[i].at == AT_BARRIER && m->fibers[i].line != line)
            emu_fail("is at the barrier of line %d, thread %u at that of line %d", line, i,
                     m->fibers[i].line);
    release_block();
}

void emu_meet(uint32_t mask, enum emu_operation what, void *operand,
              void (*act)(const struct emu_meeting *meeting)) {
    warp &w = m->warps[m->now / EMU_WARP];
    uint32_t lane = m->now % EMU_WARP;
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
                     m->now / EMU_WARP, lane, name_of(what), mask, i, name_of(w.what[i]),
                     w.mask[i]);
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
            m->fibers[m->now / EMU_WARP * EMU_WARP + i].at = READY;
}

void emu_count_ldmatrix(uint32_t n_conflicts) {
    m->figures.n_ldmatrix++;
    m->figures.n_bank_conflicts += n_conflicts;
}

void emu_copy_begin(const struct emu_copy *copy) {
    m->fibers[m->now].open.push_back(*copy);
}

void emu_copy_commit(void) {
    fiber &f = m->fibers[m->now];
    f.groups.push_back(std::move(f.open));
    f.open.clear();
}

/* The bytes arrive as late as they may: here. */
void emu_copy_wait(uint32_t n_left) {
    fiber &f = m->fibers[m->now];
    while (f.groups.size() > n_left) {
        for (const struct emu_copy &copy : f.groups.front()) {
            if (copy.n > 0)
                emu_touch(copy.from, copy.n, EMU_READ);
            emu_touch(copy.to, 16, EMU_WRITE);
            memset(copy.to, 0, 16);
            memcpy(copy.to, copy.from, copy.n);
        }
        f.groups.erase(f.groups.begin());
    }
}

void emu_touch_atomic(void *p, size_t n) {
    emu_touch(p, n, EMU_ATOMIC);
}

struct emu_figures emu_figures_now(void) {
    return machine_of_thread()->figures;
}

struct emu_clock emu_clock_now(void) {
    if (!m || !m->launch)
        return {};
    return {m->number,
            m->block,
            m->now,
            m->epoch,
            m->warps[m->now / EMU_WARP].epoch,
            m->shared,
            stack_of(m->now),
            (const unsigned char *)m->launch->what,
            m->launch->shared_bytes,
            STACK,
            m->launch->what_bytes,
            m->launch->arena};
}
