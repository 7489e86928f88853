#include "model/text/tokenizer/spm/spm.h"

#include "base/assert.h"
#include "base/utf8.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* What a character that is not a piece costs beside the worst score (unigram_model.cc). */
#define UNKNOWN_PENALTY 10.0f

static bool spm_is_text_kind(uint8_t kind) {
    return kind == TOKEN_NORMAL || kind == TOKEN_USER_DEFINED || kind == TOKEN_UNUSED;
}

void spm_source_kinds(const struct spm_source *source, uint8_t *into) {
    for (uint32_t id = 0; id < source->n_pieces; id++) {
        uint8_t kind = source->kinds[id];
        /* One with a blank in it is never cut out: texts have blanks in another spelling. */
        bool is_cut =
            kind == TOKEN_USER_DEFINED && source->is_cut &&
            !memmem(source->pieces[id].bytes, source->pieces[id].n, SPM_BLANK, SPM_BLANK_N);
        into[id] = spm_is_text_kind(kind) && !is_cut ? TOKEN_NORMAL : kind;
    }
}

/* Whether a blank stands behind another character. */
static bool spm_has_blank_inside(struct span piece) {
    while (span_begins(piece, SPM_BLANK)) {
        piece.bytes += SPM_BLANK_N;
        piece.n -= SPM_BLANK_N;
    }
    return memmem(piece.bytes, piece.n, SPM_BLANK, SPM_BLANK_N) != NULL;
}

static enum status spm_read_byte(struct spm *spm, struct span piece, uint32_t id,
                                 struct error *error) {
    int byte = vocabulary_byte_token(piece);
    if (byte < 0)
        return error_set(error, STATUS_CORRUPT, "piece %u is of type BYTE, but spelled \"%.*s\"",
                         id, span_shown(piece), piece.bytes);
    if (spm->byte_ids[byte] == TOKEN_NONE)
        spm->byte_ids[byte] = id;
    return STATUS_OK;
}

static enum status spm_read_piece(struct spm *spm, const struct spm_source *source, uint32_t id,
                                  struct error *error) {
    struct span piece = source->pieces[id];
    uint8_t kind = source->kinds[id];
    spm->kinds[id] = kind;
    spm->scores[id] = source->scores[id];
    if (piece.n == 0)
        return error_set(error, STATUS_CORRUPT, "piece %u is empty", id);
    if (!utf8_valid(piece.bytes, piece.n))
        return error_set(error, STATUS_CORRUPT, "piece %u is not valid UTF-8", id);
    if (!isfinite(spm->scores[id]))
        return error_set(error, STATUS_CORRUPT, "the score of piece %u is not a finite number", id);
    if (kind == TOKEN_BYTE)
        return spm_read_byte(spm, piece, id, error);
    if (kind == TOKEN_UNKNOWN && spm->unk_id == TOKEN_NONE)
        spm->unk_id = id;
    if (!spm_is_text_kind(kind))
        return STATUS_OK;
    spm->has_unused = spm->has_unused || kind == TOKEN_UNUSED;
    spm->splits_at_blanks = spm->splits_at_blanks && !spm_has_blank_inside(piece);
    return STATUS_OK;
}

static enum status spm_read_pieces(struct spm *spm, const struct spm_source *source,
                                   struct error *error) {
    float least = FLT_MAX;
    float most = FLT_MIN; /* the least positive number, as in unigram_model.cc */
    spm->unk_id = source->unk_id;
    spm->splits_at_blanks = source->escapes;
    memset(spm->byte_ids, 0xff, sizeof spm->byte_ids); /* TOKEN_NONE */
    for (uint32_t id = 0; id < source->n_pieces; id++) {
        TRY(spm_read_piece(spm, source, id, error));
        if (source->kinds[id] != TOKEN_NORMAL)
            continue;
        least = fminf(least, source->scores[id]);
        most = fmaxf(most, source->scores[id]);
    }
    spm->splits_at_blanks = spm->splits_at_blanks && !spm->has_unused;
    spm->unk_score = least - UNKNOWN_PENALTY;
    spm->own_score = most;
    for (int byte = 0; byte < 256 && source->byte_fallback; byte++)
        if (spm->byte_ids[byte] == TOKEN_NONE)
            return error_set(error, STATUS_CORRUPT,
                             "byte_fallback is set, but piece <0x%02X> is missing", (unsigned)byte);
    return STATUS_OK;
}

/* Pieces of two kinds at most. */
static enum status spm_build_trie(struct trie *trie, const struct spm_source *source, uint8_t kind,
                                  uint8_t other, struct error *error) {
    size_t n_bytes = 0;
    for (uint32_t id = 0; id < source->n_pieces; id++)
        if (source->kinds[id] == kind || source->kinds[id] == other)
            n_bytes += source->pieces[id].n; /* at most 2^20 pieces of 2^10 bytes */
    TRY(trie_init(trie, n_bytes, error));
    for (uint32_t id = 0; id < source->n_pieces; id++)
        if ((source->kinds[id] == kind || source->kinds[id] == other) && source->pieces[id].n > 0)
            trie_add(trie, source->pieces[id], id);
    return STATUS_OK;
}

static enum status spm_fill(struct spm *spm, const struct spm_source *source, struct error *error) {
    spm->scores = calloc((size_t)source->n_pieces + 1, sizeof *spm->scores);
    spm->kinds = malloc((size_t)source->n_pieces + 1);
    if (!spm->scores || !spm->kinds)
        return error_set(error, STATUS_NOMEM, "no memory for %u pieces", source->n_pieces);
    TRY(spm_read_pieces(spm, source, error));
    if (!source->is_cut)
        TRY(spm_build_trie(&spm->own, source, TOKEN_USER_DEFINED, TOKEN_USER_DEFINED, error));
    if (source->algorithm == SPM_UNIGRAM)
        TRY(spm_build_trie(&spm->all, source, TOKEN_NORMAL, TOKEN_USER_DEFINED, error));
    return spm_charsmap_init(&spm->charsmap, source->charsmap, error);
}

enum status spm_init(struct spm *spm, const struct spm_source *source,
                     const struct vocabulary *vocabulary, struct error *error) {
    ASSERT(vocabulary->n_tokens >= source->n_pieces);
    *spm = (struct spm){.algorithm = source->algorithm,
                        .n_pieces = source->n_pieces,
                        .byte_fallback = source->byte_fallback,
                        .prefix = source->prefix,
                        .prefix_always = source->prefix_always,
                        .suffix = source->suffix,
                        .squeezes = source->squeezes,
                        .escapes = source->escapes};
    if (source->unk_surface.n > sizeof spm->unk_surface ||
        !utf8_valid(source->unk_surface.bytes, source->unk_surface.n))
        return error_field(error, STATUS_LIMIT, "unk_surface",
                           "unk_surface is not UTF-8 of at most %zu bytes",
                           sizeof spm->unk_surface);
    spm->n_unk_surface = (uint8_t)source->unk_surface.n;
    if (source->unk_surface.n > 0)
        memcpy(spm->unk_surface, source->unk_surface.bytes, source->unk_surface.n);
    enum status status = spm_fill(spm, source, error);
    if (status != STATUS_OK)
        spm_fini(spm);
    return status;
}

void spm_fini(struct spm *spm) {
    if (!spm)
        return;
    free(spm->scores);
    free(spm->kinds);
    trie_fini(&spm->own);
    trie_fini(&spm->all);
    spm_charsmap_fini(&spm->charsmap);
    *spm = (struct spm){0};
}
