"""config.json of the models behind the published reference results: shapes as their publishers give them.

usage: reference.py NAME FOLDER [--layers N] [--vocab N] [--experts N]   (reference.py --list names them)

With the options the config is cut down, so that a machine without their memory can hold it.
"""
import json
import sys
from pathlib import Path

_QWEN2_72B = dict(
    architectures=["Qwen2ForCausalLM"], model_type="qwen2", attention_dropout=0.0, bos_token_id=151643,
    eos_token_id=151645, hidden_act="silu", hidden_size=8192, initializer_range=0.02, intermediate_size=29568,
    max_position_embeddings=32768, max_window_layers=80, num_attention_heads=64, num_hidden_layers=80,
    num_key_value_heads=8, rms_norm_eps=1e-06, rope_theta=1000000.0, sliding_window=131072,
    tie_word_embeddings=False, torch_dtype="bfloat16", use_cache=True, use_sliding_window=False, vocab_size=152064)

_AWQ = dict(bits=4, group_size=128, modules_to_not_convert=None, quant_method="awq", version="gemm", zero_point=True)


def _gptq(bits, **more):
    return dict(bits=bits, group_size=128, damp_percent=0.1, desc_act=False, static_groups=False, sym=True,
                true_sequential=True, quant_method="gptq", **more)


# name -> (config, the sizes of tensor-parallel groups that its heads allow)
CONFIGS = {
    "Mistral-7B-OpenOrca-AWQ": (dict(
        architectures=["MistralForCausalLM"], model_type="mistral", bos_token_id=1, eos_token_id=32000,
        hidden_act="silu", hidden_size=4096, intermediate_size=14336, max_position_embeddings=32768,
        num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=8, rms_norm_eps=1e-05, rope_theta=10000.0,
        sliding_window=4096, tie_word_embeddings=False, torch_dtype="float16", vocab_size=32002,
        quantization_config=_AWQ), (1, 2, 4, 8)),
    "Baichuan2-13B-Chat-GPTQ-Int4": (dict(
        architectures=["BaichuanForCausalLM"], model_type="baichuan", bos_token_id=1, eos_token_id=2,
        hidden_act="silu", hidden_size=5120, intermediate_size=13696, model_max_length=4096, num_attention_heads=40,
        num_hidden_layers=40, pad_token_id=0, rms_norm_eps=1e-06, tie_word_embeddings=False, torch_dtype="float16",
        vocab_size=125696, z_loss_weight=0, quantization_config=_gptq(4)), (1, 2, 4, 8)),
    "Qwen-14B-Chat": (dict(
        architectures=["QWenLMHeadModel"], model_type="qwen", attn_dropout_prob=0.0, bf16=False, fp16=False, fp32=False,
        emb_dropout_prob=0.0, hidden_size=5120, initializer_range=0.02, intermediate_size=27392, kv_channels=128,
        layer_norm_epsilon=1e-06, max_position_embeddings=8192, no_bias=True, num_attention_heads=40,
        num_hidden_layers=40, onnx_safe=None, rotary_emb_base=10000, rotary_pct=1.0, scale_attn_weights=True,
        seq_length=2048, tie_word_embeddings=False, tokenizer_class="QWenTokenizer", use_cache=True,
        use_dynamic_ntk=True, use_flash_attn="auto", use_logn_attn=True, vocab_size=152064), (1, 2, 4, 8)),
    "ChatGLM3-6B": (dict(
        architectures=["ChatGLMModel"], model_type="chatglm", add_bias_linear=False, add_qkv_bias=True,
        apply_query_key_layer_scaling=True, apply_residual_connection_post_layernorm=False, attention_dropout=0.0,
        attention_softmax_in_fp32=True, bias_dropout_fusion=True, ffn_hidden_size=13696, fp32_residual_connection=False,
        hidden_dropout=0.0, hidden_size=4096, kv_channels=128, layernorm_epsilon=1e-05, multi_query_attention=True,
        multi_query_group_num=2, num_attention_heads=32, num_layers=28, original_rope=True, padded_vocab_size=65024,
        post_layer_norm=True, rmsnorm=True, seq_length=8192, use_cache=True, torch_dtype="float16",
        tie_word_embeddings=False, eos_token_id=2, pad_token_id=0), (1, 2, 4, 8)),
    "Qwen2-57B-A14B-Instruct": (dict(
        architectures=["Qwen2MoeForCausalLM"], model_type="qwen2_moe", attention_dropout=0.0, bos_token_id=151643,
        eos_token_id=151645, decoder_sparse_step=1, hidden_act="silu", hidden_size=3584, intermediate_size=18944,
        max_position_embeddings=32768, max_window_layers=28, moe_intermediate_size=2560, norm_topk_prob=False,
        num_attention_heads=28, num_experts=64, num_experts_per_tok=8, num_hidden_layers=28, num_key_value_heads=4,
        output_router_logits=False, rms_norm_eps=1e-06, rope_theta=1000000.0, router_aux_loss_coef=0.001,
        shared_expert_intermediate_size=20480, sliding_window=65536, tie_word_embeddings=False, torch_dtype="bfloat16",
        use_cache=True, use_sliding_window=False, vocab_size=151936), (1, 2, 4)),
    "Qwen2-72B-Instruct": (_QWEN2_72B, (1, 2, 4, 8)),
    "Qwen2-72B-Instruct-AWQ": (dict(_QWEN2_72B, intermediate_size=29696, torch_dtype="float16",
                                    quantization_config=_AWQ), (1, 2, 4, 8)),
    "Qwen2-72B-Instruct-GPTQ-Int8": (dict(_QWEN2_72B, intermediate_size=29696, torch_dtype="float16",
                                          quantization_config=_gptq(8)), (1, 2, 4, 8)),
}


def cut(config, layers=None, vocab=None, experts=None):
    """The config with fewer layers, tokens, experts. Ids beyond the vocabulary go with their tokens."""
    config = dict(config)
    if layers:
        config["num_layers" if "num_layers" in config else "num_hidden_layers"] = layers
        if "max_window_layers" in config:
            config["max_window_layers"] = layers
    if vocab:
        config["padded_vocab_size" if "padded_vocab_size" in config else "vocab_size"] = vocab
        for key in ("bos_token_id", "eos_token_id"):
            if config.get(key, 0) >= vocab:
                config[key] = vocab - 1
    if experts and "num_experts" in config:
        config["num_experts"] = experts
    return config


def write(name, folder, **cuts):
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / "config.json").write_text(json.dumps(cut(CONFIGS[name][0], **cuts), indent=2))


def main():
    args = sys.argv[1:]
    if args == ["--list"]:
        return print("\n".join(CONFIGS))
    if len(args) < 2 or args[0] not in CONFIGS or len(args) % 2:
        sys.exit(__doc__)
    write(args[0], args[1], **{key[2:]: int(value) for key, value in zip(args[2::2], args[3::2])})


if __name__ == "__main__":
    main()
