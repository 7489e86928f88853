"""The four doors of a router, byte by byte: HTTP/1.1 and HTTP/2, plain and over TLS.

Frames and heads are written here as the caller wants them, right or wrong; replies are taken apart.
"""
import contextlib
import json
import socket
import ssl
import struct

try:
    import hpack
except ImportError:
    hpack = None

DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, MORE = range(10)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PROBE = 0x3FFFFFFF  # the stream of the request that shows whether a connection goes on


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def number(value, bits=7, first=0):
    """An integer of HPACK (RFC 7541, 5.1)."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    out, value = bytes([first | most]), value - most
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(name, value):
    """A literal without an index."""
    name, value = (text.encode() if isinstance(text, str) else text for text in (name, value))
    return b"\0" + number(len(name)) + name + number(len(value)) + value


def head(method, path, *fields):
    named = ((":method", method), (":path", path), (":scheme", "http"), (":authority", "localhost"), *fields)
    return b"".join(field(*pair) for pair in named)


def ask(stream, method, path, *fields, body=None, end=True):
    """HEADERS, and DATA with a body."""
    if body is None:
        return frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, head(method, path, *fields))
    out = frame(HEADERS, END_HEADERS, stream, head(method, path, *fields))
    for at in range(0, max(1, len(body)), 16384):
        last = end and at + 16384 >= len(body)
        out += frame(DATA, END_STREAM if last else 0, stream, body[at:at + 16384])
    return out


def setting(name, value):
    return frame(SETTINGS, 0, 0, struct.pack(">HI", name, value))


def http1(method, path, *lines, body=None, host=True):
    text = f"{method} {path} HTTP/1.1\r\n" + ("Host: localhost\r\n" if host else "")
    text += "".join(line + "\r\n" for line in lines)
    if body is not None:
        text += f"Content-Length: {len(body)}\r\n"
    return text.encode() + b"\r\n" + (body or b"")


class Door:
    """One way in: port, TLS or not, and the protocol that is spoken."""

    def __init__(self, port, version, context=None):
        self.port, self.version, self.context = port, version, context
        self.name = f"HTTP/{'1.1' if version == 1 else '2'} {'over TLS' if context else 'plain'}"

    def open(self, receive_bytes=0):
        connection = socket.socket()
        if receive_bytes:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", self.port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.context:
            connection = self.context.wrap_socket(connection, server_hostname="localhost")
        return Http1(connection) if self.version == 1 else Http2(connection)

    def complete(self, prompt, n):
        """The ids of an answer of n tokens, on a connection of its own."""
        body = json.dumps({"prompt": prompt, "max_tokens": n, "ignore_eos": True, "return_token_ids": True}).encode()
        with contextlib.closing(self.open()) as wire:
            wire.begin()
            wire.send(wire.request(1, "POST", "/v1/completions", body))
            wire.wait(lambda: wire.settled(1))
            assert wire.status(1) == 200, wire.outcome()
            return json.loads(wire.body(1))["choices"][0]["token_ids"]


class Wire:
    """A connection: what was sent, what came."""

    def __init__(self, connection):
        self.socket = connection
        self.closed = False
        self.bytes = b""

    def close(self):
        self.socket.close()

    def reset(self):
        """Ends the connection with a RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def half_close(self):
        """Says that no more will be sent: with TLS by an alert, else by a FIN."""
        if isinstance(self.socket, ssl.SSLSocket):
            with contextlib.suppress(OSError):
                self.socket.unwrap()
        else:
            self.socket.shutdown(socket.SHUT_WR)

    def send(self, data):
        """A server that has ended the connection is not an error: what it said is still read."""
        with contextlib.suppress(OSError):
            self.socket.sendall(data)

    def take(self):
        try:
            data = self.socket.recv(65536)
        except (ConnectionError, ssl.SSLError):
            data = b""
        self.closed |= not data
        self.bytes += data
        self.parse()

    def wait(self, is_done):
        while not is_done() and not self.closed:
            self.take()


class Http1(Wire):
    def __init__(self, connection):
        super().__init__(connection)
        self.replies = []  # (status, headers, body), in order
        self.probed = False

    def begin(self):
        pass

    def request(self, _, method, path, body=None):
        return http1(method, path, *(("Content-Type: application/json",) if body is not None else ()), body=body)

    def probe(self):
        self.send(http1("GET", "/livez", "x-request-id: probe"))

    def parse(self):
        while b"\r\n\r\n" in self.bytes:
            top, rest = self.bytes.split(b"\r\n\r\n", 1)
            lines = top.decode("latin-1").split("\r\n")
            headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}
            body = b""
            if headers.get("transfer-encoding") == "chunked":
                while True:
                    size, found, rest = rest.partition(b"\r\n")
                    n = int(size, 16) if found else 0
                    if not found or len(rest) < n + 2:
                        return
                    body, rest = body + rest[:n], rest[n + 2:]
                    if n == 0:
                        break
            else:
                n = int(headers.get("content-length", 0))
                if len(rest) < n:
                    return
                body, rest = rest[:n], rest[n:]
            self.bytes = rest
            if headers.get("x-request-id") == "probe":
                self.probed = True
            else:
                self.replies.append((int(lines[0].split()[1]), headers, body))

    def settled(self, n):
        return len(self.replies) >= n

    def any_settled(self):
        return self.settled(1)

    def status(self, n):
        return self.replies[n - 1][0] if self.settled(n) else None

    def body(self, n):
        return self.replies[n - 1][2]

    def outcome(self):
        return " ".join([str(reply[0]) for reply in self.replies] + ["closed"] * self.closed)


class Http2(Wire):
    def __init__(self, connection):
        super().__init__(connection)
        self.decoder = hpack.Decoder()
        self.streams = {}
        self.goaway = None
        self.probed = False
        self.obliging = True  # settings are acknowledged, windows opened for what comes

    def begin(self):
        self.send(PREFACE + frame(SETTINGS, 0, 0))

    def request(self, stream, method, path, body=None):
        return ask(stream, method, path, *((("content-type", "application/json"),) if body is not None else ()), body=body)

    def probe(self):
        self.send(ask(PROBE, "GET", "/livez"))

    def stream(self, number):
        return self.streams.setdefault(number, {"headers": {}, "body": b"", "ended": False, "reset": None})

    def parse(self):
        came = 0
        while len(self.bytes) >= 9 and len(self.bytes) >= 9 + int.from_bytes(self.bytes[:3], "big"):
            n = 9 + int.from_bytes(self.bytes[:3], "big")
            kind, flags, stream = self.bytes[3], self.bytes[4], int.from_bytes(self.bytes[5:9], "big")
            payload, self.bytes = self.bytes[9:n], self.bytes[n:]
            if kind == GOAWAY:
                self.goaway = int.from_bytes(payload[4:8], "big")
            elif kind == RESET:
                self.stream(stream)["reset"] = int.from_bytes(payload, "big")
            elif kind == HEADERS:
                assert flags & END_HEADERS
                self.stream(stream)["headers"].update(self.decoder.decode(payload))
            elif kind == DATA:
                self.stream(stream)["body"] += payload
                came += len(payload)
                if self.obliging and payload and not flags & END_STREAM:
                    self.send(frame(WINDOW, 0, stream, len(payload).to_bytes(4, "big")))
            elif kind == SETTINGS and not flags & ACK and self.obliging:
                self.send(frame(SETTINGS, ACK, 0))
            if kind in (HEADERS, DATA) and flags & END_STREAM:
                self.stream(stream)["ended"] = True
        if came and self.obliging:
            self.send(frame(WINDOW, 0, 0, came.to_bytes(4, "big")))
        self.probed = PROBE in self.streams and self.settled(PROBE)

    def settled(self, number):
        return number in self.streams and (self.stream(number)["ended"] or self.stream(number)["reset"] is not None)

    def any_settled(self):
        return any(self.settled(number) for number in self.streams if number != PROBE)

    def status(self, number):
        return int(self.stream(number)["headers"].get(":status", 0))

    def body(self, number):
        return self.stream(number)["body"]

    def outcome(self):
        """What became of each stream in the order of their numbers, then of the connection. Behind a GOAWAY that names an error
        streams are left out: what still came of them depends on when the bytes did."""
        if self.goaway:
            return " ".join([f"goaway {self.goaway}"] + ["closed"] * self.closed)
        words = []
        for name, stream in sorted(self.streams.items()):
            if name == PROBE:
                continue
            if "grpc-status" in stream["headers"]:
                words.append(f"grpc {stream['headers']['grpc-status']}")
            elif stream["headers"]:
                words.append(stream["headers"][":status"])
            if stream["reset"]:
                words.append(f"reset {stream['reset']}")
        return " ".join(words + ["closed"] * self.closed)
