/* model/tokenizer.h: text to token ids, and token ids to bytes.
 *
 * A struct tokenizer never changes after opening: any thread may use it, each with a struct
 * tokenizer_scratch of its own (buffers, match data). Ids to text, one at a time: detokenize.h.
 *
 * Text is plain unless a caller says otherwise: a special token's text (<|im_end|>) inside a user's
 * words becomes ordinary tokens, never the special one. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "model/bpe.h"
#include "model/ids.h"
#include "model/pretokenize.h"
#include "model/span.h"
#include "model/vocabulary.h"

#include <stdbool.h>
#include <stdint.h>

#define TOKENIZER_TEXT_MAX ((size_t)32 << 20) /* bytes of one text */

struct tokenizer;
struct tokenizer_scratch;

/* How text without special tokens becomes ids: one member per algorithm. */
struct tokenizer_kind {
    const char *name; /* constant: "bpe", "bytes" */
    /* Appends the ids of valid UTF-8 text. */
    enum status (*encode)(const struct tokenizer *tokenizer, struct tokenizer_scratch *scratch,
                          struct span text, struct ids *ids);
};

/* Read-only for all but tokenizer_*.c. */
struct tokenizer {
    const struct tokenizer_kind *kind;
    struct vocabulary vocabulary;
    struct pretokenizer pretokenizer; /* kind bpe */
    struct bpe bpe;                   /* kind bpe */
    uint32_t bos_id;                  /* TOKEN_NONE: the model has none */
    uint32_t eos_id;                  /* TOKEN_NONE: the model has none */
    bool add_bos;                     /* the model wants bos_id before a text */
    uint8_t fingerprint[32];          /* equal for tokenizers that give the same ids and bytes */
};

/* What a model's files say about its tokenizer, whatever their format. Everything is copied. */
struct tokenizer_source {
    struct span model;         /* "gpt2": byte-level BPE */
    struct span pre;           /* name of the pre-tokenizer */
    const struct span *tokens; /* (n_tokens) as spelled in the file */
    const uint8_t *kinds;      /* (n_tokens) enum token_kind */
    uint32_t n_tokens;
    const struct span *merges; /* (n_merges) in order of rank */
    size_t n_merges;
    uint32_t bos_id;
    uint32_t eos_id;
    bool add_bos;
};

struct gguf;

/* On success the caller owns *tokenizer. STATUS_UNSUPPORTED for another model or pre-tokenizer,
 * STATUS_CORRUPT for a source that contradicts itself, STATUS_LIMIT, STATUS_NOMEM. */
NODISCARD enum status tokenizer_open(const struct tokenizer_source *source,
                                     struct tokenizer **tokenizer, struct error *error);

/* From the tokenizer.ggml.* keys of a GGUF file (docs/gguf.md), which may be closed afterwards. */
NODISCARD enum status tokenizer_open_gguf(const struct gguf *gguf, struct tokenizer **tokenizer,
                                          struct error *error);

/* Of the pseudo-model `hash`: 65,536 ids; an id below 256 is that byte, any other is written
 * "<hhhh>" (four hex digits). A text's ids are its bytes. No special tokens. */
NODISCARD enum status tokenizer_open_hash(struct tokenizer **tokenizer, struct error *error);

void tokenizer_close(struct tokenizer *tokenizer);

/* NULL when memory is short. Works with every tokenizer. */
struct tokenizer_scratch *tokenizer_scratch_new(void);
void tokenizer_scratch_free(struct tokenizer_scratch *scratch);

enum tokenizer_flags {
    TOKENIZER_PLAIN = 0,
    TOKENIZER_ADD_BOS = 1,       /* put bos_id first if the model wants it (add_bos) */
    TOKENIZER_PARSE_SPECIAL = 2, /* special tokens' texts become those tokens; trusted text only */
};

/* Appends the ids of text to ids. STATUS_INVALID when the text is no valid UTF-8; STATUS_LIMIT when
 * it is longer than TOKENIZER_TEXT_MAX or has more ids than ids->limit still takes; STATUS_NOMEM.
 * On failure ids holds what it held before. */
NODISCARD enum status tokenizer_encode(const struct tokenizer *tokenizer,
                                       struct tokenizer_scratch *scratch, struct span text,
                                       unsigned flags, struct ids *ids, struct error *error);

static inline uint32_t tokenizer_n_tokens(const struct tokenizer *tokenizer) {
    return tokenizer->vocabulary.n_tokens;
}

/* The bytes a token stands for, which need not be valid UTF-8 on their own; id < n_tokens. */
static inline struct span tokenizer_bytes(const struct tokenizer *tokenizer, uint32_t id) {
    return vocabulary_bytes(&tokenizer->vocabulary, id);
}

/* Whether a token is a marker that users do not see (control and unknown); id < n_tokens. */
static inline bool tokenizer_is_special(const struct tokenizer *tokenizer, uint32_t id) {
    uint8_t kind = tokenizer->vocabulary.kinds[id];
    return kind == TOKEN_CONTROL || kind == TOKEN_UNKNOWN;
}

/* The token of exactly this text, special ones first; TOKEN_NONE when there is none. */
uint32_t tokenizer_find(const struct tokenizer *tokenizer, struct span text);
