#!/usr/bin/env python3
"""What a served token takes beside the kernels alone: a cluster of one worker with random weights at the shapes of Mistral-7B, asked by
tandem-bench for as many streams at once as a step of gpu_times has rows.

usage: serve.py BACKEND PROGRAMS BITS     BITS: 16, or 4 (AWQ)

TANDEM_BUILD names the build whose programs serve, PROGRAMS is the folder of gpu_times. On the emulator the model is tiny and no time is
said: only that all answers came. The kernels run first, by themselves, and the cluster begins when they have ended.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "e2e")]
from cluster import BIN, Cluster  # noqa: E402

from tests.models import reference  # noqa: E402

MODEL = "Mistral-7B-OpenOrca-AWQ"
# The shape of gpu_times' tiny models.
TINY = dict(hidden_size=256, intermediate_size=1152, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2, vocab_size=512,
            eos_token_id=2)
LIMIT_S = 100  # of one load


def write_config(folder, bits, tiny):
    config = dict(reference.CONFIGS[MODEL][0], **(TINY if tiny else {}))
    if bits == 16:
        del config["quantization_config"]
    (folder / "config.json").write_text(json.dumps(config))
    return config["vocab_size"]


def kernels_alone(programs, backend, bits, tiny):
    """{streams: milliseconds of a decode step of so many}; on the emulator None each."""
    name = ("tiny " if tiny else "Mistral-7B ") + ("AWQ" if bits == 4 else "F16")
    lines = subprocess.run([Path(programs) / "gpu_times", "steps", f"{backend}:fast", "--model", name, "--load", "decode"], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    steps = [record for record in map(json.loads, lines) if record["measure"] == "whole step"]
    return {int(step["load"].split()[1]): step["ms"] for step in reversed(steps)}  # of two with as many streams the first counts


def bench(url, vocabulary, streams, requests, prompt, answer):
    command = [BIN / "tandem-bench", "load", "--target", url, "--completions", "--prompts", "ids", "--vocabulary", vocabulary, "--profile",
               "concurrent", "--concurrency", streams, "--requests", requests, "--prompt-tokens", prompt, "--max-tokens", answer, "--seed",
               7, "--quiet", "--json", "-"]
    done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, timeout=LIMIT_S).stdout
    return json.loads(done)


def measure(found, bits, streams, requests, alone, tiny):
    if found["requests"]["completed"] != requests or found["requests"]["errors"]:
        raise SystemExit(f"error: {streams} streams: {found['requests']}, not {requests} answers")
    record = {"measure": "served", "bits": bits, "streams": streams, "answers": requests, "between_tokens_ms": None, "p99_ms": None,
              "first_token_ms": None, "tokens_s": None, "kernels_ms": None, "beyond_kernels": None}
    if not tiny:
        between = found["gap_ms"]["p50"]
        record.update(between_tokens_ms=between, p99_ms=found["gap_ms"]["p99"], first_token_ms=found["ttft_ms"]["p50"],
                      tokens_s=found["output_tokens_per_s"])
        if alone:
            record.update(kernels_ms=alone, beyond_kernels=round(between / alone - 1, 3))
    print(json.dumps(record), flush=True)


def main():
    backend, programs, bits = sys.argv[1], sys.argv[2], int(sys.argv[3])
    tiny = backend == "cuda-emu"
    loads = [(2, 4)] if tiny else [(1, 8), (16, 48), (64, 192)]
    prompt, answer = (20, 6) if tiny else (448, 128)  # answers lie about position 512, where the steps of gpu_times are
    alone = kernels_alone(programs, backend, bits, tiny)
    with tempfile.TemporaryDirectory(prefix="serve-") as name:
        vocabulary = write_config(Path(name), bits, tiny)
        more = ("--kv-blocks", 256) if tiny else ()
        with Cluster("--mixed", 1, "--load-format", "dummy", "--backend", backend, "--max-batch", 64, *more, model=name) as cluster:
            for streams, requests in loads:
                if not tiny:
                    bench(cluster.url, vocabulary, streams, streams, prompt, 16)  # graphs of these rows are made
                found = bench(cluster.url, vocabulary, streams, requests, prompt, answer)
                measure(found, bits, streams, requests, alone.get(streams), tiny)
    return 0


if __name__ == "__main__":
    sys.exit(main())
