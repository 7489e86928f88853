#!/usr/bin/env python3
"""The packages in a Debian of their own with systemd as its first process: installed, started, attacked, purged.

tests/package/installed_test.py [--packages DIR] [--root DIR]

Makes a fresh Debian root (debootstrap) unless --root names one, installs the packages of `tools/package` there, boots it
with systemd-nspawn on a network of its own, and looks at it as an operator would. SKIPPED where a root or a container
cannot be made.
"""
import argparse
import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from cluster import Tally, eventually, hash_answer  # noqa: E402

PACKAGES = ["tandem-common", "tandem-router", "tandem-worker", "tandem-tools"]
INI = """
[cluster]
model = hash
[router]
announce = tcp://127.0.0.1:7001
[worker]
routers = tcp://127.0.0.1:7001
step_us = 5000
[worker.prefill0]
role = prefill
endpoint = ipc:///run/tandem/prefill0
kv_endpoint = ipc:///run/tandem/prefill0-kv
[worker.decode0]
role = decode
endpoint = ipc:///run/tandem/decode0
kv_endpoint = ipc:///run/tandem/decode0-kv
[worker.spare]
endpoint = tcp://127.0.0.1:7002
"""
WIDE = """
[cluster]
model = /var/lib/tandem/models/tiny
[router]
announce = ipc:///run/tandem/announce
[worker]
routers = ipc:///run/tandem/announce
tp = 2
[worker.wide]
endpoint = ipc:///run/tandem/wide
ranks_here = 1
rank_listen = ipc:///run/tandem/wide-ranks
[worker.wide-ranks]
follow = ipc:///run/tandem/wide-ranks
"""
UNITS = ["tandem-router.socket", "tandem-router.service", "tandem-worker@prefill0", "tandem-worker@decode0", "tandem-worker@spare"]
PROMPT = [1, 2, 3]

# Runs on the container's network: asks without pause over connections of their own, and says what came.
LOAD = r"""
import http.client, json, sys, threading, time
until, want, n_tokens = time.time() + float(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
good, bad = [0], []
def ask():
    while time.time() < until:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", 8000, timeout=60)
            connection.request("POST", "/v1/completions", json.dumps({"prompt": [1, 2, 3], "max_tokens": n_tokens, "stream": True,
                               "ignore_eos": True, "return_token_ids": True}), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            lines = [l[6:].strip() for l in answer.read().split(b"\n") if l.startswith(b"data: ")]
            ids = [i for l in lines if l != b"[DONE]" for c in json.loads(l)["choices"] for i in c.get("token_ids") or []]
            if answer.status != 200 or ids != want:
                bad.append((answer.status, len(ids), str(lines[-1:])[:200]))
            else:
                good[0] += 1
        except Exception as error:
            bad.append(repr(error))
threads = [threading.Thread(target=ask) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(json.dumps({"good": good[0], "bad": bad[:5], "n_bad": len(bad)}))
"""


def run(*args, check=True, timeout=600, **kwargs):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=timeout, **kwargs)
    if check and done.returncode != 0:
        raise AssertionError((args[:6], done.returncode, (done.stdout + done.stderr)[-1500:]))
    return done.stdout


class Container:
    """A booted Debian. `inside` runs a command in it; `beside` one of this host on its network."""

    def __init__(self, root):
        self.root, self.process, self.leader = root, None, None

    def spawn(self, *args, boot=False, network=False):
        words = ["systemd-nspawn", "-q", "-D", self.root, "--register=no", "--keep-unit", *([] if network else ["--private-network"])]
        if boot:
            return subprocess.Popen([str(w) for w in [*words, "-b"]], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
        return run(*words, *args)

    def boot(self):
        self.process = self.spawn(boot=True)
        self.leader = eventually(self._leader, "systemd in the container")
        eventually(lambda: self.inside("systemctl", "is-system-running", check=False).strip() in ("running", "degraded"), "the boot", seconds=120)

    def _leader(self):
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
                if fields["PPid"].strip() == str(self.process.pid) and fields["NSpid"].split()[-1] == "1":
                    return int(status.parent.name)
            except (OSError, KeyError, ValueError):
                pass
        return None

    def inside(self, *args, check=True):
        return run("nsenter", "-t", self.leader, "-m", "-u", "-i", "-n", "-p", "-C", *args, check=check)

    def beside(self, *args):
        return subprocess.Popen(["nsenter", "-t", str(self.leader), "-n", *map(str, args)], stdout=subprocess.PIPE, text=True)

    def show(self, unit, field):
        return self.inside("systemctl", "show", "-P", field, unit).strip()

    def stop(self):
        if self.process:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def load(container, seconds, n_tokens=40):
    return container.beside(sys.executable, "-c", LOAD, seconds, json.dumps(hash_answer(PROMPT, n_tokens)), n_tokens)


def loaded(process):
    found = json.loads(process.communicate(timeout=300)[0])
    assert found["good"] > 0 and found["n_bad"] == 0, found
    return found["good"]


def ready_workers(container):
    text = container.inside("tandem", "status", "--json", check=False)
    try:
        return sorted(w["name"] for w in json.loads(text)["workers"] if w["state"] == "ready")
    except ValueError:
        return []


def doctor_finds_no_fault(container, *words):
    """As the guide says, as the daemons' user, and as root: exit code 0 in each state that the guide leads through."""
    seen = []
    for user in (("runuser", "-u", "tandem", "--"), ()):
        text = container.inside(*user, "tandem", "doctor", "--json", check=False)
        root = json.loads(text)
        bad = [f for f in root["findings"] if f["level"] == "fault"]
        assert root["ok"] and not bad, bad
        seen = [f"{f['subject']}: {f['seen']}" for f in root["findings"]]
        for word in words:
            assert any(word in line for line in seen), (word, seen)
    return seen


SEVERAL = """
[cluster]
model = hash
keys = /etc/tandem/keys
[router]
announce = tcp://0.0.0.0:7001
[worker]
routers = tcp://host1:7001, tcp://host2:7001
kv_endpoint = tcp://lo:*
[worker.prefill0]
role = prefill
endpoint = tcp://lo:7002
[worker.decode0]
role = decode
endpoint = tcp://lo:7002
[worker.prefill1]
role = prefill
endpoint = tcp://lo:7002
[worker.decode1]
role = decode
endpoint = tcp://lo:7003
"""


def make_keys(container):
    shutil.rmtree(container.root / "etc/tandem/keys", ignore_errors=True)
    container.inside("tandem", "keys", "/etc/tandem/keys")
    container.inside("sh", "-c", "chown -R root:tandem /etc/tandem/keys && chmod 750 /etc/tandem/keys && chmod 640 /etc/tandem/keys/*")


def several_hosts_of_the_guide(container):
    """The file of the guide's section, before and while this host's part runs (host1 is this one)."""
    hosts, ini = container.root / "etc/hosts", container.root / "etc/tandem/tandem.ini"
    before = hosts.read_text() if hosts.exists() else None
    hosts.write_text("127.0.0.1 localhost host1\n192.0.2.2 host2\n")
    container.inside("systemctl", "stop", "tandem-worker@*", "tandem-router.service", "tandem-router.socket")
    ini.write_text(SEVERAL)
    make_keys(container)
    doctor_finds_no_fault(container, "lo:7002 is free for tandem-worker")
    container.inside("systemctl", "start", "tandem-router.socket", "tandem-router", "tandem-worker@prefill0")
    eventually(lambda: ready_workers(container) == ["prefill0"], "the worker of this host")
    doctor_finds_no_fault(container, "127.0.0.1:8000: tandem-router")
    container.inside("systemctl", "stop", "tandem-worker@prefill0", "tandem-router")
    shutil.rmtree(container.root / "etc/tandem/keys")
    ini.write_text(INI)
    if before is not None:
        hosts.write_text(before)


LATE = """
[cluster]
model = {model}
keys = /etc/tandem/keys
[router]
announce = tcp://127.0.0.1:7001
[worker]
routers = tcp://127.0.0.1:7001
kv_endpoint = tcp://lo:*
[worker.late]
endpoint = tcp://{interface}:7005
"""
WORKER, ROUTER = "tandem-worker@late", "tandem-router.service"
HOLD = """
import socket, sys, time
held = [socket.create_server(("127.0.0.1", int(port))) for port in sys.argv[1:]]
print("held", flush=True)
time.sleep(3600)
"""


@contextlib.contextmanager
def late(container, model="hash", interface="lo"):
    """What was there is stopped, and the file is the one above; nothing is started."""
    ini, keys = container.root / "etc/tandem/tandem.ini", container.root / "etc/tandem/keys"
    container.inside("systemctl", "stop", "tandem-worker@*", ROUTER, "tandem-router.socket")
    ini.write_text(LATE.format(model=model, interface=interface))
    make_keys(container)
    try:
        yield
    finally:
        container.inside("systemctl", "stop", WORKER, ROUTER, "tandem-router.socket")
        shutil.rmtree(keys)
        ini.write_text(INI)


def tried(container, unit, words):
    """Again and again, and the journal says what is not there."""
    eventually(lambda: int(container.show(unit, "NRestarts")) >= 2, f"two more tries of {unit}", seconds=120)
    eventually(lambda: container.show(unit, "ExecMainStatus") == "75", f"the code of {unit}")
    assert container.show(unit, "ActiveState") == "activating", unit
    text = container.inside("journalctl", "-u", unit, "-p", "err", "-o", "cat")
    said = [line for line in text.splitlines() if line.endswith("; a later start may succeed")]
    assert said and words in said[-1], (unit, text[-1000:])


def came_up(container):
    eventually(lambda: ready_workers(container) == ["late"], "the units, by themselves", seconds=120)
    assert container.inside("tandem", "chat", "--max-tokens", "20", "hello").strip()


def interface_comes_20_s_after_the_start(container):
    with late(container, interface="late0"):
        container.inside("systemctl", "start", "--no-block", "tandem-router.socket", ROUTER, WORKER)
        time.sleep(20)
        tried(container, WORKER, "endpoint: cannot listen on tcp://late0:7005: no address or interface of this host")
        n = container.show(WORKER, "NRestarts")
        for words in (("link", "add", "late0", "type", "veth", "peer", "name", "far0"), ("addr", "add", "10.9.9.1/24", "dev", "late0"),
                      ("link", "set", "late0", "up")):
            assert container.beside("ip", *words).wait(60) == 0, words
        came_up(container)
    return f"after {n} tries"


def model_is_mounted_late(container):
    """The router, too, waits for the model's path: its mount point is there, and empty."""
    models = container.root / "var/lib/tandem/models"
    run(sys.executable, ROOT / "tests/models/checkpoints.py", "qwen2-tp", "gptq4-g32-act", models / "store")
    (models / "mounted").mkdir()
    with late(container, model="/var/lib/tandem/models/mounted"):
        container.inside("systemctl", "start", "--no-block", "tandem-router.socket", ROUTER, WORKER)
        for unit in (ROUTER, WORKER):
            tried(container, unit, "/var/lib/tandem/models/mounted/config.json: cannot open it: No such file or directory")
        container.inside("mount", "--bind", "/var/lib/tandem/models/store", "/var/lib/tandem/models/mounted")
        came_up(container)
    container.inside("umount", "--lazy", "/var/lib/tandem/models/mounted")
    shutil.rmtree(models / "store")
    (models / "mounted").rmdir()


def port_is_still_held(container):
    """A worker's, and the clients', which systemd itself cannot listen on."""
    with late(container):
        holder = container.beside(sys.executable, "-c", HOLD, 7005, 8000)
        try:
            assert holder.stdout.readline() == "held\n"
            container.inside("systemctl", "start", "--no-block", ROUTER, WORKER)
            tried(container, WORKER, "endpoint: cannot listen on tcp://lo:7005: Address already in use")
            tried(container, ROUTER, "descriptor 3 is not a listening socket")
        finally:
            holder.kill()
            holder.wait()
        came_up(container)


def installed(container, packages):
    shutil.rmtree(container.root / "packages", ignore_errors=True)
    (container.root / "packages").mkdir()
    for package in packages:
        shutil.copy(package, container.root / "packages")
    container.spawn("sh", "-c", "apt-get update -qq && apt-get install -y -qq --no-install-recommends /packages/*.deb", network=True)
    assert "tandem" in (container.root / "etc/passwd").read_text()
    assert container.spawn("tandem", "--version").strip()
    for name in PACKAGES:
        who = container.spawn("dpkg-query", "-W", "-f=${Maintainer}", name)
        assert re.fullmatch(r"[^<>]+ <[^@<>]+@[^@<>]+>", who.strip()) and "localhost" not in who, (name, who)
    shared = container.root / "usr/share/doc/tandem-common"
    for name in ("operations.md", "examples/grafana/tandem-cluster.json", "examples/prometheus/tandem.rules.yml", "examples/proxy/nginx.conf",
                 "examples/slurm/tandem.sbatch"):
        found = list(shared.glob(name + "*"))
        assert found or (container.root / "etc/dpkg/dpkg.cfg.d").exists(), name
    page = container.root / "usr/share/man/man5/tandem.ini.5.gz"
    assert page.exists() or (container.root / "etc/dpkg/dpkg.cfg.d").exists()  # a slim root takes no manual pages


def started(container):
    (container.root / "etc/tandem/tandem.ini").write_text(INI)
    for unit in ("tandem-router.service", "tandem-worker@.service"):
        folder = container.root / f"etc/systemd/system/{unit}.d"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "test.conf").write_text("[Service]\nWatchdogSec=3\nStartLimitBurst=50\n")
    container.boot()
    doctor_finds_no_fault(container, "/run/tandem does not exist yet: the units make it")
    container.inside("systemctl", "enable", *UNITS, "tandem.target")
    container.inside("systemctl", "start", "tandem-router.socket", "tandem.target")
    eventually(lambda: ready_workers(container) == ["decode0", "prefill0", "spare"], "all workers ready")
    doctor_finds_no_fault(container, "127.0.0.1:8000: tandem-router", "it answers")
    here = container.inside("uname", "-n").strip()
    hosts = {w["name"]: w["host"] for w in json.loads(container.inside("tandem", "status", "--json"))["workers"]}
    assert here and hosts == {"prefill0": here, "decode0": here, "spare": "127.0.0.1"}, (here, hosts)
    assert container.inside("tandem", "chat", "--max-tokens", "20", "hello").strip()
    eventually(lambda: "3 workers" in container.show("tandem-router", "StatusText"), "the router's status line")
    eventually(lambda: "running" in container.show("tandem-worker@decode0", "StatusText"), "the worker's status line")
    return container.show("tandem-router", "StatusText")


def router_restarts_under_load(container):
    """No connection is refused and no stream is cut: the socket is systemd's, and the old router drains."""
    process = load(container, 12)
    time.sleep(3)
    before = container.show("tandem-router", "MainPID")
    container.inside("systemctl", "restart", "tandem-router.service")
    assert container.show("tandem-router", "MainPID") != before
    return f"{loaded(process)} streams, all exact"


def hung_worker_is_started_again(container):
    before = container.show("tandem-worker@decode0", "MainPID")
    process = load(container, 15)
    time.sleep(2)
    container.inside("sh", "-c", f"kill -STOP {before}")
    eventually(lambda: container.show("tandem-worker@decode0", "MainPID") not in (before, "0"), "the watchdog")
    eventually(lambda: "decode0" in ready_workers(container), "the worker back")
    return f"{loaded(process)} streams, all exact"


def exposure_is_as_the_guide_says(container):
    said = re.search(r"`systemd-analyze security`: router ([\d.]+), worker ([\d.]+)", (ROOT / "docs/operations.md").read_text()).groups()
    seen = tuple(re.search(r"exposure level for \S+: ([\d.]+)", container.inside("systemd-analyze", "security", "--no-pager", unit))[1]
                 for unit in ("tandem-router.service", "tandem-worker@decode0.service"))
    assert seen == said, (seen, said)
    return f"router {seen[0]}, worker {seen[1]}"


CREDENTIALS = """[Service]
LoadCredential=api-keys:/etc/tandem/api-keys
LoadCredential=tls.crt:/etc/tandem/tls.crt
LoadCredential=tls.key:/etc/tandem/tls.key
Environment=TANDEM_API_KEYS=%d/api-keys TANDEM_TLS_CERT=%d/tls.crt TANDEM_TLS_KEY=%d/tls.key
"""


def credentials_of_the_guide(container):
    """Keys and a certificate that only root reads: the file, and so doctor, know nothing of them."""
    drop_in = container.root / "etc/systemd/system/tandem-router.service.d/credentials.conf"
    files = [container.root / "etc/tandem" / name for name in ("api-keys", "tls.crt", "tls.key")]
    container.inside("sh", "-c", "umask 077; cd /etc/tandem; openssl rand -hex 24 > api-keys; openssl req -x509 -newkey rsa:2048 -nodes "
                     "-keyout tls.key -out tls.crt -days 9 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1")
    drop_in.write_text(CREDENTIALS)
    try:
        container.inside("systemctl", "daemon-reload")
        container.inside("systemctl", "restart", "tandem-router.service")
        doctor_finds_no_fault(container, "https://127.0.0.1:8000: tandem-router")
        answer = container.inside("sh", "-c", "OPENAI_API_KEY=$(cat /etc/tandem/api-keys) tandem chat --server https://127.0.0.1:8000 "
                                  "--ca /etc/tandem/tls.crt --max-tokens 20 hello")
        assert answer.strip(), answer
    finally:
        for path in (drop_in, *files):
            path.unlink(missing_ok=True)
        container.inside("systemctl", "daemon-reload")
        container.inside("systemctl", "restart", "tandem-router.service")
    eventually(lambda: len(ready_workers(container)) == 3, "the workers as before")


def reload_is_told(container):
    container.inside("systemctl", "reload", "tandem-router")
    assert container.show("tandem-router", "ActiveState") == "active"
    eventually(lambda: "reloaded" in container.inside("journalctl", "-u", "tandem-router", "-o", "cat"), "the reload's line")


def drained_worker_ends(container):
    container.inside("tandem", "drain", "spare", "--exit")
    eventually(lambda: container.show("tandem-worker@spare", "ActiveState") == "inactive", "the end")
    assert container.show("tandem-worker@spare", "Result") == "success"
    assert ready_workers(container) == ["decode0", "prefill0"]


def journal_has_priorities(container):
    lines = [json.loads(line) for line in container.inside("journalctl", "-u", "tandem-*", "-o", "json").splitlines()]
    ours = [line for line in lines if str(line.get("MESSAGE", "")).startswith("level=")]
    levels = {line["MESSAGE"].split()[0]: line["PRIORITY"] for line in ours}
    assert levels["level=info"] == "6" and levels["level=warn"] == "4", levels
    assert not any(str(line.get("MESSAGE", "")).startswith("ts=") for line in lines)
    return f"{len(ours)} lines"


def wrong_configuration_is_not_tried_again(container):
    ini = container.root / "etc/tandem/tandem.ini"
    ini.write_text(INI.replace("step_us", "step_uss"))
    container.inside("systemctl", "start", "tandem-worker@spare", check=False)
    eventually(lambda: container.show("tandem-worker@spare", "ActiveState") == "failed", "the failure")
    assert container.show("tandem-worker@spare", "ExecMainStatus") == "78"
    text = container.inside("journalctl", "-u", "tandem-worker@spare", "-p", "err", "-o", "cat")
    assert "tandem.ini" in text and "step_uss" in text, text
    ini.write_text(INI)
    container.inside("systemctl", "start", "tandem-worker@nobody", check=False)
    text = container.inside("journalctl", "-u", "tandem-worker@nobody", "-p", "err", "-o", "cat")
    assert "--name: the file has no section [worker.nobody], and there is no endpoint" in text, text
    container.inside("systemctl", "reset-failed", "tandem-worker@nobody")


def follower_is_a_unit(container):
    """Ranks of a worker in a unit of their own: one that dies ends the worker, and systemd starts both again."""
    leader, follower = "tandem-worker@wide", "tandem-worker@wide-ranks"
    tiny = container.root / "var/lib/tandem/models/tiny"
    run(sys.executable, ROOT / "tests/models/checkpoints.py", "qwen2-tp", "gptq4-g32-act", tiny)
    ini = container.root / "etc/tandem/tandem.ini"
    ini.write_text(WIDE)
    container.inside("systemctl", "stop", "tandem-worker@*")
    container.inside("systemctl", "restart", "tandem-router", leader, follower)
    eventually(lambda: ready_workers(container) == ["wide"], "the worker of two units")
    before = [container.show(unit, "MainPID") for unit in (leader, follower)]
    answer = container.inside("tandem", "chat", "--temperature", "0", "--max-tokens", "20", "hello")
    container.inside("sh", "-c", f"kill -KILL {before[1]}")
    eventually(lambda: not {container.show(unit, "MainPID") for unit in (leader, follower)} & {*before, "0"}, "both started again")
    eventually(lambda: ready_workers(container) == ["wide"], "the worker back")
    assert container.inside("tandem", "chat", "--temperature", "0", "--max-tokens", "20", "hello") == answer
    container.inside("systemctl", "stop", leader)
    eventually(lambda: container.show(follower, "ActiveState") == "inactive", "the follower's end")
    assert container.show(follower, "Result") == "success"
    ini.write_text(INI)
    shutil.rmtree(tiny)


def upgraded_in_place(container, packages):
    """The same packages again: what the operator wrote stays, and nothing stops by itself."""
    before = container.show("tandem-router", "MainPID")
    container.inside("dpkg", "-i", *(f"/packages/{p.name}" for p in packages))
    assert (container.root / "etc/tandem/tandem.ini").read_text() == INI
    assert container.show("tandem-router", "MainPID") == before


def purged(container):
    container.inside("apt-get", "remove", "-y", "-qq", *PACKAGES)
    assert not container.inside("pgrep", "-f", "tandem-router", check=False)
    assert (container.root / "etc/tandem/tandem.ini").exists()  # until the purge
    container.inside("dpkg", "--purge", *PACKAGES)
    for unit in ("tandem-router.service", "tandem-worker@.service"):  # the test's own
        shutil.rmtree(container.root / f"etc/systemd/system/{unit}.d")
    left = [str(p) for top in ("etc", "usr", "lib", "var", "run") for p in (container.root / top).rglob("*tandem*")
            if not p.is_dir() or not str(p).startswith(str(container.root / "var/log"))]
    left = [p for p in left if "/var/lib/dpkg/" not in p and "/var/cache/" not in p and "/journal/" not in p]
    assert not left, left
    assert not any(line.startswith("tandem:") for line in (container.root / "etc/passwd").read_text().splitlines())


def fresh_root(folder):
    """A minimal Debian 12 with systemd."""
    run("debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus,ca-certificates,procps", "bookworm", folder, timeout=1800)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--packages", type=Path, default=ROOT / "build/package")
    parser.add_argument("--root", type=Path)
    options = parser.parse_args()
    tally = Tally()
    missing = [tool for tool in ("debootstrap", "systemd-nspawn", "nsenter") if not shutil.which(tool)]
    packages = [p for p in sorted(options.packages.glob("*.deb")) if "dbgsym" not in p.name]
    if missing or not packages:
        tally.skip("installed packages", f"needs {', '.join(missing)}" if missing else f"no packages in {options.packages}: tools/package")
        return tally.end()
    with tempfile.TemporaryDirectory(prefix="tandem-root-") as name:
        root = Path(name)
        try:
            if options.root:
                run("cp", "-a", "--reflink=auto", f"{options.root}/.", root)
            else:
                fresh_root(root)
            container = Container(root)
            container.spawn("true")
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            tally.skip("installed packages", f"no container can be made here: {str(error)[-300:]}")
            return tally.end()
        try:
            tally.run("install", installed, container, packages)
            tally.run("start", started, container)
            tally.run("the router restarts under load", router_restarts_under_load, container)
            tally.run("a hung worker is started again", hung_worker_is_started_again, container)
            tally.run("credentials", credentials_of_the_guide, container)
            tally.run("exposure", exposure_is_as_the_guide_says, container)
            tally.run("reload", reload_is_told, container)
            tally.run("a drained worker ends", drained_worker_ends, container)
            tally.run("wrong configuration", wrong_configuration_is_not_tried_again, container)
            tally.run("a follower is a unit", follower_is_a_unit, container)
            tally.run("several hosts", several_hosts_of_the_guide, container)
            tally.run("an interface comes 20 s after the start", interface_comes_20_s_after_the_start, container)
            tally.run("the model is mounted late", model_is_mounted_late, container)
            tally.run("a port is still held", port_is_still_held, container)
            tally.run("priorities in the journal", journal_has_priorities, container)
            tally.run("upgrade in place", upgraded_in_place, container, packages)
            tally.run("purge", purged, container)
        finally:
            container.stop()
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
