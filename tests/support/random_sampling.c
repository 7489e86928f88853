#include "tests/support/random_sampling.h"

#include "base/assert.h"

#include <math.h>

static const uint32_t seen_ids[] = {1, 5, 9, 1000000, 40};
static const uint32_t seen_counts[] = {3, 0, 1, 2, 1};
static const uint32_t bias_ids[] = {2, 5, 1000000, 7};
static const float biases[] = {5.0f, -3.0f, 1.0f, -INFINITY};
static const uint32_t allowed_ids[] = {3, 200, 5, 64, 1000000, 63};

/* Within a block, over a border of blocks, whole blocks, and the end of a vocabulary. */
const struct interval random_barred[RANDOM_BARRED] = {
    {0, 3}, {5, 6}, {60, 130}, {250, 260}, {512, 1000}};

enum { MASKS = 6, MASK_WORDS = RANDOM_VOCAB_MAX / 32 };

/* Nothing, one id, one in a thousand, half, all but one in a hundred, all; and bits beyond the vocabulary. */
static const uint32_t *random_mask(struct random *random) {
    static uint32_t masks[MASKS][MASK_WORDS];
    if (masks[5][0] == 0) {
        static const uint64_t chances[MASKS] = {0, 0, 1, 500, 990, 1000}; /* of a thousand */
        struct random own = {42};
        for (uint32_t kind = 1; kind < MASKS; kind++)
            for (uint32_t id = 0; id < RANDOM_VOCAB_MAX; id++)
                if (random_below(&own, 1000) < chances[kind])
                    masks[kind][id / 32] |= 1u << id % 32;
        masks[1][0] = 1u << 9;
    }
    return masks[random_below(random, 32) == 0 ? 0 : 1 + random_below(random, MASKS - 1)];
}

struct sample_params random_sampling(struct random *random, uint32_t n_vocab) {
    static const float temperatures[] = {0.0f, 0.3f, 1.0f, 5.0f, 1e-7f};
    static const float top_ps[] = {1.0f, 0.9f, 0.5f, 0.0f, 0.999999f, 1.0f};
    static const float min_ps[] = {0.0f, 0.0f, 0.05f, 1.5f};
    static const uint32_t top_ks[] = {0, 0, 1, 5, 50, 3000, 100000};
    struct sample_params params = {
        .temperature = temperatures[random_below(random, 5)],
        .top_p = top_ps[random_below(random, 6)],
        .min_p = min_ps[random_below(random, 4)],
        .top_k = top_ks[random_below(random, 7)],
        .uniform = random_unit(random_next(random)),
        .repetition = 1.0f,
        .n_top = (uint32_t)random_below(random, SAMPLE_TOP_MAX + 1),
        .want_logprob = random_below(random, 2) == 0,
    };
    uint64_t edits = random_below(random, 16);
    if (edits & 1) {
        params.presence = 0.5f;
        params.frequency = 0.25f;
        params.repetition = 1.3f;
        params.n_seen = 5;
        params.seen_ids = seen_ids;
        params.seen_counts = seen_counts;
    }
    if (edits & 2) {
        params.n_bias = 4;
        params.bias_ids = bias_ids;
        params.bias = biases;
    }
    if ((edits & 12) == 12) {
        params.n_allowed = 6;
        params.allowed_ids = allowed_ids;
    }
    ASSERT(n_vocab <= RANDOM_VOCAB_MAX);
    if (random_below(random, 2) == 0)
        params.allowed_bits = random_mask(random);
    params.barred = random_barred;
    while (random_below(random, 2) == 0 && params.n_barred < RANDOM_BARRED &&
           random_barred[params.n_barred].end <= n_vocab)
        params.n_barred++;
    return params;
}

void random_logits(struct random *random, float *logits, uint32_t n) {
    uint64_t kind = random_below(random, 5);
    for (uint32_t i = 0; i < n; i++) {
        float x = random_unit(random_next(random));
        if (kind == 0) /* flat, with many ties */
            logits[i] = (float)(int)(x * 4.0f);
        else if (kind == 1) /* a few stand out */
            logits[i] = random_below(random, 100) == 0 ? 10.0f * x : x - 20.0f;
        else
            logits[i] = (x - 0.5f) * (float)(4 << kind);
    }
    if (kind == 4 && random_below(random, 4) == 0)
        logits[random_below(random, n)] = random_below(random, 2) ? NAN : INFINITY;
}
