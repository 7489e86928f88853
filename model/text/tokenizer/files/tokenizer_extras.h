/* model/text/tokenizer/files/tokenizer_extras.h: what a model folder says about its tokenizer
 * beside the vocabulary.
 *
 * From tokenizer_config.json (added_tokens_decoder, bos_token, eos_token, add_bos_token,
 * add_eos_token, tokenizer_class, backend), special_tokens_map.json and added_tokens.json, as transformers
 * writes them, and config.json (tokenizer_class, model_type); each may be missing. Where two files
 * differ, the first named wins. Read-only after reading. */
#pragma once

#include "base/error.h"
#include "base/remarks.h"
#include "base/span.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKENIZER_ADDED_MAX 65536u

/* A token that stands beside the vocabulary. */
struct tokenizer_added {
    uint32_t id;         /* as the file says */
    struct span content; /* its text */
    bool is_special;     /* a marker: matched in trusted text only, not shown to users */
    uint8_t flags;       /* enum token_flags */
};

struct json_get;

/* Reads "single_word", "lstrip", "rstrip" and "normalized" into the flags; an absent one stays. */
NODISCARD enum status tokenizer_added_flags(const struct json_get *token, uint8_t *flags);

enum tokenizer_answer { ANSWER_UNSAID, ANSWER_NO, ANSWER_YES };

struct tokenizer_extras {
    struct tokenizer_added *added; /* owned (n_added), by ascending id, no id twice */
    size_t n_added;
    struct span bos; /* text of the token; empty: not said */
    struct span eos;
    struct span unk;
    struct span pad;
    struct span class; /* tokenizer_class: "Qwen2Tokenizer", "ChatGLMTokenizer"; empty: not said */
    struct span model_class;       /* what config.json says or implies of it; empty: nothing */
    enum tokenizer_answer add_bos; /* null is a no */
    enum tokenizer_answer add_eos;
    enum tokenizer_answer legacy; /* of Llama's class: how text behind a special token begins */
    bool
        ends_in_file; /* what wrote the folder keeps all that stands around a text in tokenizer.json */
    struct remarks remarks;               /* what of the files is not used */
    struct tokenizer_extras_files *files; /* owned: what the spans point into */
};

static inline struct span tokenizer_extras_class(const struct tokenizer_extras *extras) {
    return extras->class.n > 0 ? extras->class : extras->model_class;
}

/* Reads what is there; a folder without any of the files gives empty extras. A tokenizer_config.json or
 * special_tokens_map.json that cannot be read counts as absent, as does a member of another type, with a
 * remark. STATUS_CORRUPT for malformed added tokens, with a line that names the file and the field; STATUS_LIMIT, STATUS_IO,
 * STATUS_NOMEM. The caller ends it with tokenizer_extras_fini(). */
NODISCARD enum status tokenizer_extras_init(struct tokenizer_extras *extras, const char *folder,
                                            struct error *error);
void tokenizer_extras_fini(struct tokenizer_extras *extras); /* fine on a zeroed one */
