#!/usr/bin/env python3
"""The float64 models of numpy_models.py, and our engine where it is built, against llama.cpp: tiny GGUF files in every
block format, and, for the families that transformers does not have, Qwen, ChatGLM and Baichuan checkpoints converted to
float32 GGUF. Needs llama-cpp-python and gguf; run by hand, not by tools/check.

usage: llama_cpp_compare.py [--engine]

Prints a Markdown table of the largest |a - b| / largest |b| over all logits of two prompts, b being the float64
model's. llama.cpp has neither log-n attention nor Qwen's NTK, so Qwen is the variant without them; it decides on
Baichuan's kind by its layers (40: ALiBi, 32: rotary) and wants NormHead done beforehand.
"""
import sys
import tempfile
from pathlib import Path

import gguf
import llama_cpp
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.models import checkpoints, numpy_models, shapes, tiny_gguf  # noqa: E402

LENGTHS = (10, 45)
FILES = [(arch, mixture, tied) for arch, tied in (("llama", False), ("llama", True), ("qwen2", False))
         for mixture in tiny_gguf.MIXTURES]


def llama_logits(path, prompts):
    model = llama_cpp.Llama(str(path), n_ctx=256, n_threads=2, n_batch=256, logits_all=True, verbose=False,
                            type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32)
    rows = []
    for ids in prompts:
        model.reset()
        model.eval(ids)
        rows.append(np.array(model._scores[:len(ids)], dtype=np.float64))
    model.close()
    return rows


def difference(rows, truth):
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(rows, truth))


class Converter:
    """One float32 GGUF file of a checkpoint's float64 model."""

    def __init__(self, path, arch, model, n_vocab, inner):
        self.writer = writer = gguf.GGUFWriter(path, arch)
        writer.add_context_length(256)
        writer.add_embedding_length(model.embedding.shape[1])
        writer.add_block_count(len(model.layers))
        writer.add_feed_forward_length(inner)
        writer.add_head_count(model.n_heads)
        writer.add_head_count_kv(model.n_kv)
        writer.add_rope_dimension_count(model.rotary_dims)
        writer.add_rope_freq_base(model.theta)
        writer.add_layer_norm_rms_eps(model.eps)
        writer.add_vocab_size(n_vocab)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("default")
        tokens = sorted(checkpoints.tokenizer_json()["model"]["vocab"].items(), key=lambda item: item[1])
        writer.add_token_list([t for t, _ in tokens] + [f"[unused{i}]" for i in range(n_vocab - 256)])
        writer.add_token_types([1] * 256 + [5] * (n_vocab - 256))
        writer.add_token_merges(["t h"])
        self.add("token_embd.weight", model.embedding)
        self.add("output_norm.weight", model.final)
        self.add("output.weight", model.head)

    def add(self, name, values):
        self.writer.add_tensor(name, np.ascontiguousarray(values, dtype=np.float32))

    def linear(self, name, *parts):
        self.add(name + ".weight", np.concatenate([part.weight for part in parts]))
        if parts[0].bias is not None:
            self.add(name + ".bias", np.concatenate([part.bias for part in parts]))

    def close(self):
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def convert(path, arch, model, n_vocab):
    inner = len(model.layers[0].mlp.gate.weight)
    out = Converter(path, arch, model, n_vocab, 2 * inner if arch == "qwen" else inner)  # qwen halves it
    for i, layer in enumerate(model.layers):
        at = f"blk.{i}."
        out.add(at + "attn_norm.weight", layer.norm1)
        out.add(at + "ffn_norm.weight", layer.norm2)
        if arch == "baichuan":
            for name, part in (("q", layer.q), ("k", layer.k), ("v", layer.v)):
                rotated = model.layout == "half" and name != "v"  # as its converter does for the 7B kind
                weight = tiny_gguf.permuted(part.weight, model.n_heads) if rotated else part.weight
                out.linear(f"{at}attn_{name}", numpy_models.Linear(weight))
        else:
            out.linear(at + "attn_qkv", layer.q, layer.k, layer.v)
        out.linear(at + "attn_output", layer.o)
        if arch == "chatglm":
            out.linear(at + "ffn_up", layer.mlp.gate, layer.mlp.up)
        else:
            out.linear(at + "ffn_gate", layer.mlp.gate)
            out.linear(at + "ffn_up", layer.mlp.up)
        out.linear(at + "ffn_down", layer.mlp.down)
    out.close()


CONVERTED = {"qwen-plain": "qwen", "chatglm": "chatglm", "chatglm-ratio": "chatglm", "baichuan-40": "baichuan",
             "baichuan-40-five": "baichuan", "baichuan-32": "baichuan"}
shapes.VARIANTS["baichuan-40"] = lambda: shapes.baichuan(dim=192, heads=6, layers=40)
shapes.VARIANTS["baichuan-32"] = lambda: shapes.baichuan(dim=192, heads=6, layers=32)
shapes.VARIANTS["baichuan-40-five"] = lambda: shapes.baichuan(dim=160, heads=5, layers=40)


def main():
    engine = "--engine" in sys.argv
    if engine:
        from tests.models.engine import Engine
    print(f"llama-cpp-python {llama_cpp.__version__}\n")
    print("| model | format | llama.cpp |" + (" engine |" if engine else ""))
    print("|---|---|---|" + ("---|" if engine else ""), flush=True)
    for variant, arch in CONVERTED.items():
        with tempfile.TemporaryDirectory() as folder:
            config = checkpoints.write(Path(folder), variant, "f32")
            model, path = numpy_models.load(folder), Path(folder) / "model.gguf"
            if variant == "baichuan-32":  # llama.cpp tells the 7B kind by its layers, we by its width
                model.layout, model.slopes = "half", None
            convert(path, arch, model, len(model.embedding))
            prompts = [checkpoints.prompt_ids(config, n) for n in LENGTHS]
            truth = [model.logits(ids) for ids in prompts]
            line = f"| {variant} | f32 | {difference(llama_logits(path, prompts), truth):.1e} |"
            if engine and variant != "baichuan-32":
                flags = ("--backend", "cpu", "--kv-dtype", "f32")
                got = Engine(folder, len(model.embedding), *flags).all_logits(prompts)
                line += f" {difference(got, truth):.1e} |"
            print(line, flush=True)
    for arch, mixture, tied in FILES:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.gguf"
            tiny_gguf.write(path, mixture, arch, tied=tied)
            model = numpy_models.load_gguf(path)
            prompts = [checkpoints.prompt_ids({"vocab_size": tiny_gguf.N_VOCAB}, n) for n in LENGTHS]
            truth = [model.logits(ids) for ids in prompts]
            line = f"| gguf {arch}{', tied' if tied else ''} | {mixture} |"
            line += f" {difference(llama_logits(path, prompts), truth):.1e} |"
            if engine:
                flags = ("--kv-dtype", "f32") if mixture == "f32" else ()
                got = Engine(path, tiny_gguf.N_VOCAB, "--backend", "cpu", *flags).all_logits(prompts)
                line += f" {difference(got, truth):.1e} |"
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
