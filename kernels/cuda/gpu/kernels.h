/* kernels/cuda/gpu/kernels.h: the launchers of this folder, which launches.cu gathers in a table. What they compute
 * is said in kernels/kernels.h, how their arguments lie in kernels/cuda/launch.h. */
#pragma once

#include "kernels/cuda/gpu/common.h"

namespace GPU_NAMESPACE {

#define X(name, type) void name(struct device_stream *stream, const type *what);
GPU_LAUNCHES(X)
#undef X

/* Parts of linear_ints(): one or two rows of integers, or matrices by table; and some dozens of one matrix.
 * False: the device has no shared memory for rows of so many inputs. */
bool linear_few(struct device_stream *stream, const gpu_linear *what);
void linear_mid(struct device_stream *stream, const gpu_linear *what);

/* Rows of floats by one matrix, several or many; linear_floats() takes any number. */
void linear_some(struct device_stream *stream, const gpu_linear *what);
void linear_wide(struct device_stream *stream, const gpu_linear *what);

/* Parts of linear_tensor(): few rows, of one matrix or by expert, or many, by how the matrix is stored. */
void tensor_few_floats(struct device_stream *stream, const gpu_tensor *what);
void tensor_few_4(struct device_stream *stream, const gpu_tensor *what);
void tensor_few_8(struct device_stream *stream, const gpu_tensor *what);
void tensor_experts_floats(struct device_stream *stream, const gpu_tensor *what);
void tensor_experts_4(struct device_stream *stream, const gpu_tensor *what);
void tensor_experts_8(struct device_stream *stream, const gpu_tensor *what);
void tensor_many_floats(struct device_stream *stream, const gpu_tensor *what);
void tensor_many_ints(struct device_stream *stream, const gpu_tensor *what);

} // namespace GPU_NAMESPACE
