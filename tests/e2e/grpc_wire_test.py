#!/usr/bin/env python3
"""gRPC at its edges: frames that are cut anywhere, readers that stop, a drain under load, health that is watched.

usage: grpc_wire_test.py [--still S]    S: how long a reader stops
"""
import argparse
import queue
import signal
import subprocess
import sys
import threading
import time

import http2_test
from cluster import BIN, Cluster, Tally, eventually, hash_answer
from grpc_client import Inference, ask, channel, grpc, health_pb2, health_pb2_grpc, pb
from http2_test import router_bytes

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class Client(http2_test.Client):
    """Calls of gRPC whose frames are cut as the test wants."""

    def begin(self, call):
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, [(":method", "POST"), (":path", call), (":scheme", "http"), (":authority", "127.0.0.1"),
                                      ("content-type", "application/grpc"), ("te", "trailers")])
        self.replies[stream] = {"status": None, "headers": {}, "body": b"", "done": False, "reset": None, "trailers": {}}
        return stream

    def call(self, call, *pieces):
        """Each piece is a DATA frame."""
        stream = self.begin(call)
        for i, piece in enumerate(pieces):
            self.h2.send_data(stream, piece, end_stream=i == len(pieces) - 1)
            self.push()
        return stream

    def status_of(self, stream):
        """grpc-status, wherever it is, of a call that ended."""
        reply, = self.wait(stream)
        return int(reply["trailers"].get("grpc-status") or reply["headers"]["grpc-status"])


def framed(message, flag=0):
    payload = message.SerializeToString() if hasattr(message, "SerializeToString") else message
    return bytes([flag]) + len(payload).to_bytes(4, "big") + payload


def messages_of(kind, body):
    """What a body of frames holds."""
    found = []
    while body:
        n = int.from_bytes(body[1:5], "big")
        assert body[0] == 0 and len(body) >= 5 + n, body[:20]
        found.append(kind.FromString(body[5:5 + n]))
        body = body[5 + n:]
    return found


def frames_of_one_byte(cluster):
    """G2: a message is the same wherever its DATA frames end."""
    question = framed(ask("ids", PROMPT, {"max_tokens": 9}))
    client = Client(cluster.port)
    for pieces in ([bytes([b]) for b in question], [question, b""], [question[:3], b"", question[3:]]):
        stream = client.call("/tandem.v1.Inference/Complete", *pieces)
        reply, = client.wait(stream)
        assert client.status_of(stream) == 0, reply
        answer, = messages_of(pb.CompleteResponse, reply["body"])
        assert list(answer.choices[0].token_ids) == hash_answer(PROMPT, 9), answer
    return f"{len(question)} frames"


def messages_in_one_frame(cluster):
    """G3: two messages in a frame are two: refused where a call takes one, answered in turn where it takes many."""
    client = Client(cluster.port)
    one = framed(ask("ids", PROMPT, {"max_tokens": 2}))
    for name in ("Complete", "Generate", "Chat", "Tokenize"):
        for body in (one + one, one * 3, one + b"\0\0\0\0\0"):
            status = client.status_of(client.call(f"/tandem.v1.Inference/{name}", body))
            assert status == 12, (name, body, status)
    assert client.status_of(client.call("/grpc.health.v1.Health/Check", framed(b"") * 2)) == 12
    questions = framed(b"\x3a\x01*") + framed(b"\x22\x13tandem.v1.Inference")
    stream = client.call("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", questions)
    assert client.status_of(stream) == 0
    body, n = client.replies[stream]["body"], 0
    while body:
        n, body = n + 1, body[5 + int.from_bytes(body[1:5], "big"):]
    assert n == 2, n


def broken_messages_are_refused(cluster):
    """G4: too large by its length alone, an unknown flag, cut off, compressed without a name."""
    client = Client(cluster.port)
    whole = framed(ask("ids", PROMPT, {"max_tokens": 2}))
    rows = (("oversized", b"\0\x7f\xff\xff\xff" + b"x" * 10, 8), ("flag", b"\2" + whole[1:], 13), ("truncated", whole[:-1], 13),
            ("no frame", b"\0\0", 13), ("nothing", b"", 12), ("compressed", b"\1" + whole[1:], 13))
    for name, body, status in rows:
        got = client.status_of(client.call("/tandem.v1.Inference/Complete", body))
        assert got == status, (name, got)
    cluster.quiet()
    return f"{len(rows)} messages"


def heads_are_bounded(cluster):
    """A head too large for a call is a status of gRPC, by a field (16 KiB), by all of them (32 KiB) and by their number (100)."""
    with channel(cluster) as wire:
        inference = Inference(wire)
        question = ask("ids", PROMPT, {"max_tokens": 2})
        for metadata, fits in (([("x", "v" * 16383)], True), ([("x", "v" * 16384)], False), ([("x", "v" * 16500)], False),
                               ([(f"x{i}", "v" * 9000) for i in range(4)], False), ([(f"x{i}", "v") for i in range(120)], False),
                               ([("x", "v" * 60000)], False)):
            try:
                inference.Complete(question, metadata=metadata, timeout=60)
                assert fits, metadata[0][0]
            except grpc.RpcError as error:
                assert not fits and error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, (len(metadata), len(metadata[0][1]), error)
                assert "head" in error.details() or "header" in error.details(), error.details()
    cluster.quiet()


def a_reader_that_stops(cluster, still_s):
    """G7: streams of a client that reads nothing wait in bounded memory, while its neighbours' go on; then they are whole."""
    client = Client(cluster.port)
    shut = [client.call("/tandem.v1.Inference/Generate", framed(ask("ids", PROMPT, {"max_tokens": n, "ignore_eos": True})))
            for n in [3000] + [30000] * 15]
    client.blind.update(shut)
    with channel(cluster) as wire:
        inference = Inference(wire)
        before, until, n, most = router_bytes(cluster, "memory_allocated"), time.monotonic() + still_s, 0, 0
        while time.monotonic() < until:  # nothing is read from the client's socket
            prompt = [7, n]
            ids = [t for r in inference.Generate(ask("ids", prompt, {"max_tokens": 20})) for t in r.token_ids]
            assert ids == hash_answer(prompt, 20)
            n, most = n + 1, max(most, router_bytes(cluster, "memory_allocated"))
    assert most - before < (32 << 20), (before, most)
    client.blind.clear()
    client.h2.increment_flow_control_window(1 << 30)
    client.h2.increment_flow_control_window(1 << 24, shut[0])
    for stream in shut[1:]:
        client.h2.reset_stream(stream, 8)
    client.push()
    assert client.status_of(shut[0]) == 0
    answer = messages_of(pb.GenerateResponse, client.replies[shut[0]]["body"])
    assert [t for r in answer for t in r.token_ids] == hash_answer(PROMPT, 3000)
    return f"{(most - before) >> 10} KiB more, {n} calls beside"


def drain_under_load(_):
    """G8: one of two routers is told to end while a client calls both without pause: no call fails."""
    failures, served, stop = [], [], threading.Event()
    with Cluster("--mixed", 1) as ends, Cluster("--mixed", 1) as stays:
        target = f"ipv4:127.0.0.1:{ends.port},127.0.0.1:{stays.port}"
        with grpc.insecure_channel(target, options=[("grpc.lb_policy_name", "round_robin")]) as wire:
            inference = Inference(wire)

            def load(seed):
                n = 0
                while not stop.is_set():
                    prompt, n = [seed + 300, n], n + 1
                    try:
                        ids = [t for r in inference.Generate(ask("ids", prompt, {"max_tokens": 40})) for t in r.token_ids]
                        assert ids == hash_answer(prompt, 40), "not the oracle's answer"
                        served.append(time.monotonic())
                    except Exception as error:  # noqa: BLE001 - whatever it is, the call failed
                        failures.append(repr(error))

            threads = [threading.Thread(target=load, args=(i,)) for i in range(16)]
            for thread in threads:
                thread.start()
            eventually(lambda: len(served) > 100, "load")
            ends.process.send_signal(signal.SIGTERM)
            ends.process.wait(60)
            ended = time.monotonic()
            eventually(lambda: served[-1] > ended + 0.5, "the other router serves on")
            stop.set()
            for thread in threads:
                thread.join(60)
    assert not failures, (len(failures), failures[:3])
    assert ends.process.returncode == 0, ends.process.returncode
    return f"{len(served)} calls, 0 failed"


class Watcher:
    """One Watch, whose states come in a queue; the last entry says what ended it."""

    def __init__(self, wire, service):
        self.told = queue.Queue()
        self.call = health_pb2_grpc.HealthStub(wire).Watch(health_pb2.HealthCheckRequest(service=service))
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            for answer in self.call:
                self.told.put(answer.status)
            self.told.put("ended")
        except grpc.RpcError as error:
            self.told.put(error.details())

    def next(self):
        return self.told.get(timeout=60)


def health_is_watched(_):
    """G10: the state, then each change of it, until the router drains."""
    with Cluster("--mixed", 1) as cluster, channel(cluster) as wire:
        services = ("", "readiness", "tandem.v1.Inference")
        watchers = [Watcher(wire, name) for name in services]
        alive, nobody = Watcher(wire, "liveness"), Watcher(wire, "no.Such")
        assert [w.next() for w in (*watchers, alive, nobody)] == [SERVING] * 4 + [SERVICE_UNKNOWN]
        left = Watcher(wire, "")
        assert left.next() == SERVING
        left.call.cancel()
        for state, order in ((NOT_SERVING, ["--json"]), (SERVING, ["--undo"])):  # a worker's death may last 20 ms: too short to be told
            subprocess.run([BIN / "tandem", "drain", "--server", cluster.url, "mixed0", *order], check=True, capture_output=True)
            assert [w.next() for w in watchers] == [state] * 3, state
            assert health_pb2_grpc.HealthStub(wire).Check(health_pb2.HealthCheckRequest()).status == state
        busy = Inference(wire).Generate(ask("ids", PROMPT, {"max_tokens": 2000, "ignore_eos": True}))
        first = next(busy)
        cluster.process.send_signal(signal.SIGTERM)
        assert [w.next() for w in watchers] == [NOT_SERVING] * 3
        assert [w.next() for w in (*watchers, alive, nobody)] == ["The router drains"] * 5
        ids = [t for r in (first, *busy) for t in r.token_ids]  # what was accepted is answered
        assert ids == hash_answer(PROMPT, 2000)
        cluster.process.wait(60)
        assert cluster.process.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--still", type=float, default=2)
    options = parser.parse_args()
    tally = Tally()
    with Cluster("--mixed", 1, "--stall-timeout", "300s") as cluster:
        for test in (frames_of_one_byte, messages_in_one_frame, broken_messages_are_refused, heads_are_bounded):
            tally.run(test.__name__, test, cluster)
        tally.run("a_reader_that_stops", a_reader_that_stops, cluster, options.still)
        tally.run("quiet", lambda: cluster.quiet() and None)
    tally.run("drain_under_load", drain_under_load, None)
    tally.run("health_is_watched", health_is_watched, None)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
