#!/usr/bin/env python3
"""tandem-bench load prints one table against our server and against any other OpenAI-style server."""
import json
import re
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cluster import BIN, Cluster, Tally

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
    finally:
        server.shutdown()
    return {k: v[1] for k, v in rows.items()}


def ours():
    with Cluster("--mixed", 1, "--step-us", 2000) as cluster:
        for profile in ((), ("--concurrency", 4), ("--rate", 20), ("--profile", "synchronous")):
            rows, n, _ = load(cluster.url, "--requests", 8, "--max-tokens", 20, "--prompt-tokens", 200, *profile)
            assert n == 8 and set(rows) == {"TTFT", "ITL", "request latency", "sent late"}, rows
            assert rows["ITL"][1] >= 1.9, rows


def nobody_there():
    done = subprocess.run([BIN / "tandem-bench", "load", "--target", "http://127.0.0.1:1"], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith("error: "), (done.returncode, done.stderr)


tally = Tally()
tally.run("a server of known timing", known_timing)
tally.run("our server, every profile", ours)
tally.run("no server is one clear error", nobody_there)
sys.exit(tally.end())
