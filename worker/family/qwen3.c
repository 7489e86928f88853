/* Qwen3: Qwen2 without its biases and with RMSNorm of each query and key head (Yang et al. 2025).
 */
#include "worker/family/decoder.h"

extern const struct family family_qwen3;

static enum status open_model(const struct family_options *options, struct family_model **model,
                              struct error *error) {
    return decoder_open(options, &family_qwen3, &decoder_names_usual, true, model, error);
}

const struct family family_qwen3 = {
    .name = "qwen3",
    .open = open_model,
    .close = decoder_close,
    .scratch_bytes = decoder_scratch_bytes,
    .prepare = decoder_prepare,
    .forward = decoder_forward,
};
