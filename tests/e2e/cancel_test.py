#!/usr/bin/env python3
"""A client that leaves, before its first token or in mid-stream: its KV blocks are free again, and its answer is not computed.

That the router tells the workers at once stands in tests/unit/router/core/core_test.c.
"""
import json
import re
import socket
import sys
import time

from cluster import Cluster, Tally, eventually, request

SHAPES = {"handed over": ("--prefill", 1, "--decode", 1, "--roles", "fixed"), "mixed": ("--mixed", 1)}


def send(port, body):
    connection = socket.create_connection(("127.0.0.1", port))
    payload = json.dumps(body).encode()
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"Content-Length: %d\r\n\r\n" % len(payload) + payload)
    return connection


def held(cluster):
    """Blocks in anybody's hands, and sequences."""
    return sum(w["blocks"]["used"] + w["blocks"]["reserved"] + w["blocks"]["quarantined"] +
               w["sequences"]["running"] + w["sequences"]["waiting"] for w in cluster.workers())


def leaves(shape, when, stream):
    # Steps of 50 ms and chunks of 64 tokens: a prompt of 3,000 ids takes over two seconds, an answer 4,000 steps.
    with Cluster(*SHAPES[shape], "--step-us", 50000, "--chunk-tokens", 64) as cluster:
        n_prompt = 3000 if when == "before" else 40
        connections = [send(cluster.port, {"prompt": [i] * n_prompt, "max_tokens": 4000, "ignore_eos": True,
                                           "stream": stream}) for i in range(8)]
        eventually(lambda: held(cluster) > 8, "work in progress")
        if when == "mid":
            for connection in connections:
                connection.settimeout(60)
                if stream:
                    assert b"data: " in connection.recv(65536) + connection.recv(65536)
            time.sleep(0.5)
        for connection in connections:
            connection.close()
        began = time.monotonic()
        eventually(lambda: held(cluster) == 0, "blocks free again")
        took = time.monotonic() - began
        state = cluster.quiet()
        assert sum(r["requests"]["cancelled"] for r in state["routers"]) == 8, state["routers"]
        _, _, text = request(cluster.port, "GET", "/metrics")
        n_steps = sum(map(float, re.findall(r"^tandem_worker_steps_total(?:{.*})? (\S+)$", text.decode(), re.M)))
        assert 0 < n_steps < 1000, n_steps
        return f"{took:.2f} s, {n_steps:.0f} steps in all"


tally = Tally()
for shape in SHAPES:
    for when in ("before", "mid"):
        for stream in (True, False):
            kind = "streamed" if stream else "plain"
            tally.run(f"{kind} {shape}: leaves {when} the first token" if when == "before"
                      else f"{kind} {shape}: leaves in mid-answer", leaves, shape, when, stream)
sys.exit(tally.end())
