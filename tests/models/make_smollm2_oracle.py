#!/usr/bin/env python3
"""Makes tests/data/smollm2_oracle.json: what llama.cpp answers on SmolLM2, and how far its logits are from
float64. Needs llama-cpp-python and numpy; run by hand, not by tools/check.

For 20 prompts of 1 to 1,500 tokens: the ids, llama.cpp's 64 greedy tokens, at each of them the gap between its
two best logits, and over all prompt positions the root mean square of (its logits - float64 logits), with
each row's mean taken off (a constant shift changes no probability).
"""
import json
import sys
from pathlib import Path

import llama_cpp
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.models.numpy_llama import Llama, model_file  # noqa: E402
from tests.models.prompts import PROMPT_LENGTHS, prompt_text  # noqa: E402

N_GREEDY = 64


def row_error(logits, truth):
    difference = logits - truth
    difference -= difference.mean(-1, keepdims=True)
    return np.sqrt((difference ** 2).mean(-1))


def greedy(model, ids):
    """llama.cpp's own greedy continuation, one llama_decode a token, from ids already evaluated."""
    tokens, gaps = [], []
    row = np.array(model._scores[-1], dtype=np.float64)
    for _ in range(N_GREEDY):
        best = np.argpartition(row, -2)[-2:]
        best = best[np.argsort(-row[best])]
        tokens.append(int(best[0]))
        gaps.append(round(float(row[best[0]] - row[best[1]]), 4))
        model.eval([tokens[-1]])
        row = np.array(model._scores[-1], dtype=np.float64)
    return tokens, gaps


def main():
    path = str(model_file())
    model = llama_cpp.Llama(path, n_ctx=2048, n_threads=2, n_batch=512, logits_all=True, verbose=False)
    reference = Llama(path)
    prompts = []
    for n in PROMPT_LENGTHS:
        ids = model.tokenize(prompt_text(n).encode(), add_bos=False, special=False)[:n]
        assert len(ids) == n, (n, len(ids))
        model.reset()
        model.eval(ids)
        error = row_error(np.array(model._scores[:n], dtype=np.float64), reference.logits(ids))
        tokens, gaps = greedy(model, ids)
        prompts.append({"ids": ids, "greedy": tokens, "gaps": gaps,
                        "rms_mean": float(error.mean()), "rms_max": float(error.max())})
        print(n, prompts[-1]["rms_mean"], file=sys.stderr, flush=True)
    out = Path(__file__).resolve().parents[1] / "data" / "smollm2_oracle.json"
    out.write_text(json.dumps({"llama_cpp_python": llama_cpp.__version__, "prompts": prompts},
                              separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
