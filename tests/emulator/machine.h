/* tests/emulator/machine.h: one launch on the emulated GPU, and what its instructions are made of.
 *
 * emu_run() runs the whole launch in the calling thread; several threads may launch at the same
 * time. A kernel that breaks a rule ends the launch where it stands: the text goes to the caller and,
 * because nothing else names the place, to stderr. */
#pragma once

#include "tests/emulator/emu.h"
#include "tests/emulator/figures.h"

#define EMU_WARP         32
#define EMU_THREADS_MAX  1024
#define EMU_TOGETHER_MAX 64   /* blocks that can be alive together */
#define EMU_POISON       0xff /* fresh memory: NaN, or an index that is out of range */

struct emu_launch {
    uint3 grid, block;
    size_t shared_bytes;
    void (*call)(const void *what);
    const void *what;
    size_t what_bytes;
    void (*kernel)(); /* which, where a name for it is wanted; or NULL */
    bool together;    /* all blocks are alive at once and may wait for each other */
    bool ahead;       /* each thread calls griddep_wait() */
    bool
        overlaps; /* until then the launches before it may run: nothing but launches lies between */
    struct arena *arena; /* memory that the kernel may touch; for the checker of accesses */
};

/* Whether the launch ended well; else the reason is in `text`. */
bool emu_run(const struct emu_launch *launch, char *text, size_t text_bytes);
/* NULL, or why no GPU takes such a launch. */
const char *emu_launch_refused(const struct emu_launch *launch);

/* From a kernel: a rule was broken. Ends the launch. */
[[noreturn]] void emu_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For the instructions (warp.cc): all lanes of `mask` come with an operand each; the last one to come
 * calls `act` for all. */
enum emu_operation {
    EMU_NONE,
    EMU_SHUFFLE,
    EMU_BALLOT,
    EMU_SYNCWARP,
    EMU_LDMATRIX,
    EMU_LDMATRIX_TRANS,
    EMU_MMA_F16,
    EMU_MMA_BF16,
    EMU_MMA_S8,
    EMU_WGMMA,
};
struct emu_meeting {
    void *operand[EMU_WARP];
    uint32_t mask;
};
void emu_meet(uint32_t mask, enum emu_operation what, void *operand,
              void (*act)(const struct emu_meeting *meeting));
void emu_count_ldmatrix(uint32_t n_conflicts);
/* The bytes of shared memory that the launch gave; where they lie is emu_shared(0). */
size_t emu_shared_bytes(void);
/* From a loop that waits for a value of another thread: lets the others run. */
void emu_spin(void);
/* The same for a value of another device's thread, which takes its time: some of it is left to that. */
void emu_pause(void);

/* cp.async of the running thread: 16 bytes, of which `n` come from memory and the others are zero. */
struct emu_copy {
    void *to;
    const void *from;
    uint32_t n;
};
void emu_copy_begin(const struct emu_copy *copy);
void emu_copy_commit(void);
/* emu_copy_wait() in emu.h: until at most so many groups are under way. */

/* wgmma of the running thread: d (64, n) += A (64, 16) B (16, n), of which each warp does its own 16 rows (warpgroup.cc). */
struct emu_product {
    float *d;          /* the thread's: (n / 2) */
    const uint32_t *a; /* its four pairs, or A by a descriptor */
    bool has_a, bf16;
    uint64_t a_at, b_at;
    int n;
};
/* emu_product_wait() in emu.h: until at most so many groups are under way. */

/* Fails where no 16 bytes of shared memory begin; `what` is the instruction. */
void emu_must_be_shared(const void *p, const char *what);

/* The checker of accesses (race.cc) puts itself here where it is linked; else NULL. */
enum emu_access { EMU_READ, EMU_WRITE, EMU_ATOMIC };
extern void (*emu_touched)(const void *p, size_t n, enum emu_access how);
static inline void emu_touch(const void *p, size_t n, enum emu_access how) {
    if (emu_touched)
        emu_touched(p, n, how);
}
/* Who runs, in which part of the launch. Between two threads of a block lies a barrier where block_epoch
 * differs, or within a warp where warp_epoch does. */
struct emu_clock {
    uint64_t launch; /* a number of its own for each launch of the process; 0: no kernel runs */
    bool together;
    bool overlaps, early; /* with launches before it; and has not waited for them */
    uint32_t block, thread, block_epoch, warp_epoch;
    uint32_t slot; /* a number for the block's shared memory */
    const unsigned char *shared, *stack, *arguments;
    size_t shared_bytes, stack_bytes, arguments_bytes;
    struct arena *arena;
};
struct emu_clock emu_clock_now(void);
