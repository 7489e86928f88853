#!/usr/bin/env python3
"""deploy/Containerfile: the image is built, and its programs serve as nobody, with a read-only root and without capabilities.

tests/package/container_test.py [--root DIR]

Registries are not asked: the base image is a fresh Debian root (debootstrap), or the one that --root names. The packages that
the build installs come from Debian's archive. Images and containers live in a folder of the test. SKIPPED where podman, a
root or a container cannot be had.
"""
import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from cluster import Tally, eventually, hash_answer, request  # noqa: E402
from daemons import free_ports  # noqa: E402
from installed_test import fresh_root, run  # noqa: E402

BASE, IMAGE = "localhost/tandem-base:12", "localhost/tandem:test"
# As deploy/kubernetes has its pods. The limits are those that podman may set wherever it runs.
CONFINED = ["--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges", "--network=host",
            "--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096"]


class Podman:
    def __init__(self, folder):
        self.words = ["podman", f"--root={folder}/images", f"--runroot={folder}/run"]
        if shutil.which("runc"):
            self.words.append("--runtime=runc")  # crun refuses hosts with both kinds of cgroups

    def __call__(self, *args, **kwargs):
        return run(*self.words, *args, **kwargs)

    def shows(self, *args):
        """What a program of the image writes."""
        return self("run", "--rm", *CONFINED, IMAGE, *args).strip()

    def start(self, name, *args):
        words, i = list(args), 0
        while words[i].startswith("-"):
            i += 1
        self("run", "--detach", f"--name={name}", *CONFINED, *words[:i], IMAGE, *words[i:])

    def stopped(self, name):
        """Stops a container by SIGTERM; its exit status."""
        self("stop", "--time=60", name)
        return int(self("inspect", "--format={{.State.ExitCode}}", name))


def is_built(podman, root, cache):
    tar = subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE)
    podman("import", "-", BASE, stdin=tar.stdout)
    assert tar.wait() == 0
    # What was compiled before, where there is such a cache, is taken from there.
    podman("build", "--isolation=chroot", "--network=host", "--pull=never", f"--build-arg=BASE={BASE}",
           *([f"--volume={cache}:/root/.cache/ccache"] if cache.is_dir() else []), "-f", ROOT / "deploy/Containerfile", "-t", IMAGE, ROOT,
           timeout=3600)
    return podman("image", "inspect", "--format={{.Size}}", IMAGE).strip() + " bytes, base included"


def runs_as_nobody(podman):
    assert podman.shows("sh", "-c", "id -u; id -g; grep -E '^(CapEff|NoNewPrivs)' /proc/self/status").split() == \
        ["10001", "10001", "CapEff:", "0000000000000000", "NoNewPrivs:", "1"]
    assert podman.shows("sh", "-c", "touch /x /usr/bin/x /tmp/x 2>/dev/null || echo read-only") == "read-only"
    assert "not found" not in podman.shows("sh", "-c", "ldd /usr/bin/tandem*")
    assert "tandem COMMAND" in podman.shows()
    for program in ("tandem", "tandem-router", "tandem-worker", "tandem-bench"):
        assert podman.shows(program, "--version")
    assert not podman.shows("sh", "-c", "command -v gcc cmake || true"), "what only the build needs is in the image"


def daemons_serve(podman, folder):
    """A router and two workers, each in a container of its own, with keys that the containers only read."""
    keys = folder / "keys"
    subprocess.run(["install", "-d", "-m", "700", keys], check=True)
    podman("run", "--rm", *CONFINED, "--user=0:0", f"--volume={keys}:/keys", IMAGE, "tandem", "keys", "/keys")
    for path in keys.iterdir():
        shutil.chown(path, 0, 10001)
        path.chmod(0o440)
    keys.chmod(0o755)
    http, announce = free_ports(2)
    mount = f"--volume={keys}:/run/secrets/tandem/bus:ro"
    podman.start("router", mount, "tandem-router", "--model=hash", "--keys=/run/secrets/tandem/bus", f"--listen=127.0.0.1:{http}",
                 f"--announce=tcp://127.0.0.1:{announce}")
    for role in ("prefill", "decode"):
        ports = free_ports(2)
        podman.start(role, mount, "tandem-worker", "--model=hash", "--keys=/run/secrets/tandem/bus", f"--name={role}0", f"--role={role}",
                     f"--routers=tcp://127.0.0.1:{announce}", f"--endpoint=tcp://127.0.0.1:{ports[0]}",
                     f"--kv-endpoint=tcp://127.0.0.1:{ports[1]}")
    answered(http)
    assert [podman.stopped(name) for name in ("router", "prefill", "decode")] == [0, 0, 0]


def answered(port):
    def ready():
        try:
            workers = json.loads(request(port, "GET", "/admin/status")[2])["workers"]
        except (OSError, ValueError):
            return False
        return sum(w["state"] == "ready" for w in workers) == 2
    eventually(ready, "two workers")
    body = {"prompt": [1, 2, 3], "max_tokens": 8, "ignore_eos": True, "return_token_ids": True}
    status, _, answer = request(port, "POST", "/v1/completions", body)
    assert status == 200 and json.loads(answer)["choices"][0]["token_ids"] == hash_answer([1, 2, 3], 8), answer


def whole_cluster_serves(podman):
    """`tandem up`, as the file's first lines show it: it wants a place for its sockets."""
    (http,) = free_ports(1)
    podman.start("up", "--tmpfs=/tmp", "tandem", "up", "--model=hash", f"--listen=127.0.0.1:{http}")
    answered(http)
    assert podman.stopped("up") == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path)
    options = parser.parse_args()
    tally = Tally()
    if missing := [tool for tool in ("podman", "debootstrap") if not shutil.which(tool)]:
        tally.skip("container", f"needs {', '.join(missing)}")
        return tally.end()
    with tempfile.TemporaryDirectory(prefix="tandem-container-") as name:
        folder = Path(name)
        podman = Podman(folder)
        try:
            podman("info")
            root = options.root or folder / "root"
            if not options.root:
                fresh_root(root)
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            tally.skip("container", f"no container can be made here: {str(error)[-300:]}")
            return tally.end()
        try:
            built = []
            tally.run("the image is built", lambda: built.append(is_built(podman, root, Path.home() / ".cache/ccache")) or built[0])
            if built:
                tally.run("it runs as nobody, with a read-only root", runs_as_nobody, podman)
                tally.run("daemons serve, each in a container", daemons_serve, podman, folder)
                tally.run("a whole cluster serves in one", whole_cluster_serves, podman)
        finally:
            podman("rm", "--all", "--force", "--time=0", check=False)
            podman("rmi", "--all", "--force", check=False)
            # Layers belong to the users of the images.
            run("podman", "unshare", "rm", "-rf", folder / "images", check=False)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
