/* model/text/tokenizer/tokenizer.h: text to token ids, and token ids to bytes.
 *
 * A struct tokenizer never changes after opening and tokenizer_limit(): any thread may use it, each
 * with a struct tokenizer_scratch of its own (buffers, match data). Ids to text, one at a time:
 * detokenize.h.
 *
 * Text is plain unless a caller says otherwise: a special token's text (<|im_end|>) inside a user's
 * words becomes ordinary tokens, never the special one. */
#pragma once

#include "base/error.h"
#include "base/remarks.h"
#include "base/span.h"
#include "base/status.h"
#include "model/text/tokenizer/bpe/bpe.h"
#include "model/text/tokenizer/bpe/normalize.h"
#include "model/text/tokenizer/bpe/pretokenize.h"
#include "model/text/tokenizer/vocabulary/ids.h"
#include "model/text/tokenizer/vocabulary/vocabulary.h"

#include <stdbool.h>
#include <stdint.h>

#define TOKENIZER_TEXT_MAX ((size_t)32 << 20) /* bytes of one text */
#define TOKENIZER_ENDS_MAX 8u                 /* tokens on one side of a text */

struct buf;
struct detokenizer;
struct tokenizer;
struct tokenizer_scratch;

/* How text without special tokens becomes ids: one member per algorithm. */
struct tokenizer_kind {
    const char *name; /* constant: "bpe", "bytes", "sentencepiece" */
    /* Appends the ids of valid UTF-8 text. `at_start`: nothing stands before it, neither text nor a
     * special token. */
    enum status (*encode)(const struct tokenizer *tokenizer, struct tokenizer_scratch *scratch,
                          struct span text, bool at_start, struct ids *ids);
    void (*close)(struct tokenizer *tokenizer); /* frees what `own` holds; may be NULL */
    /* The lowest id from `begin` on that `encode` may give, or TOKEN_NONE; NULL: it may give any. */
    uint32_t (*reach)(const struct tokenizer *tokenizer, uint32_t begin);
    /* Before the vocabulary is cut to n tokens, none behind which is in reach; may be NULL. */
    void (*limit)(struct tokenizer *tokenizer, uint32_t n);
    /* detokenizer_push() of a valid id, where a kind has rules of its own; may be NULL. */
    enum status (*show)(struct detokenizer *detokenizer, const struct tokenizer *tokenizer,
                        uint32_t id, struct buf *out);
};

/* What users see of each token, where that is not what the vocabulary holds (which is what text is
 * matched with): "\u2581the" is shown as " the", "<0x0A>" as a newline. */
struct token_texts {
    char *bytes;       /* owned; NULL: the vocabulary's bytes are shown */
    uint32_t *offsets; /* owned (n_tokens + 1) into bytes */
};

/* What the first token of a text loses when it is shown, and what becomes of broken characters. */
struct tokenizer_head {
    char strip[4];      /* a character of UTF-8 that is taken from the very front of a text ... */
    uint8_t n_strip;    /* (its bytes; 0: none) */
    uint8_t n_times;    /* ... as often as it stands there, at most this often */
    bool is_bare;       /* the first token loses every `strip` that the vocabulary spells in it */
    bool replaces_each; /* each byte of a broken character becomes U+FFFD, not all together */
};

/* The tokens that a model wants on one side of a text, in their order. */
struct tokenizer_ends {
    uint32_t ids[TOKENIZER_ENDS_MAX]; /* (n) */
    uint32_t n;
};

/* Read-only for all but those who make one (files/). */
struct tokenizer {
    const struct tokenizer_kind *kind;
    struct vocabulary vocabulary;
    struct token_texts shown;
    struct tokenizer_head head;
    struct normalizer normalizer;     /* kind bpe */
    struct trie normalized_specials;  /* kind bpe: special tokens that stand in normalized text */
    struct pretokenizer pretokenizer; /* kind bpe */
    struct bpe bpe;                   /* kind bpe */
    void *own;                        /* owned: of other kinds, freed by kind->close */
    uint32_t bos_id;                  /* TOKEN_NONE: the model has none */
    uint32_t eos_id;                  /* TOKEN_NONE: the model has none */
    struct remarks remarks;           /* what of its folder's files is not used */
    struct tokenizer_ends before;     /* what the model wants before a text: mostly bos_id */
    struct tokenizer_ends behind;     /* and behind it */
    bool shrinks;                     /* a text may have far fewer tokens than its length says */
    uint8_t fingerprint[32];          /* equal for tokenizers that give the same ids and bytes */
};

/* The tokens of a vocabulary that is being read, and which of them begin and end a text. */
struct tokenizer_tokens {
    const struct span *texts; /* (n) as spelled in the file; special tokens as they are */
    const uint8_t *kinds;     /* (n) enum token_kind */
    const uint8_t *flags;     /* (n) enum token_flags; NULL: none has any */
    uint32_t n;
    uint32_t bos_id; /* TOKEN_NONE: the model has none */
    uint32_t eos_id;
    bool add_bos; /* a text begins with bos_id */
    bool add_eos;
    struct tokenizer_ends before; /* what else stands before a text, behind bos_id */
    struct tokenizer_ends behind; /* what else stands behind it, before eos_id */
};

/* What the pieces of a byte-level vocabulary say about it, as GGUF keys and vocab.json with
 * merges.txt do. Everything is copied. */
struct tokenizer_source {
    struct span model; /* "gpt2": byte-level BPE */
    struct span pre;   /* name of the pre-tokenizer (pretokenize_names.c) */
    struct tokenizer_tokens tokens;
    const struct span *merges; /* (n_merges) "left right", in order of rank */
    size_t n_merges;
};

struct gguf;

/* On success the caller owns *tokenizer. STATUS_UNSUPPORTED for another model or pre-tokenizer,
 * STATUS_CORRUPT for a source that contradicts itself, STATUS_LIMIT, STATUS_NOMEM. */
NODISCARD enum status tokenizer_open(const struct tokenizer_source *source,
                                     struct tokenizer **tokenizer, struct error *error);

/* From the tokenizer.ggml.* keys of a GGUF file (ggml-org/ggml docs/gguf.md), which may be closed
 * afterwards. */
NODISCARD enum status tokenizer_open_gguf(const struct gguf *gguf, struct tokenizer **tokenizer,
                                          struct error *error);

/* Of the pseudo-model `hash`: 65,536 ids; an id below 256 is that byte, any other is written
 * "<hhhh>" (four hex digits). A text's ids are its bytes. No special tokens. */
NODISCARD enum status tokenizer_open_hash(struct tokenizer **tokenizer, struct error *error);

struct tokenizer_extras;

/* A folder as it lies on a model hub. By the files that are there: tokenizer.json, else *.tiktoken,
 * else vocab.json and merges.txt, else tokenizer.model; tokenizer_config.json, added_tokens.json
 * and special_tokens_map.json add what they know (tokenizer_extras.h). STATUS_NOT_FOUND when none
 * of them is there; else as tokenizer_open(), with a line that names the file. */
NODISCARD enum status tokenizer_open_folder(const char *path, struct tokenizer **tokenizer,
                                            struct error *error);

/* A folder, or a .gguf, tokenizer.json, .tiktoken or tokenizer.model file by itself, or "hash". */
NODISCARD enum status tokenizer_open_path(const char *path, struct tokenizer **tokenizer,
                                          struct error *error);

/* A tokenizer.model: a SentencePiece protobuf (files/spm_file.h). The extras may add special tokens
 * behind the file's own. */
NODISCARD enum status tokenizer_open_sentencepiece(const char *path,
                                                   const struct tokenizer_extras *extras,
                                                   struct tokenizer **tokenizer,
                                                   struct error *error);

void tokenizer_close(struct tokenizer *tokenizer);

/* Leaves a tokenizer that is not shared yet the tokens that a model of n_rows > 0 rows has. Tokens
 * behind them are no longer found in texts and stand around none; those, and the ends that are taken
 * away, are named in `remarks`, a line each. STATUS_CORRUPT, and nothing is changed, where plain text
 * may become such a token; STATUS_NOMEM. Two tokenizers cut to different sizes differ in their
 * fingerprint. */
NODISCARD enum status tokenizer_limit(struct tokenizer *tokenizer, uint32_t n_rows,
                                      struct remarks *remarks, struct error *error);

/* NULL when memory is short. Works with every tokenizer. */
struct tokenizer_scratch *tokenizer_scratch_new(void);
void tokenizer_scratch_free(struct tokenizer_scratch *scratch);

enum tokenizer_flags {
    TOKENIZER_PLAIN = 0,
    TOKENIZER_ADD_BOS = 1,       /* with what the model wants before and behind a text */
    TOKENIZER_PARSE_SPECIAL = 2, /* special tokens' texts become those tokens; trusted text only */
    TOKENIZER_CONTINUES = 4,     /* the text goes on behind a special token: what is put before a
                                    text's first word alone is not put there */
};

/* Appends the ids of text to ids. STATUS_INVALID when the text is not valid UTF-8; STATUS_LIMIT when
 * it is longer than TOKENIZER_TEXT_MAX or has more ids than ids->limit still takes; STATUS_NOMEM.
 * On failure ids holds what it held before. */
NODISCARD enum status tokenizer_encode(const struct tokenizer *tokenizer,
                                       struct tokenizer_scratch *scratch, struct span text,
                                       unsigned flags, struct ids *ids, struct error *error);

/* Appends the tokens that stand before a text. STATUS_LIMIT, STATUS_NOMEM as ids_push(). */
NODISCARD enum status tokenizer_begin(const struct tokenizer *tokenizer, struct ids *ids);

/* Whether a text begins with the model's BOS, or ends with its EOS. */
static inline bool tokenizer_adds_bos(const struct tokenizer *tokenizer) {
    const struct tokenizer_ends *before = &tokenizer->before;
    return before->n > 0 && before->ids[0] == tokenizer->bos_id;
}

static inline bool tokenizer_adds_eos(const struct tokenizer *tokenizer) {
    const struct tokenizer_ends *behind = &tokenizer->behind;
    return behind->n > 0 && behind->ids[behind->n - 1] == tokenizer->eos_id;
}

static inline uint32_t tokenizer_n_tokens(const struct tokenizer *tokenizer) {
    return tokenizer->vocabulary.n_tokens;
}

/* The bytes a token stands for, which need not be valid UTF-8 on their own; id < n_tokens. */
static inline struct span tokenizer_bytes(const struct tokenizer *tokenizer, uint32_t id) {
    const struct token_texts *shown = &tokenizer->shown;
    if (!shown->bytes)
        return vocabulary_bytes(&tokenizer->vocabulary, id);
    return (struct span){shown->bytes + shown->offsets[id],
                         shown->offsets[id + 1] - shown->offsets[id]};
}

/* Whether a token is a marker that users do not see (control and unknown); id < n_tokens. */
static inline bool tokenizer_is_special(const struct tokenizer *tokenizer, uint32_t id) {
    uint8_t kind = tokenizer->vocabulary.kinds[id];
    return kind == TOKEN_CONTROL || kind == TOKEN_UNKNOWN;
}

/* The token of exactly this text, special ones first; TOKEN_NONE when there is none. */
uint32_t tokenizer_find(const struct tokenizer *tokenizer, struct span text);
