/* What holds between the fields of one struct: the rules that message.def names. */
#include "proto/codec_body.h"

bool submit_sendable(const void *ours) {
    const struct submit *submit = ours;
    return submit->n_prompt <= submit->n_tokens;
}

bool submit_readable(struct decoder *decoder, const void *wire, const void *ours) {
    (void)wire;
    const struct submit *submit = ours;
    if (submit->n_prompt > submit->n_tokens)
        return decoder_fail(decoder, STATUS_CORRUPT, "n_prompt", "is more than n_tokens");
    return true;
}

bool sampling_readable(struct decoder *decoder, const void *wire, const void *ours) {
    (void)ours;
    const Wire__Sampling *sampling = wire;
    if (sampling->n_bias != sampling->n_bias_ids)
        return decoder_fail(decoder, STATUS_CORRUPT, "bias", "disagrees with bias_ids");
    return true;
}

static bool codec_rules_is_zero(const uint8_t *bytes, size_t n) {
    size_t i = 0;
    while (i < n && bytes[i] == 0)
        i++;
    return i == n;
}

bool trace_readable(struct decoder *decoder, const void *wire, const void *ours) {
    (void)wire;
    const struct trace *trace = ours;
    if (codec_rules_is_zero(trace->trace_id, sizeof trace->trace_id))
        return decoder_fail(decoder, STATUS_INVALID, "trace_id", "is zero");
    if (codec_rules_is_zero(trace->span_id, sizeof trace->span_id))
        return decoder_fail(decoder, STATUS_INVALID, "span_id", "is zero");
    return true;
}

bool chunk_readable(struct decoder *decoder, const void *wire, const void *ours) {
    (void)wire;
    const struct chunk *chunk = ours;
    if (chunk->layer_begin >= chunk->layer_end || chunk->block_begin >= chunk->block_end)
        return decoder_fail(decoder, STATUS_INVALID, "layers or blocks", "are an empty range");
    return true;
}
