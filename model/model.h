/* model/model.h: a model on disk, opened: config, tensors by name, tokenizer, chat template.
 *
 * Read-only after opening: any thread. Tensors point into the mapped file and live as long as the
 * model. The path "hash" opens the pseudo-model without files that tests use as an oracle. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "model/config.h"
#include "model/template.h"
#include "model/tensor.h"
#include "model/tokenizer.h"

#include <stdint.h>

#define MODEL_HASH_CONTEXT 131072u

struct gguf;

struct model {
    struct model_config config;
    struct tokenizer *tokenizer; /* owned */
    struct template template;    /* kind NULL when the model has no chat template */
    struct span template_source; /* borrowed from the file; empty when there is none */
    struct gguf *gguf;           /* owned; NULL for hash */
};

/* Opens a .gguf file or "hash". On success the caller owns *model. STATUS_NOT_FOUND, STATUS_IO,
 * STATUS_CORRUPT, STATUS_INVALID, STATUS_LIMIT or STATUS_UNSUPPORTED with one line that names the
 * file and the field or offset; STATUS_NOMEM. Reads the header and samples of the tensors, not all
 * of their bytes. */
NODISCARD enum status model_open(const char *path, struct model **model, struct error *error);
void model_close(struct model *model);

/* A linear layer of a checkpoint, plain or quantized: the tensors that it is made of. Their types
 * and shapes fit together and were checked. */
struct model_matrix {
    /* "f32", "f16", "bf16", GGUF's "q4_0" and so on; "awq" (4 bits), "gptq4", "gptq8", and
     * "gptq4_v2", "gptq8_v2" where zero points are stored as they are. */
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
 * model. */
NODISCARD enum status model_matrix(const struct model *model, const char *stem, uint64_t n,
                                   uint64_t k, struct model_matrix *matrix, struct error *error);

/* NULL when there is no tensor of that name. */
const struct tensor *model_find_tensor(const struct model *model, const char *name);

/* The tensor of that name if it has the shape (n_rows, n_columns), or (n_columns) for n_rows = 0.
 * STATUS_NOT_FOUND or STATUS_CORRUPT with a line that says what was expected. */
NODISCARD enum status model_tensor(const struct model *model, const char *name, uint64_t n_rows,
                                   uint64_t n_columns, const struct tensor **tensor,
                                   struct error *error);

/* Tensors in the file's order, for walks; NULL past the last. */
const struct tensor *model_nth_tensor(const struct model *model, uint32_t n);
