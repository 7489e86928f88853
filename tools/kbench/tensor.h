/* tools/kbench/tensor.h: tensors of any format with random bytes, to time products with. */
#pragma once

#include "kernels/kernels.h"

/* AWQ and GPTQ in groups of 128. Owned: end with tensor_free. Aborts when memory is short or the
 * shape impossible. */
struct weight_tensor tensor_random(const char *format, uint32_t n, uint32_t k);
void tensor_free(struct weight_tensor *tensor);

/* Packs a whole tensor into memory from the context; *size: its bytes. Aborts likewise. */
struct weight tensor_pack(const struct kernels *kernels, struct kernels_ctx *ctx,
                          const struct weight_tensor *tensor, size_t *size);
