/* model/model_parts.h: what model_open() is made of. Private to model*.c. */
#pragma once

#include "model/model.h"

/* The chat template by source text, family and tokenizer. Completions work without
 * one that cannot be used; chats are told why. */
NODISCARD enum status model_choose_template(struct model *model, struct error *error);

/* Opens a folder, or a dummy of one, into a zeroed model. */
NODISCARD enum status model_fill_folder(struct model *model, const char *path,
                                        const struct model_options *options, struct error *error);
