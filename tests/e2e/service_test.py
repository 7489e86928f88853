#!/usr/bin/env python3
"""Daemons as systemd runs them, without systemd: a socket handed over, a notify socket, a watchdog, a journal.

What a real one makes of the units is tests/package/installed_test.py's.
"""
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from cluster import BIN, ROOT, TOOLS, Skip, Tally, eventually, hash_answer, post_json, request

UNITS = ROOT / "deploy" / "systemd"


class Manager:
    """Starts daemons and hears what they say of themselves: [(name, line)] in `said`."""

    def __init__(self, folder):
        self.folder, self.said, self.processes, self.sockets, self.threads = folder, [], {}, [], []
        self.doors = {name: socket.create_server(("127.0.0.1", 0), backlog=512) for name in ("router", "router1")}
        self.ports = {name: door.getsockname()[1] for name, door in self.doors.items()}
        self.port = self.ports["router"]

    def start(self, name, program, *args, door=False, watchdog_s=0, journal=None):
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        path = self.folder / f"{name}.notify"
        path.unlink(missing_ok=True)
        notify.bind(str(path))
        self.sockets.append(notify)
        env = {**os.environ, "NOTIFY_SOCKET": str(path)}
        ours, theirs = socket.socketpair()
        if journal:
            stat = os.fstat(theirs.fileno() if journal == "stderr" else 0)
            env["JOURNAL_STREAM"] = f"{stat.st_dev}:{stat.st_ino}"
        if watchdog_s:
            env["WATCHDOG_USEC"] = str(int(watchdog_s * 1e6))
        def child():
            if door:
                os.dup2(self.doors[name].fileno(), 3)
                os.set_inheritable(3, True)
        self.processes[name] = subprocess.Popen([str(BIN / program), *map(str, args)], env=env, stderr=theirs, stdout=theirs,
                                                close_fds=False, preexec_fn=child)
        theirs.close()
        lines = (self.folder / f"{name}.log").open("ab")
        for read, *what in ((self._copy, ours, lines), (self._hear, name, notify)):
            self.threads.append(threading.Thread(target=read, args=what, daemon=True))
            self.threads[-1].start()

    def _copy(self, source, lines):
        with source, lines:
            while chunk := source.recv(65536):
                lines.write(chunk)
                lines.flush()

    def _hear(self, name, notify):
        while text := notify.recv(4096):
            for line in text.decode().splitlines():
                self.said.append((name, line))

    def router(self, name="router", wait="60s", **kwargs):
        self.start(name, "tandem-router", "--model", "hash", "--name", name, "--listen", "fd:3", "--worker-wait", wait,
                   "--announce", f"ipc://{self.folder}/{name}.announce", door=True, **kwargs)

    def worker(self, name="worker", *args, routers=("router",), **kwargs):
        announced = [word for router in routers for word in ("--routers", f"ipc://{self.folder}/{router}.announce")]
        self.start(name, "tandem-worker", "--model", "hash", "--name", name, *announced, "--endpoint", f"ipc://{self.folder}/{name}",
                   "--kv-endpoint", f"ipc://{self.folder}/{name}-kv", *args, **kwargs)

    def heard(self, name, pattern):
        return [line for who, line in self.said if who == name and re.fullmatch(pattern, line)]

    def hears(self, name, pattern):
        return eventually(lambda: self.heard(name, pattern), f"{name} says {pattern}")

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def heard_all(self, name, pattern):
        """As heard(), once what was said until now was read: a word of our own comes behind it."""
        word = f"X_TEST={len(self.said)}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as caller:
            caller.sendto(word.encode(), str(self.folder / f"{name}.notify"))
        self.hears(name, word)
        return self.heard(name, pattern)

    def signal(self, name, number):
        self.processes[name].send_signal(number)

    def end(self, name):
        self.signal(name, signal.SIGTERM)
        return self.processes[name].wait(60)

    def close(self):
        for process in self.processes.values():
            process.kill()
            process.wait()
        for each in self.sockets:
            each.shutdown(socket.SHUT_RDWR)
        # Before what they read is closed: a call that a pause interrupts begins anew, of whatever has the number then.
        for thread in self.threads:
            thread.join()
        for each in self.sockets:
            each.close()
        for door in self.doors.values():
            door.close()


@contextlib.contextmanager
def managed():
    with tempfile.TemporaryDirectory() as name:
        manager = Manager(Path(name))
        try:
            yield manager
        finally:
            manager.close()


def life_is_told():
    """READY when it serves, a status with figures, a reload, and the end."""
    with managed() as manager:
        manager.router()
        manager.worker()
        manager.hears("router", "READY=1")
        manager.hears("worker", "READY=1")
        assert post_json(manager.port, "/v1/completions", {"prompt": [1], "max_tokens": 3, "return_token_ids": True})
        manager.hears("router", r"STATUS=ready: 1 workers, 0 running, 0 waiting")
        eventually(lambda: len(manager.heard("worker", r"STATUS=ready: \d+ running, \d+ waiting, KV \d+ %")) > 1,
                   "the worker's status, again and again")
        n = len(manager.heard("router", "READY=1"))
        manager.signal("router", signal.SIGHUP)
        manager.hears("router", r"RELOADING=1")
        manager.hears("router", r"MONOTONIC_USEC=\d+")
        eventually(lambda: len(manager.heard("router", "READY=1")) == n + 1, "ready again")
        for name in ("router", "worker"):
            assert manager.end(name) == 0
            manager.hears(name, "STOPPING=1")  # its thread may read what was sent a moment after the process is gone
            manager.hears(name, r"EXTEND_TIMEOUT_USEC=40000000")


def watchdog_is_fed_by_the_loop():
    """A process that stands still feeds nobody, and one that goes on does again."""
    with managed() as manager:
        manager.router(watchdog_s=0.2)
        manager.worker(watchdog_s=0.2)
        for name in ("router", "worker"):
            eventually(lambda: len(manager.heard(name, "WATCHDOG=1")) > 5, f"{name} feeds its watchdog")
            manager.signal(name, signal.SIGSTOP)
            os.waitid(os.P_PID, manager.processes[name].pid, os.WSTOPPED)
            n = len(manager.heard_all(name, "WATCHDOG=1"))
            time.sleep(1)
            assert len(manager.heard_all(name, "WATCHDOG=1")) == n
            manager.signal(name, signal.SIGCONT)
            eventually(lambda: len(manager.heard(name, "WATCHDOG=1")) > n, f"{name} goes on")


def restart_refuses_nobody():
    """The socket outlives the router: a client that comes meanwhile is answered by the next one, once a worker is there."""
    with managed() as manager:
        manager.router()
        manager.worker()
        manager.hears("worker", "READY=1")
        body = {"prompt": [1, 2, 3], "max_tokens": 20, "ignore_eos": True, "return_token_ids": True}
        assert post_json(manager.port, "/v1/completions", body)
        assert manager.end("router") == 0
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(request(manager.port, "POST", "/v1/completions", body)))
                   for _ in range(20)]
        for thread in threads:
            thread.start()
        manager.router()
        for thread in threads:
            thread.join()
        assert len(answers) == 20
        for status, _, answer in answers:
            assert status == 200 and json.loads(answer)["choices"][0]["token_ids"] == hash_answer([1, 2, 3], 20), answer[:200]


def without_workers_the_door_opens_too():
    """After --worker-wait, and not before."""
    with managed() as manager:
        began = time.monotonic()
        manager.router(wait="2s")
        manager.hears("router", "READY=1")
        assert request(manager.port, "GET", "/livez")[0] == 200
        assert time.monotonic() - began >= 2


def upgraded_one_by_one_under_load():
    """docs/operations.md's upgrade: each of four workers is drained and started again, then each of two routers."""
    with managed() as manager:
        routers = list(manager.doors)
        roles = {"p0": "prefill", "p1": "prefill", "d0": "decode", "d1": "decode"}
        def start(name):
            manager.worker(name, "--role", roles[name], "--step-us", "3000", routers=routers)
        def ready():
            states = [json.loads(request(port, "GET", "/admin/status")[2])["workers"] for port in manager.ports.values()]
            return [sorted(w["name"] for w in workers if w["state"] == "ready") for workers in states]
        for name in routers:
            manager.router(name)
        for name in roles:
            start(name)
        eventually(lambda: ready() == [sorted(roles)] * 2, "all workers at both routers")
        stop, wrong, served = threading.Event(), [], []
        def load(i):
            prompt = [1, 2, i + 3]
            body = {"prompt": prompt, "max_tokens": 60, "ignore_eos": True, "return_token_ids": True}
            want = hash_answer(prompt, 60)
            while not stop.is_set():
                try:
                    status, _, answer = request(manager.ports[routers[i % 2]], "POST", "/v1/completions", body)
                    ids = json.loads(answer)["choices"][0]["token_ids"] if status == 200 else None
                    (served if ids == want else wrong).append((i, status, answer[:200] if ids != want else None))
                except Exception as error:  # noqa: BLE001 - whatever it is, the call failed
                    wrong.append((i, repr(error)))
        threads = [threading.Thread(target=load, args=(i,)) for i in range(16)]
        for thread in threads:
            thread.start()
        for name in roles:
            for port in manager.ports.values():
                subprocess.run([BIN / "tandem", "drain", "--server", f"http://127.0.0.1:{port}", name, "--exit"], capture_output=True)
            assert manager.processes[name].wait(60) == 0
            start(name)
            eventually(lambda: ready() == [sorted(roles)] * 2, f"{name} again")
        for name in routers:
            assert manager.end(name) == 0
            manager.router(name)
            eventually(lambda: ready()[routers.index(name)] == sorted(roles), f"{name} again")
        stop.set()
        for thread in threads:
            thread.join(60)
        assert served and not wrong, (len(served), len(wrong), wrong[:3])
        return f"{len(served)} answers, all exact"


def journal_lines_have_priorities():
    with managed() as manager:
        manager.router(journal="stderr")
        manager.hears("router", "READY=1")
        assert manager.end("router") == 0
        lines = manager.log("router").splitlines()
        assert lines and all(re.match(r"<[3-7]>level=(debug|info|warn|error) prog=tandem-router msg=", line) for line in lines), lines[:3]
        assert any(line.startswith("<6>level=info") for line in lines)
        manager.start("broken", "tandem-router", "--model", "hash", "--listen", "nowhere", journal="stderr")
        assert manager.processes["broken"].wait(30) == 78
        eventually(lambda: "nowhere" in manager.log("broken"), "the error's line")
        assert re.search("^<3>error: --listen", manager.log("broken"), re.M), manager.log("broken")
        # Standard error was led elsewhere since: the variable alone says nothing.
        manager.start("other", "tandem-router", "--model", "hash", "--listen", "127.0.0.1:0", "--announce", "nowhere", journal="stdin")
        assert manager.processes["other"].wait(30) == 78
        eventually(lambda: re.search("^error: ", manager.log("other"), re.M), "a line without a priority")


def units_are_valid_and_closed():
    """systemd's own judgement of the units, with the programs of this build: no complaint, an exposure of at most 2.0."""
    try:
        subprocess.run(["systemd-analyze", "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        raise Skip("there is no systemd-analyze here") from None
    scores = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in UNITS.iterdir():
            text = path.read_text().replace("@TANDEM_BIN@", str(BIN)).replace("@TANDEM_ETC@", "/etc/tandem")
            text = text.replace("@TANDEM_RESTART_DELAYS@", "RestartSec=5")
            (folder / path.name.removesuffix(".in")).write_text(text)
        units = [folder / "tandem.target", folder / "tandem-router.service", folder / "tandem-worker@prefill0.service"]
        (folder / "tandem-worker@prefill0.service").write_text((folder / "tandem-worker@.service").read_text())
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", *map(str, units)], capture_output=True, text=True,
                              env={**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:"})
        ours = [line for line in done.stderr.splitlines() if "tandem" in line]
        assert not ours, ours
        for unit in units[1:]:
            done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=20", str(unit)],
                                  capture_output=True, text=True)
            assert done.returncode == 0, done.stdout[-300:]
            scores.append(re.search(r"level for \S+: (\S+)", done.stdout)[1])
    return ", ".join(scores)


def mappings(pid):
    """[(name, bytes, flags)] of /proc/PID/smaps."""
    found = []
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        head = re.match(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \S+ *(.*)$", line)
        if head:
            found.append([head[3], int(head[2], 16) - int(head[1], 16), []])
        elif line.startswith("VmFlags:"):
            found[-1][2] = line.split()[1:]
    return found


def cores_leave_prompts_and_kv_out():
    """The units allow none; where one is written, KV, batches and tokens are not in it (flag dd of a mapping)."""
    for unit in UNITS.glob("*.service.in"):
        assert "\nLimitCORE=0\n" in unit.read_text(), unit
    with tempfile.TemporaryDirectory() as name:
        model = str(Path(name) / "tiny.gguf")
        subprocess.run([TOOLS / "tiny_gguf_cli", "f32", "7", "own", model, "wide"], check=True)
        common = ["--model", model, "--threads", "1"]
        plan = json.loads(subprocess.run([BIN / "tandem-worker", "--dry-run", "--json", *common], capture_output=True, text=True,
                                         check=True).stdout)
        serve = [BIN / "tandem-worker", *common, "--name", "w", "--routers", f"ipc://{name}/a", "--kv-blocks", "4096"]
        with open(f"{name}/log", "wb") as log:
            alone = subprocess.Popen([*serve, "--endpoint", f"ipc://{name}/w"], stderr=log)
            leader = subprocess.Popen([*serve, "--endpoint", f"ipc://{name}/x", "--tp", "2", "--ranks-here", "1", "--rank-listen",
                                       f"ipc://{name}/ranks"], stderr=log)
            follower = subprocess.Popen([BIN / "tandem-worker", *common, "--follow", f"ipc://{name}/ranks"], stderr=log)
        processes = [alone, leader, follower]
        try:
            text = Path(name) / "log"
            eventually(lambda: text.read_text().count("worker ready") == 2 or any(p.poll() is not None for p in processes),
                       "two workers")
            left_out = sum(n for _, n, flags in mappings(alone.pid) if "dd" in flags)
            assert left_out >= 4096 * 16 * plan["kv_bytes_per_token"], (left_out, plan)
            for process in processes[1:]:
                shared = [m for m in mappings(process.pid) if m[0].startswith("/memfd:tandem")]
                assert len(shared) >= 2 and all("dd" in flags for _, _, flags in shared), shared
        finally:
            for process in processes:
                process.terminate()
            codes = [process.wait(30) for process in processes]
        assert codes == [0, 0, 0], (codes, text.read_text()[-800:])
        return f"{left_out >> 20} MiB of a worker"


def main():
    tally = Tally()
    for test in (life_is_told, watchdog_is_fed_by_the_loop, restart_refuses_nobody, without_workers_the_door_opens_too,
                 upgraded_one_by_one_under_load,
                 journal_lines_have_priorities, units_are_valid_and_closed, cores_leave_prompts_and_kv_out):
        tally.run(test.__name__, test)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
