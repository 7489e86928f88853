#!/usr/bin/env python3
"""Beside two healthy workers, one that fails in some way: no request fails that a healthy one could serve, none meets it twice.

How long a request then waits is the router's patience, which the simulator judges by its own clock.

usage: sick_test.py [--requests N]      N for each kind of failure (tests/support/rogue_worker.c names them)
"""
import argparse
import collections
import contextlib
import itertools
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from cluster import TOOLS, Cluster, Tally, eventually, hash_answer, request, stream_events

MIXED = ("--mixed", 2, "--threads", 1)
SPLIT = ("--prefill", 1, "--decode", 1, "--roles", "fixed", "--local-prefill-tokens", 0, "--threads", 1)
CLIENTS = 8
ENV = {"TANDEM_HANG_TIMEOUT": "1s", "TANDEM_LOG_LEVEL": "debug"}
ALONE = ["numerics", "transfer", "invalid", "hung", "stuck", "queued", "slow", "ids", "lengths", "steps"]


@contextlib.contextmanager
def rogue(cluster, kind, name="evil"):
    with tempfile.TemporaryDirectory() as folder:
        announce = cluster.status()["routers"][0]["announce"]
        process = subprocess.Popen([TOOLS / "rogue_worker", kind, name, announce, f"ipc://{folder}/w/endpoint"],
                                   stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout.readline() == "ready\n"
            eventually(lambda: any(w["name"] == name for w in ready(cluster)), f"{name} is ready")
            yield process
        finally:
            process.terminate()
            process.wait(60)


def ready(cluster):
    return [w for w in cluster.workers() if w["state"] not in ("opening", "suspect", "loading")]


def ask(cluster, n, n_prompt=5):
    """The longest time without a token, in seconds; raises when the answer is not exactly the model's."""
    prompt = [(n * 7919 + i) % 250 + 1 for i in range(n_prompt)]
    body = {"prompt": prompt, "max_tokens": 6, "ignore_eos": True}
    text, longest, last = "", 0, time.monotonic()
    for event in stream_events(cluster.port, "/v1/completions", body, timeout=300):
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
        if event != "[DONE]":
            text += "".join(choice["text"] for choice in json.loads(event)["choices"])
    expected = "".join(chr(t) if t < 256 else f"<{t:04x}>" for t in hash_answer(prompt, 6))
    assert text == expected, (text, expected)
    return longest


def ask_many(cluster, n_requests, n_prompt=5):
    """Asks from CLIENTS clients at once; answers the longest time without a token, to be told. Fails with all that went wrong."""
    numbers, took, wrong = itertools.count(), [], []

    def client():
        while (n := next(numbers)) < n_requests:
            try:
                took.append(ask(cluster, n, n_prompt))
            except Exception as error:  # all of them are told at the end
                wrong.append(repr(error)[:300])
    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, (len(wrong), wrong[:3])
    assert len(took) == n_requests
    return max(took)


def metric(cluster, name):
    _, _, text = request(cluster.port, "GET", "/metrics")
    return sum(float(v) for v in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text.decode(), re.M))


def put_aside(cluster, name="evil"):
    return re.findall(rf'worker put aside[^\n]* name={name} [^\n]*reason=(\w+)', cluster.log_text())


def meets_each_once(cluster):
    """No request goes to a sick worker again, but for each time that a healthy one was lost to it as well."""
    sent = collections.defaultdict(collections.Counter)
    for worker, request_id in re.findall(r'msg="?dispatched"? worker=(\S+) id=(\S+)', cluster.log_text()):
        sent[request_id][worker] += 1
    assert sent
    for request_id, at in sent.items():
        n_healthy = sum(n for worker, n in at.items() if not worker.startswith("evil"))
        assert all(n <= max(1, n_healthy) for worker, n in at.items() if worker.startswith("evil")), (request_id, at)


def one_kind(cluster, kind, n_requests):
    name = "evil-" + kind
    with rogue(cluster, kind, name):
        longest = ask_many(cluster, n_requests)
        # A hang is forgiven once.
        eventually(lambda: put_aside(cluster, name) or not ask_many(cluster, CLIENTS), "it is named in the log", seconds=300)

        eventually(lambda: any(w["name"] == name and w["state"] in ("aside", "trial") and w["reason"] in put_aside(cluster, name)
                               for w in cluster.workers()), "it is shown in status")
        reasons = put_aside(cluster, name)
        meets_each_once(cluster)
    eventually(lambda: not any(w["name"] == name for w in cluster.workers()), f"{name} is gone")
    return f"{n_requests} requests, longest {longest:.2f} s, reasons {sorted(set(reasons))}"


def restarted(cluster):
    """Its supervisor starts it again, and it goes on where it was: one request at a time, on trial."""
    name = "evil-again"

    def figures():
        return len(re.findall(rf'msg="?dispatched"? worker={name} ', cluster.log_text())), len(put_aside(cluster, name))

    def is_put_aside(n):
        return figures()[1] > n or not ask_many(cluster, CLIENTS)
    with rogue(cluster, "numerics", name):
        eventually(lambda: is_put_aside(0), "it is put aside", seconds=300)
    eventually(lambda: not any(w["name"] == name for w in cluster.workers()), f"{name} is gone")
    before = figures()
    with rogue(cluster, "numerics", name):
        assert [w["state"] for w in cluster.workers() if w["name"] == name] != ["ready"], cluster.workers()
        eventually(lambda: is_put_aside(before[1] + 1), "it is put aside twice more", seconds=300)
        after = figures()
    tried, failed = after[0] - before[0], after[1] - before[1]
    assert failed <= tried <= failed + 1, (before, after)
    return f"{tried} requests tried it, {failed} put it aside"


def unreachable(n_requests):
    with Cluster(*SPLIT) as cluster, rogue(cluster, "unreachable"):
        longest = ask_many(cluster, n_requests, n_prompt=40)
        cluster.logged(r"these two are not paired[^\n]* name=prefill\S* to=evil")
        cluster.logged(r"gets whole requests only[^\n]* name=evil")
        # The pictures are apart: right after a failure it is shown for a second.
        eventually(lambda: (ask_many(cluster, CLIENTS, n_prompt=40) and
                            any(w.get("reason") == "no_hand_over_works" for w in cluster.workers())),
                   "it is shown in status", seconds=300)
        assert metric(cluster, "tandem_router_pairs_failed_total") >= 1
        others = [w for w in cluster.workers() if w["name"] != "evil"]
        assert {w["state"] for w in others} == {"ready"}, others
        return f"{n_requests} requests, longest {longest:.2f} s"


def all_at_once(n_requests):
    with Cluster(*MIXED, env=ENV) as cluster, contextlib.ExitStack() as stack:
        for kind in ALONE:
            stack.enter_context(rogue(cluster, kind, "evil-" + kind))
        longest = ask_many(cluster, n_requests)
        meets_each_once(cluster)
        return f"{n_requests} requests beside {len(ALONE)} sick workers, longest {longest:.2f} s"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=120)
    n_requests = parser.parse_args().requests
    tally = Tally()
    with Cluster(*MIXED, env=ENV) as cluster:
        for kind in ALONE:
            tally.run(f"a worker of the kind {kind} is put aside and fails nobody", one_kind, cluster, kind, n_requests)
        tally.run("a sick worker that is started again is on trial", restarted, cluster)
        tally.run("the metric counts them", lambda: check_metric(cluster))
    tally.run("a decode worker that no prefill worker reaches gets whole requests", unreachable, n_requests)
    tally.run("all of them at once", all_at_once, n_requests)
    sys.exit(tally.end())


def check_metric(cluster):
    assert metric(cluster, "tandem_router_put_aside_total") >= len(ALONE)


if __name__ == "__main__":
    main()
