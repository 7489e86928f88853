#include "model/text/tokenizer/bpe/bpe.h"

#include "base/assert.h"
#include "base/heap.h"
#include "base/utf8.h"
#include "model/text/tokenizer/bpe/bpe_pairs.h"

#include <stdlib.h>

/* Pieces of up to this many symbols are scanned for the best pair anew after each merge: most words
 * are shorter, and a scan of a few numbers is faster than a heap. */
#define SCAN_MAX 32u

/* Buffers of more symbols than this (4 MiB) are freed after the text that needed them. */
#define KEEP_MAX ((size_t)1 << 17)

struct bpe_symbol {
    uint32_t id;
    uint32_t rank; /* of the pair with the next symbol, RANK_NONE if it does not merge */
    uint32_t next; /* position, n at the end */
    uint32_t previous;
};

static uint32_t bpe_pair_rank(const struct bpe *bpe, uint32_t left, uint32_t right) {
    const struct bpe_pair *pair = bpe_find_pair(bpe, left, right);
    return pair->left == TOKEN_NONE ? RANK_NONE : pair->rank;
}

void bpe_fini(struct bpe *bpe) {
    if (!bpe)
        return;
    free(bpe->pairs);
    *bpe = (struct bpe){0};
}

void bpe_scratch_fini(struct bpe_scratch *scratch) {
    if (!scratch)
        return;
    free(scratch->symbols);
    free(scratch->heap);
    *scratch = (struct bpe_scratch){0};
}

void bpe_scratch_trim(struct bpe_scratch *scratch) {
    if (scratch->n_symbols > KEEP_MAX)
        bpe_scratch_fini(scratch);
}

static enum status bpe_reserve(struct bpe_scratch *scratch, size_t n) {
    if (n <= scratch->n_symbols)
        return STATUS_OK;
    bpe_scratch_fini(scratch);
    size_t size = n < 4096 ? 4096 : n;
    scratch->symbols = calloc(size, sizeof *scratch->symbols);
    /* Each merge takes at least one entry out and puts at most two in, and there are fewer merges
     * than symbols. */
    scratch->heap = calloc(2 * size, sizeof *scratch->heap);
    if (!scratch->symbols || !scratch->heap) {
        bpe_scratch_fini(scratch);
        return STATUS_NOMEM;
    }
    scratch->n_symbols = size;
    return STATUS_OK;
}

/* Merges the symbol at `at` with its next one. A symbol that is merged away gets RANK_NONE, so that
 * heap entries for it no longer fit. */
static void bpe_merge_at(const struct bpe *bpe, struct bpe_symbol *symbols, uint32_t n,
                         uint32_t at) {
    struct bpe_symbol *left = &symbols[at];
    struct bpe_symbol *right = &symbols[left->next];
    left->id = bpe_find_pair(bpe, left->id, right->id)->merged;
    left->next = right->next;
    right->rank = RANK_NONE;
    left->rank = RANK_NONE;
    if (left->next < n) {
        symbols[left->next].previous = at;
        left->rank = bpe_pair_rank(bpe, left->id, symbols[left->next].id);
    }
    if (left->previous < n)
        symbols[left->previous].rank = bpe_pair_rank(bpe, symbols[left->previous].id, left->id);
}

static void bpe_merge_by_scan(const struct bpe *bpe, struct bpe_symbol *symbols, uint32_t n) {
    for (;;) {
        uint32_t best = n;
        uint32_t rank = RANK_NONE;
        for (uint32_t at = 0; at < n; at = symbols[at].next) {
            if (symbols[at].rank < rank) {
                rank = symbols[at].rank;
                best = at;
            }
        }
        if (best == n)
            return;
        bpe_merge_at(bpe, symbols, n, best);
    }
}

static void bpe_push_symbol(struct bpe_scratch *scratch, size_t *n_heap, uint32_t at) {
    uint32_t rank = scratch->symbols[at].rank;
    if (rank != RANK_NONE)
        heap_push(scratch->heap, n_heap, (uint64_t)rank << 32 | at);
}

static void bpe_merge_by_heap(const struct bpe *bpe, struct bpe_scratch *scratch, uint32_t n) {
    struct bpe_symbol *symbols = scratch->symbols;
    size_t n_heap = 0;
    for (uint32_t at = 0; at < n; at++)
        bpe_push_symbol(scratch, &n_heap, at);
    while (n_heap > 0) {
        uint64_t entry = heap_pop(scratch->heap, &n_heap);
        uint32_t at = (uint32_t)entry;
        if (symbols[at].rank != entry >> 32)
            continue; /* this pair changed since it was pushed */
        bpe_merge_at(bpe, symbols, n, at);
        bpe_push_symbol(scratch, &n_heap, at);
        if (symbols[at].previous < n)
            bpe_push_symbol(scratch, &n_heap, symbols[at].previous);
    }
}

/* The symbols of one piece as they are put in. */
struct bpe_loading {
    const struct bpe *bpe;
    struct bpe_symbol *symbols;
    uint32_t n;
    bool has_unknown; /* one is to be put in before the next known symbol */
};

static void bpe_put(struct bpe_loading *loading, uint32_t id) {
    struct bpe_symbol *symbols = loading->symbols;
    uint32_t n = loading->n++;
    symbols[n] = (struct bpe_symbol){.id = id, .rank = RANK_NONE, .next = n + 1, .previous = n - 1};
    if (n > 0)
        symbols[n - 1].rank = bpe_pair_rank(loading->bpe, symbols[n - 1].id, id);
}

static void bpe_put_known(struct bpe_loading *loading, uint32_t id) {
    if (loading->has_unknown)
        bpe_put(loading, loading->bpe->options.unknown_id);
    loading->has_unknown = false;
    bpe_put(loading, id);
}

/* Where there is no unknown token, the symbol is dropped before the merges, so that its neighbours
 * may merge, as in the tokenizers library that the models were trained with. (llama.cpp drops it
 * after them.) */
static void bpe_put_unknown(struct bpe_loading *loading) {
    const struct bpe_options *options = &loading->bpe->options;
    if (options->unknown_id == TOKEN_NONE)
        return;
    if (loading->has_unknown && !options->fuse_unknown)
        bpe_put(loading, options->unknown_id);
    loading->has_unknown = true;
}

static void bpe_put_bytes(struct bpe_loading *loading, struct span bytes) {
    for (size_t i = 0; i < bytes.n; i++) {
        uint32_t id = loading->bpe->byte_ids[(uint8_t)bytes.bytes[i]];
        if (id != TOKEN_NONE)
            bpe_put_known(loading, id);
        else
            bpe_put_unknown(loading);
    }
}

/* Byte tokens do not end a run of unknown ones: so it is in the tokenizers library. */
static bool bpe_put_fallback(struct bpe_loading *loading, struct span character) {
    const uint32_t *byte_ids = loading->bpe->byte_ids;
    for (size_t i = 0; i < character.n; i++)
        if (byte_ids[(uint8_t)character.bytes[i]] == TOKEN_NONE)
            return false;
    for (size_t i = 0; i < character.n; i++)
        bpe_put(loading, byte_ids[(uint8_t)character.bytes[i]]);
    return true;
}

static void bpe_put_characters(struct bpe_loading *loading, struct span text) {
    const struct bpe *bpe = loading->bpe;
    for (size_t at = 0; at < text.n;) {
        uint32_t point;
        struct span character = {text.bytes + at,
                                 utf8_decode(text.bytes + at, text.n - at, &point)};
        uint32_t id = vocabulary_find(bpe->vocabulary, character);
        DASSERT(character.n > 0);
        if (id != TOKEN_NONE)
            bpe_put_known(loading, id);
        else if (!bpe->options.byte_fallback || !bpe_put_fallback(loading, character))
            bpe_put_unknown(loading);
        at += character.n;
    }
}

static uint32_t bpe_load_piece(const struct bpe *bpe, struct bpe_symbol *symbols,
                               struct span piece) {
    struct bpe_loading loading = {.bpe = bpe, .symbols = symbols};
    if (bpe->options.over_chars)
        bpe_put_characters(&loading, piece);
    else
        bpe_put_bytes(&loading, piece);
    if (loading.has_unknown)
        bpe_put(&loading, bpe->options.unknown_id);
    if (loading.n > 0)
        symbols[0].previous = loading.n; /* none */
    return loading.n;
}

enum status bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, struct span piece,
                       struct ids *ids) {
    ASSERT(piece.n < UINT32_MAX);
    if (bpe->options.ignores_merges) {
        uint32_t id = vocabulary_find(bpe->vocabulary, piece);
        if (id != TOKEN_NONE)
            return ids_push(ids, id);
    }
    TRY(bpe_reserve(scratch, piece.n));
    struct bpe_symbol *symbols = scratch->symbols;
    uint32_t n = bpe_load_piece(bpe, symbols, piece);
    if (n <= SCAN_MAX)
        bpe_merge_by_scan(bpe, symbols, n);
    else
        bpe_merge_by_heap(bpe, scratch, n);
    for (uint32_t at = 0; at < n; at = symbols[at].next)
        TRY(ids_push(ids, symbols[at].id));
    return STATUS_OK;
}
