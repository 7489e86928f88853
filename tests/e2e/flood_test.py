#!/usr/bin/env python3
"""Strangers who ask and do not read, who open streams and keep them, who take every place: what each byte costs, and
that everybody else is served meanwhile.

What waits for those who do not read is counted by the router's own ledger, and how long it is busy with them by its loop's longest
turn, in CPU time: neither depends on what else runs on this machine. Times are told, and judged nowhere. The process's memory
(VmHWM) is what the ledger does not count, too.
"""
import contextlib
import json
import os
import re
import select
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

import sanitizers
from cluster import Cluster, Tally, eventually, request
from doors import frame
from exhaust_test import memory, metric, reset_peak
from secure import Certificates, Secure

LEDGER_MIB = 64  # of bodies and answers
ROUTER_MIB = 96  # on a quiet machine 64 and less: what was freed goes back within a second, if a core is free
TURN_S = 0.25    # of CPU, in one turn of the router's loop: 46 ms where each of 300 connections asks for the page 4,000 times
PAGE = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, SETTINGS, DATA = 1, 4, 0
END_STREAM, END_HEADERS = 1, 4


def is_measured():
    """A sanitizer's memory is not the router's."""
    return sanitizers.BUILD == "release"


# --- connections ---------------------------------------------------------------------------------

def dial(port, context=None, protocol="http/1.1"):
    connection = socket.create_connection(("127.0.0.1", port), 60)
    if context:
        context = ssl.create_default_context(cafile=context)
        context.set_alpn_protocols([protocol])
        connection = context.wrap_socket(connection, server_hostname="localhost")
    return connection


def push(connection, data, seconds):
    """Sends as much as is taken within so many seconds; answers how many bytes those were."""
    sent, end = 0, time.monotonic() + seconds
    connection.setblocking(False)
    while sent < len(data) and time.monotonic() < end:
        try:
            sent += connection.send(data[sent:sent + 65536])
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            select.select([], [connection], [], 0.05)
        except OSError:
            break
    return sent


def literal(text):
    return bytes([len(text)]) + text


def hello(window=None):
    """The preface; a window of 0: no byte of an answer's body may be sent."""
    setting = b"" if window is None else (4).to_bytes(2, "big") + window.to_bytes(4, "big")
    return PREFACE + frame(SETTINGS, 0, 0, setting)


def http2_get(stream, path, key=None):
    head = b"\x82\x86\x04" + literal(path) + b"\x01" + literal(b"localhost")
    if key:
        head += b"\x00" + literal(b"authorization") + literal(b"Bearer " + key)
    return frame(HEADERS, END_STREAM | END_HEADERS, stream, head)


def grpc_call(stream, path, key=None, end=False):
    head = (b"\x83\x86\x04" + literal(path) + b"\x01" + literal(b"localhost") + b"\x00" + literal(b"content-type") +
            literal(b"application/grpc") + b"\x00" + literal(b"te") + literal(b"trailers"))
    if key:
        head += b"\x00" + literal(b"authorization") + literal(b"Bearer " + key)
    return frame(HEADERS, END_HEADERS, stream, head) + frame(DATA, END_STREAM if end else 0, stream, b"\0\0\0\0\0")


# --- what goes on meanwhile ----------------------------------------------------------------------

def read_streams(port, n, n_tokens):
    """Reads n streams of n_tokens at a time until standard input ends; prints the longest gap within one, in seconds, and how many bytes.

    It is a process of its own: in the one that sends, Python would let it read only when that has the time.
    """
    body = json.dumps({"prompt": "x", "max_tokens": n_tokens, "ignore_eos": True, "stream": True}).encode()
    head = (f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer right\r\nContent-Length: {len(body)}\r\n\r\n").encode()
    worst, n_bytes, heard = 0.0, 0, {}

    def begin():
        stream = socket.create_connection(("127.0.0.1", port), 60)
        stream.sendall(head + body)
        heard[stream] = None
    for _ in range(n):
        begin()
    while True:
        for stream in select.select([*heard, sys.stdin], [], [])[0]:
            if stream is sys.stdin:
                print(worst, n_bytes)
                return
            piece, now = stream.recv(1 << 16), time.monotonic()
            if heard[stream]:
                worst = max(worst, now - heard[stream])
            heard[stream] = now
            n_bytes += len(piece)
            assert b"HTTP/1.1 4" not in piece and b"HTTP/1.1 5" not in piece, piece[:500]
            if not piece or b"[DONE]" in piece:
                heard.pop(stream)
                stream.close()
                begin()


class Others:
    """Everybody else: streams that run, and a probe that is asked again and again."""

    def __init__(self, cluster, n_streams=0, ask=None, n_tokens=60000):
        self.port, self.n_streams, self.n_tokens = cluster.port, n_streams, n_tokens
        self.ask = ask or (lambda path: request(cluster.port, "GET", path, timeout=60))
        self.worst = self.n = self.ledger = self.turn = 0
        self.bad = []
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._probe)
        self.reader = None

    def _probe(self):
        while not self.stopped.is_set():
            began = time.monotonic()
            try:
                status = self.ask("/livez")[0]
                if status != 200:
                    self.bad.append(status)
                self.worst = max(self.worst, time.monotonic() - began)
                self._count(self.ask("/metrics")[2].decode())
            except (OSError, AttributeError) as error:
                self.bad.append(repr(error))
            self.n += 1
            time.sleep(0.02)

    def _count(self, text):
        def value(name):
            return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M).group(1))
        self.ledger = max(self.ledger, value("tandem_http_body_bytes") + value("tandem_http_output_bytes"))
        self.turn = max(self.turn, value('tandem_loop_turn_seconds{loop="router",clock="cpu"}'))

    def __enter__(self):
        if self.n_streams:
            self.reader = subprocess.Popen([sys.executable, __file__, "--reader", str(self.port), str(self.n_streams), str(self.n_tokens)],
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.thread.start()
        return self

    def __exit__(self, kind, value, trace):
        self.stopped.set()
        self.thread.join()
        self.gap = self.n_bytes = 0
        if self.reader:
            text = self.reader.communicate()[0].split()
            if kind is None:
                assert self.reader.returncode == 0 and len(text) == 2, (self.reader.returncode, text)
                self.gap, self.n_bytes = float(text[0]), int(text[1])
        if kind is None:
            assert not self.bad and self.n > 0, self.bad[:5]
            assert self.ledger <= LEDGER_MIB << 20, f"{self.ledger:.0f} bytes waited in the router"
            assert self.turn <= TURN_S or not is_measured(), f"a turn of the loop took {self.turn:.3f} s of CPU"
            assert not self.reader or self.n_bytes > 0

    def __str__(self):
        gap = f", longest gap of {self.n_streams} streams {self.gap * 1000:.0f} ms" if self.reader else ""
        return (f"at most {self.ledger / (1 << 20):.1f} MiB waited, longest turn {self.turn * 1000:.1f} ms of CPU; "
                f"/livez {self.n} times, at most {self.worst * 1000:.0f} ms{gap}")


def keys_file(folder):
    path = f"{folder}/keys"
    with open(path, "w") as file:
        file.write("right\nfew concurrent=2\n")
    os.chmod(path, 0o600)
    return path


@contextlib.contextmanager
def flood(cluster, n, data, context=None, protocol="http/1.1", seconds=8.0):
    """n connections send `data` and do not read; yields what they cost."""
    pid = cluster.router_pid()
    if is_measured():
        eventually(lambda: memory(pid, "VmRSS") < ROUTER_MIB / 2, "the memory of what came before given back")
    idle = memory(pid, "VmRSS")
    reset_peak(pid)
    cost = {"idle": idle}
    connections = []
    try:
        for _ in range(n):
            connections.append(dial(cluster.port, context, protocol))
        end = time.monotonic() + seconds
        sent = sum(push(c, data, max(0.02, (end - time.monotonic()) / n)) for c in connections)
        cost["sent"] = sent
        yield cost
        cost["rss"] = memory(pid, "VmHWM")
        cost["kept"] = (memory(pid, "VmRSS") - idle) * (1 << 20) / n
    finally:
        for connection in connections:
            connection.close()
    if is_measured():
        assert cost["rss"] < ROUTER_MIB, f"the router had {cost['rss']:.0f} MiB"


def tell(cost, others=None):
    note = (f"{cost['sent']} bytes sent, router {cost['idle']:.0f} -> {cost['rss']:.0f} MiB at most, "
            f"{max(cost['kept'], 0):.0f} bytes kept a connection")
    return f"{note}; {others}" if others else note


# --- facts ---------------------------------------------------------------------------------------

def pipelined(cluster, n, times, path, context=None, ask=None, n_streams=0):
    with Others(cluster, n_streams, ask) as others:
        with flood(cluster, n, PAGE % path * times, context) as cost:
            time.sleep(1)
    return tell(cost, others)


def shut_windows(cluster, n, path, context=None, ask=None, n_streams=0):
    asks = b"".join(http2_get(2 * i + 1, path) for i in range(100))
    with Others(cluster, n_streams, ask) as others:
        with flood(cluster, n, hello(0) + asks, context, "h2") as cost:
            time.sleep(1)
    return tell(cost, others)


def heads_that_wait_are_bounded(cluster):
    """A field of 4 KB in HPACK's table, named by a byte each in 98 requests that wait for the answers to two others."""
    name, value = b"b", b"v" * 3000
    first = http2_get(1, b"/")
    table = (b"\x82\x86\x04" + literal(b"/") + b"\x01" + literal(b"localhost") + b"\x40" + literal(name) + b"\x7f" +
             bytes([(3000 - 127) & 127 | 128, (3000 - 127) >> 7]) + value)
    named = b"\x82\x86\x04" + literal(b"/") + b"\x01" + literal(b"localhost") + bytes([0x80 | 62]) * 9
    data = hello(0) + first + frame(HEADERS, 5, 3, table)
    data += b"".join(frame(HEADERS, 5, 2 * i + 1, named) for i in range(2, 100))
    with Others(cluster) as others:
        with flood(cluster, 100, data, protocol="h2") as cost:
            time.sleep(1)
    return tell(cost, others)


def watches(cluster, path, key, n_connections=500):
    """Each on a connection of its own; then many more on few connections. What others ask for is served."""
    key_head = {"Authorization": "Bearer right"}
    open_now = []
    ask = {"prompt": "x", "max_tokens": 4}
    try:
        with Others(cluster) as others:
            for _ in range(n_connections):
                connection = dial(cluster.port)
                connection.sendall(hello() + grpc_call(1, path, key))
                open_now.append(connection)
            for _ in range(20):
                connection = dial(cluster.port)
                connection.sendall(hello() + b"".join(grpc_call(2 * i + 1, path, key) for i in range(90)))
                open_now.append(connection)
            for _ in range(20):
                for method, where, body in (("GET", "/v1/models", None), ("GET", "/health", None), ("GET", "/metrics", None),
                                            ("GET", "/readyz", None), ("POST", "/v1/completions", ask)):
                    status, _, answer = request(cluster.port, method, where, body, key_head)
                    assert status == 200, (where, status, answer[:300])
        return f"{len(open_now)} connections; {others}"
    finally:
        for connection in open_now:
            connection.close()


def watches_count_in_a_key(cluster):
    """A key of concurrent=2 has two watches, and no call beside them; without one of them it has a call again."""
    path = b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
    few = {"Authorization": "Bearer few"}
    ask = {"prompt": "x", "max_tokens": 1}
    held = [dial(cluster.port) for _ in range(2)]
    try:
        for connection in held:
            connection.sendall(hello() + grpc_call(1, path, b"few"))
        eventually(lambda: request(cluster.port, "POST", "/v1/completions", ask, few)[0] == 429, "the key used up")
        held.pop().close()
        eventually(lambda: request(cluster.port, "POST", "/v1/completions", ask, few)[0] == 200, "a call of the key again")
    finally:
        for connection in held:
            connection.close()


def probes_answer_when_every_place_is_taken(folder):
    """A router of 200 connections and requests, and all requests taken by bodies that do not come."""
    keys = keys_file(folder)
    with Cluster("--mixed", 1, "--api-keys", keys, env={"TANDEM_MAX_CONNECTIONS": "200"}) as cluster:
        held = []
        try:
            for _ in range(3):
                connection = dial(cluster.port)
                slow = b"".join(grpc_call(2 * i + 1, b"/grpc.health.v1.Health/Check") for i in range(90))
                connection.sendall(hello() + slow)
                held.append(connection)
            asked = eventually(lambda: request(cluster.port, "GET", "/version")[0] == 503, "every place taken")
            assert asked
            for _ in range(50):
                for path in ("/livez", "/readyz", "/health"):
                    status, _, answer = request(cluster.port, "GET", path)
                    assert status == 200, (path, status, answer[:200])
                with dial(cluster.port) as probe:
                    probe.sendall(hello() + grpc_call(1, b"/grpc.health.v1.Health/Check", end=True))
                    answer = b""
                    while b"\0\0\0\0\2\x08\1" not in answer:  # one message: SERVING
                        piece = probe.recv(4096)
                        assert piece, answer
                        answer += piece
        finally:
            for connection in held:
                connection.close()
        eventually(lambda: request(cluster.port, "GET", "/version")[0] == 200, "places again")


def admin_routes_are_as_sent(cluster):
    for path in ("/%61dmin/status", "/admin%2Fstatus", "/admin/%73tatus", "http://localhost/admin/status"):
        with dial(cluster.port) as connection:
            connection.sendall(b"GET " + path.encode() + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 404 "), (path, answer[:200])
    with dial(cluster.port) as connection:
        connection.sendall(b"POST /%61dmin/drain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           b"Content-Length: 2\r\n\r\n{}")
        assert connection.recv(65536).startswith(b"HTTP/1.1 404 ")
    assert request(cluster.port, "GET", "/admin/status")[0] == 200
    assert request(cluster.port, "GET", "/%6civez")[0] == 200  # others may be spelled as one likes


def main():
    if sys.argv[1:2] == ["--reader"]:
        return read_streams(*map(int, sys.argv[2:5]))
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        keys = keys_file(folder)
        with Cluster("--mixed", 1, "--api-keys", keys, "--max-batch", 128,
                     "--step-us", 5000) as cluster:
            run = tally.run
            run("one connection, 40,000 GET / ahead", pipelined, cluster, 1, 40000, b"/", n_streams=64)
            run("300 connections, 4,000 GET / ahead", pipelined, cluster, 300, 4000, b"/", n_streams=64)
            run("100 connections, 4,000 GET /metrics ahead", pipelined, cluster, 100, 4000, b"/metrics")
            run("100 connections, 4,000 refused requests ahead", pipelined, cluster, 100, 4000, b"/v1/models")
            run("100 connections of HTTP/2, windows shut, GET /", shut_windows, cluster, 100, b"/", n_streams=64)
            run("100 connections of HTTP/2, windows shut, GET /metrics", shut_windows, cluster, 100, b"/metrics")
            run("heads of requests that wait are bounded", heads_that_wait_are_bounded, cluster)
            run("watches without a key", watches, cluster, b"/grpc.health.v1.Health/Watch", None)
            run("watches with a key", watches, cluster, b"/grpc.health.v1.Health/Watch", b"right")
            run("reflection without a key", watches, cluster,
                b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", None)
            run("reflection with a key", watches, cluster,
                b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", b"right")
            run("watches count in a key", watches_count_in_a_key, cluster)
            eventually(lambda: metric(cluster.port, "tandem_http_output_bytes") == 0 or None, "no output that waits")
        certificates = Certificates(folder)
        certificates.sign("server")  # server.crt, server.key
        with Secure(certificates, "--mixed", 1, "--api-keys", keys) as cluster:
            def ask(path):
                return cluster.request("GET", path)
            ca = certificates.path("ca.crt")
            tally.run("TLS: one connection, 10,000 GET / ahead", pipelined, cluster, 1, 10000, b"/", ca, ask)
            tally.run("TLS: 100 connections of HTTP/2, windows shut", shut_windows, cluster, 100, b"/", ca, ask)
        tally.run("probes answer when every place is taken", probes_answer_when_every_place_is_taken, folder)
        with Cluster("--mixed", 1) as cluster:
            tally.run("admin routes are as sent", admin_routes_are_as_sent, cluster)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
