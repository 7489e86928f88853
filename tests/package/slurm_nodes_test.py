#!/usr/bin/env python3
"""deploy/slurm/tandem.sbatch under a real Slurm: a controller and three nodes, each in namespaces of its own on one bridge.

A node has its own network, processes, mounts and name, and runs munged and slurmd; it is lost when its cable is pulled and its
processes are killed. All of that lives below one process in namespaces of the test's own, so nothing is left when that ends, however it
does. SKIPPED without root, Debian's packages of Slurm and munge, or namespaces.
"""
import contextlib
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from cluster import BIN, Tally, eventually, hash_answer  # noqa: E402

APART = "--apart"
NEEDED = ("ip", "unshare", "nsenter", "munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "scancel", "sinfo", "pgrep")
NODES = ("node1", "node2", "node3")
HOME = Path("/mnt")  # a file system of the test's own, which all nodes see: this is what they share
BRIDGE = "10.77.0.254"
HTTP, BUS = 8000, 8001
USER = 7777  # whose jobs they are
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
SLOW_S = 150  # Slurm takes its time: it notices a lost node after some 20 s, and starts a job again after as much
CONFIG = """
ClusterName=tandem
SlurmctldHost=control
SlurmUser=slurm
AuthType=auth/munge
AuthInfo=cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=5,bf_interval=5
ReturnToService=2
SlurmdTimeout=10
MessageTimeout=5
SlurmdParameters=config_overrides
StateSaveLocation=/mnt/state
SlurmdSpoolDir=/mnt/spool/%n
SlurmctldPidFile=/mnt/log/slurmctld.pid
SlurmdPidFile=/mnt/log/%n.pid
SlurmctldLogFile=/mnt/log/slurmctld.log
SlurmdLogFile=/mnt/log/%n.log
NodeName=node[1-3] CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE
"""
MUNGED = "munged --foreground --key-file=/mnt/munge.key --seed-file=/run/munge/seed"
NODE = f"""
hostname "$1" && mount -t tmpfs tmpfs /run && mkdir -m 755 /run/munge
{MUNGED} >/mnt/log/"$1".munge 2>&1 &
until [ -S /run/munge/munge.socket.2 ]; do sleep 0.1; done
# The kernel is one for all, and workers know hosts by the name of its boot.
cat /proc/sys/kernel/random/uuid >/run/boot_id && mount --bind /run/boot_id /proc/sys/kernel/random/boot_id || exit 1
slurmd -D >/dev/null 2>&1 &
wait
"""


def run(*words, check=True, **kwargs):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, **kwargs)
    assert not check or done.returncode == 0, (words, done.stdout[-500:], done.stderr[-1500:])
    return done.stdout


class Node:
    """A host of the cluster, until it is lost; start() makes another of the same name and address."""

    def __init__(self, name):
        self.name, self.address, self.number = name, f"10.77.0.{NODES.index(name) + 1}", NODES.index(name) + 1
        self.process = None

    def start(self):
        cable = f"cable{self.number}"
        run("ip", "netns", "add", self.name)
        # The same hardware address each time: whoever knew the node before finds it again.
        run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "address", f"02:00:00:00:00:0{self.number}",
            "netns", self.name)
        run("ip", "link", "set", cable, "master", "bridge", "up")
        for words in (f"addr add {self.address}/24 dev eth0", "link set eth0 up", "link set lo up"):
            run("ip", "-n", self.name, *words.split())
        with (HOME / "log" / f"{self.name}.out").open("ab") as log:
            self.process = subprocess.Popen(["nsenter", f"--net=/run/netns/{self.name}", "unshare", "--uts", "--mount", "--pid", "--fork",
                                             "--kill-child", "--mount-proc", "bash", "-c", NODE, "node", self.name], stdout=log, stderr=log)

    def first_process(self):
        """Below nsenter, which became unshare: the first of its processes, with which all end."""
        return int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0])

    def lose(self):
        """The cable first: nobody is told anything."""
        run("ip", "link", "set", f"cable{self.number}", "down")
        os.kill(self.first_process(), 9)
        self.process.wait(60)
        self.process = None
        run("ip", "link", "del", f"cable{self.number}")
        run("ip", "netns", "del", self.name)

    def processes(self, name):
        """Process ids, as the node has them."""
        return [int(pid) for pid in run("nsenter", "-t", self.first_process(), "--pid", "--mount", "pgrep", "-f", f"^{name}",
                                        check=False).split()]


class Slurm:
    def __init__(self):
        self.nodes = {name: Node(name) for name in NODES}

    def start(self):
        """Controller and nodes; this process is on the controller's host."""
        for folder, user in (("state", "slurm"), ("log", "root"), ("spool", "root"), ("shared", USER)):
            (HOME / folder).mkdir()
            shutil.chown(HOME / folder, user)
        for name in NODES:
            (HOME / "spool" / name).mkdir()
        (HOME / "munge.key").touch(0o400)
        (HOME / "munge.key").write_bytes(os.urandom(64))
        hosts = "".join(f"{node.address} {node.name}\n" for node in self.nodes.values())
        (HOME / "hosts").write_text(f"127.0.0.1 localhost\n{BRIDGE} control\n{hosts}")
        (HOME / "passwd").write_text(f"{Path('/etc/passwd').read_text()}guest:x:{USER}:{USER}::/:/bin/sh\n")
        (HOME / "group").write_text(f"{Path('/etc/group').read_text()}guest:x:{USER}:\n")
        for name in ("hosts", "passwd", "group"):
            run("mount", "--bind", HOME / name, f"/etc/{name}")
        run("mount", "-t", "tmpfs", "tmpfs", "/etc/slurm")
        Path("/etc/slurm/slurm.conf").write_text(CONFIG)
        Path("/etc/slurm/cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # asked for, though nothing here uses it
        Path("/run/munge").mkdir(0o755)
        Path("/run/netns").mkdir(0o755)
        run("hostname", "control")
        for words in ("link set lo up", "link add bridge type bridge", f"addr add {BRIDGE}/24 dev bridge", "link set bridge up"):
            run("ip", *words.split())
        with (HOME / "log" / "control").open("ab") as log:
            subprocess.Popen(MUNGED.split(), stdout=log, stderr=log)
            eventually(lambda: Path("/run/munge/munge.socket.2").exists(), "munged")
            subprocess.Popen(["slurmctld", "-D"], stdout=log, stderr=log)
        self.all_idle()
        return run("sinfo", "--version").strip()

    def all_idle(self):
        """Once nodes that were lost are there again."""
        for node in self.nodes.values():
            if not node.process:
                node.start()
        eventually(lambda: run("sinfo", "--noheader", "--format=%D %t", check=False).split() == [str(len(NODES)), "idle"],
                   "three idle nodes", SLOW_S)

    def logs(self):
        for path in sorted((HOME / "log").glob("*.log")):
            print(f"--- {path.name}", *path.read_text(errors="replace").splitlines()[-15:], sep="\n", flush=True)


class Job:
    """The script, handed in by a user as its first lines say; its end is the caller's, or scancel's with the block."""

    def __init__(self, slurm, n_nodes, *options, **env):
        self.slurm = slurm
        env = {**os.environ, "TMPDIR": "/tmp", "PATH": f"{HOME}/bin:{os.environ['PATH']}", "MODEL": "hash", "NET": "10.77.",
               "OPTIONS": "--step-us=5000 --threads=1", "TANDEM_HANG_TIMEOUT": "5s", **env}
        self.number = run("sbatch", "--parsable", f"--nodes={n_nodes}", *options, HOME / "tandem.sbatch", env=env,
                          cwd=HOME / "shared", user=USER, group=USER, extra_groups=[]).strip()
        self.folder = HOME / "shared" / f"tandem-{self.number}"

    def __enter__(self):
        return self

    def text(self):
        log = self.folder.with_suffix(".log")
        return log.read_text() if log.exists() else ""

    def says(self, line, times=1):
        eventually(lambda: self.text().count(f"{line}\n") >= times, f"{times} of {line!r}", SLOW_S)

    def shows(self, field):
        return re.search(rf"\b{field}=(\S*)", run("scontrol", "show", "job", self.number)).group(1)

    def key(self, name):
        return (self.folder / f"{name}-keys").read_text().strip()

    def request(self, method, path, body=None, key="api", node="node1"):
        connection = http.client.HTTPConnection(node, HTTP, timeout=120)
        with contextlib.closing(connection):
            connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json",
                                                                         "Authorization": f"Bearer {self.key(key)}"})
            answer = connection.getresponse()
            text = answer.read().decode()
            assert answer.status == 200, (answer.status, text)
            return text

    def workers(self, **where):
        """{name: (its host, sequences that run)} of those that are ready."""
        workers = json.loads(self.request("GET", "/admin/status", key="admin", **where))["workers"]
        return {w["name"]: (w["host"], w["sequences"]["running"]) for w in workers if w["state"] == "ready"}

    def replays(self):
        return json.loads(self.request("GET", "/admin/status", key="admin"))["routers"][0]["core"]["replays"]

    def hosts(self):
        names = {node.address: node.name for node in self.slurm.nodes.values()}  # a router knows its own host's name alone
        return {name: names.get(host, host) for name, (host, _) in self.workers().items()}

    def ready(self, *names, **where):
        eventually(lambda: self.workers(**where).keys() == set(names), f"workers {names}", SLOW_S)

    def serves(self, *names):
        self.says(f"ready: http://node1:{HTTP}/v1, with the key in {self.folder}/api-keys")
        self.ready(*names)

    def ask(self, n_tokens, prompt=(1, 2, 3), **where):
        body = {"prompt": list(prompt), "max_tokens": n_tokens, "return_token_ids": True, "ignore_eos": True}
        answer = json.loads(self.request("POST", "/v1/completions", body, **where))
        assert answer["choices"][0]["token_ids"] == hash_answer(prompt, n_tokens), "another answer than the model's"

    @contextlib.contextmanager
    def answers(self, n, n_tokens):
        """n answers begin before the block does, and are all whole behind it."""
        errors = []

        def ask(i):
            try:
                self.ask(n_tokens, (i, 2, 3))
            except Exception as error:
                errors.append(error)
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(n)]
        for thread in threads:
            thread.start()
        eventually(lambda: not all(thread.is_alive() for thread in threads) or
                   sum(running for _, running in self.workers().values()) >= n, f"{n} answers run")
        yield
        for thread in threads:
            thread.join(120)
        assert not errors and not any(thread.is_alive() for thread in threads), errors[:2]

    def __exit__(self, kind, *_):
        if kind:
            print(self.text(), *(line for path in sorted(self.folder.glob("*.log"))
                                 for line in (f"--- {path.name}", *path.read_text().splitlines()[-10:])), sep="\n", flush=True)
            self.slurm.logs()
        run("scancel", self.number, check=False)
        eventually(lambda: not run("squeue", "--noheader", "--jobs", self.number, check=False).strip(), "the job's end", SLOW_S)


def a_cluster_lives_on_nodes(slurm):
    """All that one job meets: the facts in the order in which they happen."""
    with Job(slurm, 3, PREFILL="0", SPARE="1") as job:
        job.serves("mixed0", "mixed1")
        assert job.hosts() == {"mixed0": "node1", "mixed1": "node2"}, job.hosts()
        answers_only_to_keys(job)
        worker_is_started_again(slurm, job)
        node_is_lost(slurm, job)
        signal_drains(slurm, job)


def answers_only_to_keys(job):
    env = {**os.environ, "OPENAI_API_KEY": job.key("api")}
    chat = ("tandem", "chat", "--server", f"http://node1:{HTTP}", "--max-tokens", "5", "hi")
    assert run(BIN / chat[0], *chat[1:], env=env).strip()
    assert subprocess.run([BIN / chat[0], *chat[1:]], capture_output=True, timeout=60, stdin=subprocess.DEVNULL).returncode != 0
    # CURVE: whoever has other keys does not get in.
    run(BIN / "tandem", "keys", HOME / "other-keys")
    stranger = subprocess.Popen([BIN / "tandem-worker", "--model=hash", "--name=stranger", f"--keys={HOME}/other-keys",
                                 f"--routers=tcp://node1:{BUS}", f"--endpoint=tcp://{BRIDGE}:0"], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
    try:
        failed = re.compile(r"^tandem_handshakes_failed_total (\d+)", re.M)
        eventually(lambda: int(failed.search(job.request("GET", "/metrics")).group(1)) > 0, "a refused handshake")
    finally:
        stranger.kill()
        stranger.wait()
    assert job.workers().keys() == {"mixed0", "mixed1"}


def worker_is_started_again(slurm, job):
    """On its own node, which is there."""
    first, = slurm.nodes["node2"].processes("tandem-worker")
    with job.answers(4, 600):
        run("nsenter", "-t", slurm.nodes["node2"].first_process(), "--pid", "--mount", "kill", "-KILL", first)
    job.says("mixed1: ended with 137 on node2: " + str(job.folder / "mixed1.log"))
    job.says("mixed1: starts again on node2")
    job.ready("mixed0", "mixed1")
    again, = slurm.nodes["node2"].processes("tandem-worker")
    assert again != first


def node_is_lost(slurm, job):
    """Under load; the spare node takes its worker, and once that is lost too the job goes on with what is left."""
    replays = job.replays()
    with job.answers(4, 600):
        slurm.nodes["node2"].lose()
    assert job.replays() > replays, "no stream was on the node that was lost"
    job.says("mixed1: starts again on node3")
    job.ready("mixed0", "mixed1")
    assert job.hosts() == {"mixed0": "node1", "mixed1": "node3"}, job.hosts()
    job.ask(20)
    with job.answers(4, 600):
        slurm.nodes["node3"].lose()
    job.says("mixed1: node3 has left the job, and no other node is free")
    job.ready("mixed0")
    job.ask(20)
    assert job.shows("JobState") not in ENDED and job.shows("NodeList") == "node1"


def signal_drains(slurm, job):
    with job.answers(2, 600):
        run("scancel", "--batch", "--signal=USR1", job.number)
    completed(job)
    assert not slurm.nodes["node1"].processes("tandem"), "left behind on node1"


def completed(job):
    eventually(lambda: job.shows("JobState") in ENDED, "the job's end", SLOW_S)
    assert (job.shows("JobState"), job.shows("ExitCode")) == ("COMPLETED", "0:0"), job.text()
    assert job.text().endswith("\nended with 0\n") and "\nerror: " not in job.text(), job.text()


def time_limit_comes_with_a_signal_before(slurm):
    """The script asks for it two minutes before."""
    slurm.all_idle()
    with Job(slurm, 2, "--time=3") as job:
        job.serves("prefill0", "decode0")
        completed(job)


def scancel_ends_a_job(slurm):
    """On nodes that were lost and are back: running answers are whole, and nothing is left on any node."""
    slurm.all_idle()
    with Job(slurm, 3) as job:
        job.serves("prefill0", "decode0", "decode1")
        assert job.hosts() == {"prefill0": "node1", "decode0": "node2", "decode1": "node3"}, job.hosts()
        with job.answers(4, 600):
            run("scancel", job.number)
        eventually(lambda: job.shows("JobState") == "CANCELLED", "the job's end", SLOW_S)
        slurm.all_idle()
        assert not [node.name for node in slurm.nodes.values() if node.processes("tandem")], "left behind"


def a_job_without_its_first_node_is_queued_again(slurm):
    """For as many nodes as before."""
    slurm.all_idle()
    with Job(slurm, 2, PREFILL="0") as job:
        job.serves("mixed0", "mixed1")
        slurm.nodes["node1"].lose()
        ready = re.compile(r"^ready: http://(node[23]):8000/v1", re.M)
        node = eventually(lambda: ready.search(job.text()), "the job on other nodes", 2 * SLOW_S).group(1)
        assert job.shows("Restarts") == "1"
        job.ready("mixed0", "mixed1", node=node)
        job.ask(20, node=node)


def why_not():
    """What is missing for all of this, or None."""
    if os.getuid() != 0:
        return "needs root"
    if missing := [name for name in NEEDED if not shutil.which(name)]:
        return f"needs {', '.join(missing)} (Debian's slurmctld, slurmd, slurm-client, munge, iproute2)"
    probe = "mount -t tmpfs tmpfs /mnt && ip link add bridge type bridge && ip link add cable type veth peer name far"
    done = subprocess.run([*apart(), "sh", "-c", probe], capture_output=True, text=True, timeout=60)
    return None if done.returncode == 0 else f"no namespaces, bridge or mounts here: {done.stderr.strip()[-200:]}"


def apart():
    return ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"]


def main():
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    tally = Tally()
    if APART not in sys.argv:
        if reason := why_not():
            tally.skip("slurm", reason)
            return tally.end()
        os.execvp("unshare", [*apart(), sys.executable, __file__, APART])
    for place in (HOME, "/run"):
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", place)
    (HOME / "bin").mkdir()
    run("mount", "--bind", BIN, HOME / "bin")  # whoever may enter the checkout: jobs are a user's
    shutil.copy(ROOT / "deploy/slurm/tandem.sbatch", HOME)
    slurm = Slurm()
    started = []
    tally.run("a controller and three nodes", lambda: started.append(slurm.start()) or started[0])
    if started:
        for fact in (a_cluster_lives_on_nodes, scancel_ends_a_job, time_limit_comes_with_a_signal_before,
                     a_job_without_its_first_node_is_queued_again):
            tally.run(fact.__name__.replace("_", " "), fact, slurm)
    else:
        slurm.logs()
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
