/* The slices of a product that no other kernel adds up on its way. */
#include "kernels/cuda/gpu/kernels.h"
#include "kernels/cuda/gpu/sum_rows.h"

namespace GPU_NAMESPACE {

#define SUM_THREADS 256

/* A thread an output, or a gate and what it is for. */
__global__ void __launch_bounds__(SUM_THREADS) sum_kernel(gpu_sum what) {
    const uint32_t i = blockIdx.x * SUM_THREADS + threadIdx.x, row = blockIdx.y;
    griddep_launch();
    griddep_wait();
    float *out = what.out + (size_t)row * what.out_stride + i;
    if (what.epilogue == EPILOGUE_SILU_MUL) {
        if (i < what.n / 2)
            *out = sum_gated(what, row, i);
        return;
    }
    if (i >= what.n)
        return;
    float y;
    sum_slices<1>(&y, what, row, i);
    *out = what.epilogue == EPILOGUE_ADD ? *out + y : y;
}

void sum_rows(struct device_stream *stream, const gpu_sum *what) {
    uint32_t n = what->epilogue == EPILOGUE_SILU_MUL ? what->n / 2 : what->n;
    gpu_launch_ahead(stream, dim3(pieces_of(n, SUM_THREADS), what->n_rows), dim3(SUM_THREADS), 0,
                     sum_kernel, *what);
}

} // namespace GPU_NAMESPACE
