/* model/model_parts.h: what model_open() is made of. Private to model*.c. */
#pragma once

#include "base/arena.h"
#include "model/model.h"

#define MODEL_ORDERS 2048u /* lists; a model has an order or more for each layer */

struct model_order;

struct model_extras {
    struct arena arena;
    struct model_order *orders[MODEL_ORDERS]; /* in the arena: act-orders by their tensor */
};

/* The chat template by source text, family and tokenizer. Completions work without
 * one that cannot be used; chats are told why. */
NODISCARD enum status model_choose_template(struct model *model, struct error *error);

/* Opens a folder, or a dummy of one, into a zeroed model. */
NODISCARD enum status model_fill_folder(struct model *model, const char *path,
                                        const struct model_options *options, struct error *error);
