#!/usr/bin/env python3
"""Daemons started by hand from one INI file: two routers, two prefill and two decode workers over TCP with CURVE.

A worker that comes late, or back at another address, is used within a second; one without a valid key is refused;
workers are killed under load on both routers and no token is lost.
"""
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cluster import BIN, ROOT, TOOLS, Tally, eventually, get_json, hash_answer, post_json, request
from daemons import free_ports, handshakes_failed


class Daemons:
    def __init__(self, folder):
        self.folder = folder
        subprocess.run([BIN / "tandem", "keys", folder / "keys"], check=True, capture_output=True)
        self.ports = free_ports(4)
        self.http = self.ports[:2]
        self.announce = [f"tcp://127.0.0.1:{p}" for p in self.ports[2:]]
        self.processes = {}
        self.ini = folder / "tandem.ini"
        self.write({name: free_ports(2) for name in ("prefill0", "prefill1", "decode0", "decode1")})

    def write(self, endpoints):
        self.endpoints = endpoints
        text = f"[cluster]\nkeys = {self.folder}/keys\nmodel = hash\n\n[router]\npolicy = least_load\n"
        for name, (port, kv_port) in endpoints.items():
            text += (f"\n[worker.{name}]\nrole = {name[:-1]}\nrouters = {', '.join(self.announce)}\n"
                     f"endpoint = tcp://127.0.0.1:{port}\nkv_endpoint = tcp://127.0.0.1:{kv_port}\nstep_us = 5000\n"
                     f"threads = 1\n")
        self.ini.write_text(text)

    def start(self, program, name, *args):
        log = open(self.folder / f"{name}.log", "ab")
        self.processes[name] = subprocess.Popen([BIN / program, "--config", self.ini, *args], stdout=log, stderr=log)
        log.close()

    def start_router(self, i):
        self.start("tandem-router", f"router{i}", "--listen", f"127.0.0.1:{self.http[i]}", "--announce", self.announce[i])

    def start_worker(self, name, *args):
        self.start("tandem-worker", name, "--name", name, *args)

    def ready(self, i):
        try:
            return {w["name"] for w in get_json(self.http[i], "/admin/status")["workers"] if w["state"] == "ready"}
        except (OSError, AssertionError):
            return set()

    def stop(self):
        for process in self.processes.values():
            process.terminate()
        codes = {}
        for name, process in self.processes.items():
            try:
                codes[name] = process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                codes[name] = "did not stop"
        return codes


def parsed(text):
    """{(section, key): (the comment before it, its value, whether it stands as a comment)} of an INI file like our sample."""
    keys, section, comment = {}, None, []
    for line in text.splitlines():
        if line.startswith("["):
            section, comment = line[1:-1], []
        elif match := re.fullmatch(r"(#?)(\w+) =(.*)", line):
            keys[section, match[2]] = (" ".join(comment), match[3].strip(), match[1] == "#")
            comment = []
        else:
            comment = comment + [line[2:]] if line.startswith("# ") else []
    return keys


def sample_is_what_the_programs_print():
    """deploy/tandem.ini has every key that --print-config has, with its words and, where commented out, its default. Words that
    differ from build to build, as those of a backend, it leaves to --help."""
    printed, env = {}, {name: value for name, value in os.environ.items() if not name.startswith("TANDEM_")}
    for program in ("tandem-router", "tandem-worker"):
        done = subprocess.run([BIN / program, "--print-config"], capture_output=True, text=True, timeout=60, check=True, env=env)
        for key, row in parsed(done.stdout).items():
            assert printed.setdefault(key, row) == row, f"{key}: the two programs say different things"
    sample = {at: row for at, row in parsed((ROOT / "deploy/tandem.ini").read_text()).items() if "." not in at[0]}
    assert sample.keys() == printed.keys(), sample.keys() ^ printed.keys()
    for at, (comment, value, off) in sample.items():
        words = printed[at][0]
        assert comment in (words, re.sub(r"; one of: .*", "; --help lists the words", words)), (at, comment, words)
        assert not off or value == printed[at][1] or not printed[at][1], (at, value, printed[at][1])
    return f"{len(sample)} keys"


def sample_is_accepted(folder):
    """deploy/tandem.ini, every key of it: only the model and the addresses are this test's."""
    sample = ROOT / "deploy/tandem.ini"
    announce, port = f"ipc://{folder}/sample/announce", free_ports(1)[0]
    whole = folder / "whole.ini"  # with what it only mentions
    whole.write_text(re.sub(r"^#(?=\w+ = |\[)", "", sample.read_text(), flags=re.M))
    for file, name in itertools.product((sample, whole), ("prefill0", "decode0")):
        done = subprocess.run([BIN / "tandem-worker", "--config", file, "--name", name, "--model", "hash", "--dry-run",
                               "--json"], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0 and json.loads(done.stdout)["fits"], (done.stdout, done.stderr)
    router = subprocess.Popen([BIN / "tandem-router", "--config", sample, "--model", "hash", "--listen",
                               f"127.0.0.1:{port}", "--announce", announce], stderr=subprocess.PIPE, text=True)
    try:
        eventually(lambda: router.poll() is not None or answers(port), "the router of the sample")
        assert router.poll() is None, router.stderr.read()
    finally:
        router.terminate()
        router.communicate(timeout=30)
    assert router.returncode == 0


def addresses_that_cannot_be_served(folder):
    """A worker's address is what others are told: everywhere is none, and a name is not looked up. An interface is one."""
    keys = folder / "address-keys"
    subprocess.run([BIN / "tandem", "keys", keys], check=True, capture_output=True)
    router = ["--routers", "tcp://127.0.0.1:1"]
    for option, address, words in (("--endpoint", "tcp://0.0.0.0:0", "not an address that others can connect to"),
                                   ("--endpoint", "tcp://*:0", "not an address that others can connect to"),
                                   ("--kv-endpoint", "tcp://[::]:0", "not an address that others can connect to"),
                                   ("--endpoint", "tcp://no-such-host.example:0", "no address or interface of this host")):
        given = [option, address] if option == "--endpoint" else ["--endpoint", "tcp://127.0.0.1:0", option, address]
        done = subprocess.run([BIN / "tandem-worker", "--model", "hash", "--name", "x", "--keys", keys, *router, *given],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 78 and words in done.stderr and option.strip("-") in done.stderr, (address, done.stderr)
    log = folder / "interface.log"
    with log.open("wb") as out:
        worker = subprocess.Popen([BIN / "tandem-worker", "--model", "hash", "--name", "x", "--keys", keys, *router, "--endpoint",
                                   "tcp://lo:0"], stderr=out)
    try:
        eventually(lambda: "endpoint=tcp://127.0.0.1:" in log.read_text() or worker.poll() is not None, "the worker's line")
        assert worker.poll() is None, log.read_text()
    finally:
        worker.terminate()
        worker.wait(30)


def answers(port):
    try:
        return request(port, "GET", "/livez")[0] == 200
    except OSError:
        return False


def all_up(d):
    for i in range(2):
        d.start_router(i)
    for name in ("prefill0", "decode0", "decode1"):
        d.start_worker(name)
    for i in range(2):
        eventually(lambda: d.ready(i) == {"prefill0", "decode0", "decode1"}, f"three workers at router {i}")
    prompt = list(range(1, 200))
    for port in d.http:
        choice = post_json(port, "/v1/completions", {"prompt": prompt, "max_tokens": 32, "temperature": 0,
                                                     "return_token_ids": True})["choices"][0]
        assert choice["token_ids"] == hash_answer(prompt, 32)


def late_worker(d):
    began = time.monotonic()
    d.start_worker("prefill1")
    for i in range(2):
        eventually(lambda: "prefill1" in d.ready(i), f"the late worker at router {i}")
    return f"{time.monotonic() - began:.2f} s after its start"


def other_address(d):
    d.processes["decode1"].kill()
    d.processes["decode1"].wait()
    for i in range(2):
        eventually(lambda: "decode1" not in d.ready(i), "its death seen")
    d.write(dict(d.endpoints, decode1=free_ports(2)))
    began = time.monotonic()
    d.start_worker("decode1")
    for i in range(2):
        eventually(lambda: "decode1" in d.ready(i), f"back at router {i}")
    return f"{time.monotonic() - began:.2f} s after its start"


def wrong_key(d):
    other = d.folder / "other-keys"
    subprocess.run([BIN / "tandem", "keys", other], check=True, capture_output=True)
    before = [handshakes_failed(port) for port in d.http]
    ports = free_ports(2)
    d.start("tandem-worker", "intruder", "--name", "decode0", "--keys", other, "--endpoint", f"tcp://127.0.0.1:{ports[0]}",
            "--kv-endpoint", f"tcp://127.0.0.1:{ports[1]}")
    intruder = d.processes.pop("intruder")
    try:
        for i, port in enumerate(d.http):
            eventually(lambda: handshakes_failed(port) > before[i], f"its handshake refused by router {i}")
            said = d.folder / f"router{i}.log"
            eventually(lambda: re.search('msg="handshakes fail".* n=[1-9]', said.read_text()), f"router {i} says so")
        assert intruder.poll() is None, (d.folder / "intruder.log").read_text()
        for i, port in enumerate(d.http):
            workers = get_json(port, "/admin/status")["workers"]
            assert intruder.pid not in [w["pid"] for w in workers], workers
            assert d.ready(i) == {"prefill0", "prefill1", "decode0", "decode1"}
    finally:
        intruder.kill()
        intruder.wait()
    readable = d.folder / "loose-keys"
    shutil.copytree(other, readable)
    for path in readable.iterdir():
        path.chmod(0o644)
    loose = subprocess.run([BIN / "tandem-worker", "--config", d.ini, "--name", "decode0", "--keys", readable],
                           capture_output=True, text=True, timeout=30)
    assert loose.returncode == 78 and "error" in loose.stderr, (loose.returncode, loose.stderr[-300:])


def killed_under_load(d, n_kills):
    checks = [subprocess.Popen([TOOLS / "hash_check", "--target", f"http://127.0.0.1:{port}", "--streams", "32",
                                "--tokens", "256", "--seconds", "600", "--seed", str(port)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True) for port in d.http]
    chance = random.Random(3)
    results = []
    try:
        for _ in range(n_kills):
            time.sleep(2)
            name = chance.choice(["prefill0", "prefill1", "decode0", "decode1"])
            d.processes[name].send_signal(signal.SIGKILL)
            d.processes[name].wait()
            d.start_worker(name)
            for i in range(2):
                eventually(lambda: len(d.ready(i)) == 4, "four workers again")
        for check in checks:
            check.send_signal(signal.SIGTERM)
        for check in checks:
            out, problems = check.communicate(timeout=120)
            results.append(json.loads(out))
            assert check.returncode == 0, (out, problems)
    finally:
        for check in checks:
            check.kill()
    return results


def main():
    tally = Tally()
    folder = Path(tempfile.mkdtemp(prefix="tandem-daemons-"))
    d = Daemons(folder)
    try:
        tally.run("the sample configuration is what the programs print", sample_is_what_the_programs_print)
        tally.run("the sample configuration is accepted", sample_is_accepted, folder)
        tally.run("addresses that cannot be served are refused", addresses_that_cannot_be_served, folder)
        tally.run("two routers and three workers serve over CURVE", all_up, d)
        tally.run("a worker that comes late is used", late_worker, d)
        tally.run("a worker back at another address is used", other_address, d)
        tally.run("a worker without a valid key is refused", wrong_key, d)
        tally.run("killed workers cost no token on either router", killed_under_load, d,
                  int(os.environ.get("TANDEM_KILLS", "5")))

        def stops():
            codes = d.stop()
            assert all(code == 0 for code in codes.values()), codes
        tally.run("SIGTERM stops everything with exit code 0", stops)
    finally:
        d.stop()
        if tally.failed:
            for log in sorted(folder.glob("*.log")):
                print(f"== {log.name}\n{log.read_text(errors='replace')[-1500:]}")
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(tally.end())


main()
