/* model/text/tokenizer/vocabulary/vocabulary.h: what each token id says: its bytes and its kind;
 * and the ways back.
 *
 * Filled once while a model is opened, then read-only: any thread. Normal and user-defined tokens
 * are found by their bytes (merges need that); special ones, user-defined among them, are found in
 * text, longest first. Control tokens never come out of merges. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"
#include "model/text/tokenizer/vocabulary/trie.h"

#include <stdbool.h>
#include <stdint.h>

#define VOCABULARY_TOKENS_MAX 1048576u
#define VOCABULARY_BYTES_MAX  1024u /* of one token */
#define TOKEN_NONE            UINT32_MAX

/* With the numbers of tokenizer.ggml.token_type. */
enum token_kind {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,      /* special */
    TOKEN_CONTROL = 3,      /* special: matched in text only when asked, not shown to users */
    TOKEN_USER_DEFINED = 4, /* always matched in text, before anything else */
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6,
};

/* How a special token is found in text (added tokens of Hugging Face's tokenizers). */
enum token_flags {
    TOKEN_SINGLE_WORD = 1,  /* only where no letter or digit touches it */
    TOKEN_STRIPS_LEFT = 2,  /* takes the white space before it */
    TOKEN_STRIPS_RIGHT = 4, /* takes the white space behind it */
    TOKEN_NORMALIZED = 8,   /* found in normalized text, not by vocabulary_match_special() */
};

struct vocabulary {
    uint32_t n_tokens;    /* ids are below it */
    uint32_t n_listed;    /* as many as were taken; those from n_tokens on are never found
                          (vocabulary_limit) */
    uint32_t n_bytes_max; /* of the longest token */
    char *bytes;          /* owned: all tokens' bytes, one after the other */
    uint32_t *offsets;    /* owned (n_listed + 1) into bytes */
    uint8_t *kinds;       /* owned (n_listed): enum token_kind */
    uint8_t *flags;       /* owned (n_listed): enum token_flags */
    uint32_t *slots;      /* owned (n_slots): tokens by hash of their bytes */
    uint32_t n_slots;     /* power of two */
    uint64_t seed;        /* of that hash */
    struct trie trie;     /* special tokens */
    bool has_user_defined;
};

/* What a file's kind of a token counts as here: a user-defined token that is written as the markers
 * of roles are ("<|im_start|>") is a control token, whatever its file says of it; else a user's
 * text could open a turn of its own. */
uint8_t vocabulary_kind(struct span text, uint8_t kind);

/* Takes tokens (n) as bytes, with kinds (n) and flags (n; NULL: none has any). Everything is copied.
 * STATUS_LIMIT past a bound above, STATUS_CORRUPT for an unknown kind or two normal tokens of the same
 * bytes, STATUS_NOMEM. */
NODISCARD enum status vocabulary_init(struct vocabulary *vocabulary, const struct span *tokens,
                                      const uint8_t *kinds, const uint8_t *flags, uint32_t n,
                                      struct error *error);
void vocabulary_fini(struct vocabulary *vocabulary);

/* Leaves the first n tokens, 0 < n <= n_tokens: no text leads to one behind them. Their bytes stay,
 * for messages and vocabulary_match_beyond(). */
void vocabulary_limit(struct vocabulary *vocabulary, uint32_t n);

static inline struct span vocabulary_bytes(const struct vocabulary *vocabulary, uint32_t id) {
    return (struct span){vocabulary->bytes + vocabulary->offsets[id],
                         vocabulary->offsets[id + 1] - vocabulary->offsets[id]};
}

/* The normal token of exactly these bytes, else the user-defined one; or TOKEN_NONE. */
uint32_t vocabulary_find(const struct vocabulary *vocabulary, struct span bytes);

/* The special token of exactly this text, or TOKEN_NONE. */
uint32_t vocabulary_find_special(const struct vocabulary *vocabulary, struct span text);

/* The longest special token that begins at text[0], n > 0, and its length; TOKEN_NONE when there is
 * none. Only user-defined ones unless `control`; none that is TOKEN_NORMALIZED. */
uint32_t vocabulary_match_special(const struct vocabulary *vocabulary, const char *text, size_t n,
                                  bool control, size_t *length);

/* The special token that would begin at text[0], n > 0, had vocabulary_limit() not taken it away;
 * TOKEN_NONE when there is none, or a longer one that is left. */
uint32_t vocabulary_match_beyond(const struct vocabulary *vocabulary, const char *text, size_t n);

/* The byte that a text "<0xHH>" stands for, with hex digits of either case as Rust reads them; -1 for
 * any other text. */
int vocabulary_byte_token(struct span text);
