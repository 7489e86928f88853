/* Qwen2-MoE: Qwen2's attention; the feed-forward part is a mixture of experts. A token takes the
 * n_active most probable of all experts with their softmax probabilities as they are (or divided by
 * their sum, if the config says so), and one shared expert times a sigmoid of its own. */
#include "worker/family/decoder.h"

extern const struct family family_qwen2_moe;

static enum status open_model(const struct family_options *options, struct family_model **model,
                              struct error *error) {
    return decoder_open(options, &family_qwen2_moe, &decoder_names_usual, false, model, error);
}

const struct family family_qwen2_moe = {
    .name = "qwen2_moe",
    .open = open_model,
    .close = decoder_close,
    .scratch_bytes = decoder_scratch_bytes,
    .prepare = decoder_prepare,
    .forward = decoder_forward,
};
