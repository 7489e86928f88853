/* Text to ids: normalized, then by the algorithm that the file names; and the buffers for it. */
#include "model/text/tokenizer/spm/spm.h"
#include "model/text/tokenizer/spm/spm_call.h"

#include <stdlib.h>

/* Buffers for more bytes of text than this are freed after the text that needed them. */
#define KEEP_MAX ((size_t)1 << 16)

void spm_scratch_fini(struct spm_scratch *scratch) {
    if (!scratch)
        return;
    buf_fini(&scratch->text);
    free(scratch->symbols);
    free(scratch->heap);
    free(scratch->splits);
    free(scratch->nodes);
    *scratch = (struct spm_scratch){0};
}

void spm_scratch_trim(struct spm_scratch *scratch) {
    if (scratch->text.size > KEEP_MAX)
        spm_scratch_fini(scratch);
}

enum status spm_encode(const struct spm *spm, const struct vocabulary *vocabulary,
                       struct spm_scratch *scratch, struct span text, bool at_start,
                       struct ids *ids) {
    struct spm_call call = {.spm = spm, .vocabulary = vocabulary, .scratch = scratch, .ids = ids};
    scratch->text.limit = SPM_TEXT_MAX;
    scratch->after_unknown = false;
    TRY(spm_normalize(spm, scratch, text, spm->prefix && (at_start || spm->prefix_always)));
    struct span normalized = {scratch->text.data, scratch->text.n};
    return spm->algorithm == SPM_BPE ? spm_encode_bpe(&call, normalized)
                                     : spm_encode_unigram(&call, normalized);
}
