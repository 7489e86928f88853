/* model/text/tokenizer/files/tokenizer_files.h: the readers behind tokenizer_open_folder(), one for
 * each kind of file.
 *
 * Each makes a tokenizer of one vocabulary file and what the folder adds. Errors as
 * tokenizer_open_folder(). */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"

struct json_t;
struct token_table;
struct tokenizer;
struct tokenizer_extras;

/* tokenizer.json of Hugging Face's tokenizers. */
NODISCARD enum status tokenizer_open_json(const char *path, const struct tokenizer_extras *extras,
                                          struct tokenizer **tokenizer, struct error *error);

/* Lines of base64, a blank and a rank; with Qwen's pattern and special tokens. */
NODISCARD enum status tokenizer_open_tiktoken(const char *path,
                                              const struct tokenizer_extras *extras,
                                              struct tokenizer **tokenizer, struct error *error);

/* vocab.json and merges.txt, as GPT-2 and Qwen2 have them. */
NODISCARD enum status tokenizer_open_merges(const char *vocab_path, const char *merges_path,
                                            const struct tokenizer_extras *extras,
                                            struct tokenizer **tokenizer, struct error *error);

/* The same from memory. */
NODISCARD enum status tokenizer_parse_json(const struct json_t *root,
                                           const struct tokenizer_extras *extras,
                                           struct tokenizer **tokenizer, struct error *error);
NODISCARD enum status tokenizer_parse_tiktoken(struct span text,
                                               const struct tokenizer_extras *extras,
                                               struct tokenizer **tokenizer, struct error *error);

/* {"token": id, ...}: texts are borrowed from it. */
NODISCARD enum status json_read_vocabulary(const struct json_t *vocabulary,
                                           struct token_table *table, struct error *error);
