#!/usr/bin/env python3
"""The models of the reference results, with random weights in their own shapes: each is served on the CPU, and each
full-size one has its memory planned for every device and tensor-parallel size of the tables.

usage: reference_test.py [--full] [--plan]

Two layers of each are served, with 4,096 tokens of vocabulary and 8 experts; --full: the whole vocabulary and 64
experts. --plan prints the table of plans as Markdown and does nothing else.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/e2e")]
from cluster import BIN, Cluster, Tally, get_json, post_json  # noqa: E402
from tests.models import reference  # noqa: E402

DEVICES = {"a100-40": "A100 40 GB", "a100-80": "A100 80 GB", "l20": "L20", "h100": "H100", "h200": "H200"}


def plan(folder, tp, device):
    answer = subprocess.run([BIN / "tandem-worker", "--dry-run", "--json", "--load-format", "dummy", "--model", folder,
                             "--tp", str(tp), "--device", device], capture_output=True, text=True)
    assert answer.returncode == 0, (answer.returncode, answer.stderr)
    return json.loads(answer.stdout)


def serve(name, full):
    cuts = dict(layers=2) if full else dict(layers=2, vocab=4096, experts=8)
    with tempfile.TemporaryDirectory() as folder:
        reference.write(name, folder, **cuts)
        with Cluster("--mixed", 1, "--load-format", "dummy", "--kv-blocks", 256, "--max-batch", 4, "--chunk-tokens",
                     128, model=folder) as cluster:
            model = get_json(cluster.port, "/v1/models")["data"][0]["id"]
            ask = dict(model=model, prompt=list(range(1, 40)), max_tokens=6, temperature=0, ignore_eos=True)
            first = post_json(cluster.port, "/v1/completions", ask, timeout=600)
            again = post_json(cluster.port, "/v1/completions", ask, timeout=600)
            assert first["usage"]["completion_tokens"] == 6, first
            assert first["choices"][0]["text"] == again["choices"][0]["text"], (first, again)
            cluster.quiet()


def plans(name):
    """The plan of one rank: smaller with every rank, and what is refused is refused for its heads."""
    config, sizes = reference.CONFIGS[name]
    with tempfile.TemporaryDirectory() as folder:
        reference.write(name, folder)
        found = {tp: plan(folder, tp, "h200") for tp in sizes}
        for tp, answer in found.items():
            steps = {(one["efficiencies"], one["step"]): one for one in answer["steps"]}
            alone = steps["limit", "decode of 1 at 512"]
            # Reading a dense model's weights once bounds a token; of experts only some are read.
            floor = answer["weights_bytes"] / 4.28e9 * (0.8 if "A14B" not in name else 0.1)
            assert floor < alone["ms_per_token"] < 1.1 * answer["weights_bytes"] / 4.28e9, (floor, alone)
            assert alone["ms_per_token"] < steps["tandem-exact", "decode of 1 at 512"]["ms_per_token"], steps
            assert ("sums" in alone["terms_ms"]) == (tp > 1), alone
        for smaller, larger in zip(sizes, sizes[1:]):
            assert found[larger]["weights_bytes"] < found[smaller]["weights_bytes"], found
            assert found[larger]["kv_bytes_per_token"] <= found[smaller]["kv_bytes_per_token"], found
        if 8 not in sizes:
            refused = subprocess.run([BIN / "tandem-worker", "--dry-run", "--json", "--load-format", "dummy",
                                      "--model", folder, "--tp", "8"], capture_output=True, text=True)
            assert refused.returncode == 78 and "heads" in refused.stderr, (refused.returncode, refused.stderr)
        n_kv = config.get("multi_query_group_num") or config.get("num_key_value_heads") or config["num_attention_heads"]
        layers = config.get("num_layers") or config["num_hidden_layers"]
        assert found[1]["kv_bytes_per_token"] == 2 * 2 * layers * n_kv * 128, found[1]
    return f"weights of a rank at TP {sizes[0]}: {found[sizes[0]]['weights_bytes'] / 1e9:.2f} GB"


def table():
    print("Memory of the largest rank, and tokens of KV cache (float16) that one group holds, by device; `-`: does not "
          "fit.\n")
    print(f"| model | TP | weights GB | KV bytes per token | {' | '.join(DEVICES.values())} |")
    print("|---|---|---|---|" + "---|" * len(DEVICES))
    for name, (_, sizes) in reference.CONFIGS.items():
        with tempfile.TemporaryDirectory() as folder:
            reference.write(name, folder)
            for tp in sizes:
                found = [plan(folder, tp, device) for device in DEVICES]
                cells = [f"{p['tokens']:,}" if p["fits"] else "-" for p in found]
                print(f"| {name} | {tp} | {found[0]['weights_bytes'] / 1e9:.2f} | {found[0]['kv_bytes_per_token']:,} | "
                      f"{' | '.join(cells)} |", flush=True)


def main():
    if "--plan" in sys.argv:
        return table()
    tally = Tally()
    for name in reference.CONFIGS:
        tally.run(f"plan_{name}", plans, name)
        tally.run(f"serve_{name}", serve, name, "--full" in sys.argv)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
