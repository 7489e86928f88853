#!/usr/bin/env python3
"""Our logits of a tiny random llama in every weight format against a float64 model of the same file."""
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster import ROOT, TOOLS, Skip, Tally

sys.path.insert(0, str(ROOT))
# Of the logits' own spread. f32 and f16 differ by KV in half precision alone; bf16 rounds activations to bf16; in
# the others activations are 8-bit integers per group of 32, which is worth about one part in a hundred.
BOUNDS = {"f32": 2e-3, "f16": 2e-3, "bf16": 2e-2, "q4_0": 3e-2, "q4_1": 3e-2, "q8_0": 3e-2}


def close_to_float64(form, head, backend):
    try:
        import numpy as np
    except ImportError as error:
        raise Skip(f"numpy: {error}")
    from tests.models.numpy_llama import Llama
    rng = random.Random(5)
    ids = [rng.randrange(259) for _ in range(70)]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "tiny.gguf")
        subprocess.run([TOOLS / "tiny_gguf_cli", form, "7", head, path], check=True)
        raw = subprocess.run([TOOLS / "logits_cli", path, "--backend", backend], capture_output=True, check=True,
                             input=json.dumps({"ids": ids, "binary": True, "all": True}).encode()).stdout
        reference = Llama(path).logits(ids)
    ours = np.frombuffer(raw, dtype="<f4").reshape(len(ids), -1)
    error = float(np.sqrt(((ours - reference) ** 2).mean()) / reference.std())
    assert error <= BOUNDS[form], error
    return f"error {error:.2e} of the logits' spread {reference.std():.2f}"


tally = Tally()
for form in BOUNDS:
    for head in ("tied", "own"):
        for backend in ("ref", "cpu"):
            tally.run(f"{form}_{head}_{backend}", close_to_float64, form, head, backend)
sys.exit(tally.end())
