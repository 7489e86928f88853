#!/usr/bin/env python3
"""What a child reports under a sanitizer is a failure of its test, however the child ended: small programs with one mistake
each, run as a test runs its daemons, and a worker that `tandem up` starts again after its report."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import cluster
from cluster import BIN, Cluster, Tally, eventually

HERE = Path(__file__).resolve()
# Built with what the presets build with. Only the first argument decides, so that the compiler sees no mistake.
SOURCE = r"""
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* The sanitizer can miss a race of two writes in the same instant: there are a thousand here. */
static int shared[1000];
static void *write_shared(void *user) {
    for (int i = 0; i < 1000; i++)
        shared[i] = user != NULL;
    return NULL;
}
int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    const char *real = getenv("TEST_REAL_WORKER"), *marker = getenv("TEST_MARKER");
    volatile int eight = 8;
    if (real && strcmp(what, "--print-config") == 0)
        execv(real, argv); /* tandem up asks for the options first */
    if (real) { /* only the second start goes wrong */
        int fd = open(marker, O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (write(fd, "x", 1) == 1 && lseek(fd, 0, SEEK_END) == 2)
            what = "overflow";
        else
            execv(real, argv);
    }
    if (strcmp(what, "overflow") == 0) {
        char *volatile bytes = malloc(8);
        bytes[eight] = 1;
    } else if (strcmp(what, "leak") == 0) {
        void *volatile lost = malloc(100);
        lost = NULL;
    } else if (strcmp(what, "shift") == 0) {
        eight = 1 << (8 * eight);
    } else if (strcmp(what, "race") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, write_shared, NULL);
        write_shared(shared);
        pthread_join(thread, NULL);
    }
    return 0;
}
"""
FLAGS = {"dev": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"], "tsan": ["-fsanitize=thread"]}


def inner(command):
    """A test like any other, with a child: what is asked is how it ends."""
    tally = Tally()

    def runs_a_child():
        if command[0] != "up":
            subprocess.run(command, check=False, stderr=subprocess.DEVNULL)
            return
        cluster.BIN = Path(command[1])
        with Cluster("--mixed", "1") as up:
            first = up.workers()[0]["pid"]
            os.kill(first, signal.SIGKILL)
            eventually(lambda: any(w["state"] == "ready" and w["pid"] != first for w in up.workers()), "its third start")
    tally.run("runs a child", runs_a_child)
    return tally.end()


class Programs:
    def __init__(self, folder):
        self.folder = folder
        source = folder / "wrong.c"
        source.write_text(SOURCE)
        for build, flags in FLAGS.items():
            subprocess.run([os.environ.get("CC", "cc"), "-g", "-w", *flags, "-o", folder / build, source, "-lpthread"], check=True)

    def run(self, build, *command, **env):
        """(exit status, output) of a test that has this child."""
        bare = {name: value for name, value in os.environ.items() if not name.endswith("SAN_OPTIONS")}
        done = subprocess.run([sys.executable, HERE, "--inner", *map(str, command)], capture_output=True, text=True, timeout=120,
                              env={**bare, "TANDEM_BUILD": build, **env})
        return done.returncode, done.stdout + done.stderr


def is_reported(programs, build, mistake, words, **env):
    code, output = programs.run(build, programs.folder / build, mistake, **env)
    assert code == 1 and "FAILED  a sanitizer reports: " in output and words in output, (code, output)
    assert output.endswith("1 passed, 1 failed, 0 skipped\n"), output


def without_a_mistake(programs):
    for build in (*FLAGS, "release"):
        code, output = programs.run(build, programs.folder / "dev", "nothing")
        assert code == 0 and output.endswith("1 passed, 0 failed, 0 skipped\n"), (build, code, output)


def each_child_of_many(programs):
    """Reports do not overwrite each other."""
    loop = f"for i in 1 2 3; do {programs.folder}/dev overflow; done"
    code, output = programs.run("dev", "sh", "-c", loop)
    assert code == 1 and output.endswith("1 passed, 3 failed, 0 skipped\n"), (code, output)


def survives_a_restart(programs):
    """A worker is killed, the next dies of its mistake, the third is in order, and `tandem up` ends well."""
    bin_folder = programs.folder / "bin"
    bin_folder.mkdir()
    for name in ("tandem", "tandem-router"):
        shutil.copy(BIN / name, bin_folder / name)
    shutil.copy(programs.folder / "dev", bin_folder / "tandem-worker")
    code, output = programs.run("dev", "up", bin_folder, TEST_REAL_WORKER=str(BIN / "tandem-worker"),
                                TEST_MARKER=str(programs.folder / "marker"))
    assert "ok      runs a child" in output and (programs.folder / "marker").read_text() == "xxx", output
    assert code == 1 and "heap-buffer-overflow" in output, (code, output)
    assert output.endswith("1 passed, 1 failed, 0 skipped\n"), output


def main():
    if sys.argv[1:2] == ["--inner"]:
        return inner(sys.argv[2:])
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="tandem-sanitizers-") as folder:
        programs = Programs(Path(folder))
        tally.run("a heap overflow is a failure", is_reported, programs, "dev", "overflow", "heap-buffer-overflow")
        tally.run("so is a leak", is_reported, programs, "dev", "leak", "detected memory leaks")
        tally.run("so is undefined behaviour", is_reported, programs, "dev", "shift", "AddressSanitizer: ABRT")
        tally.run("so is a race", is_reported, programs, "tsan", "race", "data race")
        tally.run("options of one's own hide nothing", is_reported, programs, "dev", "overflow", "heap-buffer-overflow",
                  **{f"{name}_OPTIONS": "log_path=/dev/null:detect_leaks=1" for name in ("ASAN", "UBSAN", "LSAN")})
        tally.run("a child without a mistake is none", without_a_mistake, programs)
        tally.run("each child's report counts", each_child_of_many, programs)
        tally.run("so does that of a worker that was started again", survives_a_restart, programs)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
