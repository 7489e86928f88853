#!/usr/bin/env python3
"""deploy/slurm/tandem.sbatch on one host: Slurm's commands and hostname are stand-ins, the cluster that they start is real.

The job's three nodes are this host. A chat is answered, a worker that dies is started again where a node is free, the signal before
the time limit ends running answers whole, and what is wrong is said. What Slurm itself makes of the script, slurm_nodes_test.py
shows.
"""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from cluster import BIN, Skip, Tally, eventually, hash_answer, request  # noqa: E402
from daemons import free_ports  # noqa: E402

SCRIPT = ROOT / "deploy/slurm/tandem.sbatch"

# A task as srun starts it: with its output, in a session of its own; its exit status is srun's, but 0 where its node has left the
# job. A srun that gets SIGTERM kills it. So does Slurm 22.05. Options that the script must not do without are looked for.
SRUN = r"""#!%s
import os, signal, subprocess, sys
words = sys.argv[1:]
options = {}
while words[0].startswith("--"):
    name, _, value = words.pop(0)[2:].partition("=")
    options[name] = value
assert "overlap" in options and options["cpu-bind"] == "none" and options["open-mode"] == "append", options
assert options["nodes"] == options["ntasks"] == "1", options
nodes = os.environ["NODES"]
assert options["nodelist"] in open(nodes).read().split(","), options
step = str(os.getpid())
with open(options["output"], "ab") as log:
    task = subprocess.Popen(words, env={**os.environ, "SLURM_STEP_ID": step}, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                            start_new_session=True)
with open(os.environ["STEPS"] + "/" + step, "w") as pid:
    pid.write(str(task.pid))
signal.signal(signal.SIGTERM, lambda *_: task.poll() is None and task.kill())
code = task.wait()
if options["nodelist"] not in open(nodes).read().split(","):
    sys.exit(0)
sys.exit(code if code >= 0 else 128 - code)
""" % sys.executable
# `scontrol requeue JOB` is refused.
SCONTROL = """#!/bin/sh
case "$1 $2 $3" in
"show hostnames node[1-3]") printf 'localhost\\nnode2\\nnode3\\n' ;;
"show hostnames "*) echo "$3" | tr , '\\n' ;;
*) echo "scontrol $*" >>"$CALLS"; exit 1 ;;
esac
"""
# While there is a file `silent` it notes there that it was asked, and does not answer.
SQUEUE = """#!/bin/sh
if [ -e "$STEPS/../silent" ]; then echo "$*" >>"$STEPS/../silent"; exit 1; fi
case "$*" in
"--noheader --jobs=42 --format=%N") cat "$NODES" ;;
"--noheader --jobs=42 --format=%T %N") echo squeue >>"$CALLS"; echo "RUNNING $(cat "$NODES")" ;;
*) exit 1 ;;
esac
"""
SCANCEL = """#!/bin/sh
case $1 in
--signal=TERM) kill -TERM $(cat "$STEPS/${2#42.}") 2>/dev/null ;;
*) echo "scancel $*" >>"$CALLS" ;;
esac
"""
HOSTNAME = """#!/bin/sh
[ "$1" = -I ] && echo "10.9.9.9 127.0.0.1 " || echo node
"""


class Job:
    def __init__(self, folder, **env):
        self.folder = folder
        tools = folder / "tools"
        tools.mkdir()
        for name, text in (("srun", SRUN), ("scontrol", SCONTROL), ("squeue", SQUEUE), ("scancel", SCANCEL), ("hostname", HOSTNAME)):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        self.port = free_ports(1)[0]
        self.steps = folder / "steps"
        self.steps.mkdir()
        self.nodes, self.calls = folder / "nodes", folder / "calls"
        self.nodes.write_text("localhost,node2,node3")
        self.work = folder / "tandem-42"
        self.env = {**os.environ, "PATH": f"{tools}:{BIN}:{os.environ['PATH']}", "STEPS": str(self.steps), "NODES": str(self.nodes),
                    "CALLS": str(self.calls), "MODEL": "hash", "NET": "127.",
                    "SLURM_JOB_ID": "42",
                    "SLURM_SUBMIT_DIR": str(folder), "SLURM_JOB_NODELIST": "node[1-3]", "PORT": str(self.port),
                    "OPTIONS": "--step-us=5000 --threads=1", **env}

    def __enter__(self):
        self.log = (self.folder / "batch.log").open("wb")
        self.process = subprocess.Popen(["bash", str(SCRIPT)], env=self.env, stdout=self.log, stderr=self.log, start_new_session=True)
        return self

    def text(self):
        return (self.folder / "batch.log").read_text()

    def keys(self):
        return {name: (self.work / f"{name}-keys").read_text().strip() for name in ("api", "admin")}

    def workers(self):
        status, _, body = request(self.port, "GET", "/admin/status", headers={"Authorization": f"Bearer {self.keys()['admin']}"})
        assert status == 200, body
        return {w["name"]: w for w in json.loads(body)["workers"] if w["state"] == "ready"}

    def ready(self, names):
        eventually(lambda: "ready: http://localhost:" in self.text() or self.process.poll() is not None, "the job's line")
        assert self.process.poll() is None, self.text()
        eventually(lambda: self.workers().keys() == names, f"workers {names}")

    def ask(self, n_tokens):
        headers = {"Authorization": f"Bearer {self.keys()['api']}"}
        body = {"prompt": [1, 2, 3], "max_tokens": n_tokens, "return_token_ids": True, "ignore_eos": True}
        status, _, answer = request(self.port, "POST", "/v1/completions", body, headers)
        assert status == 200, answer
        assert json.loads(answer)["choices"][0]["token_ids"] == hash_answer([1, 2, 3], n_tokens)

    def kill(self, name):
        os.kill(self.workers()[name]["pid"], signal.SIGKILL)

    def lose(self, node, name):
        """The node leaves the job, and its worker with it. Who else is listed, is kept in its place."""
        self.nodes.write_text(",".join(n for n in self.nodes.read_text().split(",") if n != node))
        self.kill(name)

    def says(self, line, times=1):
        eventually(lambda: self.text().count(f"{line}\n") >= times, f"{times} of {line!r} in {self.text()}")

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pid in [int(pid) for step in self.steps.iterdir() for pid in step.read_text().split()]:
            with contextlib.suppress(ProcessLookupError):  # what a broken script has left
                os.kill(pid, signal.SIGKILL)
        self.log.close()


def serves_and_drains(folder):
    with Job(folder) as job:
        job.ready({"prefill0", "decode0", "decode1"})
        roles = {name: w["role"] for name, w in job.workers().items()}
        assert roles == {"prefill0": "prefill", "decode0": "decode", "decode1": "decode"}, roles
        job.ask(20)
        assert request(job.port, "POST", "/v1/completions", {"prompt": "x"})[0] == 401, "open to the whole network"
        for path in [job.work, *job.work.iterdir()]:
            assert path.stat().st_mode & 0o077 == 0, f"others can read {path.name}"
        silent = folder / "silent"
        silent.touch()
        job.kill("decode1")
        eventually(lambda: job.workers().keys() == {"prefill0", "decode0"}, "the loss")
        job.ask(20)
        eventually(lambda: silent.read_text().count("--format=%N") >= 2, "two questions to a controller that does not answer")
        assert "starts again" not in job.text() and "left" not in job.text(), job.text()
        silent.unlink()
        job.says("decode1: starts again on node3")
        eventually(lambda: job.workers().keys() == {"prefill0", "decode0", "decode1"}, "its return")
        assert job.process.poll() is None
        errors = []

        def ask():
            try:
                job.ask(600)  # some 3 s
            except Exception as error:
                errors.append(error)
        asking = threading.Thread(target=ask)
        asking.start()
        eventually(lambda: not asking.is_alive() or any(w["sequences"]["running"] for w in job.workers().values()), "it runs")
        job.process.send_signal(signal.SIGUSR1)
        asking.join(60)
        assert not errors, errors
        assert job.process.wait(60) == 0 and job.text().endswith("\nended with 0\n"), job.text()
        assert "error" not in job.text() and " error " not in (job.work / "router.log").read_text()


def all_for_both(folder):
    with Job(folder, PREFILL="0") as job:
        job.ready({"mixed0", "mixed1", "mixed2"})
        job.process.send_signal(signal.SIGTERM)
        assert job.process.wait(60) == 0, job.text()


def one_worker_is_enough(folder):
    """The most nodes that may be spare, and that may be for prefill."""
    for i, (env, names) in enumerate((({"SPARE": "2"}, {"mixed0"}), ({"PREFILL": "2"}, {"prefill0", "prefill1", "decode0"}))):
        (folder / str(i)).mkdir()
        with Job(folder / str(i), **env) as job:
            job.ready(names)


def a_worker_gets_a_free_node(folder):
    """Where its own fails it twice, or has left the job; without one the job goes on."""
    with Job(folder, PREFILL="0", SPARE="1") as job:
        both = {"mixed0", "mixed1"}
        job.ready(both)
        for node in ("node2", "node3"):
            eventually(lambda: job.workers().keys() == both, "both workers")
            job.kill("mixed1")
            job.says(f"mixed1: starts again on {node}")
        eventually(lambda: job.workers().keys() == both, "the worker on the spare node")
        job.lose("node3", "mixed1")
        job.says("mixed1: starts again on node2", 2)
        eventually(lambda: job.workers().keys() == both, "the worker on the node that it had left")
        job.lose("node2", "mixed1")
        job.says("mixed1: node2 has left the job, and no other node is free")
        job.ask(20)
        assert job.process.poll() is None and job.workers().keys() == {"mixed0"}


def a_drained_worker_stays_away(folder):
    """And its node is free for another one."""
    with Job(folder, PREFILL="0") as job:
        def drain(name):
            subprocess.run([BIN / "tandem", "drain", name, "--exit", "--server", f"http://localhost:{job.port}"], check=True,
                           env={**job.env, "TANDEM_ADMIN_KEY": job.keys()["admin"]}, capture_output=True, timeout=60)
            job.says(f"{name}: was drained")
        job.ready({"mixed0", "mixed1", "mixed2"})
        job.lose("node3", "mixed2")
        job.says("mixed2: node3 has left the job, and no other node is free")
        drain("mixed1")
        job.says("mixed2: starts again on node2")
        eventually(lambda: job.workers().keys() == {"mixed0", "mixed2"}, "the worker on the node that became free")
        drain("mixed2")
        drain("mixed0")
        assert job.process.wait(60) == 1, job.text()
        assert job.text().count("starts again") == 1 and "error: the workers ended: " in job.text(), job.text()


def a_job_without_its_first_node_is_queued_again(folder):
    """Its script and router are gone, and the other nodes do it: or cancel it, where it may not be queued again."""
    with Job(folder, PREFILL="0") as job:
        def calls():
            return job.calls.read_text().splitlines() if job.calls.exists() else []
        job.ready({"mixed0", "mixed1", "mixed2"})
        router = int(re.search(r'msg="router ready".* pid=(\d+)', (job.work / "router.log").read_text()).group(1))
        job.process.kill()
        os.kill(router, signal.SIGKILL)
        eventually(lambda: not socket_opens(job.port), "the router's end")
        log = job.work / "mixed1.log"
        eventually(lambda: len(calls()) >= 6, "each worker asks twice")
        assert set(calls()) == {"squeue"}, "the router alone is no reason: its node is still there"
        job.nodes.write_text("node2,node3")
        eventually(lambda: "scancel 42" in calls(), "the end of the job")
        told = [call for call in calls() if call != "squeue"]
        assert "scancel 42" not in told[:told.index("scontrol requeue 42") + 2], told
        assert "the job has lost its first node, localhost\n" in log.read_text(), log.read_text()


def socket_opens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def mistakes_are_told(folder):
    for i, (env, words) in enumerate((({"MODEL": ""}, "MODEL"), ({"PREFILL": "3"}, "PREFILL=3 leaves none of 3 workers"),
                                      ({"PREFILL": "2", "SPARE": "1"}, "PREFILL=2 leaves none of 2 workers"),
                                      ({"SPARE": "3"}, "SPARE=3 leaves none of 3 nodes"),
                                      ({"SPARE": "999999"}, "SPARE=999999 leaves none of 3 nodes"),
                                      ({"SPARE": "1000000"}, "SPARE=1000000: must be a number of nodes"),
                                      ({"SPARE": "some"}, "SPARE=some: must be a number of nodes"),
                                      ({"PREFILL": "-1"}, "PREFILL=-1: must be a number of nodes"))):
        (folder / str(i)).mkdir()
        with Job(folder / str(i), **env) as job:
            assert job.process.wait(60) == 1 and words in job.text(), job.text()
    for i, (env, log, words) in enumerate((({"NET": "192.168."}, "prefill0.log", "NET=192.168."),
                                           ({"MODEL": "/no/such"}, "router.log", "/no/such"),
                                           ({"OPTIONS": "--no-such=1"}, "prefill0.log", "no-such"))):
        (folder / f"started{i}").mkdir()
        with Job(folder / f"started{i}", **env) as job:
            assert job.process.wait(60) == 1, job.text()
            assert re.search(r"error: the (router|workers) ended: \S+", job.text()), job.text()
            assert words in (job.work / log).read_text()


def reads_well_to_shellcheck():
    if not shutil.which("shellcheck"):
        raise Skip("needs shellcheck")
    done = subprocess.run(["shellcheck", SCRIPT], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


FACTS = [serves_and_drains, all_for_both, one_worker_is_enough, a_worker_gets_a_free_node, a_drained_worker_stays_away,
         a_job_without_its_first_node_is_queued_again, mistakes_are_told]


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="tandem-slurm-") as name, ThreadPoolExecutor(len(FACTS)) as pool:
        tally.run("shellcheck", reads_well_to_shellcheck)
        for function in FACTS:
            (Path(name) / function.__name__).mkdir()
            pool.submit(tally.run, function.__name__.replace("_", " "), function, Path(name) / function.__name__)
        pool.shutdown()
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
