/* Products of few rows an expert with its matrix of 4-bit integers. */
#include "kernels/cuda/gpu/tensor_few.h"

namespace GPU_NAMESPACE {

void tensor_experts_4(struct device_stream *stream, const gpu_tensor *what) {
    form_with_4(what->linear.choice.matrix,
                [=](auto form) { few_launch<decltype(form), true>(stream, what); });
}

} // namespace GPU_NAMESPACE
