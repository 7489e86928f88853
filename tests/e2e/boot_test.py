#!/usr/bin/env python3
"""What is not there yet when a host boots, or is still held: the exit code says that a later start may succeed, and one does.

Interfaces, addresses, names and mounts are made in a network and a mount of this test's own; what systemd itself makes of the
units is tests/package/installed_test.py's.
"""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from cluster import BIN, ROOT, TOOLS, Skip, Tally, eventually, get_json
from daemons import free_ports

CONFIG, LATER = 78, 75
ADDRESS = "10.9.9.1"
APART = "--apart"
PREVENTED = {int(code) for unit in (ROOT / "deploy/systemd").glob("*.service.in")
             for code in re.findall(r"^RestartPreventExitStatus=(\d+)$", unit.read_text(), re.M)}


class Unit:
    """Starts a program as its unit says: again whenever it fails, but with the codes that prevent it."""

    def __init__(self, folder, name, program, *args):
        self.command = [str(BIN / program), "--name", name, *map(str, args)]
        self.log, self.codes, self.stopped, self.process = folder / f"{name}.log", [], threading.Event(), None
        self.thread = threading.Thread(target=self._keep)

    def _keep(self):
        while not self.stopped.is_set():
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
            code = self.process.wait()
            if self.stopped.is_set() or code == 0 or code in PREVENTED:
                return
            self.codes.append(code)
            self.stopped.wait(0.2)

    def tried(self, words):
        """Twice at least, and each time it said what was not there."""
        eventually(lambda: len(self.codes) >= 2 or not self.thread.is_alive(), f"two tries of {self.log.name}")
        assert self.thread.is_alive() and set(self.codes) == {LATER}, (self.codes, self.log.read_text())
        errors = [line for line in self.log.read_text().splitlines() if line.startswith("error: ")]
        assert errors and all(words in line and line.endswith("; a later start may succeed") for line in errors), errors

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        if self.process:
            self.process.kill()
        self.thread.join()


def ready(port):
    try:
        return sorted(w["name"] for w in get_json(port, "/admin/status")["workers"] if w["state"] == "ready")
    except OSError:
        return []


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=60)


def has_network_of_its_own():
    return APART in sys.argv


def needs_network():
    if not has_network_of_its_own():
        raise Skip("no network of its own (unshare -rn --mount, ip link add type veth)")


def keys_of(folder):
    keys = folder / "keys"
    if not keys.exists():
        subprocess.run([BIN / "tandem", "keys", keys], check=True, capture_output=True, timeout=60)
    return keys


def interface_comes_late(folder):
    """Worker and router on an interface that is made once both were tried in vain."""
    needs_network()
    keys, port = keys_of(folder), free_ports(1)[0]
    common = ["--model", "hash", "--keys", keys]
    with Unit(folder, "router-eth", "tandem-router", *common, "--listen", f"127.0.0.1:{port}", "--announce",
              "tcp://eth9:7001") as router, \
            Unit(folder, "worker-eth", "tandem-worker", *common, "--routers", f"tcp://{ADDRESS}:7001", "--endpoint",
                 "tcp://eth9:7002", "--kv-endpoint", "tcp://eth9:*") as worker:
        router.tried("cannot listen on tcp://eth9:7001")
        worker.tried("endpoint: cannot listen on tcp://eth9:7002")
        ip("link", "add", "eth9", "type", "veth", "peer", "name", "far9")
        n = len(worker.codes)  # an interface without an address is not enough
        eventually(lambda: len(worker.codes) >= n + 2, "two more tries")
        assert not ready(port)
        ip("addr", "add", f"{ADDRESS}/24", "dev", "eth9")
        ip("link", "set", "eth9", "up")
        eventually(lambda: ready(port) == ["worker-eth"], "the worker of the late interface")


def address_comes_late(folder):
    """The same of literal addresses: clients', workers' and the admin port's."""
    needs_network()
    port, late = free_ports(1)[0], "10.9.9.77"
    announce = f"ipc://{folder}/late-address"
    with Unit(folder, "router-address", "tandem-router", "--model", "hash", "--listen", f"{late}:{port}", "--announce",
              announce) as router, \
            Unit(folder, "worker-address", "tandem-worker", "--model", "hash", "--keys", keys_of(folder), "--routers", announce,
                 "--endpoint", f"tcp://{late}:7002", "--kv-endpoint", f"tcp://{late}:*") as worker, \
            Unit(folder, "worker-admin", "tandem-worker", "--model", "hash", "--routers", announce, "--endpoint",
                 f"ipc://{folder}/worker-admin", "--admin", f"{late}:0") as admin:
        router.tried(f"--listen: cannot listen on {late}:{port}")
        worker.tried(f"cannot listen on tcp://{late}:7002")
        admin.tried(f"admin: cannot listen on {late}:0")
        ip("addr", "add", f"{late}/32", "dev", "lo")
        eventually(lambda: 'msg="router ready"' in router.log.read_text(), "the router")
        for each in (worker, admin):
            eventually(lambda: 'msg="worker ready"' in each.log.read_text(), each.log.name)


def name_comes_late(folder):
    """A name to listen on, which /etc/hosts gets later."""
    needs_network()
    hosts = folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
    with Unit(folder, "router-name", "tandem-router", "--model", "hash", "--listen", "late-host:0", "--announce",
              f"ipc://{folder}/late-name") as router:
        router.tried('--listen: cannot find the address "late-host:0"')
        hosts.write_text("127.0.0.1 localhost late-host\n")
        eventually(lambda: 'msg="router ready"' in router.log.read_text(), "the router of the late name")


def model_is_mounted_late(folder):
    """A model's file, and a folder whose mount point is there and empty."""
    needs_network()
    store, point = folder / "store", folder / "mounted"
    store.mkdir()
    point.mkdir()
    subprocess.run([TOOLS / "tiny_gguf_cli", "f32", "7", "own", store / "tiny.gguf"], check=True, timeout=60)
    port, announce = free_ports(1)[0], f"ipc://{folder}/late-mount"
    with Unit(folder, "router-mount", "tandem-router", "--model", point, "--listen", f"127.0.0.1:{port}", "--announce",
              announce) as router, \
            Unit(folder, "worker-mount", "tandem-worker", "--model", point / "tiny.gguf", "--routers", announce, "--endpoint",
                 f"ipc://{folder}/worker-mount", "--kv-blocks", "128") as worker:
        router.tried(f"{point}/config.json: cannot open it: No such file or directory")
        worker.tried(f"{point}/tiny.gguf: cannot open it: No such file or directory")
        subprocess.run(["mount", "--bind", store, point], check=True)
        eventually(lambda: ready(port) == ["worker-mount"], "the worker of the late mount")
    subprocess.run(["umount", "--lazy", point], check=True)


def port_is_still_held(folder):
    """By whoever was there before: clients' port, a worker's, an ipc:// path."""
    holders = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    path = folder / "held"
    holders.append(socket.socket(socket.AF_UNIX))
    holders[2].bind(str(path))
    holders[2].listen()
    clients, announced = (holder.getsockname()[1] for holder in holders[:2])
    with Unit(folder, "router-held", "tandem-router", "--model", "hash", "--listen", f"127.0.0.1:{clients}", "--announce",
              f"ipc://{folder}/held-announce") as router, \
            Unit(folder, "worker-held", "tandem-worker", "--model", "hash", "--routers", f"ipc://{folder}/held-announce",
                 "--endpoint", f"tcp://127.0.0.1:{announced}") as worker, \
            Unit(folder, "worker-path", "tandem-worker", "--model", "hash", "--routers", f"ipc://{folder}/held-announce",
                 "--endpoint", f"ipc://{path}") as at_path:
        router.tried(f"--listen: 127.0.0.1:{clients} is in use by another process")
        worker.tried("Address already in use")
        at_path.tried("another process listens there")
        for holder in holders:
            holder.close()
        eventually(lambda: ready(clients) == ["worker-held", "worker-path"], "both workers")


def secrets_come_late(folder):
    """Cluster keys, API keys and certificates that another service writes after the boot."""
    keys, late = keys_of(folder), folder / "secrets"
    port, announce = free_ports(1)[0], f"ipc://{folder}/late-secrets"
    api_keys = folder / "api-keys"
    api_keys.write_text("one\n")
    api_keys.chmod(0o600)
    common = ["--model", "hash", "--keys", late / "keys"]
    with Unit(folder, "router-keys", "tandem-router", *common, "--listen", f"127.0.0.1:{port}", "--announce", announce,
              "--api-keys", late / "api-keys") as router, \
            Unit(folder, "worker-keys", "tandem-worker", *common, "--routers", announce, "--endpoint",
                 f"ipc://{folder}/w-keys") as worker:
        router.tried(f"--api-keys: {late}/api-keys: cannot open it")
        worker.tried(f"no key folder (make one with: tandem keys DIR): {late}/keys")
        made = folder / "made"
        made.mkdir(mode=0o700)
        shutil.copytree(keys, made / "keys")
        shutil.copy(api_keys, made / "api-keys")
        made.rename(late)
        for each in (router, worker):
            eventually(lambda: ' ready"' in each.log.read_text(), each.log.name)


def codes_of_a_start(folder):
    """75 for what may come, 78 for what no restart mends, with one line each."""
    keys, announce = keys_of(folder), f"ipc://{folder}/codes"
    worker = ["tandem-worker", "--model", "hash", "--name", "w", "--keys", keys, "--routers", announce, "--endpoint"]
    router = ["tandem-router", "--model", "hash", "--keys", keys, "--announce", announce, "--listen"]
    loop, empty = folder / "loop", folder / "half"
    loop.symlink_to(loop)
    (folder / "dangling").symlink_to("/nonexistent/model")
    empty.mkdir()
    cases = (
        (LATER, [*worker, "tcp://eth9x:22301"]),
        (LATER, [*worker, "tcp://eth0123456789.1:0"]),  # 15 bytes, which are the most of an interface
        (CONFIG, [*worker, "tcp://eth01234567890.1:0"]),
        (CONFIG, [*worker, "tcp://a b:1"]),
        (CONFIG, [*worker, "tcp://a b"]),
        (CONFIG, [*worker, "tcp://lo"]),
        (LATER, [*worker, "tcp://192.0.2.7:22301"]),
        (LATER, [*worker, "ipc:///nonexistent/a/b"]),
        (CONFIG, [*worker, f"ipc://{keys}/server.public"]),  # a file, and no socket
        (LATER, [*worker, f"ipc://{folder}/w", "--admin", "192.0.2.7:0"]),
        (CONFIG, [*worker, f"ipc://{folder}/w", "--admin", "192.0.2.7"]),
        (LATER, [*router, "192.0.2.7:0"]),
        (LATER, [*router, "no-such-host.invalid:0"]),
        (LATER, [*router, "[fe80::1%eth9x]:0"]),
        (CONFIG, [*router, "a b:0"]),
        (CONFIG, [*router, "999.1.1.1:0"]),
        (CONFIG, [*router, "8000"]),
        (LATER, [*router, "fd:77"]),  # whoever starts it passes it
        (CONFIG, [*router, "fd:x"]),
        (LATER, [*router, "127.0.0.1:0", "--announce", "tcp://eth9x:1"]),
        (CONFIG, [*router, "127.0.0.1:0", "--announce", "nowhere"]),
        (CONFIG, [*router, "127.0.0.1:0", "--queue", "many"]),
        (LATER, [*router, "127.0.0.1:0", "--tls-cert", "/nonexistent", "--tls-key", keys / "server.secret"]),
        (LATER, [*router, "127.0.0.1:0", "--admin-keys", "/nonexistent"]),
        (CONFIG, [*router, "127.0.0.1:0", "--admin-keys", keys]),
    )
    models = ((LATER, "/nonexistent.gguf"), (LATER, folder / "dangling"), (LATER, "acme/none"), (LATER, empty), (CONFIG, loop),
              (CONFIG, keys / "server.public" / "x"), (CONFIG, Path(__file__)))
    models = [(code, [*program, address, "--model", model]) for code, model in models
              for program, address in ((worker, f"ipc://{folder}/w"), (router, "127.0.0.1:0"))]
    environment = {**os.environ, "HF_HUB_CACHE": str(empty)}
    for code, args in (*cases, *models):
        done = subprocess.run([BIN / args[0], *map(str, args[1:])], capture_output=True, text=True, timeout=60, env=environment)
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert done.returncode == code and len(errors) == 1, (code, args, done.returncode, done.stderr)
        assert errors[0].endswith("; a later start may succeed") == (code == LATER), errors
    return f"{len(cases) + len(models)} starts"


def nobody_waits_in_the_foreground():
    """`tandem up` and --check-config are asked by somebody who reads the answer: 78."""
    done = subprocess.run([BIN / "tandem", "up", "/nonexistent.gguf", "--port", "0"], capture_output=True, text=True, timeout=60)
    assert done.returncode == CONFIG and "/nonexistent.gguf: cannot open it" in done.stderr.splitlines()[-1], done
    done = subprocess.run([BIN / "tandem-worker", "--check-config", "--model", "hash", "--name", "w", "--routers",
                           "tcp://127.0.0.1:1", "--endpoint", "nowhere"], capture_output=True, text=True, timeout=60)
    assert done.returncode == CONFIG, done


def go_apart():
    """This script again, in a network and a mount of its own, where they can be made."""
    apart = ["unshare", "-rn", "--mount"]
    probe = "ip link set lo up && ip link add probe9 type veth peer name far && mount --bind /etc/hosts /etc/hosts"
    try:
        subprocess.run([*apart, "sh", "-c", probe], check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.CalledProcessError):
        return
    os.execvp("unshare", [*apart, sys.executable, __file__, APART])


def main():
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if not has_network_of_its_own():
        go_apart()
    else:
        ip("link", "set", "lo", "up")
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="tandem-boot-") as name:
        folder = Path(name)
        tally.run("75 where a later start may succeed, 78 where none does", codes_of_a_start, folder)
        tally.run("tandem up and --check-config say 78", nobody_waits_in_the_foreground)
        tally.run("an interface that comes late", interface_comes_late, folder)
        tally.run("an address that comes late", address_comes_late, folder)
        tally.run("a name that comes late", name_comes_late, folder)
        tally.run("a model that is mounted late", model_is_mounted_late, folder)
        tally.run("a port that is still held", port_is_still_held, folder)
        tally.run("keys that come late", secrets_come_late, folder)
    sys.exit(tally.end())


main()
