#include "model/text/tokenizer/files/spm_file.h"

#include "model/text/tokenizer/files/protobuf.h"

#include <stdlib.h>

/* Fields of sentencepiece_model.proto. */
enum model_field {
    MODEL_PIECES = 1,
    MODEL_TRAINER = 2,
    MODEL_NORMALIZER = 3,
    MODEL_DENORMALIZER = 5
};

struct spm_file_piece {
    struct span text;
    float score;
    int64_t type;
};

static const struct protobuf_row piece_rows[] = {
    {1, PROTOBUF_SPAN, offsetof(struct spm_file_piece, text), "pieces.piece"},
    {2, PROTOBUF_FLOAT, offsetof(struct spm_file_piece, score), "pieces.score"},
    {3, PROTOBUF_INT, offsetof(struct spm_file_piece, type), "pieces.type"},
    {0},
};

#define TRAINER(field) offsetof(struct spm_file, field), "trainer_spec."
static const struct protobuf_row trainer_rows[] = {
    {3, PROTOBUF_INT, TRAINER(model_type) "model_type"},
    {24, PROTOBUF_BOOL, TRAINER(source.suffix) "treat_whitespace_as_suffix"},
    {35, PROTOBUF_BOOL, TRAINER(source.byte_fallback) "byte_fallback"},
    {44, PROTOBUF_SPAN, TRAINER(source.unk_surface) "unk_surface"},
    {46, PROTOBUF_SPAN, TRAINER(bos) "bos_piece"},
    {47, PROTOBUF_SPAN, TRAINER(eos) "eos_piece"},
    {0},
};

#define NORMALIZER(field) offsetof(struct spm_source, field), "normalizer_spec."
static const struct protobuf_row normalizer_rows[] = {
    {2, PROTOBUF_SPAN, NORMALIZER(charsmap) "precompiled_charsmap"},
    {3, PROTOBUF_BOOL, NORMALIZER(prefix) "add_dummy_prefix"},
    {4, PROTOBUF_BOOL, NORMALIZER(squeezes) "remove_extra_whitespaces"},
    {5, PROTOBUF_BOOL, NORMALIZER(escapes) "escape_whitespaces"},
    {0},
};

static enum status spm_file_grow(struct spm_file *file, struct error *error) {
    uint32_t size = file->size ? file->size * 2 : 4096;
    if (file->n_pieces == VOCABULARY_TOKENS_MAX)
        return error_field(error, STATUS_LIMIT, "pieces", "more than %u pieces",
                           VOCABULARY_TOKENS_MAX);
    struct span *pieces = reallocarray(file->pieces, size, sizeof *pieces);
    if (pieces)
        file->pieces = pieces;
    float *scores = reallocarray(file->scores, size, sizeof *scores);
    if (scores)
        file->scores = scores;
    uint8_t *kinds = realloc(file->kinds, size);
    if (kinds)
        file->kinds = kinds;
    if (!pieces || !scores || !kinds)
        return error_set(error, STATUS_NOMEM, "no memory for %u pieces", size);
    file->size = size;
    return STATUS_OK;
}

static enum status spm_file_read_piece(struct spm_file *file, struct protobuf_cursor *cursor) {
    struct spm_file_piece piece = {.type = TOKEN_NORMAL};
    if (file->n_pieces == file->size)
        TRY(spm_file_grow(file, cursor->error));
    TRY(protobuf_read(cursor, piece_rows, &piece));
    if (piece.type < TOKEN_NORMAL || piece.type > TOKEN_BYTE)
        return error_field(cursor->error, STATUS_CORRUPT, "pieces.type",
                           "%s: at byte %zu: pieces.type %lld is not known", cursor->name,
                           cursor->offset, (long long)piece.type);
    file->pieces[file->n_pieces] = piece.text;
    file->scores[file->n_pieces] = piece.score;
    file->kinds[file->n_pieces++] = (uint8_t)piece.type;
    return STATUS_OK;
}

static enum status spm_file_read_trainer(struct spm_file *file, struct protobuf_cursor *cursor) {
    static const char *const names[] = {"UNIGRAM", "BPE", "WORD", "CHAR"};
    TRY(protobuf_read(cursor, trainer_rows, file));
    int64_t type = file->model_type;
    if (type != SPM_UNIGRAM && type != SPM_BPE)
        return error_field(cursor->error, STATUS_UNSUPPORTED, "trainer_spec.model_type",
                           "%s: at byte %zu: a model of type %lld (%s) is not supported; BPE and "
                           "UNIGRAM are",
                           cursor->name, cursor->offset, (long long)type,
                           type >= 1 && type <= 4 ? names[type - 1] : "unknown");
    file->source.algorithm = (enum spm_algorithm)type;
    return STATUS_OK;
}

/* A table that is used when ids become text again; models for language models have none. */
static enum status spm_file_read_denormalizer(struct protobuf_cursor *cursor) {
    struct spm_source source = {0};
    TRY(protobuf_read(cursor, normalizer_rows, &source));
    if (source.charsmap.n == 0)
        return STATUS_OK;
    return error_field(cursor->error, STATUS_UNSUPPORTED, "denormalizer_spec",
                       "%s: a denormalizer_spec with a precompiled_charsmap is not supported",
                       cursor->name);
}

static enum status spm_file_read_model(struct spm_file *file, struct protobuf_cursor *cursor) {
    struct protobuf_field field;
    struct protobuf_cursor inner;
    for (;;) {
        TRY(protobuf_next(cursor, &field));
        switch (field.number) {
        case 0:
            return STATUS_OK;
        case MODEL_PIECES:
            TRY(protobuf_message(cursor, &field, "pieces", &inner));
            TRY(spm_file_read_piece(file, &inner));
            break;
        case MODEL_TRAINER:
            TRY(protobuf_message(cursor, &field, "trainer_spec", &inner));
            TRY(spm_file_read_trainer(file, &inner));
            break;
        case MODEL_NORMALIZER:
            TRY(protobuf_message(cursor, &field, "normalizer_spec", &inner));
            TRY(protobuf_read(&inner, normalizer_rows, &file->source));
            break;
        case MODEL_DENORMALIZER:
            TRY(protobuf_message(cursor, &field, "denormalizer_spec", &inner));
            TRY(spm_file_read_denormalizer(&inner));
            break;
        default:
            break;
        }
    }
}

/* What SentencePiece asks of a model as well. */
static enum status spm_file_check_kinds(const struct spm_file *file, const char *name,
                                        struct error *error) {
    uint32_t n_unknown = 0;
    for (uint32_t id = 0; id < file->n_pieces; id++) {
        n_unknown += file->kinds[id] == TOKEN_UNKNOWN;
        if (file->kinds[id] == TOKEN_BYTE && !file->source.byte_fallback)
            return error_field(error, STATUS_CORRUPT, "pieces.type",
                               "%s: piece %u is a byte, but byte_fallback is not set", name, id);
    }
    if (n_unknown != 1)
        return error_field(error, STATUS_CORRUPT, "pieces.type",
                           "%s: %u of %u pieces are of type UNKNOWN, not one", name, n_unknown,
                           file->n_pieces);
    return STATUS_OK;
}

enum status spm_file_init(struct spm_file *file, struct span bytes, const char *name,
                          struct error *error) {
    struct protobuf_cursor cursor = {.message = bytes, .name = name, .error = error};
    *file = (struct spm_file){.model_type = SPM_UNIGRAM, .bos = SPAN("<s>"), .eos = SPAN("</s>")};
    file->source = (struct spm_source){.algorithm = SPM_UNIGRAM,
                                       .unk_id = TOKEN_NONE,
                                       .prefix = true,
                                       .squeezes = true,
                                       .escapes = true,
                                       .unk_surface = SPAN(SPM_SURFACE_DEFAULT)};
    enum status status = spm_file_read_model(file, &cursor);
    if (status == STATUS_OK)
        status = spm_file_check_kinds(file, name, error);
    if (status != STATUS_OK) {
        spm_file_fini(file);
        return status;
    }
    file->source.pieces = file->pieces;
    file->source.scores = file->scores;
    file->source.kinds = file->kinds;
    file->source.n_pieces = file->n_pieces;
    return STATUS_OK;
}

void spm_file_fini(struct spm_file *file) {
    if (!file)
        return;
    free(file->pieces);
    free(file->scores);
    free(file->kinds);
    *file = (struct spm_file){0};
}
