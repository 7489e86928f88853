"""Quantized linears as AutoAWQ and the GPTQ writers store them: quantizing, packing, and, written apart from the
packing, the formulas that give the weights back.

A linear of `n_in` inputs and `n_out` outputs is (n_out, n_in) as a matrix; integers q, scales and zero points lie as
(n_in, n_out) and (groups, n_out), as in the files. AWQ: casper-hansen/AutoAWQ awq/modules/linear/gemm.py and
awq/utils/packing_utils.py. GPTQ: ModelCloud/GPTQModel utils/model.py, AutoGPTQ's QuantLinear.
"""
from dataclasses import dataclass

import numpy as np

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # nibble n of a word holds this column of its eight
AWQ_PLACE = (0, 4, 1, 5, 2, 6, 3, 7)  # where column c of a word's eight is


@dataclass(frozen=True)
class Quant:
    """How a checkpoint's linears are quantized."""
    method: str                # "awq" or "gptq"
    bits: int = 4
    group: int = 128           # -1: one group
    sym: bool = False
    v2: bool = False           # GPTQ: zero points stored as they are, not less one
    order: str = "none"        # GPTQ: "none", "shared" (q, k, v and gate, up alike), "own" (each its own)
    g_idx: str = "present"     # GPTQ without an order: "present", "absent", "zero"
    wrapped: bool = False      # GPTQ v1: some zero points are 0, which wrap when the one is taken off
    in_config: bool = True     # quantization_config in config.json; else a file of its own

    @property
    def fields(self):
        return 32 // self.bits


# ---- quantizing -----------------------------------------------------------------------------------------------

def groups_of(n_in, quant, order):
    """The group of each input: i / g, or what act-order makes of it, the columns sorted by `order`."""
    size = n_in if quant.group == -1 else quant.group
    plain = np.arange(n_in) // size
    if order is None:
        return plain
    index = np.empty(n_in, dtype=plain.dtype)
    index[order] = plain
    return index


def quantize(weight, quant, index, rng):
    """weight (n_out, n_in) -> q (n_in, n_out), scales fp16 and zeros (groups, n_out), by least and greatest value."""
    weight = weight.T.astype(np.float64)
    n_groups, top = int(index.max()) + 1, (1 << quant.bits) - 1
    if not quant.sym:  # a different mean in each group spreads the zero points over their whole range
        low_high = np.stack([[weight[index == g].min(0), weight[index == g].max(0)] for g in range(n_groups)])
        spread = (low_high[:, 1] - low_high[:, 0]) * rng.uniform(-0.35, 0.35, (n_groups, weight.shape[1]))
        weight = weight + spread[index]
        weight *= np.sqrt(np.mean((weight - spread[index]) ** 2) / np.mean(weight ** 2))  # as large as before
    low, high = (np.stack([f(weight[index == g], 0) for g in range(n_groups)]) for f in (np.min, np.max))
    if quant.sym:
        bound = np.maximum(np.abs(low), np.abs(high))
        scales = (bound * 2 / top).astype(np.float16)
        zeros = np.full(scales.shape, (top + 1) // 2)
    else:
        low, high = np.minimum(low, 0), np.maximum(high, 0)
        scales = ((high - low) / top).astype(np.float16)
        zeros = np.rint(-low / scales.astype(np.float64)).astype(np.int64)
        least = 0 if quant.wrapped or quant.method == "awq" or quant.v2 else 1
        zeros = np.clip(zeros, least, top)
        if quant.wrapped:  # an all-ones field below other fields: the borrow must not be lost
            zeros[:, ::quant.fields] = 0
    q = np.rint(weight / scales.astype(np.float64)[index]).astype(np.int64) + zeros[index]
    return np.clip(q, 0, top), scales, zeros


# ---- packing --------------------------------------------------------------------------------------------------

def pack_last(values, bits, order=None):
    """Along the last axis, value k of each word at bit bits*k; `order` names the value that goes to each place."""
    n = 32 // bits
    values = np.asarray(values, dtype=np.uint64).reshape(*np.shape(values)[:-1], -1, n)
    words = np.zeros(values.shape[:-1], dtype=np.uint64)
    for place in range(n):
        words |= values[..., order[place] if order else place] << np.uint64(bits * place)
    return words.astype(np.uint32)


def pack_awq(q, scales, zeros):
    return {"qweight": pack_last(q, 4, AWQ_ORDER).view(np.int32), "qzeros": pack_last(zeros, 4, AWQ_ORDER).view(np.int32),
            "scales": scales}


def packed_ones(bits):
    return 0x11111111 if bits == 4 else 0x01010101


def pack_gptq(q, scales, zeros, quant, index):
    """v1 takes its one off the packed words, borrows included, as GPTQModel does on saving."""
    words = pack_last(zeros, quant.bits).astype(np.int64)
    if not quant.v2:
        words = words - packed_ones(quant.bits)
    parts = {"qweight": np.ascontiguousarray(pack_last(q.T, quant.bits).T).view(np.int32),
             "qzeros": (words & 0xFFFFFFFF).astype(np.uint32).view(np.int32), "scales": scales}
    if quant.g_idx != "absent":
        parts["g_idx"] = (np.zeros_like(index) if quant.g_idx == "zero" else index).astype(np.int32)
    return parts


# ---- the formulas of the formats, one value at a time in their notation -------------------------------------------

def awq_weight(parts):
    """w(i,o) = (q - z) * scales[i/g][o]; value o%8 of a word lies at nibble AWQ_PLACE[o%8]."""
    qweight, qzeros = (np.asarray(parts[n]).view(np.uint32) for n in ("qweight", "qzeros"))
    scales = np.asarray(parts["scales"], dtype=np.float64)
    out, group = np.arange(scales.shape[1]), qweight.shape[0] // scales.shape[0]
    shift = (4 * np.array(AWQ_PLACE)[out % 8]).astype(np.uint32)
    q = (qweight[:, out // 8] >> shift) & 15
    z = (qzeros[:, out // 8] >> shift) & 15
    row = np.arange(qweight.shape[0]) // group
    return ((q.astype(np.float64) - z[row]) * scales[row]).T


def gptq_weight(parts, bits, v2, group):
    """w(i,o) = scales[G][o] * (q - z), G = g_idx[i]; v1 fields hold z - 1, taken off the packed word."""
    qweight, qzeros = (np.asarray(parts[n]).view(np.uint32) for n in ("qweight", "qzeros"))
    scales, fields, mask = np.asarray(parts["scales"], dtype=np.float64), 32 // bits, (1 << bits) - 1
    n_in, n_out = qweight.shape[0] * fields, scales.shape[1]
    if not v2:
        qzeros = ((qzeros.astype(np.uint64) + packed_ones(bits)) & 0xFFFFFFFF).astype(np.uint32)
    i, out = np.arange(n_in), np.arange(n_out)
    q = (qweight[i // fields] >> (bits * (i % fields)).astype(np.uint32)[:, None]) & mask
    z = (qzeros[:, out // fields] >> (bits * (out % fields)).astype(np.uint32)) & mask
    index = parts.get("g_idx")
    if index is None or (not np.any(index) and scales.shape[0] > 1):
        index = i // (n_in if group == -1 else group)
    return (scales[index] * (q.astype(np.float64) - z[index])).T


def check_vectors():
    """The words that AutoAWQ and the GPTQ writers make of known values."""
    assert pack_last([np.arange(8)], 4, AWQ_ORDER)[0, 0] == 0x75316420
    assert pack_last([np.arange(8)], 4)[0, 0] == 0x76543210
    assert pack_last([[1, 2, 3, 4]], 8)[0, 0] == 0x04030201
    half = lambda n: np.ones((1, n), dtype=np.float16)
    for bits, middle, word in ((4, 8, 0x77777777), (8, 128, 0x7F7F7F7F)):
        n = 32 // bits
        quant, zeros = Quant("gptq", bits), np.full((1, n), middle)
        parts = pack_gptq(np.full((n, n), 1), half(n), zeros, quant, np.zeros(n, dtype=np.int64))
        assert parts["qzeros"].view(np.uint32)[0, 0] == word
        assert np.all(gptq_weight(parts, bits, False, n) == 1 - middle)
    # 0x33333350: the zero of the first field wraps, and the borrow reaches the second.
    zeros = np.array([[0, 5, 3, 3, 3, 3, 3, 3]])
    parts = pack_gptq(np.zeros((8, 8), dtype=np.int64), half(8), zeros, Quant("gptq"), np.zeros(8, dtype=np.int64))
    assert parts["qzeros"].view(np.uint32)[0, 0] == 0x2222223F
    assert np.all(gptq_weight(parts, 4, False, 8)[:, 0] == -zeros[0])
    q = np.tile(np.arange(8), (8, 1))
    parts = pack_awq(q, half(8), np.full((1, 8), 3))
    assert np.all(awq_weight(parts).T == q - 3)
