#!/usr/bin/env python3
"""Clusters on hosts that have IPv6 alone: in network namespaces of the test's own, where 127.0.0.1 is taken away.

SKIPPED where namespaces may not be made (root, iproute2, util-linux) or the kernel has no IPv6.
"""
import contextlib
import ctypes
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from cluster import BIN, Skip, Tally, eventually

CLONE_NEWNET = 0x40000000
LOAD = ("--prompt-tokens", "8", "--max-tokens", "4", "--requests", "3", "--profile", "synchronous", "--quiet")
# socket(AF_INET6, ...) fails as on a kernel without IPv6: load the number of the call, compare, load the family, compare, refuse.
NO_IPV6 = ((0x20, 0, 0, 0), (0x15, 0, 3, 41), (0x20, 0, 0, 16), (0x15, 0, 1, socket.AF_INET6), (0x06, 0, 0, 0x00050000 | 97),
           (0x06, 0, 0, 0x7FFF0000))


def ip(*args):
    subprocess.run(["ip", *args], check=True, capture_output=True, text=True)


def enter_own_network():
    """This process, and all that it starts, from here on. None, or why not."""
    if not shutil.which("ip") or not shutil.which("nsenter"):
        return "needs iproute2 and util-linux"
    if not Path("/proc/net/if_inet6").exists():
        return "the kernel has no IPv6"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        return f"no network namespace: {os.strerror(ctypes.get_errno())}"
    ip("link", "set", "lo", "up")
    ip("addr", "del", "127.0.0.1/8", "dev", "lo")
    return None


def without_ipv6():
    """For a child: what it starts cannot open a socket of IPv6."""
    libc = ctypes.CDLL(None, use_errno=True)
    rows = b"".join(code.to_bytes(2, "little") + bytes((yes, no)) + k.to_bytes(4, "little") for code, yes, no, k in NO_IPV6)
    program = ctypes.create_string_buffer(rows, len(rows))
    fprog = (len(NO_IPV6)).to_bytes(8, "little") + ctypes.addressof(program).to_bytes(8, "little")
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.create_string_buffer(fprog, 16), 0, 0) != 0:
        os._exit(99)


def get(host, port, path="/admin/status", body=None):
    connection = http.client.HTTPConnection(host, port, timeout=60)
    with contextlib.closing(connection):
        headers = {"Content-Type": "application/json"}
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def run(*args, host=None):
    return subprocess.run([*(host.enter if host else []), BIN / args[0], *map(str, args[1:])], capture_output=True, text=True,
                          timeout=120, stdin=subprocess.DEVNULL)


def command(*args, host=None):
    done = run(*args, host=host)
    assert done.returncode == 0, (args, done.stdout[-500:], done.stderr[-800:])
    return done.stdout


def refused(*args):
    """Its one line."""
    done = run(*args)
    assert done.returncode != 0 and done.stderr.count("\n") == 1, (args, done)
    return done.stderr


class Host:
    """A host of its own on the same wire: this process's where `pid` is None."""

    def __init__(self, pid=None):
        self.enter = ["nsenter", "-t", str(pid), "-n"] if pid else []


class Programs:
    """Daemons that end with the block."""

    def __init__(self, folder):
        self.folder, self.all = folder, []

    def __enter__(self):
        return self

    def start(self, name, *args, host=Host(), **kwargs):
        path = self.folder / f"{name}.log"
        with path.open("wb") as log:
            process = subprocess.Popen([*host.enter, BIN / args[0], *map(str, args[1:])], stdout=log, stderr=log, **kwargs)
        self.all.append(process)

        def wait_for(pattern):
            def look():
                found = re.search(pattern, path.read_text(errors="replace"))
                assert found or process.poll() is None, path.read_text(errors="replace")[-800:]
                return found
            return eventually(look, f"{pattern} of {name}")
        return wait_for

    def __exit__(self, *_):
        for process in self.all:
            process.terminate()
        for process in self.all:
            process.wait(60)


def up(programs, host, *args):
    """`tandem up` at this address; its URL and port."""
    wait_for = programs.start(f"up-{len(programs.all)}", "tandem", "up", "hash", "--host", host, "--port", 0, *args)
    url = wait_for(r"(?m)^ready (\S+)$").group(1)
    return url, int(url.rsplit(":", 1)[1])


def every_command_asks_an_address(folder):
    with Programs(folder) as programs:
        url, port = up(programs, "::1")
        assert url == f"http://[::1]:{port}", url
        for form in (url, f"[::1]:{port}", f"http://[0:0::1]:{port}/v1"):
            assert command("tandem", "status", "--server", form).count(" ready ") == 2
        assert command("tandem", "chat", "--server", url, "--max-tokens", 4, "hi").strip()
        assert "decode0" in command("tandem", "top", "--once", "--server", url)
        assert "127.0.0.1" not in command("tandem", "status", "--server", url)
        for scheme in ("http", "grpc"):
            command("tandem-bench", "load", "--target", f"{scheme}://[::1]:{port}", *LOAD)
        assert "an IPv6 address must be in brackets" in refused("tandem", "status", "--server", f"http://::1:{port}")


def every_address_is_served(folder):
    """What listens everywhere is asked over the one loopback address that there is."""
    for host in ("*", "::", "[::]"):
        with Programs(folder) as programs:
            url, port = up(programs, host)
            assert url == ("http://0.0.0.0" if host == "*" else "http://[::]") + f":{port}", url
            assert get("::1", port, "/readyz")[0] == 200
            assert command("tandem", "chat", "--server", url, "--max-tokens", 4, "hi").strip()


def host_is_sent_in_brackets(_):
    """What clients send in Host, and say in an error."""
    ip("addr", "add", "fe80::7/64", "dev", "lo", "nodad")
    with socket.create_server(("::", 0), family=socket.AF_INET6) as server:
        port = server.getsockname()[1]
        for address, sent in (("[::1]", "[::1]"), ("[fe80::7%lo]", "[fe80::7]"), ("[fe80::7%25lo]", "[fe80::7]"),
                              ("[::]", "[::]")):
            seen = []

            def answer():
                client, _ = server.accept()
                with client:
                    seen.append(client.recv(65536).decode())
                    client.sendall(b"HTTP/1.1 418 Teapot\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

            thread = threading.Thread(target=answer, daemon=True)
            thread.start()
            done = run("tandem", "status", "--server", f"http://{address}:{port}")
            thread.join(10)
            assert seen and f"\r\nHost: {sent}:{port}\r\n" in seen[0], (address, seen, done.stderr)
            assert "418" in done.stderr, done
    assert f"[::1]:{port}: Connection refused" in refused("tandem", "status", "--server", f"http://[::1]:{port}")


def daemons_meet_over_an_address_without_brackets(folder):
    """As a pod is given it: tcp://$(POD_IP):PORT. The worker's figures are asked, too."""
    with Programs(folder) as programs:
        router = programs.start("router", "tandem-router", "--model", "hash", "--listen", "::1:0", "--announce", "tcp://::1:0")
        found = router(r'"router ready".* port=(\d+) .*announce=tcp://(\[::1\]:\d+)')
        announce = "tcp://" + found.group(2).replace("[", "").replace("]", "")
        worker = programs.start("worker", "tandem-worker", "--model", "hash", "--name", "w0", "--endpoint", "tcp://::1:0",
                                "--routers", announce, "--admin", "[::1]:0")
        admin = int(worker(r'"worker ready".* endpoint=tcp://\[::1\]:\d+ .*admin=(\d+)').group(1))
        port = int(found.group(1))
        eventually(lambda: get("::1", port, "/readyz")[0] == 200, "the worker is met")
        assert get("::1", admin, "/readyz")[0] == 200 and "tandem_" in get("::1", admin, "/metrics")[1]
        assert get("::1", port, "/v1/completions", {"prompt": "x", "max_tokens": 3})[0] == 200


@contextlib.contextmanager
def second_host():
    """Two hosts with a wire between them: fd00::1 here, fd00::2 there."""
    there = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
    try:
        own = os.readlink("/proc/self/ns/net")
        eventually(lambda: os.readlink(f"/proc/{there.pid}/ns/net") != own, "the other namespace")
        ip("link", "add", "here0", "type", "veth", "peer", "name", "there0", "netns", str(there.pid))
        ip("addr", "add", "fd00::1/64", "dev", "here0", "nodad")
        ip("addr", "add", "fe80::1/64", "dev", "here0", "nodad")
        ip("link", "set", "here0", "up")
        for words in ("link set lo up", "addr del 127.0.0.1/8 dev lo", "addr add fd00::2/64 dev there0 nodad",
                      "link set there0 up"):
            subprocess.run(["nsenter", "-t", str(there.pid), "-n", "ip", *words.split()], check=True)
        yield Host(there.pid)
    finally:
        there.kill()
        there.wait()
        with contextlib.suppress(subprocess.CalledProcessError):
            ip("link", "del", "here0")


def workers_of_two_hosts_are_one_cluster(folder):
    keys = folder / "keys"
    command("tandem", "keys", keys)
    cluster = ("--model", "hash", "--keys", keys)
    with second_host() as there, Programs(folder) as programs:
        router = programs.start("router", "tandem-router", *cluster, "--listen", "[::]:0", "--announce", "tcp://[::]:0")
        found = router(r'"router ready".* port=(\d+) .*announce=tcp://\[::\]:(\d+)')
        port, announce = int(found.group(1)), int(found.group(2))

        def work(name, role, endpoint, host=Host()):
            return programs.start(name, "tandem-worker", *cluster, "--name", name, "--role", role, "--endpoint", endpoint,
                                  "--routers", f"tcp://fd00::1:{announce}", host=host)
        work("p0", "prefill", "tcp://here0:0")(r'"worker ready".* endpoint=tcp://\[fd00::1\]:')
        work("d0", "decode", "tcp://fd00::2:0", there)(r'"worker ready".* endpoint=tcp://\[fd00::2\]:')
        work("d1", "decode", "tcp://there0:*", there)(r'"worker ready".* endpoint=tcp://\[fd00::2\]:')
        eventually(lambda: get("::1", port, "/readyz")[1].count('"workers":3'), "three workers")
        command("tandem-bench", "load", "--target", f"http://[fd00::1]:{port}", *LOAD, host=there)
        handoffs = re.search(r"(?m)^tandem_router_handoffs_total(?:\{.*\})? (\S+)", get("::1", port, "/metrics")[1])
        assert float(handoffs.group(1)) >= 3, "KV goes from host to host"


def a_zone_is_taken_or_refused(folder):
    """Clients and those who listen take it; what other hosts are told must not have one."""
    with second_host(), Programs(folder) as programs:
        router = programs.start("zone", "tandem-router", "--model", "hash", "--listen", "[fe80::1%here0]:0",
                                "--announce", f"ipc://{folder}/zone")
        port = int(router(r'"router ready".* port=(\d+)').group(1))
        for zone in ("%here0", "%25here0"):
            words = refused("tandem", "status", "--server", f"http://[fe80::1{zone}]:{port}")
            assert "Admin routes answer on a loopback address alone" in words, words
    keys = folder / "zone-keys"
    command("tandem", "keys", keys)
    worker = ("tandem-worker", "--model", "hash", "--name", "w", "--keys", keys, "--routers", "tcp://[::1]:1", "--endpoint")
    for args in ((*worker, "tcp://[fe80::1]:0"), ("tandem-router", "--model", "hash", "--listen", "[fe80::1]:0"),
                 ("tandem", "status", "--server", "http://[fe80::1]:80")):
        assert "a link-local address needs its interface: [fe80::1%eth0]" in refused(*args)
    with second_host():
        assert "is a link-local address, whose zone only this host knows" in refused(*worker, "tcp://[fe80::1%here0]:0")


def all_addresses(folder, both, **kwargs):
    """A router and a worker at [::]: the router's port and the worker's of figures answer at each address of `both`."""
    with Programs(folder) as programs:
        keys = folder / f"keys-{len(os.listdir(folder))}"
        command("tandem", "keys", keys)
        router = programs.start("router", "tandem-router", "--model", "hash", "--listen", "[::]:0", "--announce",
                                "tcp://[::]:0", "--keys", keys, **kwargs)
        found = router(r'"router ready".* port=(\d+) .*announce=tcp://\S+:(\d+)')
        worker = programs.start("worker", "tandem-worker", "--model", "hash", "--name", "w0", "--endpoint", "tcp://127.0.0.1:0",
                                "--keys", keys, "--routers", f"tcp://127.0.0.1:{found.group(2)}", "--admin", "[::]:0", **kwargs)
        admin = int(worker(r'"worker ready".* admin=(\d+)').group(1))
        for host in both:
            eventually(lambda: get(host, int(found.group(1)), "/readyz")[0] == 200, f"the router's port at {host}")
            assert get(host, admin, "/readyz")[0] == 200, host


def the_wildcard_of_ipv6_serves_both(folder):
    """Where the system says that IPv6 sockets are for IPv6 alone, too; and where the kernel has no IPv6, IPv4."""
    ip("addr", "add", "127.0.0.1/8", "dev", "lo")
    all_addresses(folder, ("127.0.0.1", "::1"))
    Path("/proc/sys/net/ipv6/bindv6only").write_text("1")
    all_addresses(folder, ("127.0.0.1", "::1"))
    Path("/proc/sys/net/ipv6/bindv6only").write_text("0")


def without_ipv6_the_wildcard_is_ipv4(folder):
    if os.uname().machine != "x86_64":
        raise Skip("the filter of calls is for x86_64")
    probe = subprocess.run([sys.executable, "-c", "import socket; socket.socket(socket.AF_INET6)"], capture_output=True,
                           preexec_fn=without_ipv6)
    if probe.returncode == 99:
        raise Skip("calls may not be filtered here")
    assert b"Address family not supported" in probe.stderr, probe
    all_addresses(folder, ("127.0.0.1",), preexec_fn=without_ipv6)


FACTS = [every_command_asks_an_address, every_address_is_served, host_is_sent_in_brackets,
         daemons_meet_over_an_address_without_brackets, workers_of_two_hosts_are_one_cluster, a_zone_is_taken_or_refused,
         the_wildcard_of_ipv6_serves_both, without_ipv6_the_wildcard_is_ipv4]


def main():
    tally = Tally()
    if reason := enter_own_network():
        tally.skip("clusters of IPv6 alone", reason)
        return tally.end()
    with tempfile.TemporaryDirectory(prefix="tandem-ipv6-") as name:
        for fact in FACTS:
            folder = Path(name) / fact.__name__
            folder.mkdir()
            tally.run(fact.__name__.replace("_", " "), fact, folder)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
