/* model/model_parts.h: what model_open() is made of. Private to model*.c. */
#pragma once

#include "model/model.h"

/* Cuts the tokenizer to the embedding's rows, with remarks: before anything is looked up in it.
 * Errors as tokenizer_limit(). */
NODISCARD enum status model_limit_tokens(struct model *model, const char *path,
                                         struct error *error);

/* The chat template by source text, family and tokenizer. Completions work without
 * one that cannot be used; chats are told why. */
NODISCARD enum status model_choose_template(struct model *model, struct error *error);

/* Fills the config's stop_ids: eos_id, the end-of-turn ids of a GGUF file, and the tokens that are
 * known to end a turn by their names. */
void model_add_stops(struct model *model);

struct config_hub;

/* Looks at every member of config.json and what says how to quantize and to sample: remarks on what
 * no reader takes. STATUS_UNSUPPORTED with name and value for what config.json wants and is not served. */
NODISCARD enum status model_look_at_config(const struct config_hub *hub, struct remarks *remarks,
                                           struct error *error);

/* The same of tokenizer_config.json and special_tokens_map.json, of an open tokenizer. STATUS_NOMEM. */
NODISCARD enum status model_look_at_text(struct model *model, const char *folder,
                                         struct error *error);

/* Opens a folder, or a dummy of one, into a zeroed model. */
NODISCARD enum status model_fill_folder(struct model *model, const char *path,
                                        const struct model_options *options, struct error *error);
