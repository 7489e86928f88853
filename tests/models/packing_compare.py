#!/usr/bin/env python3
"""packing.py against the writers themselves, bit by bit: AutoAWQ 0.2.9, AutoGPTQ 0.7.1 and GPTQModel 2.2.0. Needs torch and
transformers; run by hand, not by tools/check.

usage: packing_compare.py SOURCES

SOURCES is a folder with the unpacked packages (`pip download --no-deps`): awq/, auto_gptq/ and gptqmodel/ in it, or one
folder further down. Their __init__ files, which want GPUs and much else, are left out; only the modules that pack and
dequantize are imported.

For each format the same random linear is packed by them and by us: words, zero points and scales must be equal, and so
must the weights that they and our formulas read out of them (in float16, as they compute).
"""
import importlib
import sys
import types
from pathlib import Path

import numpy as np
import torch
import transformers  # noqa: F401  (before the hollow packages, which it would look at)

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.models import packing  # noqa: E402
from tests.models.packing import Quant  # noqa: E402

N_IN, N_OUT = 256, 96


def hollow(sources, *names):
    """Packages without their __init__: modules below them can be imported on their own."""
    for name in names:
        top, *rest = name.split(".")
        found = next(path for path in [sources / top, *sources.glob(f"*/{top}")] if path.is_dir())
        module = types.ModuleType(name)
        module.__path__ = [str(found.joinpath(*rest))]
        sys.modules[name] = module


def make(quant, seed):
    """A linear, its integers, scales and zeros, and torch's linear with exactly those weights."""
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((N_OUT, N_IN)) / 16
    order = rng.permutation(N_IN) if quant.order != "none" else None
    index = packing.groups_of(N_IN, quant, order)
    q, scales, zeros = packing.quantize(weight, quant, index, rng)
    linear = torch.nn.Linear(N_IN, N_OUT, bias=False)
    exact = (q - zeros[index]) * scales.astype(np.float64)[index]
    linear.weight.data = torch.from_numpy(exact.T.astype(np.float32))
    return linear, q, scales, zeros, index


def tensors(scales, zeros):
    return torch.from_numpy(scales.astype(np.float32).T.copy()), torch.from_numpy(zeros.astype(np.float32).T.copy())


def equal(ours, theirs, what):
    theirs = theirs.detach().numpy()
    assert ours.shape == theirs.shape, f"{what}: shape {ours.shape}, theirs {theirs.shape}"
    different = int((ours != theirs).sum())
    assert different == 0, f"{what}: {different} of {ours.size} differ"


def auto_awq(sources, quant, seed):
    hollow(sources, "awq", "awq.modules", "awq.modules.linear", "awq.utils")
    gemm = importlib.import_module("awq.modules.linear.gemm")
    gemm.get_best_device = lambda: "cpu"
    linear, q, scales, zeros, _ = make(quant, seed)
    theirs = gemm.WQLinear_GEMM.from_linear(linear, 4, quant.group, scales=torch.from_numpy(scales.astype(np.float32)),
                                            zeros=torch.from_numpy(zeros))
    ours = packing.pack_awq(q, scales, zeros)
    for name in ("qweight", "qzeros", "scales"):
        equal(ours[name], getattr(theirs, name), name)
    read = importlib.import_module("awq.utils.packing_utils").dequantize_gemm(
        theirs.qweight, theirs.qzeros, theirs.scales, 4, quant.group)
    equal(packing.awq_weight(ours).T.astype(np.float16), read.half(), "weights")


def auto_gptq(sources, quant, seed):
    hollow(sources, "auto_gptq", "auto_gptq.nn_modules", "auto_gptq.nn_modules.qlinear")
    module = importlib.import_module("auto_gptq.nn_modules.qlinear.qlinear_cuda")
    linear, q, scales, zeros, index = make(quant, seed)
    theirs = module.QuantLinear(quant.bits, quant.group, N_IN, N_OUT, False, weight_dtype=torch.float32)
    theirs.pack(linear, *tensors(scales, zeros), torch.from_numpy(index.astype(np.int32)))
    ours = packing.pack_gptq(q, scales, zeros, quant, index)
    for name in ("qweight", "qzeros", "g_idx"):
        equal(ours[name], getattr(theirs, name), name)
    equal(ours["scales"].astype(np.float32), theirs.scales, "scales")
    theirs.autogptq_cuda_available = False
    read = theirs(torch.eye(N_IN))  # (n_in, n_out)
    equal(packing.gptq_weight(ours, quant.bits, False, quant.group).T.astype(np.float32), read, "weights")


def gptq_model(sources, quant, seed):
    hollow(sources, "gptqmodel", "gptqmodel.models", "gptqmodel.utils", "gptqmodel.nn_modules", "gptqmodel.adapter")
    sys.modules["gptqmodel.utils"].BACKEND = importlib.import_module("gptqmodel.utils.backend").BACKEND
    module = importlib.import_module("gptqmodel.nn_modules.qlinear.torch")
    linear, q, scales, zeros, index = make(quant, seed)
    theirs = module.TorchQuantLinear(bits=quant.bits, group_size=quant.group, sym=quant.sym,
                                     desc_act=quant.order != "none", in_features=N_IN, out_features=N_OUT, bias=False,
                                     pack_dtype=torch.int32, register_buffers=True)
    theirs.pack(linear, *tensors(scales, zeros), torch.from_numpy(index.astype(np.int32)))
    if not quant.v2:  # as its convert_gptq_v2_to_v1_format_module does on saving
        theirs.qzeros.data -= packing.packed_ones(quant.bits)
    ours = packing.pack_gptq(q, scales, zeros, quant, index)
    for name in ("qweight", "qzeros", "g_idx", "scales"):
        equal(ours[name], getattr(theirs, name), name)
    if not quant.v2:  # and its convert_gptq_v1_to_v2_format_module on loading
        theirs.qzeros.data += packing.packed_ones(quant.bits)
    shifts = torch.arange(0, 32, quant.bits, dtype=torch.int32).unsqueeze(0)  # as its post_init, which compiles as well
    theirs.wf_unsqueeze_zero, theirs.wf_unsqueeze_neg_one = shifts.unsqueeze(0), shifts.unsqueeze(-1)
    read = theirs.dequantize_weight()
    equal(packing.gptq_weight(ours, quant.bits, quant.v2, quant.group).T.astype(np.float16), read.half(), "weights")


CASES = [(auto_awq, Quant("awq", group=g)) for g in (32, 64, 128)]
CASES += [(auto_gptq, Quant("gptq", bits, g, sym=sym, order=order)) for bits in (4, 8) for g in (32, 64, 128, -1)
          for sym in (True, False) for order in ("none", "shared")]
CASES += [(gptq_model, Quant("gptq", bits, g, sym=sym, order=order, v2=v2, wrapped=wrapped))
          for bits in (4, 8) for g in (32, 64, 128, -1) for order in ("none", "shared")
          for sym, v2, wrapped in ((True, False, False), (False, False, False), (False, True, False),
                                   (False, False, True))]


def main():
    sources, failed = Path(sys.argv[1]), 0
    for check, quant in CASES:
        try:
            check(sources, quant, 7)
            verdict = "equal"
        except AssertionError as difference:
            verdict, failed = f"DIFFERS: {difference}", failed + 1
        print(f"{check.__name__:10} {quant.bits} bits, group {quant.group:3}, {'sym' if quant.sym else 'asym':4},"
              f" {'v2' if quant.v2 else 'v1' if quant.method == 'gptq' else 'gemm':4},"
              f" {'act-order' if quant.order != 'none' else 'in order'}{', wrapped' if quant.wrapped else ''}:"
              f" {verdict}", flush=True)
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
