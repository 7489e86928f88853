#!/usr/bin/env python3
"""Whole answers of workers whose KV, weights and activations lie where the host cannot touch them: far_test.py [BACKEND],
`far` or `cuda-emu` of the dev build, or `cuda` where there is a GPU. They equal those of the CPU in every token and logprob
digit: each family, prefill and decode apart, over each transport, beside workers on the CPU, and when a device fails.
"""
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

os.environ.setdefault("TANDEM_BUILD", "dev")  # the release build has no such backend
from cluster import BIN, ROOT, Cluster, Tally, eventually, get_json, post_json, stream_events  # noqa: E402

sys.path.insert(0, str(ROOT))
try:
    import numpy  # noqa: F401
except ImportError as missing:
    print(f"SKIPPED a device's memory: {missing}\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)
from tests.models import checkpoints  # noqa: E402

BACKEND = sys.argv[1] if len(sys.argv) > 1 else "far"
FAMILIES = [("llama", "awq-g32"), ("mistral", "bf16"), ("qwen", "gptq4-g32"), ("qwen2", "f16"), ("qwen3", "f32"),
            ("qwen2_moe", "gptq4-g32"), ("chatglm", "f16"), ("baichuan", "gptq4-g64"), ("baichuan-5", "f16")]
SMALL = ["--threads", 1, "--kv-blocks", 128]


def bodies(n=12):
    for i, length in enumerate((1, 17, 45, 70)):
        yield {"prompt": [(7 * i + 13 * j) % 250 for j in range(length)], "max_tokens": n, "ignore_eos": True,
               "return_token_ids": True, "logprobs": 2, "seed": 100 + i, "temperature": 0 if i % 2 else 0.8,
               "repetition_penalty": 1.2 if i == 2 else 1}


def answers(port):
    return [post_json(port, "/v1/completions", body)["choices"][0] for body in bodies()]


def family(folder, variant, fmt, transport):
    model = folder / f"{variant}-{fmt}"
    checkpoints.write(model, variant, fmt)
    with Cluster("--mixed", 1, "--backend", "cpu", *SMALL, model=str(model)) as cluster:
        wanted = answers(cluster.port)
    roles = ["--prefill", 1, "--decode", 1, "--kv-transport", transport]
    with Cluster(*roles, "--backend", BACKEND, *SMALL, model=str(model)) as cluster:
        assert answers(cluster.port) == wanted
        state = cluster.quiet()
        assert all(w["backend"] == BACKEND for w in state["workers"]), state
        n = sum(w["handoffs"]["in"] for w in state["workers"])
        assert n == len(wanted) and state["routers"][0]["core"]["inexact"] == 0, state
    return f"{n} hand-offs over {transport}"


class Parts:
    """A router and workers started by hand, each with a backend of its own."""

    def __init__(self, folder, model):
        self.folder, self.model, self.processes = Path(folder), str(model), {}

    def __enter__(self):
        self.spawn("router", "tandem-router", "--listen", "127.0.0.1:0", "--announce", f"ipc://{self.folder}/announce")
        eventually(lambda: " port=" in self.log("router"), 30, "a router")
        self.port = int(self.log("router").split(" port=")[1].split()[0])
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(60)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def spawn(self, name, program, *args, **env):
        with open(self.folder / f"{name}.log", "wb") as log:
            self.processes[name] = subprocess.Popen([BIN / program, "--model", self.model, *map(str, args)], stdout=log,
                                                    stderr=log, env=dict(os.environ, **env))

    def worker(self, name, role, backend, *args, **env):
        self.spawn(name, "tandem-worker", "--name", name, "--role", role, "--backend", backend, "--routers",
                   f"ipc://{self.folder}/announce", "--endpoint", f"ipc://{self.folder}/{name}", *SMALL, *args, **env)

    def up(self, n):
        def ready():
            return [w for w in get_json(self.port, "/admin/status")["workers"] if w["state"] == "ready"]
        eventually(lambda: len(ready()) == n, 60, f"{n} workers")


def between(folder, model, wanted, prefill, decode, transport):
    with tempfile.TemporaryDirectory(dir=folder) as own, Parts(own, model) as parts:
        parts.worker("p", "prefill", prefill, "--kv-transport", transport)
        parts.worker("d", "decode", decode)
        parts.up(2)
        assert answers(parts.port) == wanted
        state = get_json(parts.port, "/admin/status")
        assert sum(w["handoffs"]["in"] for w in state["workers"]) == len(wanted), state
        assert state["routers"][0]["core"]["inexact"] == 0, state


def a_failed_device(folder, model):
    """Streams of a worker whose device fails in mid-answer go on elsewhere, on the CPU; the worker says why it ended."""
    with tempfile.TemporaryDirectory(dir=folder) as own, Parts(own, model) as parts:
        wanted, got = [], []
        parts.worker("spare", "mixed", "cpu")
        parts.up(1)
        for body in bodies(120):
            wanted.append(streamed(parts.port, body))
        parts.worker("doomed", "mixed", "far", TANDEM_FAR_FAIL_STEP="100")
        parts.up(2)
        streams = [threading.Thread(target=lambda body=body: got.append(streamed(parts.port, body)))
                   for body in [*bodies(120)] * 2]
        for stream in streams:
            stream.start()
        for stream in streams:
            stream.join()
        assert parts.processes["doomed"].wait(60) == 1
        assert 'the device failed: the worker ends' in parts.log("doomed"), parts.log("doomed")[-2000:]
        assert sorted(got) == sorted(wanted * 2)
        core = get_json(parts.port, "/admin/status")["routers"][0]["core"]
        assert core["inexact"] == 0 and core["replays"] > 0, core
        return f"{core['replays']} replays"


def streamed(port, body):
    """All token ids and the whole text."""
    ids, text = [], ""
    for event in stream_events(port, "/v1/completions", {k: v for k, v in body.items() if k != "logprobs"}):
        for choice in json.loads(event)["choices"] if event != "[DONE]" else []:
            ids += choice.get("token_ids") or []
            text += choice["text"]
    return ids, text


def ranks_are_refused(folder, model):
    done = subprocess.run([BIN / "tandem-worker", "--model", model, "--backend", BACKEND, "--tp", "2", "--dry-run"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 78 and "error: 2 ranks: with the backend" in done.stderr, done


def another_device(folder, model):
    """far has devices 0 and 1; a worker is told of the one it is to use."""
    with tempfile.TemporaryDirectory(dir=folder) as own, Parts(own, model) as parts:
        parts.worker("w1", "mixed", "far", "--devices", 1)
        parts.up(1)
        parts.worker("w2", "mixed", "far", "--devices", 2)
        assert parts.processes["w2"].wait(60) == 78
        assert "error: there is no device 2" in parts.log("w2"), parts.log("w2")


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for i, (variant, fmt) in enumerate(FAMILIES):
            tally.run(f"{variant} {fmt}", family, folder, variant, fmt, ("shm", "tcp")[i % 2])
        model = folder / "both"
        checkpoints.write(model, "llama", "gptq4-g32")
        with Cluster("--mixed", 1, "--backend", "cpu", *SMALL, model=str(model)) as cluster:
            wanted = answers(cluster.port)
        for prefill, decode in (("cpu", BACKEND), (BACKEND, "cpu")):
            for transport in ("shm", "tcp"):
                tally.run(f"from {prefill} to {decode} over {transport}", between, folder, model, wanted, prefill,
                          decode, transport)
        if BACKEND == "far":  # it can be told to fail, and says which device it is
            tally.run("a failed device ends its worker, streams go on", a_failed_device, folder, model)
            tally.run("a device is chosen by its number", another_device, folder, model)
        tally.run("a model is not cut there", ranks_are_refused, folder, model)
    sys.exit(tally.end())


main()
