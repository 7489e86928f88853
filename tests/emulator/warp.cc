/* The instructions of a warp: shuffles, ballot, and those of gpu/ptx.h from the PTX ISA's tables of which
 * lane holds which element. Group is lane / 4 there, t is lane % 4. */
#include "kernels/cuda/gpu/gpu.h"
#include "tests/emulator/machine.h"
#include "tests/emulator/tensor_cores.h"

#include <time.h>

#define ALL 0xffffffffu

using namespace emu;

namespace {

struct shuffle {
    uint32_t value, result;
    int lane, width;
    enum emu_shuffle how;
};

int source_of(const shuffle *own, int lane) {
    int begin = lane / own->width * own->width, end = begin + own->width, from = lane;
    if (own->how == EMU_IDX)
        return begin + (own->lane & (own->width - 1));
    if (own->how == EMU_XOR)
        from = lane ^ own->lane; /* earlier segments may be read, later ones not */
    else if (own->how == EMU_UP)
        from = lane - own->lane < begin ? lane : lane - own->lane;
    else
        from = lane + own->lane;
    return from >= end ? lane : from;
}

void act_shuffle(const struct emu_meeting *meeting) {
    for (int lane = 0; lane < EMU_WARP; lane++) {
        if (!(meeting->mask >> lane & 1))
            continue;
        shuffle *own = (shuffle *)meeting->operand[lane];
        int from = source_of(own, lane);
        if (!(meeting->mask >> from & 1))
            emu_fail("lane %d shuffles from lane %d, which is not in the mask %08x", lane, from,
                     meeting->mask);
        own->result = ((shuffle *)meeting->operand[from])->value;
    }
}

struct ballot {
    bool bit;
    uint32_t result;
};

void act_ballot(const struct emu_meeting *meeting) {
    uint32_t all = 0;
    for (int lane = 0; lane < EMU_WARP; lane++)
        if (meeting->mask >> lane & 1)
            all |= (uint32_t)((ballot *)meeting->operand[lane])->bit << lane;
    for (int lane = 0; lane < EMU_WARP; lane++)
        if (meeting->mask >> lane & 1)
            ((ballot *)meeting->operand[lane])->result = all;
}

/* A: (16, 16), B: (16, 8), D: (16, 8). */
struct mma_f16 {
    float *d;
    const uint32_t *a, *b;
};

template <float (*AT)(uint32_t pair, int i)> void act_f16(const struct emu_meeting *meeting) {
    with_denormals denormals;
    float a[16][16], b[8][16];
    for (int lane = 0; lane < EMU_WARP; lane++) {
        const mma_f16 *of = (const mma_f16 *)meeting->operand[lane];
        int group = lane / 4, t = lane % 4;
        take_a<AT>(a, lane, of->a);
        for (int r = 0; r < 2; r++)
            for (int i = 0; i < 2; i++)
                b[group][t * 2 + i + r * 8] = AT(of->b[r], i);
    }
    for (int lane = 0; lane < EMU_WARP; lane++)
        for (int i = 0; i < 4; i++) {
            int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            float *d = &((mma_f16 *)meeting->operand[lane])->d[i];
            *d = dot_16(*d, a[row], b[column]);
        }
}

/* A: (16, 32), B: (32, 8), D: (16, 8). */
struct mma_s8 {
    int32_t *d;
    const uint32_t *a, *b;
};

int8_t byte_at(uint32_t word, int i) {
    return (int8_t)(word >> 8 * i);
}

void act_s8(const struct emu_meeting *meeting) {
    int8_t a[16][32], b[8][32];
    for (int lane = 0; lane < EMU_WARP; lane++) {
        const mma_s8 *of = (const mma_s8 *)meeting->operand[lane];
        int group = lane / 4, t = lane % 4;
        for (int r = 0; r < 4; r++)
            for (int i = 0; i < 4; i++)
                a[group + r % 2 * 8][t * 4 + i + r / 2 * 16] = byte_at(of->a[r], i);
        for (int r = 0; r < 2; r++)
            for (int i = 0; i < 4; i++)
                b[group][t * 4 + i + r * 16] = byte_at(of->b[r], i);
    }
    for (int lane = 0; lane < EMU_WARP; lane++)
        for (int i = 0; i < 4; i++) {
            int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            int32_t *d = &((mma_s8 *)meeting->operand[lane])->d[i];
            uint32_t sum = (uint32_t)*d; /* wraps */
            for (int k = 0; k < 32; k++)
                sum += (uint32_t)((int)a[row][k] * (int)b[column][k]);
            *d = (int32_t)sum;
        }
}

struct matrix {
    uint32_t *r;
    const void *row;
};

/* Passes over the 32 banks of 4 bytes that 8 rows of 16 bytes take, beyond the one they must. */
uint32_t count_conflicts(const struct emu_meeting *meeting, int j) {
    uint32_t most = 1;
    for (uintptr_t bank = 0; bank < 8; bank++) { /* groups of 4 banks: 16 bytes */
        const void *seen[8];
        uint32_t n = 0;
        for (int i = 0; i < 8; i++) {
            const void *row = ((const matrix *)meeting->operand[8 * j + i])->row;
            bool known = (uintptr_t)row / 16 % 8 != bank;
            for (uint32_t k = 0; k < n; k++)
                known = known || seen[k] == row;
            if (!known)
                seen[n++] = row;
        }
        most = n > most ? n : most;
    }
    return most - 1;
}

template <bool TRANS> void act_ldmatrix(const struct emu_meeting *meeting) {
    for (int j = 0; j < 4; j++) {
        uint16_t e[8][8];
        emu_count_ldmatrix(count_conflicts(meeting, j));
        for (int i = 0; i < 8; i++)
            memcpy(e[i], ((const matrix *)meeting->operand[8 * j + i])->row, 16);
        for (int lane = 0; lane < EMU_WARP; lane++) {
            int row = lane / 4, column = lane % 4 * 2;
            uint32_t low = TRANS ? e[column][row] : e[row][column];
            uint32_t high = TRANS ? e[column + 1][row] : e[row][column + 1];
            ((matrix *)meeting->operand[lane])->r[j] = low | high << 16;
        }
    }
}

/* Rounds once: no sum or product of binary16 numbers that double rounds is near a tie of binary16. */
uint16_t to_half(double x) {
    _Float16 h = (_Float16)x;
    uint16_t bits;
    memcpy(&bits, &h, 2);
    return bits;
}

} // namespace

void emu_must_be_shared(const void *p, const char *what) {
    const unsigned char *at = (const unsigned char *)p, *shared = emu_shared(0);
    if ((uintptr_t)p % 16 != 0)
        emu_fail("%s at %p, which is not a multiple of 16", what, p);
    if (at < shared || at + 16 > shared + emu_shared_bytes())
        emu_fail("%s at %p, outside of shared memory", what, p);
}

void emu_warp_sync(uint32_t mask) {
    emu_meet(mask, EMU_SYNCWARP, nullptr, nullptr);
}

uint32_t emu_shfl(uint32_t mask, uint32_t value, int lane, int width, enum emu_shuffle how) {
    if (width < 1 || width > EMU_WARP || (width & (width - 1)) != 0)
        emu_fail("shfl of width %d", width);
    shuffle of = {value, 0, lane, width, how};
    emu_meet(mask, EMU_SHUFFLE, &of, act_shuffle);
    return of.result;
}

uint32_t emu_ballot(uint32_t mask, bool bit) {
    ballot of = {bit, 0};
    emu_meet(mask, EMU_BALLOT, &of, act_ballot);
    return of.result;
}

namespace gpu_emu {

void mma_m16n8k16_f16_f32(float d[4], const uint32_t a[4], const uint32_t b[2]) {
    mma_f16 of = {d, a, b};
    emu_meet(ALL, EMU_MMA_F16, &of, act_f16<half_at>);
}

void mma_m16n8k16_bf16_f32(float d[4], const uint32_t a[4], const uint32_t b[2]) {
    mma_f16 of = {d, a, b};
    emu_meet(ALL, EMU_MMA_BF16, &of, act_f16<bf16_at>);
}

void mma_m16n8k32_s8_s32(int32_t d[4], const uint32_t a[4], const uint32_t b[2]) {
    mma_s8 of = {d, a, b};
    emu_meet(ALL, EMU_MMA_S8, &of, act_s8);
}

void mma_m16n8k32_s8_s32_from(int32_t d[4], const uint32_t a[4], const uint32_t b[2],
                              const int32_t c[4]) {
    for (int i = 0; i < 4; i++)
        d[i] = c[i];
    mma_m16n8k32_s8_s32(d, a, b);
}

void ldmatrix_x4(uint32_t r[4], const void *row) {
    matrix of = {r, row};
    emu_must_be_shared(row, "ldmatrix");
    emu_touch(row, 16, EMU_READ);
    emu_meet(ALL, EMU_LDMATRIX, &of, act_ldmatrix<false>);
}

void ldmatrix_x4_trans(uint32_t r[4], const void *row) {
    matrix of = {r, row};
    emu_must_be_shared(row, "ldmatrix.trans");
    emu_touch(row, 16, EMU_READ);
    emu_meet(ALL, EMU_LDMATRIX_TRANS, &of, act_ldmatrix<true>);
}

void cp_async_16(void *to, const void *from, uint32_t n) {
    emu_must_be_shared(to, "cp.async");
    if (n > 16 || (n > 0 && (uintptr_t)from % 16 != 0))
        emu_fail("cp.async of %u bytes from %p", n, from);
    emu_touch(to, 16, EMU_WRITE);
    memset(to, EMU_POISON, 16);
    struct emu_copy copy = {to, from, n};
    emu_copy_begin(&copy);
}

void cp_async_commit() {
    emu_copy_commit();
}

/* Each of these is called a million times in a test: without loops, and without shifts that are watched. */
int32_t dp4a(int32_t c, uint32_t a, uint32_t b) {
    int sum = (int8_t)a * (int8_t)b + (int8_t)(a >> 8) * (int8_t)(b >> 8) +
              (int8_t)(a >> 16) * (int8_t)(b >> 16) + (int8_t)(a >> 24) * (int8_t)(b >> 24);
    return (int32_t)((uint32_t)c + (uint32_t)sum); /* wraps */
}

int32_t dp4a_unsigned(int32_t c, uint32_t a, uint32_t b) {
    int sum = (uint8_t)a * (int8_t)b + (uint8_t)(a >> 8) * (int8_t)(b >> 8) +
              (uint8_t)(a >> 16) * (int8_t)(b >> 16) + (uint8_t)(a >> 24) * (int8_t)(b >> 24);
    return (int32_t)((uint32_t)c + (uint32_t)sum);
}

uint4 load_stream_16(const void *from) {
    if ((uintptr_t)from % 16 != 0)
        emu_fail("a load of 16 bytes from %p", from);
    emu_touch(from, 16, EMU_READ);
    uint4 value;
    memcpy(&value, from, sizeof value);
    return value;
}

uint32_t load_acquire(const uint32_t *from) {
    emu_spin();
    emu_touch(from, sizeof *from, EMU_ATOMIC);
    return __atomic_load_n(from, __ATOMIC_ACQUIRE); /* another device's thread may write it */
}

void store_release(uint32_t *to, uint32_t value) {
    emu_touch_atomic(to, sizeof *to);
    __atomic_store_n(to, value, __ATOMIC_RELEASE);
}

uint64_t clock_ns() {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void pause_a_moment() {
    emu_pause();
}

void give_up(const char *why) {
    emu_fail("%s", why);
}

float max_nan(float a, float b) {
    return isnan(a) || isnan(b) ? NAN : fmaxf(a, b);
}

uint32_t half2_sub(uint32_t a, uint32_t b) {
    uint32_t low = to_half((double)half_at(a, 0) - (double)half_at(b, 0));
    uint32_t high = to_half((double)half_at(a, 1) - (double)half_at(b, 1));
    return low | high << 16;
}

uint32_t half2_fma(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t half[2];
    for (int i = 0; i < 2; i++)
        half[i] = to_half((double)half_at(a, i) * (double)half_at(b, i) + (double)half_at(c, i));
    return half[0] | half[1] << 16;
}

uint32_t half2_of(float low, float high) {
    return float_to_half(low) | (uint32_t)float_to_half(high) << 16;
}

float half_float(uint16_t half) {
    return half_to_float(half);
}

} // namespace gpu_emu
