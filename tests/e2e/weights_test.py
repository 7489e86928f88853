#!/usr/bin/env python3
"""Packed weights, read back, against other people's readers: gguf's dequantizers bit by bit, and AWQ and GPTQ tensors
packed here the way their own packages describe it."""
import subprocess
import sys

from cluster import TOOLS, Skip, Tally

N, K = 24, 1536
# Where the blocks' binary16 scales stand, and how large they may be, so that random bytes make usual weights.
BLOCKS = {
    "q4_0": ("Q4_0", 18, {0: 0.02}), "q4_1": ("Q4_1", 20, {0: 0.02, 2: 0.2}),
    "q5_0": ("Q5_0", 22, {0: 0.02}), "q5_1": ("Q5_1", 24, {0: 0.02, 2: 0.2}),
    "q8_0": ("Q8_0", 34, {0: 0.02}), "q4_k": ("Q4_K", 144, {0: 0.01, 2: 0.01}),
    "q5_k": ("Q5_K", 176, {0: 0.01, 2: 0.01}), "q6_k": ("Q6_K", 210, {208: 0.01}),
}


def numpy():
    try:
        import numpy as np
    except ImportError as error:
        raise Skip(f"numpy: {error}")
    return np


def read_back(backend, form, group, *arrays):
    np = numpy()
    raw = subprocess.run([TOOLS / "weights_cli", backend, form, str(N), str(K), str(group)], check=True,
                         capture_output=True, input=b"".join(a.tobytes() for a in arrays)).stdout
    return np.frombuffer(raw, dtype="<f4").reshape(N, K)


def same(ours, expected):
    differ = (ours != expected).sum()
    assert differ == 0, f"{differ} of {ours.size} weights differ, by at most {abs(ours - expected).max()}"


def as_gguf(form, backend):
    np = numpy()
    try:
        import gguf
    except ImportError as error:
        raise Skip(f"gguf: {error}")
    name, block_bytes, scales = BLOCKS[form]
    rng = np.random.default_rng(7)
    elements = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][0]
    blocks = rng.integers(0, 256, (N * K // elements, block_bytes), dtype=np.uint8)
    for at, size in scales.items():
        halves = rng.uniform(-size, size, len(blocks)).astype("<f2")
        blocks[:, at:at + 2] = halves.view(np.uint8).reshape(-1, 2)
    expected = gguf.dequantize(blocks.reshape(N, -1), gguf.GGMLQuantizationType[name])
    same(read_back(backend, form, 0, blocks), expected.reshape(N, K))


def pack(np, values, bits, axis, order=None):
    """uint32 words of neighbouring values along an axis; order: the value each field of a word holds."""
    per_word = 32 // bits
    values = np.moveaxis(values, axis, -1).astype(np.uint64)
    values = values.reshape(*values.shape[:-1], -1, per_word)[..., order or list(range(per_word))]
    words = (values << np.arange(0, 32, bits, dtype=np.uint64)).sum(-1)
    return np.ascontiguousarray(np.moveaxis(words, -1, axis)).astype("<u4")


def grouped(np, bits, group):
    rng = np.random.default_rng(bits * 1000 + group)
    groups = -(-K // group)
    return (rng, rng.integers(0, 1 << bits, (K, N)), rng.integers(1, 1 << bits, (groups, N)),
            rng.uniform(-0.02, 0.02, (groups, N)).astype("<f2"))


def as_awq(group, backend):
    np = numpy()
    _, q, zeros, scales = grouped(np, 4, group)
    order = [0, 2, 4, 6, 1, 3, 5, 7]  # AutoAWQ, awq/modules/linear/gemm.py
    assert pack(np, np.arange(8)[None], 4, 1, order)[0, 0] == 0x75316420
    g = np.arange(K) // group
    expected = (q - zeros[g]) * scales[g].astype(np.float64)
    ours = read_back(backend, "awq", group, pack(np, q, 4, 1, order), scales, pack(np, zeros, 4, 1, order))
    same(ours, expected.T.astype(np.float32))


def as_gptq(form, group, order, backend):
    np = numpy()
    bits = int(form[4])
    rng, q, zeros, scales = grouped(np, bits, group)
    g = np.arange(K, dtype="<i4") // group
    if order:
        rng.shuffle(g)
    stored = pack(np, zeros, bits, 1)
    if form.endswith("_sym"):  # what the fields hold is not read
        zeros = np.full_like(zeros, 1 << bits - 1)
    if not form.endswith("_v2"):
        stored = stored - np.uint32(0x11111111 if bits == 4 else 0x01010101)  # as GPTQModel saves
    expected = (q - zeros[g]) * scales[g].astype(np.float64)
    ours = read_back(backend, form, group, pack(np, q, bits, 0), scales, stored, g)
    same(ours, expected.T.astype(np.float32))


tally = Tally()
for backend in ("ref", "cpu"):
    for form in BLOCKS:
        tally.run(f"{form}_{backend}", as_gguf, form, backend)
    for group in (32, 64, 128, K):
        tally.run(f"awq_{group}_{backend}", as_awq, group, backend)
        for form in ("gptq4", "gptq4_v2", "gptq8", "gptq8_v2", "gptq4_sym", "gptq8_sym"):
            for order in (False, True):
                name = f"{form}_{group}{'_ordered' if order else ''}_{backend}"
                tally.run(name, as_gptq, form, group, order, backend)
sys.exit(tally.end())
