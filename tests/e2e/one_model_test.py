#!/usr/bin/env python3
"""A router serves its own model and one worker of each name, whoever comes first and whatever is restarted.

Daemons are started by hand: a router of the `hash` model, and workers of it, of tiny random GGUFs, and of one name.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster import BIN, TOOLS, Tally, eventually, get_json, hash_answer, request

PROMPT = list(range(40, 90))


class Daemons:
    """Routers and workers with their logs; every socket lies in one folder."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = {}
        self.ports = {}

    def start(self, program, key, *args):
        log = open(self.folder / f"{key}.log", "wb")
        self.processes[key] = subprocess.Popen([BIN / program, *map(str, args)], stdout=log, stderr=log)
        log.close()
        return self.processes[key]

    def log(self, key):
        return (self.folder / f"{key}.log").read_text(errors="replace")

    def router(self, key, *args, model="hash"):
        self.start("tandem-router", key, "--model", model, "--name", key, "--listen", "127.0.0.1:0",
                   "--announce", f"ipc://{self.folder}/{key}", *args)
        self.ports[key] = int(eventually(lambda: field(self.log(key), "router ready", "port"), f"{key} up"))

    def worker(self, key, *args, name=None, model="hash", routers=("r0",)):
        """`key` names the process, its log and its sockets; `name` is what it calls itself."""
        return self.start("tandem-worker", key, "--model", model, "--name", name or key, "--role", "mixed",
                          "--threads", 1, "--routers", ",".join(f"ipc://{self.folder}/{r}" for r in routers),
                          "--endpoint", f"ipc://{self.folder}/{key}-control",
                          "--kv-endpoint", f"ipc://{self.folder}/{key}-kv", *args)

    def workers(self, router="r0"):
        return get_json(self.ports[router], "/admin/status")["workers"]

    def state(self, key, router="r0"):
        """The state in which the router shows this process, "-" when it does not, with the reason."""
        rows = [w for w in self.workers(router) if w["pid"] == self.processes[key].pid]
        return " ".join([rows[0]["state"], *([rows[0]["reason"]] if "reason" in rows[0] else [])]) if rows else "-"

    def becomes(self, key, state, router="r0"):
        eventually(lambda: self.state(key, router) == state, f"{key} {state} at {router}")

    def kill(self, key, how=signal.SIGKILL):
        self.processes[key].send_signal(how)
        self.processes[key].wait(30)

    def stop(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for key, process in self.processes.items():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise AssertionError(f"{key} did not stop")
        self.processes = {}


def field(log, message, key):
    for line in log.splitlines():
        if f'msg="{message}"' in line and f" {key}=" in line:
            return line.split(f" {key}=")[1].split()[0]
    return None


def lines(log, message, *words):
    return [line for line in log.splitlines() if f'msg="{message}"' in line and all(w in line for w in words)]


def ask(d, router="r0", n=24):
    body = {"prompt": PROMPT, "max_tokens": n, "temperature": 0, "return_token_ids": True}
    status, headers, answer = request(d.ports[router], "POST", "/v1/completions", body)
    return status, headers, json.loads(answer)


def is_served(d, router="r0"):
    status, _, answer = ask(d, router)
    assert status == 200, answer
    assert answer["choices"][0]["token_ids"] == hash_answer(PROMPT, 24), "tokens of another model"


def is_refused_as_nobodys_fault(d, why, router="r0"):
    status, headers, answer = ask(d, router)
    error = answer["error"]
    assert status == 503 and error["code"] == "no_worker" and why in error["message"], (status, answer)
    assert int(headers["Retry-After"]) >= 1
    assert request(d.ports[router], "GET", "/health")[0] == 503
    return error["message"]


def metric(d, name, reason, router="r0"):
    text = request(d.ports[router], "GET", "/metrics")[2].decode()
    row = [line for line in text.splitlines() if line.startswith(f'{name}{{reason="{reason}"}} ')]
    assert len(row) == 1, text
    return float(row[0].split()[-1])


def shows_refused(d, key, name, reason):
    """Status (the program's table and JSON), log and metric, all of them."""
    url = f"http://127.0.0.1:{d.ports['r0']}"
    table = subprocess.run([BIN / "tandem", "status", "--server", url], capture_output=True, text=True, check=True)
    assert any(line.split()[0] == name and "refused" in line.split() and line.split()[-1] == reason
               for line in table.stdout.splitlines() if line.strip()), table.stdout
    rows = json.loads(subprocess.run([BIN / "tandem", "status", "--json", "--server", url], capture_output=True,
                                     text=True, check=True).stdout)["workers"]
    assert [w["reason"] for w in rows if w["state"] == "refused"] == [reason], rows
    said = lines(d.log("r0"), "worker refused", f"name={name} ", f"reason={reason}")
    assert len(said) == 1 and "level=warn" in said[0], said
    assert metric(d, "tandem_router_workers_refused", reason) == 1
    own = eventually(lambda: lines(d.log(key), "router refuses this worker", f"reason={reason}"), "it is told")
    assert len(own) == 1 and "level=warn" in own[0], own


def wrong_worker_first(d, tiny):
    """The wrong model's worker first; then the right one under another name."""
    d.router("r0")
    is_refused_as_nobodys_fault(d, "none is connected")
    d.worker("wrong", name="w0", model=tiny[0])
    d.becomes("wrong", "refused other_model")
    message = is_refused_as_nobodys_fault(d, "another model")
    shows_refused(d, "wrong", "w0", "other_model")
    d.worker("right", name="w1")
    d.becomes("right", "ready")
    is_served(d)
    assert d.state("wrong") == "refused other_model"
    return message


def pin_outlives_all_workers(d, tiny):
    """Nobody is left but the wrong one, which is restarted too."""
    d.kill("right")
    eventually(lambda: d.state("right") == "-", "its death seen")
    d.kill("wrong")
    d.worker("wrong", name="w0", model=tiny[0])
    d.becomes("wrong", "refused other_model")
    is_refused_as_nobodys_fault(d, "another model")
    d.kill("wrong")
    eventually(lambda: not d.workers(), "the dead one no longer shown")
    d.stop()


def replaced_model(d, tiny):
    """The file is replaced and the workers are restarted; the router is forgotten, then restarted too."""
    model = d.folder / "served.gguf"
    shutil.copy(tiny[0], model)
    d.router("r0", model=model)
    d.worker("w0", model=model)
    d.becomes("w0", "ready")
    body = {"prompt": "x", "max_tokens": 8, "temperature": 0}
    status, _, answer = request(d.ports["r0"], "POST", "/v1/completions", body)
    assert status == 200, answer
    replacement = d.folder / "new.gguf"
    shutil.copy(tiny[1], replacement)
    os.replace(replacement, model)
    d.kill("w0", signal.SIGTERM)
    d.worker("w0", model=model)
    d.becomes("w0", "refused other_model")
    is_refused_as_nobodys_fault(d, "another model")
    d.kill("r0", signal.SIGTERM)
    d.router("r0", model=model)
    d.becomes("w0", "ready")
    status, _, answer = request(d.ports["r0"], "POST", "/v1/completions", body)
    assert status == 200, answer
    d.stop()


def second_of_a_name(d):
    """It says so and ends with 78; the first serves on, at two routers."""
    d.router("r0")
    d.router("r1")
    d.worker("first", name="w0", routers=("r0", "r1"))
    for router in ("r0", "r1"):
        d.becomes("first", "ready", router)
    second = d.worker("second", name="w0", routers=("r0", "r1"))
    assert second.wait(60) == 78, second.returncode
    last = d.log("second").strip().splitlines()[-1]
    assert "error: name: " in last and "`w0`" in last and f"{d.folder}/first-control" in last, last
    assert d.processes["first"].poll() is None
    for router in ("r0", "r1"):
        assert d.state("first", router) == "ready"
        is_served(d, router)
        assert get_json(d.ports[router], "/admin/status")["routers"][0]["core"]["fenced"] == 0
        assert len(lines(d.log(router), "worker joined")) == 1
        assert not lines(d.log(router), "worker lost")
    assert not lines(d.log("first"), "router refuses this worker")
    return last


def killed_and_restarted(d):
    """kill -9 and at once the same name, again and again: taken each time."""
    key, other = "first", "again"
    for _ in range(5):
        d.kill(key)
        d.worker(other, name="w0", routers=("r0", "r1"))
        for router in ("r0", "r1"):
            d.becomes(other, "ready", router)
            is_served(d, router)
        key, other = other, key
    assert not lines(d.log("r0"), "worker refused", "pid=%d" % d.processes[key].pid)
    d.key = key


def stopped_and_replaced(d):
    """The old one hangs: its successor takes over when it counts as lost, and it ends when it is back."""
    old, new = d.key, "again" if d.key == "first" else "first"
    hung = d.processes[old]
    for router in ("r0", "r1"):
        d.kill(router)
        d.router(router, "--hang-timeout", "3s")
        d.becomes(old, "ready", router)
    hung.send_signal(signal.SIGSTOP)
    d.worker(new, name="w0", routers=("r0", "r1"))
    for router in ("r0", "r1"):
        d.becomes(new, "ready", router)
        is_served(d, router)
    hung.send_signal(signal.SIGCONT)
    assert hung.wait(60) == 78, hung.returncode
    for router in ("r0", "r1"):
        assert d.state(new, router) == "ready"
        is_served(d, router)
    d.stop()


def main():
    tally = Tally()
    folder = Path(tempfile.mkdtemp(prefix="tandem-one-"))
    tiny = [folder / "a.gguf", folder / "b.gguf"]
    for seed, path in enumerate(tiny, 1):
        subprocess.run([TOOLS / "tiny_gguf_cli", "q8_0", str(seed), "own", path], check=True)
    d = Daemons(folder)
    try:
        tally.run("a wrong worker that comes first serves nothing and keeps nobody out", wrong_worker_first, d, tiny)
        tally.run("the router's model outlives its workers", pin_outlives_all_workers, d, tiny)
        tally.run("a replaced model is not served by the old router", replaced_model, d, tiny)
        tally.run("the second worker of a name ends with 78, the first goes on", second_of_a_name, d)
        tally.run("a killed worker's restart is taken at once", killed_and_restarted, d)
        tally.run("a hanging worker is superseded, and ends when it is back", stopped_and_replaced, d)
    finally:
        if tally.failed:
            for log in sorted(folder.glob("*.log")):
                print(f"== {log.name}\n{log.read_text(errors='replace')[-1500:]}")
        d.stop()
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(tally.end())


main()
