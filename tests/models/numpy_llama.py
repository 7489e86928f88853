"""A plain float64 model of Llama-type GGUF files, written from the papers and the file format: the
independent reference for our logits. Slow and simple on purpose.

RMSNorm: Zhang and Sennrich 2019. Rotary embedding: Su et al. 2021 (GGUF's llama type: neighbouring pairs).
Grouped queries: Ainslie et al. 2023. SwiGLU: Shazeer 2020. Block formats: ggml's docs/gguf.md and headers.
"""
import struct
from pathlib import Path

import numpy as np

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_TYPES = {0: ("f32", 1, 4), 1: ("f16", 1, 2), 2: ("q4_0", 32, 18), 3: ("q4_1", 32, 20), 8: ("q8_0", 32, 34),
          30: ("bf16", 1, 2)}


class Gguf:
    """Keys and tensors (dequantized to float64, shape slowest first) of a GGUF file, version 2 or 3."""

    def __init__(self, path):
        self.data = np.memmap(path, dtype=np.uint8, mode="r")
        self.at = 0
        assert bytes(self._take(4)) == b"GGUF"
        version, n_tensors, n_keys = struct.unpack("<IQQ", bytes(self._take(20)))
        assert version in (2, 3)
        self.keys = {}
        for _ in range(n_keys):
            name = self._string()
            self.keys[name] = self._value(self._scalar(4))
        self.infos = {}
        for _ in range(n_tensors):
            name = self._string()
            dims = [self._scalar(10) for _ in range(self._scalar(4))]
            self.infos[name] = (dims[::-1], self._scalar(4), self._scalar(10))
        align = self.keys.get("general.alignment", 32)
        self.base = -(-self.at // align) * align

    def _take(self, n):
        self.at += n
        return self.data[self.at - n:self.at]

    def _scalar(self, kind):
        form = _SCALARS[kind]
        return struct.unpack(form, bytes(self._take(struct.calcsize(form))))[0]

    def _string(self):
        return bytes(self._take(self._scalar(10))).decode("utf-8", "surrogateescape")

    def _value(self, kind):
        if kind == 8:
            return self._string()
        if kind == 9:
            inner, n = self._scalar(4), self._scalar(10)
            return [self._value(inner) for _ in range(n)]
        return self._scalar(kind)

    def tensor(self, name):
        shape, kind, offset = self.infos[name]
        form, per_block, size = _TYPES[kind]
        n = int(np.prod(shape))
        raw = np.array(self.data[self.base + offset:self.base + offset + n // per_block * size])
        return _dequantize(form, raw, size).reshape(shape)


def _half(raw):
    return raw.copy().view(np.float16).astype(np.float64)


def _dequantize(form, raw, size):
    if form == "f32":
        return raw.view(np.float32).astype(np.float64)
    if form == "f16":
        return _half(raw)
    if form == "bf16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    blocks = raw.reshape(-1, size)
    scale = _half(blocks[:, 0:2])
    if form == "q8_0":
        return scale * blocks[:, 2:].copy().view(np.int8)
    nibbles = blocks[:, size - 16:]
    values = np.concatenate([nibbles & 15, nibbles >> 4], axis=1).astype(np.float64)
    return scale * (values - 8) if form == "q4_0" else scale * values + _half(blocks[:, 2:4])


class Llama:
    """logits(ids) -> (len(ids), vocabulary) float64."""

    def __init__(self, path):
        file = Gguf(path)
        key = lambda name: file.keys["llama." + name]
        self.n_layers = key("block_count")
        self.n_heads = key("attention.head_count")
        self.n_kv = key("attention.head_count_kv")
        self.eps = key("attention.layer_norm_rms_epsilon")
        self.theta = file.keys.get("llama.rope.freq_base", 10000.0)
        self.embedding = file.tensor("token_embd.weight")
        tied = "output.weight" not in file.infos
        self.head = self.embedding if tied else file.tensor("output.weight")
        self.final = file.tensor("output_norm.weight")
        names = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up",
                 "ffn_down")
        self.layers = [{n: file.tensor(f"blk.{i}.{n}.weight") for n in names} for i in range(self.n_layers)]
        self.head_dim = self.layers[0]["attn_q"].shape[0] // self.n_heads

    def _norm(self, x, gain):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * gain

    def _rotate(self, x):
        n, _, dim = x.shape
        angle = np.arange(n)[:, None] * self.theta ** (-2.0 * np.arange(dim // 2) / dim)
        cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
        out = np.empty_like(x)
        out[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
        out[..., 1::2] = x[..., 1::2] * cos + x[..., 0::2] * sin
        return out

    def _attend(self, layer, x):
        n = len(x)
        q = self._rotate((x @ layer["attn_q"].T).reshape(n, self.n_heads, self.head_dim))
        k = self._rotate((x @ layer["attn_k"].T).reshape(n, self.n_kv, self.head_dim))
        v = (x @ layer["attn_v"].T).reshape(n, self.n_kv, self.head_dim)
        out = np.empty_like(q)
        future = np.triu(np.full((n, n), -np.inf), 1)
        for h in range(self.n_heads):
            g = h * self.n_kv // self.n_heads
            score = q[:, h] @ k[:, g].T / np.sqrt(self.head_dim) + future
            p = np.exp(score - score.max(-1, keepdims=True))
            out[:, h] = p / p.sum(-1, keepdims=True) @ v[:, g]
        return out.reshape(n, -1) @ layer["attn_output"].T

    def hidden(self, ids):
        x = self.embedding[np.asarray(ids)]
        for layer in self.layers:
            x = x + self._attend(layer, self._norm(x, layer["attn_norm"]))
            y = self._norm(x, layer["ffn_norm"])
            gate = y @ layer["ffn_gate"].T
            x = x + (gate / (1 + np.exp(-gate)) * (y @ layer["ffn_up"].T)) @ layer["ffn_down"].T
        return self._norm(x, self.final)

    def logits(self, ids):
        return self.hidden(ids) @ self.head.T


def model_file():
    """The small real model in the cache, or None."""
    import os
    cache = os.environ.get("TANDEM_CACHE", os.path.expanduser("~/.cache/tandem"))
    path = Path(os.environ.get("TANDEM_TEST_MODEL") or f"{cache}/models/SmolLM2-135M-Instruct.Q4_1.gguf")
    return path if path.is_file() else None
