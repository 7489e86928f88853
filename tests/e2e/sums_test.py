#!/usr/bin/env python3
"""Workers of several ranks on emulated devices, by each way in which their sums can be taken (--sums): the answers are those of as
many ranks on the CPU, to the last digit of every logprob; the log says which way it is, and why not a faster one; what NCCL cannot do
is one line; and a stream whose worker loses its group goes on elsewhere.

The builds with sanitizers have such a backend, and NCCL's functions for it (tests/support/fake_nccl.c)."""
import argparse
import json
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("TANDEM_BUILD", "dev")
from cluster import BIN, TOOLS, Cluster, Skip, Tally, eventually, get_json, post_json, stream_events  # noqa: E402
from daemons import Parts  # noqa: E402

NCCL = TOOLS.joinpath("libfake_nccl.so")  # of the builds with an emulator: no target of the release build
GPU = ("--backend", "cuda-emu", "--numerics", "exact")
FAST = ("--backend", "cuda-emu", "--numerics", "fast")
SMALL = ("--threads", 1, "--kv-blocks", 64)
WAYS = {"device": r"devices compute the sums over the ranks\" ranks=(\d)",
        "nccl": r"devices compute the sums over the ranks from what NCCL gathers\" ranks=(\d) why=\"requested by --sums\"",
        "host": r"sums over the ranks go through the host\" ranks=(\d) why=\"requested by --sums\"",
        "auto": r"devices compute the sums over the ranks\" ranks=(\d)"}


def bodies(n=4):
    for i, length in enumerate((1, 18)):
        yield {"prompt": [(7 * i + 13 * j) % 250 for j in range(length)], "max_tokens": n, "ignore_eos": True,
               "return_token_ids": True, "logprobs": 2, "seed": 100 + i, "temperature": 0 if i % 2 else 0.8}


def answers(port):
    return [post_json(port, "/v1/completions", body, timeout=300)["choices"][0] for body in bodies()]


def needs_nccl(sums):
    if sums == "nccl" and not NCCL.exists():
        raise Skip("there was no nccl.h")


def equals_the_cpu(model, wanted, tp, sums):
    needs_nccl(sums)
    with Cluster("--mixed", 1, "--tp", tp, *GPU, *SMALL, "--sums", sums, model=model, env={"TANDEM_NCCL": str(NCCL)}) as cluster:
        assert cluster.logged(WAYS[sums])[1] == str(tp)
        assert answers(cluster.port) == wanted
        way = "device" if sums == "auto" else sums
        assert [w["sums"] for w in cluster.workers()] == [way]
        status = subprocess.run([BIN / "tandem", "status", "--server", cluster.url], capture_output=True, text=True, timeout=60)
        assert f"  sums: {way}\n" in status.stdout, status.stdout


def hands_over(model, wanted, prefill, decode):
    """Between ranks of the CPU and of devices; of one size, so that nothing is counted as inexact."""
    needs_nccl("nccl")
    with tempfile.TemporaryDirectory() as own, Parts(own, model, "--tp", 2, *SMALL) as parts:
        for name, role, backend in (("p", "prefill", prefill), ("d", "decode", decode)):
            parts.worker(name, role, backend, *(("--sums", "nccl") if backend != "cpu" else ()), TANDEM_NCCL=str(NCCL))
        parts.up(2)
        assert answers(parts.port) == wanted
        state = get_json(parts.port, "/admin/status")
        assert sum(w["handoffs"]["in"] for w in state["workers"]) == len(wanted), state
        assert state["routers"][0]["core"]["inexact"] == 0, state


def rounds_alike(model, exact):
    """In fast numerics what ranks add up crosses as bfloat16, on all ways with the same bits: a worker whose sums NCCL carries takes
    over from one whose sums go through the host, and nothing is counted as inexact. The first token of each answer is about as likely
    as without."""
    needs_nccl("nccl")
    with Cluster("--mixed", 1, "--tp", 2, *FAST, *SMALL, "--sums", "device", model=model) as cluster:
        wanted = answers(cluster.port)
    first = [(fast["logprobs"]["token_logprobs"][0], own["logprobs"]["token_logprobs"][0]) for fast, own in zip(wanted, exact)]
    assert wanted != exact and all(abs(fast - own) < 0.05 for fast, own in first), first
    with tempfile.TemporaryDirectory() as own, Parts(own, model, "--tp", 2, *SMALL) as parts:
        for name, role, sums in (("p", "prefill", "host"), ("d", "decode", "nccl")):
            parts.worker(name, role, "cuda-emu", "--numerics", "fast", "--sums", sums, TANDEM_NCCL=str(NCCL))
        parts.up(2)
        assert answers(parts.port) == wanted
        state = get_json(parts.port, "/admin/status")
        assert sum(w["handoffs"]["in"] for w in state["workers"]) == len(wanted), state
        assert state["routers"][0]["core"]["inexact"] == 0, state


def refused(model, env, *texts):
    """The worker's line, and its exit status."""
    with tempfile.TemporaryDirectory(prefix="tandem-sums-") as folder:
        done = subprocess.run([BIN / "tandem-worker", "--model", model, "--name", "w", "--routers", f"ipc://{folder}/a", "--endpoint",
                               f"ipc://{folder}/w", "--tp", "2", *GPU, *map(str, SMALL), "--sums", "nccl"],
                              env=dict({k: v for k, v in os.environ.items() if k != "TANDEM_NCCL"}, **env), capture_output=True, text=True,
                              timeout=300)
    assert done.returncode == 78, (done.returncode, done.stderr)
    for text in texts:
        assert text in done.stderr, done.stderr


def what_cannot_is_said(model):
    refused(model, {}, "the devices cannot add up: no NCCL works with these devices: TANDEM_NCCL names none")
    refused(model, {"TANDEM_NCCL": "/nonexistent.so"}, "NCCL cannot be loaded: /nonexistent.so")
    needs_nccl("nccl")
    refused(model, {"TANDEM_NCCL": str(NCCL), "FAKE_NCCL": "version=21805"}, "NCCL 2.18.5 is older than 2.19")
    refused(model, {"TANDEM_NCCL": str(NCCL), "FAKE_NCCL": "broken=2"}, "slices between ranks: NCCL: a link is down")


def loses_its_group(model, _):
    """A link breaks in the middle of a stream: its worker ends with a line, and the stream goes on at the CPU's ranks, with the same
    tokens."""
    needs_nccl("nccl")
    body = {"prompt": list(range(20)), "max_tokens": 24, "ignore_eos": True, "return_token_ids": True, "temperature": 0}
    with tempfile.TemporaryDirectory() as own, Parts(own, model, "--tp", 2, *SMALL) as parts:
        parts.worker("gpu", "mixed", "cuda-emu", "--sums", "nccl", TANDEM_NCCL=str(NCCL), FAKE_NCCL=f"cut={own}/cut")
        parts.up(1)
        stream = stream_events(parts.port, "/v1/completions", body)
        events = [next(stream)]
        parts.worker("cpu", "mixed", "cpu")
        (Path(own) / "cut").touch()
        events += [*stream]
        got = [token for event in events[:-1] for choice in json.loads(event)["choices"] for token in choice.get("token_ids", [])]
        eventually(lambda: "the device failed: the worker ends" in parts.log("gpu"), "the line of the worker that lost its group")
        assert "NCCL: a link is down" in parts.log("gpu"), parts.log("gpu")
        assert got == post_json(parts.port, "/v1/completions", body)["choices"][0]["token_ids"]


def dies_under_load(model, n_kills):
    """The process with the ranks on devices is killed in the middle of streams, which go on at the CPU's ranks: no token is lost, comes
    twice or is another one."""
    bodies = [{"prompt": [(11 * i + 3 * j) % 250 for j in range(5 + 4 * i)], "max_tokens": 24, "ignore_eos": True, "return_token_ids": True,
               "seed": i, "temperature": 0.8} for i in range(6)]
    with tempfile.TemporaryDirectory() as own, Parts(own, model, "--tp", 2, *SMALL) as parts, ThreadPoolExecutor(len(bodies)) as clients:
        def read(body):
            events = [json.loads(event) for event in stream_events(parts.port, "/v1/completions", body) if event != "[DONE]"]
            return [token for event in events for choice in event["choices"] for token in choice.get("token_ids", [])]
        parts.worker("cpu", "mixed", "cpu")
        parts.up(1)
        wanted = [read(body) for body in bodies]
        for kill in range(n_kills):
            name, sums = f"gpu{kill}", ("device", "nccl", "host")[kill % 3]
            parts.worker(name, "mixed", "cuda-emu", "--sums", sums, TANDEM_NCCL=str(NCCL))
            parts.up(2)
            streams = [clients.submit(read, body) for body in bodies]
            eventually(lambda: any(w["name"] == name and w["sequences"]["running"] for w in get_json(parts.port, "/admin/status")["workers"]),
                       "a stream on devices")
            parts.kill(name)
            got = [stream.result(120) for stream in streams]
            assert got == wanted, (kill, sums)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=1, help="of a worker whose ranks are on devices (default: 1)")
    n_kills = parser.parse_args().kills
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="tandem-sums-") as folder:
        model = str(Path(folder) / "tiny.gguf")
        subprocess.run([TOOLS / "tiny_gguf_cli", "f32", "7", "own", model, "wide"], check=True)
        wanted = {}
        for tp in (2, 4):
            with Cluster("--mixed", 1, "--tp", tp, "--backend", "cpu", *SMALL, model=model) as cluster:
                wanted[tp] = answers(cluster.port)
        for tp in (2, 4):
            for sums in WAYS:
                tally.run(f"{tp} ranks, {sums}", equals_the_cpu, model, wanted[tp], tp, sums)
        tally.run("from the cpu to devices", hands_over, model, wanted[2], "cpu", "cuda-emu")
        tally.run("from devices to the cpu", hands_over, model, wanted[2], "cuda-emu", "cpu")
        tally.run("fast numerics, three ways", rounds_alike, model, wanted[2])
        tally.run("nccl that cannot", what_cannot_is_said, model)
        tally.run("a group that ends", loses_its_group, model, wanted)
        tally.run(f"{n_kills} kills", dies_under_load, model, n_kills)
    return tally.end()


if __name__ == "__main__":
    raise SystemExit(main())
