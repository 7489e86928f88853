/* tests/support/gguf_builder.h: makes GGUF files in memory, good ones and bad ones.
 *
 * Values come before tensors, tensors before builder_finish(). Every append aborts the test when
 * memory is short. */
#pragma once

#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

struct gguf_builder {
    struct buf bytes; /* owned: the file so far */
    uint64_t n_values;
    uint64_t n_tensors;
    uint64_t data_bytes; /* of the tensors so far, aligned to 32 */
};

void gguf_builder_init(struct gguf_builder *builder);
void gguf_builder_fini(struct gguf_builder *builder);

void gguf_builder_u32_raw(struct gguf_builder *builder, uint32_t value);
void gguf_builder_u64_raw(struct gguf_builder *builder, uint64_t value);
void gguf_builder_text_raw(struct gguf_builder *builder, const char *bytes, size_t n);

/* A key and its type, counted; the value follows by the caller's raw appends. */
void gguf_builder_key(struct gguf_builder *builder, const char *key, uint32_t type);

void gguf_builder_u32(struct gguf_builder *builder, const char *key, uint32_t value);
void gguf_builder_f32(struct gguf_builder *builder, const char *key, float value);
void gguf_builder_bool(struct gguf_builder *builder, const char *key, uint8_t value);
void gguf_builder_string(struct gguf_builder *builder, const char *key, const char *value);
void gguf_builder_strings(struct gguf_builder *builder, const char *key, const char *const *values,
                          size_t n);
void gguf_builder_i32s(struct gguf_builder *builder, const char *key, const int32_t *values,
                       size_t n);
void gguf_builder_f32s(struct gguf_builder *builder, const char *key, const float *values,
                       size_t n);

/* A row of the tensor table, dims fastest first as in the file, with any contents. */
void gguf_builder_tensor_raw(struct gguf_builder *builder, const char *name, uint32_t n_dims,
                             const uint64_t *dims, uint32_t type, uint64_t offset);

/* An f32 matrix of zeros (n_rows, n_columns), or a vector for n_rows = 0, placed
 * behind the others. */
void gguf_builder_tensor(struct gguf_builder *builder, const char *name, uint64_t n_rows,
                         uint64_t n_columns);

/* Patches the counts, pads to 32 and appends the tensors' zeros and `extra` bytes. */
void gguf_builder_finish(struct gguf_builder *builder, size_t extra);

/* Overwrites the value of a u32 or f32 key that is there. */
void gguf_builder_patch(struct gguf_builder *builder, const char *key, uint32_t value);

/* Everything that a llama of 2 layers, 4 heads of 8, and a vocabulary of the 256 bytes and three
 * special tokens needs, without the tensors of its layers; nothing is finished. */
void gguf_builder_llama(struct gguf_builder *builder);

/* The same of another architecture, whose keys have the same suffixes. */
void gguf_builder_model(struct gguf_builder *builder, const char *architecture);
