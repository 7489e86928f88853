#!/usr/bin/env python3
"""HTTP/2 on the router's port: the answers of HTTP/1.1, many at a time; clients that mean harm are in hostile_test.py."""
import argparse
import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from cluster import Cluster, Skip, Tally, eventually, hash_answer, request
from doors import WINDOW, Door, frame, hpack, setting

try:
    import h2.config
    import h2.connection
    import h2.events
    import h2.exceptions
except ImportError:
    h2 = None

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


class Client:
    """One HTTP/2 connection, turned by its caller."""

    def __init__(self, port):
        if h2 is None:
            raise Skip("the package h2 is not installed")
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.since = time.monotonic()
        self.heard = False  # a byte of the server's
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.h2.initiate_connection()
        self.replies = {}
        self.goaway = None
        self.closed = False
        self.blind = set()  # streams whose windows stay shut
        self.held = 0  # bytes of theirs that came
        self.bytes = b""  # not yet a whole frame
        self.push()

    def push(self):
        data = self.h2.data_to_send()
        if data:
            try:
                self.socket.sendall(data)
            except OSError:
                self.closed = True

    def ask(self, method, path, body=None):
        stream = self.h2.get_next_available_stream_id()
        data = json.dumps(body).encode() if body is not None else b""
        head = [(":method", method), (":path", path), (":scheme", "http"), (":authority", "127.0.0.1")]
        if body is not None:
            head.append(("content-type", "application/json"))
        self.h2.send_headers(stream, head, end_stream=not data)
        if data:
            self.h2.send_data(stream, data, end_stream=True)
        self.replies[stream] = {"status": None, "headers": {}, "body": b"", "done": False, "reset": None}
        self.push()
        return stream

    def take(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            self.closed = True
            return
        self.heard = True
        for event in self.h2.receive_data(self.without_goaway(data)):
            reply = self.replies.get(getattr(event, "stream_id", None))
            if isinstance(event, h2.events.ResponseReceived):
                reply["headers"] = {k.decode(): v.decode() for k, v in event.headers}
                reply["status"] = int(reply["headers"][":status"])
            elif isinstance(event, h2.events.DataReceived):
                reply["body"] += event.data
                if event.stream_id in self.blind:
                    self.held += len(event.data)
                    self.h2.increment_flow_control_window(event.flow_controlled_length)
                else:
                    with contextlib.suppress(h2.exceptions.StreamClosedError):  # bytes that crossed our reset
                        self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.TrailersReceived):
                reply["trailers"] = {k.decode(): v.decode() for k, v in event.headers}
            elif isinstance(event, h2.events.StreamEnded):
                reply["done"] = True
            elif isinstance(event, h2.events.StreamReset):
                reply["reset"] = event.error_code
        self.push()

    def without_goaway(self, data):
        """Whole frames; a GOAWAY is noted here: the package takes no frame behind one, though streams go on."""
        self.bytes += data
        frames = b""
        while len(self.bytes) >= 9 and len(self.bytes) >= 9 + int.from_bytes(self.bytes[:3], "big"):
            n = 9 + int.from_bytes(self.bytes[:3], "big")
            frame, self.bytes = self.bytes[:n], self.bytes[n:]
            if frame[3] == 7:
                self.goaway = (int.from_bytes(frame[13:17], "big"), int.from_bytes(frame[9:13], "big"))
            else:
                frames += frame
        return frames

    def wait(self, *streams):
        for stream in streams:
            while not self.replies[stream]["done"]:
                assert self.replies[stream]["reset"] is None, self.replies[stream]
                assert not self.closed, (stream, self.goaway)
                self.take()
        return [self.replies[stream] for stream in streams]


def same(text):
    """Without what differs between two answers to one question: names, times, and where a stream is cut."""
    if text.startswith(b"data: "):
        events = [json.loads(line[6:]) for line in text.split(b"\n") if line.startswith(b"data: {")]
        said = "".join(c.get("text") or c.get("delta", {}).get("content") or "" for e in events for c in e["choices"])
        ends = [c["finish_reason"] for e in events for c in e["choices"] if c.get("finish_reason")]
        return said, ends, [e["usage"]["total_tokens"] for e in events if e.get("usage")], text.endswith(b"data: [DONE]\n\n")
    text = re.sub(rb'"(id|request_id)": ?"[^"]*"', b'"id":""', text)
    return re.sub(rb'"(created|cached_tokens)": ?[0-9]+', b'', text)


ROUTES = [
    ("GET", "/v1/models", None), ("GET", "/health", None), ("GET", "/livez", None), ("GET", "/readyz", None),
    ("GET", "/version", None), ("GET", "/nowhere", None), ("GET", "/v1/completions", None), ("OPTIONS", "/v1/models", None),
    ("POST", "/tokenize", {"prompt": "two words"}), ("POST", "/detokenize", {"tokens": [300, 301]}),
    ("POST", "/v1/completions", {"model": "hash", "prompt": PROMPT, "max_tokens": 9, "return_token_ids": True}),
    ("POST", "/v1/completions", {"model": "hash", "prompt": PROMPT, "max_tokens": 5, "n": 2, "logprobs": 2, "seed": 1}),
    ("POST", "/v1/completions", {"model": "hash", "prompt": PROMPT, "max_tokens": 30, "stream": True}),
    ("POST", "/v1/completions", {"model": "hash", "prompt": PROMPT, "temperature": -1}),
    ("POST", "/v1/completions", {"model": "other", "prompt": PROMPT}),
    ("POST", "/v1/chat/completions", {"model": "hash", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}),
    ("POST", "/v1/chat/completions", {"model": "hash", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8,
                                      "stream": True, "stream_options": {"include_usage": True}}),
]


def all_routes(cluster):
    client = Client(cluster.port)
    streams = [client.ask(*route) for route in ROUTES]
    for route, reply in zip(ROUTES, client.wait(*streams)):
        status, headers, body = request(cluster.port, *route)
        assert reply["status"] == status, (route, reply, status)
        assert same(reply["body"]) == same(body), (route, reply["body"][:400], body[:400])
        for name in ("Content-Type", "Allow", "Retry-After", "WWW-Authenticate"):
            assert reply["headers"].get(name.lower()) == headers.get(name), (route, name, reply["headers"])
        assert reply["headers"]["x-request-id"]
    return f"{len(ROUTES)} routes"


def curl(cluster):
    answer = subprocess.run(["curl", "-s", "--http2-prior-knowledge", "-w", "%{http_version} %{http_code}",
                             f"{cluster.url}/version"], capture_output=True, text=True, timeout=60)
    assert answer.stdout.endswith("2 200"), answer
    wants = subprocess.run(["curl", "-s", "--http2", "-w", "%{http_version} %{http_code}", f"{cluster.url}/version"],
                           capture_output=True, text=True, timeout=60)
    assert wants.stdout.endswith("1.1 200"), wants  # `Upgrade: h2c` is ignored


def httpx(cluster):
    try:
        from httpx import Client as Httpx
    except ImportError:
        raise Skip("the package httpx is not installed") from None
    with Httpx(http1=False, http2=True) as client:
        answer = client.post(f"{cluster.url}/v1/completions", json={"model": "hash", "prompt": PROMPT, "max_tokens": 7,
                                                                    "return_token_ids": True})
        assert answer.http_version == "HTTP/2" and answer.json()["choices"][0]["token_ids"] == hash_answer(PROMPT, 7)


def ids_of(body):
    ids = []
    for line in body.split(b"\n"):
        if line.startswith(b"data: {"):
            for choice in json.loads(line[6:])["choices"]:
                ids += choice.get("token_ids") or []
    return ids


def stream_ask(client, seed, n, **more):
    return client.ask("POST", "/v1/completions", {"model": "hash", "prompt": PROMPT + [seed], "max_tokens": n,
                                                  "stream": True, "return_token_ids": True, **more})


def long_ask(client, seed):
    """A stream of several windows, however many tokens come in one event."""
    return stream_ask(client, seed, 3000, logprobs=5)


def many_streams_beside_one_that_is_not_read(cluster):
    """One stream's window stays shut: the others of its connection do not notice, and memory is bounded."""
    client = Client(cluster.port)
    shut = long_ask(client, 999)
    client.blind.add(shut)
    streams = [stream_ask(client, i, 150) for i in range(64)]
    for i, reply in enumerate(client.wait(*streams)):
        assert ids_of(reply["body"]) == hash_answer(PROMPT + [i], 150), i
    assert client.held <= 65535, client.held
    assert not client.replies[shut]["done"], {k: v[-300:] if k == "body" else v for k, v in client.replies[shut].items()}
    client.blind.clear()
    client.h2.increment_flow_control_window(1 << 24, shut)
    client.h2.increment_flow_control_window(1 << 24)
    client.push()
    reply, = client.wait(shut)
    assert ids_of(reply["body"]) == hash_answer(PROMPT + [999], 3000)
    return f"{client.held} bytes while shut"


def a_reset_cancels(cluster):
    client = Client(cluster.port)
    stream = long_ask(client, 1)
    client.blind.add(stream)  # it cannot end
    while not client.replies[stream]["body"]:
        client.take()
    client.h2.reset_stream(stream, 8)
    client.push()
    cluster.quiet()
    other = client.ask("GET", "/version")
    client.wait(other)


class Load:
    """Clients that ask four streams at a time, of a router that is told to end meanwhile."""

    def __init__(self, port):
        self.port = port
        self.failures = []
        self.served = []  # the seed of each call
        self.signalled = None  # when the signal was about to go out
        self.n_turned_away = 0

    def ask(self, client, seed):
        streams = [stream_ask(client, seed, 40) for _ in range(4)]
        while streams and not client.closed:
            client.take()
            # What was refused, or lies behind the last stream, may be sent elsewhere.
            last = client.goaway[1] if client.goaway else 1 << 31
            streams = [s for s in streams if s <= last and client.replies[s]["reset"] != 7]
            if all(client.replies[s]["done"] for s in streams):
                break
        for stream in streams:
            reply = client.replies[stream]
            if ids_of(reply["body"]) != hash_answer(PROMPT + [seed], 40):
                self.failures.append((stream, reply["status"], reply["reset"], client.goaway, client.heard))
            self.served.append(seed)

    def talk(self, seed, is_short):
        """One connection, for one round or until it is told to end. False: nobody took it, which is right behind the signal alone."""
        try:
            client = Client(self.port)
        except OSError:
            assert self.signalled is not None, "refused before the signal"
            return False
        n_failures = len(self.failures)
        while client.goaway is None and not client.closed:
            self.ask(client, seed)
            if is_short:
                break
        client.socket.close()
        if client.heard or self.signalled is None or client.since < self.signalled:
            return True
        del self.failures[n_failures:]
        self.n_turned_away += 1
        return False

    def run(self, seed, is_short):
        try:
            while self.talk(seed, is_short) and is_short:
                pass
        except Exception as error:  # noqa: BLE001 - whatever it is, the call failed
            self.failures.append(repr(error))


def drain_under_load(_):
    """SIGTERM while eight connections ask without pause and others come and go: whatever was accepted is answered in full, and who
    had connected before the signal was. Behind it a client may be refused, or told nothing: not even the server's settings."""
    with Cluster("--mixed", 2) as cluster:
        Client(cluster.port).socket.close()
        loads = [Load(cluster.port) for _ in range(12)]
        threads = [threading.Thread(target=load.run, args=(i, i >= 8)) for i, load in enumerate(loads)]
        for thread in threads:
            thread.start()
        eventually(lambda: all(load.served or load.failures for load in loads) and sum(len(load.served) for load in loads) > 100,
                   "load")
        for load in loads:
            load.signalled = time.monotonic()
        cluster.process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
        cluster.process.wait(60)
        failures = [failure for load in loads for failure in load.failures]
        assert not failures, (len(failures), failures[:5])
        return (f"{sum(len(load.served) for load in loads)} calls, 0 failed, {sum(load.n_turned_away for load in loads)} connections "
                "behind the signal turned away")


def router_bytes(cluster, what):
    """Of the router's own ledger; its allocator keeps none under sanitizers."""
    found = re.search(rf"^tandem_{what}_bytes (\S+)$", request(cluster.port, "GET", "/metrics")[2].decode(), re.M)
    return int(float(found[1])) if found else 0


def rounds_of_64(door, seconds):
    """64 streams at a time on one connection, again and again; each is exact. Answers how long each round took."""
    took = []
    want = [hash_answer(PROMPT + [i], 100) for i in range(64)]
    with contextlib.closing(door.open()) as wire:
        wire.begin()
        end = time.monotonic() + seconds
        while not took or time.monotonic() < end:
            began, first = time.monotonic(), 1 + 128 * len(took)
            ids = range(first, first + 128, 2)
            for i, stream in enumerate(ids):
                body = {"prompt": PROMPT + [i], "max_tokens": 100, "ignore_eos": True, "stream": True, "return_token_ids": True}
                wire.send(wire.request(stream, "POST", "/v1/completions", json.dumps(body).encode()))
            wire.wait(lambda ids=ids: all(wire.settled(stream) for stream in ids))
            took.append(time.monotonic() - began)
            for i, stream in enumerate(ids):
                assert ids_of(wire.body(stream)) == want[i], (stream, wire.status(stream))
    return took


def a_reader_that_stops(cluster, seconds):
    """A client asks for 8 streams, opens all windows and stops reading its socket. What the router keeps for it has a bound, 64
    streams of another client go on, and when it reads again it gets every token."""
    door = Door(cluster.port, 2)
    before = rounds_of_64(door, min(seconds, 10) / 2)
    n, before_bytes, most, most_output = 5000, router_bytes(cluster, "memory_allocated"), 0, 0
    with contextlib.closing(door.open(receive_bytes=4096)) as wire, ThreadPoolExecutor() as pool:
        wire.obliging = False
        wire.begin()
        wire.send(setting(4, 1 << 30) + frame(WINDOW, 0, 0, (1 << 30).to_bytes(4, "big")))
        for i in range(8):
            body = {"prompt": PROMPT + [i], "max_tokens": n, "ignore_eos": True, "stream": True, "return_token_ids": True}
            wire.send(wire.request(2 * i + 1, "POST", "/v1/completions", json.dumps(body).encode()))
        eventually(lambda: router_bytes(cluster, "http_output") > (512 << 10), "what is not read waits")
        others = pool.submit(rounds_of_64, door, seconds)
        while not others.done():
            most_output = max(most_output, router_bytes(cluster, "http_output"))
            most = max(most, router_bytes(cluster, "memory_allocated"))
            time.sleep(0.1)
        after = others.result()
        # 4 times 256 KiB for all streams of a connection, a share of that for each, 64 KiB for the socket; as much for the others
        # when their client is late; all that is asked for would be tens of MiB.
        assert most_output < (3 << 20), most_output
        assert most - before_bytes < (16 << 20), (before_bytes, most)
        wire.wait(lambda: all(wire.settled(2 * i + 1) for i in range(8)))
        for i in range(8):
            assert ids_of(wire.body(2 * i + 1)) == hash_answer(PROMPT + [i], n), i
    return (f"{most_output >> 10} KiB kept, the heap grew from {before_bytes >> 10} to {most >> 10} KiB; a round of 64 streams took "
            f"{median(before):.3f} s before ({len(before)} rounds), {median(after):.3f} s beside it ({len(after)} rounds)")


def listen(door, seed, stop, told):
    """Eight streams at a time on one connection until told to stop; each has to be the oracle's answer, token for token."""
    try:
        with contextlib.closing(door.open()) as wire:
            wire.begin()
            ids = range(1, 17, 2)
            while not stop.is_set():
                for i in ids:
                    body = {"prompt": [seed, i], "max_tokens": 200, "ignore_eos": True, "stream": True, "return_token_ids": True}
                    wire.send(wire.request(i, "POST", "/v1/completions", json.dumps(body).encode()))
                wire.wait(lambda ids=ids: all(wire.settled(i) for i in ids))
                for i in ids:
                    assert ids_of(wire.body(i)) == hash_answer([seed, i], 200), (seed, i, wire.status(i), wire.body(i)[-200:])
                    told["streams"] += 1
                ids = range(ids[-1] + 2, ids[-1] + 18, 2)
    except Exception as reason:  # a thread's exception would be lost
        told["wrong"].append(repr(reason))


def streams_survive_their_workers(kills, streams):
    """A worker dies in the midst of streams, again and again."""
    stop, told = threading.Event(), {"streams": 0, "wrong": []}
    with Cluster("--prefill", 2, "--decode", 2, "--step-us", 5000, "--threads", 1) as cluster:
        door = Door(cluster.port, 2)
        threads = [threading.Thread(target=listen, args=(door, seed, stop, told)) for seed in range(1, 1 + streams // 8)]
        cluster.kill_workers_beside(threads, stop, kills)
        assert not told["wrong"], told["wrong"][:3]
        assert told["streams"] >= streams, told
        cluster.quiet()
        replays = cluster.status()["routers"][0]["core"]["replays"]
        assert replays > 0, "nobody was killed while it answered"
        return f"{kills} kills, {told['streams']} streams, {replays} replays"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--streams", type=int, default=16, help="at a time while workers are killed; a multiple of 8")
    parser.add_argument("--stop", type=float, default=3, help="seconds for which a reader stops")
    options = parser.parse_args()
    tally = Tally()
    with Cluster("--mixed", 2) as cluster:
        for test in (all_routes, curl, httpx, many_streams_beside_one_that_is_not_read, a_reset_cancels):
            tally.run(test.__name__, test, cluster)
        tally.run("quiet", lambda: cluster.quiet() and None)
    if hpack:
        with Cluster("--mixed", 2, "--stall-timeout", f"{options.stop + 60:.0f}s") as cluster:
            tally.run("a_reader_that_stops", a_reader_that_stops, cluster, options.stop)
        tally.run("streams_survive_their_workers", streams_survive_their_workers, options.kills, options.streams)
    tally.run("drain_under_load", drain_under_load, None)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
