/* Products of many rows with matrices of 16-bit floats. */
#include "kernels/cuda/gpu/tensor_many.h"

namespace GPU_NAMESPACE {

void tensor_many_floats(struct device_stream *stream, const gpu_tensor *what) {
    if (what->linear.choice.matrix.format == WEIGHT_F16)
        many_launch<form_floats<WEIGHT_F16>>(stream, what);
    else
        many_launch<form_floats<WEIGHT_BF16>>(stream, what);
}

} // namespace GPU_NAMESPACE
