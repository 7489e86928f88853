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

/* NULL when there is no tensor of that name. */
const struct tensor *model_find_tensor(const struct model *model, const char *name);

/* The tensor of that name if it has the shape (n_rows, n_columns), or (n_columns) for n_rows = 0.
 * STATUS_NOT_FOUND or STATUS_CORRUPT with a line that says what was expected. */
NODISCARD enum status model_tensor(const struct model *model, const char *name, uint64_t n_rows,
                                   uint64_t n_columns, const struct tensor **tensor,
                                   struct error *error);

/* Tensors in the file's order, for walks; NULL past the last. */
const struct tensor *model_nth_tensor(const struct model *model, uint32_t n);
