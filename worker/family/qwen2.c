/* Qwen2 and Qwen2.5: Llama's shape with biases on q, k and v (Yang et al. 2024). */
#include "worker/family/decoder.h"

extern const struct family family_qwen2;

static enum status open_model(const struct family_options *options, struct family_model **model,
                              struct error *error) {
    return decoder_open(options, &family_qwen2, &decoder_names_usual, true, model, error);
}

const struct family family_qwen2 = {
    .name = "qwen2",
    .open = open_model,
    .close = decoder_close,
    .scratch_bytes = decoder_scratch_bytes,
    .prepare = decoder_prepare,
    .forward = decoder_forward,
};
