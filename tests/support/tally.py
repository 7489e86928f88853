#!/usr/bin/env python3
"""Runs test steps and adds up what they counted.

usage: tally.py STEPS_FILE LOG_FOLDER [JOBS]

A step is a line `name<TAB>time limit in s<TAB>shell command`; one with a fourth field `beside` may run beside others of its
kind, JOBS at a time (default: the number of cores). A step's output is searched for the closing lines of Check ("100%:
Checks: 3, Failures: 0, Errors: 0"), for "N passed, M failed[, K skipped]", and for "compared N" or "tried N": several count together.
What is compared or tried is part of a test and not one. A failure is also: a step that exits non-zero and counted none, one that counted
nothing at all, and a suite of no tests. Lines that begin with SKIPPED are shown. The last lines are the number of programs and
comparisons and, alone, "N passed, M failed, K skipped", in tests.
"""
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

CHECK = re.compile(r"^(?:\d+: )?\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)", re.M)
PLAIN = re.compile(r"^(?:\d+: )?(?:\w+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$", re.M)
COMPARED = re.compile(r"^(?:\d+: )?(?:compared|tried) (\d+)\b", re.M)


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    compared: int = 0
    why: str = ""  # a failure that no line of the output tells

    def add(self, other: "Counts") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.compared += other.compared

    def mark(self) -> str:
        if self.failed:
            return "FAILED"
        return "ok" if self.passed else "SKIPPED"


def count(text: str, code: int) -> Counts:
    """What a step with this output and exit status counts as."""
    counts = Counts(compared=sum(map(int, COMPARED.findall(text))))
    for checks, failures, errors in CHECK.findall(text):
        wrong = int(failures) + int(errors)
        counts.add(Counts(int(checks) - wrong, wrong))
        if int(checks) == 0:
            counts.failed += 1
            counts.why = "a suite has no tests"
    for good, bad, skip in PLAIN.findall(text):
        counts.add(Counts(int(good), int(bad), int(skip or 0)))
    if code != 0 and counts.failed == 0:
        counts.failed += 1
        counts.why = f"exit status {code}, and no failure was counted"
    if counts.passed + counts.failed + counts.skipped == 0:
        counts.failed += 1
        counts.why = "nothing was counted: no tests were found, or none ran"
    return counts


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


class Report:
    """Prints each step as it ends and adds it to the total. Steps may end in several threads."""

    def __init__(self, logs: Path):
        self.logs, self.total, self.n_programs, self.lock = logs, Counts(), 0, threading.Lock()

    def take(self, step: list[str]) -> None:
        name, limit_s, command = step[:3]
        began = time.monotonic()
        text, code = run(command, float(limit_s), self.logs / f"{name.replace('/', '-')}.log")
        counts = count(text, code)
        with self.lock:
            self.total.add(counts)
            self.n_programs += 1
            compared = f", compared {counts.compared}" if counts.compared else ""
            print(f"{name:28} {counts.mark():7} {counts.passed:6} passed {counts.failed:4} failed {counts.skipped:4} skipped"
                  f" {time.monotonic() - began:7.1f} s{compared}", flush=True)
            for line in text.splitlines():
                if re.match(r"(?:\d+: )?SKIPPED", line):
                    print(f"    {line}")
            if counts.why:
                print(f"    {counts.why}")
            if counts.failed:
                print("\n".join("    | " + line for line in text.splitlines()[-60:]), flush=True)


def groups(steps: list[list[str]]):
    """Neighbours that may run beside each other, together; each other step alone."""
    together: list[list[str]] = []
    for step in steps:
        if len(step) > 3 and step[3] == "beside":
            together.append(step)
            continue
        if together:
            yield together
        together = []
        yield [step]
    if together:
        yield together


def main() -> int:
    steps = [line.split("\t") for line in Path(sys.argv[1]).read_text().splitlines() if line.strip()]
    logs = Path(sys.argv[2])
    jobs = int(sys.argv[3]) if len(sys.argv) > 3 else os.cpu_count() or 1
    logs.mkdir(parents=True, exist_ok=True)
    report = Report(logs)
    for group in groups(steps):
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(report.take, group))
    total = report.total
    print(f"{report.n_programs} programs, {total.passed + total.failed + total.skipped} tests, {total.compared} comparisons")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed or total.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
