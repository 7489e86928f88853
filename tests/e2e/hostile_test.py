#!/usr/bin/env python3
"""Clients that mean harm, at all four doors: HTTP/1.1 and HTTP/2, plain and over TLS.

A row says what a client does and what it gets, exactly; each is walked over every door that it concerns, while other clients of the
same door are served. What only TLS can be asked for stands in tls_test.py, every way to write a head in HTTP/1.1 in
tests/unit/base/http/http1_test.c, fields of JSON in bad_input_test.py. Names begin with the class of the catalogue (H01 to H16).
"""
import contextlib
import gzip
import json
import random
import struct
import sys
import tempfile
import threading

from cluster import Cluster, Tally, hash_answer
from doors import (ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, MORE, PING, PREFACE, PRIORITY, PUSH, RESET, SETTINGS, WINDOW,
                   Door, ask, field, frame, head, hpack, http1, number, setting)
from secure import Certificates, Secure

MAX_BODY = 64 << 10
LONG = b'{"prompt":[1],"max_tokens":30000,"ignore_eos":true,"stream":true}'
SHORT = b'{"prompt":[1,2,3],"max_tokens":5,"ignore_eos":true}'
V1 = "/v1/completions"
GET = http1("GET", "/livez")


def post(*lines, path=V1):
    return http1("POST", path, *lines)


# --- HTTP/1.1 -----------------------------------------------------------------------------------

CHUNKED = post("Transfer-Encoding: chunked")

HTTP1 = [
    ("H01 a head of 70 KB", http1("GET", "/livez", *(f"x-{i}: {'v' * 1000}" for i in range(70))), "431 closed"),
    ("H01 101 fields", http1("GET", "/livez", *(f"x-{i}: v" for i in range(101))), "431 closed"),
    ("H01 a line of 17 KiB", http1("GET", "/livez", "x: " + "v" * (17 << 10)), "431 closed"),
    ("H01 a request line without an end", b"GET /" + b"a" * 100000, "431 closed"),
    ("H02 a length above the bound", post(f"Content-Length: {MAX_BODY + 1}"), "413 closed"),
    ("H02 chunks above the bound", CHUNKED + b"4000\r\n" + b"x" * 0x4000 + b"\r\n4000\r\n" + b"x" * 0x4000 + b"\r\n8001\r\n", "413 closed"),
    ("H02 20,000 chunks of a byte", CHUNKED + b"1\r\n \r\n" * 20000 + b"%x\r\n" % len(SHORT) + SHORT + b"\r\n0\r\n\r\n", "200"),
    ("H02 a chunk's extension without an end", CHUNKED + b"1;" + b"x" * 1000 + b"\r\n", "413 closed"),
    ("H03 a length and chunks", post("Content-Length: 3", "Transfer-Encoding: chunked") + b"0\r\n\r\n", "400 closed"),
    ("H03 two lengths", post("Content-Length: 3", "Content-Length: 4") + b"abcd", "400 closed"),
    ("H03 a length above 2^63", post("Content-Length: 9223372036854775809"), "400 closed"),
    ("H03 chunks in HTTP/1.0", b"POST /v1/completions HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400 closed"),
    ("H03 a field on two lines", http1("GET", "/livez", "a: b", " c"), "400 closed"),
    ("H03 bare line feeds", b"GET /livez HTTP/1.1\nHost: localhost\n\n", "400 closed"),
    ("H03 a NUL in a value", http1("GET", "/livez", "a: b\0c"), "400 closed"),
    ("H03 no host", http1("GET", "/livez", host=False), "400 closed"),
    ("H03 an upgrade to h2c",
     http1("GET", "/livez", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"), "200"),
    ("H03 the preface behind a request", GET + PREFACE, "200 closed"),
    ("H04 three at once", GET * 3, "200 200 200"),
    ("H04 a request behind the last", http1("GET", "/livez", "Connection: close") + GET, "200 closed"),
    ("H04 an answered one behind a broken one", b"GET /livez\r\n\r\n" + GET, "400 closed"),
    ("H06 two slashes", http1("GET", "//v1/models"), "404"),
    ("H06 dots in percents", http1("GET", "/v1/%2e%2e/admin/status"), "400 closed"),
    ("H06 a NUL in percents", http1("GET", "/v1/models%00"), "400 closed"),
    ("H06 a whole address", http1("GET", "http://localhost/livez"), "200"),
    ("H06 a star", http1("GET", "*"), "400 closed"),
    ("H06 a proxy's request", http1("CONNECT", "example.org:443"), "501 closed"),
    ("H15 gRPC", post("Content-Type: application/grpc", "Content-Length: 5", path="/tandem.v1.Inference/Complete") + bytes(5), "505"),
    ("noise", random.Random(1).randbytes(3000), "400 closed"),
]

# --- HTTP/2 -------------------------------------------------------------------------------------

CALM = "goaway 11 closed"
PROTOCOL, FLOW, SIZE, HPACK = "goaway 1 closed", "goaway 3 closed", "goaway 6 closed", "goaway 9 closed"
MUCH = 600  # frames of a flood: a hundred are free, and 33 a second come back while they are read; all are read behind the end


def many(frames, n=MUCH):
    return frames * n


def each(function, n=MUCH):
    return b"".join(function(2 * i + 1) for i in range(n))


def long(stream):
    return ask(stream, "POST", V1, ("content-type", "application/json"), body=LONG)


def u32(kind, stream, value):
    return frame(kind, 0, stream, struct.pack(">I", value))


def indexed(name, value):
    return b"\x40" + field(name, value)[1:]


def pieces(block, size):
    """A head of GET in frames of so many bytes."""
    parts = [block[i:i + size] for i in range(0, len(block), size)]
    out = frame(HEADERS, END_STREAM | (END_HEADERS if len(parts) == 1 else 0), 1, parts[0])
    for i, part in enumerate(parts[1:]):
        out += frame(MORE, END_HEADERS if i == len(parts) - 2 else 0, 1, part)
    return out


def livez(*fields):
    return head("GET", "/livez", *fields)


def bytewise(body):
    return ask(1, "POST", V1, ("content-type", "application/json"), end=False) + b"".join(
        frame(DATA, END_STREAM if i + 1 == len(body) else 0, 1, body[i:i + 1]) for i in range(len(body)))


HTTP2 = [
    ("H01 a head of 70 KB", pieces(livez(*((f"x-{i}", "v" * 1000) for i in range(70))), 16384), "431"),
    ("H01 101 fields", ask(1, "GET", "/livez", *((f"x-{i}", "v") for i in range(101))), "431"),
    ("H01 a field of 17 KiB", pieces(livez(("x", "v" * (17 << 10))), 16384), "431"),
    ("H01 a head of 1 MB", pieces(livez(*((f"x-{i}", "v" * 4000) for i in range(250))), 16384), "closed"),
    ("H02 a length above the bound", ask(1, "POST", V1, ("content-length", str(MAX_BODY + 1)), end=False), "413"),
    ("H02 a body above the bound", ask(1, "POST", V1, body=b"x" * (MAX_BODY + 1), end=False), "413"),
    ("H02 a body longer than its length", ask(1, "POST", V1, ("content-length", "3"), body=b"four"), "reset 1"),
    ("H02 a body shorter than its length", ask(1, "POST", V1, ("content-length", "5"), body=b"four"), "reset 1"),
    ("H02 padding alone", ask(1, "POST", V1, end=False) + many(frame(DATA, 8, 1, b"\x3f" + bytes(63))), CALM),
    ("H03 fields of a connection", ask(1, "GET", "/livez", ("connection", "close")), "reset 1"),
    ("H03 a coding of transfer", ask(1, "POST", V1, ("transfer-encoding", "chunked"), body=b"0\r\n\r\n"), "reset 1"),
    ("H03 a length of words", ask(1, "POST", V1, ("content-length", "+4"), body=b"four"), "reset 1"),
    ("H03 a line break in a value", ask(1, "GET", "/livez", ("a", "b\r\nc: d")), "400"),
    ("H03 a NUL in a value", ask(1, "GET", "/livez", ("a", b"b\0c")), "400"),
    ("H03 capitals in a name", ask(1, "GET", "/livez", ("Upper", "x")), "reset 1"),
    ("H03 a name without a byte", ask(1, "GET", "/livez", ("", "x")), "400"),
    ("H03 two paths", ask(1, "GET", "/livez", (":path", "/admin/status")), "reset 1"),
    ("H03 a pseudo field behind others", ask(1, "GET", "/livez", ("a", "b"), (":status", "200")), "reset 1"),
    ("H03 no path", frame(HEADERS, 5, 1, field(":method", "GET") + field(":scheme", "http")), "reset 1"),
    ("H03 pseudo trailers", ask(1, "POST", V1, end=False) + frame(HEADERS, 5, 1, field(":path", "/x")), "reset 1"),
    ("H03 another host", ask(1, "GET", "/livez", ("host", "other")), "400"),
    ("H06 two slashes", ask(1, "GET", "//v1/models"), "404"),
    ("H06 dots in percents", ask(1, "GET", "/v1/%2e%2e/admin/status"), "400"),
    ("H06 a proxy's request", frame(HEADERS, 4, 1, field(":method", "CONNECT") + field(":authority", "a:1")), "501"),
    ("H14 rapid reset", each(lambda i: long(i) + u32(RESET, i, 8)), CALM),
    ("H14 resets that we are made to send", each(lambda i: long(i) + u32(WINDOW, i, 0x7fffffff)), CALM),
    ("H14 streams of which each depends on itself", each(lambda i: frame(PRIORITY, 0, i, struct.pack(">IB", i, 0))), PROTOCOL),
    # Of requests that are not whole: an answer would earn what the next ones cost.
    ("H14 600 streams at once", each(lambda i: ask(i, "POST", V1, end=False)), CALM),
    ("H14 a flood of settings", many(frame(SETTINGS, 0, 0)), CALM),
    ("H14 a flood of pings", many(frame(PING, 0, 0, bytes(8))), CALM),
    ("H14 a flood of priorities", many(frame(PRIORITY, 0, 1, b"\0\0\0\0\x10")), CALM),
    ("H14 a flood of window updates", many(u32(WINDOW, 0, 1)), CALM),
    ("H14 a flood of empty data", ask(1, "POST", V1, end=False) + many(frame(DATA, 0, 1)), CALM),
    ("H14 a flood of unknown frames", many(frame(0x77, 0, 0, b"x"), 2000) + ask(1, "GET", "/livez"), "200"),
    ("H14 a flood of empty continuations", frame(HEADERS, END_STREAM, 1, livez()) + many(frame(MORE, 0, 1)), "closed"),
    ("H14 a flood of full continuations",
     frame(HEADERS, END_STREAM, 1, livez()) + many(frame(MORE, 0, 1, field("x", "v" * 16000))), "closed"),
    ("H14 continuations of a byte", pieces(livez(), 1), "closed"),
    ("H14 a ping within a head", frame(HEADERS, END_STREAM, 1, livez()) + frame(PING, 0, 0, bytes(8)), PROTOCOL),
    ("H14 a continuation of nothing", frame(MORE, END_HEADERS, 1, livez()), PROTOCOL),
    ("H14 an HPACK bomb", frame(HEADERS, END_STREAM, 1, livez() + indexed("b", "v" * 4000)) + frame(MORE, 4, 1, b"\xbe" * 16000), CALM),
    ("H14 an index beyond the table", frame(HEADERS, 5, 1, b"\xff\xff\xff\xff\x7f"), HPACK),
    ("H14 an index of 0", frame(HEADERS, 5, 1, b"\x80"), HPACK),
    ("H14 an integer without an end", frame(HEADERS, 5, 1, b"\xff" * 200), HPACK),
    ("H14 a string beyond its frame", frame(HEADERS, 5, 1, b"\0" + number(1000) + b"x"), HPACK),
    ("H14 a table of 1 GB", frame(HEADERS, 5, 1, number(1 << 30, 5, 0x20) + livez()), HPACK),
    ("H14 Huffman codes with a wrong end", frame(HEADERS, 5, 1, b"\0\x81\0\x01x"), HPACK),
    ("H14 a window of 0 more", u32(WINDOW, 0, 0), PROTOCOL),
    ("H14 a stream's window of 0 more", long(1) + u32(WINDOW, 1, 0), PROTOCOL),
    ("H14 the connection's window beyond 2^31", u32(WINDOW, 0, 0x7fffffff), FLOW),
    ("H14 a stream's window beyond 2^31", long(1) + u32(WINDOW, 1, 0x7fffffff), "reset 3"),
    ("H14 first windows beyond 2^31", setting(4, 1 << 31), FLOW),
    ("H14 first windows that carry others beyond 2^31", long(1) + u32(WINDOW, 1, 0x7fffffff - 65535) + setting(4, 65536), "reset 3"),
    ("H14 frames of a byte as the most", setting(5, 1), PROTOCOL),
    ("H14 push 2", setting(2, 2), PROTOCOL),
    ("H14 settings of 5 bytes", frame(SETTINGS, 0, 0, b"12345"), SIZE),
    ("H14 settings on a stream", frame(SETTINGS, 0, 1), PROTOCOL),
    ("H14 settings that acknowledge with bytes", frame(SETTINGS, ACK, 0, bytes(6)), SIZE),
    ("H14 settings that acknowledge what was not sent", many(frame(SETTINGS, ACK, 0), 3), PROTOCOL),
    ("H14 a ping of 7 bytes", frame(PING, 0, 0, bytes(7)), SIZE),
    ("H14 a frame longer than agreed", ask(1, "POST", V1, end=False) + frame(DATA, 0, 1, bytes(16385)), SIZE),
    ("H14 padding longer than its frame", ask(1, "POST", V1, end=False) + frame(DATA, 8, 1, b"\x05abc"), PROTOCOL),
    ("H14 an even stream", ask(2, "GET", "/livez"), PROTOCOL),
    ("H14 a lower stream", ask(5, "GET", "/livez") + ask(3, "GET", "/livez"), "200"),
    ("H14 data on stream 0", frame(DATA, 0, 0, b"x"), PROTOCOL),
    ("H14 data on a stream that is not there", frame(DATA, 0, 7, b"x"), PROTOCOL),
    ("H14 a reset of what is not there", u32(RESET, 7, 8), PROTOCOL),
    ("H14 a push", frame(PUSH, END_HEADERS, 1, b"\0\0\0\2"), PROTOCOL),
    ("H14 a body in frames of a byte", bytewise(SHORT), "200"),
    ("H14 a goaway, and a request", frame(GOAWAY, 0, 0, bytes(8)) + ask(1, "GET", "/livez"), "200 closed"),
]

# --- gRPC ---------------------------------------------------------------------------------------


def grpc(*fields, path="Complete", body, end=True):
    return ask(1, "POST", "/tandem.v1.Inference/" + path, ("content-type", "application/grpc"), ("te", "trailers"), *fields, body=body,
               end=end)


def message(payload, packed=0, size=None):
    return struct.pack(">BI", packed, len(payload) if size is None else size) + payload


PROMPT = message(b"\x1a\x05\x0a\x03\x01\x02\x03\x28\x03")  # token ids 1, 2, 3; max_tokens 3

GRPC = [
    ("H15 no message", grpc(body=b""), "grpc 12"),
    ("H15 half a prefix", grpc(body=b"\0\0\0"), "grpc 13"),
    ("H15 a message cut short", grpc(body=message(b"abc", size=10)), "grpc 13"),
    ("H15 a message of 4 GiB", grpc(body=message(b"", size=0xffffffff)), "grpc 8"),
    ("H15 a message of 4 MiB and a byte", grpc(body=message(b"", size=(4 << 20) + 1)), "grpc 8"),
    ("H15 two messages to a call that takes one", grpc(body=PROMPT * 2), "grpc 12"),
    ("H15 an unknown flag", grpc(body=message(b"", packed=2)), "grpc 13"),
    ("H15 packed without a coding", grpc(body=message(gzip.compress(b"x"), packed=1)), "grpc 13"),
    ("H15 a coding not served", grpc(("grpc-encoding", "br"), body=message(b"x", packed=1)), "grpc 12"),
    ("H15 a bomb of 1,000 times its size",
     grpc(("grpc-encoding", "gzip"), body=message(gzip.compress(bytes(40 << 20)), packed=1)), "grpc 8"),
    ("H15 gzip cut short", grpc(("grpc-encoding", "gzip"), body=message(gzip.compress(bytes(1000))[:-5], packed=1)), "grpc 13"),
    ("H15 gzip with bytes behind", grpc(("grpc-encoding", "gzip"), body=message(gzip.compress(b"") + b"xy", packed=1)), "grpc 13"),
    ("H15 protobuf cut short", grpc(body=message(b"\x12\x7fab")), "grpc 3"),
    ("H15 noise", grpc(body=message(random.Random(2).randbytes(1000))), "grpc 3"),
    ("H15 a time limit of words", grpc(("grpc-timeout", "soon"), body=PROMPT), "grpc 3"),
    ("H15 a time limit of a nanosecond", grpc(("grpc-timeout", "1n"), body=PROMPT), "grpc 4"),
    ("H15 an unknown call", grpc(path="Nothing", body=PROMPT), "grpc 12"),
    ("H15 metadata above the bound", grpc(*((f"x-{i}", "v") for i in range(101)), body=PROMPT), "grpc 8"),
    ("H15 a call that is right", grpc(body=PROMPT), "grpc 0"),
]


def walk(door, send, want):
    """The bytes, then a request that shows whether the connection goes on: what came of both."""
    ends, replies = want.endswith("closed"), want[0].isdigit() or want.startswith(("grpc", "reset"))
    with contextlib.closing(door.open()) as wire:
        wire.begin()
        wire.send(send)
        if want != "closed":
            wire.probe()
        wire.wait(lambda: not ends and wire.probed and (not replies or wire.any_settled()))
        assert wire.outcome() == want, wire.outcome()


# --- rows that are more than bytes ----------------------------------------------------------------


def who_leaves_is_gone(door, cluster):
    """However a client ends: nothing is computed for it."""
    for leave in ("reset", "half_close"):
        with contextlib.closing(door.open()) as wire:
            wire.begin()
            wire.send(wire.request(1, "POST", V1, LONG))
            wire.take()
            getattr(wire, leave)()
            cluster.quiet()
    with contextlib.closing(door.open()) as wire:
        wire.begin()
        wire.send(wire.request(1, "POST", V1, LONG)[:-20])
        wire.reset()
    cluster.quiet()


def bytes_one_by_one(door):
    with contextlib.closing(door.open()) as wire:
        for byte in (b"" if door.version == 1 else PREFACE + frame(SETTINGS, 0, 0)) + wire.request(1, "POST", V1, SHORT):
            wire.send(bytes([byte]))
        wire.wait(lambda: wire.settled(1))
        assert wire.status(1) == 200, wire.outcome()


def windows_that_shrink_below_what_is_used(door):
    """First windows of less than a stream has had already: it waits until they are above that, and nothing is lost."""
    body = b'{"prompt":[9,9],"max_tokens":2000,"ignore_eos":true,"return_token_ids":true}'
    with contextlib.closing(door.open()) as wire:
        wire.obliging = False
        wire.begin()
        wire.send(setting(4, 3000) + wire.request(1, "POST", V1, body))
        wire.wait(lambda: len(wire.stream(1)["body"]) == 3000)
        wire.send(b"".join(setting(4, size) for size in (0, 1, 0, 2000, 2999, 3000)))
        wire.probe()
        wire.wait(lambda: wire.probed)
        assert len(wire.body(1)) == 3000 and not wire.settled(1), (len(wire.body(1)), wire.outcome())
        wire.send(setting(4, 3001))
        wire.wait(lambda: len(wire.body(1)) > 3000)
        assert len(wire.body(1)) == 3001
        wire.send(setting(4, 0) + u32(WINDOW, 0, 1 << 24) + u32(WINDOW, 1, 1 << 24))
        wire.wait(lambda: wire.settled(1))
        assert json.loads(wire.body(1))["choices"][0]["token_ids"] == hash_answer([9, 9], 2000)


def slow_ones(door):
    """Connections whose clients stop in the middle of a head, and what they get in the end."""
    rows = {1: {GET[:7]: "408 closed"},
            2: {PREFACE: "goaway 11 closed", PREFACE[:20]: "goaway 11 closed",
                PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_STREAM, 1, livez()): "goaway 11 closed"}}[door.version]
    wires = []
    for send, want in rows.items():
        wire = door.open()
        wire.obliging = False
        wire.send(send)
        wires.append((wire, want))
    return wires


def slow_ones_end(door):
    """They are told so where that can be."""
    for wire, want in slow_ones(door):
        with contextlib.closing(wire):
            wire.wait(lambda: False)
            assert wire.outcome() == want, wire.outcome()


def http1_where_http2_was_agreed(door):
    with contextlib.closing(door.open()) as wire:
        wire.send(GET)
        wire.wait(lambda: False)
        assert wire.outcome() == "closed", wire.outcome()


class Beside(threading.Thread):
    """A client of the same door that means well: whatever others do, each of its answers is right."""

    def __init__(self, door):
        super().__init__()
        self.door, self.over, self.n, self.wrong = door, threading.Event(), 0, None
        self.start()

    def run(self):
        try:
            while not self.over.wait(0.02):
                self.n += 1
                assert self.door.complete([self.n, 5], 200) == hash_answer([self.n, 5], 200), "a wrong answer"
        except Exception as reason:  # a thread's exception would be lost
            self.wrong = repr(reason)

    def end(self):
        self.over.set()
        self.join()
        assert not self.wrong, self.wrong
        return f"{self.n} answers"


def walk_all(tally, door, cluster):
    table = HTTP1 if door.version == 1 else HTTP2 + GRPC
    assert len({name for name, _, _ in table}) == len(table)
    slow, beside = slow_ones(door), Beside(door)
    for name, send, want in table:
        tally.run(f"{door.name}: {name}: {want}", walk, door, send, want)
    tally.run(f"{door.name}: bytes_one_by_one", bytes_one_by_one, door)
    if door.version == 2:
        tally.run(f"{door.name}: H14 windows", windows_that_shrink_below_what_is_used, door)
    if door.version == 2 and door.context:
        tally.run(f"{door.name}: H16 http1_where_http2_was_agreed", http1_where_http2_was_agreed, door)
    tally.run(f"{door.name}: others are served", beside.end)
    for wire, _ in slow:
        wire.close()
    tally.run(f"{door.name}: H04 who_leaves_is_gone", who_leaves_is_gone, door, cluster)


def main() -> int:
    if hpack is None:
        print("SKIPPED hostile clients: the package hpack is not installed\n0 passed, 0 failed, 1 skipped")
        return 0
    tally = Tally()
    flags = ("--mixed", 1, "--max-body", MAX_BODY, "--head-timeout")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        certificates = Certificates(folder)
        certificates.sign("server")

        def doors(head_timeout):
            plain = stack.enter_context(Cluster(*flags, head_timeout))
            secure = stack.enter_context(Secure(certificates, *flags, head_timeout))
            yield from ((Door(plain.port, version), plain) for version in (1, 2))
            for version in (1, 2):
                context = certificates.context()
                context.set_alpn_protocols(["h2" if version == 2 else "http/1.1"])
                yield Door(secure.port, version, context), secure
        # Whoever is late on purpose has routers of its own: to be late by accident is nobody's fault.
        late = [threading.Thread(target=tally.run, args=(f"{door.name}: H05 slow_ones_end", slow_ones_end, door))
                for door, _ in doors("2s")]
        for thread in late:
            thread.start()
        served = list(doors("60s"))
        for door, cluster in served:
            walk_all(tally, door, cluster)
        for thread in late:
            thread.join()
        for cluster in {cluster for _, cluster in served}:
            tally.run("nothing is held", lambda: cluster.quiet() and None)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
