#!/usr/bin/env python3
"""Runs test steps one after the other and adds up what they counted.

usage: tally.py STEPS_FILE LOG_FOLDER

A step is a line `name<TAB>time limit in s<TAB>shell command`. A step's output is searched for the closing
lines of Check ("100%: Checks: 3, Failures: 0, Errors: 0") and for "N passed, M failed[, K skipped]";
several count together. A step that exits non-zero without counting a failure is one failure, one that
exits 0 without counting anything is one pass. Lines that begin with SKIPPED are shown. The last line
is "N passed, M failed, K skipped".
"""
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

CHECK = re.compile(r"^(?:\d+: )?\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)", re.M)
PLAIN = re.compile(r"^(?:\d+: )?(?:\w+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$", re.M)


def count(text: str, code: int) -> tuple[int, int, int]:
    passed = failed = skipped = 0
    for checks, failures, errors in CHECK.findall(text):
        failed += int(failures) + int(errors)
        passed += int(checks) - int(failures) - int(errors)
    for good, bad, skip in PLAIN.findall(text):
        passed, failed, skipped = passed + int(good), failed + int(bad), skipped + int(skip or 0)
    if code != 0 and failed == 0:
        failed += 1
    if code == 0 and passed + failed + skipped == 0:
        passed += 1
    return passed, failed, skipped


def run(command: str, limit_s: float, log: Path) -> tuple[str, int]:
    with log.open("wb") as out:
        child = subprocess.Popen(["bash", "-c", command], stdout=out, stderr=subprocess.STDOUT,
                                 stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            code = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = 124
            out.write(f"\nstopped after its limit of {limit_s:.0f} s\n".encode())
        # Nothing that a step started may outlive it.
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
    return log.read_text(errors="replace"), code


def main() -> int:
    steps = [line.split("\t") for line in Path(sys.argv[1]).read_text().splitlines() if line.strip()]
    logs = Path(sys.argv[2])
    logs.mkdir(parents=True, exist_ok=True)
    total = [0, 0, 0]
    for name, limit_s, command in steps:
        began = time.monotonic()
        text, code = run(command, float(limit_s), logs / f"{name.replace('/', '-')}.log")
        counts = count(text, code)
        total = [a + b for a, b in zip(total, counts)]
        mark = "ok" if counts[1] == 0 else "FAILED"
        print(f"{name:28} {mark:6} {counts[0]:6} passed {counts[1]:4} failed {counts[2]:4} skipped"
              f" {time.monotonic() - began:7.1f} s", flush=True)
        for line in text.splitlines():
            if re.match(r"(?:\d+: )?SKIPPED", line):
                print(f"    {line}")
        if counts[1]:
            print("\n".join("    | " + line for line in text.splitlines()[-60:]), flush=True)
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    return 1 if total[1] or total[0] == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
