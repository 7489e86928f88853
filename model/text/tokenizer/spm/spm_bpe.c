/* SentencePiece's BPE (bpe_model.cc): merges by score. */
#include "base/heap.h"
#include "model/text/tokenizer/spm/spm_call.h"

#include <stdlib.h>
#include <string.h>

#define KEY_NONE UINT32_MAX

struct spm_symbol {
    uint32_t at; /* in the text */
    uint32_t n;
    uint32_t id;       /* TOKEN_NONE: not looked up, or no piece */
    uint32_t key;      /* of the join with the next symbol, KEY_NONE if that is not a piece */
    uint32_t join;     /* that piece */
    uint32_t next;     /* position, n_symbols at the end */
    uint32_t previous; /* likewise */
    bool is_frozen;    /* a user-defined piece: never merged */
};

/* How an unused piece was, or would have been, joined last. */
struct spm_split {
    uint32_t round;
    uint32_t n_left; /* bytes of its left part */
};

/* One segment at work. */
struct segment {
    const struct spm_call *call;
    struct spm_symbol *symbols;
    uint32_t n;
    struct span text;
};

/* Higher scores have lower keys; no score but NaN, which is refused, has KEY_NONE. */
static uint32_t spm_bpe_score_key(float score) {
    uint32_t bits;
    score += 0.0f; /* -0 and 0 are the same score */
    memcpy(&bits, &score, sizeof bits);
    return bits & 0x80000000u ? bits : ~(bits | 0x80000000u);
}

static enum status spm_bpe_reserve(const struct spm_call *call, size_t n) {
    struct spm_scratch *scratch = call->scratch;
    if (n > scratch->n_symbols) {
        size_t size = n < 1024 ? 1024 : n;
        free(scratch->symbols);
        free(scratch->heap);
        scratch->n_symbols = 0;
        scratch->symbols = calloc(size, sizeof *scratch->symbols);
        /* Each merge takes at least one entry out and puts at most two in, and there are fewer
         * merges than symbols. */
        scratch->heap = calloc(2 * size, sizeof *scratch->heap);
        if (!scratch->symbols || !scratch->heap)
            return STATUS_NOMEM;
        scratch->n_symbols = size;
    }
    if (call->spm->has_unused && scratch->n_splits < call->spm->n_pieces) {
        free(scratch->splits);
        scratch->n_splits = 0;
        scratch->splits = calloc(call->spm->n_pieces, sizeof *scratch->splits);
        if (!scratch->splits)
            return STATUS_NOMEM;
        scratch->n_splits = call->spm->n_pieces;
        scratch->round = 1;
    }
    return STATUS_OK;
}

static struct span spm_bpe_symbol_text(const struct segment *segment,
                                       const struct spm_symbol *symbol) {
    return (struct span){segment->text.bytes + symbol->at, symbol->n};
}

/* Looks up the join of the symbol at `at` with the next one. */
static void spm_bpe_look_up(struct segment *segment, uint32_t at) {
    const struct spm_call *call = segment->call;
    struct spm_symbol *left = &segment->symbols[at];
    left->key = KEY_NONE;
    if (left->next >= segment->n || left->is_frozen || segment->symbols[left->next].is_frozen)
        return;
    size_t n = (size_t)left->n + segment->symbols[left->next].n;
    if (n > call->vocabulary->n_bytes_max)
        return;
    struct span join = {segment->text.bytes + left->at, n};
    left->join = vocabulary_find(call->vocabulary, join);
    if (left->join >= call->spm->n_pieces) /* TOKEN_NONE, or a token added behind the pieces */
        return;
    left->key = spm_bpe_score_key(call->spm->scores[left->join]);
    if (call->spm->kinds[left->join] == TOKEN_UNUSED)
        call->scratch->splits[left->join] =
            (struct spm_split){.round = call->scratch->round, .n_left = left->n};
}

static uint32_t spm_bpe_load_symbols(struct segment *segment) {
    const struct spm *spm = segment->call->spm;
    struct span text = segment->text;
    uint32_t n = 0;
    for (size_t at = 0; at < text.n; n++) {
        size_t length = 0;
        uint32_t id = trie_match(&spm->own, text.bytes + at, text.n - at, NULL, NULL, &length);
        if (id == TOKEN_NONE)
            length = spm_char_length(text.bytes + at, text.n - at);
        segment->symbols[n] = (struct spm_symbol){.at = (uint32_t)at,
                                                  .n = (uint32_t)length,
                                                  .id = id,
                                                  .key = KEY_NONE,
                                                  .next = n + 1,
                                                  .previous = n - 1,
                                                  .is_frozen = id != TOKEN_NONE};
        at += length;
    }
    segment->symbols[0].previous = n; /* none */
    return n;
}

static void spm_bpe_push(struct segment *segment, size_t *n_heap, uint32_t at) {
    spm_bpe_look_up(segment, at);
    uint32_t key = segment->symbols[at].key;
    if (key != KEY_NONE)
        heap_push(segment->call->scratch->heap, n_heap, (uint64_t)key << 32 | at);
}

static void spm_bpe_merge(struct segment *segment) {
    uint64_t *heap = segment->call->scratch->heap;
    struct spm_symbol *symbols = segment->symbols;
    size_t n_heap = 0;
    for (uint32_t at = 0; at < segment->n; at++)
        spm_bpe_push(segment, &n_heap, at);
    while (n_heap > 0) {
        uint64_t entry = heap_pop(heap, &n_heap);
        uint32_t at = (uint32_t)entry;
        struct spm_symbol *left = &symbols[at];
        if (left->key != entry >> 32)
            continue; /* this pair changed since it was pushed */
        struct spm_symbol *right = &symbols[left->next];
        left->n += right->n;
        left->id = left->join;
        left->next = right->next;
        right->key = KEY_NONE;
        if (left->next < segment->n)
            symbols[left->next].previous = at;
        if (left->previous < segment->n)
            spm_bpe_push(segment, &n_heap, left->previous);
        spm_bpe_push(segment, &n_heap, at);
    }
}

/* Puts out a piece; an unused one as the parts it was joined from, which are shorter each time. */
static enum status spm_bpe_put_whole(const struct spm_call *call, struct span piece, uint32_t id) {
    const struct spm_split *split;
    if (id == TOKEN_NONE)
        id = vocabulary_find(call->vocabulary, piece);
    if (id >= call->spm->n_pieces)
        id = TOKEN_NONE;
    if (id == TOKEN_NONE || call->spm->kinds[id] != TOKEN_UNUSED)
        return spm_put(call, piece, id);
    split = &call->scratch->splits[id];
    if (split->round != call->scratch->round || split->n_left >= piece.n)
        return spm_put(call, piece, id);
    struct span left = {piece.bytes, split->n_left};
    struct span right = {piece.bytes + split->n_left, piece.n - split->n_left};
    TRY(spm_bpe_put_whole(call, left, TOKEN_NONE));
    return spm_bpe_put_whole(call, right, TOKEN_NONE);
}

static enum status spm_bpe_encode_segment(const struct spm_call *call, struct span text) {
    TRY(spm_bpe_reserve(call, text.n));
    struct segment segment = {.call = call, .symbols = call->scratch->symbols, .text = text};
    call->scratch->round++;
    segment.n = spm_bpe_load_symbols(&segment);
    spm_bpe_merge(&segment);
    for (uint32_t at = 0; at < segment.n; at = segment.symbols[at].next)
        TRY(spm_bpe_put_whole(call, spm_bpe_symbol_text(&segment, &segment.symbols[at]),
                              segment.symbols[at].id));
    return STATUS_OK;
}

static bool spm_bpe_is_blank_at(struct span text, size_t at) {
    return text.n - at >= SPM_BLANK_N && memcmp(text.bytes + at, SPM_BLANK, SPM_BLANK_N) == 0;
}

/* Where the word at the text's front ends: before the first blank that is not at its beginning. */
static size_t spm_bpe_word_length(struct span text) {
    size_t at = 0;
    while (at < text.n && spm_bpe_is_blank_at(text, at))
        at += SPM_BLANK_N;
    for (; at < text.n; at++) {
        const char *blank = memchr(text.bytes + at, SPM_BLANK[0], text.n - at);
        if (!blank)
            return text.n;
        at = (size_t)(blank - text.bytes);
        if (spm_bpe_is_blank_at(text, at))
            return at;
    }
    return text.n;
}

enum status spm_encode_bpe(const struct spm_call *call, struct span text) {
    if (!call->spm->splits_at_blanks)
        return text.n == 0 ? STATUS_OK : spm_bpe_encode_segment(call, text);
    while (text.n > 0) {
        struct span word = {text.bytes, spm_bpe_word_length(text)};
        TRY(spm_bpe_encode_segment(call, word));
        text.bytes += word.n;
        text.n -= word.n;
    }
    return STATUS_OK;
}
