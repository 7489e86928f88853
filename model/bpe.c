#include "model/bpe.h"

#include "base/assert.h"
#include "base/random.h"
#include "model/alphabet.h"
#include "model/heap.h"

#include <stdlib.h>

#define RANK_NONE UINT32_MAX

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

static uint32_t slot_of(const struct bpe *bpe, uint32_t left, uint32_t right) {
    uint64_t hash = mix64(((uint64_t)left << 32 | right) ^ bpe->seed);
    return (uint32_t)hash & (bpe->n_slots - 1);
}

/* The pair's entry, or the empty slot where it would stand. */
static struct bpe_pair *find_pair(const struct bpe *bpe, uint32_t left, uint32_t right) {
    uint32_t at = slot_of(bpe, left, right);
    while (bpe->pairs[at].left != TOKEN_NONE &&
           (bpe->pairs[at].left != left || bpe->pairs[at].right != right))
        at = (at + 1) & (bpe->n_slots - 1);
    return &bpe->pairs[at];
}

static uint32_t pair_rank(const struct bpe *bpe, uint32_t left, uint32_t right) {
    const struct bpe_pair *pair = find_pair(bpe, left, right);
    return pair->left == TOKEN_NONE ? RANK_NONE : pair->rank;
}

/* Splits "left right" and looks up both sides and their join. */
static enum status parse_merge(const struct vocabulary *vocabulary, struct span merge,
                               struct bpe_pair *pair) {
    char bytes[2 * VOCABULARY_BYTES_MAX];
    size_t n_left;
    size_t n_right;
    const char *blank = merge.n > 0 ? memchr(merge.bytes, ' ', merge.n) : NULL;
    if (!blank || merge.n > sizeof bytes)
        return STATUS_CORRUPT;
    size_t cut = (size_t)(blank - merge.bytes);
    if (!alphabet_decode(merge.bytes, cut, bytes, &n_left) ||
        !alphabet_decode(blank + 1, merge.n - cut - 1, bytes + n_left, &n_right))
        return STATUS_CORRUPT;
    pair->left = vocabulary_find(vocabulary, (struct span){bytes, n_left});
    pair->right = vocabulary_find(vocabulary, (struct span){bytes + n_left, n_right});
    pair->merged = vocabulary_find(vocabulary, (struct span){bytes, n_left + n_right});
    bool known =
        pair->left != TOKEN_NONE && pair->right != TOKEN_NONE && pair->merged != TOKEN_NONE;
    return known ? STATUS_OK : STATUS_CORRUPT;
}

enum status bpe_init(struct bpe *bpe, const struct vocabulary *vocabulary,
                     const struct span *merges, size_t n, struct error *error) {
    *bpe = (struct bpe){.n_slots = 16, .seed = random_seed()};
    if (n > BPE_MERGES_MAX)
        return error_set(error, STATUS_LIMIT, "%zu merges, at most %u are read", n, BPE_MERGES_MAX);
    while (bpe->n_slots < 2 * n)
        bpe->n_slots *= 2;
    bpe->pairs = malloc((size_t)bpe->n_slots * sizeof *bpe->pairs);
    if (!bpe->pairs)
        return error_set(error, STATUS_NOMEM, "no memory for %zu merges", n);
    memset(bpe->pairs, 0xff, (size_t)bpe->n_slots * sizeof *bpe->pairs); /* left = TOKEN_NONE */
    for (size_t rank = 0; rank < n; rank++) {
        struct bpe_pair pair = {.rank = (uint32_t)rank};
        if (parse_merge(vocabulary, merges[rank], &pair) != STATUS_OK) {
            bpe_fini(bpe);
            return error_set(error, STATUS_CORRUPT,
                             "merge %zu (\"%.*s\") names what is not in the vocabulary", rank,
                             span_shown(merges[rank]), merges[rank].bytes);
        }
        struct bpe_pair *slot = find_pair(bpe, pair.left, pair.right);
        if (slot->left == TOKEN_NONE) /* of a pair that is there twice the lower rank counts */
            *slot = pair;
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        char text = (char)byte;
        bpe->byte_ids[byte] = vocabulary_find(vocabulary, (struct span){&text, 1});
    }
    return STATUS_OK;
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

static enum status reserve(struct bpe_scratch *scratch, size_t n) {
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
static void merge_at(const struct bpe *bpe, struct bpe_symbol *symbols, uint32_t n, uint32_t at) {
    struct bpe_symbol *left = &symbols[at];
    struct bpe_symbol *right = &symbols[left->next];
    left->id = find_pair(bpe, left->id, right->id)->merged;
    left->next = right->next;
    right->rank = RANK_NONE;
    left->rank = RANK_NONE;
    if (left->next < n) {
        symbols[left->next].previous = at;
        left->rank = pair_rank(bpe, left->id, symbols[left->next].id);
    }
    if (left->previous < n)
        symbols[left->previous].rank = pair_rank(bpe, symbols[left->previous].id, left->id);
}

static void merge_by_scan(const struct bpe *bpe, struct bpe_symbol *symbols, uint32_t n) {
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
        merge_at(bpe, symbols, n, best);
    }
}

static void push_symbol(struct bpe_scratch *scratch, size_t *n_heap, uint32_t at) {
    uint32_t rank = scratch->symbols[at].rank;
    if (rank != RANK_NONE)
        heap_push(scratch->heap, n_heap, (uint64_t)rank << 32 | at);
}

static void merge_by_heap(const struct bpe *bpe, struct bpe_scratch *scratch, uint32_t n) {
    struct bpe_symbol *symbols = scratch->symbols;
    size_t n_heap = 0;
    for (uint32_t at = 0; at < n; at++)
        push_symbol(scratch, &n_heap, at);
    while (n_heap > 0) {
        uint64_t entry = heap_pop(scratch->heap, &n_heap);
        uint32_t at = (uint32_t)entry;
        if (symbols[at].rank != entry >> 32)
            continue; /* this pair changed since it was pushed */
        merge_at(bpe, symbols, n, at);
        push_symbol(scratch, &n_heap, at);
        if (symbols[at].previous < n)
            push_symbol(scratch, &n_heap, symbols[at].previous);
    }
}

/* A byte without a token is dropped before the merges, so that its neighbours may merge, as in the
 * tokenizers library that the models were trained with. (llama.cpp drops it after them.) */
static uint32_t load_piece(const struct bpe *bpe, struct bpe_symbol *symbols, struct span piece) {
    uint32_t n = 0;
    for (size_t i = 0; i < piece.n; i++) {
        uint32_t id = bpe->byte_ids[(uint8_t)piece.bytes[i]];
        if (id == TOKEN_NONE)
            continue;
        symbols[n] =
            (struct bpe_symbol){.id = id, .rank = RANK_NONE, .next = n + 1, .previous = n - 1};
        if (n > 0)
            symbols[n - 1].rank = pair_rank(bpe, symbols[n - 1].id, id);
        n++;
    }
    if (n > 0)
        symbols[0].previous = n; /* none */
    return n;
}

enum status bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, struct span piece,
                       struct ids *ids) {
    ASSERT(piece.n < UINT32_MAX);
    if (piece.n == 1) {
        uint32_t id = bpe->byte_ids[(uint8_t)piece.bytes[0]];
        return id == TOKEN_NONE ? STATUS_OK : ids_push(ids, id);
    }
    TRY(reserve(scratch, piece.n));
    struct bpe_symbol *symbols = scratch->symbols;
    uint32_t n = load_piece(bpe, symbols, piece);
    if (n <= SCAN_MAX)
        merge_by_scan(bpe, symbols, n);
    else
        merge_by_heap(bpe, scratch, n);
    for (uint32_t at = 0; at < n; at = symbols[at].next)
        TRY(ids_push(ids, symbols[at].id));
    return STATUS_OK;
}
