/* model/bpe.h: byte-pair merges of one piece: again and again the adjacent pair of lowest rank,
 * leftmost first, becomes one token, until no pair is in the table (Sennrich et al. 2016, with
 * GPT-2's bytes as the first symbols). O(n log n) in the piece's length.
 *
 * A struct bpe is read-only after opening: any thread, each with a scratch of its own. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "model/ids.h"
#include "model/span.h"
#include "model/vocabulary.h"

#include <stdint.h>

#define BPE_MERGES_MAX 2097152u

struct bpe_pair {
    uint32_t left; /* TOKEN_NONE: an empty slot */
    uint32_t right;
    uint32_t rank;   /* lower merges first */
    uint32_t merged; /* the token it becomes */
};

struct bpe {
    struct bpe_pair *pairs; /* owned (n_slots), open addressing */
    uint32_t n_slots;       /* power of two */
    uint64_t seed;
    uint32_t byte_ids[256]; /* token of each single byte, or TOKEN_NONE: such a byte is dropped */
};

struct bpe_symbol;

/* Buffers of one thread; they grow with the longest piece and shrink again (bpe_scratch_trim). */
struct bpe_scratch {
    struct bpe_symbol *symbols; /* owned (n_symbols) */
    uint64_t *heap;             /* owned (2 * n_symbols): rank << 32 | position */
    size_t n_symbols;
};

/* `merges` (n) are "left right" in GPT-2's alphabet, in order of rank. Both sides and their join
 * must be normal tokens of the vocabulary: STATUS_CORRUPT names the first that is not. */
NODISCARD enum status bpe_init(struct bpe *bpe, const struct vocabulary *vocabulary,
                               const struct span *merges, size_t n, struct error *error);
void bpe_fini(struct bpe *bpe);

/* Appends the ids of a piece. STATUS_NOMEM, STATUS_LIMIT from ids. */
NODISCARD enum status bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch,
                                 struct span piece, struct ids *ids);

void bpe_scratch_trim(struct bpe_scratch *scratch); /* frees buffers that one long piece blew up */
void bpe_scratch_fini(struct bpe_scratch *scratch);
