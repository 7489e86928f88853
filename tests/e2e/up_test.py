#!/usr/bin/env python3
"""`tandem up` as somebody meets it first: a model as a word, --host and --port, a hub's cache, progress, each mistake in one line."""
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from cluster import BIN, TOOLS, Cluster, Tally, big_config, eventually, get_json, post_json, request, stream_events
from daemons import free_ports
from secure import Certificates, Secure
from terminal import Terminal


def run(*args, env=None):
    return subprocess.run([BIN / "tandem", "up", *map(str, args)], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, **(env or {})), stdin=subprocess.DEVNULL)


class Up(Cluster):
    """As Cluster, with nothing on the command line but what is given."""

    def __init__(self, *args, env=None):
        super().__init__(env=env)
        self.args = [str(BIN / "tandem"), "up", *map(str, args)]


def a_word_and_parts():
    """tandem up MODEL --host H --port P, names of other servers, and the router's options by the same command."""
    port = free_ports(1)[0]
    with Up("hash", "--host", "localhost", "--port", port, "--served-model-name", "org/name", "--ctx-size", 4096, "--mixed", 1,
            "--deadline", "20s", "--max-body", 2048, "--cors-origins", "https://a.example", "--max-connections", 50) as up:
        assert up.url == f"http://localhost:{port}", up.url
        models = get_json(port, "/v1/models")["data"]
        assert [(m["id"], m["max_model_len"]) for m in models] == [("org/name", 4096)], models
        for path in ("/v1/models/org/name", "/v1/models/org%2Fname"):
            assert get_json(port, path)["id"] == "org/name"
        assert request(port, "GET", "/v1/models/org/other")[0] == 404
        assert post_json(port, "/v1/completions", {"model": "org/name", "prompt": [1], "max_tokens": 2})["model"] == "org/name"
        assert request(port, "POST", "/v1/completions", "x" * 3000)[0] == 413
        headers = request(port, "GET", "/v1/models", headers={"Origin": "https://a.example"})[1]
        assert headers.get("Access-Control-Allow-Origin") == "https://a.example", headers


def file_and_variable(folder):
    """A file's or a variable's listen holds where no flag says otherwise, and a flag goes before them in its part alone."""
    ports = free_ports(3)
    ini = folder / "up.ini"
    ini.write_text(f"[router]\nlisten = localhost:{ports[0]}\n[cluster]\nmodel = hash\n")
    for args, env, url in ((("--config", ini), {}, f"localhost:{ports[0]}"),
                           (("--config", ini, "--port", ports[1]), {}, f"localhost:{ports[1]}"),
                           ((), {"TANDEM_LISTEN": f"127.0.0.1:{ports[2]}", "TANDEM_MODEL": "hash"}, f"127.0.0.1:{ports[2]}")):
        with Up(*args, "--mixed", 1, env=env) as up:
            assert up.url == f"http://{url}", (up.url, url)


def mistakes(folder):
    """Each is one line that names the flag, the last word before exit 78, and nothing was started before it."""
    ini = folder / "bad.ini"
    ini.write_text("[router]\ndead_line = 1\n")
    port = free_ports(1)[0]
    cases = (
        (("hash", "--listen", "8000"), '--listen: "8000" is not HOST:PORT or [IPV6]:PORT (a port alone: --port 8000)'),
        (("hash", "--port", "x"), '--port: "x" is not a number'),
        (("hash", "--host", "a:1"), '--host: "a:1" is not a name'),
        (("hash", "--host", "no-such-host.invalid"), '--host: cannot find the address "no-such-host.invalid:8000"'),
        (("hash", "--listen", "127.0.0.1:1", "--port", "2"), "--listen 127.0.0.1:1 and --port 2 contradict each other"),
        (("hash", "--port", port, "--deadline", "soon"), "--deadline: \"soon\" is not a time"),
        (("hash", "--port", port, "--backend", "abacus"), "--backend: \"abacus\" is not one of"),
        (("hash", "--port", port, "--log-level", "loud"), "--log-level: \"loud\" is not one of"),
        (("hash", "--port", port, "--config", ini), f'{ini}:2: unknown key "dead_line" in [router]'),
        (("hash", "--port", port, "--context", "1"), "--context: 1 token is too few"),
        (("hash", "--port", port, "--served-model-name", "a//b"), "--served-model: has a slash"),
        (("hash", "--port", port, "--tls-cert", "x.pem"), "--tls-key: is needed with tls-cert"),
        (("hash", "--log-format", "json"), "--log-format: must be one of: auto words logfmt"),
        (("hash", "--gpus", "none"), '--gpus: "none" is not a number from 1 to 64'),
        (("hash", "--gpus", "2", "--devices", "1"), "--gpus and --devices contradict each other"),
        (("hash", "--gpus", "2", "--decode-tp", "3"), "--gpus 2: fewer than the 3 ranks of a worker"),
        (("hash", "other"), "one model is served: hash, or other?"),
        (("hash", "--model", "other"), "one model is served"),
        ((), "a model is needed: tandem up MODEL"),
    )
    for args, words in cases:
        done = run(*args)
        lines = done.stderr.splitlines()
        assert done.returncode == 78 and done.stdout == "" and len(lines) == 1 and lines[0].startswith(f"error: {words}"), (args, done)
    done = run("hash", env={"TANDEM_LOG_LEVEL": "loud"})
    assert done.returncode == 78 and re.fullmatch(r"error: TANDEM_LOG_LEVEL: .*\n", done.stderr), done
    done = run("hash", "--port", port, "--deadline", "soon", "--backend", "abacus", "--queue", "many")
    assert len(done.stderr.splitlines()) == 3, done.stderr
    with Up("hash", "--port", port, "--mixed", 1):
        done = run("hash", "--port", port)
        assert re.fullmatch(rf"error: --port: 127.0.0.1:{port} is in use by another process .*\n", done.stderr), done
    return f"{len(cases) + 3} of them"


def missing_models(folder):
    """Both daemons fail for the same reason, which is said once, and last; so is what one of them finds later."""
    for args, words in ((["/nonexistent.gguf"], "/nonexistent.gguf: cannot open it"),
                        (["acme/none"], "acme/none: no such file or folder, nor models--acme--none in the hub's cache"),
                        (["hash", "--api-keys", "/nonexistent"], "--api-keys: /nonexistent: cannot open it: No such file"),
                        (["hash", "--keys", "/nonexistent"], "no key folder")):
        done = run(*args, "--port", 0, env={"HF_HUB_CACHE": str(folder)})
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        assert done.returncode == 78 and len(errors) == 1 and done.stderr.splitlines()[-1].startswith(f"error: {words}"), done


def hub_cache(folder):
    """A model of the hub's cache, by its id, by its folder and by its snapshot, is served as ORG/NAME; other programs read it too."""
    home = folder / "home"
    cache = home / "hub/models--acme--tiny-llama"
    (cache / "blobs").mkdir(parents=True)
    (cache / "refs").mkdir()
    snapshot = cache / "snapshots/0123abcd"
    snapshot.mkdir(parents=True)
    subprocess.run([TOOLS / "tiny_gguf_cli", "q4_0", "7", "tied", cache / "blobs/5ee0"], check=True)
    (snapshot / "tiny.Q4_0.gguf").symlink_to("../../blobs/5ee0")
    (cache / "refs/main").write_text("0123abcd")
    (cache / "snapshots/other").mkdir()
    env = {"HF_HOME": str(home), "HF_HUB_CACHE": ""}
    for model in ("acme/tiny-llama", cache, snapshot):
        with Up(model, "--port", 0, "--mixed", 1, env=env) as up:
            assert get_json(up.port, "/v1/models")["data"][0]["id"] == "acme/tiny-llama"
            answer = post_json(up.port, "/v1/completions", {"model": "acme/tiny-llama", "prompt": "x", "max_tokens": 2})
            assert answer["usage"]["completion_tokens"] >= 1, answer
    told = subprocess.run([BIN / "tandem", "model", "info", "--json", "acme/tiny-llama"], env=dict(os.environ, **env),
                          capture_output=True, text=True, check=True)
    assert json.loads(told.stdout)["name"] == "acme/tiny-llama", told.stdout
    plan = subprocess.run([BIN / "tandem-worker", "--dry-run", "--model", "acme/tiny-llama"], env=dict(os.environ, **env),
                          capture_output=True, text=True)
    assert plan.returncode == 0, plan
    (cache / "refs/main").unlink()
    done = run("acme/tiny-llama", "--port", 0, env=env)
    assert done.returncode == 78 and "(0123abcd, other)" in done.stderr.splitlines()[-1], done


def lines_of_progress(big):
    """Without a terminal each worker has a line every 10 %, and its own lines are no copies of them."""
    process = subprocess.Popen([BIN / "tandem", "up", *big], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    seen, text = set(), ""
    for line in process.stderr:
        text += line
        found = re.fullmatch(r"(mixed[01]): loading, (\d+) % of \d\.\d GB after \d+ s\n", line)
        if found:
            seen.add(found.group(1))
        if len(seen) == 2:
            break
    process.send_signal(signal.SIGTERM)
    text += process.communicate(timeout=60)[1]
    assert seen == {"mixed0", "mixed1"} and process.returncode == 0, (process.returncode, text)
    assert "\x1b" not in text and "still loading" not in text, text


def rows_of(text):
    """What a terminal shows: lines, with one up, begin of line and erase."""
    rows, at = [""], 0
    for part in re.split(r"(\x1b\[1A|\x1b\[2K|\r|\n)", text.decode(errors="replace")):
        if part == "\n":
            at += 1
            rows += [""] * (at == len(rows))
        elif part == "\x1b[1A":
            at = max(0, at - 1)
        elif part == "\x1b[2K":
            rows[at] = ""
        elif part != "\r":
            rows[at] += part
    return [row for row in rows if row]


def redrawn_line(big):
    """On a terminal one line is redrawn below the others, and goes."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([BIN / "tandem", "up", *big], stderr=theirs, stdout=subprocess.DEVNULL, env=dict(os.environ, TERM="xterm"))
    os.close(theirs)
    text, asked = b"", False
    try:
        while True:
            try:
                text += os.read(ours, 65536)
            except OSError:
                break
            drawn = re.findall(rb"\x1b\[1A\r\x1b\[2Kloading: mixed\d \d+ % of \d\.\d GB, \d+ s \| mixed\d ", text)
            if len(drawn) > 2 and not asked:
                rows = [row for row in rows_of(text) if row.startswith("loading: ")]
                assert len(rows) == 1, rows
                process.send_signal(signal.SIGTERM)
                asked = True
    finally:
        process.send_signal(signal.SIGTERM) if not asked else None
        process.wait(60)
    assert process.returncode == 0 and asked, text
    assert not [row for row in rows_of(text) if "loading: " in row] and b": loading, " not in text, text[-3000:]


def talk(*args):
    """`tandem up ARGS` on a terminal: an answer, a wrong name, a kill, Ctrl-C. What was written, and the worker's process id."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([BIN / "tandem", "up", *map(str, args)], stderr=theirs, stdout=subprocess.PIPE, text=True,
                               env=dict(os.environ, TERM="xterm"))
    os.close(theirs)
    parts = []

    def read():
        while True:
            try:
                parts.append(os.read(ours, 65536))
            except OSError:
                return
    reader = threading.Thread(target=read)
    reader.start()
    try:
        url = process.stdout.readline().split()[1]
        port = int(url.rsplit(":", 1)[1])
        post_json(port, "/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 8})
        request(port, "POST", "/v1/completions", {"model": "x", "prompt": "hi"})
        worker = next(w for w in get_json(port, "/admin/status")["workers"] if w["name"] == "decode0")
        done = subprocess.run([BIN / "tandem", "kill", "--server", url, "decode0"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        eventually(lambda: any(w["name"] == "decode0" and w["pid"] != worker["pid"] and w["state"] == "ready"
                               for w in get_json(port, "/admin/status")["workers"]), "decode0 back")
        before_stop = len(b"".join(parts))
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        reader.join(60)
    assert process.returncode == 0, process.returncode
    text = b"".join(parts)
    return text, text[before_stop:], worker, url


def words_on_a_terminal():
    text, stop, worker, url = talk("hash", "--port", 0)
    rows = rows_of(text)
    assert any(re.fullmatch(r"\d\d:\d\d:\d\d chat 200  \d+\+8 tok  [\d.]+ m?s  prefill0 > decode0", row) for row in rows), rows
    assert any(re.fullmatch(r"\d\d:\d\d:\d\d completions 404  not_found  [\d.]+ m?s", row) for row in rows), rows
    assert any("warning: worker lost: decode0" in row for row in rows), rows
    assert "decode0 ended by signal 9: starting it again" in rows, rows
    assert f"to see an answer go on without its worker: kill -9 {worker['pid']}" in rows, rows
    assert f"or: tandem kill --server {url} decode0" in rows, rows
    assert (url + "  2 workers ready  Ctrl-C drains and ends").encode() in text, text
    assert "ts=" not in text.decode() and max(len(row) for row in rows) < 80, rows
    assert not re.search(rb"warning|error|level=", stop) and b"draining: " in stop, stop
    assert not any("Ctrl-C" in row for row in rows), rows  # the line below all others is gone in the end


def logfmt_on_a_terminal():
    """All that the daemons log; and a stop that went well warns of nothing there, either."""
    text, stop, _, _ = talk("hash", "--port", 0, "--log-format", "logfmt")
    done = [row for row in rows_of(text) if 'msg="request done"' in row]
    assert len(done) == 2 and done[0].startswith("ts="), rows_of(text)
    assert b"level=info" in stop and b"level=warn" not in stop, stop


def ends_with_its_terminal(runtime):
    """As it ends when it is told to, and nothing is left; also where SIGHUP is ignored. A shell may send it beside the kernel: an answer
    that runs is not given up for that."""
    for nohup, signals, is_mute in ((False, 0, False), (True, 0, False), (False, 2, False), (True, 0, True)):
        with Terminal("tandem", "up", "hash", "--port", "0", "--step-us", "2000", nohup=nohup, is_mute=is_mute,
                      XDG_RUNTIME_DIR=str(runtime)) as up:
            port = int(eventually(lambda: re.search(r"ready http://[^:]+:(\d+)", up.read()), "the ready line").group(1))
            assert len(list(runtime.iterdir())) == 1
            events = stream_events(port, "/v1/completions", {"prompt": "x", "max_tokens": 300, "ignore_eos": True})
            next(events)
            for _ in range(signals):
                os.kill(up.pid, signal.SIGHUP)
            if signals == 0:
                up.hang_up()
            assert list(events)[-1] == "[DONE]"
            assert up.end() == 0 and not list(runtime.iterdir()), list(runtime.iterdir())


def signals_that_mean_nothing(folder, runtime):
    """Without a terminal SIGHUP is the router's, which reads certificates again; SIGUSR1, SIGUSR2 and SIGALRM end nobody."""
    certificates = Certificates(folder)
    for name in ("first", "second"):
        certificates.sign(name, name)
    certificates.install("first")
    cluster = Secure(certificates, "--mixed", 1, "--tls-check", "0", env={"XDG_RUNTIME_DIR": str(runtime)}, stdin=subprocess.DEVNULL)
    with cluster:
        pids = [cluster.process.pid, cluster.router_pid(), cluster.workers()[0]["pid"]]
        for pid in pids:
            for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
                os.kill(pid, number)
        os.kill(pids[2], signal.SIGHUP)
        certificates.install("second")
        cluster.process.send_signal(signal.SIGHUP)
        eventually(lambda: cluster.common_name() == "second", "the new certificate")
        assert [cluster.router_pid(), cluster.workers()[0]["pid"]] == pids[1:] and cluster.complete([1, 2], 3)
        assert "starting it again" not in cluster.log_text()
        assert cluster.stop() == 0 and not list(runtime.iterdir())


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="tandem-up-") as name:
        folder = Path(name)
        big = [big_config(folder, 12), "--load-format", "dummy", "--port", "0", "--kv-blocks", "128", "--mixed", "2"]
        tally.run("a model as a word, host and port, every option", a_word_and_parts)
        tally.run("listen of a file and of a variable", file_and_variable, folder)
        tally.run("a mistake is one line, before anything starts", mistakes, folder)
        tally.run("what is not there is said once", missing_models, folder)
        tally.run("what a hub's cache holds is served", hub_cache, folder)
        with tempfile.TemporaryDirectory(prefix="up-", dir="/tmp") as runtime:  # short: sockets' paths have 107 bytes
            tally.run("it ends with its terminal", ends_with_its_terminal, Path(runtime))
            tally.run("signals that mean nothing", signals_that_mean_nothing, folder, Path(runtime))
        tally.run("words on a terminal", words_on_a_terminal)
        tally.run("logfmt on a terminal", logfmt_on_a_terminal)
        tally.run("loading is seen in a log", lines_of_progress, big)
        tally.run("loading is seen on a terminal", redrawn_line, big)
    sys.exit(tally.end())


if __name__ == "__main__":
    main()
