"""The tiny models: for every family a few variants, each a config.json and the tensors that belong to it, with the
names and the layout that the family's public checkpoints have (facts as read in their configs and model code).

Sizes are odd on purpose: vocabularies that 4 does not divide, inner sizes of 3 or 5 groups, 1 to 8 query heads per
kv head, 5 and 6 heads where slopes differ from a power of two's, sequences longer than `seq_length`.
"""
from dataclasses import dataclass


@dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple
    # linear (may be quantized), fused (a linear whose parts act-order cannot tell apart), plain (never
    # quantized), embedding, head, norm, bias, zeros (means nothing, but lies there)
    kind: str


def _linear(prefix, n_out, n_in, bias=False):
    tensors = [Tensor(prefix + ".weight", (n_out, n_in), "linear")]
    return tensors + [Tensor(prefix + ".bias", (n_out,), "bias")] if bias else tensors


def _norms(prefix, names, n):
    return [Tensor(f"{prefix}{name}.weight", (n,), "norm") for name in names]


def _mlp(prefix, dim, inner, bias=False):
    return (_linear(prefix + "gate_proj", inner, dim, bias) + _linear(prefix + "up_proj", inner, dim, bias) +
            _linear(prefix + "down_proj", dim, inner, bias))


def _ends(config, embedding="model.embed_tokens", final="model.norm", head="lm_head"):
    dim, n_vocab = config["hidden_size"], config.get("vocab_size") or config["padded_vocab_size"]
    tensors = [Tensor(embedding + ".weight", (n_vocab, dim), "embedding")] + _norms("", [final], dim)
    if not config.get("tie_word_embeddings"):
        tensors.append(Tensor(head + ".weight", (n_vocab, dim), "head"))
    return tensors


def llama(arch="LlamaForCausalLM", kind="llama", dim=256, heads=8, kv=2, head_dim=32, inner=384, layers=2, vocab=259,
          tied=False, qkv_bias=False, o_bias=False, mlp_bias=False, qk_norm=False, theta=10000.0, eps=1e-5,
          context=256, leftovers=False, **more):
    """Llama and what differs from it in little: Mistral, Qwen2, Qwen3."""
    config = {"architectures": [arch], "model_type": kind, "hidden_size": dim, "num_attention_heads": heads,
              "num_key_value_heads": kv, "intermediate_size": inner, "num_hidden_layers": layers,
              "vocab_size": vocab, "tie_word_embeddings": tied, "rope_theta": theta, "rms_norm_eps": eps,
              "max_position_embeddings": context, "hidden_act": "silu", "bos_token_id": 256, "eos_token_id": 256}
    if head_dim * heads != dim:
        config["head_dim"] = head_dim
    if mlp_bias:
        config["mlp_bias"] = True
    config.update(more)
    tensors = _ends(config)
    for i in range(layers):
        at = f"model.layers.{i}."
        tensors += _norms(at, ["input_layernorm", "post_attention_layernorm"], dim)
        for name, rows in (("q", heads), ("k", kv), ("v", kv)):
            tensors += _linear(f"{at}self_attn.{name}_proj", rows * head_dim, dim, qkv_bias)
        tensors += _linear(at + "self_attn.o_proj", dim, heads * head_dim, o_bias)
        if qk_norm:
            tensors += _norms(at + "self_attn.", ["q_norm", "k_norm"], head_dim)
        tensors += _mlp(at + "mlp.", dim, inner, mlp_bias)
        if leftovers:
            tensors += [Tensor(at + "self_attn.rotary_emb.inv_freq", (head_dim // 2,), "zeros"),
                        Tensor(at + "self_attn.o_proj.bias", (dim,), "zeros")]
    return config, tensors


def qwen2(**more):
    return llama(**{"arch": "Qwen2ForCausalLM", "kind": "qwen2", "qkv_bias": True, "theta": 1e6, "eps": 1e-6,
                    "use_sliding_window": False, "sliding_window": 8, "max_window_layers": 1, **more})


def qwen3(**more):
    return llama(**{"arch": "Qwen3ForCausalLM", "kind": "qwen3", "qk_norm": True, "theta": 1e6, "eps": 1e-6,
                    "dim": 160, "head_dim": 64, "attention_bias": False, "use_sliding_window": False,
                    "sliding_window": None, **more})


def qwen2_moe(dim=256, heads=8, kv=2, inner=192, expert=160, shared=288, experts=8, top=3, layers=2, vocab=257,
              renorm=False, dense_layers=(), sparse_step=1):
    config, tensors = llama("Qwen2MoeForCausalLM", "qwen2_moe", dim, heads, kv, dim // heads, inner, layers, vocab,
                            qkv_bias=True, theta=1e6, eps=1e-6, moe_intermediate_size=expert, num_experts=experts,
                            shared_expert_intermediate_size=shared, num_experts_per_tok=top, norm_topk_prob=renorm,
                            decoder_sparse_step=sparse_step, mlp_only_layers=list(dense_layers),
                            use_sliding_window=False, sliding_window=8)
    for i in range(layers):
        if i in dense_layers or (i + 1) % sparse_step:
            continue
        at = f"model.layers.{i}.mlp."
        tensors = [t for t in tensors if not t.name.startswith(at)]
        tensors += [Tensor(at + "gate.weight", (experts, dim), "plain"),
                    Tensor(at + "shared_expert_gate.weight", (1, dim), "plain")]
        for e in range(experts):
            tensors += _mlp(f"{at}experts.{e}.", dim, expert)
        tensors += _mlp(at + "shared_expert.", dim, shared)
    return config, tensors


def qwen3_moe(dim, heads, kv, head_dim, expert, experts=6, top=2, layers=2, vocab=259):
    """Norms of query and key heads, no biases, no shared expert."""
    config, tensors = llama("Qwen3MoeForCausalLM", "qwen3_moe", dim, heads, kv, head_dim, expert, layers, vocab,
                            qk_norm=True, theta=1e6, eps=1e-6, moe_intermediate_size=expert, num_experts=experts,
                            num_experts_per_tok=top, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[],
                            attention_bias=False, use_sliding_window=False, sliding_window=None)
    for i in range(layers):
        at = f"model.layers.{i}.mlp."
        tensors = [t for t in tensors if not t.name.startswith(at)]
        tensors.append(Tensor(at + "gate.weight", (experts, dim), "plain"))
        for e in range(experts):
            tensors += _mlp(f"{at}experts.{e}.", dim, expert)
    return config, tensors


def qwen(dim=256, heads=8, inner=384, layers=2, vocab=263, seq_length=16, ntk=True, logn=True, theta=10000.0):
    config = {"architectures": ["QWenLMHeadModel"], "model_type": "qwen", "hidden_size": dim, "num_attention_heads":
              heads, "num_hidden_layers": layers, "intermediate_size": 2 * inner, "kv_channels": dim // heads,
              "vocab_size": vocab, "rotary_emb_base": theta, "rotary_pct": 1.0, "layer_norm_epsilon": 1e-6,
              "seq_length": seq_length, "max_position_embeddings": 256, "use_dynamic_ntk": ntk,
              "use_logn_attn": logn, "no_bias": True, "scale_attn_weights": True, "bf16": False, "fp16": False,
              "fp32": False, "tie_word_embeddings": False, "tokenizer_class": "QWenTokenizer"}
    tensors = _ends(config, "transformer.wte", "transformer.ln_f")
    for i in range(layers):
        at = f"transformer.h.{i}."
        tensors += _norms(at, ["ln_1", "ln_2"], dim)
        tensors += _linear(at + "attn.c_attn", 3 * dim, dim, True) + _linear(at + "attn.c_proj", dim, dim)
        tensors += _linear(at + "mlp.w1", inner, dim) + _linear(at + "mlp.w2", inner, dim)
        tensors += _linear(at + "mlp.c_proj", dim, inner)
    return config, tensors


def chatglm(dim=256, heads=8, groups=2, inner=384, layers=2, vocab=267, rope_ratio=None):
    head_dim = dim // heads
    config = {"architectures": ["ChatGLMModel"], "model_type": "chatglm", "num_layers": layers, "hidden_size": dim,
              "ffn_hidden_size": inner, "num_attention_heads": heads, "multi_query_attention": True,
              "multi_query_group_num": groups, "kv_channels": head_dim, "padded_vocab_size": vocab,
              "seq_length": 256, "layernorm_epsilon": 1e-5, "add_qkv_bias": True, "add_bias_linear": False,
              "rmsnorm": True, "post_layer_norm": True, "original_rope": True,
              "apply_residual_connection_post_layernorm": False, "apply_query_key_layer_scaling": True,
              "attention_softmax_in_fp32": True, "bias_dropout_fusion": True, "tie_word_embeddings": False,
              "eos_token_id": 2, "pad_token_id": 0}
    if rope_ratio:
        config["rope_ratio"] = rope_ratio
    tensors = _ends(config, "transformer.embedding.word_embeddings", "transformer.encoder.final_layernorm",
                    "transformer.output_layer")
    for i in range(layers):
        at = f"transformer.encoder.layers.{i}."
        tensors += _norms(at, ["input_layernorm", "post_attention_layernorm"], dim)
        tensors += _linear(at + "self_attention.query_key_value", (heads + 2 * groups) * head_dim, dim, True)
        tensors += _linear(at + "self_attention.dense", dim, dim)
        tensors += _linear(at + "mlp.dense_h_to_4h", 2 * inner, dim) + _linear(at + "mlp.dense_4h_to_h", dim, inner)
    tensors.append(Tensor("transformer.rotary_pos_emb.inv_freq", (head_dim // 4,), "zeros"))
    return config, tensors


def baichuan(dim=192, heads=6, inner=384, layers=2, vocab=262):
    config = {"architectures": ["BaichuanForCausalLM"], "model_type": "baichuan", "hidden_size": dim,
              "num_attention_heads": heads, "num_hidden_layers": layers, "intermediate_size": inner, "vocab_size":
              vocab, "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": False, "bos_token_id": 1,
              "eos_token_id": 2, "pad_token_id": 0, "model_max_length": 256}
    if dim == 4096:
        config["max_position_embeddings"] = 256
    tensors = _ends(config)
    for i in range(layers):
        at = f"model.layers.{i}."
        tensors += _norms(at, ["input_layernorm", "post_attention_layernorm"], dim)
        tensors += _linear(at + "self_attn.W_pack", 3 * dim, dim) + _linear(at + "self_attn.o_proj", dim, dim)
        tensors += _mlp(at + "mlp.", dim, inner)
    return config, tensors


def _scaled(context=256, **scaling):
    return lambda: llama(heads=4, kv=2, head_dim=64, context=context, rope_scaling=dict(scaling))


_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}

VARIANTS = {
    "llama": lambda: llama(),
    "llama-wide": lambda: llama(heads=4, kv=2, head_dim=128, inner=640, leftovers=True),
    "llama-bias": lambda: llama(dim=160, heads=6, kv=3, head_dim=48, vocab=301, qkv_bias=True, o_bias=True,
                                mlp_bias=True, attention_bias=True),
    "llama-rope-llama3": _scaled(rope_type="llama3", factor=8.0, **_LLAMA3),
    "llama-rope-linear": _scaled(type="linear", factor=4.0),
    "llama-rope-dynamic": _scaled(type="dynamic", factor=4.0, context=32),
    "llama-rope-yarn": _scaled(rope_type="yarn", factor=4.0, original_max_position_embeddings=64),
    "mistral": lambda: llama("MistralForCausalLM", "mistral", dim=192, heads=6, kv=3, sliding_window=16, vocab=270),
    "mistral-tp": lambda: llama("MistralForCausalLM", "mistral", kv=8, sliding_window=16, layers=3, vocab=270),
    "qwen": lambda: qwen(),
    "qwen-plain": lambda: qwen(ntk=False, logn=False, theta=1e6),
    "qwen-wide": lambda: qwen(heads=2, inner=640),
    "qwen2": lambda: qwen2(dim=448, heads=14, kv=2, layers=3, vocab=261),
    "qwen2-tied": lambda: qwen2(dim=224, heads=7, kv=1, vocab=261, tied=True),
    "qwen2-window": lambda: qwen2(layers=3, use_sliding_window=True, sliding_window=16),
    "qwen2-tp": lambda: qwen2(inner=640),
    "qwen2-wide": lambda: qwen2(heads=4, kv=2, head_dim=64, inner=640),
    "qwen3": lambda: qwen3(tied=True),
    "qwen3-untied": lambda: qwen3(dim=192, kv=8, vocab=258),
    "qwen2_moe": lambda: qwen2_moe(),
    "qwen2_moe-renorm": lambda: qwen2_moe(expert=288, shared=320, renorm=True, top=2, experts=7),
    "qwen2_moe-mixed": lambda: qwen2_moe(layers=4, dense_layers=(1,), sparse_step=2, renorm=True),
    "chatglm": lambda: chatglm(),
    "chatglm-ratio": lambda: chatglm(heads=4, rope_ratio=50),
    "baichuan": lambda: baichuan(),
    "baichuan-5": lambda: baichuan(dim=160, heads=5),
    "baichuan-24": lambda: baichuan(dim=768, heads=24),
    "baichuan-first": lambda: baichuan(dim=64, heads=2, inner=96, vocab=64000),
    "baichuan-7b": lambda: baichuan(dim=4096, heads=32, inner=384, layers=1),
    # Inputs that are not multiples of 32 and heads of any even size; "odd8": multiples of 8, as words of 4 bits need.
    "llama-odd": lambda: llama(dim=45, heads=4, kv=2, head_dim=10, inner=43),
    "llama-odd8": lambda: llama(dim=200, heads=4, kv=4, head_dim=50, inner=136),
    "llama-172": lambda: llama(dim=64, heads=8, kv=4, head_dim=8, inner=172),  # as the smallest public llama has them
    "llama-250": lambda: llama(dim=44, heads=4, kv=1, head_dim=250, inner=45, mlp_bias=True, o_bias=True,
                               attention_bias=True, qkv_bias=True),
    "mistral-odd8": lambda: llama("MistralForCausalLM", "mistral", dim=136, heads=4, kv=4, head_dim=18, inner=40,
                                  sliding_window=16),
    "qwen-odd8": lambda: qwen(dim=168, heads=4, inner=104),
    "qwen2-odd8": lambda: qwen2(dim=136, heads=8, kv=2, head_dim=28, inner=88),
    "qwen3-odd8": lambda: qwen3(dim=136, heads=4, kv=4, head_dim=90, inner=104),
    "qwen2_moe-odd": lambda: qwen2_moe(dim=104, heads=4, kv=2, expert=43, shared=45),
    "qwen2_moe-odd8": lambda: qwen2_moe(dim=136, heads=4, kv=4, expert=40, shared=72),
    "qwen3_moe-odd8": lambda: qwen3_moe(dim=72, heads=4, kv=4, head_dim=34, expert=40),
    "chatglm-odd": lambda: chatglm(dim=200, heads=4, inner=172),
    "chatglm-odd8": lambda: chatglm(dim=168, heads=4, inner=136),
    "baichuan-odd": lambda: baichuan(dim=104, heads=4, inner=43),
    "baichuan-odd8": lambda: baichuan(dim=136, heads=4, inner=200),
}


def heads_of(config):
    """(query heads, kv heads, head dim) of a config of any family."""
    heads = config["num_attention_heads"]
    kv = config.get("multi_query_group_num") or config.get("num_key_value_heads") or heads
    head_dim = config.get("kv_channels") or config.get("head_dim") or config["hidden_size"] // heads
    return heads, kv, head_dim


def inner_of(config):
    """The least inner size of any feed-forward part: what down projections are cut along."""
    if config["model_type"] == "qwen":
        return config["intermediate_size"] // 2
    if "moe_intermediate_size" in config:
        sizes = [config[n] for n in ("moe_intermediate_size", "shared_expert_intermediate_size") if n in config]
        dense = config["mlp_only_layers"] or config["decoder_sparse_step"] > 1
        return min(sizes + [config["intermediate_size"]] * bool(dense))
    return config.get("ffn_hidden_size") or config["intermediate_size"]


def tp_kind(config, tp):
    """Whether a model "runs" at a tensor-parallel size or is "refused": since tp does not divide its heads, neither of tp
    and the kv heads divides the other, or it has fewer inner inputs than ranks."""
    heads, kv, _ = heads_of(config)
    return "refused" if heads % tp or (kv % tp and tp % kv) or inner_of(config) < tp else "runs"
