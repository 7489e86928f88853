/* kernels/cuda/gpu/floats_ring.h: how a few rows' products get a matrix of floats and the activations: warps that only fetch
 * fill a ring of stages in shared memory, the matrix by cp.async several stages ahead, the activations
 * through registers. Others multiply; a barrier a stage. */
#pragma once

#include "kernels/cuda/gpu/floats.h"

namespace GPU_NAMESPACE {

/* ROWS rows and OUTPUTS outputs of a block; stages of PLANES times 16 bytes an output; the first FETCHERS
 * threads fetch. X_STAGES: of the activations. */
template <uint32_t ROWS, uint32_t OUTPUTS, uint32_t PLANES, uint32_t FETCHERS, uint32_t X_STAGES,
          weight_format FORMAT>
struct ring {
    static const int n_packed = packed<FORMAT>::n;
    static const uint32_t rows = ROWS, outputs = OUTPUTS, planes = PLANES, fetchers = FETCHERS;
    static const uint32_t stages = 8, x_stages = X_STAGES;
    static const uint32_t inputs = planes * n_packed;           /* of a stage */
    static const uint32_t w_each = planes * outputs / fetchers; /* pieces of 16 bytes */
    static const uint32_t step = fetchers / outputs;            /* planes between them */
    /* Threads that fetch a row of x, and how many times four inputs each. */
    static const uint32_t of_row = fetchers / rows < inputs / 4 ? fetchers / rows : inputs / 4;
    static const uint32_t x_each = inputs / 4 / of_row;

    /* Rows of x begin four banks apart. */
    struct shared {
        alignas(16) uint4 w[stages][planes][outputs];
        alignas(16) float x[x_stages][rows][inputs + 4];
    };

    const uint4 *w; /* this thread's first piece of the next stage */
    uint32_t plane; /* of it */
    uint32_t n_planes;
    size_t n_padded;
    const float *x; /* its row */
    uint32_t input; /* its first one in the next stage */
    uint32_t k;
    bool aligned, has_x;
    float4 got[x_each];

    /* Of the block's rows from `row` on and its outputs from `output` on. */
    __device__ __forceinline__ void begin(const gpu_linear &what, const gpu_matrix &matrix,
                                          uint32_t row, uint32_t output) {
        plane = threadIdx.x / outputs;
        n_planes = (matrix.k_stored + n_packed - 1) / n_packed;
        n_padded = matrix.n_padded;
        w = (const uint4 *)matrix.data + plane * n_padded + output + threadIdx.x % outputs;
        row += threadIdx.x / of_row;
        row = row < what.n_rows ? row : what.n_rows - 1; /* its outputs are not stored */
        x = what.x + (size_t)(row / what.share) * matrix.k;
        input = threadIdx.x % of_row * 4;
        k = matrix.k;
        aligned = are_fours(what.x, k);
        has_x = threadIdx.x < rows * of_row;
    }

    /* The next stage of the matrix; there is always one more, so that a wait counts them. */
    __device__ __forceinline__ void fetch(shared &s, uint32_t number) {
        uint4 *to = s.w[number % stages][0] + threadIdx.x;
        if (plane - threadIdx.x / outputs + planes <= n_planes)
#pragma unroll
            for (uint32_t j = 0; j < w_each; j++)
                cp_async_16(to + j * fetchers, w + j * step * n_padded);
        else
            for (uint32_t j = 0; j < w_each; j++) {
                bool there = plane + j * step < n_planes;
                cp_async_16(to + j * fetchers, there ? w + j * step * n_padded : w, there ? 16 : 0);
            }
        cp_async_commit();
        if (plane + planes < n_planes)
            w += planes * n_padded;
        plane += planes;
    }

    /* The next stage of the activations into registers, and from there. */
    __device__ __forceinline__ void fetch_x() {
        if (has_x && aligned && input - input % inputs + inputs <= k)
#pragma unroll
            for (uint32_t j = 0; j < x_each; j++)
                got[j] = *(const float4 *)(x + input + j * of_row * 4);
        else if (has_x)
#pragma unroll
            for (uint32_t j = 0; j < x_each; j++)
                got[j] = load_x<FORMAT>(x, input + j * of_row * 4, k, aligned);
        input += inputs;
    }
    __device__ __forceinline__ void store_x(shared &s, uint32_t number) {
        float *to = s.x[number % x_stages][0] + threadIdx.x / of_row * (inputs + 4) +
                    threadIdx.x % of_row * 4;
#pragma unroll
        for (uint32_t j = 0; j < x_each; j++) {
            float4 value = got[j];
            value = {take_x<FORMAT>(value.x), take_x<FORMAT>(value.y), take_x<FORMAT>(value.z),
                     take_x<FORMAT>(value.w)};
            if (has_x)
                *(float4 *)(to + j * of_row * 4) = value;
        }
    }

    /* What a fetching thread does before the first stage. LEAD: stages of x before the one that is
     * multiplied, and so of the matrix that are waited for. */
    template <uint32_t LEAD> __device__ __forceinline__ void fill(shared &s) {
        for (uint32_t i = 0; i + 1 < stages; i++)
            fetch(s, i);
        fetch_x();
        if (LEAD > 0) {
            store_x(s, 0);
            fetch_x();
        }
    }
    /* Before the barrier of stage i. */
    template <uint32_t LEAD> __device__ __forceinline__ void complete(shared &s, uint32_t i) {
        store_x(s, i + LEAD);
        fetch_x();
        cp_async_wait<stages - 2 - LEAD>();
    }
};

} // namespace GPU_NAMESPACE
