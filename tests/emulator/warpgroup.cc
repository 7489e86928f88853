/* wgmma: products of a warpgroup, whose operands lie in shared memory. They are ordered, and done as late as they may be, where
 * they are waited for: what reads d before, or writes operands that are still to be read, has other results than it meant. */
#include "kernels/cuda/gpu/gpu.h"
#include "tests/emulator/machine.h"
#include "tests/emulator/tensor_cores.h"
#include "tests/emulator/threads.h"

#include <math.h>

#define ALL 0xffffffffu

using namespace emu;

namespace {

/* A matrix in shared memory, as a descriptor of the PTX ISA names it: row r and inputs 8 h to 8 h + 7 of 16. */
struct operand {
    uint32_t at;         /* bytes in shared memory */
    uint32_t along_k;    /* from inputs 0 to inputs 8, where it is plain */
    uint32_t along_rows; /* from 8 rows to the next 8 */
    bool swizzled;       /* rows of 128 bytes */
};

operand read_descriptor(uint64_t descriptor) {
    operand of = {};
    of.at = (uint32_t)(descriptor & 0x3fff) << 4;
    of.along_k = (uint32_t)(descriptor >> 16 & 0x3fff) << 4;
    of.along_rows = (uint32_t)(descriptor >> 32 & 0x3fff) << 4;
    of.swizzled = descriptor >> 62 == 1;
    return of;
}

uint64_t describe(const void *at) {
    emu_must_be_shared(at, "wgmma");
    return (uint64_t)((const unsigned char *)at - emu_shared(0)) >> 4;
}

template <float (*AT)(uint32_t pair, int i)>
void read_row(float to[16], const operand &of, uint32_t row) {
    for (uint32_t half = 0; half < 2; half++) {
        uint32_t at = of.at + row / 8 * of.along_rows;
        if (of.swizzled) {
            at += row % 8 * 128 + half * 16;
            at ^= (at >> 7 & 7) << 4;
        } else {
            at += row % 8 * 16 + half * of.along_k;
        }
        const unsigned char *p = m->in->shared + at;
        uint32_t words[4];
        if (at + 16 > m->launch->shared_bytes)
            emu_fail("wgmma reads row %u at byte %u, outside of shared memory", row, at);
        emu_touch(p, 16, EMU_READ);
        memcpy(words, p, 16);
        for (int i = 0; i < 8; i++)
            to[half * 8 + i] = AT(words[i / 2], i % 2);
    }
}

template <float (*AT)(uint32_t pair, int i)>
void multiply(const struct emu_product *const own[EMU_WARP]) {
    with_denormals denormals;
    const struct emu_product &first = *own[0];
    float a[16][16], b[16];
    for (int lane = 0; lane < EMU_WARP && first.has_a; lane++)
        take_a<AT>(a, lane, own[lane]->a);
    for (uint32_t row = 0; row < 16 && !first.has_a; row++)
        read_row<AT>(a[row], read_descriptor(first.a_at), m->now / EMU_WARP % 4 * 16 + row);
    for (int column = 0; column < first.n; column++) {
        read_row<AT>(b, read_descriptor(first.b_at), (uint32_t)column);
        for (int row = 0; row < 16; row++) {
            int lane = row % 8 * 4 + column % 8 / 2, e = column / 8 * 4 + row / 8 * 2 + column % 2;
            own[lane]->d[e] = dot_16(own[lane]->d[e], a[row], b);
        }
    }
}

/* What all lanes of a warp have ordered, up to the last group that is waited for. */
struct waiting {
    thread *of;
    uint32_t n_left;
};

void look_at_fences() {
    for (uint32_t i = 0; i < m->n; i++)
        if (m->in->threads[i].exposed)
            emu_fail("wgmma while copies of thread %u are not fenced", i);
}

void multiply_all(const struct emu_meeting *meeting) {
    const waiting &first = *(const waiting *)meeting->operand[0];
    size_t n_groups = first.of->product_groups.size();
    size_t end =
        n_groups > first.n_left ? first.of->product_groups[n_groups - first.n_left - 1] : 0;
    for (size_t i = first.of->n_multiplied; i < end; i++) {
        const struct emu_product *own[EMU_WARP];
        look_at_fences();
        for (int lane = 0; lane < EMU_WARP; lane++) {
            const waiting &other = *(const waiting *)meeting->operand[lane];
            own[lane] = i < other.of->products.size() ? &other.of->products[i] : nullptr;
            if (!own[lane] || other.n_left != first.n_left || own[lane]->n != own[0]->n ||
                own[lane]->b_at != own[0]->b_at || own[lane]->a_at != own[0]->a_at ||
                own[lane]->has_a != own[0]->has_a || own[lane]->bf16 != own[0]->bf16)
                emu_fail("lanes of a warp order different products");
        }
        if (own[0]->bf16)
            multiply<bf16_at>(own);
        else
            multiply<half_at>(own);
    }
    for (int lane = 0; lane < EMU_WARP; lane++) {
        thread &t = *((const waiting *)meeting->operand[lane])->of;
        t.n_multiplied = end > t.n_multiplied ? end : t.n_multiplied;
        if (t.n_multiplied == t.products.size())
            forget_products(t);
    }
}

} // namespace

void emu_product_wait(uint32_t n_left) {
    waiting of = {&self(), n_left};
    emu_meet(ALL, EMU_WGMMA, &of, multiply_all);
}

namespace gpu_emu {

uint64_t wgmma_swizzled(const void *at) {
    return describe(at) | (uint64_t)(1024 >> 4) << 32 | 1ull << 62;
}

uint64_t wgmma_plain(const void *at, uint32_t k_bytes) {
    return describe(at) | (uint64_t)(k_bytes >> 4) << 16 | (uint64_t)(128 >> 4) << 32;
}

void wgmma_order(float *d, const uint32_t *own, uint64_t a, uint64_t b, int n, bool bf16) {
    struct emu_product product = {};
    product.d = d;
    product.has_a = own != nullptr;
    product.a = own;
    product.a_at = a;
    product.b_at = b;
    product.n = n;
    product.bf16 = bf16;
    self().products.push_back(product);
}

void wgmma_fence() {
}

void wgmma_commit() {
    self().product_groups.push_back(self().products.size());
}

void wgmma_publish() {
    self().unfenced = self().exposed = false;
}

} // namespace gpu_emu
