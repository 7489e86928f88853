/* Activations become integers, in the order that a matrix has its inputs in. */
#include "kernels/cuda/gpu/kernels.h"
#include "kernels/cuda/gpu/quantize.h"

namespace GPU_NAMESPACE {

#define QUANTIZE_THREADS 256

__global__ void __launch_bounds__(QUANTIZE_THREADS) quantize_kernel(gpu_quantize what) {
    uint32_t i = 4 * (blockIdx.x * QUANTIZE_THREADS + threadIdx.x), row = blockIdx.y;
    uint32_t k = what.choice.matrix.k, k_stored = what.choice.matrix.k_stored;
    const uint32_t *order = what.choice.matrix.order;
    griddep_launch();
    griddep_wait();
    if (what.choice.table) {
        const gpu_matrix &w = what.choice.table[what.choice.ids[row]];
        k = w.k, k_stored = w.k_stored, order = w.order;
    }
    const float *from = what.x + (size_t)(what.share > 1 ? row / what.share : row) * k;
    float x[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    bool here = i < k_stored;
    if (here)
        load_inputs(x, from, order, i);
    size_t group = (size_t)row * (what.fine ? 2 : 1) * what.to.n_groups + i / GROUP;
    quantize_term(x, what.to, group, here);
    if (what.fine)
        quantize_term(x, what.to, group + what.to.n_groups, here);
}

/* The matrix of a choice is as wide as any. */
void quantize(struct device_stream *stream, const gpu_quantize *what) {
    gpu_launch_ahead(
        stream, dim3(pieces_of(what->choice.matrix.k_stored, 4 * QUANTIZE_THREADS), what->n_rows),
        dim3(QUANTIZE_THREADS), 0, quantize_kernel, *what);
}

} // namespace GPU_NAMESPACE
