/* model/tensor.h: a tensor of a checkpoint, in any format of file. Plain data,
 * read-only. */
#pragma once

#include <stdint.h>

#define TENSOR_NAME_MAX 127
#define TENSOR_DIMS_MAX 4

struct tensor {
    char name[TENSOR_NAME_MAX + 1];
    const char *format; /* constant: "f32", "f16", "bf16", "q4_0", "q4_1", "q8_0" */
    uint32_t n_dims;    /* 1..TENSOR_DIMS_MAX */
    /* Slowest first, as PyTorch writes shapes: a matrix is (outputs, inputs), row-major. GGUF lists
     * them the other way round. Entries from n_dims on are 1. */
    uint64_t shape[TENSOR_DIMS_MAX];
    const void *data; /* borrowed from the file's mapping; lives as long as the model */
    uint64_t n_bytes; /* checked against shape, format and file */
};
