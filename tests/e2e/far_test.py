#!/usr/bin/env python3
"""Whole answers of workers whose KV, weights and activations lie where the host cannot touch them:
far_test.py [BACKEND] [real], `far` of the dev build, `cuda-emu` of the preset emu, or `cuda` where there is a GPU. They equal
those of the CPU in every token and logprob digit: each family, prefill and decode apart, over each transport, beside workers on
the CPU, and when a device or a worker fails in mid-stream. With `real` the small real model instead: emulated, that takes minutes.
"""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BACKEND = sys.argv[1] if len(sys.argv) > 1 else "far"
COMPUTES = ("--backend", BACKEND, "--numerics", "exact")  # its tokens are those of a CPU worker
os.environ.setdefault("TANDEM_BUILD", "emu" if BACKEND == "cuda-emu" else "dev")  # the release build has no such backend
from cluster import (BIN, ROOT, Cluster, Skip, Tally, eventually, get_json, post_json, real_model, request,  # noqa: E402
                     stream_events)

from daemons import Parts  # noqa: E402

sys.path.insert(0, str(ROOT))
try:
    import numpy  # noqa: F401
except ImportError as missing:
    print(f"SKIPPED a device's memory: {missing}\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)
from tests.models import checkpoints  # noqa: E402

FAMILIES = [("llama", "awq-g32"), ("mistral", "bf16"), ("qwen", "gptq4-g32"), ("qwen2", "f16"), ("qwen3", "f32"),
            ("qwen2_moe", "gptq4-g32"), ("chatglm", "f16"), ("baichuan", "gptq4-g64"), ("baichuan-5", "f16")]
CUT = [("llama", "awq-g32", "shm"), ("qwen2_moe", "gptq4-g32", "tcp")]
KILLED = {"cuda-emu": ("llama", "qwen2_moe")}.get(BACKEND, [variant for variant, _ in FAMILIES])  # emulated steps take time
SMALL = ["--threads", 1, "--kv-blocks", 128]
LONG = 60  # tokens of an answer in whose middle a worker is killed


FORM = r"([a-m]{3}[0-9]{2}){1,99}"  # of one answer: whoever goes on with it goes on with that


def bodies(n=12):
    for i, length in enumerate((1, 17, 45, 70)):
        yield {"prompt": [(7 * i + 13 * j) % 250 for j in range(length)], "max_tokens": n, "ignore_eos": True,
               "return_token_ids": True, "logprobs": 2, "seed": 100 + i, "temperature": 0 if i % 2 else 0.8,
               "repetition_penalty": 1.2 if i == 2 else 1}
    yield {"prompt": [(5 + 11 * j) % 250 for j in range(21)], "max_tokens": n, "ignore_eos": True, "return_token_ids": True,
           "logprobs": 2, "seed": 99, "temperature": 1, "guided_regex": FORM}


def answers(port):
    got = [post_json(port, "/v1/completions", body)["choices"][0] for body in bodies()]
    assert re.match(r"([a-m]{3}[0-9]{2}){2}", got[-1]["text"]), got[-1]
    return got


def of_the_cpu(model):
    """The answers, and the long streams."""
    with Cluster("--mixed", 1, "--backend", "cpu", *SMALL, model=str(model)) as cluster:
        return answers(cluster.port), [streamed(cluster.port, body) for body in bodies(LONG)]


def real_answers(port):
    prompts = ["The capital of France is", "Once upon a time, by the sea,", "def fibonacci(n):\n"]

    def answer(prompt):
        body = {"prompt": prompt, "max_tokens": 64, "ignore_eos": True, "return_token_ids": True, "logprobs": 2, "seed": 5,
                "temperature": 0.7 if "sea" in prompt else 0}
        return post_json(port, "/v1/completions", body, timeout=900)["choices"][0]
    with ThreadPoolExecutor(len(prompts)) as pool:
        return list(pool.map(answer, prompts))


def a_real_model():
    model = real_model()
    with Cluster("--mixed", 1, "--backend", "cpu", "--threads", 1, model=model) as cluster:
        wanted = real_answers(cluster.port)
    with Cluster("--prefill", 1, "--decode", 1, "--roles", "fixed", *COMPUTES, *SMALL, model=model) as cluster:
        assert real_answers(cluster.port) == wanted
        assert cluster.quiet()["routers"][0]["core"]["inexact"] == 0
    return f"{len(wanted)} prompts, {sum(len(answer['token_ids']) for answer in wanted)} tokens"


def family(model, wanted, transport):
    roles = ["--prefill", 1, "--decode", 1, "--roles", "fixed", "--kv-transport", transport]
    with Cluster(*roles, *COMPUTES, *SMALL, model=str(model)) as cluster:
        assert answers(cluster.port) == wanted
        state = cluster.quiet()
        assert all(w["backend"] == BACKEND for w in state["workers"]), state
        n = sum(w["handoffs"]["in"] for w in state["workers"])
        assert n == len(wanted) and state["routers"][0]["core"]["inexact"] == 0, state
    return f"{n} hand-offs over {transport}"


def between(folder, model, wanted, prefill, decode, transport, *more):
    with tempfile.TemporaryDirectory(dir=folder) as own, Parts(own, model, *SMALL) as parts:
        parts.worker("p", "prefill", prefill, "--kv-transport", transport, *more)
        parts.worker("d", "decode", decode, *more)
        parts.up(2)
        assert answers(parts.port) == wanted
        state = get_json(parts.port, "/admin/status")
        assert sum(w["handoffs"]["in"] for w in state["workers"]) == len(wanted), state
        assert state["routers"][0]["core"]["inexact"] == 0, state


def metric(port, name):
    lines = request(port, "GET", "/metrics")[2].decode().splitlines()
    return float(next(line for line in lines if line.startswith(name + " ")).split()[1])


class Streams:
    """The long answers, all at the same time, in threads; in .got when they have come."""

    def __init__(self, port):
        self.got, self.lock, self.first = {}, threading.Lock(), threading.Event()
        self.n_begun = 0
        self.threads = [threading.Thread(target=self._read, args=(port, i, body), daemon=True)
                        for i, body in enumerate(bodies(LONG))]
        for thread in self.threads:
            thread.start()

    def _read(self, port, i, body):
        answer = streamed(port, body, self._begun)
        with self.lock:
            self.got[i] = answer
        self.first.set()

    def _begun(self):
        with self.lock:
            self.n_begun += 1
            if self.n_begun == len(self.threads):
                self.first.set()

    def all_begun(self):
        assert self.first.wait(60), "no stream began"

    def join(self):
        for thread in self.threads:
            thread.join(120)
        return [self.got[i] for i in range(len(self.threads))]


@contextlib.contextmanager
def slowed(process):
    """The CPU writes such an answer in 4 ms, sooner than a test can see that it began: it gets a small part of the time."""
    over = threading.Event()

    def stop_and_go():
        while not over.wait(0.0005):
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.02)
            process.send_signal(signal.SIGCONT)
    thread = threading.Thread(target=stop_and_go)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def killed_in_mid_stream(folder, model, wanted, doomed, spare):
    """Two workers decode, on the backends `doomed` and `spare`; what the first was at when it is killed goes on on the
    second. Where the kill came after the last token, again."""
    with tempfile.TemporaryDirectory(dir=folder) as own, Parts(own, model, *SMALL) as parts:
        parts.worker("p", "prefill", doomed)
        parts.worker("spare", "decode", spare)
        for n_rounds in range(1, 11):
            parts.worker("doomed", "decode", doomed)
            parts.up(3)
            with slowed(parts.processes["doomed"]):
                streams = Streams(parts.port)
                streams.all_begun()
                parts.kill("doomed")
            assert streams.join() == wanted
            replays = metric(parts.port, "tandem_router_replays_total")
            if replays > 0:
                break
        workers = get_json(parts.port, "/admin/status")["workers"]
        assert replays > 0, "no kill met a stream"
        assert metric(parts.port, "tandem_router_inexact_total") == 0
        assert {w["backend"] for w in workers if w["state"] == "ready"} == {doomed, spare}, workers
        return f"{replays:.0f} replays in {n_rounds} rounds"


def a_failed_device(folder, model):
    """Streams of a worker whose device fails in mid-answer go on elsewhere, on the CPU; the worker says why it ended."""
    with tempfile.TemporaryDirectory(dir=folder) as own, Parts(own, model, *SMALL) as parts:
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


def streamed(port, body, begun=lambda: None):
    """All token ids and the whole text; begun() is called at the first of them."""
    ids, text = [], ""
    for event in stream_events(port, "/v1/completions", {k: v for k, v in body.items() if k != "logprobs"}):
        for choice in json.loads(event)["choices"] if event != "[DONE]" else []:
            if not ids and choice.get("token_ids"):
                begun()
            ids += choice.get("token_ids") or []
            text += choice["text"]
    return ids, text


def cut(folder, model, transport):
    """Two ranks on two devices: the bits of two ranks on the host, handed over between both and either side."""
    with Cluster("--mixed", 1, "--tp", 2, "--backend", "cpu", *SMALL, model=str(model)) as cluster:
        wanted = answers(cluster.port)
    roles = ["--prefill", 1, "--decode", 1, "--roles", "fixed", "--prefill-tp", 2, "--decode-tp", 2, "--kv-transport", transport]
    with Cluster(*roles, *COMPUTES, *SMALL, model=str(model)) as cluster:
        assert answers(cluster.port) == wanted
        state = cluster.quiet()
        assert [w["tp"] for w in state["workers"]] == [2, 2] and state["routers"][0]["core"]["inexact"] == 0, state
        assert sum(w["handoffs"]["in"] for w in state["workers"]) == len(wanted), state
    for prefill, decode in (("cpu", BACKEND), (BACKEND, "cpu")):
        between(folder, model, wanted, prefill, decode, transport, "--tp", 2)


def cut_otherwise(folder, model, wanted):
    """From one rank on a device to two, and back: every head arrives, so the first token's logits are those of one rank."""
    with tempfile.TemporaryDirectory(dir=folder) as own, Parts(own, model, *SMALL) as parts:
        for name, role, tp in (("p", "prefill", 1), ("d", "decode", 2)):
            parts.worker(name, role, BACKEND, "--tp", tp)
        parts.up(2)
        got = answers(parts.port)
        assert [a["token_ids"][0] for a in got] == [a["token_ids"][0] for a in wanted], (got, wanted)
        state = get_json(parts.port, "/admin/status")
        assert sum(w["handoffs"]["in"] for w in state["workers"]) == len(wanted), state
        assert state["routers"][0]["core"]["inexact"] == len(wanted), state


def ranks_elsewhere_are_refused(folder, model):
    done = subprocess.run([BIN / "tandem-worker", "--name", "w", "--model", model, *COMPUTES, "--tp", "2",
                           "--ranks-here", "1", "--rank-listen", f"ipc://{folder}/ranks", "--dry-run"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 78 and "one process has all ranks, each on a device" in done.stderr, done


def another_device(folder, model):
    """far has devices 0 and 1; a worker is told of the one it is to use."""
    with tempfile.TemporaryDirectory(dir=folder) as own, Parts(own, model, *SMALL) as parts:
        parts.worker("w1", "mixed", "far", "--devices", 1)
        parts.up(1)
        parts.worker("w2", "mixed", "far", "--devices", 2)
        parts.worker("w3", "mixed", "far", "--devices", 1, "--tp", 2)  # the second rank's is the next one
        for name, words in (("w2", "error: there is no device 2"), ("w3", "there is no device 2")):
            assert parts.processes[name].wait(60) == 78 and words in parts.log(name), parts.log(name)


def spread(model):
    """Each rank has a GPU of its own, as long as there are any."""
    for roles, wanted in ((["--prefill", 1, "--decode", 2, "--decode-tp", 2], {"prefill0": "0", "decode0": "0", "decode1": "0"}),
                          (["--mixed", 3], {"mixed0": "0", "mixed1": "1", "mixed2": "0"})):
        with Cluster(*roles, "--gpus", 2, "--backend", "far", *SMALL, model=str(model)) as cluster:
            lines = {w["name"]: Path(f"/proc/{w['pid']}/cmdline").read_text() for w in cluster.workers()}
            assert {name: line.split("--devices=")[1][0] for name, line in lines.items()} == wanted, lines


def one_device():
    raise Skip("there is one device")


def all_of_a_family(tally, folder, variant, fmt, transport):
    model = folder / f"{variant}-{fmt}"
    checkpoints.write(model, variant, fmt)
    wanted, streams = of_the_cpu(model)
    tally.run(f"{variant} {fmt}", family, model, wanted, transport)
    for doomed, spare in (("cpu", BACKEND), (BACKEND, "cpu")) if BACKEND != "far" and variant in KILLED else ():
        tally.run(f"{variant} {fmt}, killed on {doomed}, goes on on {spare}", killed_in_mid_stream, folder, model, streams,
                  doomed, spare)


def all_of_tiny_models(tally, folder):
    with ThreadPoolExecutor(2) as pool:  # a cluster is one busy thread at a time
        families = [pool.submit(all_of_a_family, tally, folder, variant, fmt, ("shm", "tcp")[i % 2])
                    for i, (variant, fmt) in enumerate(FAMILIES)]
        for each in families:
            each.result()
    model = folder / "both"
    checkpoints.write(model, "llama", "gptq4-g32")
    wanted, _ = of_the_cpu(model)
    for prefill, decode in (("cpu", BACKEND), (BACKEND, "cpu")):
        for transport in ("shm", "tcp"):
            tally.run(f"from {prefill} to {decode} over {transport}", between, folder, model, wanted, prefill, decode,
                      transport)
    if BACKEND == "far":  # it can be told to fail, and says which device it is
        tally.run("a failed device ends its worker, streams go on", a_failed_device, folder, model)
        tally.run("a device is chosen by its number", another_device, folder, model)
        tally.run("workers are spread over devices", spread, model)
    tally.run("ranks are all of one process there", ranks_elsewhere_are_refused, folder, model)
    dry = [BIN / "tandem-worker", "--name", "w", "--model", model, *COMPUTES, "--devices", "1", "--dry-run"]
    if subprocess.run(dry, capture_output=True, timeout=60).returncode != 0:
        tally.run("a model cut over two devices", one_device)
        return
    for variant, fmt, transport in CUT if BACKEND != "cuda-emu" else CUT[:1]:
        model = folder / f"cut-{variant}"
        checkpoints.write(model, variant, fmt)
        tally.run(f"{variant} {fmt} cut over two devices", cut, folder, model, transport)
    tally.run("from one device to two", cut_otherwise, folder, model, of_the_cpu(model)[0])


def main():
    tally, real = Tally(), "real" in sys.argv[2:]
    with tempfile.TemporaryDirectory() as name:
        if not real:
            all_of_tiny_models(tally, Path(name))
    if real or BACKEND == "cuda":
        tally.run("a real model", a_real_model)
    sys.exit(tally.end())


main()
