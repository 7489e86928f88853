/* model/weights/config/config.h: what the engine needs to know of a model, checked as a whole.
 *
 * Plain numbers, read once from a model's files and then read-only. config_check() has passed on
 * every struct model_config that model_open() hands out, so sizes computed from it fit into 64 bits
 * and nothing divides by zero. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONFIG_LAYERS_MAX  1024u
#define CONFIG_DIM_MAX     65536u
#define CONFIG_HEADS_MAX   1024u
#define CONFIG_HEAD_MIN    8u
#define CONFIG_HEAD_MAX    256u
#define CONFIG_FFN_MAX     1048576u
#define CONFIG_VOCAB_MAX   1048576u
#define CONFIG_CONTEXT_MAX 16777216u
#define CONFIG_STOPS_MAX   16u
#define CONFIG_EXPERTS_MAX 1024u
#define CONFIG_NO_TOKEN    UINT32_MAX

/* Which dimensions of a head a rotary embedding turns together: i and i + dims / 2, or 2i and
 * 2i + 1. The same weights differ between files: GGUF permutes Q and K to the interleaved form. */
enum config_rope { CONFIG_ROPE_NONE, CONFIG_ROPE_HALF_SPLIT, CONFIG_ROPE_INTERLEAVED };

/* How a model reaches beyond the context it was first trained with. */
enum config_scaling {
    CONFIG_SCALING_NONE,
    CONFIG_SCALING_LINEAR,   /* positions are divided by `factor` */
    CONFIG_SCALING_DYNAMIC,  /* the base grows with a prompt past `original_context` */
    CONFIG_SCALING_LLAMA3,   /* low frequencies are divided by `factor` (Llama 3.1) */
    CONFIG_SCALING_YARN,     /* Peng et al. 2023 */
    CONFIG_SCALING_QWEN_NTK, /* Qwen-1: the base by a power of two of prompt / original_context */
};

/* Whose names the tensors have. */
enum config_files { CONFIG_FILES_NONE, CONFIG_FILES_GGUF, CONFIG_FILES_HUB };

/* How the linear layers of a hub checkpoint were quantized. */
enum config_method { CONFIG_METHOD_NONE, CONFIG_METHOD_AWQ, CONFIG_METHOD_GPTQ };

struct config_quant {
    enum config_method method;
    uint32_t bits;  /* 4 or 8 */
    uint32_t group; /* inputs per scale; 0: one for all of them */
    bool act_order; /* groups are not neighbours (desc_act) */
    bool symmetric; /* GPTQ: every zero point is the middle of its range; the fields are not read */
    bool zero_as_is; /* GPTQ v2: zero points are stored as they are, not minus one */
};

struct model_config {
    char family[32]; /* row in the worker's family table: "llama", "qwen2", "chatglm", "hash" ... */
    enum config_files files;
    char name
        [128]; /* for people and clients: the file's stem or the folder's name, of a hub's cache ORG/NAME; printable */
    uint32_t n_layers;
    uint32_t dim;        /* width of the residual stream */
    uint32_t n_heads;    /* query heads */
    uint32_t n_kv_heads; /* divides n_heads */
    uint32_t head_dim;
    uint32_t ffn_dim; /* inner width of the feed-forward part */
    uint32_t n_vocab; /* rows of the embedding; at least the tokenizer's tokens */
    uint32_t context; /* tokens the model was trained for */
    float norm_eps;   /* of RMSNorm */
    struct {
        enum config_rope layout;
        uint32_t dims; /* rotary dimensions of a head, even, at most head_dim */
        double theta;  /* base of the frequencies */
        enum config_scaling scaling;
        double factor;
        uint32_t original_context;      /* tokens before any scaling */
        double low_factor, high_factor; /* llama3 */
        double beta_fast, beta_slow;    /* yarn */
        double attention_factor;        /* yarn: of cosines and sines; 0: 0.1 ln(factor) + 1 */
        uint32_t wave_dims; /* pair i turns by theta^(-2 i / wave_dims) a position; 0: dims */
    } rope;
    uint32_t window;             /* keys a query sees, its own included; 0: all */
    uint32_t window_layer_begin; /* layers from this one on have the window */
    bool alibi;                  /* ALiBi slopes instead of rotary positions */
    bool logn; /* queries past original_context grow by ln(p) / ln(original_context) */
    bool qkv_bias;
    bool out_bias;
    bool ffn_bias;
    bool qk_norm;   /* RMSNorm of each query and key head before rotation (Qwen3) */
    bool head_norm; /* rows of the output head are normalised at load (Baichuan 2) */
    bool tied_head; /* the output head is the token embedding */
    struct {
        uint32_t n_experts;  /* 0: every layer is dense */
        uint32_t n_active;   /* experts of a token */
        uint32_t expert_dim; /* inner width of an expert */
        uint32_t shared_dim; /* of the expert that all tokens take; 0: none */
        bool normalise;      /* the chosen experts' weights are divided by their sum */
        uint8_t dense_layers[CONFIG_LAYERS_MAX / 8]; /* bit i: layer i has no experts */
    } moe;
    struct config_quant quant;
    char dtype[8]; /* of the plain tensors as the config names it: "f32", "f16", "bf16"; or "" */

    uint32_t bos_id; /* CONFIG_NO_TOKEN: none */
    uint32_t eos_id; /* CONFIG_NO_TOKEN: none, the model never ends by itself */
    uint32_t n_stop_ids;
    uint32_t stop_ids[CONFIG_STOPS_MAX]; /* ids that end an answer, eos_id first, no repeats */
    bool lacks_stops;                    /* more ids do than have a place there */
    uint32_t first_lacked;               /* the first of these */

    uint8_t fingerprint[32]; /* of the weights' files: equal for equal models (model.h) */
    uint8_t tokenizer_fingerprint[32];
};

static inline bool config_is_moe_layer(const struct model_config *config, uint32_t layer) {
    return config->moe.n_experts > 0 && !(config->moe.dense_layers[layer / 8] >> layer % 8 & 1);
}

/* Bounds and relations of the numbers. STATUS_INVALID naming the field, STATUS_LIMIT past a bound
 * above: the line begins with the field, for error_rename(). Families without a network (`hash`)
 * are checked for vocabulary and context alone. */
NODISCARD enum status config_check(const struct model_config *config, struct error *error);

struct gguf;

/* Reads and checks the numbers of a GGUF file (ggml-org/ggml docs/gguf.md); stop ids and
 * fingerprints come later (model_open). STATUS_UNSUPPORTED for an architecture or a feature of it
 * that is not served. Allocates nothing. */
NODISCARD enum status config_from_gguf(const struct gguf *gguf, struct model_config *config,
                                       struct error *error);

/* One more id that ends an answer, unless it is there already or beyond the vocabulary; past the last
 * place it is only noted that there was one. */
void config_add_stop(struct model_config *config, uint32_t id);

/* Sets the model's name; what is not printable ASCII becomes '_', and what is too long is cut. */
void config_set_name(struct model_config *config, const char *text, size_t n);

/* Takes the model's name from a path: the last part, without ".gguf" or "-00001-of-00003.gguf". */
void config_name_from_path(struct model_config *config, const char *path);
