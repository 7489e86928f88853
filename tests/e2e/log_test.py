#!/usr/bin/env python3
"""Standard error and standard output that nobody reads, that are gone, stopped or full: the service goes on.

Lines are lost then, counted, and reported as one line once somebody reads again. An error of a child of `tandem up`
is said once, at the end. No command ends with 0 when standard output could not be written.
"""
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import termios
import threading
from pathlib import Path

from cluster import BIN, Cluster, Tally, eventually, get_json, request
from daemons import free_ports

BODY = {"prompt": [1, 2, 3], "max_tokens": 1, "temperature": 0}
N_REQUESTS = 2000  # of about 400 bytes each in the log: more than a pipe and the ring hold


def health(port):
    try:
        return request(port, "GET", "/health", timeout=60)[0] == 200
    except OSError:
        return False


def ask(port, n):
    connection_errors = []

    def some():
        for _ in range(n // 4):
            status, _, body = request(port, "POST", "/v1/completions", BODY, timeout=60)
            if status != 200:
                connection_errors.append((status, body[:200]))
    threads = [threading.Thread(target=some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not connection_errors, connection_errors[:3]


def end(process):
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(60)
    finally:
        process.kill()


def sleeping_reader(folder):
    """Router and worker share one pipe that nobody reads until the end."""
    reader, writer = os.pipe()
    port = free_ports(1)[0]
    announce = f"ipc://{folder}/announce"
    router = subprocess.Popen([BIN / "tandem-router", "--model", "hash", "--listen", f"127.0.0.1:{port}", "--announce",
                               announce], stderr=writer)
    worker = subprocess.Popen([BIN / "tandem-worker", "--model", "hash", "--name", "w0", "--routers", announce,
                               "--endpoint", f"ipc://{folder}/w0"], stderr=writer)
    os.close(writer)
    try:
        eventually(lambda: health(port), "the router")
        ask(port, N_REQUESTS)
        assert health(port)
        text = []
        drain = threading.Thread(target=lambda: text.append(open(reader, errors="replace").read()))
        drain.start()
        ask(port, 4)  # the report does not need them; the lines behind it show that the log goes on
        assert [end(worker), end(router)] == [0, 0]
        drain.join(60)
    finally:
        router.kill()
        worker.kill()
    lines = text[0].splitlines()
    lost = [int(line.split(" n=")[1]) for line in lines if 'msg="log lines lost"' in line and "prog=tandem-router" in line]
    done = sum('msg="request done"' in line for line in lines)
    assert all(line.startswith("ts=") for line in lines), [line for line in lines if not line.startswith("ts=")][:3]
    assert lost and min(lost) > 0, lost  # once more for each time that the reader came late
    assert done + sum(lost) == N_REQUESTS + 4, (done, lost)
    assert any('msg="router ends"' in line for line in lines)
    return f"{sum(lost)} lines lost, {done} request lines"


def pid_of(port, name):
    return next((w["pid"] for w in get_json(port, "/admin/status")["workers"] if w["name"] == name and w["state"] == "ready"), None)


def stopped_terminal():
    """Ctrl-S: both outputs of `tandem up` are a terminal that takes nothing."""
    master, slave = pty.openpty()
    port = free_ports(1)[0]
    termios.tcflow(slave, termios.TCOOFF)
    process = subprocess.Popen([BIN / "tandem", "up", "--model", "hash", "--listen", f"127.0.0.1:{port}"], stdout=slave,
                               stderr=slave)
    try:
        eventually(lambda: health(port), "the cluster")
        ask(port, 200)
        assert health(port)
        eventually(lambda: pid_of(port, "decode0"), "the worker that is killed")
        dead = pid_of(port, "decode0")
        os.kill(dead, signal.SIGKILL)
        eventually(lambda: pid_of(port, "decode0") not in (None, dead), "the worker, started again by a loop that nothing holds")
        shown = b""
        termios.tcflow(slave, termios.TCOON)
        while b"try: tandem chat" not in shown:
            shown += os.read(master, 65536)
        assert f"ready http://127.0.0.1:{port}\r\n".encode() in shown, shown[-500:]
        termios.tcflow(slave, termios.TCOOFF)
        ask(port, 40)
        assert end(process) == 0
    finally:
        process.kill()
        os.close(master)
        os.close(slave)


def gone_readers():
    """Standard output's reader is gone before the ready line, standard error's after the first line."""
    port = free_ports(1)[0]
    process = subprocess.Popen([BIN / "tandem", "up", "--model", "hash", "--listen", f"127.0.0.1:{port}"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        process.stdout.close()
        process.stderr.readline()
        process.stderr.close()
        eventually(lambda: health(port), "the cluster")
        ask(port, 40)
        assert process.poll() is None and health(port)
        assert end(process) == 0
    finally:
        process.kill()


def full_disk():
    port = free_ports(1)[0]
    with open("/dev/full", "wb") as full:
        process = subprocess.Popen([BIN / "tandem", "up", "--model", "hash", "--listen", f"127.0.0.1:{port}"],
                                   stdout=full, stderr=full)
    try:
        eventually(lambda: health(port), "the cluster")
        ask(port, 40)
        assert end(process) == 0
    finally:
        process.kill()


def output_must_be_written():
    with Cluster() as cluster, open("/dev/full", "wb") as full:
        server = ["--server", cluster.url]
        for command in (["tandem", "--version"], ["tandem", "--help"], ["tandem", "keys", "--help"],
                        ["tandem", "up", "--help"], ["tandem", "model", "info", "hash"],
                        ["tandem", "status", *server], ["tandem", "status", "--json", *server],
                        ["tandem", "chat", *server, "--max-tokens", "2", "x"], ["tandem-bench", "--version"],
                        ["tandem-router", "--version"], ["tandem-worker", "--help"],
                        ["tandem-worker", "--dry-run", "--json", "--model", "hash"]):
            done = subprocess.run([BIN / command[0], *command[1:]], stdout=full, stderr=subprocess.PIPE, text=True,
                                  timeout=60)
            assert done.returncode == 1, (command, done.returncode, done.stderr)
            assert "error: standard output: No space left on device" in done.stderr, (command, done.stderr)
            good = subprocess.run([BIN / command[0], *command[1:]], capture_output=True, text=True, timeout=60)
            assert good.returncode == 0 and good.stdout and not good.stderr, (command, good)


def errors_of(*args):
    done = subprocess.run([BIN / "tandem", "up", "--listen", "127.0.0.1:0", *args], capture_output=True, text=True,
                          timeout=60)
    lines = done.stderr.splitlines()
    assert done.stdout == "", done.stdout
    return done.returncode, [line for line in lines if "error: " in line], lines[-1]


def each_error_once(folder):
    code, errors, last = errors_of("--model", f"{folder}/missing.gguf")
    assert code == 78 and len(errors) == 1 and errors[0] == last, (code, errors, last)
    assert re.match(r"error: .*/missing.gguf: cannot open it", last), last
    code, errors, last = errors_of("--model", "hash", "--listen", "8000")
    assert code == 78 and errors == [last] and last.startswith('error: --listen: "8000" is not HOST:PORT'), errors
    for _ in range(5):  # sometimes the others are stopped before they say it too
        code, errors, last = errors_of("--model", "hash", "--kv-blocks", "many", "--threads", "lots", "--prefill", "3")
        assert code == 78 and len(errors) == 2 and errors[1] == last, errors
        assert "--kv-blocks" in errors[0] and "--threads" in errors[1], errors
    done = subprocess.run([BIN / "tandem-worker"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 78, done
    assert 'error: --model: is needed: a .gguf file, a model folder, or "hash"' in done.stderr.splitlines(), done.stderr


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="tandem-log-") as name:
        folder = Path(name)
        tally.run("a reader that sleeps costs lines, not requests", sleeping_reader, folder)
        tally.run("a stopped terminal stops nobody", stopped_terminal)
        tally.run("readers that are gone end nothing", gone_readers)
        tally.run("a full disk under the log ends nothing", full_disk)
        tally.run("no command ends with 0 without its output", output_must_be_written)
        tally.run("tandem up says each error once", each_error_once, folder)
    sys.exit(tally.end())


main()
