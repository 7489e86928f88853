/* model/text/tokenizer/files/tokenizer_class.h: what a folder's tokenizer class puts around a text.
 *
 * Some classes of transformers 4 decide by themselves, whatever tokenizer.json says: by add_bos_token
 * and add_eos_token, or by defaults of their own. Where tokenizer_config.json names no class,
 * config.json's model_type does. In a folder that transformers 5 saved tokenizer.json alone says it.
 * For the readers of tokenizer files. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"

#include <stdbool.h>

struct tokenizer_extras;
struct tokenizer_tokens;

/* Whether it is ChatGLM 2's or 3's class, which has special tokens behind the file's pieces and puts
 * two of them before a text. */
bool tokenizer_class_is_chatglm(const struct tokenizer_extras *extras);

/* What the vocabulary's own file says. */
struct tokenizer_class_file {
    struct span bos; /* texts of the tokens that begin and end a text; empty: not said */
    struct span eos;
    bool is_json;   /* tokenizer.json, which has a place for what stands around a text */
    bool says_ends; /* before and behind are the file's word: for ChatGLM's classes it counts */
};

/* Finds bos_id and eos_id by the texts that the folder names, else by the class's own, else by the
 * file's; then sets what stands around a text as the class has it. A side that the class leaves
 * open, or whose token is not there, stays as it is. STATUS_LIMIT. */
NODISCARD enum status tokenizer_class_ends(const struct tokenizer_extras *extras,
                                           const struct tokenizer_class_file *file,
                                           struct tokenizer_tokens *tokens, struct error *error);
