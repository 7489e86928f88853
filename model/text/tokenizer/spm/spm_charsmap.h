/* model/text/tokenizer/spm/spm_charsmap.h: the normalization table of a SentencePiece model: a
 * double-array trie of what is replaced, and the NUL-terminated texts that come instead.
 *
 * Layout (google/sentencepiece normalizer.cc, s-yata/darts-clone): u32 size of the trie in bytes, a
 * multiple of 1024; the trie's u32 units; the texts. All numbers are little-endian. In a unit, bit
 * 31 marks a value (its low 31 bits), bit 8 says that a value hangs below, bits 0-7 are the label,
 * bits 10-30 the offset of the children, times 256 when bit 9 is set. The table is data from a
 * stranger: no walk leaves the units. Read-only after init: any thread. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"

#include <stdint.h>

#define SPM_CHARSMAP_BYTES_MAX ((size_t)16 << 20)

struct spm_charsmap {
    uint32_t *units; /* owned (n_units); NULL: nothing is replaced */
    uint32_t n_units;
    char *texts; /* owned (n_texts), the last byte is NUL */
    size_t n_texts;
};

/* Copies the table; an empty blob gives the map that replaces nothing. STATUS_CORRUPT,
 * STATUS_LIMIT, STATUS_NOMEM. */
NODISCARD enum status spm_charsmap_init(struct spm_charsmap *map, struct span blob,
                                        struct error *error);
void spm_charsmap_fini(struct spm_charsmap *map);

/* The longest rule that begins at text[0]: its length, and in *instead what replaces it. 0 when
 * there is none. */
size_t spm_charsmap_match(const struct spm_charsmap *map, struct span text, struct span *instead);
