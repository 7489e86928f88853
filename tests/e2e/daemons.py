"""What tests share that start daemons by hand."""
import contextlib
import os
import random
import signal
import socket
import subprocess
from pathlib import Path

from cluster import BIN, LIMIT_S, eventually, get_json, request


def free_ports(n):
    """Ports that nobody listens on, beside those that the kernel gives to connections: so nobody gets one by chance before it is used."""
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    ports = set()
    while len(ports) < n:
        port = random.SystemRandom().choice([*range(10000, low), *range(high + 1, 65536)] or range(10000, 65536))
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            ports.add(port)
    return list(ports)


def handshakes_failed(port):
    """What the router at this port counts of them."""
    lines = request(port, "GET", "/metrics")[2].decode().splitlines()
    return float(next(line for line in lines if line.startswith("tandem_handshakes_failed_total ")).split()[1])


@contextlib.contextmanager
def running(log, *commands):
    """The commands, their output in the file `log`; told to end behind the block."""
    with open(log, "ab") as file:
        children = [subprocess.Popen(list(map(str, command)), stdout=file, stderr=file) for command in commands]
    try:
        yield
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.wait(LIMIT_S)


class Parts:
    """A router and workers started by hand, each with a backend of its own, of exact numbers; `common` is what all are started with."""

    def __init__(self, folder, model, *common):
        self.folder, self.model, self.common, self.processes = Path(folder), str(model), common, {}

    def __enter__(self):
        self.spawn("router", "tandem-router", "--listen", "127.0.0.1:0", "--announce", f"ipc://{self.folder}/announce")
        eventually(lambda: " port=" in self.log("router"), "a router")
        self.port = int(self.log("router").split(" port=")[1].split()[0])
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(60)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def spawn(self, name, program, *args, **env):
        with open(self.folder / f"{name}.log", "wb") as log:
            self.processes[name] = subprocess.Popen([BIN / program, "--model", self.model, *map(str, args)], stdout=log,
                                                    stderr=log, env=dict(os.environ, **env))

    def worker(self, name, role, backend, *args, **env):
        self.spawn(name, "tandem-worker", "--name", name, "--role", role, "--backend", backend, "--numerics", "exact", "--routers",
                   f"ipc://{self.folder}/announce", "--endpoint", f"ipc://{self.folder}/{name}", *self.common, *args, **env)

    def kill(self, name):
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes.pop(name).wait(60)

    def up(self, n):
        def ready():
            return [w for w in get_json(self.port, "/admin/status")["workers"] if w["state"] == "ready"]
        eventually(lambda: len(ready()) == n, f"{n} workers")
