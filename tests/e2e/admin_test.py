#!/usr/bin/env python3
"""Who may administer: keys of their own, no web page, no foreign name; and drains that can be taken back."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster import BIN, Cluster, Tally, eventually, hash_answer, post_json, request, stream_events
from daemons import free_ports

JSON = {"Content-Type": "application/json"}


def ask(port, method, path, headers, body=None):
    status, _, answer = request(port, method, path, body, headers)
    return status, answer.decode()


def tandem(*args, env=None):
    return subprocess.run([BIN / "tandem", *args], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, **(env or {})))


def states(cluster):
    return {w["name"]: w["state"] for w in cluster.workers()}


def no_page_can_drain(cluster):
    drain = {"worker": "mixed0"}
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
                    {"Sec-Fetch-Site": "same-site"}, {"Host": "evil.example"}, {"Host": f"evil.example:{cluster.port}"}):
        for path in ("/admin/drain", "/admin/kill", "/admin/resume", "/v1/completions"):
            status, answer = ask(cluster.port, "POST", path, headers, drain)
            assert status == 403 and json.loads(answer)["error"]["code"] == "forbidden", (headers, path, status, answer)
    for path in ("/admin/status", "/v1/models", "/health", "/metrics"):
        status, answer = ask(cluster.port, "GET", path, {"Host": "evil.example"})
        assert status == 403 and "--allow-host" in answer, (path, status, answer)
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        status, answer = ask(cluster.port, "POST", "/admin/drain", {"Content-Type": kind}, drain)
        assert status == 415, (kind, status, answer)
    status, answer = ask(cluster.port, "POST", "/v1/completions", {"Content-Encoding": "gzip"}, {"prompt": "x"})
    assert status == 415 and "gzip" in answer, (status, answer)
    status, answer = ask(cluster.port, "POST", "/admin/drain", {}, dict(drain, x="x" * 5000))
    assert status == 413, (status, answer)
    eventually(lambda: set(states(cluster).values()) == {"ready"}, "both are as they were")
    for host in ("localhost", f"127.0.0.1:{cluster.port}", "[::1]:80", "proxy.example", "second.example"):
        assert ask(cluster.port, "GET", "/admin/status", {"Host": host})[0] == 200, host


def a_worker_is_killed(cluster):
    """By its name, and what it ran goes on; a process that is no worker's of `tandem up` is none to kill."""
    old = {w["name"]: w for w in cluster.workers()}
    assert all(w["child"] and w["host"] == socket.gethostname() and w["pid"] > 0 for w in old.values()), old
    text = tandem("status", "--server", cluster.url).stdout
    for worker in old.values():
        assert re.search(rf"^{worker['name']} .* {worker['pid']}  {re.escape(worker['host'])}$", text, re.M), text
    done = tandem("kill", "nobody", "--server", cluster.url)
    assert done.returncode == 1 and "There is no worker `nobody`" in done.stderr, done.stderr
    assert tandem("kill", "--server", cluster.url).returncode == 78
    done = tandem("kill", "mixed0", "--server", cluster.url)
    assert done.returncode == 0, done.stderr

    def another():
        now = {w["name"]: w["pid"] for w in cluster.workers() if w["state"] == "ready"}
        return len(now) == 2 and now["mixed0"] != old["mixed0"]["pid"] and now
    assert eventually(another, "another process")["mixed1"] == old["mixed1"]["pid"]


def only_children_are_killed():
    """Daemons that nobody's `tandem up` started: the router kills none, and says whose it is. With --siblings, no stranger either."""
    for flags in ((), ("--siblings",)):
        with tempfile.TemporaryDirectory(prefix="tandem-kill-") as folder:
            port = free_ports(1)[0]
            announce = f"ipc://{folder}/announce"
            router = subprocess.Popen([BIN / "tandem-router", "--model", "hash", "--listen", f"127.0.0.1:{port}", "--announce", announce, *flags],
                                      stderr=subprocess.DEVNULL)
            # Its parent is a shell, so it is no sibling of the router.
            shell = subprocess.Popen(["sh", "-c", f"{BIN}/tandem-worker --name w --model hash --routers {announce} --endpoint ipc://{folder}/w; :"],
                                     stderr=subprocess.DEVNULL)
            try:
                def row():
                    try:
                        return json.loads(ask(port, "GET", "/admin/status", {})[1])["workers"]
                    except OSError:
                        return []
                worker = eventually(lambda: [w for w in row() if w["state"] == "ready"], "the worker")[0]
                assert worker["child"] == bool(flags), worker
                done = tandem("kill", "w", "--server", f"http://127.0.0.1:{port}")
                assert done.returncode == 1 and str(worker["pid"]) in done.stderr and "403" in done.stderr, done.stderr
                assert row()[0]["pid"] == worker["pid"] and shell.poll() is None
            finally:
                router.terminate()
                subprocess.run(["pkill", "-TERM", "-P", str(shell.pid)])
                router.wait(60)
                shell.wait(60)


def drains_are_taken_back(cluster):
    assert tandem("drain", "nobody", "--server", cluster.url).returncode == 1
    for _ in range(2):  # twice is once
        done = tandem("drain", "mixed0", "--server", cluster.url)
        assert done.returncode == 0, done.stderr
    eventually(lambda: states(cluster) == {"mixed0": "draining", "mixed1": "ready"}, "one drains")
    assert post_json(cluster.port, "/v1/completions", {"prompt": "x", "max_tokens": 2})
    assert tandem("drain", "mixed1", "--server", cluster.url).returncode == 0
    eventually(lambda: request(cluster.port, "GET", "/health")[0] == 503, "nobody is left")
    pids = {w["pid"] for w in cluster.workers()}
    for name in ("mixed0", "mixed1", "mixed1"):
        done = tandem("drain", "--undo", name, "--server", cluster.url)
        assert done.returncode == 0, done.stderr
    eventually(lambda: set(states(cluster).values()) == {"ready"}, "both take work again")
    assert {w["pid"] for w in cluster.workers()} == pids
    answers = {post_json(cluster.port, "/v1/completions", {"prompt": "x", "max_tokens": 2})["choices"][0]["text"]
               for _ in range(4)}
    assert len(answers) == 1, answers
    assert tandem("drain", "--undo", "--exit", "mixed0", "--server", cluster.url).returncode == 78


def a_drained_worker_can_end(cluster):
    """Its stream first; `tandem up` then starts a new one, as for any child that ends."""
    before = {w["name"]: w["pid"] for w in cluster.workers()}
    said = len(cluster.log_text())  # tests before this one have killed workers

    def begun():
        """A stream that is seen while it runs, and where."""
        events = stream_events(cluster.port, "/v1/completions", {"prompt": "x", "max_tokens": 1000, "ignore_eos": True})
        next(events)
        busy = [w["name"] for w in cluster.workers() if w["sequences"]["running"]]
        return (events, busy[0]) if busy else None
    events, busy = eventually(begun, "a stream that runs")
    assert tandem("drain", "--exit", busy, "--server", cluster.url).returncode == 0
    rest = list(events)
    assert rest[-1] == "[DONE]" and json.loads(rest[-2])["choices"][0]["finish_reason"] == "length", rest[-2:]
    eventually(lambda: (now := {w["name"]: w["pid"] for w in cluster.workers() if w["state"] == "ready"})
               and set(now) == set(before) and now[busy] != before[busy], "a new process of that name")
    since = cluster.log_text()[said:]
    assert f"{busy} ended with code 0" in since and " ended by signal" not in since, since


def a_drained_workers_end_warns_of_nothing():
    """It goes as it was told to, and the peer that it had KV from has nothing to warn of."""
    with Cluster("--prefill", 1, "--decode", 1) as cluster:
        assert post_json(cluster.port, "/v1/completions", {"prompt": "x", "max_tokens": 2})
        old = next(w for w in cluster.workers() if w["name"] == "decode0")
        assert old["handoffs"]["in"] == 1, old
        assert tandem("drain", "--exit", "decode0", "--server", cluster.url).returncode == 0
        eventually(lambda: any(w["name"] == "decode0" and w["state"] == "ready" and w["pid"] != old["pid"] for w in cluster.workers()),
                   "a new process of that name")
        lost = eventually(lambda: [line for line in cluster.log_text().splitlines() if '"kv link lost"' in line], "the peer's line")
        assert len(lost) == 1 and "level=info" in lost[0] and "peer=decode0" in lost[0], lost
        assert not re.search("level=(warn|error)", cluster.log_text()), cluster.log_text()[-2000:]


def live_requests_are_listed():
    """Each live call with where its sequences are; one without a worker says why; none is left in the end."""
    with Cluster("--prefill", 1, "--decode", 1, "--step-us", 20000) as cluster:
        def listed():
            answer = json.loads(ask(cluster.port, "GET", "/admin/requests", {})[1])
            assert answer["left_out"] == 0, answer
            return answer["requests"]
        assert listed() == []
        with cluster.answering(prompt=[5] * 20, n=2) as events:
            live = eventually(lambda: [r for r in listed() if min(s["tokens"] for s in r["sequences"]) >= 2], "tokens")
            assert len(live) == 1 and live[0]["id"] == json.loads(next(events))["id"], live
        assert live[0]["dialect"] == "completions" and live[0]["stage"] == "stream", live
        assert live[0]["age_ms"] >= 20 and live[0]["slow_client"] is False, live
        assert len(live[0]["sequences"]) == 2, live
        for sequence in live[0]["sequences"]:
            assert re.fullmatch(r"[0-9a-f]+\.[0-9a-f]+\.1", sequence["request"]), sequence
            assert sequence["stage"] == "stream" and sequence["decode"] == "decode0", sequence
            assert (sequence["attempts"], sequence["replays"], sequence["prompt_tokens"]) == (1, 0, 20), sequence
        eventually(lambda: listed() == [], "nothing lives")


def client_keys_open_no_admin_route(folder):
    clients, admins = f"{folder}/clients", f"{folder}/admins"
    for path, keys in ((clients, "client\n"), (admins, "# the operator's\n\n  admin \n")):
        with open(path, "w") as file:
            file.write(keys)
        os.chmod(path, 0o600)
    with Cluster("--mixed", 1, "--api-keys", clients) as cluster:
        for headers in ({}, {"Authorization": "Bearer client"}, {"Authorization": "Bearer admin"}):
            status, answer = ask(cluster.port, "GET", "/admin/status", headers)
            assert status == 403 and "--admin-keys" in answer, (headers, status, answer)
        failed = tandem("status", "--server", cluster.url, env={"TANDEM_ADMIN_KEY": "client"})
        assert failed.returncode == 1 and "--admin-keys" in failed.stderr, failed
    with Cluster("--mixed", 1, "--api-keys", clients, "--admin-keys", admins) as cluster:
        for headers, want in (({}, 401), ({"Authorization": "Bearer client"}, 401), ({"Authorization": "Bearer admin"}, 200)):
            for path in ("/admin/status", "/admin/requests"):
                assert ask(cluster.port, "GET", path, headers)[0] == want, (path, headers)
            assert ask(cluster.port, "POST", "/admin/resume", headers, {"worker": "mixed0"})[0] == want, headers
        assert ask(cluster.port, "POST", "/v1/completions", {"Authorization": "Bearer admin"}, {"prompt": "x"})[0] == 401
        assert tandem("status", "--server", cluster.url).returncode == 1
        for args, env in (((), {"TANDEM_ADMIN_KEY": "admin"}), (("--admin-key-file", admins), {})):
            done = tandem("status", "--json", "--server", cluster.url, *args, env=env)
            assert done.returncode == 0 and json.loads(done.stdout)["workers"], done
            assert tandem("drain", "mixed0", "--server", cluster.url, *args, env=env).returncode == 0
            assert tandem("drain", "--undo", "mixed0", "--server", cluster.url, *args, env=env).returncode == 0
        lost = tandem("status", "--server", cluster.url, "--admin-key-file", f"{folder}/none")
        assert lost.returncode == 1 and f"{folder}/none" in lost.stderr, lost


def keys_are_read_again(folder):
    """SIGHUP: a key that is gone opens nothing more, but its stream goes on; a file that does not serve changes nothing."""
    path = f"{folder}/keys"

    def write(text):
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o600)

    def status_of(key):
        return ask(cluster.port, "GET", "/v1/models", {"Authorization": f"Bearer {key}"})[0]
    write("old\nboth\n")
    with Cluster("--mixed", 1, "--step-us", 5000, "--api-keys", path) as cluster:
        wire = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=60)
        wire.request("POST", "/v1/completions", json.dumps({"prompt": [1, 2], "max_tokens": 200, "ignore_eos": True, "stream": True,
                                                            "return_token_ids": True}),
                     {"Content-Type": "application/json", "Authorization": "Bearer old"})
        stream = wire.getresponse()
        assert stream.status == 200 and (status_of("old"), status_of("both"), status_of("new")) == (200, 200, 401)
        write("both\nnew\n")
        os.kill(cluster.router_pid(), signal.SIGHUP)
        eventually(lambda: (status_of("old"), status_of("both"), status_of("new")) == (401, 200, 200), "the new keys")
        write("both misspelt=3\n")
        os.kill(cluster.router_pid(), signal.SIGHUP)
        eventually(lambda: "not reloaded" in cluster.log_text(), "the warning")
        assert status_of("new") == 200 and "both" not in cluster.log_text()
        events = [json.loads(line[6:]) for line in stream.read().split(b"\n") if line.startswith(b"data: {")]
        wire.close()
        assert [i for e in events for c in e["choices"] for i in c.get("token_ids") or []] == hash_answer([1, 2], 200)


def a_key_may_move_and_never_be_in_both_files(folder):
    """SIGHUP: both files are read before either is used."""
    def write(name, text):
        path = Path(folder) / name
        path.write_text(text)
        path.chmod(0o600)
        return str(path)
    clients, admins = write("move-clients", "one\n"), write("move-admins", "two\n")
    with Cluster("--mixed", 1, "--api-keys", clients, "--admin-keys", admins) as cluster:
        def status_of(path, key):
            return ask(cluster.port, "GET", path, {"Authorization": f"Bearer {key}"})[0]
        write("move-clients", "one\ntwo\n")
        os.kill(cluster.router_pid(), signal.SIGHUP)
        eventually(lambda: cluster.log_text().count("not reloaded") == 2, "two warnings")
        assert (status_of("/v1/models", "two"), status_of("/admin/status", "two")) == (401, 200)
        write("move-clients", "two\n")
        write("move-admins", "one\n")
        os.kill(cluster.router_pid(), signal.SIGHUP)
        eventually(lambda: (status_of("/v1/models", "two"), status_of("/admin/status", "one")) == (200, 200), "the keys moved")
        assert (status_of("/v1/models", "one"), status_of("/admin/status", "two")) == (401, 401)


def the_log_level_is_read_again(folder):
    """SIGHUP: the configuration file's log-level holds from then on; a file with a mistake changes nothing."""
    path = f"{folder}/tandem.ini"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

    def write(level):
        with open(path, "w") as file:
            file.write(f"[cluster]\nmodel = hash\nlog_level = {level}\n[router]\nlisten = 127.0.0.1:{port}\n"
                       f"announce = ipc://{folder}/announce\n")

    def log():
        with open(f"{folder}/log") as file:
            return file.read()

    def lives():
        try:
            return request(port, "GET", "/livez")[0] == 200
        except OSError:
            return False
    write("warn")
    with open(f"{folder}/log", "w") as file, subprocess.Popen([BIN / "tandem-router", "--config", path], stderr=file) as router:
        try:
            eventually(lives, "the router listens")
            assert "level=info" not in log()
            write("info")
            router.send_signal(signal.SIGHUP)
            eventually(lambda: 'msg="reloaded" what=log-level' in log(), "a line of the new level")
            write("loud")
            router.send_signal(signal.SIGHUP)
            eventually(lambda: "not reloaded" in log(), "the warning")
            assert "loud" in log() and lives()
        finally:
            router.send_signal(signal.SIGTERM)
        assert router.wait(60) == 0


def a_public_address_is_told():
    with Cluster("--mixed", 1) as cluster:
        assert "no API keys" not in cluster.log_text()
    with Cluster("--mixed", 1, "--listen", "0.0.0.0:0") as cluster:
        cluster.logged("no API keys")
        told = [line for line in cluster.log_text().splitlines() if "no API keys" in line]
        assert len(told) == 1 and "level=warn" in told[0] and "--api-keys" in told[0], told
        status, answer = ask(cluster.port, "GET", "/admin/status", {})
        assert status == 403 and "--admin-keys" in answer, (status, answer)


def main():
    tally = Tally()
    with Cluster("--mixed", 2, "--step-us", 2000, "--allow-host", "proxy.example",
                 "--allow-host", "second.example") as cluster:
        tally.run("no page can drain", no_page_can_drain, cluster)
        tally.run("a worker is killed", a_worker_is_killed, cluster)
        tally.run("drains are taken back", drains_are_taken_back, cluster)
        tally.run("a drained worker can end", a_drained_worker_can_end, cluster)
    tally.run("only children are killed", only_children_are_killed)
    with tempfile.TemporaryDirectory() as folder:
        tally.run("client keys open no admin route", client_keys_open_no_admin_route, folder)
        tally.run("keys are read again", keys_are_read_again, folder)
        tally.run("a key may move, and never be in both files", a_key_may_move_and_never_be_in_both_files, folder)
        tally.run("the log level is read again", the_log_level_is_read_again, folder)
    tally.run("a drained worker's end warns of nothing", a_drained_workers_end_warns_of_nothing)
    tally.run("live requests are listed", live_requests_are_listed)
    tally.run("a public address without keys is told", a_public_address_is_told)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
