/* Qwen3-MoE: Qwen3's attention with norms of each head; every feed-forward part is a mixture of
 * experts without a shared one (Yang et al. 2025). */
#include "worker/family/decoder.h"

extern const struct family family_qwen3_moe;

static enum status open_model(const struct family_options *options, struct family_model **model,
                              struct error *error) {
    return decoder_open(options, &family_qwen3_moe, &decoder_names_usual, false, model, error);
}

const struct family family_qwen3_moe = {
    .name = "qwen3_moe",
    .open = open_model,
    .close = decoder_close,
    .scratch_bytes = decoder_scratch_bytes,
    .prepare = decoder_prepare,
    .forward = decoder_forward,
};
