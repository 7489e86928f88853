/* The machine: who runs next, barriers, meetings of a warp, copies. Everything is the calling thread's own. */
#include "tests/emulator/machine.h"
#include "tests/emulator/threads.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define SPINS_MAX (1 << 20) /* yields in a row while nothing else happens */

__thread struct emu_place emu_now;
void (*emu_touched)(const void *p, size_t n, enum emu_access how);

__thread emu::machine *emu::m;

using namespace emu;

namespace {

const char *name_of(enum emu_operation what) {
    static const char *const names[] = {"nothing",  "shfl",           "ballot",  "syncwarp",
                                        "ldmatrix", "ldmatrix.trans", "mma.f16", "mma.bf16",
                                        "mma.s8",   "wgmma"};
    return names[what];
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

} // namespace

void emu::entry() {
    fiber_begin(m->from_home ? &m->home : nullptr);
    m->from_home = false;
    m->launch->call(m->launch->what);
    const thread &t = self();
    if (t.n_waited < t.groups.size() || t.n_come < t.copies.size())
        emu_fail("ends with copies that it did not wait for");
    if (!t.products.empty())
        emu_fail("ends with products that it did not wait for");
    if (m->launch->ahead && !t.waited)
        emu_fail("ends without griddep_wait()");
    block *b = m->in;
    if (b->n_waiting > 0 && b->n_waiting + b->n_done + 1 == m->n)
        release_block(b); /* the others do not wait for a thread that has ended */
    leave(DONE);
    __builtin_unreachable();
}

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
    self().exposed |= self().unfenced;
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

void emu_pause(void) {
    if (++m->n_pauses % 64 == 0)
        usleep(50);
    m->n_spins = 0;
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
    self().unfenced = true;
    if (copy->n > 0)
        emu_touch(copy->from, copy->n, EMU_READ);
    emu_touch(copy->to, 16, EMU_WRITE);
    if (copy->n == 16) { /* nearly always: no call */
        memcpy(copy->to, copy->from, 16);
        return;
    }
    memset(copy->to, 0, 16);
    if (copy->n > 0)
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
