#!/usr/bin/env python3
"""Writes tiny random GGUF files with the `gguf` package, in every block format: architectures llama (rows of q and k
permuted, as its converter does) and qwen2 (not permuted, with biases).

usage: tiny_gguf.py MIXTURE FILE [llama|qwen2] [SEED]     (tiny_gguf.py --list names the mixtures)

K-quant blocks, which the package cannot make, are random bits with scales of a sensible size; every bit pattern in
them is valid. The package reads all formats back and is the reference for their meaning.
"""
import sys
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.models.checkpoints import tokenizer_json  # noqa: E402

N_VOCAB = 261
# The format of most matrices, then exceptions by name; heads times head_dim and the inner size are whole blocks of 256.
MIXTURES = {name.lower(): {"": Type[name]} for name in
            ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")}
MIXTURES["q4_k_m"] = {"": Type.Q4_K, "attn_v": Type.Q6_K, "ffn_down": Type.Q6_K, "output": Type.Q6_K,
                      "token_embd": Type.Q4_K}
MIXTURES["q5_k_m"] = {"": Type.Q5_K, "attn_v": Type.Q6_K, "ffn_down": Type.Q6_K, "token_embd": Type.Q5_K}
MIXTURES["q4_1-q8_0"] = {"": Type.Q4_1, "token_embd": Type.Q8_0}
MIXTURES["legacy"] = {"": Type.Q5_1, "attn_q": Type.Q4_0, "attn_v": Type.Q8_0, "ffn_gate": Type.Q5_0,
                      "ffn_down": Type.Q4_1, "attn_output": Type.F16, "token_embd": Type.F16}


def k_blocks(kind, n_rows, n_in, spread, rng):
    """(n_rows, bytes) of random K-quant blocks whose values have about this spread."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    rows = rng.integers(0, 256, (n_rows * n_in // block, size), dtype=np.uint8)
    half = lambda value: np.frombuffer((np.ones(len(rows)) * value * rng.uniform(0.7, 1.3, len(rows)))
                                       .astype("<f2").tobytes(), dtype=np.uint8).reshape(-1, 2)
    if kind == Type.Q6_K:  # 128 low bits, 64 high bits, 16 signed scales, d
        rows[:, 192:208] = rng.integers(-31, 32, (len(rows), 16), dtype=np.int8).view(np.uint8)
        rows[:, 208:210] = half(spread / 330)
    else:  # d, dmin, 12 bytes of six-bit scales and minima, then the values
        middle, deviation = (7.5, 4.6) if kind == Type.Q4_K else (15.5, 9.2)
        d = spread / (deviation * 36)
        # Bytes 4..7 hold scales, 8..11 minima, 12..15 four bits of each: minima near their scales centre the values.
        noise = rng.integers(0, 8, (len(rows), 4), dtype=np.uint8)
        rows[:, 8:12] = rows[:, 4:8] ^ noise
        rows[:, 12:16] = (rows[:, 12:16] & 15) * 17 ^ noise >> 1
        rows[:, 0:2], rows[:, 2:4] = half(d), half(d * middle)
    return rows.reshape(n_rows, -1)


def quantized(values, kind, spread, rng):
    if kind in (Type.Q4_K, Type.Q5_K, Type.Q6_K):
        return k_blocks(kind, *values.shape, spread, rng)
    return gguf.quants.quantize(values, kind)


def permuted(weight, n_heads):
    """Per head, row i of the half-split order goes to 2i, row i + D/2 to 2i + 1."""
    return weight.reshape(n_heads, 2, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def write(path, mixture, arch="llama", seed=1, dim=None, heads=4, kv=2, head_dim=128, inner=768, layers=2, tied=False,
          adds_ends=False, **parts):
    """heads * head_dim and inner may be cut in two and in three whole blocks of 256; `parts`: how the package splits the file."""
    rng, kinds = np.random.default_rng(seed), MIXTURES[mixture]
    dim = dim or (256 if arch == "llama" else heads * head_dim)  # llama.cpp's qwen2 knows no other width
    writer = gguf.GGUFWriter(path, arch, **parts)
    writer.add_context_length(256)
    writer.add_embedding_length(dim)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(10000.0 if arch == "llama" else 1e6)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(N_VOCAB)
    tokens = [text for text, _ in sorted(tokenizer_json()["model"]["vocab"].items(), key=lambda item: item[1])]
    tokens += ["<|endoftext|>", "th"] + [f"[unused{i}]" for i in range(N_VOCAB - 258)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm" if arch == "llama" else "qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * 256 + [3, 1] + [5] * (N_VOCAB - 258))
    writer.add_token_merges(["t h"])
    writer.add_eos_token_id(256)
    writer.add_bos_token_id(256)
    writer.add_add_bos_token(adds_ends)
    writer.add_add_eos_token(adds_ends)

    def matrix(name, n_out, n_in, gain=1.0, permute=0):
        kind = next((k for part, k in kinds.items() if part and part in name), kinds[""])
        spread = gain / np.sqrt(n_in)
        values = (spread * rng.standard_normal((n_out, n_in))).astype(np.float32)
        data = quantized(permuted(values, permute) if permute else values, kind, spread, rng)
        writer.add_tensor(name, data, raw_dtype=kind)

    def vector(name, values):
        writer.add_tensor(name, values.astype(np.float32))

    matrix("token_embd.weight", N_VOCAB, dim, (0.25 if tied else 1) * np.sqrt(dim))
    vector("output_norm.weight", 1 + 0.2 * rng.standard_normal(dim))
    if not tied:
        matrix("output.weight", N_VOCAB, dim, 2)
    for i in range(layers):
        at = f"blk.{i}."
        for name in ("attn_norm", "ffn_norm"):
            vector(f"{at}{name}.weight", 1 + 0.2 * rng.standard_normal(dim))
        llama = arch == "llama"
        for name, n in (("q", heads), ("k", kv), ("v", kv)):
            matrix(f"{at}attn_{name}.weight", n * head_dim, dim, 1, n if llama and name != "v" else 0)
            if not llama:
                vector(f"{at}attn_{name}.bias", 0.3 * rng.standard_normal(n * head_dim))
        matrix(at + "attn_output.weight", dim, heads * head_dim)
        matrix(at + "ffn_gate.weight", inner, dim)
        matrix(at + "ffn_up.weight", inner, dim)
        matrix(at + "ffn_down.weight", dim, inner)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    if sys.argv[1:2] == ["--list"]:
        print(*MIXTURES)
        return 0
    if len(sys.argv) not in (3, 4, 5):
        print(__doc__.splitlines()[3], file=sys.stderr)
        return 2
    write(sys.argv[2], sys.argv[1], *sys.argv[3:4], seed=int(sys.argv[4]) if len(sys.argv) == 5 else 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
