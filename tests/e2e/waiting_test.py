#!/usr/bin/env python3
"""Nothing waits in silence: other keys, no keys, nobody listening, too few files, a model that is being loaded.

Each says within seconds what is waited for and why it may not come, and goes on once the cause is gone.
"""
import contextlib
import json
import math
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from cluster import BIN, ROOT, Skip, Tally, big_config, eventually, get_json, request
from daemons import free_ports, handshakes_failed

sys.path.insert(0, str(ROOT))
# Loading lasts as long as the test wants: the dev build's backend `far` takes a second for each of 141 matrices.
DEV = ROOT / "build/dev/bin"
SLOW = dict(os.environ, TANDEM_FAR_PACK_MS="1000")


class Daemon:
    """One program; what it says is in .text()."""

    def __init__(self, folder, name, *args, limit=None, env=None):
        self.log = folder / f"{name}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([str(a) for a in args], stdout=log, stderr=log, env=env,
                                            preexec_fn=limit and (lambda: resource.setrlimit(*limit)))

    def text(self):
        return self.log.read_text(errors="replace")

    def says(self, words):
        return eventually(lambda: words in self.text(), f"{words!r} in {self.log.name}:\n{self.text()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def router(folder, http, announce, *args, name="router"):
    return Daemon(folder, name, BIN / "tandem-router", "--model", "hash", "--listen", f"127.0.0.1:{http}", "--announce",
                  announce, *args)


def worker(folder, announce, *args, name="w0", model="hash", endpoint="tcp://127.0.0.1:0", programs=BIN, **kwargs):
    return Daemon(folder, name, programs / "tandem-worker", "--model", model, "--name", name, "--routers", announce,
                  "--endpoint", endpoint, *args, **kwargs)


def states(http):
    try:
        return {w["name"]: w["state"] for w in get_json(http, "/admin/status")["workers"]}
    except OSError:
        return {}


def answers(http):
    try:
        return request(http, "GET", "/livez")[0] == 200
    except OSError:
        return False


def keys_differ(folder):
    """Other keys, keys at the worker alone, keys at the router alone: all three at once, with three routers."""
    for name in ("a", "b"):
        subprocess.run([BIN / "tandem", "keys", folder / name], check=True, capture_output=True)
    ports = free_ports(6)
    cases = [("other", ["--keys", folder / "a"], ["--keys", folder / "b"]), ("worker", [], ["--keys", folder / "a"]),
             ("router", ["--keys", folder / "a"], [])]
    running = []
    try:
        for i, (name, router_keys, worker_keys) in enumerate(cases):
            announce = f"tcp://127.0.0.1:{ports[2 * i]}"
            at = router(folder, ports[2 * i + 1], announce, *router_keys, name=f"router-{name}")
            running.append((at, worker(folder, announce, *worker_keys, name=f"w-{name}"), ports[2 * i + 1], name))
        for at, there, http, name in running:
            there.says('msg="still waiting for a router"')
            assert "its --keys are others, or only one of us has keys" in there.text(), there.text()
            at.says('msg="handshakes fail"')
            assert handshakes_failed(http) > 0, name
            assert there.text().count("still waiting") == 1 and at.text().count("handshakes fail") == 1
            assert not states(http)
    finally:
        for at, there, *_ in running:
            there.__exit__()
            at.__exit__()


def nobody_listens(folder):
    http = free_ports(1)[0]
    announce = f"ipc://{folder}/announce"
    with worker(folder, announce, endpoint=f"ipc://{folder}/w0") as w0:
        w0.says('msg="still waiting for a router"')
        assert "no process listens there" in w0.text() and f"router={announce}" in w0.text(), w0.text()
        with router(folder, http, announce):
            eventually(lambda: states(http) == {"w0": "ready"}, "the worker met")
            w0.says('msg="router reached"')
        assert w0.text().count("still waiting") == 1, w0.text()


def few_files():
    """Either it serves, or it ends with 78 and says so: at every limit."""
    outcomes = {}
    for n in (12, 20, 26, 32, 38, 44, 46, 48, 52, 64):
        process = subprocess.Popen([BIN / "tandem", "up", "--model", "hash", "--listen", "127.0.0.1:0"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))
        line = process.stdout.readline()
        if line.startswith("ready "):
            port = int(line.rsplit(":", 1)[1])
            assert request(port, "POST", "/v1/completions", {"prompt": [1], "max_tokens": 2})[0] == 200
            process.terminate()
        _, text = process.communicate(timeout=60)
        outcomes[n] = process.returncode
        last = text.splitlines()[-1]
        assert process.returncode in (0, 78), (n, process.returncode, text)
        if process.returncode:
            assert f"error: ulimit -n: {n} open files are too few, at least " in last, (n, text)
    assert outcomes[32] == 78 and outcomes[64] == 0, outcomes
    low = (resource.RLIMIT_NOFILE, (24, 4096))  # the soft limit alone: raised
    process = subprocess.Popen([BIN / "tandem", "up", "--model", "hash", "--listen", "127.0.0.1:0"], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               preexec_fn=lambda: resource.setrlimit(*low))
    assert process.stdout.readline().startswith("ready ")
    process.terminate()
    assert process.wait(60) == 0
    return outcomes


def slow_model(folder):
    """A config with sizes for a backend of little memory."""
    if not (DEV / "tandem-worker").exists():
        raise Skip("loading that lasts needs the dev build")
    path = folder / "slow"
    if not path.exists():
        config = json.loads((big_config(folder, 20) / "config.json").read_text())
        config |= {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 4}
        path.mkdir()
        (path / "config.json").write_text(json.dumps(config))
    return path


@contextlib.contextmanager
def slow_up(model, *args):
    """`tandem up` whose workers load for minutes; killed when it says nothing that ends the test."""
    command = [DEV / "tandem", "up", "--model", model, "--backend", "far", "--listen", "127.0.0.1:0", "--kv-blocks", "128", *args]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=SLOW)
    limit = threading.Timer(120, process.kill)
    limit.start()
    try:
        yield process
    finally:
        limit.cancel()
        process.kill()
        process.communicate()


def loading_is_seen(folder):
    """A worker shows as `loading` while it loads, takes no request, and stops if asked, before it is ready."""
    model, http = slow_model(folder), free_ports(1)[0]
    announce = f"ipc://{folder}/announce-load"
    with router(folder, http, announce, name="router-load"):
        eventually(lambda: answers(http), "the router")
        w0 = worker(folder, announce, "--load-format", "dummy", "--backend", "far", "--role", "decode", "--kv-blocks", "128",
                    name="big", model=model, endpoint=f"ipc://{folder}/big-socket", programs=DEV, env=SLOW)
        with w0:
            def loading():
                assert w0.process.poll() is None, w0.text()
                return [w for w in get_json(http, "/admin/status")["workers"] if w["state"] == "loading"]
            first = eventually(loading, "a worker that loads")[0]
            assert first["name"] == "big" and first["role"] == "decode" and 0 <= first["percent"] <= 100, first
            assert request(http, "GET", "/readyz")[0] == 503

            def table():
                command = [BIN / "tandem", "status", "--server", f"http://127.0.0.1:{http}"]
                return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
            eventually(lambda: re.search("load .*%", table()), "the table shows it")
            w0.says('msg="loading the model" name=big percent=')
            eventually(lambda: any(w["percent"] > first["percent"] for w in loading()), "it gets on")
            w0.process.send_signal(signal.SIGTERM)
            assert w0.process.wait(60) == 0
            assert 'msg="worker ready"' not in w0.text(), w0.text()
            eventually(lambda: "big" not in states(http), "it is forgotten")


def zeros_file(path, config):
    """Weights of zeros as a sparse safetensors file beside the config: a gigabyte that takes no room."""
    dim, ffn, layers, vocab = (config[k] for k in ("hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size"))
    shapes = {"model.embed_tokens.weight": [vocab, dim], "lm_head.weight": [vocab, dim], "model.norm.weight": [dim]}
    for i in range(layers):
        at = f"model.layers.{i}."
        shapes |= {f"{at}self_attn.{n}_proj.weight": [dim, dim] for n in "qkvo"}
        shapes |= {f"{at}mlp.{n}_proj.weight": [ffn, dim] for n in ("gate", "up")}
        shapes |= {f"{at}mlp.down_proj.weight": [dim, ffn], f"{at}input_layernorm.weight": [dim],
                   f"{at}post_attention_layernorm.weight": [dim]}
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        out.truncate(8 + len(text) + end)


def cut_short(folder):
    """A model file that loses its end while it is read ends the worker, and all of `tandem up`, with one line."""
    model = slow_model(folder)
    weights = model / "model.safetensors"
    zeros_file(weights, json.loads((model / "config.json").read_text()))
    tokens = {chr(0x100 + i): i for i in range(256)}
    (model / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": tokens, "merges": []}}))
    lines = []
    with slow_up(model, "--mixed", "1") as process:
        for line in process.stderr:
            lines.append(line)
            if 'msg="loading the model"' in line:
                os.truncate(weights, 4096)
        assert process.wait(60) == 74, (process.returncode, lines)
    weights.unlink()
    errors = [line for line in lines if "error: " in line]
    assert errors == [lines[-1]], lines
    assert lines[-1] == f"error: {model}: a file was cut short or cannot be read while it is in use\n", lines[-1]


def context_of_one():
    done = subprocess.run([BIN / "tandem", "up", "--model", "hash", "--listen", "127.0.0.1:0", "--context", "1"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 78, done
    assert done.stderr.splitlines()[-1].startswith("error: --context: 1 token is too few: it must be at least 2"), done


def up_says_what_it_waits_for(folder):
    """Who is not ready after five seconds is named."""
    model = slow_model(folder)
    (model / "tokenizer.json").unlink(missing_ok=True)
    with slow_up(model, "--load-format", "dummy", "--prefill", "1") as process:
        said = next((line for line in process.stderr if "still waiting after" in line), "")
        assert "not ready yet: prefill0" in said, said
        process.terminate()
        process.communicate(timeout=60)
        assert process.returncode == 0, process.returncode


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="tandem-wait-") as name:
        folder = Path(name)
        tally.run("other keys, or keys on one side, are said on both sides", keys_differ, folder)
        tally.run("a router that nobody answers for is said, and found later", nobody_listens, folder)
        tally.run("too few files: 78 with numbers, or it works", few_files)
        tally.run("--context 1 names the option and its bound", context_of_one)
        tally.run("a worker that loads is seen", loading_is_seen, folder)
        tally.run("a model file cut short while it is read is one line", cut_short, folder)
        tally.run("tandem up says whom it waits for", up_says_what_it_waits_for, folder)
    sys.exit(tally.end())


main()
