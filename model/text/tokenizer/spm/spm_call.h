/* model/text/tokenizer/spm/spm_call.h: one spm_encode() on its way, and its steps. Private to
 * spm_*.c. */
#pragma once

#include "model/text/tokenizer/spm/spm.h"

/* Bytes of a normalized text: a rule may make a text longer, a file could have one that makes much
 * of little. */
#define SPM_TEXT_MAX ((size_t)128 << 20)

struct spm_call {
    const struct spm *spm;
    const struct vocabulary *vocabulary;
    struct spm_scratch *scratch;
    struct ids *ids;
};

/* Writes the normalized text into scratch->text. `prefix`: the blank that is not in the text is
 * added. STATUS_LIMIT, STATUS_NOMEM. */
NODISCARD enum status spm_normalize(const struct spm *spm, struct spm_scratch *scratch,
                                    struct span text, bool prefix);

/* Append the ids of normalized text, by each algorithm. */
NODISCARD enum status spm_encode_bpe(const struct spm_call *call, struct span text);
NODISCARD enum status spm_encode_unigram(const struct spm_call *call, struct span text);

/* Puts out a piece, or what stands for it where `id` is the unknown piece or TOKEN_NONE. */
NODISCARD enum status spm_put(const struct spm_call *call, struct span piece, uint32_t id);

/* The bytes of the character at bytes[0], by its first byte alone, at most n: a normalized text is
 * what the file's rules wrote, valid or not. */
static inline size_t spm_char_length(const char *bytes, size_t n) {
    static const uint8_t lengths[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
    size_t length = lengths[(uint8_t)bytes[0] >> 4];
    return length < n ? length : n;
}
