/* Products: which file has the kernel, by the format of the matrix and the number of rows.
 *
 *   launch         format                   rows                       file
 *   linear_ints    I4G, I8G                 1 and 2, or by table (1)   ints_few.cu
 *                                           up to 64                   ints_mid.cu
 *                                           more                       ints_tiles.cu
 *   linear_floats  F32, F16, BF16           1 and 2, or by table       floats_thin.cu
 *                                           up to 64                   floats_some.cu
 *                                           more                       floats_wide.cu
 *   linear_tensor  F16 and BF16, I4G, I8G   few (2)                    tensor_few_floats.cu, _4.cu, _8.cu
 *                                           few of each expert         tensor_experts_floats.cu, _4.cu, _8.cu
 *                                           many                       tensor_many_floats.cu, tensor_many_ints.cu
 *
 * (1) Rows of integers: twice those of the product where both terms are multiplied. Longer rows than shared memory holds are those
 * of the next line. (2) What is few and what many, cuda_tensor_shape() says (kernels/cuda/tensor.c). */
#include "kernels/cuda/gpu/kernels.h"

namespace GPU_NAMESPACE {

/* Rows up to which the kernels of few and of some dozens of rows are faster. */
#define FEW_ROWS_MAX 2
#define MID_ROWS_MAX 64

void linear_ints(struct device_stream *stream, const gpu_linear *what) {
    uint32_t rows = what->n_rows * (what->fine ? 2 : 1);
    if ((what->choice.table || rows <= FEW_ROWS_MAX) && ints_few(stream, what))
        return;
    if (rows <= MID_ROWS_MAX)
        ints_mid(stream, what);
    else
        ints_tiles(stream, what);
}

void linear_floats(struct device_stream *stream, const gpu_linear *what) {
    if (what->choice.table || what->n_rows <= FEW_ROWS_MAX)
        floats_thin(stream, what);
    else if (what->n_rows <= MID_ROWS_MAX)
        floats_some(stream, what);
    else
        floats_wide(stream, what);
}

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
