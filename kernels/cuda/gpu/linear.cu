/* Products on 16-bit tensor cores: which file has the kernel of a format and a shape. */
#include "kernels/cuda/gpu/kernels.h"

namespace GPU_NAMESPACE {

void linear_tensor(struct device_stream *stream, const gpu_tensor *what) {
    /* few rows by one matrix, few rows an expert, many rows of either kind; by 16-bit floats, 4 and 8 bits */
    static void (*const launchers[3][3])(struct device_stream *, const gpu_tensor *) = {
        {tensor_few_floats, tensor_few_4, tensor_few_8},
        {tensor_experts_floats, tensor_experts_4, tensor_experts_8},
        {tensor_many_floats, tensor_many_ints, tensor_many_ints},
    };
    weight_format format = what->linear.choice.matrix.format;
    uint32_t rows = what->shape.many ? 2 : what->groups.list ? 1 : 0;
    launchers[rows][format == WEIGHT_I4G ? 1 : format == WEIGHT_I8G ? 2 : 0](stream, what);
}

} // namespace GPU_NAMESPACE
