/* Activations become integers: numbers_quantize(), a warp a group of 32. */
#include "kernels/cuda/gpu/kernels.h"

namespace GPU_NAMESPACE {

#define QUANTIZE_THREADS 256

/* One term of a group: each lane has its x; writes q, scale and sum, and gives the lane's integer. */
__device__ static int quantize_group(float x, const gpu_ints &to, size_t group, uint32_t lane,
                                     float *scale_of) {
    uint32_t max_bits = float_bits(x) & 0x7fffffffu;
    for (int width = 16; width > 0; width /= 2) {
        uint32_t other = __shfl_xor_sync(FULL_WARP, max_bits, width);
        max_bits = other > max_bits ? other : max_bits;
    }
    float max = float_from_bits(max_bits);
    float scale = 0.0f;
    int q = 0;
    if (max_bits >= 0x7f800000u) {
        scale = float_from_bits(0x7fc00000u);
    } else if (!(max < QUANT_TINY)) {
        scale = max / 127.0f;
        float rounded = (x * (127.0f / max) + ROUND_MAGIC) - ROUND_MAGIC;
        rounded = rounded > 127.0f ? 127.0f : rounded;
        q = (int)(rounded < -127.0f ? -127.0f : rounded);
    }
    int sum = q;
    for (int width = 16; width > 0; width /= 2)
        sum += __shfl_xor_sync(FULL_WARP, sum, width);
    to.q[group * GROUP + lane] = (int8_t)q;
    if (lane == 0) {
        to.scales[group] = scale;
        to.sums[group] = scale * (float)sum;
    }
    *scale_of = scale;
    return q;
}

__global__ void __launch_bounds__(QUANTIZE_THREADS) quantize_kernel(gpu_quantize what) {
    uint32_t lane = threadIdx.x % WARP, row = blockIdx.y;
    const gpu_matrix w = chosen(what.choice, row); /* in registers */
    uint32_t n_groups = w.k_stored / GROUP;
    uint32_t g = (blockIdx.x * QUANTIZE_THREADS + threadIdx.x) / WARP;
    if (g >= n_groups)
        return; /* the whole warp */
    const float *from = what.x + (size_t)(row / what.share) * w.k;
    uint32_t input = w.order ? w.order[g * GROUP + lane] : g * GROUP + lane;
    float x = input == WEIGHT_NO_INPUT ? 0.0f : from[input];
    float scale;
    size_t to = what.fine ? 2 * (size_t)row : row;
    int q = quantize_group(x, what.to, to * what.to.n_groups + g, lane, &scale);
    if (what.fine)
        quantize_group(x - scale * (float)q, what.to, (to + 1) * what.to.n_groups + g, lane,
                       &scale);
}

void quantize(struct device_stream *stream, const gpu_quantize *what) {
    gpu_launch(stream,
               dim3(pieces_of((size_t)what->to.n_groups * WARP, QUANTIZE_THREADS), what->n_rows),
               dim3(QUANTIZE_THREADS), 0, quantize_kernel, *what);
}

} // namespace GPU_NAMESPACE
