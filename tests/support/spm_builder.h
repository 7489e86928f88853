/* tests/support/spm_builder.h: makes tokenizer.model files in memory, good ones and bad ones.
 *
 * Parts may come in any order; spm_builder_finish() joins them. Every append aborts the test when
 * memory is short. */
#pragma once

#include "base/buf.h"
#include "base/span.h"

#include <stdint.h>

struct spm_builder {
    struct buf pieces;     /* owned */
    struct buf trainer;    /* owned: TrainerSpec without its head */
    struct buf normalizer; /* owned: NormalizerSpec likewise */
    struct buf file;       /* owned: all of it, after spm_builder_finish() */
    uint32_t n_pieces;
};

void spm_builder_init(struct spm_builder *builder);
void spm_builder_fini(struct spm_builder *builder);

/* A field of a message, by wire type. */
void spm_builder_int(struct buf *message, uint32_t field, uint64_t value);
void spm_builder_text(struct buf *message, uint32_t field, struct span text);
void spm_builder_float(struct buf *message, uint32_t field, float value);

/* Appends a piece; returns its id. `kind` is an enum token_kind. */
uint32_t spm_builder_piece(struct spm_builder *builder, const char *text, float score,
                           unsigned kind);

/* <unk> 0, <s> 1, </s> 2. */
void spm_builder_ends(struct spm_builder *builder);

/* <0x00> to <0xFF> and byte_fallback; returns the id of <0x00>. */
uint32_t spm_builder_bytes(struct spm_builder *builder);

/* Fields of the trainer and the normalizer as flags: model_type BPE; no dummy prefix; ... */
void spm_builder_bpe(struct spm_builder *builder);
void spm_builder_normalizer(struct spm_builder *builder, bool prefix, bool squeezes);

/* The file; it stays the builder's. */
struct span spm_builder_finish(struct spm_builder *builder);
