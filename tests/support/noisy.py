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

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.support.groups import Group  # noqa: E402

NONE = 77


def run(group: Group, command: list[str], chance: random.Random, every_s: float, pause: tuple[float, float]) -> tuple[int, int, float]:
    """(the command's exit status, pauses, seconds of all of them)"""
    n, paused_s = 0, 0.0
    child = subprocess.Popen(group.command(*command))

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
        group = Group(f"tandem-noisy-{os.getpid()}", cores=given.cores)
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
