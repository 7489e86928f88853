/* tools/cli/model/model_export.h: `tandem model export-tokenizer`: a model's tokenizer for other
 * tools. */
#pragma once

#include "base/error.h"
#include "base/status.h"

struct model;

/* Writes tokenizer.json and tokenizer_config.json, as Hugging Face's tokenizers and transformers
 * read them, into `folder`, which is made if need be; files there are replaced whole. STATUS_IO
 * when they cannot be written, STATUS_UNSUPPORTED for a model without a vocabulary in its file
 * (hash). */
NODISCARD enum status model_export_tokenizer(const struct model *model, const char *folder,
                                             struct error *error);

/* The same for the model at `path`. Says on standard error what went wrong. Returns the exit code:
 * 0, 1 when the files cannot be written, 78 when the model cannot be opened. */
int model_export(const char *path, const char *folder);
