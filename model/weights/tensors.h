/* model/weights/tensors.h: the tensors of a model by name and shape, and the linear layers that they
 * make up.
 *
 * Read-only after opening: any thread, except that a dummy's tensors are made when they are asked
 * for, and what is found out about an act-order is kept (start-up, one thread). Tensors live as long
 * as the checkpoint. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "model/tensor.h"

#include <stdbool.h>
#include <stdint.h>

struct checkpoint;
struct model_config;
struct tensors_orders;

struct tensors {
    struct checkpoint *checkpoint;     /* owned; NULL: there are none (the model hash) */
    const struct model_config *config; /* borrowed: name and quantization */
    struct tensors_orders *orders;     /* owned: what tensors_matrix() had to make */
    bool any_format; /* a plain weight may have any format of GGUF; else f32, f16 or bf16 */
};

/* Without a checkpoint as yet; the caller sets it. STATUS_NOMEM. */
NODISCARD enum status tensors_init(struct tensors *tensors, const struct model_config *config);
void tensors_fini(struct tensors *tensors); /* fine on a zeroed one */

/* Are the tensors made when they are asked for? */
bool tensors_are_dummy(const struct tensors *tensors);

/* NULL when there is no tensor of that name. In a dummy model those are there that tensors_get() or
 * tensors_matrix() asked for. */
const struct tensor *tensors_find(const struct tensors *tensors, const char *name);

/* In the files' order, for walks; NULL past the last. */
const struct tensor *tensors_nth(const struct tensors *tensors, uint32_t n);

/* The tensor of that name if it has the shape (n_rows, n_columns), or (n_columns) for n_rows = 0,
 * and a format of weights (of safetensors: f32, f16, bf16). STATUS_NOT_FOUND, STATUS_CORRUPT or
 * STATUS_UNSUPPORTED with a line that says what was expected. */
NODISCARD enum status tensors_get(const struct tensors *tensors, const char *name, uint64_t n_rows,
                                  uint64_t n_columns, const struct tensor **tensor,
                                  struct error *error);

/* A linear layer of a checkpoint, plain or quantized: the tensors that it is made of. Their types
 * and shapes fit together and were checked. */
struct tensor_matrix {
    /* "f32", "f16", "bf16", GGUF's "q4_0" and so on; "awq" (4 bits), "gptq4", "gptq8", and
     * "gptq4_v2", "gptq8_v2" where zero points are stored as they are, "gptq4_sym", "gptq8_sym"
     * where they are 8 or 128 whatever is stored. */
    const char *format;
    uint32_t n;                  /* outputs */
    uint32_t k;                  /* inputs */
    uint32_t group;              /* awq, gptq: inputs per scale, k when one serves all; else 0 */
    const struct tensor *values; /* the weight itself, or qweight */
    const struct tensor *scales; /* awq, gptq; else NULL */
    const struct tensor *zeros;  /* awq, gptq; else NULL */
    const int32_t *group_of;     /* (k) the group of each input, every one below the number of
                                    groups; NULL where it is i / group */
};

/* The linear layer named `stem`, that is `stem`.weight or `stem`.qweight and so on, if it is (n,
 * k). In a dummy model every layer that is asked for is there. STATUS_NOT_FOUND, STATUS_CORRUPT,
 * STATUS_UNSUPPORTED with a line that names the tensor and what was expected. Borrowed from the
 * tensors. */
NODISCARD enum status tensors_matrix(const struct tensors *tensors, const char *stem, uint64_t n,
                                     uint64_t k, struct tensor_matrix *matrix, struct error *error);
