/* The tokens that were chosen become the ids of the step ahead. */
#include "kernels/cuda/gpu/kernels.h"

namespace GPU_NAMESPACE {

#define CHOSEN_THREADS 128

__global__ void __launch_bounds__(CHOSEN_THREADS) take_chosen_kernel(gpu_take_chosen what) {
    uint32_t i = blockIdx.x * CHOSEN_THREADS + threadIdx.x;
    if (i < what.n)
        what.ids[i] = what.results[i].valid ? what.results[i].id : GPU_NO_TOKEN;
}

void take_chosen(struct device_stream *stream, const gpu_take_chosen *what) {
    gpu_launch(stream, dim3((what->n + CHOSEN_THREADS - 1) / CHOSEN_THREADS), dim3(CHOSEN_THREADS),
               0, take_chosen_kernel, *what);
}

} // namespace GPU_NAMESPACE
