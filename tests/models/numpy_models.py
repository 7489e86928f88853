"""Plain float64 models of every family, written from the papers and the families' published configs and names: the
independent reference for our logits. Slow and simple on purpose.

RMSNorm: Zhang and Sennrich 2019. Rotary embedding: Su et al. 2021; its scalings: linear (Chen et al. 2023), NTK (as
transformers and Qwen compute it), YaRN (Peng et al. 2023), Llama 3.1's by wavelength. ALiBi: Press et al. 2022. Grouped
queries: Ainslie et al. 2023. SwiGLU: Shazeer 2020. Mixture of experts: Qwen2-MoE (Yang et al. 2024). log-n attention:
Su 2021, with the table of Qwen's reference code.

load(folder) reads a checkpoint folder, load_gguf(file) a GGUF file (with the `gguf` package's own dequantizers).
model.logits(ids, n_prompt) gives (len(ids), vocabulary); what depends on the prompt's length (Qwen's NTK factor, the
dynamic scaling) is fixed by n_prompt, so that a continuation can be judged in one pass.
"""
import json
from pathlib import Path

import numpy as np

from tests.models import packing
from tests.models.safetensors_file import read_folder


class Linear:
    """x -> x W^T + b; weight (n_out, n_in) float64."""

    def __init__(self, weight, bias=None):
        self.weight = weight
        self.bias = bias

    def __call__(self, x):
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias

    def split(self, *sizes):
        """The parts of a fused linear, by output rows."""
        assert sum(sizes) == len(self.weight), (sizes, self.weight.shape)
        at = np.cumsum((0,) + sizes)
        return [Linear(self.weight[a:b], None if self.bias is None else self.bias[a:b])
                for a, b in zip(at[:-1], at[1:])]


def silu(x):
    return x / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Mlp:
    def __init__(self, gate, up, down):
        self.gate, self.up, self.down = gate, up, down

    def __call__(self, x):
        return self.down(silu(self.gate(x)) * self.up(x))


class Moe:
    def __init__(self, router, experts, shared, shared_gate, n_chosen, renormalise):
        self.router, self.experts, self.shared, self.shared_gate = router, experts, shared, shared_gate
        self.n_chosen, self.renormalise = n_chosen, renormalise
        self.margins = None  # (n) of the last pass: gap between the last chosen and the first refused router logit

    def weights(self, logits):
        """(n, experts) router logits -> each expert's weight, 0 where it is not chosen."""
        p = softmax(logits)
        order = np.argsort(-p, axis=-1, kind="stable")  # the lower index first where equal
        chosen = np.zeros_like(p)
        np.put_along_axis(chosen, order[:, :self.n_chosen], 1.0, -1)
        p = p * chosen
        return p / p.sum(-1, keepdims=True) if self.renormalise else p

    def __call__(self, x):
        logits = self.router(x)
        ranked = -np.sort(-logits, axis=-1)
        self.margins = ranked[:, self.n_chosen - 1] - ranked[:, self.n_chosen]
        weights = self.weights(logits)
        y = sum(weights[:, e:e + 1] * expert(x) for e, expert in enumerate(self.experts))
        return y if self.shared is None else y + 1 / (1 + np.exp(-self.shared_gate(x))) * self.shared(x)


class Layer:
    """One layer's parts; q_norm and k_norm are gains over a head, or None."""

    def __init__(self, norm1, q, k, v, o, norm2, mlp, q_norm=None, k_norm=None):
        self.norm1, self.q, self.k, self.v, self.o, self.norm2, self.mlp = norm1, q, k, v, o, norm2, mlp
        self.q_norm, self.k_norm = q_norm, k_norm


class Model:
    layout = "half"  # "half", "interleaved", or None for no rotary embedding
    window = None    # a query sees this many keys, itself included, in layers from window_layers on
    window_layers = 0
    dynamic_length = None  # the length that dynamic scaling takes for prompts past max_position; None: the prompt's own
    slopes = None    # (n_heads) of ALiBi
    logn_from = None # Qwen's seq_length where log-n attention is on
    ntk_from = None  # Qwen's seq_length where dynamic NTK is on
    wave_dims = None # what the frequencies' exponents are divided by; None: rotary_dims
    scaling = {}
    theta = 10000.0

    def rms(self, x, gain):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * gain

    def alpha(self, n):
        """Qwen's NTK factor for a prompt of n tokens."""
        return max(2.0 ** np.ceil(np.log2(n / self.ntk_from) + 1) - 1, 1.0)

    def frequencies(self, n_prompt):
        """(rotary dims / 2) frequencies and the factor on cos and sin."""
        dims, theta = self.rotary_dims, self.theta
        exponents = 2.0 * np.arange(dims // 2) / (self.wave_dims or dims)
        kind = self.scaling.get("rope_type", self.scaling.get("type", "default"))
        if self.ntk_from is not None:
            theta = theta * self.alpha(n_prompt) ** (dims / (dims - 2))
        if kind == "dynamic" and n_prompt > self.max_position:
            factor, n = self.scaling["factor"], self.dynamic_length or n_prompt
            theta = theta * (factor * n / self.max_position - (factor - 1)) ** (dims / (dims - 2))
        f = theta ** -exponents
        if kind == "linear":
            return f / self.scaling["factor"], 1.0
        if kind == "llama3":
            return self._by_wavelength(f), 1.0
        if kind == "yarn":
            return self._yarn(f)
        assert kind in ("default", "dynamic"), kind
        return f, 1.0

    def _by_wavelength(self, f):
        """Long waves slowed by the factor, short ones kept, a straight blend in between."""
        s = self.scaling
        turns = s["original_max_position_embeddings"] * f / (2 * np.pi)  # over the original context
        keep = np.clip((turns - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"]), 0, 1)
        return keep * f + (1 - keep) * f / s["factor"]

    def _yarn(self, f):
        s, dims = self.scaling, self.rotary_dims
        original = s.get("original_max_position_embeddings", self.max_position)
        at = lambda turns: dims * np.log(original / (turns * 2 * np.pi)) / (2 * np.log(self.theta))
        low = max(np.floor(at(s.get("beta_fast", 32))), 0)
        high = min(np.ceil(at(s.get("beta_slow", 1))), dims - 1)
        slowed = np.clip((np.arange(dims // 2) - low) / max(high - low, 0.001), 0, 1)
        return f / s["factor"] * slowed + f * (1 - slowed), s.get("attention_factor", 0.1 * np.log(s["factor"]) + 1)

    def rotate(self, x, n_prompt):
        """x (n, heads, head_dim): positions 0..n-1."""
        if self.layout is None:
            return x
        f, factor = self.frequencies(n_prompt)
        angle = np.arange(len(x))[:, None] * f
        cos, sin = np.cos(angle)[:, None] * factor, np.sin(angle)[:, None] * factor
        out, half = x.copy(), self.rotary_dims // 2
        if self.layout == "half":
            first, second = np.s_[..., :half], np.s_[..., half:2 * half]
        else:
            first, second = np.s_[..., 0:2 * half:2], np.s_[..., 1:2 * half:2]
        out[first] = x[first] * cos - x[second] * sin
        out[second] = x[second] * cos + x[first] * sin
        return out

    def query_factor(self, n):
        """(n) log-n factors of the queries."""
        p = np.arange(1.0, n + 1)
        if self.logn_from is None:
            return np.ones(n)
        return np.where(p > self.logn_from, np.log(p) / np.log(self.logn_from), 1.0)

    def key_factor(self, n):
        return np.ones(n)

    def kv_head(self, head):
        return head * self.n_kv // self.n_heads

    def mask(self, layer, head, n):
        """(n, n) what is added to the scores of one head: row i the query, column j the key."""
        i, j = np.arange(n)[:, None], np.arange(n)[None, :]
        seen = j <= i
        if self.window and self.layers.index(layer) >= self.window_layers:
            seen &= j > i - self.window
        bias = 0.0 if self.slopes is None else self.slopes[head] * (j - i)
        return np.where(seen, bias, -np.inf)

    def attend(self, layer, x, n_prompt):
        n = len(x)
        q, k, v = (part(x).reshape(n, -1, self.head_dim) for part in (layer.q, layer.k, layer.v))
        if layer.q_norm is not None:
            q, k = self.rms(q, layer.q_norm), self.rms(k, layer.k_norm)
        q = self.rotate(q, n_prompt) * self.query_factor(n)[:, None, None]
        k = self.rotate(k, n_prompt) * self.key_factor(n)[:, None, None]
        out = np.empty_like(q)
        for h in range(self.n_heads):
            g = self.kv_head(h)
            score = q[:, h] @ k[:, g].T / np.sqrt(self.head_dim) + self.mask(layer, h, n)
            out[:, h] = softmax(score) @ v[:, g]
        return layer.o(out.reshape(n, -1))

    def logits(self, ids, n_prompt=None):
        n_prompt = n_prompt or len(ids)
        x = self.embedding[np.asarray(ids)]
        for layer in self.layers:
            x = x + self.attend(layer, self.rms(x, layer.norm1), n_prompt)
            x = x + layer.mlp(self.rms(x, layer.norm2))
        return self.rms(x, self.final) @ self.head.T

    def greedy(self, ids, n):
        """The n likeliest next ids, one after the other."""
        ids, n_prompt = list(ids), len(ids)
        for _ in range(n):
            ids.append(int(np.argmax(self.logits(ids, n_prompt)[-1])))
        return ids[n_prompt:]

    def has_router(self):
        return any(isinstance(layer.mlp, Moe) for layer in self.layers)

    def router_margins(self, n):
        """(n) least over the layers of the last pass's margins: where it is small, another expert is a fair choice."""
        rows = [layer.mlp.margins for layer in self.layers if isinstance(layer.mlp, Moe)]
        return np.min(rows, axis=0) if rows else np.full(n, np.inf)


def alibi_slopes(n):
    """2^(-8k/c) for the power of two c below n, then every second of the 2c-head slopes (Press et al.)."""
    c = 1 << (n.bit_length() - 1)
    return np.array([2 ** (-8 * k / c) for k in range(1, c + 1)] +
                    [2 ** (-8 * k / (2 * c)) for k in range(1, 2 * (n - c), 2)])


# ---- checkpoint folders -----------------------------------------------------------------------------------------

class Checkpoint:
    """config.json and the tensors of a folder; quantized linears are given back by their formats' formulas."""

    def __init__(self, folder):
        folder = Path(folder)
        self.config = json.loads((folder / "config.json").read_text())
        self.tensors = read_folder(folder)
        self.quant = self.config.get("quantization_config")
        for file, method in (("quantize_config.json", "gptq"), ("quant_config.json", "awq")):
            if self.quant is None and (folder / file).is_file():
                self.quant = {"quant_method": method, **json.loads((folder / file).read_text())}

    def array(self, name):
        return self.tensors[name].astype(np.float64)

    def linear(self, prefix):
        bias = self.array(prefix + ".bias") if prefix + ".bias" in self.tensors else None
        if prefix + ".qweight" not in self.tensors:
            return Linear(self.array(prefix + ".weight"), bias)
        parts = {n: self.tensors[f"{prefix}.{n}"] for n in ("qweight", "qzeros", "scales", "g_idx")
                 if f"{prefix}.{n}" in self.tensors}
        if self.quant["quant_method"] == "awq":
            return Linear(packing.awq_weight(parts), bias)
        v2 = self.quant.get("checkpoint_format") == "gptq_v2"
        return Linear(packing.gptq_weight(parts, self.quant["bits"], v2, self.quant["group_size"]), bias)

    def mlp(self, prefix):
        return Mlp(*(self.linear(f"{prefix}.{name}_proj") for name in ("gate", "up", "down")))


def _base(file, names, n_layers, eps, heads, kv, head_dim):
    """A model with its ends; names: embedding, final norm, head."""
    model = Model()
    model.eps, model.n_heads, model.n_kv, model.head_dim = eps, heads, kv, head_dim
    model.rotary_dims = head_dim
    model.embedding, model.final = file.array(names[0] + ".weight"), file.array(names[1] + ".weight")
    tied = file.config.get("tie_word_embeddings", False)
    model.head = model.embedding if tied else file.array(names[2] + ".weight")
    model.layers = [None] * n_layers
    return model


def _moe(file, at):
    config = file.config
    shared = (file.mlp(at + ".shared_expert"), file.linear(at + ".shared_expert_gate")) \
        if "shared_expert_intermediate_size" in config else (None, None)
    return Moe(file.linear(at + ".gate"), [file.mlp(f"{at}.experts.{e}") for e in range(config["num_experts"])],
               *shared, config["num_experts_per_tok"], config["norm_topk_prob"])


def _llama(file):
    config = file.config
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    model = _base(file, ("model.embed_tokens", "model.norm", "lm_head"), config["num_hidden_layers"],
                  config["rms_norm_eps"], heads, config.get("num_key_value_heads", heads), head_dim)
    model.theta, model.max_position = config["rope_theta"], config["max_position_embeddings"]
    model.scaling = config.get("rope_scaling") or {}
    if config.get("use_sliding_window", True):
        model.window = config.get("sliding_window")
        model.window_layers = config.get("max_window_layers", 0)
    for i in range(len(model.layers)):
        at = f"model.layers.{i}."
        attention = [file.linear(f"{at}self_attn.{name}_proj") for name in "qkvo"]
        norms = [file.array(f"{at}self_attn.{name}_norm.weight") for name in "qk"
                 if f"{at}self_attn.{name}_norm.weight" in file.tensors]
        sparse = ("num_experts" in config and i not in config.get("mlp_only_layers", []) and
                  (i + 1) % config.get("decoder_sparse_step", 1) == 0)
        mlp = _moe(file, at + "mlp") if sparse else file.mlp(at + "mlp")
        model.layers[i] = Layer(file.array(at + "input_layernorm.weight"), *attention,
                                file.array(at + "post_attention_layernorm.weight"), mlp, *norms)
    return model


def _qwen(file):
    config = file.config
    heads, head_dim, dim = config["num_attention_heads"], config["kv_channels"], config["hidden_size"]
    model = _base(file, ("transformer.wte", "transformer.ln_f", "lm_head"), config["num_hidden_layers"],
                  config["layer_norm_epsilon"], heads, heads, head_dim)
    model.theta = config["rotary_emb_base"]
    model.logn_from = config["seq_length"] if config["use_logn_attn"] else None
    model.ntk_from = config["seq_length"] if config["use_dynamic_ntk"] else None
    for i in range(len(model.layers)):
        at = f"transformer.h.{i}."
        q, k, v = file.linear(at + "attn.c_attn").split(dim, dim, dim)
        mlp = Mlp(file.linear(at + "mlp.w2"), file.linear(at + "mlp.w1"), file.linear(at + "mlp.c_proj"))
        model.layers[i] = Layer(file.array(at + "ln_1.weight"), q, k, v, file.linear(at + "attn.c_proj"),
                                file.array(at + "ln_2.weight"), mlp)
    return model


def _chatglm(file):
    config = file.config
    heads, kv, head_dim = (config[n] for n in ("num_attention_heads", "multi_query_group_num", "kv_channels"))
    names = ("transformer.embedding.word_embeddings", "transformer.encoder.final_layernorm", "transformer.output_layer")
    model = _base(file, names, config["num_layers"], config["layernorm_epsilon"], heads, kv, head_dim)
    # RotaryEmbedding(head_dim // 2) makes a pair for each even number below that, with exponents over it.
    model.layout, model.wave_dims = "interleaved", head_dim // 2
    model.rotary_dims = 2 * len(range(0, head_dim // 2, 2))
    model.theta = 10000.0 * config.get("rope_ratio", 1)
    inner = config["ffn_hidden_size"]
    for i in range(len(model.layers)):
        at = f"transformer.encoder.layers.{i}."
        parts = file.linear(at + "self_attention.query_key_value").split(*(n * head_dim for n in (heads, kv, kv)))
        gate, up = file.linear(at + "mlp.dense_h_to_4h").split(inner, inner)
        model.layers[i] = Layer(file.array(at + "input_layernorm.weight"), *parts,
                                file.linear(at + "self_attention.dense"),
                                file.array(at + "post_attention_layernorm.weight"),
                                Mlp(gate, up, file.linear(at + "mlp.dense_4h_to_h")))
    return model


def _baichuan(file):
    config = file.config
    heads, dim = config["num_attention_heads"], config["hidden_size"]
    model = _base(file, ("model.embed_tokens", "model.norm", "lm_head"), config["num_hidden_layers"],
                  config["rms_norm_eps"], heads, heads, dim // heads)
    if dim != 4096:  # the 13B model has ALiBi, the 7B model rotary embeddings
        model.layout, model.slopes = None, alibi_slopes(heads)
    if config["vocab_size"] != 64000:  # Baichuan 2 normalises the head's rows
        model.head = model.head / np.maximum(np.linalg.norm(model.head, axis=1, keepdims=True), 1e-12)
    for i in range(len(model.layers)):
        at = f"model.layers.{i}."
        q, k, v = file.linear(at + "self_attn.W_pack").split(dim, dim, dim)
        model.layers[i] = Layer(file.array(at + "input_layernorm.weight"), q, k, v,
                                file.linear(at + "self_attn.o_proj"),
                                file.array(at + "post_attention_layernorm.weight"), file.mlp(at + "mlp"))
    return model


FAMILIES = {"LlamaForCausalLM": _llama, "MistralForCausalLM": _llama, "Qwen2ForCausalLM": _llama,
            "Qwen3ForCausalLM": _llama, "Qwen2MoeForCausalLM": _llama, "Qwen3MoeForCausalLM": _llama,
            "QWenLMHeadModel": _qwen, "ChatGLMModel": _chatglm, "BaichuanForCausalLM": _baichuan}


def load(folder):
    file = Checkpoint(folder)
    return FAMILIES[file.config["architectures"][0]](file)


# ---- GGUF files ---------------------------------------------------------------------------------------------------

class _GgufFile:
    """A GGUF file behind the same two calls, read and dequantized by the `gguf` package."""

    def __init__(self, path):
        import gguf
        reader = gguf.GGUFReader(path)
        self.keys = {name: field.contents() for name, field in reader.fields.items()}
        self.tensors = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).reshape(t.shape[::-1])
                        for t in reader.tensors}
        self.config = {"tie_word_embeddings": "output.weight" not in self.tensors}

    array = Checkpoint.array
    linear = Checkpoint.linear


def load_gguf(path):
    file = _GgufFile(path)
    kind = file.keys["general.architecture"]
    key = lambda name, *fallback: file.keys.get(f"{kind}.{name}", *fallback) if fallback else file.keys[f"{kind}.{name}"]
    heads, dim = key("attention.head_count"), key("embedding_length")
    model = _base(file, ("token_embd", "output_norm", "output"), key("block_count"),
                  key("attention.layer_norm_rms_epsilon"), heads, key("attention.head_count_kv", heads),
                  key("attention.key_length", dim // heads))
    model.theta = key("rope.freq_base", 10000.0)
    model.layout = "interleaved" if kind == "llama" else "half"
    for i in range(len(model.layers)):
        at = f"blk.{i}."
        attention = [file.linear(at + name) for name in ("attn_q", "attn_k", "attn_v", "attn_output")]
        model.layers[i] = Layer(file.array(at + "attn_norm.weight"), *attention, file.array(at + "ffn_norm.weight"),
                                Mlp(*(file.linear(at + name) for name in ("ffn_gate", "ffn_up", "ffn_down"))))
    return model
