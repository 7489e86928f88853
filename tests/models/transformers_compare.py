#!/usr/bin/env python3
"""The float64 models of numpy_models.py, and our engine where it is built, against Hugging Face transformers (float32 on
the CPU) on the same tiny checkpoints. Needs torch and transformers (about 5 GB); run by hand, not by tools/check.

usage: transformers_compare.py [--engine] [--only TEXT]

Prints a Markdown table: family, format, largest |a - b| / largest |b| over all logits of three prompts. For quantized
checkpoints transformers gets the weights that our formulas give back, so that it judges the network and not the packing
(packing_compare.py judges that).
"""
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.models import checkpoints, numpy_models  # noqa: E402
from tests.models.safetensors_file import write_folder  # noqa: E402

CASES = [(variant, fmt) for variant in checkpoints.VARIANTS
         if not variant.startswith(("qwen-", "chatglm", "baichuan")) and variant != "qwen"
         for fmt in ("f32", "bf16")] + [
    ("llama", "awq-g128"), ("llama", "gptq4-g32-act"), ("llama", "gptq4-g32-wrapped"), ("mistral", "awq-g64"),
    ("qwen2-tp", "gptq8-g128"), ("qwen2-tp", "awq-g128"), ("qwen3", "gptq4-g32"), ("qwen2_moe", "gptq4-g32")]
LENGTHS = (9, 45, 90)


def dequantized(folder, target):
    """The same checkpoint with float32 weights, for a reader that knows no quantization."""
    file = numpy_models.Checkpoint(folder)
    prefixes = {n.rsplit(".", 1)[0] for n in file.tensors if n.endswith(".qweight")}
    tensors = {n: t.astype(np.float32) for n, t in file.tensors.items() if n.rsplit(".", 1)[0] not in prefixes}
    for prefix in prefixes:
        linear = file.linear(prefix)
        tensors[prefix + ".weight"] = linear.weight.astype(np.float32)
        if linear.bias is not None:
            tensors[prefix + ".bias"] = linear.bias.astype(np.float32)
    config = {k: v for k, v in file.config.items() if k != "quantization_config"}
    target.mkdir()
    (target / "config.json").write_text(json.dumps(config))
    write_folder(target, tensors)


def reference(folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32,
                                                              attn_implementation="eager")
    return model.eval()


def reference_logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].double().numpy()


def engine_truth(model, config, prompts, truth):
    """What our engine's logits are compared with: the same, but for dynamic scaling. Past the original context it takes
    the longest length at once, where transformers takes the prompt's: there a prompt is filled up to that length,
    and later tokens change nothing else of the rows before them."""
    scaling = config.get("rope_scaling") or {}
    if scaling.get("rope_type", scaling.get("type")) != "dynamic":
        return truth
    original = config["max_position_embeddings"]
    longest = int(original * scaling["factor"])
    return [reference_logits(model, ids + ids[:1] * (longest - len(ids)))[:len(ids)] if len(ids) > original else row
            for ids, row in zip(prompts, truth)]


def difference(ours, theirs):
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def main():
    transformers.logging.set_verbosity_error()
    engine = "--engine" in sys.argv
    if engine:
        from tests.models.engine import Engine, n_vocab_of
    print(f"transformers {transformers.__version__}, torch {torch.__version__}\n")
    print("| model | format | float64 model |" + (" engine |" if engine else ""))
    print("|---|---|---|" + ("---|" if engine else ""), flush=True)
    worst = 0.0
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    for variant, fmt in CASES:
        if not variant.startswith(only):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "model"
            config = checkpoints.write(folder, variant, fmt)
            dequantized(folder, Path(scratch) / "plain")
            theirs, ours = reference(Path(scratch) / "plain"), numpy_models.load(folder)
            prompts = [checkpoints.prompt_ids(config, n) for n in LENGTHS]
            truth = [reference_logits(theirs, ids) for ids in prompts]
            error = max(difference(ours.logits(ids), row) for ids, row in zip(prompts, truth))
            line = f"| {variant} | {fmt} | {error:.1e} |"
            worst = max(worst, error)
            if engine:
                flags = ("--kv-dtype", "f32") if fmt == "f32" else ()
                got = Engine(folder, n_vocab_of(config), "--backend", "cpu", *flags).all_logits(prompts)
                asked = engine_truth(theirs, config, prompts, truth)
                line += f" {max(difference(a, b) for a, b in zip(got, asked)):.1e} |"
            print(line, flush=True)
    print(f"\nfloat64 model, worst: {worst:.1e}")
    return 1 if worst > 1e-4 else 0


if __name__ == "__main__":
    sys.exit(main())
