#!/usr/bin/env python3
"""Writes a tiny random checkpoint of any family and format, as such checkpoints lie on the model hubs.

usage: checkpoints.py VARIANT FORMAT FOLDER [SEED]      (checkpoints.py --list names them)

A folder gets config.json, generation_config.json, a byte-level tokenizer.json, model.safetensors (or shards with their
index) and, where quantized, quantization_config in config.json or a file of its own.
"""
import json
import sys
import zlib
from pathlib import Path

try:
    import numpy as np
except ImportError:
    if __name__ != "__main__":
        raise
    sys.exit("error: checkpoints.py needs NumPy: apt-get install python3-numpy, or pip install numpy")

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.models import packing  # noqa: E402
from tests.models.packing import Quant  # noqa: E402
from tests.models.safetensors_file import Bf16, write_folder  # noqa: E402
from tests.models.shapes import VARIANTS, heads_of  # noqa: E402

FORMATS = {
    "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "awq-g32": Quant("awq", group=32), "awq-g64": Quant("awq", group=64), "awq-g128": Quant("awq", group=128),
    "awq-g32-file": Quant("awq", group=32, in_config=False), "awq-g-1": Quant("awq", group=-1),
    "gptq4-g32": Quant("gptq", group=32, sym=True), "gptq4-g64": Quant("gptq", group=64, sym=True),
    "gptq4-g128": Quant("gptq", group=128, sym=True), "gptq4-g-1": Quant("gptq", group=-1, sym=True),
    "gptq4-g32-asym": Quant("gptq", group=32), "gptq4-g32-v2": Quant("gptq", group=32, v2=True),
    "gptq4-g32-wrapped": Quant("gptq", group=32, wrapped=True),
    "gptq4-g32-noidx": Quant("gptq", group=32, sym=True, g_idx="absent"),
    "gptq4-g32-zeroidx": Quant("gptq", group=32, sym=True, g_idx="zero", in_config=False),
    "gptq4-g32-act": Quant("gptq", group=32, order="shared"),
    "gptq4-g32-act-own": Quant("gptq", group=32, order="own", in_config=False),
    "gptq4-g128-act": Quant("gptq", group=128, sym=True, order="shared"),
    "gptq4-g-1-act": Quant("gptq", group=-1, sym=True, order="shared"),
    "gptq8-g32": Quant("gptq", 8, 32, sym=True), "gptq8-g64": Quant("gptq", 8, 64),
    "gptq8-g128": Quant("gptq", 8, 128, sym=True), "gptq8-g-1": Quant("gptq", 8, -1, sym=True),
    "gptq8-g32-v2": Quant("gptq", 8, 32, v2=True), "gptq8-g32-act": Quant("gptq", 8, 32, order="shared"),
    "gptq8-g32-act-own": Quant("gptq", 8, 32, order="own", v2=True),
    "gptq8-g32-wrapped": Quant("gptq", 8, 32, wrapped=True),
}

# A chat format that needs no token but the tokenizer's bytes.
TEMPLATE = ("{% for message in messages %}{{ message.role + ': ' + message.content + '\\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}")


def random_tensor(tensor, config, rng):
    """float32 values of sizes that keep the stream near 1."""
    shape, values = tensor.shape, rng.standard_normal(tensor.shape)
    if tensor.kind == "zeros":
        return np.zeros(shape, dtype=np.float32)
    if tensor.kind == "norm":
        values = 1 + 0.2 * values
    elif tensor.kind == "bias":
        values = 0.3 * values
    elif tensor.kind == "embedding":
        values = (0.3 if config.get("tie_word_embeddings") else 1.0) * values
    elif tensor.kind == "head":
        values = 2 * values / np.sqrt(shape[1])
        if "Baichuan" in config["architectures"][0]:
            values = values * np.exp(0.5 * rng.standard_normal((shape[0], 1)))  # NormHead must matter
    else:
        values = 0.8 * values / np.sqrt(shape[1])  # 8-bit activations must not err by more than the tolerance
    return values.astype(np.float32)


def sixteen_bits(values, fmt):
    if fmt == "f32":
        return values
    return Bf16(values) if fmt == "bf16" else values.astype(np.float16)


def _order(quant, name, n_in, seed):
    """Act-order's column order. The calibration's inputs decide it, so that linears with one input share it."""
    if quant.order == "none":
        return None
    if quant.order == "shared":
        for names in (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"), ("w1", "w2")):
            for part in names[1:]:
                name = name.replace(part, names[0])
    return np.random.default_rng([seed, zlib.crc32(name.encode())]).permutation(n_in)


def quantized_linear(tensor, values, quant, rng, seed):
    prefix = tensor.name.removesuffix(".weight")
    index = packing.groups_of(tensor.shape[1], quant, _order(quant, prefix, tensor.shape[1], seed))
    q, scales, zeros = packing.quantize(values, quant, index, rng)
    if quant.method == "awq":
        parts = packing.pack_awq(q, scales, zeros)
    else:
        parts = packing.pack_gptq(q, scales, zeros, quant, index)
    return {f"{prefix}.{name}": part for name, part in parts.items()}


def make_tensors(config, specs, fmt, seed):
    rng = np.random.default_rng(seed)
    quant = FORMATS[fmt] if isinstance(FORMATS[fmt], Quant) else None
    tensors = {}
    for spec in specs:
        values = random_tensor(spec, config, rng)
        if quant and spec.kind == "linear":
            tensors.update(quantized_linear(spec, values, quant, rng, seed))
        else:
            tensors[spec.name] = sixteen_bits(values, "f16" if quant else fmt)
    return tensors


def quantization_config(quant):
    if quant.method == "awq":
        if not quant.in_config:
            return "quant_config.json", {"zero_point": True, "q_group_size": quant.group, "w_bit": quant.bits,
                                         "version": "GEMM"}
        return None, {"quant_method": "awq", "bits": quant.bits, "group_size": quant.group, "zero_point": True,
                      "version": "gemm", "modules_to_not_convert": None}
    fields = {"bits": quant.bits, "group_size": quant.group, "desc_act": quant.order != "none", "sym": quant.sym,
              "static_groups": False, "true_sequential": True, "damp_percent": 0.01}
    if quant.v2:
        fields["checkpoint_format"] = "gptq_v2"
    elif quant.bits == 8:
        fields["checkpoint_format"] = "gptq"
    if not quant.in_config:
        return "quantize_config.json", fields
    return None, {"quant_method": "gptq", **fields}


def tokenizer_json():
    """One token per byte in GPT-2's alphabet, and <|endoftext|> as 256."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    spelled = {b: chr(b) for b in shown} | {b: chr(256 + i) for i, b in enumerate(hidden)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": 256, "content": "<|endoftext|>", **flags}], "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {spelled[b]: b for b in range(256)}, "merges": []}}


def write(folder, variant, fmt, seed=1, n_shards=1, edit=None):
    """Makes the folder's files; edit(config, tensors) may change both before they are written. Returns the config."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config, specs = VARIANTS[variant]()
    tensors = make_tensors(config, specs, fmt, seed)
    config["transformers_version"] = "4.51.3"
    if config["model_type"] != "qwen":  # Qwen-1's configs name no type
        config["torch_dtype"] = FORMATS[fmt] if fmt in ("f32", "f16", "bf16") else "float16"
    if isinstance(FORMATS[fmt], Quant):
        file, fields = quantization_config(FORMATS[fmt])
        if file:
            (folder / file).write_text(json.dumps(fields, indent=2))
        else:
            config["quantization_config"] = fields
    if edit:
        edit(config, tensors)
    stop = 2 if config["model_type"] in ("chatglm", "baichuan") else 256
    generation = {"eos_token_id": [stop, 3], "pad_token_id": 0, "do_sample": False}
    texts = {"eos_token": "<|endoftext|>", "add_bos_token": False, "chat_template": TEMPLATE}
    for name, value in (("config", config), ("generation_config", generation), ("tokenizer", tokenizer_json()),
                        ("tokenizer_config", texts)):
        (folder / f"{name}.json").write_text(json.dumps(value, indent=2))
    write_folder(folder, tensors, n_shards)
    return config


def prompt_ids(config, n, seed=1):
    n_vocab = config.get("vocab_size") or config["padded_vocab_size"]
    return np.random.default_rng([seed, n]).integers(0, n_vocab, n).tolist()


def main():
    if sys.argv[1:2] == ["--list"]:
        print("variants:", *VARIANTS)
        print("formats:", *FORMATS)
        return 0
    if len(sys.argv) not in (4, 5):
        print(__doc__.splitlines()[2], file=sys.stderr)
        return 2
    config = write(sys.argv[3], sys.argv[1], sys.argv[2], int(sys.argv[4]) if len(sys.argv) == 5 else 1)
    print(json.dumps({"heads": heads_of(config), "prompt": prompt_ids(config, 12)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
