#!/usr/bin/env python3
"""Workers whose steps go one ahead (--steps-ahead): ahead_test.py [BACKEND], `far` of the dev build, `cuda-emu` of the preset
emu, or `cuda` where there is a GPU. What clients get is what the CPU answers, and what the same worker answers without: ids,
log-probabilities, ends and usage, of several choices, seeds, stop ids, stop strings, ends of the model, penalties and cuts by
count, all at the same time in a pool that is too small for them; mixed or handed over; with two ranks, whose steps do not go
ahead; while clients leave in mid-answer, and when the worker is told to end.
"""
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BACKEND = sys.argv[1] if len(sys.argv) > 1 else "far"
COMPUTES = ("--backend", BACKEND, "--numerics", "exact")  # its tokens are those of a CPU worker
os.environ.setdefault("TANDEM_BUILD", "emu" if BACKEND == "cuda-emu" else "dev")  # the release build has no such backend
from cluster import BIN, ROOT, Tally, eventually, get_json, post_json, request, stream_events  # noqa: E402
from daemons import free_ports  # noqa: E402

sys.path.insert(0, str(ROOT))
try:
    import numpy  # noqa: F401
except ImportError as missing:
    print(f"SKIPPED steps ahead: {missing}\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)
from tests.models import checkpoints  # noqa: E402

REASONS = ["prompt", "left", "full", "history", "waiting"]  # that these bodies lead to
SEEN = ["ahead", "dropped", "preempted", *REASONS]


class Workers:
    """A router and workers by name, each with an admin port."""

    def __init__(self, folder, model, workers, *args):
        self.folder, self.model, self.args, self.workers = Path(folder), str(model), args, workers
        self.processes, self.admin = {}, {}

    def spawn(self, name, program, *args):
        with open(self.folder / f"{name}.log", "wb") as log:
            self.processes[name] = subprocess.Popen([BIN / program, "--model", self.model, *map(str, args)], stdout=log,
                                                    stderr=log)

    def __enter__(self):
        self.port, *admin = free_ports(1 + len(self.workers))
        announce = f"ipc://{self.folder}/announce"
        self.spawn("router", "tandem-router", "--listen", f"127.0.0.1:{self.port}", "--announce", announce, "--roles", "fixed")
        for port, (name, role) in zip(admin, self.workers.items()):
            self.admin[name] = port
            self.spawn(name, "tandem-worker", "--name", name, "--role", role, "--routers", announce, "--endpoint",
                       f"ipc://{self.folder}/{name}", "--admin", f"127.0.0.1:{port}", "--threads", 1, *self.args)
        eventually(self.up, "workers")
        return self

    def up(self):
        try:
            workers = get_json(self.port, "/admin/status")["workers"]
        except OSError:
            return False
        return len([w for w in workers if w["state"] == "ready"]) == len(self.workers)

    def __exit__(self, *_):
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(60)

    def figure(self, worker, name, label=""):
        """A metric of a worker, which publishes them ten times a second."""
        lines = request(self.admin[worker], "GET", "/metrics")[2].decode().splitlines()
        return int(float(next(line for line in lines if line.startswith(name + "{") and label in line).split()[-1]))

    def held(self):
        return sum(w["blocks"]["used"] + w["blocks"]["reserved"] + w["sequences"]["running"] + w["sequences"]["waiting"]
                   for w in get_json(self.port, "/admin/status")["workers"])


def bodies():
    for i in range(12):
        body = {"prompt": [(7 * i + 13 * j) % 250 for j in range((5, 17, 40)[i % 3])], "max_tokens": (30, 9, 40, 1)[i % 4],
                "ignore_eos": True, "return_token_ids": True, "logprobs": i % 3, "seed": 100 + i, "temperature": (0, 0.9, 2)[i % 3]}
        if i % 4 == 2:
            body["n"] = 3
        if i == 5:
            body["presence_penalty"] = 0.7
        if i in (8, 11):  # the model ends them with this seed
            body.update(ignore_eos=False, max_tokens=60, seed=126)
        yield body


def with_stops(answers):
    """The bodies again, some with a stop id or a string that comes in the middle of what was answered."""
    for i, (body, answer) in enumerate(zip(bodies(), answers)):
        ids, text = answer["choices"][0]["token_ids"], answer["choices"][0]["text"]
        if not body["ignore_eos"]:
            assert "stop" in [choice["finish_reason"] for choice in answer["choices"]], (i, answer["choices"])
        elif i % 2 == 0:
            body["stop_token_ids"] = [ids[len(ids) // 2]]
        elif i % 4 == 1:
            body["stop"] = [text[len(text) // 2:][:1]]
        yield body


def ask(port, asked):
    def one(body):
        answer = post_json(port, "/v1/completions", body, timeout=600)
        return {"choices": answer["choices"], "usage": answer["usage"]}
    with ThreadPoolExecutor(len(asked)) as pool:
        return list(pool.map(one, asked))


def plain(answers):
    """What a client sees but for what the prefix cache says of itself."""
    for answer in answers:
        answer["usage"].pop("prompt_tokens_details", None)
    return answers


def of_the_cpu(folder, model):
    with tempfile.TemporaryDirectory(dir=folder) as own, Workers(own, model, {"w": "mixed"}, "--backend", "cpu") as workers:
        stops = list(with_stops(ask(workers.port, list(bodies()))))
        return stops, plain(ask(workers.port, stops))


def figures(workers, name):
    """What a worker counted of its steps."""
    return {"ahead": workers.figure(name, "tandem_worker_steps_ahead_total"),
            "dropped": workers.figure(name, "tandem_worker_tokens_dropped_total"),
            "preempted": workers.figure(name, "tandem_worker_preemptions_total")} | {
                reason: workers.figure(name, "tandem_worker_steps_not_ahead_total", f'reason="{reason}"') for reason in REASONS}


def answers(folder, model, stops, wanted, roles, ahead):
    args = [*COMPUTES, "--kv-blocks", 9, f"--steps-ahead={ahead}"]
    with tempfile.TemporaryDirectory(dir=folder) as own, Workers(own, model, roles, *args) as workers:
        for n_rounds in range(1, 9):
            assert plain(ask(workers.port, stops)) == wanted
            eventually(lambda: workers.held() == 0, "blocks free again")
            time.sleep(0.3)  # its figures are published
            seen = figures(workers, list(roles)[-1])
            if ahead == "no" or all(seen[name] > 0 for name in SEEN if len(roles) == 1 or name != "waiting"):
                break  # what is preempted, and who waits, hangs on when requests come
        else:
            raise AssertionError(seen)
        assert (seen["ahead"] > 0) == (ahead == "yes"), seen
        return f"{n_rounds} rounds, {seen}"


def two_ranks(folder, model, stops):
    """Compared with two ranks on the CPU: a cut model adds up in another order."""
    args = ["--kv-blocks", 9, "--tp", 2]
    with tempfile.TemporaryDirectory(dir=folder) as own, Workers(own, model, {"w": "mixed"}, *args, "--backend", "cpu") as workers:
        wanted = plain(ask(workers.port, stops))
    with tempfile.TemporaryDirectory(dir=folder) as own, Workers(own, model, {"w": "mixed"}, *args, *COMPUTES) as workers:
        assert plain(ask(workers.port, stops)) == wanted
        time.sleep(0.3)
        seen = figures(workers, "w")
        assert seen["ahead"] == seen["dropped"] == 0 and not any(seen[reason] for reason in REASONS), seen


def leave(port, body, n):
    """A client that goes after n events."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", "/v1/completions", json.dumps(dict(body, stream=True, max_tokens=80)),
                       {"Content-Type": "application/json"})
    answer = connection.getresponse()
    for _ in range(n):
        answer.readline()
    connection.sock.close() if connection.sock else answer.close()
    connection.close()


def clients_leave(folder, model, stops, wanted):
    with tempfile.TemporaryDirectory(dir=folder) as own, \
            Workers(own, model, {"w": "mixed"}, *COMPUTES, "--kv-blocks", 60) as workers:
        with ThreadPoolExecutor(40) as pool:
            stay = [pool.submit(post_json, workers.port, "/v1/completions", body, timeout=600) for body in stops]
            gone = [pool.submit(leave, workers.port, body, n) for n in (1, 6, 20) for body in [*bodies()][::4]]
            for future in gone:
                future.result()
            got = [{"choices": f.result()["choices"], "usage": f.result()["usage"]} for f in stay]
        assert plain(got) == wanted
        eventually(lambda: workers.held() == 0, "blocks free again")
        time.sleep(0.3)
        return f"{len(gone)} left, {workers.figure('w', 'tandem_worker_steps_ahead_total')} steps ahead"


def told_to_end(folder, model):
    """An answer that runs is finished, and the worker ends with 0, whatever was in flight."""
    body = dict(next(bodies()), max_tokens=80)
    with tempfile.TemporaryDirectory(dir=folder) as own, \
            Workers(own, model, {"w": "mixed"}, *COMPUTES) as workers:
        wanted = post_json(workers.port, "/v1/completions", body)["choices"][0]["token_ids"]
        ids = []
        for event in stream_events(workers.port, "/v1/completions", {k: v for k, v in body.items() if k != "logprobs"}):
            for choice in json.loads(event)["choices"] if event != "[DONE]" else []:
                if not ids:
                    workers.processes["w"].send_signal(signal.SIGTERM)
                ids += choice.get("token_ids") or []
        assert ids == wanted, (ids, wanted)
        assert workers.processes["w"].wait(30) == 0


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="tandem-ahead-") as name:
        folder, model = Path(name), Path(name) / "model"
        checkpoints.write(model, "llama", "gptq4-g32")
        stops, wanted = of_the_cpu(folder, model)
        ends = {choice["finish_reason"] for answer in wanted for choice in answer["choices"]}
        assert ends == {"stop", "length"}, ends
        shapes = {"mixed": {"w": "mixed"}, "handed over": {"p": "prefill", "d": "decode"}}
        for shape, roles in shapes.items():
            for ahead in ("no", "yes"):
                tally.run(f"{shape}, steps ahead: {ahead}", answers, folder, model, stops, wanted, roles, ahead)
        tally.run("two ranks wait for each step", two_ranks, folder, model, stops)
        tally.run("clients leave", clients_leave, folder, model, stops, wanted)
        tally.run("a worker told to end", told_to_end, folder, model)
    sys.exit(tally.end())


main()
