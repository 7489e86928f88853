#!/usr/bin/env python3
"""Broken checkpoint folders: `tandem-worker --dry-run` must end with 78, `tandem model info` with 1 or 78 where it reads
what is broken, both with the same words, and a load with 1, each with one line on standard error that names the tensor or
key, and the file where one is to blame; nothing may crash.

usage: broken_test.py [--only TEXT]
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "tests/e2e"))
from cluster import BIN, TOOLS  # noqa: E402
from tests.models.families_test import Lines  # noqa: E402  (ends the script where NumPy is missing)
import numpy as np  # noqa: E402
from tests.models import checkpoints  # noqa: E402

MAIN = "model.safetensors"
UP = "model.layers.1.mlp.up_proj.weight"


class Broken:
    """One way to break a folder.

    edit(config, tensors) before it is written, spoil(folder) after; names: what the line must hold ("a|b": one of the
    two: a key may go by the name of what is read from it). seen: which
    programs read what is broken: "plan" and "info" the config, sizes and headers, "load" the tensors' contents.
    """

    def __init__(self, name, names, edit=None, spoil=None, variant="llama", fmt="f16", seen="plan info load", shards=1):
        self.name, self.names, self.edit, self.spoil = name, names, edit, spoil
        self.variant, self.fmt, self.seen, self.shards = variant, fmt, seen.split(), shards

    def check(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "model"
            checkpoints.write(folder, self.variant, self.fmt, n_shards=self.shards, edit=self.edit)
            if self.spoil:
                self.spoil(folder)
            lines = [refusal(program, folder, self.names if program in self.seen else None)
                     for program in ("plan", "info", "load")]
            assert lines[0] == lines[1], f"two lines for one fault: {lines[:2]}"
            return next(line for line in reversed(lines) if line).replace(str(folder), "DIR")


COMMANDS = {"plan": ([BIN / "tandem-worker", "--dry-run", "--json", "--model"], (78,)),
            "info": ([BIN / "tandem", "model", "info"], (1, 78)),
            "load": ([TOOLS / "logits_cli"], (1, 78))}


def refusal(program, folder, names):
    """Runs it; with names it must refuse with one line that holds them all. Without, it may do either."""
    command, codes = COMMANDS[program]
    done = subprocess.run([*command, folder], capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
    text = done.stderr.decode(errors="replace")
    assert done.returncode in (0, *codes), f"{program}: exit {done.returncode}: {text[-300:]}"
    if names is None and done.returncode == 0:
        return None
    assert done.returncode != 0, f"{program} accepts it"
    assert text.count("\n") == 1 and text.endswith("\n"), f"{program}: not one line: {text[-500:]!r}"
    missing = [name for name in names or () if not any(word in text.lower() for word in name.lower().split("|"))]
    assert not missing, f"{program}: the line does not name {missing}: {text.strip()}"
    return text.strip()


# ---- ways to break ------------------------------------------------------------------------------------------------

def without(name):
    return lambda _, tensors: tensors.pop(name)


def replaced(name, value):
    def edit(_, tensors):
        tensors[name] = value(tensors[name])
    return edit


def configured(**values):
    return lambda config, _: config.update(values)


def unset(key):
    return lambda config, _: config.pop(key)


def quant_set(**values):
    return lambda config, _: config["quantization_config"].update(values)


def bytes_of(file, change):
    """change(bytes) -> bytes of one file of the folder."""
    def spoil(folder):
        path = folder / file
        path.write_bytes(change(path.read_bytes()))
    return spoil


def header(change, file=MAIN):
    """change(header) of a safetensors file; its data stay as they are."""
    def spoil(raw):
        size = struct.unpack("<Q", raw[:8])[0]
        fields = json.loads(raw[8:8 + size])
        text = change(fields) or json.dumps(fields).encode()
        return struct.pack("<Q", len(text)) + text + raw[8 + size:]
    return bytes_of(file, spoil)


def tensor(**values):
    """Fields of the header's entry for UP; callables take the old value."""
    def change(fields):
        for key, value in values.items():
            fields[UP][key] = value(fields[UP][key]) if callable(value) else value
    return header(change)


def dropped(fields):
    del fields[UP]["dtype"]


def doubled(fields):
    entry = json.dumps({UP: fields[UP]})[1:-1]
    return ("{" + entry + "," + json.dumps(fields)[1:]).encode()


def overlap(fields):
    begin, end = fields[UP]["data_offsets"]
    fields[UP]["data_offsets"] = [begin - 64, end - 64]


def no_file(*files):
    def spoil(folder):
        for file in files:
            (folder / file).unlink()
    return spoil


def pickled(folder):
    (folder / MAIN).rename(folder / "pytorch_model.bin")


def index(change):
    def spoil(raw):
        fields = json.loads(raw)
        change(fields)
        return json.dumps(fields).encode()
    return bytes_of("model.safetensors.index.json", spoil)


def map_to(file):
    return index(lambda fields: fields["weight_map"].__setitem__(UP, file))


def more_tokens(folder):
    path = folder / "tokenizer.json"
    fields = json.loads(path.read_text())
    fields["model"]["vocab"]["ab"] = 700
    fields["model"]["merges"].append("a b")
    path.write_text(json.dumps(fields))


def contradiction(**values):
    def spoil(folder):
        fields = {"bits": 4, "group_size": 32, "desc_act": False, "sym": True, **values}
        (folder / "quantize_config.json").write_text(json.dumps(fields))
    return spoil


def length(value):
    return bytes_of(MAIN, lambda raw: struct.pack("<Q", value) + raw[8:])


FILE_CASES = [
    Broken("header length absurd", [MAIN], spoil=length(1 << 60), seen="plan info load"),
    Broken("header length past the end", [MAIN], spoil=length(1 << 24), seen="plan info load"),
    Broken("header length zero", [MAIN], spoil=length(0), seen="plan info load"),
    Broken("empty file", [MAIN], spoil=bytes_of(MAIN, lambda raw: b""), seen="plan info load"),
    Broken("seven bytes", [MAIN], spoil=bytes_of(MAIN, lambda raw: raw[:7]), seen="plan info load"),
    Broken("cut in the header", [MAIN], spoil=bytes_of(MAIN, lambda raw: raw[:100]), seen="plan info load"),
    Broken("cut in the data", [MAIN], spoil=bytes_of(MAIN, lambda raw: raw[:-100]), seen="plan info load"),
    Broken("header not JSON", [MAIN], spoil=header(lambda _: b"{]" + b" " * 30), seen="plan info load"),
    Broken("header a list", [MAIN], spoil=header(lambda _: b"[]" + b" " * 30), seen="plan info load"),
    Broken("header deep", [MAIN], spoil=header(lambda _: b"[" * 100000), seen="plan info load"),
    Broken("name twice in a header", [MAIN], spoil=header(doubled), seen="plan info load"),
    Broken("offsets past the end", [UP, MAIN], spoil=tensor(data_offsets=[1 << 40, (1 << 40) + 196608]),
           seen="plan info load"),
    Broken("offsets reversed", [UP, MAIN], spoil=tensor(data_offsets=lambda o: o[::-1]), seen="plan info load"),
    Broken("offsets overlapping", [MAIN, "model."], spoil=header(overlap), seen="plan info load"),
    Broken("offsets negative", [UP, MAIN], spoil=tensor(data_offsets=[-8, 0]), seen="plan info load"),
    Broken("bytes unlike the shape", [UP, MAIN], spoil=tensor(shape=[383, 256]), seen="plan info load"),
    Broken("product that overflows", [UP, MAIN], spoil=tensor(shape=[1 << 40, 1 << 40]), seen="plan info load"),
    Broken("negative size", [UP, MAIN], spoil=tensor(shape=[-384, 256]), seen="plan info load"),
    Broken("size not a number", [UP, MAIN], spoil=tensor(shape=["384", 256]), seen="plan info load"),
    Broken("type unknown", [UP, MAIN, "F12"], spoil=tensor(dtype="F12"), seen="plan info load"),
    Broken("type missing", [UP, MAIN, "dtype"], spoil=header(dropped), seen="plan info load"),
    Broken("no tensors at all", ["safetensors"], spoil=no_file(MAIN), seen="plan info load"),
    Broken("pytorch_model.bin only", ["pytorch_model", "convert"], spoil=pickled, seen="plan info load"),
    Broken("missing shard", ["model-00002-of-00003.safetensors"], spoil=no_file("model-00002-of-00003.safetensors"),
           shards=3, seen="plan info load"),
    Broken("index names another shard", [UP], spoil=map_to("model-00001-of-00003.safetensors"), shards=3),
    Broken("index names a file elsewhere", ["model.safetensors.index.json"], spoil=map_to("../../etc/passwd"), shards=3,
           seen="plan info load"),
    Broken("index not JSON", ["model.safetensors.index.json"], shards=3, seen="plan info load",
           spoil=bytes_of("model.safetensors.index.json", lambda raw: raw[:-3])),
    Broken("index without a map", ["model.safetensors.index.json", "weight_map"], shards=3, seen="plan info load",
           spoil=index(lambda fields: fields.pop("weight_map"))),
]

TENSOR_CASES = [
    Broken("missing matrix", [UP], without(UP)),
    Broken("missing norm", ["model.layers.0.input_layernorm.weight"], without("model.layers.0.input_layernorm.weight")),
    Broken("missing embedding", ["model.embed_tokens.weight"], without("model.embed_tokens.weight")),
    Broken("missing head", ["lm_head.weight"], without("lm_head.weight")),
    Broken("missing bias", ["self_attn.k_proj.bias"], without("model.layers.2.self_attn.k_proj.bias"), variant="qwen2"),
    Broken("missing expert", ["model.layers.1.mlp.experts.7.down_proj.weight"],
           without("model.layers.1.mlp.experts.7.down_proj.weight"), variant="qwen2_moe"),
    Broken("wrong rows", [UP], replaced(UP, lambda w: w[:-1])),
    Broken("wrong columns", [UP], replaced(UP, lambda w: w[:, :-32])),
    Broken("transposed", [UP], replaced(UP, lambda w: w.T.copy())),
    Broken("three dimensions", [UP], replaced(UP, lambda w: w.reshape(2, 192, 256))),
    Broken("norm of another length", ["model.norm.weight"], replaced("model.norm.weight", lambda w: w[:-1])),
    Broken("fused rows missing", ["c_attn.weight"], replaced("transformer.h.0.attn.c_attn.weight", lambda w: w[:-256]),
           variant="qwen"),
    Broken("weights of integers", [UP, "I32"], replaced(UP, lambda w: np.zeros(w.shape, np.int32))),
    Broken("norm of integers", ["model.norm.weight", "I64"],
           replaced("model.norm.weight", lambda w: np.zeros(w.shape, np.int64))),
    Broken("fewer embedding rows than vocab_size", ["model.embed_tokens.weight"],
           replaced("model.embed_tokens.weight", lambda w: w[:250])),
    Broken("vocab_size larger than the tensors", ["model.embed_tokens.weight"], configured(vocab_size=300)),
    Broken("token of the base vocabulary past the embedding", ["700", "259 rows"], spoil=more_tokens, seen="plan info load"),
]

QKEY = "model.layers.0.self_attn.q_proj."
QUANT_CASES = [
    Broken("unknown method", ["quant_method", "quip"], quant_set(quant_method="quip"), fmt="awq-g32",
           seen="plan info load"),
    Broken("three bits", ["bits", "3"], quant_set(bits=3), fmt="gptq4-g32", seen="plan info load"),
    Broken("AWQ gemv", ["version", "gemv"], quant_set(version="gemv"), fmt="awq-g32", seen="plan info load"),
    Broken("group of 48", ["group_size|q_proj"], quant_set(group_size=48), fmt="gptq4-g32"),
    Broken("group of zero", ["group_size"], quant_set(group_size=0), fmt="awq-g32", seen="plan info load"),
    Broken("checkpoint_format unknown", ["checkpoint_format", "gptq_v9"], quant_set(checkpoint_format="gptq_v9"),
           fmt="gptq4-g32", seen="plan info load"),
    Broken("contradicting bits", ["quantize_config.json", "bits"], spoil=contradiction(bits=8), fmt="gptq4-g32",
           seen="plan info load"),
    Broken("contradicting group", ["quantize_config.json", "group_size"], spoil=contradiction(group_size=128),
           fmt="gptq4-g32", seen="plan info load"),
    Broken("quantize_config.json broken", ["quantize_config.json"], fmt="gptq4-g32-zeroidx", seen="plan info load",
           spoil=bytes_of("quantize_config.json", lambda raw: raw[:-4])),
    Broken("scales missing", [QKEY + "scales"], without(QKEY + "scales"), fmt="awq-g32"),
    Broken("zeros missing", [QKEY + "qzeros"], without(QKEY + "qzeros"), fmt="gptq4-g32"),
    Broken("scales too few", [QKEY + "scales"], replaced(QKEY + "scales", lambda s: s[:-1]), fmt="gptq4-g32"),
    Broken("zeros of another width", [QKEY + "qzeros"], replaced(QKEY + "qzeros", lambda z: z[:, :-1]), fmt="awq-g32"),
    Broken("words of floats", [QKEY + "qweight"], replaced(QKEY + "qweight", lambda q: q.view(np.float32)),
           fmt="gptq4-g32"),
    Broken("words of another shape", [QKEY + "qweight"], replaced(QKEY + "qweight", lambda q: q[:-1]), fmt="awq-g32"),
    Broken("g_idx too short", [QKEY + "g_idx"], replaced(QKEY + "g_idx", lambda g: g[:-8]), fmt="gptq4-g32-act"),
    Broken("g_idx past the groups", [QKEY + "g_idx"], replaced(QKEY + "g_idx", lambda g: g + 1), fmt="gptq4-g32-act",
           seen="load"),
    Broken("scales that F16 cannot hold", [QKEY[:-1], "65520", "f16"], fmt="gptq4-g32", seen="load",
           edit=replaced(QKEY + "scales", lambda s: np.where(np.arange(s.size).reshape(s.shape) == s.size - 1,
                                                             np.float32(65520), s.astype(np.float32)))),
    Broken("scales that are no number", [QKEY[:-1], "nan", "f16"], fmt="awq-g32", seen="load",
           edit=replaced(QKEY + "scales", lambda s: np.full(s.shape, np.nan, np.float32))),
    Broken("scales of integers", [QKEY + "scales", "I32"], replaced(QKEY + "scales", lambda s: s.astype(np.int32)),
           fmt="awq-g32"),
    Broken("wide g_idx past 32 bits", [QKEY + "g_idx"], fmt="gptq4-g32-act",
           edit=replaced(QKEY + "g_idx", lambda g: g.astype(np.int64) + (1 << 32))),
    Broken("g_idx negative", [QKEY + "g_idx"], replaced(QKEY + "g_idx", lambda g: g - 1), fmt="gptq4-g32-act",
           seen="load"),
]

_KEYS = {"llama": ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size",
                   "architectures"),
         "qwen": ("seq_length", "intermediate_size"),
         "qwen2_moe": ("num_experts_per_tok", "moe_intermediate_size"),
         "chatglm": ("num_layers", "multi_query_group_num", "ffn_hidden_size", "padded_vocab_size")}
CONFIG_CASES = [Broken(f"{variant} without {key}", [key, "config.json"], unset(key), variant=variant,
                       seen="plan info load") for variant, keys in _KEYS.items() for key in keys] + [
    Broken("config.json missing", ["config.json"], spoil=no_file("config.json"), seen="plan info load"),
    Broken("config.json empty", ["config.json"], spoil=bytes_of("config.json", lambda _: b""), seen="plan info load"),
    Broken("config.json cut", ["config.json"], spoil=bytes_of("config.json", lambda raw: raw[:-20]), seen="plan info load"),
    Broken("config.json a list", ["config.json"], spoil=bytes_of("config.json", lambda _: b"[1]"), seen="plan info load"),
    Broken("config.json deep", ["config.json"], spoil=bytes_of("config.json", lambda _: b'{"a":' * 50000),
           seen="plan info load"),
    *(Broken(f"{key} = {value}", [key, "config.json"], configured(**{key: value}), seen="plan info load")
      for key, value in (("hidden_size", "256"), ("hidden_size", -256), ("num_hidden_layers", 0),
                         ("num_hidden_layers", 1 << 40), ("num_attention_heads", 2.5), ("hidden_act", "gelu"),
                         ("rms_norm_eps", "small"), ("rope_theta", -1.0), ("vocab_size", 1 << 33))),
    *(Broken(f"heads of {n}", ["head_dim", f"is {n}: even sizes from 8 to 256", "config.json"], configured(head_dim=n),
             seen="plan info load") for n in (0, 6, 33, 258)),
    Broken("half a head of ChatGLM's", ["kv_channels", "is 255: even sizes", "config.json"], configured(kv_channels=255),
           variant="chatglm", seen="plan info load"),
    Broken("heads that do not divide", ["num_attention_heads", "config.json"], configured(num_attention_heads=7),
           seen="plan info load"),
    Broken("kv heads that do not divide", ["num_key_value_heads", "config.json"], configured(num_key_value_heads=3),
           seen="plan info load"),
    Broken("architecture unknown", ["architectures", "MambaForCausalLM"], configured(architectures=["MambaForCausalLM"]),
           seen="plan info load"),
    Broken("rope_scaling unknown", ["rope_scaling", "spiral"], configured(rope_scaling={"type": "spiral", "factor": 2.0}),
           seen="plan info load"),
    Broken("rope_scaling without a factor", ["factor"], configured(rope_scaling={"type": "linear"}),
           seen="plan info load"),
    Broken("chatglm with layer norms", ["rmsnorm"], configured(rmsnorm=False), variant="chatglm", seen="plan info load"),
    Broken("chatglm with biases", ["add_bias_linear"], configured(add_bias_linear=True), variant="chatglm",
           seen="plan info load"),
    Broken("more experts chosen than there are", ["num_experts_per_tok"], configured(num_experts_per_tok=9),
           variant="qwen2_moe", seen="plan info load"),
]


def sound(variant, fmt, shards):
    with tempfile.TemporaryDirectory() as scratch:
        checkpoints.write(scratch, variant, fmt, n_shards=shards)
        for program, (command, _) in COMMANDS.items():
            done = subprocess.run([*command, scratch], capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
            assert done.returncode == 0, f"{program}: exit {done.returncode}: {done.stderr.decode()[-300:]}"


def main():
    only = sys.argv[2] if sys.argv[1:2] == ["--only"] else ""
    tally = Lines()
    # What is broken below is refused for its fault only if the same folder passes without it.
    for variant, fmt, shards in (("llama", "f16", 1), ("llama", "f16", 3), ("llama", "awq-g32", 1),
                                 ("llama", "gptq4-g32", 1), ("llama", "gptq4-g32-act", 1), ("qwen", "f16", 1),
                                 ("qwen2", "f16", 1), ("qwen2_moe", "f16", 1), ("chatglm", "f16", 1),
                                 ("llama", "gptq4-g32-zeroidx", 1)):
        if not only:
            tally.run(f"sound {variant} {fmt} {shards}", sound, variant, fmt, shards)
    for case in FILE_CASES + TENSOR_CASES + QUANT_CASES + CONFIG_CASES:
        if case.name.startswith(only):
            tally.run(case.name, case.check)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
