/* model/text/tokenizer/spm/spm.h: SentencePiece models (google/sentencepiece; Kudo and Richardson
 * 2018): text is normalized, blanks become U+2581, and then BPE: again and again the adjacent pair
 * whose join is the piece of highest score, leftmost on ties, becomes one piece; O(n log n);
 * unigram: the pieces of the greatest sum of scores (Viterbi); O(n * longest piece). What is not a
 * piece becomes byte pieces <0xHH> where the model has them, else the unknown piece. The ids are
 * those of SentencePiece 0.2.1, but text never becomes a control piece.
 *
 * The pieces' texts lie in a struct vocabulary, as the file spells them, in which all normal,
 * user-defined and unused pieces are TOKEN_NORMAL: spm_source_kinds(). A struct spm is read-only
 * after init: any thread, each with a scratch of its own. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"
#include "base/status.h"
#include "model/text/tokenizer/spm/spm_charsmap.h"
#include "model/text/tokenizer/vocabulary/ids.h"
#include "model/text/tokenizer/vocabulary/trie.h"
#include "model/text/tokenizer/vocabulary/vocabulary.h"

#include <stdbool.h>
#include <stdint.h>

#define SPM_BLANK           "\xe2\x96\x81" /* U+2581 */
#define SPM_BLANK_N         3u
#define SPM_SURFACE_MAX     64u              /* bytes that an unknown piece is shown as */
#define SPM_SURFACE_DEFAULT " \xe2\x81\x87 " /* U+2047 between blanks */

enum spm_algorithm { SPM_UNIGRAM = 1, SPM_BPE = 2 }; /* numbers of TrainerSpec.model_type */

/* What a file says. Everything is copied. */
struct spm_source {
    enum spm_algorithm algorithm;
    const struct span *pieces; /* (n_pieces) as spelled in the file: blanks are U+2581 */
    const float *scores;       /* (n_pieces) */
    const uint8_t *kinds;      /* (n_pieces) enum token_kind */
    uint32_t n_pieces;
    uint32_t unk_id;    /* TOKEN_NONE: the first piece of that kind */
    bool is_cut;        /* user-defined pieces are cut out of the text before it comes here */
    bool byte_fallback; /* all of <0x00>..<0xFF> are there */
    bool prefix;        /* a text begins with a blank that is not in it */
    bool prefix_always; /* so does what follows a special token */
    bool suffix;        /* that blank is at the end instead */
    bool squeezes;      /* runs of blanks become one; those at the ends go */
    bool escapes;       /* blanks become U+2581 */
    struct span charsmap;
    struct span unk_surface;
};

struct spm {
    enum spm_algorithm algorithm;
    float *scores;   /* owned (n_pieces) */
    uint8_t *kinds;  /* owned (n_pieces): enum token_kind, as the file has them */
    struct trie own; /* what is matched before anything else: user-defined pieces */
    struct trie all; /* unigram: every piece that text may become */
    struct spm_charsmap charsmap;
    uint32_t n_pieces;
    uint32_t unk_id; /* TOKEN_NONE: what is not a piece is dropped */
    uint32_t byte_ids[256];
    float unk_score;    /* unigram: of a character that is not a piece */
    float own_score;    /* unigram: a byte of a user-defined piece, see spm_unigram.c */
    bool byte_fallback; /* and so on: see struct spm_source */
    bool prefix;
    bool prefix_always;
    bool suffix;
    bool squeezes;
    bool escapes;
    bool has_unused;
    bool splits_at_blanks; /* no piece has a blank inside it: words are independent */
    char unk_surface[SPM_SURFACE_MAX];
    uint8_t n_unk_surface;
};

struct spm_symbol;
struct spm_split;
struct spm_node;

/* Buffers of one thread; they grow with the longest text and shrink again (spm_scratch_trim). */
struct spm_scratch {
    struct buf text;            /* owned: the normalized text */
    struct spm_symbol *symbols; /* owned (n_symbols) */
    uint64_t *heap;             /* owned (2 * n_symbols): score key << 32 | position */
    size_t n_symbols;
    struct spm_split *splits; /* owned (n_splits): by id, how an unused piece came to be */
    uint32_t n_splits;
    uint32_t round;         /* which splits are of this text */
    struct spm_node *nodes; /* owned (n_nodes): unigram, by position in the text */
    size_t n_nodes;
    bool after_unknown; /* the last id that was put out stands for unknown text */
};

/* The kinds that a vocabulary of these pieces must have; into (n_pieces). */
void spm_source_kinds(const struct spm_source *source, uint8_t *into);

/* `vocabulary` holds the source's pieces and perhaps more behind them. STATUS_CORRUPT for a source
 * that contradicts itself, STATUS_LIMIT, STATUS_NOMEM. */
NODISCARD enum status spm_init(struct spm *spm, const struct spm_source *source,
                               const struct vocabulary *vocabulary, struct error *error);
void spm_fini(struct spm *spm);

/* Appends the ids of text. `at_start`: nothing stands before it. STATUS_NOMEM, STATUS_LIMIT (from
 * ids, or when the normalized text outgrows SPM_TEXT_MAX). */
NODISCARD enum status spm_encode(const struct spm *spm, const struct vocabulary *vocabulary,
                                 struct spm_scratch *scratch, struct span text, bool at_start,
                                 struct ids *ids);

void spm_scratch_trim(struct spm_scratch *scratch); /* frees buffers that one long text blew up */
void spm_scratch_fini(struct spm_scratch *scratch);
