#include "worker/family/family.h"

#include "base/assert.h"

#include <string.h>

extern const struct family_network family_decoder;
extern const struct family_network family_hash;

/* Name and network. */
const struct family family_table[] = {
    /* Llama, Mistral and what shares their shape (SmolLM2): RMSNorm before attention and before the
     * feed-forward part, grouped-query attention with rotary positions, gated SiLU (Touvron et al.
     * 2023; Jiang et al. 2023). Mistral 0.1 adds a sliding window; Llama 3.1 stretches low
     * frequencies. GGUF files of this architecture keep q and k in the interleaved rotary form; the
     * rows stay as they are and the kernels rotate neighbours, so packing needs no permutation. */
    {"llama", &family_decoder},

    /* Qwen, the first generation: logn attention and a rotary base that depends on the prompt's
     * length (Bai et al. 2023; the rules are those of the model's own code). */
    {"qwen", &family_decoder},

    /* Qwen2 and Qwen2.5: Llama's shape with biases on q, k and v (Yang et al. 2024). */
    {"qwen2", &family_decoder},

    /* Qwen3: Qwen2 without its biases and with RMSNorm of each query and key head (Yang et al.
     * 2025). */
    {"qwen3", &family_decoder},

    /* Qwen2-MoE: Qwen2's attention; the feed-forward part is a mixture of experts. A token takes the
     * n_active most probable of all experts with their softmax probabilities as they are (or divided
     * by their sum, if the config says so), and one shared expert times a sigmoid of its own. */
    {"qwen2_moe", &family_decoder},

    /* Qwen3-MoE: Qwen3's attention with norms of each head; every feed-forward part is a mixture of
     * experts without a shared one (Yang et al. 2025). */
    {"qwen3_moe", &family_decoder},

    /* ChatGLM3 (and ChatGLM2, GLM-4 of the same layout): two key-value heads, biases on q, k and v,
     * rotary positions on neighbouring pairs of the first half of each head (Du et al. 2022; the
     * layout is that of the model's own code). */
    {"chatglm", &family_decoder},

    /* Baichuan and Baichuan 2: the 13B models take ALiBi instead of rotary positions, and Baichuan 2
     * normalises the rows of its output head (Yang et al. 2023). */
    {"baichuan", &family_decoder},

    /* The oracle of the tests. */
    {"hash", &family_hash},

    {NULL, NULL},
};

static void family_check_hooks(const struct family *family) {
    const struct family_network *network = family->network;
    ASSERT(network->open && network->close);
    ASSERT(network->scratch_bytes && network->prepare);
    ASSERT(network->forward);
}

const struct family *family_find(const char *name) {
    for (const struct family *row = family_table; row->name; row++) {
        family_check_hooks(row);
        if (strcmp(row->name, name) == 0)
            return row;
    }
    return NULL;
}
