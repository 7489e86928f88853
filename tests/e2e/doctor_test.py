#!/usr/bin/env python3
"""`tandem doctor`: each planted fault is found by a line that names it and its fix, and a healthy cluster has none."""
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster import BIN, TOOLS, Tally, eventually, get_json
from daemons import free_ports, running
from secure import Certificates

LARGE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
         "num_attention_heads": 64, "num_key_value_heads": 8, "num_hidden_layers": 800, "vocab_size": 32000,
         "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "torch_dtype": "bfloat16"}
SMALL = {**LARGE, "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4,
         "num_hidden_layers": 1, "vocab_size": 300}


class Host:
    """A folder with a configuration that is right, until something is planted."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.certificates = Certificates(folder)
        self.certificates.sign("server")
        for name in ("api-keys", "admin-keys"):
            self.write(name, f"secret-of-{name}\n", 0o600)
        self.write("broken.gguf", "GGUF and no more\n")
        for name, config in (("large", LARGE), ("small", SMALL)):
            (self.folder / name).mkdir()
            self.write(f"{name}/config.json", json.dumps(config))
        subprocess.run([BIN / "tandem", "keys", self.path("keys")], check=True, stdout=subprocess.DEVNULL)
        self.port = free_ports(1)[0]

    def path(self, name):
        return str(self.folder / name)

    def write(self, name, text, mode=0o644):
        path = self.folder / name
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    def config(self, cluster=(), router=(), worker=(), decode=(), prefill=()):
        """tandem.ini with a router and two workers; a key that is given goes before ours."""
        sections = {
            "cluster": {"model": "hash", "keys": self.path("keys"), **dict(cluster)},
            "router": {"listen": f"127.0.0.1:{self.port}", "announce": f"ipc://{self.path('announce')}", "api_keys": self.path("api-keys"),
                       "admin_keys": self.path("admin-keys"), "tls_cert": self.path("server.crt"), "tls_key": self.path("server.key"),
                       "max_connections": 100, **dict(router)},
            "worker": {"routers": f"ipc://{self.path('announce')}", **dict(worker)},
            "worker.prefill0": {"role": "prefill", "endpoint": f"ipc://{self.path('prefill0')}", **dict(prefill)},
            "worker.decode0": {"role": "decode", "endpoint": f"ipc://{self.path('decode0')}", **dict(decode)},
        }
        lines = [f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items() if value is not None)
                 for name, keys in sections.items()]
        return self.write("tandem.ini", "\n".join(lines))


def doctor(*args, prefix=(), program=BIN / "tandem", **environment):
    done = subprocess.run([*prefix, program, "doctor", "--json", *args], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "TANDEM_ADMIN_KEY": "secret", **environment})
    assert done.returncode in (0, 1), (done.returncode, done.stderr)
    root = json.loads(done.stdout)
    faults = [f for f in root["findings"] if f["level"] == "fault"]
    assert root["faults"] == len(faults) and root["ok"] == (not faults) and done.returncode == bool(faults), root
    return root["findings"]


def faults(findings):
    return [f for f in findings if f["level"] == "fault"]


def healthy(host):
    findings = doctor("--config", host.config())
    assert not faults(findings), faults(findings)
    seen = {f["subject"] for f in findings}
    assert {"configuration", "model", "memory", "port", "cluster keys", "API keys", "admin keys", "TLS", "sockets", "processor", "GPU",
            "huge pages", "open files", "locked memory", "clock", "shared memory", "routers"} <= seen, seen
    routers = [f for f in findings if f["subject"] == "routers"]
    assert [f["level"] for f in routers] == ["ok"] and "no answer yet" in routers[0]["seen"], routers
    return f"{len(findings)} findings"


def before_the_units_start(host):
    """/run/NAME is not there yet, and the unit that is installed makes it."""
    folder = host.folder / "units"
    folder.mkdir()
    run = f"/run/{host.folder.name}"
    config = host.config(router={"announce": f"ipc://{run}/announce"}, worker={"routers": f"ipc://{run}/announce"},
                         prefill={"endpoint": f"ipc://{run}/prefill0"}, decode={"endpoint": f"ipc://{run}/decode0"})
    assert {f["subject"] for f in faults(doctor("--config", config))} == {"sockets"}
    for name, line in (("tandem-router.service", f"RuntimeDirectory=other {host.folder.name}"), ("tandem-worker@.service", "RuntimeDirectory=")):
        (folder / name).write_text(f"[Service]\n{line}\n")
    findings = doctor("--config", config, SYSTEMD_UNIT_PATH=str(folder))
    assert not faults(findings), faults(findings)
    assert any("the units make it" in f["seen"] for f in findings), findings
    (folder / "tandem-router.service").write_text(f"[Service]\nRuntimeDirectory={host.folder.name}s\n")
    assert {f["subject"] for f in faults(doctor("--config", config, SYSTEMD_UNIT_PATH=str(folder)))} == {"sockets"}


def several_hosts(host):
    """The guide's file: interfaces' names, four workers of which some run elsewhere, routers by name."""
    port, other = free_ports(2)
    config = Path(host.config(router={"announce": f"tcp://0.0.0.0:{free_ports(1)[0]}"},
                              worker={"routers": "tcp://host1.invalid:7001, tcp://host2.invalid:7001", "kv_endpoint": "tcp://lo:*"},
                              prefill={"endpoint": f"tcp://lo:{port}"}, decode={"endpoint": f"tcp://lo:{port}"}))
    config.write_text(config.read_text() + f"[worker.prefill1]\nrole = prefill\nendpoint = tcp://lo:{port}\n"
                      f"[worker.decode1]\nrole = decode\nendpoint = tcp://lo:{other}\n"
                      "[worker.decode2]\nrole = decode\nendpoint = tcp://nowhere9:7002\n")
    findings = doctor("--config", str(config))
    assert not faults(findings), faults(findings)
    seen = {f["subject"]: f["seen"] for f in findings}
    assert seen["memory"].startswith("3 workers: "), seen
    ports = [f["seen"] for f in findings if f["subject"] == "port" and f["level"] == "ok"]
    assert f"lo:{port} is free for tandem-worker" in ports and f"lo:{other} is free for tandem-worker" in ports, ports
    assert ['"nowhere9" is not an interface' in f["seen"] for f in findings if f["subject"] == "port" and f["level"] == "warning"] == [True]
    assert [f["level"] for f in findings if f["subject"] == "routers"] == ["warning", "warning"]


def without_a_file(host):
    """The defaults, and a model by its name."""
    with socket.socket() as taken:
        with contextlib.suppress(OSError):
            taken.bind(("127.0.0.1", 8000))
        findings = doctor("hash")
    assert {"model", "memory", "port"} <= {f["subject"] for f in findings}
    assert not [f for f in faults(findings) if f["subject"] != "port"], findings
    assert [f["subject"] for f in faults(doctor("/nowhere/model.gguf")) if f["subject"] == "model"] == ["model"]


def lines_for_people(host):
    command = [BIN / "tandem", "doctor", "--config", host.config(cluster={"model": "/nowhere/model.gguf"})]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and "\033" not in done.stdout, done
    fault = [line for line in lines if line.startswith("fault ")]
    assert fault and "/nowhere/model.gguf" in fault[0] and "; fix: " in fault[0], lines
    assert lines[-1].split(": ")[1].startswith(f"{len(fault)} fault"), lines[-1]


def planted(host):
    """[(what, subject, words of the line, words of its fix, findings)]: one fault each."""
    def run(**sections):
        return doctor("--config", host.config(**sections))

    yield "an unknown key", "configuration", 'unknown key "lisen" in [router] (did you mean "listen"?)', "man tandem.ini", run(router={"lisen": "x"})
    yield "a bad value", "configuration", "tandem.ini:22: role: \"decoder\" is not one of: mixed prefill decode", "man tandem.ini", run(decode={"role": "decoder"})
    yield "no model", "configuration", "model: is needed", "model = PATH", run(cluster={"model": None})
    yield "two workers at one endpoint", "configuration", "prefill0] and [worker.decode0", "endpoint of its own", \
        run(decode={"endpoint": f"ipc://{host.path('prefill0')}"})
    yield "two workers of this host at one interface", "configuration", "the same endpoint", "endpoint of its own", \
        run(prefill={"endpoint": "tcp://lo:7002"}, decode={"endpoint": "tcp://lo:7002"})
    yield "no such interface", "port", '"nowhere9" is not an interface', "ip -brief address", run(decode={"endpoint": "tcp://nowhere9:7002"})
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield "a taken port of an interface", "port", f"lo:{taken.getsockname()[1]} is held by", "another port in this endpoint", \
            run(decode={"endpoint": f"tcp://lo:{taken.getsockname()[1]}"})
    yield "no such file", "configuration", "none.ini: cannot read it", "--config", doctor("--config", host.path("none.ini"))
    yield "no model there", "model", "none.gguf", "name a .gguf file", run(cluster={"model": host.path("none.gguf")})
    yield "a broken model", "model", "broken.gguf", "damaged", run(cluster={"model": host.path("broken.gguf")})
    yield "a worker of another model", "model", "not the same model", "in [cluster] for all", \
        run(decode={"model": host.path("small"), "load_format": "dummy"})
    yield "too large a model", "memory", "GiB are free", "kv_blocks", \
        run(cluster={"model": host.path("large"), "load_format": "dummy"})
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield "a taken port", "port", f"held by {Path(f'/proc/{os.getpid()}/comm').read_text().strip()} (pid {os.getpid()})", \
            "choose another", run(router={"listen": f"127.0.0.1:{taken.getsockname()[1]}"})
    yield "an address without keys", "cluster keys", "no keys are set", "tandem keys DIR", \
        run(cluster={"keys": None}, decode={"endpoint": "tcp://0.0.0.0:0"})
    os.chmod(host.path("keys/client.secret"), 0o644)
    yield "keys for everybody", "cluster keys", "keys", "chmod 700", run()
    os.chmod(host.path("keys/client.secret"), 0o600)
    os.chmod(host.path("admin-keys"), 0o644)
    yield "an admin key for everybody", "admin keys", "admin-keys", "chmod 600", run()
    os.chmod(host.path("admin-keys"), 0o600)
    yield "no key in a file of keys", "API keys", "contains no key", "one key a line", \
        run(router={"api_keys": host.write("empty", "# none\n")})
    yield "one key for clients and administrators", "admin keys", "line 2: the key is also in", "keys of their own", \
        run(router={"admin_keys": host.write("both", "other\nsecret-of-api-keys\n", 0o600)})
    host.certificates.sign("other")
    yield "another certificate's key", "TLS", "other.key: not the key of the certificate", "one pair", \
        run(router={"tls_key": host.path("other.key")})
    host.certificates.sign("old", days=-1)
    yield "an expired certificate", "TLS", "expired", "renew", \
        run(router={"tls_cert": host.path("old.crt"), "tls_key": host.path("old.key")})
    yield "a folder that is not there", "sockets", "its folder does not exist", "mkdir", \
        run(decode={"endpoint": f"ipc://{host.path('nowhere/decode0')}"})
    alone = host.folder / "alone"
    alone.mkdir()
    shutil.copy(BIN / "tandem", alone)
    yield "a tool without its daemons", "programs", "alone/tandem-router: No such file", "in one folder", doctor(program=alone / "tandem")
    for name in ("tandem-router", "tandem-worker"):
        script = f'#!/bin/sh\n[ "$1" = --version ] && echo {name} 9.9.9 && exit\nexec {BIN}/{name} "$@"\n'
        host.write(f"alone/{name}", script, 0o755)
    yield "programs of two versions", "programs", "the program next to it is tandem-router 9.9.9", "of one version", doctor("hash", program=alone / "tandem")
    yield "too few files", "open files", "30 open files are too few", "LimitNOFILE", \
        doctor("--config", host.config(), prefix=("bash", "-c", 'ulimit -n 30; exec "$@"', "-"))


def one_line_each(what, subject, seen, fix, findings):
    found = faults(findings)
    assert {f["subject"] for f in found} == {subject}, found
    assert seen in found[0]["seen"] and fix in found[0]["fix"], found[0]


def warnings(host):
    """What a start survives: warned of, and no fault."""
    os.chmod(host.path("api-keys"), 0o644)
    findings = doctor("--config", host.config(router={"max_connections": 900000}))
    os.chmod(host.path("api-keys"), 0o600)
    assert not faults(findings), faults(findings)
    warned = {f["subject"]: f for f in findings if f["level"] == "warning"}
    assert "all users" in warned["API keys"]["seen"] and "chmod 640" in warned["API keys"]["fix"], warned
    assert "900256" in warned["open files"]["seen"], warned


def limits_of_nothing(host):
    """A configuration that cannot be read asks for no number of files."""
    config = Path(host.config())
    config.write_text(config.read_text() + "[router]\n")
    findings = doctor("--config", str(config), prefix=("bash", "-c", 'ulimit -n 3000; exec "$@"', "-"))
    assert {f["subject"] for f in faults(findings)} == {"configuration"}, findings
    assert [(f["level"], f["seen"]) for f in findings if f["subject"] == "open files"] == [("ok", "3000 at most")], findings


def gpus_and_their_sums(host):
    """Whether each worker's GPUs are there, and how those of several ranks add up, with a driver and an NCCL of the test's own."""
    library = TOOLS / "fake_gpus" / "libcuda.so.1"
    folder = host.folder / "gpus"  # of a build that has the backend, as far as its configuration tells
    folder.mkdir()
    shutil.copy(BIN / "tandem", folder)
    (folder / "tandem-router").symlink_to(BIN / "tandem-router")
    host.write("gpus/tandem-worker", f'#!/bin/sh\n{BIN}/tandem-worker "$@" | sed "s/^#backend = cpu/backend = cuda/"\n', 0o755)

    def seen(n_gpus, worker, **environment):
        found = doctor("--config", host.config(prefill={"tp": 2, **worker}), program=folder / "tandem", LD_LIBRARY_PATH=str(library.parent),
                       FAKE_GPUS=str(n_gpus), **{"TANDEM_NCCL": str(library), **environment})
        return [(f["level"], f["subject"], f["seen"]) for f in found if f["subject"] in ("GPU", "sums")]

    gpu = ("ok", "GPU", "3, driver for CUDA 13.0: GPU of tests 0, GPU of tests 1, GPU of tests 2")
    assert seen(0, {}) == [("fault", "GPU", "0, driver for CUDA 13.0")], seen(0, {})
    assert seen(3, {}) == [gpu, ("ok", "sums", "prefill0: by its GPUs, which reach each other's memory")]
    assert seen(3, {"tp": 3}) == seen(3, {}) and seen(3, {"devices": 1}) == seen(3, {})
    for worker, gpus in (({"tp": 4}, "0 to 3"), ({"devices": 2}, "2 to 3")):
        assert seen(3, worker)[1:] == [("fault", "GPU", f"prefill0 takes GPUs {gpus}, and there are 3")], seen(3, worker)
    assert seen(3, {"tp": 1}) == [gpu] and seen(3, {"devices": 1, "tp": 3, "ranks_here": 2}) == [gpu]  # the others are elsewhere
    apart = {"FAKE_APART": "1"}
    why = "GPU 1 does not reach the memory of GPU 2"
    assert seen(3, {}, **apart) == seen(3, {})  # of others
    for worker, environment, level, says in (
            ({}, apart, "ok", f"NCCL 2.28 brings the numbers: {why}"),
            ({}, {**apart, "FAKE_NCCL": "21900"}, "ok", f"NCCL 2.19 brings the numbers: {why}"),
            ({}, {**apart, "FAKE_NCCL": "21899"}, "warning", "by the host, which is slow: NCCL 2.18 is older than 2.19"),
            ({"sums": "nccl"}, {"FAKE_NCCL": "2804"}, "fault", "NCCL 2.8 is older than 2.19"),  # as versions were counted then
            ({}, {**apart, "TANDEM_NCCL": "/nonexistent.so"}, "warning", "by the host, which is slow: /nonexistent.so: "),
            ({"sums": "nccl"}, {"TANDEM_NCCL": "/nonexistent.so"}, "fault", "/nonexistent.so: "),
            ({"sums": "nccl"}, {}, "ok", "NCCL 2.28 brings the numbers, as sums says"),
            ({"sums": "device"}, apart, "fault", f"{why}, and sums is device"),
            ({"sums": "device"}, {}, "ok", "by its GPUs"),
            ({"sums": "host"}, {}, "warning", "by the host, as sums says, which is slow")):
        found = seen(3, {"devices": 1, **worker}, **environment)[1:]
        assert [f[:2] for f in found] == [(level, "sums")] and found[0][2].startswith(f"prefill0: {says}"), (worker, environment, found)


def a_cluster_that_runs(host):
    """Peers over TCP with keys: asked as a daemon would, without a word in their logs."""
    announce, log = f"tcp://127.0.0.1:{free_ports(1)[0]}", host.path("log")
    plain = {"tls_cert": None, "tls_key": None, "admin_keys": None, "api_keys": None, "announce": announce}

    def config(**cluster):
        return host.config(cluster=cluster, router=plain, worker={"routers": announce})

    ini = config()
    with running(log, (BIN / "tandem-router", "--config", ini), (BIN / "tandem-worker", "--config", ini, "--name", "prefill0")):
        def is_ready():
            with contextlib.suppress(OSError):
                return [w["state"] for w in get_json(host.port, "/admin/status")["workers"]] == ["ready"]
        eventually(is_ready, "the worker")

        def all_answer():
            """It waits 3 s for each, and says of who did not answer by then what it says of who is not there."""
            findings = doctor("--config", ini)
            assert not faults(findings), faults(findings)
            words = {f["subject"] + " " + f["level"]: f["seen"] for f in findings}
            return (findings, words) if "it answers" in words.get("routers ok", "") and "server ok" in words else None
        findings, words = eventually(all_answer, "both daemons answer")
        assert [f["level"] for f in findings if "decode0" in f["seen"] and f["subject"] == "workers"] == ["warning"], findings
        assert "tandem-router (pid" in words["port ok"] and f"{announce}: it answers" in words["routers ok"], words
        assert "met 1, 1 of them ready" in words["workers ok"] and "decode0" in words["workers warning"], words
        assert "tandem-router" in words["server ok"], words
        assert "handshakes fail" not in Path(log).read_text(), Path(log).read_text()
        other = (BIN / "tandem-worker", "--config", ini, "--name", "decode0", "--model", host.path("small"), "--load-format", "dummy")
        with running(log, other):
            eventually(lambda: any(w["state"] == "refused" for w in get_json(host.port, "/admin/status")["workers"]), "a refusal")
            found = eventually(lambda: faults(doctor("--config", ini)), "a fault")
            assert len(found) == 1 and found[0]["subject"] == "workers" and "decode0 is refused" in found[0]["seen"], found
            assert "the same model" in found[0]["fix"], found
        subprocess.run([BIN / "tandem", "keys", host.path("others")], check=True, stdout=subprocess.DEVNULL)
        wrong = config(keys=host.path("others"))
        found = eventually(lambda: [f for f in faults(doctor("--config", wrong)) if f["subject"] == "routers"], "other keys")
        assert len(found) == 1 and "other keys" in found[0]["seen"], found
        assert "tandem keys" in found[0]["fix"], found


def a_certificate_of_the_unit(host):
    """The guide's LoadCredential= sets the router's environment, which the file, and so doctor, know nothing of."""
    ini = host.config(router={"tls_cert": None, "tls_key": None, "admin_keys": None, "api_keys": None})
    router = ("env", f"TANDEM_TLS_CERT={host.path('server.crt')}", f"TANDEM_TLS_KEY={host.path('server.key')}", BIN / "tandem-router", "--config", ini)
    with running(host.path("log"), router):
        def seen():
            return [(f["level"], f["seen"]) for f in doctor("--config", ini) if f["subject"] == "server"]
        served = eventually(seen, "the router")
        served = eventually(lambda: (now := seen()) and now[0][0] == "ok" and now, "its version")
        assert served[0][1].startswith(f"https://127.0.0.1:{host.port}: tandem-router "), served


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="dr-") as name:
        host = Host(name)
        tally.run("healthy", healthy, host)
        for what, *rest in planted(host):
            tally.run(f"planted: {what}", one_line_each, what, *rest)
        for test in (before_the_units_start, several_hosts, warnings, limits_of_nothing, without_a_file, lines_for_people, gpus_and_their_sums, a_certificate_of_the_unit,
                     a_cluster_that_runs):
            tally.run(test.__name__, test, host)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
