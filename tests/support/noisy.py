#!/usr/bin/env python3
"""Runs a command as a machine would that is busy and pauses: a part of its cores, and now and then nothing at all goes on.

usage: noisy.py [--cores 1] [--every 5] [--pause 0.2,2.5] [--seed 1] COMMAND...

The command and all that it starts are in a control group with a quota of CPU time. About every five seconds the whole group is
frozen for a time between the two bounds; clocks go on, as for a virtual machine that nobody runs. When and for how long is drawn
from the seed. A test that fails here and passes elsewhere judges the machine. Linux and root: control groups v2, or v1 with cpu and
freezer. The exit status is the command's, or 77 where no group can be made. The last line on standard error says what was done.
"""
import argparse
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
NONE = 77
PERIOD_US = 100000  # of a quota; the kernel's usual one


class Group:
    """A control group of its own. OSError where none can be made."""

    def __init__(self, name: str, cores: float):
        quota = int(cores * PERIOD_US)
        if (GROUPS / "cgroup.controllers").exists():
            with (GROUPS / "cgroup.subtree_control").open("w") as file:
                file.write("+cpu")
            self.folders = [GROUPS / name]
            self.switch, self.words = self.folders[0] / "cgroup.freeze", ("0", "1")
            limits = {self.folders[0] / "cpu.max": f"{quota} {PERIOD_US}"}
        else:
            self.folders = [GROUPS / "cpu" / name, GROUPS / "freezer" / name]
            self.switch, self.words = self.folders[1] / "freezer.state", ("THAWED", "FROZEN")
            limits = {self.folders[0] / "cpu.cfs_period_us": str(PERIOD_US), self.folders[0] / "cpu.cfs_quota_us": str(quota)}
        try:
            for folder in self.folders:
                folder.mkdir()
            for file, value in limits.items():
                file.write_text(value)
        except OSError:
            self.close()
            raise

    def enter(self) -> None:
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def freeze(self, frozen: bool) -> None:
        self.switch.write_text(self.words[frozen])

    def end(self) -> None:
        """Kills whatever is still in it."""
        self.freeze(False)
        for pid in (self.folders[-1] / "cgroup.procs").read_text().split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def close(self) -> None:
        for folder in self.folders:
            for _ in range(100):  # what was killed leaves a moment later
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.05)


def run(group: Group, command: list[str], chance: random.Random, every_s: float, pause: tuple[float, float]) -> tuple[int, int, float]:
    """(the command's exit status, pauses, seconds of all of them)"""
    n, paused_s = 0, 0.0
    child = subprocess.Popen(command, preexec_fn=group.enter)

    def on_end(signum, _frame):
        group.end()
        child.wait()
        group.close()
        os._exit(128 + signum)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, on_end)
    while True:
        try:
            code = child.wait(chance.expovariate(1 / every_s))
            return (128 - code if code < 0 else code), n, paused_s
        except subprocess.TimeoutExpired:
            pass
        length_s = chance.uniform(*pause)
        group.freeze(True)
        time.sleep(length_s)
        group.freeze(False)
        n, paused_s = n + 1, paused_s + length_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cores", type=float, default=1)
    parser.add_argument("--every", type=float, default=5, metavar="SECONDS")
    parser.add_argument("--pause", default="0.2,2.5", metavar="LEAST,MOST")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    if not given.command:
        parser.error("which command?")
    least, most = map(float, given.pause.split(","))
    try:
        group = Group(f"tandem-noisy-{os.getpid()}", given.cores)
    except OSError as why:
        print(f"noisy: no control group can be made here, which root may: {why}", file=sys.stderr)
        return NONE
    try:
        code, n, paused_s = run(group, given.command, random.Random(given.seed), given.every, (least, most))
    finally:
        group.end()
        group.close()
    print(f"noisy: seed {given.seed}, {given.cores:g} cores, {n} pauses of {paused_s:.1f} s together, exit status {code}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
