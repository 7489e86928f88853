#include "tests/support/spm_builder.h"

#include "model/text/tokenizer/vocabulary/vocabulary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void spm_builder_init(struct spm_builder *builder) {
    *builder = (struct spm_builder){0};
}

void spm_builder_fini(struct spm_builder *builder) {
    buf_fini(&builder->pieces);
    buf_fini(&builder->trainer);
    buf_fini(&builder->normalizer);
    buf_fini(&builder->file);
}

static void put_varint(struct buf *message, uint64_t value) {
    for (; value > 0x7f; value >>= 7)
        buf_putc(message, (char)(value | 0x80));
    buf_putc(message, (char)value);
}

void spm_builder_int(struct buf *message, uint32_t field, uint64_t value) {
    put_varint(message, (uint64_t)field << 3);
    put_varint(message, value);
}

void spm_builder_text(struct buf *message, uint32_t field, struct span text) {
    put_varint(message, (uint64_t)field << 3 | 2);
    put_varint(message, text.n);
    buf_append(message, text.bytes, text.n);
}

void spm_builder_float(struct buf *message, uint32_t field, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_varint(message, (uint64_t)field << 3 | 5);
    for (unsigned i = 0; i < 4; i++)
        buf_putc(message, (char)(bits >> (8 * i)));
}

uint32_t spm_builder_piece(struct spm_builder *builder, const char *text, float score,
                           unsigned kind) {
    struct buf piece;
    buf_init(&piece, 0);
    spm_builder_text(&piece, 1, (struct span){text, strlen(text)});
    spm_builder_float(&piece, 2, score);
    if (kind != TOKEN_NORMAL)
        spm_builder_int(&piece, 3, kind);
    spm_builder_text(&builder->pieces, 1, (struct span){piece.data, piece.n});
    buf_fini(&piece);
    return builder->n_pieces++;
}

void spm_builder_ends(struct spm_builder *builder) {
    spm_builder_piece(builder, "<unk>", 0, TOKEN_UNKNOWN);
    spm_builder_piece(builder, "<s>", 0, TOKEN_CONTROL);
    spm_builder_piece(builder, "</s>", 0, TOKEN_CONTROL);
}

uint32_t spm_builder_bytes(struct spm_builder *builder) {
    uint32_t first = builder->n_pieces;
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[16];
        snprintf(text, sizeof text, "<0x%02X>", byte);
        spm_builder_piece(builder, text, 0, TOKEN_BYTE);
    }
    spm_builder_int(&builder->trainer, 35, 1);
    return first;
}

void spm_builder_bpe(struct spm_builder *builder) {
    spm_builder_int(&builder->trainer, 3, 2);
}

void spm_builder_normalizer(struct spm_builder *builder, bool prefix, bool squeezes) {
    spm_builder_int(&builder->normalizer, 3, prefix);
    spm_builder_int(&builder->normalizer, 4, squeezes);
}

struct span spm_builder_finish(struct spm_builder *builder) {
    struct buf *file = &builder->file;
    buf_append(file, builder->pieces.data, builder->pieces.n);
    spm_builder_text(file, 2, (struct span){builder->trainer.data, builder->trainer.n});
    spm_builder_text(file, 3, (struct span){builder->normalizer.data, builder->normalizer.n});
    if (buf_status(file) != STATUS_OK)
        abort();
    return (struct span){file->data, file->n};
}
