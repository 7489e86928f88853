#include "model/tokenizer/files/spm_file.h"

#include "model/tokenizer/files/protobuf.h"

#include <stdlib.h>

/* Fields of sentencepiece_model.proto. */
enum model_field {
    MODEL_PIECES = 1,
    MODEL_TRAINER = 2,
    MODEL_NORMALIZER = 3,
    MODEL_DENORMALIZER = 5
};
enum piece_field { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum trainer_field {
    TRAINER_MODEL_TYPE = 3,
    TRAINER_WHITESPACE_AS_SUFFIX = 24,
    TRAINER_BYTE_FALLBACK = 35,
    TRAINER_UNK_SURFACE = 44,
    TRAINER_BOS_PIECE = 46,
    TRAINER_EOS_PIECE = 47,
};
enum normalizer_field {
    NORMALIZER_CHARSMAP = 2,
    NORMALIZER_DUMMY_PREFIX = 3,
    NORMALIZER_EXTRA_WHITESPACES = 4,
    NORMALIZER_ESCAPE = 5,
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

static enum status read_type(const struct protobuf_cursor *cursor,
                             const struct protobuf_field *field, uint8_t *kind) {
    int64_t type;
    TRY(protobuf_int(cursor, field, "pieces.type", &type));
    if (type < TOKEN_NORMAL || type > TOKEN_BYTE)
        return error_field(cursor->error, STATUS_CORRUPT, "pieces.type",
                           "%s: at byte %zu: pieces.type %lld is not known", cursor->name,
                           field->offset, (long long)type);
    *kind = (uint8_t)type;
    return STATUS_OK;
}

static enum status read_piece(struct spm_file *file, struct protobuf_cursor *cursor) {
    struct protobuf_field field;
    struct span text = {0};
    float score = 0;
    uint8_t kind = TOKEN_NORMAL;
    if (file->n_pieces == file->size)
        TRY(spm_file_grow(file, cursor->error));
    for (;;) {
        TRY(protobuf_next(cursor, &field));
        if (field.number == 0)
            break;
        if (field.number == PIECE_TEXT)
            TRY(protobuf_bytes(cursor, &field, "pieces.piece", &text));
        else if (field.number == PIECE_SCORE)
            TRY(protobuf_float(cursor, &field, "pieces.score", &score));
        else if (field.number == PIECE_TYPE)
            TRY(read_type(cursor, &field, &kind));
    }
    file->pieces[file->n_pieces] = text;
    file->scores[file->n_pieces] = score;
    file->kinds[file->n_pieces++] = kind;
    return STATUS_OK;
}

static enum status read_model_type(struct spm_file *file, const struct protobuf_cursor *cursor,
                                   const struct protobuf_field *field) {
    static const char *const names[] = {"UNIGRAM", "BPE", "WORD", "CHAR"};
    int64_t type;
    TRY(protobuf_int(cursor, field, "trainer_spec.model_type", &type));
    if (type != SPM_UNIGRAM && type != SPM_BPE)
        return error_field(cursor->error, STATUS_UNSUPPORTED, "trainer_spec.model_type",
                           "%s: at byte %zu: a model of type %lld (%s) is not supported; BPE and "
                           "UNIGRAM are",
                           cursor->name, field->offset, (long long)type,
                           type >= 1 && type <= 4 ? names[type - 1] : "unknown");
    file->source.algorithm = (enum spm_algorithm)type;
    return STATUS_OK;
}

static enum status read_trainer(struct spm_file *file, struct protobuf_cursor *cursor) {
    struct spm_source *source = &file->source;
    struct protobuf_field field;
    for (;;) {
        TRY(protobuf_next(cursor, &field));
        switch (field.number) {
        case 0:
            return STATUS_OK;
        case TRAINER_MODEL_TYPE:
            TRY(read_model_type(file, cursor, &field));
            break;
        case TRAINER_WHITESPACE_AS_SUFFIX:
            TRY(protobuf_bool(cursor, &field, "trainer_spec.treat_whitespace_as_suffix",
                              &source->suffix));
            break;
        case TRAINER_BYTE_FALLBACK:
            TRY(protobuf_bool(cursor, &field, "trainer_spec.byte_fallback",
                              &source->byte_fallback));
            break;
        case TRAINER_UNK_SURFACE:
            TRY(protobuf_bytes(cursor, &field, "trainer_spec.unk_surface", &source->unk_surface));
            break;
        case TRAINER_BOS_PIECE:
            TRY(protobuf_bytes(cursor, &field, "trainer_spec.bos_piece", &file->bos));
            break;
        case TRAINER_EOS_PIECE:
            TRY(protobuf_bytes(cursor, &field, "trainer_spec.eos_piece", &file->eos));
            break;
        default:
            break;
        }
    }
}

static enum status read_normalizer(struct spm_source *source, struct protobuf_cursor *cursor) {
    struct protobuf_field field;
    for (;;) {
        TRY(protobuf_next(cursor, &field));
        switch (field.number) {
        case 0:
            return STATUS_OK;
        case NORMALIZER_CHARSMAP:
            TRY(protobuf_bytes(cursor, &field, "normalizer_spec.precompiled_charsmap",
                               &source->charsmap));
            break;
        case NORMALIZER_DUMMY_PREFIX:
            TRY(protobuf_bool(cursor, &field, "normalizer_spec.add_dummy_prefix", &source->prefix));
            break;
        case NORMALIZER_EXTRA_WHITESPACES:
            TRY(protobuf_bool(cursor, &field, "normalizer_spec.remove_extra_whitespaces",
                              &source->squeezes));
            break;
        case NORMALIZER_ESCAPE:
            TRY(protobuf_bool(cursor, &field, "normalizer_spec.escape_whitespaces",
                              &source->escapes));
            break;
        default:
            break;
        }
    }
}

/* A table that is used when ids become text again; models for language models have none. */
static enum status read_denormalizer(struct protobuf_cursor *cursor) {
    struct spm_source source = {0};
    TRY(read_normalizer(&source, cursor));
    if (source.charsmap.n == 0)
        return STATUS_OK;
    return error_field(cursor->error, STATUS_UNSUPPORTED, "denormalizer_spec",
                       "%s: a denormalizer_spec with a precompiled_charsmap is not supported",
                       cursor->name);
}

static enum status read_model(struct spm_file *file, struct protobuf_cursor *cursor) {
    struct protobuf_field field;
    struct protobuf_cursor inner;
    for (;;) {
        TRY(protobuf_next(cursor, &field));
        switch (field.number) {
        case 0:
            return STATUS_OK;
        case MODEL_PIECES:
            TRY(protobuf_message(cursor, &field, "pieces", &inner));
            TRY(read_piece(file, &inner));
            break;
        case MODEL_TRAINER:
            TRY(protobuf_message(cursor, &field, "trainer_spec", &inner));
            TRY(read_trainer(file, &inner));
            break;
        case MODEL_NORMALIZER:
            TRY(protobuf_message(cursor, &field, "normalizer_spec", &inner));
            TRY(read_normalizer(&file->source, &inner));
            break;
        case MODEL_DENORMALIZER:
            TRY(protobuf_message(cursor, &field, "denormalizer_spec", &inner));
            TRY(read_denormalizer(&inner));
            break;
        default:
            break;
        }
    }
}

/* What SentencePiece asks of a model as well. */
static enum status check_kinds(const struct spm_file *file, const char *name, struct error *error) {
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
    *file = (struct spm_file){.bos = SPAN("<s>"), .eos = SPAN("</s>")};
    file->source = (struct spm_source){.algorithm = SPM_UNIGRAM,
                                       .unk_id = TOKEN_NONE,
                                       .prefix = true,
                                       .squeezes = true,
                                       .escapes = true,
                                       .unk_surface = SPAN(SPM_SURFACE_DEFAULT)};
    enum status status = read_model(file, &cursor);
    if (status == STATUS_OK)
        status = check_kinds(file, name, error);
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
