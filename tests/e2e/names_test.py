#!/usr/bin/env python3
"""Routers behind one DNS name (`routers = dns://NAME:PORT`) come, go and move, and a worker follows: with CURVE keys, IPv4 and IPv6.

The name server is this test's own. Every router has an address of its own of 127.0.0.0/8, or ::1, and the same port.
"""
import contextlib
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from cluster import BIN, Skip, Tally, eventually, get_json
from daemons import free_ports

SHORT, DOMAIN = "tandem-routers", "test"  # as in a Kubernetes pod, whose resolv.conf has the domains to search
NAME = f"{SHORT}.{DOMAIN}"
TYPES = {1: socket.AF_INET, 28: socket.AF_INET6}


class NameServer:
    """Answers questions for A and AAAA over UDP: .addresses are behind NAME; .code is what it answers with, None nothing."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.addresses, self.code, self.silent_types = [], 0, set()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            asked, client = self.socket.recvfrom(512)
            labels, at = [], 12
            while asked[at]:
                labels.append(asked[at + 1:at + 1 + asked[at]].decode())
                at += 1 + asked[at]
            kind = struct.unpack(">H", asked[at + 1:at + 3])[0]
            found = ".".join(labels).lower() == NAME
            code = self.code if self.code or found else 3
            records = b""
            n = 0
            for address in self.addresses if found and not code else []:
                if TYPES.get(kind) == (socket.AF_INET6 if ":" in address else socket.AF_INET):
                    bytes_ = socket.inet_pton(TYPES[kind], address)
                    records += struct.pack(">HHHIH", 0xC00C, kind, 1, 3600, len(bytes_)) + bytes_
                    n += 1
            if self.code is not None and kind not in self.silent_types:
                self.socket.sendto(asked[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, n, 0, 0) + asked[12:at + 5] + records, client)


class Daemon:
    """A program with its log; .wait_for(regex) answers the match."""

    def __init__(self, program, *args):
        self.lines = []
        self.process = subprocess.Popen([BIN / program, "--model", "hash", *args], stderr=subprocess.PIPE, text=True,
                                        env=dict(os.environ, LOCALDOMAIN=DOMAIN))
        self.reader = threading.Thread(target=lambda: self.lines.extend(iter(self.process.stderr.readline, "")), daemon=True)
        self.reader.start()

    def text(self):
        return "".join(self.lines)

    def wait_for(self, pattern):
        return eventually(lambda: re.search(pattern, self.text()), pattern)

    def end(self, kill=False):
        if self.process.poll() is None:
            self.process.kill() if kill else self.process.terminate()
        self.process.wait(60)
        self.reader.join(10)


def has_ipv6():
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


class Scene:
    def __init__(self, folder):
        self.keys = f"{folder}/keys"
        subprocess.run([BIN / "tandem", "keys", self.keys], check=True, capture_output=True)
        self.port = free_ports(1)[0]
        self.server = NameServer()
        self.routers = {}
        self.all = []

    def start(self, address):
        host = f"[{address}]" if ":" in address else address
        router = Daemon("tandem-router", "--name", f"at-{address}", "--listen", "127.0.0.1:0", "--keys", self.keys,
                        "--announce", f"tcp://{host}:{self.port}")
        self.all.append(router)
        router.http = int(router.wait_for(r'"router ready".* port=(\d+)').group(1))
        self.routers[address] = router

    def stop(self, address):
        self.routers.pop(address).end(kill=True)

    def work(self):
        self.worker = Daemon("tandem-worker", "--name", "w0", "--endpoint", "tcp://127.0.0.1:0", "--keys", self.keys,
                             "--routers", f"dns://{SHORT}:{self.port}", "--dns-server", f"127.0.0.1:{self.server.port}")
        self.all.append(self.worker)

    def has_worker(self, address):
        return any(w["state"] == "ready" for w in get_json(self.routers[address].http, "/admin/status")["workers"])

    def until_found(self, address):
        began = time.monotonic()
        eventually(lambda: self.has_worker(address), f"the router at {address} has the worker")
        return time.monotonic() - began


def found_at_once(scene):
    """The worker starts before there is a name; a line says so, and it waits."""
    for address in scene.server_first:
        scene.start(address)
    scene.work()
    scene.worker.wait_for(rf"a name of routers is not resolved.* name={SHORT} kept=0 why=")
    scene.server.addresses = list(scene.server_first)
    return ", ".join(f"{scene.until_found(a):.1f} s" for a in scene.server_first)


def come(scene, times):
    scene.start("127.0.0.3")
    scene.server.addresses = [*scene.server.addresses, "127.0.0.3"]
    times.append(scene.until_found("127.0.0.3"))
    return f"{times[-1]:.1f} s"


def go(scene):
    """One that is not behind the name any more is told nothing: started anew there, it meets no worker."""
    left = [a for a in scene.server.addresses if a != "127.0.0.3"]
    scene.server.addresses = left
    eventually(lambda: "127.0.0.3" not in [line for line in scene.worker.lines if "behind a name" in line][-1], "the worker has heard that 127.0.0.3 is gone")
    scene.stop("127.0.0.3")
    scene.start("127.0.0.3")
    time.sleep(2.2)  # two rounds of announcing
    assert not scene.has_worker("127.0.0.3"), "a router that left the name is told of the worker"
    assert scene.has_worker("127.0.0.2")


def move(scene, times):
    scene.start("127.0.0.4")
    scene.stop("127.0.0.2")
    scene.server.addresses = ["127.0.0.4" if a == "127.0.0.2" else a for a in scene.server.addresses]
    times.append(scene.until_found("127.0.0.4"))
    assert min(times) <= 5, f"what is promised is 5 s: {times}"
    return f"{times[-1]:.1f} s"


def fail(scene):
    """A name that is not answered keeps what it had, for routers that start again as well."""
    n = len(scene.server.addresses)
    scene.server.code = 2
    scene.worker.wait_for(rf"a name of routers is not resolved.* kept={n} why=")
    scene.stop("127.0.0.4")
    scene.start("127.0.0.4")
    scene.until_found("127.0.0.4")
    scene.server.code = 0


def half(scene):
    """Answers for one kind of address alone do not take away what is known of the other."""
    if "::1" not in scene.server.addresses:
        raise Skip("no IPv6 here")
    scene.server.silent_types = {28}
    scene.server.addresses = ["::1", "127.0.0.4", "127.0.0.3"]
    scene.worker.wait_for(r"routers behind a name.* addresses=127.0.0.3,127.0.0.4,::1\n")
    scene.until_found("127.0.0.3")
    scene.server.silent_types = set()


def name_of_tcp(scene):
    """A name that is one router: what is wrong with it is said; it is found by IPv6, behind an address where nobody listens."""
    scene.server.addresses, port = [], free_ports(1)[0]
    worker = Daemon("tandem-worker", "--name", "w1", "--endpoint", "tcp://127.0.0.1:0", "--keys", scene.keys, "--routers",
                    f"tcp://{SHORT}:{port}, tcp://nobody.{DOMAIN}:{port}, tcp://127.0.0.9:{port}", "--dns-server",
                    f"127.0.0.1:{scene.server.port}")
    scene.all.append(worker)
    for name in (SHORT, f"nobody.{DOMAIN}"):
        line = worker.wait_for(rf"still waiting for a router.* router=tcp://{name}:{port} .*").group()
        assert "its name has no address" in line and "no process listens" not in line, line
    line = worker.wait_for(rf"still waiting for a router.* router=tcp://127.0.0.9:{port} .*").group()
    assert "no process listens there" in line, line
    address = "::1" if has_ipv6() else "127.0.0.8"
    host = f"[{address}]" if ":" in address else address
    router = Daemon("tandem-router", "--name", "r1", "--listen", "127.0.0.1:0", "--keys", scene.keys, "--announce",
                    f"tcp://{host}:{port}")
    scene.all.append(router)
    http = int(router.wait_for(r'"router ready".* port=(\d+)').group(1))

    def has_worker():
        return any(w["name"] == "w1" and w["state"] == "ready" for w in get_json(http, "/admin/status")["workers"])
    scene.server.addresses = ["127.0.0.7", address]
    eventually(has_worker, "the router behind the name")
    worker.wait_for(rf"router reached.* router=tcp://{SHORT}:{port}")
    return address


def wrong_options():
    for option, words in ((("--routers", "dns://name"), '"dns://name" is not dns://NAME:PORT'),
                          (("--routers", "dns://a:1", "--dns-server", "not an address"), '"not an address" is not ADDRESS')):
        done = subprocess.run([BIN / "tandem-worker", "--model", "hash", "--name", "w", "--endpoint", "tcp://127.0.0.1:0", *option],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 78 and words in done.stderr, done


tally = Tally()
times = []
with tempfile.TemporaryDirectory() as folder:
    scene = Scene(folder)
    scene.server_first = ["127.0.0.2"] + (["::1"] if has_ipv6() else [])
    try:
        tally.run("every router behind a name is found", found_at_once, scene)
        tally.run("one that comes is found", come, scene, times)
        tally.run("one that goes is left", go, scene)
        tally.run("one that moves is found", move, scene, times)
        tally.run("a name that fails keeps what it had", fail, scene)
        tally.run("half an answer takes nothing away", half, scene)
        tally.run("one router behind a name of tcp:// is found", name_of_tcp, scene)
        tally.run("what is no name or no server is refused", wrong_options)
    finally:
        for daemon in scene.all:
            daemon.end()
        if tally.failed:
            print(scene.worker.text()[-4000:])
sys.exit(tally.end())
