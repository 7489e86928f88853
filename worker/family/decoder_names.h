/* worker/family/decoder_names.h: how checkpoints call the tensors of a decoder. Constant data. */
#pragma once

/* Names of a checkpoint's tensors, without ".weight" and ".bias". Those of a layer come behind
 * `layer`, those of an expert behind `layer` and `expert`; both hold one %u. NULL: the family has
 * no such tensor. */
struct decoder_names {
    const char *embedding;
    const char *norm;
    const char *head;
    const char *layer;
    const char *attn_norm;
    const char *qkv; /* all in one, rows q | k | v; else the three below */
    const char *q;
    const char *k;
    const char *v;
    const char *q_norm; /* when config.qk_norm */
    const char *k_norm;
    const char *out;
    const char *ffn_norm;
    const char *gate_up; /* both in one, rows gate | up; else the two below */
    const char *gate;
    const char *up;
    const char *down;
    const char *router; /* the rest when config.moe.n_experts */
    const char *expert;
    const char *expert_gate;
    const char *expert_up;
    const char *expert_down;
    const char *shared_gate;
    const char *shared_up;
    const char *shared_down;
    const char *shared_router; /* (1, dim): how much of the shared expert a token takes */
};

/* Those that most checkpoints of the hubs have, those of all GGUF files, and those of families
 * whose hub checkpoints have names of their own. */
extern const struct decoder_names decoder_names_usual;
extern const struct decoder_names decoder_names_gguf;
extern const struct decoder_names decoder_names_qwen;
extern const struct decoder_names decoder_names_chatglm;
extern const struct decoder_names decoder_names_baichuan;
