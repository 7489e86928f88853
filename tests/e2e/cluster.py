"""What the end-to-end tests share: a cluster started with `tandem up`, requests, the tally.

A test script makes a Tally, calls tally.run(name, function) for each fact, and ends with sys.exit(tally.end()).
"""
import contextlib
import http.client
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import sanitizers

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / sanitizers.BUILD
BIN = BUILD / "bin"
TOOLS = BUILD / "tests"
sanitizers.watch()
# How long a test waits for what must come: the limit ends what hangs, and says nothing about how long something may take.
LIMIT_S = 60
# A machine that pauses makes no worker look hung, for hand-offs and replays are counted; a test of hanging takes the usual second.
os.environ.setdefault("TANDEM_HANG_TIMEOUT", "60s")


class Skip(Exception):
    """Raised by a test that cannot run here, with the reason."""


class Tally:
    """Threads may run tests at the same time."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.lock = threading.Lock()

    def run(self, name, function, *args, **kwargs):
        began = time.monotonic()
        try:
            note = function(*args, **kwargs)
            with self.lock:
                self.passed += 1
                print(f"ok      {name} ({time.monotonic() - began:.1f} s){': ' + str(note) if note else ''}", flush=True)
        except Skip as reason:
            with self.lock:
                self.skipped += 1
                print(f"SKIPPED {name}: {reason}", flush=True)
        except Exception:
            with self.lock:
                self.failed += 1
                print(f"FAILED  {name}\n{traceback.format_exc()}", end="", flush=True)

    def skip(self, name, reason):
        self.skipped += 1
        print(f"SKIPPED {name}: {reason}", flush=True)

    def end(self) -> int:
        for report in sanitizers.reports():
            self.failed += 1
            print(f"FAILED  a sanitizer reports: {report[:6000]}", flush=True)
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        return 1 if self.failed else 0


def real_model() -> str:
    sys.path.insert(0, str(ROOT))
    from tests.models.files import model_file
    path = model_file()
    if path is None:
        raise Skip("the small real model is not in the cache (tools/fetch-model smollm2)")
    return str(path)


def eventually(predicate, what, seconds=LIMIT_S):
    """Waits until predicate() is true, and answers it. It is asked once more after the limit: who stood still meanwhile is not
    who waits for what never comes."""
    end = time.monotonic() + seconds
    while True:
        late = time.monotonic() > end
        value = predicate()
        if value:
            return value
        if late:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


class Cluster:
    """`tandem up` as a context manager; .url, .port; standard error in .log_text()."""

    def __init__(self, *args, model="hash", env=None, own_group=False, stdin=None):
        self.args = [str(BIN / "tandem"), "up", "--model", model, "--listen", "127.0.0.1:0", *map(str, args)]
        self.env = dict(os.environ, **(env or {}))
        self.stdin = stdin
        self.own_group = own_group  # as a terminal's foreground job: Ctrl-C reaches all of it
        self.log = bytearray()
        self.taking = threading.Lock()  # of the log

    def __enter__(self):
        self.process = subprocess.Popen(self.args, stdin=self.stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=self.env, process_group=0 if self.own_group else None)
        self.pipe = self.process.stderr.fileno()
        self.reader = threading.Thread(target=self._read_log, daemon=True)
        self.reader.start()
        line = self.process.stdout.readline()
        if not line.startswith("ready http"):
            self.process.kill()
            self.process.wait()
            self.reader.join(5)
            raise AssertionError(f"no ready line but {line!r}; log:\n{self.log_text()[-3000:]}")
        self.url = line.split()[1]
        self.port = int(self.url.rsplit(":", 1)[1])
        return self

    def _read_log(self):
        while select.select([self.pipe], [], [])[0] and self._take_log():
            pass

    def _take_log(self):
        """What lies in the pipe. False: nothing more will."""
        with self.taking:
            while select.select([self.pipe], [], [], 0)[0]:
                data = os.read(self.pipe, 1 << 16)
                if not data:
                    return False
                self.log += data
        return True

    def log_text(self):
        """All that was written until now. A daemon's log has a thread of its own: a line may come after what it tells of."""
        self._take_log()
        return self.log.decode(errors="replace")

    def logged(self, pattern):
        """Waits for a line; its match."""
        return eventually(lambda: re.search(pattern, self.log_text(), re.M), f"{pattern} in the log")

    def __exit__(self, kind, value, trace):
        if kind is not None:
            self.show()
        self.stop()

    def show(self):
        print("\n".join(self.log_text().splitlines()[-40:]), flush=True)

    def shown(self, function, *args):
        """function(self, *args), one of several tests of a cluster: where it fails the log's end is printed."""
        try:
            return function(self, *args)
        except Skip:
            raise
        except Exception:
            self.show()
            raise

    def stop(self, timeout=60):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError("tandem up did not stop")
        return self.process.returncode

    def status(self):
        return get_json(self.port, "/admin/status")

    def router_pid(self):
        return int(self.logged(r'router ready"? .*pid=(\d+)').group(1))

    def workers(self, role=None):
        return [w for w in self.status()["workers"] if role in (None, w["role"])]

    def kill_workers_beside(self, threads, stop, kills):
        """Starts the threads, kills each second the worker that most requests are assigned to, once all are ready and two requests are
        at one, then tells the threads to stop: few kills, and all meet something."""
        n_workers = len(self.workers())
        for thread in threads:
            thread.start()
        try:
            for _ in range(kills):
                time.sleep(1)
                ready = eventually(lambda: len(now := [w for w in self.workers() if w["state"] == "ready"]) >= n_workers and
                                   max(w["assigned"] for w in now) >= 2 and now, "all workers ready, and two requests at one")
                os.kill(max(ready, key=lambda w: w["assigned"])["pid"], signal.SIGKILL)
        finally:
            stop.set()
            for thread in threads:
                thread.join(120)

    @contextlib.contextmanager
    def answering(self, path="/v1/completions", port=None, **body):
        """While an answer of 60,000 tokens runs, whose client then leaves. The cluster needs --step-us, or it may end before."""
        events = stream_events(port or self.port, path, {"prompt": "x", "max_tokens": 60000, "ignore_eos": True, **body})
        next(events)
        try:
            yield events
        finally:
            events.close()

    def quiet(self):
        """Waits until every ledger is back to zero; answers the status."""
        def at_rest():
            state = self.status()
            for worker in state["workers"]:
                blocks = worker["blocks"]
                total = sum(blocks[k] for k in ("free", "used", "reserved", "quarantined", "cached"))
                if total != blocks["total"]:
                    raise AssertionError(f"ledger does not add up: {worker}")
                if blocks["used"] or blocks["reserved"] or blocks["quarantined"]:
                    return None
                if worker["sequences"]["running"] or worker["sequences"]["waiting"]:
                    return None
            for router in state["routers"]:
                if router["requests"]["queued"] or router["requests"]["running"]:
                    return None
            return state
        return eventually(at_rest, "all ledgers back to zero")


@contextlib.contextmanager
def stopped(pid):
    """While a process stands still, what is to come meanwhile is waited for."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def request(port, method, path, body=None, headers=None, timeout=120):
    """(status, headers, bytes). body: bytes, str, or an object sent as JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    if body is not None and not isinstance(body, (bytes, str)):
        body = json.dumps(body)
    connection.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
    with contextlib.closing(connection):
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


def get_json(port, path):
    status, _, body = request(port, "GET", path)
    assert status == 200, (status, body[:300])
    return json.loads(body)


def post_json(port, path, body, want=200, timeout=120):
    status, _, answer = request(port, "POST", path, body, timeout=timeout)
    assert status == want, (status, answer[:500])
    return json.loads(answer)


def stream_events(port, path, body, timeout=120):
    """Yields the `data:` payloads of a streamed answer as text, [DONE] included."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    connection.request("POST", path, json.dumps(dict(body, stream=True)), {"Content-Type": "application/json"})
    with contextlib.closing(connection):
        answer = connection.getresponse()
        if answer.status != 200:
            raise AssertionError((answer.status, answer.read()[:500]))
        for line in answer:
            if line.startswith(b"data: "):
                yield line[6:].rstrip(b"\n").decode()


def mix(x):
    """One step of splitmix64, as the hash oracle uses it."""
    mask = (1 << 64) - 1
    x = (x + 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)


def hash_answer(prompt, n):
    """What the hash oracle answers to these ids: n tokens."""
    entry = fold = 0
    answer = []
    tokens = list(prompt)
    for position in range(len(prompt) + n):
        if position >= len(prompt):
            answer.append(256 + fold % 65280)
            tokens.append(answer[-1])
        entry = mix(entry ^ (tokens[position] + 1))
        fold = mix(fold ^ entry)
    return answer


def big_config(folder, n_layers):
    """A config for dummy weights, 20 layers of about 1.3 billion: a few seconds of packing."""
    path = folder / "big"
    path.mkdir()
    (path / "config.json").write_text(json.dumps({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "intermediate_size": 8192,
        "num_hidden_layers": n_layers, "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 4096,
        "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "torch_dtype": "float16",
        "hidden_act": "silu", "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2}))
    return path
