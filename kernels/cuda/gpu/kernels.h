/* kernels/cuda/gpu/kernels.h: the launchers of this folder, which launches.cu gathers in a table. What they compute
 * is said in kernels/kernels.h, how their arguments lie in kernels/cuda/launch.h. */
#pragma once

#include "kernels/cuda/gpu/common.h"

namespace GPU_NAMESPACE {

/* rows.cu */
void embed(struct device_stream *stream, float *out, const gpu_matrix *table, const uint32_t *ids,
           uint32_t n_tokens, uint32_t id_begin);
void norm(struct device_stream *stream, float *out, const float *x, const float *gain, float eps,
          uint32_t n_rows, uint32_t dim);
void silu_mul(struct device_stream *stream, float *out, const float *gate, const float *up,
              size_t n);
void add_gated(struct device_stream *stream, float *out, const float *x, const float *gate,
               uint32_t n_rows, uint32_t dim);
void gather_rows(struct device_stream *stream, float *out, const float *x, const uint32_t *rows,
                 uint32_t n_rows, uint32_t dim);

/* quantize.cu */
void quantize(struct device_stream *stream, const gpu_quantize *what);

/* linear_few.cu: up to GPU_FEW rows of integers; linear_ints.cu: any number. */
void linear_few(struct device_stream *stream, const gpu_linear *what);
void linear_ints(struct device_stream *stream, const gpu_linear *what);

/* linear_floats.cu */
void linear_floats(struct device_stream *stream, const gpu_linear *what);

/* experts.cu */
void moe_route(struct device_stream *stream, uint32_t *ids, float *weights, const float *logits,
               uint32_t n_rows, uint32_t n_experts, uint32_t n_active, bool normalise);
void moe_add(struct device_stream *stream, float *out, const float *outer, const uint32_t *ids,
             const float *weights, uint32_t n_rows, uint32_t n_active, uint32_t dim);

/* rope.cu */
void rope_kv(struct device_stream *stream, float *qkv, const gpu_batch *batch, const rope *rope,
             const kernels_kv *kv, const gpu_heads *heads);

/* attend.cu */
void attend(struct device_stream *stream, const gpu_attend *what);

/* sample.cu */
void sample(struct device_stream *stream, const gpu_sample *what);

} // namespace GPU_NAMESPACE
