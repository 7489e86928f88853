/* Products of few rows with matrices of 16-bit floats. */
#include "kernels/cuda/gpu/tensor_few.h"

namespace GPU_NAMESPACE {

void tensor_few_floats(struct device_stream *stream, const gpu_tensor *what) {
    if (what->linear.choice.matrix.format == WEIGHT_F16)
        few_launch<form_floats<WEIGHT_F16>, false>(stream, what);
    else
        few_launch<form_floats<WEIGHT_BF16>, false>(stream, what);
}

} // namespace GPU_NAMESPACE
