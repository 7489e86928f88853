/* Products of few rows with matrices of 8-bit integers. */
#include "kernels/cuda/gpu/tensor_few.h"

namespace GPU_NAMESPACE {

void tensor_few_8(struct device_stream *stream, const gpu_tensor *what) {
    form_with_8(what->linear.choice.matrix,
                [=](auto form) { few_launch<decltype(form), false>(stream, what); });
}

} // namespace GPU_NAMESPACE
