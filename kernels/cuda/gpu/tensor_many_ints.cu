/* Products of many rows with matrices of integers of 4 and 8 bits. */
#include "kernels/cuda/gpu/tensor_many.h"

namespace GPU_NAMESPACE {

void tensor_many_ints(struct device_stream *stream, const gpu_tensor *what) {
    const gpu_matrix &w = what->linear.choice.matrix;
    auto launch = [=](auto form) { many_launch<decltype(form)>(stream, what); };
    if (w.format == WEIGHT_I4G)
        form_with_4(w, launch);
    else
        form_with_8(w, launch);
}

} // namespace GPU_NAMESPACE
