/* model/model.h: a model on disk, opened: config, tensors by name, tokenizer, chat template.
 *
 * Read-only after opening: any thread, except that a dummy's tensors are made when they are asked
 * for (start-up, one thread). Tensors live as long as the model. The path "hash" opens the
 * pseudo-model without files that tests use as an oracle. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/interval.h"
#include "base/remarks.h"
#include "base/status.h"
#include "model/text/generation.h"
#include "model/text/template/template.h"
#include "model/text/tokenizer/tokenizer.h"
#include "model/weights/config/config.h"
#include "model/weights/tensors.h"

#include <stdbool.h>
#include <stdint.h>

#define MODEL_HASH_CONTEXT 131072u

struct gguf;

struct model {
    struct model_config config;
    struct remarks remarks;       /* what of the files is not used, and why */
    struct generation generation; /* how it is to be sampled where a request does not say */
    struct tokenizer *tokenizer;  /* owned */
    struct interval *textless;    /* owned (n_textless): ids that no answer may hold (textless.h) */
    uint32_t n_textless;
    struct template template;    /* kind NULL when the model has no chat template */
    struct span template_source; /* borrowed from the file or template_text; may be empty */
    struct buf template_text;    /* of a folder; empty for GGUF */
    struct tensors tensors;
    struct gguf *gguf; /* borrowed from the checkpoint; NULL for other formats */
};

struct model_options {
    bool dummy;         /* no weights are read: every tensor that is asked for exists, with
                           pseudo-random values and next to no memory; the path is a folder with a
                           config.json, or that file. Without tokenizer files ids are bytes. */
    uint64_t seed;      /* of a dummy's values */
    bool any_tokenizer; /* a folder whose tokenizer is missing or not served opens all the same,
                           with ids as bytes: for looking at weights, never for serving text */
};

/* Opens a .gguf file or the parts of one, a folder as it lies on a model hub (config.json, *.safetensors, tokenizer
 * files), what a hub's cache has of ORG/NAME (hub.h), or "hash". `options` may be NULL. On success
 * the caller owns *model. STATUS_NOT_FOUND, STATUS_IO, STATUS_CORRUPT, STATUS_INVALID, STATUS_LIMIT
 * or STATUS_UNSUPPORTED with one line that names the file and the field, tensor or offset;
 * STATUS_NOMEM. Reads headers and samples of the tensors, not all of their bytes, but for a head
 * beside a tied one. A chat template or a file beside the model that cannot be used counts as
 * absent, with a remark; so does a token behind the embedding's last row. */
NODISCARD enum status model_open(const char *path, const struct model_options *options,
                                 struct model **model, struct error *error);
void model_close(struct model *model);

/* Logs each remark as a warning: for the shell of a daemon, once after opening. */
void model_log_remarks(const struct model *model);

/* Opens the tokenizer alone, of all that model_open() takes, or of a folder that has nothing else; cut
 * to the rows of a model that lies there (tokenizer_limit()). Errors as tokenizer_open_path()'s. */
NODISCARD enum status model_open_tokenizer(const char *path, struct tokenizer **tokenizer,
                                           struct error *error);

/* Right before long reading of the tensors: their files are as long as they were. STATUS_IO naming
 * the file. See base/file.h for what is left of the danger. */
NODISCARD enum status model_check_files(const struct model *model, struct error *error);

/* Every tensor that the model's family needs is there, by its name, shape and format; a dummy's are made when they are
 * asked for. STATUS_NOT_FOUND, STATUS_CORRUPT, STATUS_UNSUPPORTED with a line that names the first that is not. Reads no
 * weights. */
NODISCARD enum status model_check_tensors(const struct model *model, struct error *error);
