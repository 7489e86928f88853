/* kernels/cuda/gpu/kernels.h: the launchers of this folder, which launches.cu gathers in a table. What they compute
 * is said in kernels/kernels.h, how their arguments lie in kernels/cuda/launch.h. */
#pragma once

#include "kernels/cuda/gpu/common.h"

namespace GPU_NAMESPACE {

#define X(name, type) void name(struct device_stream *stream, const type *what);
GPU_LAUNCHES(X)
#undef X

/* Products by the matrix's format and the number of rows: linear.cu has the table. Those of few and of thin rows take matrices by
 * table, too. ints_few() answers false, and launches nothing, where rows of so many inputs do not fit the device's shared memory. */
bool ints_few(struct device_stream *stream, const gpu_linear *what);
void ints_mid(struct device_stream *stream, const gpu_linear *what);
void ints_tiles(struct device_stream *stream, const gpu_linear *what);
void floats_thin(struct device_stream *stream, const gpu_linear *what);
void floats_some(struct device_stream *stream, const gpu_linear *what);
void floats_wide(struct device_stream *stream, const gpu_linear *what);
void tensor_few_floats(struct device_stream *stream, const gpu_tensor *what);
void tensor_few_4(struct device_stream *stream, const gpu_tensor *what);
void tensor_few_8(struct device_stream *stream, const gpu_tensor *what);
void tensor_experts_floats(struct device_stream *stream, const gpu_tensor *what);
void tensor_experts_4(struct device_stream *stream, const gpu_tensor *what);
void tensor_experts_8(struct device_stream *stream, const gpu_tensor *what);
void tensor_many_floats(struct device_stream *stream, const gpu_tensor *what);
void tensor_many_ints(struct device_stream *stream, const gpu_tensor *what);

} // namespace GPU_NAMESPACE
