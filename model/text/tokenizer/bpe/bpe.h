/* model/text/tokenizer/bpe/bpe.h: byte-pair merges of one piece: again and again the adjacent pair
 * of lowest rank, leftmost first, becomes one token, until no pair is in the table (Sennrich et al.
 * 2016). The first symbols are bytes (GPT-2) or characters (Llama 2). O(n log n) in the piece's
 * length.
 *
 * A struct bpe is read-only after opening: any thread, each with a scratch of its own. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"
#include "model/text/tokenizer/vocabulary/ids.h"
#include "model/text/tokenizer/vocabulary/vocabulary.h"

#include <stdbool.h>
#include <stdint.h>

#define BPE_MERGES_MAX 2097152u

struct bpe_pair {
    uint32_t left; /* TOKEN_NONE: an empty slot */
    uint32_t right;
    uint32_t rank;   /* lower merges first */
    uint32_t merged; /* the token it becomes */
};

/* Left and right side, as the vocabulary has their bytes. */
struct bpe_merge {
    struct span left;
    struct span right;
};

struct bpe_options {
    bool over_chars;     /* first symbols are characters, not bytes */
    bool byte_fallback;  /* over_chars: a character that is not a token becomes its bytes' <0xHH> */
    bool fuse_unknown;   /* neighbouring unknown symbols become one unknown token */
    bool ignores_merges; /* a piece that is a token is that token, whatever the merges say */
    bool by_rank;        /* no merges: any pair whose join is a token merges, lower ids first */
    uint32_t unknown_id; /* what else an unknown symbol becomes; TOKEN_NONE: it is dropped */
};

struct bpe {
    struct bpe_options options;
    const struct vocabulary *vocabulary; /* borrowed */
    struct bpe_pair *pairs;              /* owned (n_slots), open addressing */
    uint32_t n_slots;                    /* power of two */
    uint64_t seed;
    uint32_t byte_ids[256]; /* token of each single byte (with byte_fallback: its <0xHH>), or
                               TOKEN_NONE */
};

struct bpe_symbol;

/* Buffers of one thread; they grow with the longest piece and shrink again (bpe_scratch_trim). */
struct bpe_scratch {
    struct bpe_symbol *symbols; /* owned (n_symbols) */
    uint64_t *heap;             /* owned (2 * n_symbols): rank << 32 | position */
    size_t n_symbols;
};

/* `merges` (n), in order of rank. Both sides and their join must be tokens of the vocabulary, which
 * must stay where it is: STATUS_CORRUPT names the first that is not. A merge into a control token
 * is left out: text never becomes one. */
NODISCARD enum status bpe_init(struct bpe *bpe, const struct vocabulary *vocabulary,
                               const struct bpe_options *options, const struct bpe_merge *merges,
                               size_t n, struct error *error);
void bpe_fini(struct bpe *bpe);

/* The lowest id from `begin` on that a piece may become, user-defined tokens not counted: merges into
 * those go with bpe_limit(). TOKEN_NONE: none. */
uint32_t bpe_reach(const struct bpe *bpe, uint32_t begin);

/* Takes away the merges into ids from `n` on. */
void bpe_limit(struct bpe *bpe, uint32_t n);

/* Appends the ids of a piece. STATUS_NOMEM, STATUS_LIMIT from ids. */
NODISCARD enum status bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch,
                                 struct span piece, struct ids *ids);

void bpe_scratch_trim(struct bpe_scratch *scratch); /* frees buffers that one long piece blew up */
void bpe_scratch_fini(struct bpe_scratch *scratch);
