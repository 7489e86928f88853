#!/usr/bin/env python3
"""Bad input: one clear line or one error object each, the right exit code, nothing left running."""
import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster import BIN, Cluster, Tally, eventually, hash_answer, post_json, real_model, request, stream_events


def run(*args, timeout=60):
    done = subprocess.run([str(BIN / args[0]), *map(str, args[1:])], capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def fails_with(code, words, *args):
    got, out, err = run(*args)
    last = (err.strip().splitlines() or [""])[-1]
    assert got == code, (got, err[-500:])
    assert "error:" in last, err[-500:]
    for word in words:
        assert word in last, (word, last)
    assert "ready" not in out
    return last[:160]


def children_of(name):
    """Programs of ours still running whose command line names this folder or port."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if name in line and "tandem-" in line:
                found.append(line)
    return found


def broken_models(tally, folder):
    whole = Path(real_model()).read_bytes()
    cases = {"missing": None, "empty": b"", "not_gguf": b"hello world" * 100, "cut_header": whole[:1000],
             "cut_tensors": whole[:len(whole) // 2], "bad_version": b"GGUF" + (99).to_bytes(4, "little") + whole[8:4096]}
    for name, data in cases.items():
        path = folder / f"{name}.gguf"
        if data is not None:
            path.write_bytes(data)
        def check(path=path):
            line = fails_with(78, [path.name], "tandem", "up", "--model", path, "--listen", "127.0.0.1:0")
            assert not children_of(str(path)), children_of(str(path))
            return line
        tally.run(f"model {name}", check)


def port_in_use():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, err = run("tandem", "up", "--model", "hash", "--listen", f"127.0.0.1:{port}")
        assert code != 0 and str(port) in err.strip().splitlines()[-1], (code, err[-400:])
        assert not children_of(f":{port}")
        return err.strip().splitlines()[-1][:160]


def config_errors(tally, folder):
    cases = {"unknown key": ("[cluster]\nmodel = hash\n[router]\nqeue = 3\n", [":4:", "qeue", "queue"]),
             "wrong type": ("[cluster]\nmodel = hash\n[router]\nqueue = many\n", [":4:", "queue"]),
             "duplicate key": ("[cluster]\nmodel = hash\nmodel = hash\n", [":3:", "model"]),
             "unknown section": ("[cluster]\nmodel = hash\n[rooter]\nqueue = 3\n", [":3:", "rooter"]),
             "open to the network without keys": ("[cluster]\nmodel = hash\n[router]\nannounce = tcp://0.0.0.0:0\n",
                                                  ["keys"])}
    for name, (text, words) in cases.items():
        path = folder / "bad.ini"
        def check(path=path, text=text, words=words):
            path.write_text(text)
            return fails_with(78, words, "tandem-router", "--config", path, "--listen", "127.0.0.1:0")
        tally.run(f"config: {name}", check)


def wrong_starts_at_once(folder):
    """However crowded the machine is: the line is written before the program ends, once."""
    keys = folder / "only-comments"
    keys.write_text("# no key\n")
    keys.chmod(0o600)
    started = [subprocess.Popen([BIN / "tandem-router", "--model", "hash", "--listen", "127.0.0.1:0", "--announce",
                                 f"ipc://{folder}/a", "--api-keys", keys], stderr=subprocess.PIPE, text=True)
               for _ in range(100)]
    for process in started:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 78 and err == f"error: --api-keys: {keys}: contains no key\n", (process.returncode, err)


def wrong_daemons(tally, folder):
    """Options and files that cannot work: 78 and one line that names them."""
    def key_file(name, data):
        path = folder / name
        path.write_bytes(data)
        path.chmod(0o600)
        return path
    fifo = folder / "fifo"
    os.mkfifo(fifo, 0o600)
    noise = key_file("noise", bytes(random.Random(5).randrange(256) for _ in range(300)))
    clients, admins = key_file("clients", b"one\ntwo\n"), key_file("admins", b"three\ntwo\n")
    router = ("tandem-router", "--model", "hash", "--listen", "127.0.0.1:0", "--announce", f"ipc://{folder}/a")
    worker = ("tandem-worker", "--model", "hash", "--endpoint", f"ipc://{folder}/w")
    cases = {"routers of no kind": (["--routers", "foo"], (*worker, "--name", "w", "--routers", "foo")),
             "a worker's name with a slash": (["--name", "'/'"], (*worker, "--name", "a/b", "--routers", f"ipc://{folder}/a")),
             "a worker's name of two lines": (["--name", "control"], (*worker, "--name", "a\nb", "--routers",
                                                                      f"ipc://{folder}/a")),
             "a router's name with a slash": (["--name", "'/'"], (*router, "--name", "a/b")),
             "a FIFO of API keys": (["--api-keys", "fifo", "no regular file"], (*router, "--api-keys", fifo)),
             "a FIFO of admin keys": (["--admin-keys", "fifo", "no regular file"], (*router, "--admin-keys", fifo)),
             "random bytes as API keys": (["--api-keys", "noise", "line 1"], (*router, "--api-keys", noise)),
             "one key for clients and administrators": (["--admin-keys", "admins", "line 2", "clients"],
                                                        (*router, "--api-keys", clients, "--admin-keys", admins)),
             "HTTP/2 pings all the time": (["--http2-ping", "100ms"], (*router, "--http2-ping", "1ns"))}
    for name, (words, args) in cases.items():
        def check(words=words, args=args):
            code, out, err = run(*args)
            assert code == 78 and out == "" and err.count("\n") == 1 and err.startswith("error: "), (code, out, err[-500:])
            for word in words:
                assert word in err, (word, err)
            return err.strip()[:160]
        tally.run(f"start: {name}", check)


def refused(cluster, path, body, status, **fields):
    got, headers, answer = request(cluster.port, "POST", path, body)
    assert got == status, (got, answer[:300])
    assert headers["Content-Type"].startswith("application/json")
    error = json.loads(answer)["error"]
    assert set(error) == {"message", "type", "param", "code"}, error
    for key, value in fields.items():
        assert error[key] == value, (key, error)
    return error["message"][:120]


def requests(tally, cluster):
    chat, plain = "/v1/chat/completions", "/v1/completions"
    message = [{"role": "user", "content": "hi"}]
    bad = "invalid_request_error"
    cases = [
        ("unknown model", chat, {"model": "gpt-9", "messages": message}, 404, {"code": "model_not_found", "type": bad}),
        ("broken JSON", chat, b'{"messages": [', 400, {"type": bad}),
        ("not an object", chat, b"[1,2]", 400, {"type": bad}),
        ("no messages", chat, {}, 400, {"param": "messages"}),
        ("messages of a wrong type", chat, {"messages": "hi"}, 400, {"param": "messages"}),
        ("temperature of a wrong type", chat, {"messages": message, "temperature": "hot"}, 400, {"param": "temperature"}),
        ("temperature out of range", chat, {"messages": message, "temperature": -1}, 400, {"param": "temperature"}),
        ("max_tokens negative", plain, {"prompt": "x", "max_tokens": -1}, 400, {"param": "max_tokens"}),
        ("max_tokens too big an integer", plain, b'{"prompt":"x","max_tokens":99999999999999999999}', 400, {}),
        ("n too large", plain, {"prompt": "x", "n": 65}, 400, {"param": "n"}),
        ("empty prompt", plain, {"prompt": ""}, 400, {"param": "prompt"}),
        ("ids out of the vocabulary", plain, {"prompt": [1, 2, 99999999]}, 400, {"param": "prompt"}),
        ("negative id", plain, {"prompt": [-1]}, 400, {"param": "prompt"}),
        ("context too long", plain, {"prompt": [7] * 2000000, "max_tokens": 1}, 400, {"type": bad}),
        ("stop too many", plain, {"prompt": "x", "stop": ["a"] * 65}, 400, {"param": "stop"}),
        ("logit_bias of a wrong type", plain, {"prompt": "x", "logit_bias": {"5": "much"}}, 400, {"param": "logit_bias"}),
        ("stream_options without stream", plain, {"prompt": "x", "stream_options": {"include_usage": True}}, 400, {}),
        ("duplicate keys", plain, b'{"prompt":"x","prompt":"y"}', 400, {}),
        ("NaN", plain, b'{"prompt":"x","temperature":NaN}', 400, {}),
        ("deep nesting", plain, b'{"prompt":' + b"[" * 100000, 400, {}),
        ("invalid UTF-8", plain, b'{"prompt":"\xff\xfe"}', 400, {}),
    ]
    for name, path, body, status, fields in cases:
        tally.run(f"request: {name}", refused, cluster, path, body, status, **fields)

    def unknown_route():
        status, _, body = request(cluster.port, "GET", "/v2/nothing")
        assert status == 404 and json.loads(body)["error"]["type"] == "not_found_error"
        status, headers, _ = request(cluster.port, "DELETE", "/v1/models")
        assert status == 405 and "GET" in headers["Allow"]
    tally.run("unknown route and method", unknown_route)
    tally.run("nothing is held after all that", lambda: cluster.quiet() and None)


def second_signal_ends_at_once():
    """One signal gives answers 600 s, which are 12,000 tokens here."""
    with Cluster("--mixed", 1, "--step-us", 50000, "--drain", "600s") as cluster, cluster.answering() as events:
        cluster.process.send_signal(signal.SIGTERM)
        # Two signals of a kind at once would be one.
        eventually(lambda: "draining" in cluster.log_text(), "the drain begun")
        cluster.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(http.client.HTTPException, OSError):
            for n_more, _ in enumerate(events):
                assert n_more < 400, "the answer goes on"
        cluster.process.wait(60)
        assert not children_of(f"127.0.0.1:{cluster.port}")


def ctrl_c_lets_answers_finish():
    with Cluster("--prefill", 1, "--decode", 1, "--step-us", 5000, own_group=True) as cluster:
        body = {"prompt": [1, 2, 3], "max_tokens": 200, "ignore_eos": True, "return_token_ids": True}
        events = stream_events(cluster.port, "/v1/completions", body)
        first = next(events)
        os.killpg(cluster.process.pid, signal.SIGINT)
        *rest, end = events
        assert end == "[DONE]"
        ids = [i for event in (first, *rest) for choice in json.loads(event)["choices"] for i in choice["token_ids"]]
        assert ids == hash_answer([1, 2, 3], 200)
        assert cluster.process.wait(60) == 0
        assert not children_of(f"127.0.0.1:{cluster.port}")


def accepted_before_the_drain_is_answered():
    """Half a body has come when the cluster is told to end: the rest is read and the answer is whole."""
    with Cluster("--mixed", 2) as cluster:
        body = json.dumps({"prompt": [1, 2, 3], "max_tokens": 50, "ignore_eos": True, "return_token_ids": True}).encode()
        with socket.create_connection(("127.0.0.1", cluster.port)) as connection:
            head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
            connection.sendall(head)
            assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
            connection.sendall(body[:10])
            cluster.process.send_signal(signal.SIGTERM)
            eventually(lambda: "draining" in cluster.log_text(), "the drain begun")
            connection.sendall(body[10:])
            reply = http.client.HTTPResponse(connection)
            reply.begin()
            answer = json.loads(reply.read())
            assert reply.status == 200, answer
        assert answer["choices"][0]["token_ids"] == hash_answer([1, 2, 3], 50)
        assert cluster.process.wait(60) == 0


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tally.run("unknown command", fails_with, 78, ["dance"], "tandem", "dance")
        tally.run("unknown worker option", lambda: run("tandem-worker", "--dance")[0] == 78 or 1 / 0)
        tally.run("tensor parallel size that cannot be", fails_with, 78, ["tp"], "tandem", "up", "--model", "hash",
                  "--tp", "3", "--listen", "127.0.0.1:0")
        tally.run("port in use", port_in_use)
        tally.run("100 wrong starts at once: each says why", wrong_starts_at_once, folder)
        config_errors(tally, folder)
        wrong_daemons(tally, folder)
        try:
            broken_models(tally, folder)
        except Exception as reason:  # the real model is not there
            tally.run("broken models", lambda: (_ for _ in ()).throw(reason))
        with Cluster("--mixed", 1) as cluster:
            requests(tally, cluster)
        tally.run("Ctrl-C lets answers finish", ctrl_c_lets_answers_finish)
        tally.run("what was accepted before the drain is answered", accepted_before_the_drain_is_answered)
        tally.run("a second signal ends at once", second_signal_ends_at_once)
    sys.exit(tally.end())


if __name__ == "__main__":
    os.environ.pop("TANDEM_MODEL", None)
    main()
