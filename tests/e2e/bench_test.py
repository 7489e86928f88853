#!/usr/bin/env python3
"""tandem-bench against our server, a server of known timing, and hostile ones."""
import contextlib
import gzip
import json
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from browser import Browser
from cluster import BIN, Cluster, Skip, Tally, eventually
from secure import Certificates, Secure
from terminal import Terminal

TTFT_S, ITL_S = 0.05, 0.01


class Other(BaseHTTPRequestHandler):
    """A plain streaming server of known timing: 50 ms to the first token, 10 ms between tokens."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def _json(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self._json({"object": "list", "data": [{"id": "other", "object": "model"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/chat/completions":
            self.send_error(404)
            return
        words = len(body["messages"][0]["content"].split()) + 4
        n = body["max_tokens"]
        usage = {"prompt_tokens": words, "completion_tokens": n, "total_tokens": words + n}
        if not body.get("stream"):
            self._json({"choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}}], "usage": usage})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        due = time.monotonic() + TTFT_S
        for i in range(n):
            time.sleep(max(0, due - time.monotonic()))
            due += ITL_S
            self._event({"choices": [{"index": 0, "delta": {"content": f"w{i} "}, "finish_reason": None}]})
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
        self._event({"choices": [], "usage": usage})
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _event(self, body):
        self._chunk(b"data: " + json.dumps(body).encode() + b"\n\n")

    def _chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


def load(url, *args):
    done = subprocess.run([BIN / "tandem-bench", "load", "--target", url, *map(str, args)], capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    rows = {m[1].strip(): [float(x) for x in m[2].split("|") if x.strip()]
            for m in re.finditer(r"^\| ([A-Za-z ]+?) *\|((?:\s*[0-9.]+ \|)+)", done.stdout, re.M)}
    summary = re.search(r"(\d+) completed, (\d+) failed", done.stdout)
    assert summary and int(summary[2]) == 0, done.stdout
    return rows, int(summary[1]), done.stdout


def known_timing():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        rows, n, out = load(url, "--requests", 6, "--max-tokens", 20, "--prompt-tokens", 30)
        assert n == 6 and "30.0 prompt and 20.0 output" in out, out
        # Sleeping never takes less than it was told: the figures cannot honestly be smaller.
        assert rows["TTFT"][1] >= TTFT_S * 1000, rows
        assert rows["ITL"][1] >= ITL_S * 1000 * 0.95, rows
        assert rows["request latency"][1] >= (TTFT_S + 19 * ITL_S) * 1000, rows
        load(url, "--requests", 8, "--concurrency", 4, "--max-tokens", 5)
        load(url, "--requests", 8, "--rate", 20, "--max-tokens", 5)
        load(url, "--duration", 1, "--rate", 20, "--profile", "poisson", "--max-tokens", 5)
        load(url, "--requests", 8, "--profile", "throughput", "--max-tokens", 5)
    finally:
        server.shutdown()
    return {k: v[1] for k, v in rows.items()}


def ours():
    with Cluster("--mixed", 1, "--step-us", 2000) as cluster:
        for profile in ((), ("--concurrency", 4), ("--rate", 20), ("--profile", "synchronous")):
            rows, n, _ = load(cluster.url, "--requests", 8, "--max-tokens", 20, "--prompt-tokens", 200, *profile)
            assert n == 8 and {"TTFT", "ITL", "request latency"} <= set(rows), rows
            assert rows["ITL"][1] >= 1.9, rows
        with tempfile.TemporaryDirectory() as folder:
            exact_lengths(cluster.url, Path(folder))


def exact_lengths(url, folder):
    """A byte is a token here, so a word is many: every prompt has the tokens asked for all the same."""
    texts, records, trace = folder / "text", folder / "records", folder / "trace"
    texts.write_text("It is a truth universally acknowledged, that a single man in possession of a good fortune " * 9)
    for way, *args in (("/tokenize",), ("tokenizer", "--tokenizer", "hash"), ("/tokenize", "--texts", texts),
                       ("tokenizer", "--texts", texts, "--tokenizer", "hash", "--completions")):
        whole = json.loads(bench("load", "--target", url, "--requests", 3, "--max-tokens", 2, "--prompt-tokens", 301,
                                 "--records", records, "--json", *args).stdout)
        assert whole["environment"]["counted_by"] == way, whole["environment"]
        assert re.fullmatch(r"\d+\.\d+\.\d+", whole["environment"]["server_version"]), whole["environment"]
        lengths = {json.loads(line)["prompt_tokens"] for line in records.read_text().splitlines()}
        assert lengths == {301} and "P" not in whole["marks"], (args, lengths, whole["marks"])
    # Two blocks of 512 tokens of the last prompt are those of the first.
    trace.write_text("".join(json.dumps({"timestamp": 10 * i, "input_length": 1300, "output_length": 2, "hash_ids": ids})
                             + "\n" for i, ids in enumerate(([1, 2, 3], [4, 5, 6], [1, 2, 7]))))
    whole = json.loads(bench("load", "--target", url, "--trace", trace, "--concurrency", 1, "--records", records,
                             "--json").stdout)
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    assert [x["prompt_tokens"] for x in lines] == [1300] * 3, lines
    assert lines[2]["cached_tokens"] >= 1000 > 100 > lines[1]["cached_tokens"], lines


def bench(*args, code=0):
    """The program's run: its output; fails unless it ends with `code`."""
    done = subprocess.run([BIN / "tandem-bench", *map(str, args)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def tables():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        with tempfile.TemporaryDirectory() as folder:
            records = Path(folder) / "records"
            whole = json.loads(bench("load", "--target", url, "--requests", 6, "--max-tokens", 20, "--json", "--records",
                                     records).stdout)
            assert whole["requests"] == {"completed": 6, "incomplete": 0, "errors": {}}, whole
            assert whole["output_tokens"] == 20 and whole["ttft_ms"]["p50"] >= TTFT_S * 1000, whole
            assert whole["environment"]["model"] == "other" and "--requests 6" in whole["environment"]["command"], whole
            lines = [json.loads(line) for line in records.read_text().splitlines()]
            assert len(lines) == 6 and all(x["outcome"] == "ok" and x["output_tokens"] == 20 for x in lines), lines
            both = Path(folder) / "grid.csv"
            out = bench("grid", "--target", url, "--input-lengths", "20,30", "--output-lengths", "4,8", "--obo-num", 2,
                        "--num-prompts", 8, f"--csv={both}", "--markdown",
                        "--json", Path(folder) / "grid.json", "--html", Path(folder) / "grid.html").stdout
            cells = re.findall(r"^\|(\d+)\|(\d+)\|([\d.]+)\|([\d.]+)\|([\d.]+)\|([\d.]+)", out, re.M)
            assert [(c[0], c[1]) for c in cells] == [("20", "4"), ("20", "8"), ("30", "4"), ("30", "8")], out
            for c in cells:  # the last column is the whole time over output tokens, the one before over all
                i, o, per_token, per_output = int(c[0]), int(c[1]), float(c[4]), float(c[5])
                assert abs(per_token / per_output - o / (i + o)) < 0.01, c
                assert per_output >= 1000 * (TTFT_S + (o - 1) * ITL_S) / o - 0.01, c
            assert len(both.read_text().splitlines()) == 5, both.read_text()
            page = (Path(folder) / "grid.html").read_text()
            assert page.count("<svg") == 9 and page.count("<table>") == 2, page
            side = bench("compare", Path(folder) / "grid.json", Path(folder) / "grid.json", "mistral-7b-awq/vllm").stdout
            assert "C: mistral-7b-awq, vllm 0.2.5" in side and side.count("(x1.00)") == 16, side
            side = bench("compare", "mistral-7b-awq/vllm", "mistral-7b-awq/tgi").stdout
            assert "| 128x128 | output token/s | 1198 |" in side, side
            bench("compare", "nobody", code=78)
            for name, tokens in (("a", 4), ("b", 8)):
                bench("load", "--target", url, "--requests", 2, "--max-tokens", tokens, f"--json={Path(folder) / name}")
            side = bench("compare", Path(folder) / "a", Path(folder) / "b").stdout
            assert re.search(r"^\| load \| latency s \| 0\.0\d+ \| 0\.1\d+ \(x1\.[3-9]", side, re.M), side
            out = bench("sweep", "--target", url, "--duration", 1, "--levels", 2, "--concurrency", 4, "--max-tokens", 5,
                        "--prompt-tokens", 20, "--slo", "ttft-p99=5s", "--html", Path(folder) / "sweep.html").stdout
            assert "| Benchmark | Requests per Second |" in out and out.count("asynchronous@") == 2, out
            assert "throughput@4" in out and "constant@" in out, out
            report_fits(Path(folder) / "sweep.html")
            out = bench("sweep", "--target", url, "--duration", 0.3, "--levels", 2, "--concurrency", 4, "--max-tokens", 40).stdout
            assert "| synchronous | 1 / 1 / 0 / 0 | 0.00 |" in out, out  # an answer takes longer than a level: the drains give the rates
            rates = [float(r) for r in re.findall(r"^\| constant@([\d.]+) \| ", out, re.M)]
            assert len(rates) == 2 and 2 < rates[0] < rates[1] < 12, out
            words = bench("sweep", "--target", url, "--duration", 0.2, "--drain", 0, "--levels", 2, "--concurrency", 4, "--max-tokens", 40,
                          code=1).stderr
            assert "no rate to go on; give --duration or --drain more seconds" in words, words
            bench("load", "--target", url, "--requests", 2, "--max-tokens", 5, "--slo", "ttft-p99=10ms", code=2)
    finally:
        server.shutdown()


def report_fits(path):
    """At 1,200 px no table is cut, even with figures of many digits; on a phone only tables scroll, whose rows stay one line each."""
    text = path.read_text()
    (row,) = re.findall(r"<tr><td> ?throughput@4.*?</tr>", text)[1:]
    wide = "".join(f"<td>{cell}" for cell in ("constant@123.45", "9999 / 9999 / 99 / 99", "123.45", "12345.6", "23456.7",
                   "1587.4 / 4385.4 / 4749.2 (1587.4)", "134.07 / 159.53", "122.73", "15.744 / 16.322", "199.9", "25.0 %", "158.8", "123.45", "SFOCLK"))
    assert row.count("<td>") == wide.count("<td>"), row
    path.write_text(text.replace(row, f"<tr>{wide}</tr>"))
    cut = "[...document.querySelectorAll('.wide')].filter((e) => e.scrollWidth > e.clientWidth).length"
    with contextlib.suppress(Skip), Browser() as browser:
        page = browser.open(path.as_uri(), width=1200, height=900)
        assert page.eval(cut) == 0
        page.look(width=390, height=844, mobile=True)
        assert page.eval("document.documentElement.scrollWidth") == 390
        assert page.eval("[...document.querySelectorAll('tr')].every((e) => e.getBoundingClientRect().height < 30)")


class Native(BaseHTTPRequestHandler):
    """The /generate of vLLM's demo server and of TGI, by the body's members; nothing else is there."""
    asked = []

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.send_error(404)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/generate":
            self.send_error(404)
            return
        self.asked.append(body)
        answer = ({"text": [body["prompt"] + " x"]} if "prompt" in body else
                  {"generated_text": "x", "details": {"finish_reason": "length", "generated_tokens": 3}})
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def native():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Native)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        for kind, n_tokens in (("vllm", 4), ("tgi", 3)):
            Native.asked.clear()
            out = bench("grid", "--target", url, "--compat", "--generate", kind, "--input-lengths", 20, "--output-lengths", 4,
                        "--obo-num", 2, "--num-prompts", 8, "--markdown").stdout
            cell = re.search(r"^\|20\|4\|([\d.]+)\|([\d.]+)\|", out, re.M)
            assert abs(float(cell[2]) / float(cell[1]) - n_tokens) < 0.02, out
            prompts = [body.get("prompt", body.get("inputs")) for body in Native.asked]
            assert len([p for p in prompts if len(p.split()) == 20]) >= 10, Native.asked
        bench("grid", "--target", url, "--generate", "vllm", code=78)
        bench("grid", "--target", "grpc://127.0.0.1:1", "--generate", "vllm", "--compat", code=78)
    finally:
        server.shutdown()


def files():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        with tempfile.TemporaryDirectory() as folder:
            texts, trace = Path(folder) / "sharegpt.json", Path(folder) / "trace.jsonl"
            texts.write_text(json.dumps([{"conversations": [{"value": "how are you today"}, {"value": "well"}]},
                                         {"conversations": [{"value": "alone"}]}]))
            trace.write_text("".join(json.dumps({"timestamp": 100 * i, "input_length": 20 + i, "output_length": 2 + i,
                                                 "hash_ids": [1]}) + "\n" for i in range(4)))
            whole = json.loads(bench("load", "--target", url, "--texts", texts, "--trace", trace, "--json").stdout)
            assert whole["requests"]["completed"] == 4 and whole["output_tokens"] == 3.5, whole
            assert whole["prompt_tokens"] == 21.5 and whole["window_s"] >= 0.3, whole
            trace.write_text('{"timestamp": 5, "input_length": 1, "output_length": 1}\n{"timestamp": 1}\n')
            said = bench("load", "--target", url, "--trace", trace, code=78).stderr
            assert f"{trace}: line 2: needs" in said, said
            trace.write_text('{"timestamp": 5, "input_length": 513, "output_length": 1, "hash_ids": [1]}\n')
            said = bench("load", "--target", url, "--trace", trace, code=78).stderr
            assert f"{trace}: line 1: hash_ids must be" in said, said
            said = bench("load", "--target", url, "--tokenizer", f"{folder}/none", code=1).stderr
            assert f"{folder}/none" in said, said
            texts.write_text("[]")
            said = bench("load", "--target", url, "--texts", texts, code=78).stderr
            assert f"{texts}: no conversation" in said, said
    finally:
        server.shutdown()


def end_listener(listener, thread):
    """Closes it once nobody accepts any more: a call that a pause interrupts begins anew, of whatever has the number then."""
    listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    listener.close()


class Hostile:
    """A server that answers /v1/models as it should, and everything else with what its script does to the socket."""

    def __init__(self, script):
        self.script = script
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopping.set()
        end_listener(self.listener, self.thread)

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                more = connection.recv(65536)
                if not more:
                    return
                head += more
                if head[0] == 0x16 or head.startswith(b"PRI "):  # a handshake of TLS, HTTP/2: the begin will do
                    self.script(connection, self.stopping)
                    return
            if head.startswith(b"GET"):
                body = json.dumps({"data": [{"id": "m"}]}).encode()
                connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                                   % (len(body), body))
                return
            if b'"stream":true' not in head:
                length = int(re.search(rb"Content-Length: (\d+)", head)[1])
                rest = head.split(b"\r\n\r\n", 1)[1]
                while len(rest) < length:
                    rest += connection.recv(65536)
                if b'"stream":true' not in rest:  # how many tokens is a prompt?
                    connection.sendall(b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
                    return
            self.script(connection, self.stopping)


OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
CHUNK = b'data: {"model":"m","choices":[{"delta":{"content":"x"},"finish_reason":null}]}\n\n'


def usage(prompt, output):
    return (b'data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}\n\ndata: [DONE]\n\n'
            % (prompt, output))


def sends(*parts):
    def script(connection, stopping):
        for part in parts:
            connection.sendall(part)
    return script


def silent(connection, stopping):
    stopping.wait(60)


def reset(connection, stopping):
    connection.sendall(OK + CHUNK)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def drip(connection, stopping):
    connection.sendall(OK)
    while not stopping.wait(0.3):
        connection.sendall(b": still here\n\n")


def endless(connection, stopping):
    connection.sendall(OK)
    while not stopping.is_set():
        connection.sendall(CHUNK * 10)


def finished(text):
    return b'data: {"model":"m","choices":[{"delta":{"content":"%s"},"finish_reason":"stop"}]}\n\n' % text


def pieces(events, size):
    """The events sent a few bytes at a time."""
    def script(connection, stopping):
        connection.sendall(OK)
        for at in range(0, len(events), size):
            connection.sendall(events[at:at + size])
    return script


STREAM = b": hi\n\n" + CHUNK * 3 + finished(b"x") + usage(5, 4)
# Streams that are right, each in its own way: 4 output tokens whatever stands between and behind them.
WHOLE = {
    "CR alone": sends(OK, STREAM.replace(b"\n", b"\r")),
    "CRLF, a byte at a time": pieces(STREAM.replace(b"\n", b"\r\n"), 1),
    "a byte order mark": sends(OK, b"\xef\xbb\xbf" + STREAM[6:]),
    "empty events between": sends(OK, b"data:\n\n" + STREAM.replace(b"\n\n", b"\n\ndata: \n\ndata\n\n")),
    "events of two lines": sends(OK, STREAM.replace(b',"choices"', b',\ndata: "choices"').replace(b"data: ", b"id: 1\nevent: x\ndata: ")),
    "no blank behind the colon": sends(OK, STREAM.replace(b"data: ", b"data:")),
    "no [DONE]": sends(OK, CHUNK * 3 + finished(b"x") + usage(5, 4).replace(b"data: [DONE]\n\n", b"")),
    "no [DONE] and no usage": sends(OK, CHUNK * 3, finished(b"x")),
}


def is_whole(script):
    with Hostile(script) as server:
        done = bench("load", "--target", server.url, "--model", "m", "--requests", 3, "--max-tokens", 4, "--json", "--quiet")
        told = json.loads(done.stdout)
        assert told["requests"] == {"completed": 3, "incomplete": 0, "errors": {}} and told["output_tokens"] == 4, told


def outputs():
    """What cannot be written shows before a server is asked; what cannot be written in the end takes nothing else with it."""
    asked = []

    class Counting(Other):
        def parse_request(self):
            asked.append(1)
            return super().parse_request()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Counting)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    target = ("--target", f"http://127.0.0.1:{server.server_port}")
    try:
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            for option in ("json", "csv", "markdown", "html", "records"):
                for bad in (f"{folder}/none/x", folder):
                    done = bench("load", *target, "--requests", 1, f"--json={folder}/good", f"--{option}={bad}", code=78)
                    assert done.stderr.startswith(f"error: --{option}: {bad}: ") and done.stdout == "", done
            (folder / "text").write_text('[{"conversations": [')
            done = bench("load", *target, "--texts", folder / "text", f"--csv={folder}/good", code=78)
            assert f"{folder}/text: line 1, column 20: " in done.stderr, done.stderr
            assert bench("rows", "--table", "mistral-7b-awq", f"--json={folder}/none/x", code=78).stdout == ""
            assert not asked and [p.name for p in folder.iterdir()] == ["text"], (asked, list(folder.iterdir()))
            short = (*target, "--requests", 2, "--max-tokens", 3, "--quiet")
            for bad in ("json", "csv", "markdown", "html", "records"):
                others = [f"--{o}={folder / o}" for o in ("json", "csv", "html", "records") if o != bad]
                done = bench("load", *short, f"--{bad}=/dev/full", *others, code=1)
                assert done.stderr == f"error: --{bad}: /dev/full: No space left on device\n", done.stderr
                assert "2 completed, 0 failed" in done.stdout, done.stdout
                assert all((folder / o.split("=")[0][2:]).stat().st_size > 50 for o in others), others
                for file in others:
                    Path(file.split("=")[1]).unlink()
            done = bench("load", *short, "--json=/dev/full", "--slo", "ttft-p99=0.001ms", code=1)  # not 2, as of a bound that is missed
            assert done.stderr == "error: --json: /dev/full: No space left on device\n", done.stderr
            grid = ("grid", "--input-lengths", "5", "--output-lengths", "2,3", "--obo-num", 1, "--num-prompts", 2)
            done = bench(*grid, *short[:2], "--quiet", "--records=/dev/full", f"--csv={folder}/csv", code=1)
            assert done.stderr.count("error: ") == 1 and len((folder / "csv").read_text().splitlines()) == 3, done.stderr
            assert "|5|3|" in done.stdout, done.stdout
            (folder / "csv").write_text("kept")
            bench("load", "--target", "http://127.0.0.1:1", "--requests", 1, f"--csv={folder}/csv", f"--html={folder}/html", code=1)
            assert (folder / "csv").read_text() == "kept" and not (folder / "html").exists()
    finally:
        server.shutdown()


HOSTILE = {
    "silent accept": ("silent", silent),
    "half a stream": ("cut_stream", sends(OK, CHUNK * 2)),
    "a usage without an end": ("cut_stream", sends(OK, CHUNK * 2, usage(5, 2).replace(b"data: [DONE]\n\n", b""))),
    "an event that never ends": ("malformed", sends(OK, CHUNK, b"data: " + b"x" * (9 << 20))),
    "500": ("status", sends(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")),
    "bad events": ("malformed", sends(OK, b'data: {"choices":[{\n\ndata: [DONE]\n\n')),
    "too much usage": ("wrong_usage", sends(OK, CHUNK * 4, usage(5, 400))),
    "too little usage": ("wrong_usage", sends(OK, CHUNK * 4, usage(5, 1))),
    "reset": ("cut_stream", reset),
    "slow drip": ("timeout", drip),
    "endless stream": ("endless", endless),
    "redirect": ("status", sends(b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n")),
    "wrong model": ("wrong_model", sends(OK, CHUNK.replace(b'"m"', b'"other"') * 4, usage(5, 4))),
    "not HTTP": ("malformed", sends(b"SSH-2.0-x\r\n\r\n")),
    "gzip": ("malformed", sends(OK, gzip.compress(CHUNK * 4 + usage(5, 4)))),
    "an error as event": ("error_event", sends(OK, b'data: {"error":{"message":"no"}}\n\ndata: [DONE]\n\n')),
    "nothing": ("empty", sends(OK)),
    "no TLS": ("tls", sends(b"HTTP/1.1 400 Bad Request\r\n\r\n")),
}


def a_closed_terminal():
    """What was measured by then is in the files; under nohup it runs to its end."""
    ends = []

    class Telling(Other):
        def _event(self, body):
            super()._event(body)
            if "length" in str(body):
                ends.append(body)

        def _chunk(self, data):
            with contextlib.suppress(OSError):  # the client has left
                super()._chunk(data)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Telling)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            for nohup, n in ((False, 100000), (True, 8)):
                ends.clear()
                file = Path(folder) / "report"
                with Terminal("tandem-bench", "load", "--target", f"http://127.0.0.1:{server.server_port}", "--requests", str(n), "--max-tokens",
                              "3", f"--json={file}", nohup=nohup) as terminal:
                    eventually(lambda: len(ends) > 2, "two whole answers")
                    terminal.hang_up()
                    code = terminal.end()
                told = json.loads(file.read_text())["requests"]
                assert code in (0, 1) and told["errors"] == {} and (told["completed"] == n if nohup else 0 < told["completed"] < n), (nohup, code, told)
                file.unlink()
    finally:
        server.shutdown()


def silent_server_is_asked_no_longer_than_told():
    """It is asked for its models first. Without a limit that would take two minutes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        began = time.monotonic()
        done = bench("load", "--target", f"http://127.0.0.1:{server.getsockname()[1]}", "--requests", 3, "--timeout", 1, code=1)
        took = time.monotonic() - began
    assert "no answer within 1 s" in done.stderr and took < 60, (done.stderr, took)


def hostile(kind, script):
    with Hostile(script) as server:
        url = server.url.replace("http:", "https:") if kind == "tls" else server.url
        done = bench("load", "--target", url, "--model", "m", "--requests", 3, "--concurrency", 2, "--max-tokens", 4, "--timeout",
                     2, "--silence", 1, "--json", "--quiet", code=1)
        whole = json.loads(done.stdout)
        assert whole["requests"] == {"completed": 0, "incomplete": 0, "errors": {kind: 3}}, (whole, done.stderr)
        assert whole["window_s"] < 10 and "error: no request was completed" in done.stderr, (whole, done.stderr)


def over_tls():
    """The same rows over TLS, each certificate checked."""
    with tempfile.TemporaryDirectory() as folder:
        certificates = Certificates(folder)
        certificates.sign("only")
        certificates.install("only")
        with Secure(certificates, "--mixed", 1, "--step-us", 2000) as cluster:
            trust = ("--ca", certificates.path("ca.crt"))
            rows, n, out = load(cluster.url, "--requests", 8, "--concurrency", 4, "--max-tokens", 20, *trust)
            assert n == 8 and {"TTFT", "ITL", "request latency"} <= set(rows) and rows["ITL"][1] >= 1.9, out
            said = bench("load", "--target", cluster.url, "--requests", 1, code=1).stderr
            assert "certificate" in said, said


def same_over_grpc(http, grpc, *trust):
    """What is asked, how long it is and what comes of it are the same over both."""
    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder) / "records"
        def lengths(url, *args):
            bench("load", "--target", url, "--requests", 6, "--concurrency", 3, "--max-tokens", 7, "--prompt-tokens", 151, "--seed", 4,
                  "--records", records, "--quiet", *trust, *args)
            keys = ("prompt_tokens", "output_tokens", "cached_tokens", "finish_reason", "outcome")
            lines = [json.loads(line) for line in records.read_text().splitlines()]
            return sorted(str({key: line.get(key) for key in keys if key != "cached_tokens"}) for line in lines)
        for args in ((), ("--completions",), ("--completions", "--prompts", "ids"), ("--no-stream",)):
            got, want = lengths(grpc, *args), lengths(http, *args)
            assert got == want and len(got) == 6, (args, got, want)
    rows, n, out = load(grpc, "--requests", 8, "--concurrency", 4, "--max-tokens", 20, *trust)
    assert n == 8 and {"TTFT", "ITL", "request latency"} <= set(rows) and rows["ITL"][1] >= 1.9, out


def over_grpc():
    """Plain and over TLS; a key that is wrong is an error with the server's words."""
    with Cluster("--mixed", 1, "--step-us", 2000) as cluster:
        grpc = cluster.url.replace("http:", "grpc:")
        same_over_grpc(cluster.url, grpc)
        table = bench("grid", "--target", grpc, "--input-lengths", 90, "--output-lengths", 5, "--obo-num", 1, "--num-prompts", 4).stdout
        assert re.search(r"^\| *90 *\| *5 *\|", table, re.M), table
        done = bench("load", "--target", grpc, "--requests", 2, "--model", "nobody", code=1)
        assert "grpc-status 5" in done.stderr and "nobody" in done.stderr, done.stderr
        cluster.quiet()
    with tempfile.TemporaryDirectory() as folder:
        certificates = Certificates(folder)
        certificates.sign("only")
        certificates.install("only")
        with Secure(certificates, "--mixed", 1, "--step-us", 2000) as cluster:
            same_over_grpc(cluster.url, cluster.url.replace("https:", "grpcs:"), "--ca", certificates.path("ca.crt"))


def hostile_grpc():
    """A gRPC server of this script's own (h2): what it does to a call, and the kind that is counted."""
    try:
        import h2.config
        import h2.connection
        import h2.events
    except ImportError:
        raise Skip("the Python package h2 cannot be imported") from None
    head = [(":status", "200"), ("content-type", "application/grpc")]
    piece = b"\0\0\0\0\x05" + b"\x12\x01x\x08\0"  # GenerateResponse{text: "x", index: 0}
    def trailers(status, text="as asked"):
        return [("grpc-status", str(status)), ("grpc-message", text)]
    def answer(*steps):
        def script(connection, stream, socket_, stopping):
            for step in steps:
                step(connection, stream, socket_, stopping)
                with contextlib.suppress(OSError):
                    socket_.sendall(connection.data_to_send())
        return script
    def headers(fields, end=False):
        return lambda c, stream, s, stopping: c.send_headers(stream, fields, end_stream=end)
    def data(payload):
        return lambda c, stream, s, stopping: c.send_data(stream, payload)
    def reset_stream(c, stream, s, stopping):
        c.reset_stream(stream, 2)
    def hang_up(c, stream, s, stopping):
        s.sendall(c.data_to_send())
        s.shutdown(socket.SHUT_RDWR)
    def wait(c, stream, s, stopping):
        s.sendall(c.data_to_send())
        stopping.wait(60)
    def drip_on(c, stream, s, stopping):
        while not stopping.wait(0.3):
            c.send_data(stream, b"\0\0\0\0\0")
            s.sendall(c.data_to_send())
    cases = {
        "silent": ("silent", [wait]),
        "half a stream": ("cut_stream", [headers(head), data(piece * 2), hang_up]),
        "reset": ("cut_stream", [headers(head), data(piece), reset_stream]),
        "reset at once": ("cut_stream", [reset_stream]),
        "no grpc-status": ("cut_stream", [headers(head), data(piece), headers([("x", "y")], True)]),
        "404": ("status", [headers([(":status", "404")], True)]),
        "refused": ("status", [headers(head + trailers(8, "no room"), True)]),
        "an error later": ("error_event", [headers(head), data(piece * 2), headers(trailers(14), True)]),
        "no message": ("malformed", [headers(head), data(b"\0\0\0\0\x02\xff\xff"), headers(trailers(0), True)]),
        "compressed": ("malformed", [headers(head), data(b"\1" + piece[1:])]),
        "too long": ("malformed", [headers(head), data(b"\0\xff\xff\xff\xff")]),
        "half a message": ("malformed", [headers(head), data(piece + b"\0\0"), headers(trailers(0), True)]),
        "nothing": ("empty", [headers(head), headers(trailers(0), True)]),
        "drip": ("timeout", [headers(head), drip_on]),
        "endless": ("endless", [headers(head), data(piece * 1000)]),
    }
    for name, (kind, steps) in cases.items():
        listener, stopping = socket.create_server(("127.0.0.1", 0)), threading.Event()
        def serve(socket_, script):
            connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
            connection.initiate_connection()
            with socket_, contextlib.suppress(OSError, h2.exceptions.ProtocolError):
                socket_.sendall(connection.data_to_send())
                while chunk := socket_.recv(65536):
                    for event in connection.receive_data(chunk):
                        if isinstance(event, h2.events.StreamEnded):
                            script(connection, event.stream_id, socket_, stopping)
                    socket_.sendall(connection.data_to_send())
        def accept():
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0], answer(*steps)), daemon=True).start()
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        done = bench("load", "--target", f"grpc://127.0.0.1:{listener.getsockname()[1]}", "--model", "m", "--tokenizer", "hash", "--requests",
                     2, "--concurrency", 2, "--max-tokens", 4, "--prompt-tokens", 90, "--timeout", 2, "--silence", 1, "--json", "--quiet", code=1)
        stopping.set()
        end_listener(listener, thread)
        whole = json.loads(done.stdout)
        assert whole["requests"] == {"completed": 0, "incomplete": 0, "errors": {kind: 2}}, (name, whole["requests"], done.stderr)
    with Hostile(sends(b"SSH-2.0-x\r\n\r\n")) as server:
        for scheme, kind in (("grpc:", "malformed"), ("grpcs:", "tls")):
            done = bench("load", "--target", server.url.replace("http:", scheme), "--model", "m", "--tokenizer", "hash", "--requests", 2,
                         "--prompt-tokens", 90, "--timeout", 2, "--silence", 1, "--json", "--quiet", code=1)
            assert json.loads(done.stdout)["requests"]["errors"] == {kind: 2}, done.stdout
    return f"{len(cases) + 2} servers"


def nobody_there():
    done = subprocess.run([BIN / "tandem-bench", "load", "--target", "http://127.0.0.1:1"], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith("error: "), (done.returncode, done.stderr)


tally = Tally()
tally.run("a server of known timing", known_timing)
tally.run("our server, every profile", ours)
tally.run("grid and sweep, JSON, CSV and records", tables)
tally.run("the servers' own /generate, as the published grids asked", native)
tally.run("prompts from ShareGPT, times from a trace", files)
for name, script in WHOLE.items():
    tally.run(f"a whole answer: {name}", is_whole, script)
tally.run("files that cannot be written", outputs)
tally.run("a terminal that is closed in the midst", a_closed_terminal)
for name, (kind, script) in HOSTILE.items():
    tally.run(f"a hostile server: {name} is {kind}", hostile, kind, script)
tally.run("a silent server is asked no longer than told", silent_server_is_asked_no_longer_than_told)
tally.run("our server over TLS", over_tls)
tally.run("our server over gRPC, plain and TLS", over_grpc)
tally.run("hostile servers of gRPC, each by its kind", hostile_grpc)
tally.run("no server is one clear error", nobody_there)
sys.exit(tally.end())
