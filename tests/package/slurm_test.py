#!/usr/bin/env python3
"""deploy/slurm/tandem.sbatch on one host: srun, scontrol and hostname are stand-ins, the cluster that they start is real.

The job's three nodes are this host. A chat is answered, a lost worker is no loss of the job, the signal before the time limit
ends running answers whole, and what is wrong is said. What Slurm itself makes of the script, no test here shows.
"""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from cluster import BIN, Skip, Tally, eventually, hash_answer, request  # noqa: E402
from daemons import free_ports  # noqa: E402

SCRIPT = ROOT / "deploy/slurm/tandem.sbatch"

# Tasks as srun starts them: numbered, each with its output, in sessions of their own; the greatest exit status is srun's. A srun
# that gets SIGTERM kills them: so does Slurm 22.05. Options that the script must not do without are looked for.
SRUN = r"""#!%s
import os, re, signal, subprocess, sys
words = sys.argv[1:]
options = {}
while words[0].startswith("--"):
    name, _, value = words.pop(0)[2:].partition("=")
    options[name] = value
assert "overlap" in options and options["kill-on-bad-exit"] == "0" and options["cpu-bind"] == "none", options
assert int(options["nodes"]) == int(options["ntasks"]), options
assert int(options["ntasks"]) == 1 or "nodelist" not in options, options
step, tasks = str(os.getpid()), []
for task in range(int(options["ntasks"])):
    with open(options["output"].replace("%%t", str(task)), "wb") as log:
        env = {**os.environ, "SLURM_PROCID": str(task), "SLURM_STEP_ID": step}
        tasks.append(subprocess.Popen(words, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True))
with open(os.environ["STEPS"] + "/" + step, "w") as pids:
    pids.write(" ".join(str(t.pid) for t in tasks))
signal.signal(signal.SIGTERM, lambda *_: [t.poll() is None and t.kill() for t in tasks])
codes = [t.wait() for t in tasks]
sys.exit(max(c if c >= 0 else 128 - c for c in codes))
""" % sys.executable
SCONTROL = """#!/bin/sh
[ "$1 $2 $3" = "show hostnames node[1-3]" ] && printf 'localhost\\nnode2\\nnode3\\n'
"""
SCANCEL = """#!/bin/sh
[ "$1" = --signal=TERM ] && kill -TERM $(cat "$STEPS/${2#42.}") 2>/dev/null
"""
HOSTNAME = """#!/bin/sh
[ "$1" = -I ] && echo "10.9.9.9 127.0.0.1 " || echo node
"""


class Job:
    def __init__(self, folder, **env):
        self.folder = folder
        tools = folder / "tools"
        tools.mkdir()
        for name, text in (("srun", SRUN), ("scontrol", SCONTROL), ("scancel", SCANCEL), ("hostname", HOSTNAME)):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        self.port = free_ports(1)[0]
        self.steps = folder / "steps"
        self.steps.mkdir()
        self.work = folder / "tandem-42"
        self.env = {**os.environ, "PATH": f"{tools}:{BIN}:{os.environ['PATH']}", "STEPS": str(self.steps), "MODEL": "hash", "NET": "127.",
                    "SLURM_JOB_ID": "42", "SLURM_SUBMIT_DIR": str(folder), "SLURM_JOB_NODELIST": "node[1-3]", "PORT": str(self.port),
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
        os.kill(job.workers()["decode1"]["pid"], signal.SIGKILL)
        eventually(lambda: job.workers().keys() == {"prefill0", "decode0"}, "the loss")
        job.ask(20)
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
        # 137: the worker that was killed.
        assert job.process.wait(60) == 137 and "ended with 137" in job.text(), job.text()
        assert "error" not in job.text() and " error " not in (job.work / "router.log").read_text()


def all_for_both(folder):
    with Job(folder, PREFILL="0") as job:
        job.ready({"mixed0", "mixed1", "mixed2"})
        job.process.send_signal(signal.SIGTERM)
        assert job.process.wait(60) == 0, job.text()


def mistakes_are_told(folder):
    for i, (env, words) in enumerate((({"MODEL": ""}, "MODEL"), ({"PREFILL": "3"}, "PREFILL=3"))):
        (folder / str(i)).mkdir()
        with Job(folder / str(i), **env) as job:
            assert job.process.wait(60) == 1 and words in job.text(), job.text()
    for i, (env, log, words) in enumerate((({"NET": "192.168."}, "worker-0.log", "NET=192.168."),
                                           ({"MODEL": "/no/such"}, "router.log", "/no/such"),
                                           ({"OPTIONS": "--no-such=1"}, "worker-0.log", "no-such"))):
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


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="tandem-slurm-") as name:
        tally.run("shellcheck", reads_well_to_shellcheck)
        for function in (serves_and_drains, all_for_both, mistakes_are_told):
            (Path(name) / function.__name__).mkdir()
            tally.run(function.__name__.replace("_", " "), function, Path(name) / function.__name__)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
