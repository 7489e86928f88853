/* Products of few rows with matrices of 4-bit integers. */
#include "kernels/cuda/gpu/tensor_few.h"

namespace GPU_NAMESPACE {

void tensor_few_4(struct device_stream *stream, const gpu_tensor *what) {
    form_with_4(what->linear.choice.matrix,
                [=](auto form) { few_launch<decltype(form), false>(stream, what); });
}

} // namespace GPU_NAMESPACE
