#include "worker/family/rotary.h"

#include "model/weights/config/config.h"
#include "worker/family/family.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static enum rope_layout rotary_layout_of(enum config_rope layout) {
    switch (layout) {
    case CONFIG_ROPE_HALF_SPLIT:
        return ROPE_HALF_SPLIT;
    case CONFIG_ROPE_INTERLEAVED:
        return ROPE_INTERLEAVED;
    default:
        return ROPE_NONE;
    }
}

enum status rotary_variants(const struct model_config *config, uint32_t context,
                            struct family_facts *facts, struct error *error) {
    facts->n_variants = 1;
    facts->variant_limits[0] = UINT32_MAX;
    if (config->rope.layout == CONFIG_ROPE_NONE)
        return STATUS_OK;
    uint64_t limit = config->rope.original_context;
    if (config->rope.scaling == CONFIG_SCALING_DYNAMIC && context > limit) {
        facts->variant_limits[0] = (uint32_t)limit;
        facts->variant_limits[1] = UINT32_MAX;
        facts->n_variants = 2;
    }
    if (config->rope.scaling != CONFIG_SCALING_QWEN_NTK)
        return STATUS_OK;
    for (uint32_t v = 0;; v++, limit *= 2) {
        if (v == FAMILY_VARIANTS_MAX)
            return error_set(error, STATUS_LIMIT,
                             "%s: a context of %u is too far from the %u tokens it was trained on",
                             config->name, context, config->rope.original_context);
        facts->n_variants = v + 1;
        facts->variant_limits[v] = limit < context ? (uint32_t)limit : UINT32_MAX;
        if (limit >= context)
            return STATUS_OK;
    }
}

/* The base of the frequencies for sequences of this variant. Qwen-1: alpha = 2^ceil(log2(n / S) +
 * 1) - 1 is 2^(v + 1) - 1 for prompts of up to S 2^v tokens. Dynamic: transformers' formula takes
 * the length n of the prompt; here longer prompts than S all take that of the model's longest,
 * for any memory of a worker: keys are handed between workers. */
static double rotary_base_of(const struct model_config *config, uint32_t variant) {
    double dims = config->rope.dims, alpha = 1;
    if (variant > 0 && config->rope.scaling == CONFIG_SCALING_QWEN_NTK)
        alpha = exp2(variant + 1.0) - 1;
    if (variant > 0 && config->rope.scaling == CONFIG_SCALING_DYNAMIC)
        alpha = config->rope.factor * config->context / config->rope.original_context -
                (config->rope.factor - 1);
    return config->rope.theta * (alpha == 1 ? 1 : pow(alpha, dims / (dims - 2)));
}

/* Llama 3.1: wavelengths longer than S / low_factor are stretched by `factor`, those shorter than S
 * / high_factor stay, and between the two there is a ramp. */
static double rotary_llama3(const struct model_config *config, double frequency) {
    double turns = config->rope.original_context * frequency / (2 * M_PI);
    double low = config->rope.low_factor, high = config->rope.high_factor;
    if (turns < low)
        return frequency / config->rope.factor;
    if (turns > high)
        return frequency;
    double smooth = (turns - low) / (high - low);
    return (1 - smooth) * frequency / config->rope.factor + smooth * frequency;
}

/* The (fractional) pair that turns `turns` times within the original context. */
static double rotary_yarn_pair(const struct model_config *config, double turns) {
    return config->rope.dims * log(config->rope.original_context / (turns * 2 * M_PI)) /
           (2 * log(config->rope.theta));
}

/* YaRN: pairs that turn more than beta_fast times stay, those that turn less than beta_slow times
 * are stretched, with a ramp over whole pairs between them. */
static double rotary_yarn(const struct model_config *config, double frequency, uint32_t pair) {
    double low = floor(rotary_yarn_pair(config, config->rope.beta_fast));
    double high = ceil(rotary_yarn_pair(config, config->rope.beta_slow));
    low = low > 0 ? low : 0;
    high = high < config->rope.dims - 1 ? high : config->rope.dims - 1;
    if (high == low)
        high += 0.001;
    double ramp = (pair - low) / (high - low);
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    return frequency / config->rope.factor * ramp + frequency * (1 - ramp);
}

static double rotary_frequency_of(const struct model_config *config, double base, uint32_t pair) {
    uint32_t wave_dims = config->rope.wave_dims ? config->rope.wave_dims : config->rope.dims;
    double frequency = pow(base, -2.0 * pair / wave_dims);
    switch (config->rope.scaling) {
    case CONFIG_SCALING_LINEAR:
        return frequency / config->rope.factor;
    case CONFIG_SCALING_LLAMA3:
        return rotary_llama3(config, frequency);
    case CONFIG_SCALING_YARN:
        return rotary_yarn(config, frequency, pair);
    default:
        return frequency;
    }
}

static double rotary_amplitude_of(const struct model_config *config) {
    if (config->rope.scaling != CONFIG_SCALING_YARN)
        return 1;
    if (config->rope.attention_factor > 0)
        return config->rope.attention_factor;
    return config->rope.factor > 1 ? 0.1 * log(config->rope.factor) + 1 : 1;
}

static void rotary_fill_table(struct rotary *rotary, const struct model_config *config,
                              uint32_t variant, uint32_t n_positions) {
    uint32_t half = config->rope.dims / 2;
    double base = rotary_base_of(config, variant);
    double amplitude = rotary_amplitude_of(config);
    float *cosines = rotary->cos + (size_t)variant * n_positions * half;
    float *sines = rotary->sin + (size_t)variant * n_positions * half;
    for (uint32_t i = 0; i < half; i++) {
        double frequency = rotary_frequency_of(config, base, i);
        for (uint32_t position = 0; position < n_positions; position++) {
            cosines[(size_t)position * half + i] = (float)(amplitude * cos(position * frequency));
            sines[(size_t)position * half + i] = (float)(amplitude * sin(position * frequency));
        }
    }
}

/* Qwen-1's logn attention: with p = position + 1 and S the trained length, ln p / ln S past S. */
static enum status rotary_fill_logn(struct rotary *rotary, const struct model_config *config,
                                    uint32_t n_positions) {
    double trained = config->rope.original_context;
    rotary->q_scale = calloc(n_positions, sizeof(float));
    if (!rotary->q_scale)
        return STATUS_NOMEM;
    rotary->n_q_scales = n_positions;
    for (uint32_t i = 0; i < n_positions; i++)
        rotary->q_scale[i] = i + 1.0 > trained ? (float)(log(i + 1.0) / log(trained)) : 1.0f;
    rotary->rope.q_scale = rotary->q_scale;
    return STATUS_OK;
}

enum status rotary_init(struct rotary *rotary, const struct model_config *config,
                        const struct family_facts *facts, struct error *error) {
    uint32_t n_positions = facts->context, n_variants = facts->n_variants;
    memset(rotary, 0, sizeof *rotary);
    rotary->rope.layout = rotary_layout_of(config->rope.layout);
    rotary->rope.n_variants = n_variants;
    enum status status = config->logn ? rotary_fill_logn(rotary, config, n_positions) : STATUS_OK;
    if (rotary->rope.layout != ROPE_NONE) {
        size_t n = (size_t)n_variants * n_positions * (config->rope.dims / 2);
        rotary->cos = calloc(n, sizeof(float));
        rotary->sin = calloc(n, sizeof(float));
        rotary->n_angles = n;
        if (!rotary->cos || !rotary->sin)
            status = STATUS_NOMEM;
        for (uint32_t v = 0; status == STATUS_OK && v < n_variants; v++)
            rotary_fill_table(rotary, config, v, n_positions);
        rotary->rope.dims = config->rope.dims;
        rotary->rope.cos = rotary->cos;
        rotary->rope.sin = rotary->sin;
        if (status == STATUS_OK)
            rotary->hash = XXH3_64bits_withSeed(rotary->sin, n * sizeof(float),
                                                XXH3_64bits(rotary->cos, n * sizeof(float)));
    }
    if (status != STATUS_OK) {
        rotary_fini(rotary);
        return error_set(error, status, "%s: no memory for rotary tables of %u positions",
                         config->name, n_positions);
    }
    if (rotary->q_scale)
        rotary->hash =
            XXH3_64bits_withSeed(rotary->q_scale, n_positions * sizeof(float), rotary->hash);
    return STATUS_OK;
}

static enum status rotary_move_to_kernels(struct constants *placed, const struct kernels *kernels,
                                          struct kernels_ctx *ctx, float **table, size_t n,
                                          const float **of_rope) {
    if (!*table)
        return STATUS_OK;
    TRY(constants_put(placed, kernels, ctx, *table, n));
    *of_rope = placed->at;
    free(*table);
    *table = NULL;
    return STATUS_OK;
}

enum status rotary_put(struct rotary *rotary, const struct kernels *kernels,
                       struct kernels_ctx *ctx) {
    struct rope *rope = &rotary->rope;
    struct constants *placed = rotary->placed;
    TRY(rotary_move_to_kernels(&placed[0], kernels, ctx, &rotary->cos, rotary->n_angles,
                               &rope->cos));
    TRY(rotary_move_to_kernels(&placed[1], kernels, ctx, &rotary->sin, rotary->n_angles,
                               &rope->sin));
    return rotary_move_to_kernels(&placed[2], kernels, ctx, &rotary->q_scale, rotary->n_q_scales,
                                  &rope->q_scale);
}

void rotary_fini(struct rotary *rotary) {
    for (int i = 0; i < 3; i++)
        constants_fini(&rotary->placed[i]);
    free(rotary->cos);
    free(rotary->sin);
    free(rotary->q_scale);
    memset(rotary, 0, sizeof *rotary);
}

void alibi_slopes(float *slopes, uint32_t n_all, uint32_t head_begin, uint32_t n_heads) {
    uint32_t power = 1;
    while (power <= n_all / 2)
        power *= 2;
    for (uint32_t i = 0; i < n_heads; i++) {
        uint32_t head = head_begin + i;
        double exponent = head < power ? -8.0 * (head + 1) / power
                                       : -8.0 * (2 * (head - power) + 1) / (2.0 * power);
        slopes[i] = (float)exp2(exponent);
    }
}
