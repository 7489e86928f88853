/* model/model.h: a model on disk, opened: config, tensors by name, tokenizer, chat template.
 *
 * Read-only after opening: any thread, except that a dummy's tensors are made when they are asked
 * for (start-up, one thread). Tensors live as long as the model. The path "hash" opens the
 * pseudo-model without files that tests use as an oracle. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/interval.h"
#include "base/status.h"
#include "model/tensor.h"
#include "model/text/generation.h"
#include "model/text/template/template.h"
#include "model/text/tokenizer/tokenizer.h"
#include "model/weights/config/config.h"

#include <stdbool.h>
#include <stdint.h>

#define MODEL_HASH_CONTEXT 131072u

struct checkpoint;
struct gguf;
struct model_extras;

struct model {
    struct model_config config;
    struct generation generation; /* how it is to be sampled where a request does not say */
    struct tokenizer *tokenizer;  /* owned */
    struct interval *textless;    /* owned (n_textless): ids that no answer may hold (textless.h) */
    uint32_t n_textless;
    struct template template;      /* kind NULL when the model has no chat template */
    struct span template_source;   /* borrowed from the file or template_text; may be empty */
    struct buf template_text;      /* of a folder; empty for GGUF */
    struct checkpoint *checkpoint; /* owned; NULL for hash */
    struct gguf *gguf;             /* borrowed from the checkpoint; NULL for other formats */
    struct model_extras *extras;   /* owned: what model_matrix() had to make */
};

struct model_options {
    bool dummy;         /* no weights are read: every tensor that is asked for exists, with
                           pseudo-random values and next to no memory; the path is a folder with a
                           config.json, or that file. Without tokenizer files ids are bytes. */
    uint64_t seed;      /* of a dummy's values */
    bool any_tokenizer; /* a folder whose tokenizer is missing or not served opens all the same,
                           with ids as bytes: for looking at weights, never for serving text */
};

/* Opens a .gguf file, a folder as it lies on a model hub (config.json, *.safetensors, tokenizer
 * files), what a hub's cache has of ORG/NAME (hub.h), or "hash". `options` may be NULL. On success the caller owns *model. STATUS_NOT_FOUND,
 * STATUS_IO, STATUS_CORRUPT, STATUS_INVALID, STATUS_LIMIT or STATUS_UNSUPPORTED with one line that
 * names the file and the field, tensor or offset; STATUS_NOMEM. Reads headers and samples of the
 * tensors, not all of their bytes. A chat template that cannot be used counts as absent. */
NODISCARD enum status model_open(const char *path, const struct model_options *options,
                                 struct model **model, struct error *error);
void model_close(struct model *model);

/* Opens the tokenizer alone, of whatever model_open() takes, or of a folder that has nothing else. Errors as
 * tokenizer_open_path()'s. */
NODISCARD enum status model_open_tokenizer(const char *path, struct tokenizer **tokenizer,
                                           struct error *error);

/* Right before long reading of the tensors: their files are as long as they were. STATUS_IO naming
 * the file. See base/file.h for what is left of the danger. */
NODISCARD enum status model_check_files(const struct model *model, struct error *error);

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

/* NULL when there is no tensor of that name. In a dummy model those are there that model_tensor()
 * or model_matrix() asked for. */
const struct tensor *model_find_tensor(const struct model *model, const char *name);

/* The tensor of that name if it has the shape (n_rows, n_columns), or (n_columns) for n_rows = 0,
 * and a format of weights (of safetensors: f32, f16, bf16). STATUS_NOT_FOUND, STATUS_CORRUPT or
 * STATUS_UNSUPPORTED with a line that says what was expected. */
NODISCARD enum status model_tensor(const struct model *model, const char *name, uint64_t n_rows,
                                   uint64_t n_columns, const struct tensor **tensor,
                                   struct error *error);

/* Tensors in the files' order, for walks; NULL past the last. */
const struct tensor *model_nth_tensor(const struct model *model, uint32_t n);
