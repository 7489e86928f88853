#!/usr/bin/env python3
"""Runs test steps and adds up what they counted.

usage: tally.py STEPS_FILE LOG_FOLDER [JOBS]

A step is a line `name<TAB>time limit in s<TAB>shell command[<TAB>kind]`. The kind says what it may run beside:
    computes   takes a core all the time; runs at low priority, so that what waits beside it is woken at once
    waits      takes half a core at most: daemons and clocks
    (none)     runs alone, after all others
JOBS is the number of cores to fill (default: all). A step's output is searched for the closing lines of Check ("100%:
Checks: 3, Failures: 0, Errors: 0"), for "N passed, M failed[, K skipped]", and for "compared N" or "tried N": several count together.
What is compared or tried is part of a test and not one. A failure is also: a step that exits non-zero and counted none, one that counted
nothing at all, and a suite of no tests. Lines that begin with SKIPPED are shown. The last lines are the ten slowest steps, the steps that
failed with the end of their output, the number of programs and comparisons and, alone, "N passed, M failed, K skipped", in tests.
"""
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

CHECK = re.compile(r"^(?:\d+: )?\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)", re.M)
PLAIN = re.compile(r"^(?:\d+: )?(?:\w+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$", re.M)
COMPARED = re.compile(r"^(?:\d+: )?(?:compared|tried) (\d+)\b", re.M)
HALVES = {"computes": 2, "waits": 1}  # of a core, that a step of the kind takes
KINDS = ("", *HALVES)
N_SLOWEST = 10
N_REPEATED = 20  # lines of a failed step's output that are printed again at the end


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


def run(command: str, limit_s: float, log: Path, nice: int) -> tuple[str, int]:
    with log.open("wb") as out:
        child = subprocess.Popen(["nice", "-n", str(nice), "bash", "-c", command], stdout=out, stderr=subprocess.STDOUT,
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


class Step:
    """One line of the steps' file."""

    def __init__(self, line: str):
        self.name, limit_s, self.command, *kind = line.split("\t")
        self.limit_s, self.kind = float(limit_s), kind[0] if kind else ""
        if self.kind not in KINDS:
            sys.exit(f"{self.name}: there is no kind of steps {self.kind!r}")
        self.seconds = 0.0


class Report:
    """Prints each step as it ends and adds it to the total. Steps may end in several threads."""

    def __init__(self, logs: Path):
        self.logs, self.total, self.done, self.lock = logs, Counts(), [], threading.Lock()
        self.failed = []  # the steps that failed, each with the end of its output

    def take(self, step: Step) -> None:
        began = time.monotonic()
        text, code = run(step.command, step.limit_s, self.logs / f"{step.name.replace('/', '-')}.log",
                         10 if step.kind == "computes" else 0)
        step.seconds = time.monotonic() - began
        counts = count(text, code)
        with self.lock:
            self.total.add(counts)
            self.done.append(step)
            compared = f", compared {counts.compared}" if counts.compared else ""
            print(f"{step.name:28} {counts.mark():7} {counts.passed:6} passed {counts.failed:4} failed {counts.skipped:4} skipped"
                  f" {step.seconds:7.1f} s{compared}", flush=True)
            for line in text.splitlines():
                if re.match(r"(?:\d+: )?SKIPPED", line):
                    print(f"    {line}")
            if counts.why:
                print(f"    {counts.why}")
            if counts.failed:
                print("\n".join("    | " + line for line in text.splitlines()[-60:]), flush=True)
                self.failed.append((step.name, text.splitlines()[-N_REPEATED:]))

    def close(self) -> int:
        """Prints the last lines; the exit status."""
        print("slowest:")
        for step in sorted(self.done, key=lambda step: -step.seconds)[:N_SLOWEST]:
            print(f"    {step.name:28} {step.seconds:7.1f} s {step.kind or 'alone'}")
        for name, lines in self.failed:  # again: who reads the end of a log shall not need its beginning
            print(f"FAILED {name}")
            print("\n".join("    | " + line for line in lines))
        total = self.total
        print(f"{len(self.done)} programs, {total.passed + total.failed + total.skipped} tests, {total.compared} comparisons")
        print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
        return 1 if total.failed or total.passed == 0 else 0


class Lanes:
    """Starts steps as cores become free. While both kinds are left, half of the machine is for what waits."""

    def __init__(self, report: Report, jobs: int):
        self.report, self.jobs = report, jobs
        self.changed = threading.Condition()
        self.running = {"computes": 0, "waits": 0}

    def next_kind(self, left: dict[str, list[Step]]) -> str | None:
        """Which kind may start now; None: one that runs must end first."""
        free = 2 * self.jobs - sum(HALVES[kind] * n for kind, n in self.running.items())
        wanted = ("waits", "computes") if self.running["waits"] < self.jobs else ("computes", "waits")
        for kind in wanted:
            if left[kind] and free >= HALVES[kind]:
                return kind
        return None

    def run(self, step: Step) -> None:
        try:
            self.report.take(step)
        finally:
            with self.changed:
                self.running[step.kind] -= 1
                self.changed.notify()

    def fill(self, steps: list[Step]) -> None:
        left = {kind: [step for step in steps if step.kind == kind] for kind in self.running}
        threads = []
        while any(left.values()):
            with self.changed:
                while not (kind := self.next_kind(left)):
                    self.changed.wait()
                self.running[kind] += 1
            threads.append(threading.Thread(target=self.run, args=(left[kind].pop(0),)))
            threads[-1].start()
        for thread in threads:
            thread.join()


def main() -> int:
    steps = [Step(line) for line in Path(sys.argv[1]).read_text().splitlines() if line.strip()]
    logs = Path(sys.argv[2])
    jobs = int(sys.argv[3]) if len(sys.argv) > 3 else os.cpu_count() or 1
    logs.mkdir(parents=True, exist_ok=True)
    report = Report(logs)
    Lanes(report, jobs).fill([step for step in steps if step.kind])
    for step in steps:
        if not step.kind:
            report.take(step)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
