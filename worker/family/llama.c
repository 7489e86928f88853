/* Llama, Mistral and what shares their shape (SmolLM2): RMSNorm before attention and before the
 * feed-forward part, grouped-query attention with rotary positions, gated SiLU (Touvron et al.
 * 2023; Jiang et al. 2023). Mistral 0.1 adds a sliding window; Llama 3.1 stretches low frequencies.
 * GGUF files of this architecture keep q and k in the interleaved rotary form; the rows stay as
 * they are and the kernels rotate neighbours, so packing needs no permutation. */
#include "worker/family/decoder.h"

extern const struct family family_llama;

static enum status open_model(const struct family_options *options, struct family_model **model,
                              struct error *error) {
    return decoder_open(options, &family_llama, &decoder_names_usual, true, model, error);
}

const struct family family_llama = {
    .name = "llama",
    .open = open_model,
    .close = decoder_close,
    .scratch_bytes = decoder_scratch_bytes,
    .prepare = decoder_prepare,
    .forward = decoder_forward,
};
