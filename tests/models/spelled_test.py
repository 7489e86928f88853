#!/usr/bin/env python3
"""One model in two spellings: what a folder's files say in another way must give the same greedy ids, to the bit where
the numbers are the same, and what contradicts them others.

usage: spelled_test.py [--only TEXT]
"""
import copy
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "tests/e2e"))
from cluster import BIN  # noqa: E402
from tests.models.families_test import Lines  # noqa: E402  (ends the script where NumPy is missing)
import numpy as np  # noqa: E402
from tests.models import checkpoints  # noqa: E402
from tests.models.engine import Engine, n_vocab_of  # noqa: E402
from tests.models.safetensors_file import Bf16  # noqa: E402
from tests.models.shapes import Tensor  # noqa: E402

HEADS = {"chatglm": ("transformer.embedding.word_embeddings.weight", "transformer.output_layer.weight"),
         "qwen": ("transformer.wte.weight", "lm_head.weight")}


class Spelled:
    """A variant and format, plain and edited: the answers are equal, or not.

    plain and edited(config, tensors) change the checkpoint before it is written.
    """

    def __init__(self, name, variant, fmt, edited, plain=None, same=True, tp=1, shards=1):
        self.name, self.variant, self.fmt, self.edits = f"{name}/{variant}/{fmt}/tp{tp}", variant, fmt, (plain, edited)
        self.same, self.tp, self.shards = same, tp, shards

    def check(self):
        with tempfile.TemporaryDirectory() as scratch:
            plain, edited = (self.answer(Path(scratch) / str(i), edit) for i, edit in enumerate(self.edits))
        rows = all(np.array_equal(a.rows, b.rows) for a, b in zip(plain, edited))
        assert rows == self.same, f"logits are {'the same' if rows else 'others'}"
        if self.same:
            assert [a.greedy for a in plain] == [b.greedy for b in edited], "greedy ids differ"
        return None

    def answer(self, folder, edit):
        config = checkpoints.write(folder, self.variant, self.fmt, n_shards=self.shards, edit=edit)
        prompts = [checkpoints.prompt_ids(config, n) for n in (7, 21)]
        flags = ["--backend", "cpu", "--threads", 1] + (["--tp", self.tp] if self.tp > 1 else [])
        return Engine(folder, n_vocab_of(config), *flags).answers(prompts, 8)


# ---- a head beside tie_word_embeddings ----------------------------------------------------------------------------

def head_names(config):
    return HEADS.get(config["model_type"], ("model.embed_tokens.weight", "lm_head.weight"))


def tied(make):
    """tie_word_embeddings is true, and make(embedding) is the head; None: there is none."""
    def edit(config, tensors):
        embedding, head = head_names(config)
        config["tie_word_embeddings"] = True
        tensors.pop(head, None)
        if make:
            tensors[head] = make(tensors[embedding])
    return edit


def untied(make):
    def edit(config, tensors):
        tied(make)(config, tensors)
        config["tie_word_embeddings"] = False
    return edit


def negated(embedding):
    if not isinstance(embedding, Bf16):
        return -embedding
    head = copy.copy(embedding)
    head.bits = embedding.bits ^ 0x8000
    return head


def last_changed(embedding):
    head = embedding.copy()
    head[-1, -1] += 1
    return head


def kept(config, tensors):
    """The checkpoint's own head, which the config then denies."""
    config["tie_word_embeddings"] = True


FAMILIES = [("llama", "f16"), ("mistral", "f32"), ("qwen", "f32"), ("qwen2-tied", "f32"), ("qwen3", "bf16"),
            ("qwen2_moe", "f16"), ("qwen3_moe-odd8", "f32"), ("chatglm", "f16"), ("baichuan", "f32"),
            ("baichuan-24", "f16")]
HEAD_CASES = [
    *(Spelled("an equal head is tied", v, f, tied(lambda e: e), tied(None)) for v, f in FAMILIES),
    *(Spelled("another head is used", v, f, tied(negated), untied(negated)) for v, f in FAMILIES),
    *(Spelled("another head differs", v, f, tied(negated), tied(None), same=False) for v, f in FAMILIES),
    Spelled("one number makes another head", "qwen2-tied", "f32", tied(last_changed), untied(last_changed)),
    Spelled("another head is used", "qwen2-tied", "f32", tied(negated), untied(negated), shards=3),
    Spelled("an equal head is tied", "qwen2-tied", "f32", tied(lambda e: e), tied(None), shards=3),
    Spelled("another head is used", "qwen2-tp", "gptq4-g32", kept, tp=2),
    Spelled("another head is used", "qwen2-tp", "awq-g32", kept, tp=4),
    Spelled("another type is another head", "llama", "f16", tied(lambda e: -e.astype(np.float32)),
            untied(lambda e: -e.astype(np.float32))),
]

def quantized_head(is_tied):
    def edit(config, tensors):  # the words of a quantized head hold eight rows each
        embedding = head_names(config)[0]
        rows = -(-config["vocab_size"] // 8) * 8
        tensors[embedding] = np.resize(tensors[embedding], (rows, tensors[embedding].shape[1]))
        config["vocab_size"] = rows
        tied(negated)(config, tensors)
        config["tie_word_embeddings"] = is_tied
        head = tensors.pop("lm_head.weight").astype(np.float32)
        tensors.update(checkpoints.quantized_linear(Tensor("lm_head.weight", head.shape, "linear"), head,
                                                    checkpoints.FORMATS["gptq4-g32"], np.random.default_rng(3), 1))
    return edit


HEAD_CASES += [Spelled("a quantized head is another head", "qwen2-tp", "gptq4-g32", quantized_head(True),
                       quantized_head(False), tp=tp) for tp in (1, 2)]


def said_of(folder, *flags):
    """What a worker logs until it is ready."""
    command = [BIN / "tandem-worker", "--model", folder, "--name", "w", "--threads", "1", "--routers", f"ipc://{folder}/r",
               "--endpoint", f"ipc://{folder}/c", "--kv-endpoint", f"ipc://{folder}/k", "--kv-blocks", "16", *flags]
    lines = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as worker:
        for line in worker.stderr:
            lines.append(line)
            if "worker ready" in line:
                worker.terminate()
    return lines


def a_head_is_warned_of_once():
    with tempfile.TemporaryDirectory() as folder:
        for make, n in ((negated, 1), (lambda e: e, 0), (None, 0)):
            checkpoints.write(folder, "qwen2-tied", "f32", edit=tied(make))
            for flags in ((), ("--tp", "2")):
                lines = [line for line in said_of(folder, *flags) if "level=warn" in line and "head" in line]
                assert len(lines) == n and all("lm_head.weight is not the embedding" in line for line in lines), lines
            info, doctor = (subprocess.run([BIN / "tandem", *words, folder], capture_output=True, text=True).stdout
                            for words in (("model", "info"), ("doctor",)))
            assert ("tied to the embedding" in info) == (n == 0) and ("lm_head.weight" in info) == (n == 1), info
            assert doctor.count("lm_head.weight") == n, doctor


# ---- symmetric GPTQ -------------------------------------------------------------------------------------------------

def zeros_are(word, **fields):
    """The words of the zero points, and members of quantization_config."""
    def edit(config, tensors):
        config["quantization_config"].update(fields)
        for name in tensors if word is not None else ():
            if name.endswith(".qzeros"):
                tensors[name] = np.full_like(tensors[name], np.uint32(word).astype(np.int32))
    return edit


SYM_CASES = [
    Spelled("zeros of a symmetric file are not read", variant, fmt, zeros_are(word, **fields), tp=tp)
    for variant, fmt, word, fields, tp in (
        ("qwen2-tp", "gptq4-g32", 0x88888888, {}, 1), ("qwen2-tp", "gptq4-g32", 0x88888888, {}, 2),
        ("qwen2-tp", "gptq4-g32", 0x88888888, {"checkpoint_format": "gptq"}, 1),
        ("qwen2-tp", "gptq4-g32", 0x77777777, {"checkpoint_format": "gptq_v2"}, 1),
        ("qwen2-tp", "gptq4-g32", 0x88888888, {"checkpoint_format": "gptq_v2"}, 1),
        ("llama", "gptq4-g128-act", 0x88888888, {}, 1), ("llama", "gptq4-g-1-act", 0x12345678, {}, 1),
        ("llama", "gptq8-g32", 0x80808080, {}, 1), ("llama", "gptq8-g128", 0x80808080, {"checkpoint_format": "gptq_v2"}, 1),
        ("qwen3-untied", "gptq8-g32", 0, {}, 1), ("qwen2_moe", "gptq4-g32", 0xFFFFFFFF, {}, 1),
        ("chatglm", "gptq4-g32", 0x88888888, {}, 1), ("baichuan-odd8", "gptq4-g32", 0x88888888, {}, 1))]
SYM_CASES += [
    Spelled("zeros of other files are read", variant, fmt, zeros_are(word, **fields), same=False)
    for variant, fmt, word, fields in (
        ("qwen2-tp", "gptq4-g32", 0x88888888, {"sym": False}), ("llama", "gptq8-g32", 0x80808080, {"sym": None}),
        ("llama", "gptq4-g32-asym", 0x77777777, {}), ("llama", "gptq4-g32-v2", None, {"sym": True}))]


def odd_zeros_of_a_symmetric_file_are_warned_of_once():
    with tempfile.TemporaryDirectory() as folder:
        for word, n in ((0x77777777, 0), (0x88888888, 0), (0x12345678, 1)):
            checkpoints.write(folder, "qwen2-tp", "gptq4-g32", edit=zeros_are(word))
            lines = [line for line in said_of(folder, "--tp", "2") if "level=warn" in line and "zero points" in line]
            assert len(lines) == n and all("tensor=" in line and " sym" in line for line in lines), lines


# ---- other words of quantization_config ----------------------------------------------------------------------------

def quant_set(**fields):
    return lambda config, _: config["quantization_config"].update(fields)


SKIPS = {"-:.*mlp.gate": {}, "+:.*": {"bits": 4, "group_size": 32}}
WORD_CASES = [
    Spelled("dynamic that only skips", "qwen2_moe", "gptq4-g32", quant_set(dynamic=SKIPS)),
    *(Spelled("auto-round's packings", variant, fmt,
              quant_set(quant_method=method, packing_format=f"auto_round:auto_{fmt[:3 + (fmt[0] == 'g')]}", version=None,
                        zero_point=None, data_type="int", extra_config={"lm_head": {"bits": 16}}), tp=tp)
      for variant, fmt, method, tp in (("qwen2-tp", "gptq4-g32", "auto-round", 2), ("llama", "gptq8-g64", "auto-round", 1),
                                       ("qwen2-tp", "awq-g128", "intel/auto-round", 2),
                                       ("chatglm", "awq-g32", "auto-round", 1)))]

# ---- types of scales and of the order ------------------------------------------------------------------------------

def typed(suffix, change):
    def edit(config, tensors):
        for name in tensors:
            if name.endswith(suffix):
                tensors[name] = change(tensors[name])
    return edit


def rounded_to_bf16(scales):
    """binary16 numbers that bfloat16 has too."""
    bits = scales.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32).astype(np.float16)


TYPE_CASES = [
    *(Spelled("scales in F32", v, f, typed(".scales", lambda s: s.astype(np.float32)), tp=tp)
      for v, f, tp in (("qwen2-tp", "gptq4-g32", 2), ("llama", "awq-g32", 1), ("llama", "gptq8-g32-act", 1),
                       ("qwen2_moe", "awq-g32", 1))),
    *(Spelled("scales in BF16", v, f, typed(".scales", lambda s: Bf16(rounded_to_bf16(s))),
              typed(".scales", rounded_to_bf16), tp=tp)
      for v, f, tp in (("qwen2-tp", "awq-g128", 2), ("llama", "gptq4-g128-act", 1), ("chatglm", "gptq8-g32-act", 1))),
    *(Spelled("g_idx of 64 bits", v, f, typed(".g_idx", lambda g: g.astype(np.int64)), tp=tp)
      for v, f, tp in (("llama", "gptq4-g32-act", 1), ("llama", "gptq4-g32", 1), ("qwen", "gptq4-g32-act", 2),
                       ("llama", "gptq4-g32-zeroidx", 1)))]

CASES = HEAD_CASES + SYM_CASES + WORD_CASES + TYPE_CASES
TESTS = [a_head_is_warned_of_once, odd_zeros_of_a_symmetric_file_are_warned_of_once]


def main():
    only = sys.argv[2] if sys.argv[1:2] == ["--only"] else ""
    tally = Lines()
    for case in CASES:
        if case.name.startswith(only):
            tally.run(case.name, case.check)
    for test in TESTS:
        if test.__name__.startswith(only):
            tally.run(test.__name__, test)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
