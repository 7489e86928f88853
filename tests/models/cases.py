"""Which (variant, format) pairs families_test.py runs: the set of every check, and everything for --full."""
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.models import checkpoints, numpy_models, shapes  # noqa: E402
from tests.models.packing import Quant  # noqa: E402

# Kinds of GGUF files. Rows of odd32 are whole blocks of 32, of odd256 of 256; two ranks cut heads within a block.
GGUF_SIZES = {"": {}, "tied": {"tied": True},
              "odd": {"dim": 45, "head_dim": 10, "inner": 43},
              "odd32": {"dim": 160, "head_dim": 24, "inner": 96},
              "odd256": {"dim": 256, "heads": 32, "kv": 8, "head_dim": 8, "inner": 256}}
LENGTHS = (10, 45)  # Qwen's seq_length of 16, the window of 16 and the context of 32 lie between


@dataclass(frozen=True)
class Case:
    variant: str
    fmt: str
    shards: int = 1

    @property
    def name(self):
        return f"{self.variant}/{self.fmt}" + (f"/{self.shards}-shards" if self.shards > 1 else "")

    @property
    def file(self):  # GGUF variants are named gguf-ARCHITECTURE
        return self.variant.startswith("gguf-")

    def make(self, folder):
        """Writes it into a folder; returns (path for the engine, config, float64 model)."""
        if self.file:
            from tests.models import tiny_gguf
            path = folder / "model.gguf"
            _, arch, *kind = self.variant.split("-")
            sizes = {"heads": 4, "kv": 2, **GGUF_SIZES[kind[0] if kind else ""]}
            tiny_gguf.write(path, self.fmt, arch, **sizes)
            config = {"vocab_size": tiny_gguf.N_VOCAB, "num_attention_heads": sizes["heads"],
                      "num_key_value_heads": sizes["kv"]}
            return path, config, numpy_models.load_gguf(path)
        config = checkpoints.write(folder, self.variant, self.fmt, n_shards=self.shards)
        model = numpy_models.load(folder)
        if model.scaling.get("type") == "dynamic":
            # Transformers takes the length so far, so that a sequence's keys mix bases; the engine, like other servers,
            # takes the longest for every prompt past the original context.
            model.dynamic_length = model.max_position * model.scaling["factor"]
        return folder, config, model

    def tp_sizes(self, config):
        """(size, "runs", "refused" or "unserved") for each to try; what a size refuses is tried in float32 only.
        Unserved: experts whose gate and up have orders of their own; no writer makes them, as both see one input."""
        if self.file:
            return [(tp, "runs") for tp in ((1, 2, 4) if "-odd" in self.variant else (1, 2))]
        quant = checkpoints.FORMATS[self.fmt]
        if "num_experts" in config and isinstance(quant, Quant) and quant.order == "own":
            return [(1, "unserved")]
        kinds = [(tp, shapes.tp_kind(config, tp)) for tp in (1, 2, 4, 8)]
        return [(tp, kind) for tp, kind in kinds if kind != "refused" or self.fmt == "f32"]


FAMILY_MAIN = ("llama", "mistral-tp", "qwen", "qwen2", "qwen3", "qwen2_moe", "chatglm", "baichuan-24")
SIXTEEN = [(v, f) for v in FAMILY_MAIN for f in ("f16", "bf16")]
QUANTIZED = [
    # The formats one by one.
    *(("llama", f) for f in checkpoints.FORMATS if f not in ("f32", "f16", "bf16")),
    # Three groups at TP2, five at TP4, and the leftovers of old writers.
    *(("llama-wide", f) for f in ("awq-g128", "gptq4-g128", "gptq4-g128-act", "gptq8-g128")),
    # The reference models' own formats, and each family in each method.
    ("mistral-tp", "awq-g128"), ("mistral", "awq-g64"), ("mistral-tp", "gptq4-g32"),
    ("qwen", "gptq4-g32-act"), ("qwen", "awq-g32"), ("qwen", "gptq8-g64"), ("qwen-wide", "gptq4-g128"),
    ("qwen2", "gptq8-g32"), ("qwen2-tp", "awq-g128"), ("qwen2-tp", "gptq8-g128"), ("qwen2-wide", "gptq4-g64"),
    ("qwen2-tied", "awq-g32"), ("qwen3", "awq-g32"), ("qwen3", "gptq4-g32"), ("qwen3-untied", "gptq8-g32-act"),
    ("qwen2_moe", "gptq4-g32"), ("qwen2_moe", "awq-g32"), ("qwen2_moe-mixed", "gptq8-g32-act"),
    ("chatglm", "gptq4-g32"), ("chatglm", "awq-g32"), ("chatglm", "gptq8-g32-act"),
    ("baichuan", "gptq4-g64"), ("baichuan-24", "gptq4-g32"), ("baichuan-24", "gptq4-g32-act"),
    ("baichuan-24", "gptq8-g32-v2"), ("baichuan-24", "awq-g32"),
    # 160 inputs in groups of 64: the last group is half a group.
    ("qwen3", "gptq4-g64"),
]
_EXTRA = ("baichuan-first", "baichuan-7b")  # large heads and a large layer
# Sizes that are not multiples of 32, and heads of none of 16: every family, and every format that can have them.
ODD = [
    *((v, "bf16") for v in ("llama-odd", "llama-250", "qwen2_moe-odd", "chatglm-odd", "baichuan-odd")),
    ("llama-odd", "f16"), ("llama-172", "gptq8-g128"), ("chatglm-odd", "gptq8-g-1"),
    *(("llama-odd8", f) for f in ("awq-g-1", "gptq4-g32", "gptq4-g128-act", "gptq4-g-1", "gptq8-g32-act",
                                  "gptq8-g64", "gptq8-g32-v2")),
    ("mistral-odd8", "gptq4-g32"), ("qwen-odd8", "gptq4-g32-act"), ("qwen2-odd8", "gptq8-g-1"),
    ("qwen3-odd8", "awq-g-1"), ("qwen3_moe-odd8", "gptq4-g32"), ("qwen3_moe-odd8", "bf16"),
    ("qwen2_moe-odd8", "awq-g-1"), ("qwen2_moe-odd8", "gptq8-g32-act"), ("chatglm-odd8", "gptq4-g64"),
    ("baichuan-odd8", "gptq4-g32"), ("baichuan-odd8", "awq-g-1"),
    *(("gguf-llama-odd", f) for f in ("f32", "f16", "bf16")), ("gguf-qwen2-odd32", "q8_0"),
    *(("gguf-llama-odd32", f) for f in ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "legacy")),
    *(("gguf-llama-odd256", f) for f in ("q4_k", "q5_k", "q6_k", "q4_k_m")),
]
GGUF_FORMATS = ("f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k", "q4_k_m", "q5_k_m",
                "q4_1-q8_0", "legacy")


def quick():
    cases = [Case(v, "f32") for v in shapes.VARIANTS if v not in _EXTRA]
    cases += [Case("baichuan-first", "f16")]
    cases += [Case("llama", "f32", 3), Case("qwen2_moe", "bf16", 4)]
    cases += [Case(v, f) for v, f in SIXTEEN + QUANTIZED + ODD]
    cases += [Case("gguf-llama", f) for f in GGUF_FORMATS]
    cases += [Case("gguf-llama-tied", "q4_k_m"), Case("gguf-qwen2", "f32"), Case("gguf-qwen2", "q4_k_m"),
              Case("gguf-qwen2", "q8_0"), Case("gguf-qwen2-tied", "q5_1")]
    return cases


def fits(variant, fmt):
    """Whether a variant's linears can be stored in a format: words whole, AWQ's groups too."""
    quant = checkpoints.FORMATS[fmt]
    if not isinstance(quant, Quant):
        return True
    linears = [t.shape for t in shapes.VARIANTS[variant]()[1] if t.kind == "linear"]
    whole = all(n_out % 8 == 0 and n_in % 8 == 0 for n_out, n_in in linears)
    if quant.method == "awq":
        whole = whole and (quant.group == -1 or all(n_in % quant.group == 0 for _, n_in in linears))
    return whole


def full():
    cases = quick()
    cases += [Case(v, f) for v in shapes.VARIANTS for f in checkpoints.FORMATS
              if fits(v, f) and v not in _EXTRA]
    cases += [Case("baichuan-first", "f32"), Case("baichuan-7b", "f16"), Case("baichuan-7b", "gptq4-g128")]
    cases += [Case(v, f) for v in ("gguf-llama", "gguf-llama-tied", "gguf-qwen2", "gguf-qwen2-tied")
              for f in GGUF_FORMATS]
    return list(dict.fromkeys(cases))
