/* model/text/tokenizer/files/spm_file.h: reads a tokenizer.model: ModelProto of
 * sentencepiece_model.proto (google/sentencepiece). Only what decides ids and bytes is read; the
 * trainer's other settings are skipped.
 *
 * A file is data from a stranger: every malformed field is refused with a line that names it and
 * where it stands. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"
#include "model/text/tokenizer/spm/spm.h"

#include <stdint.h>

#define SPM_FILE_BYTES_MAX ((uint64_t)64 << 20)

struct spm_file {
    struct span *pieces; /* owned (n_pieces), they point into the caller's bytes */
    float *scores;       /* owned (n_pieces) */
    uint8_t *kinds;      /* owned (n_pieces): enum token_kind */
    uint32_t n_pieces;
    uint32_t size;            /* pieces there is room for */
    struct spm_source source; /* borrows all of the above */
    int64_t model_type;       /* enum spm_algorithm, as the file says it */
    struct span bos;          /* texts of the pieces that begin and end a text */
    struct span eos;
};

/* Reads bytes that stay the caller's and must outlive *file; `name` is used in messages. The caller
 * ends it with spm_file_fini(). STATUS_CORRUPT, STATUS_LIMIT, STATUS_NOMEM; STATUS_UNSUPPORTED for
 * an algorithm or a table that is not read here, by its name. */
NODISCARD enum status spm_file_init(struct spm_file *file, struct span bytes, const char *name,
                                    struct error *error);
void spm_file_fini(struct spm_file *file);
