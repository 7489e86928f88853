#!/usr/bin/env python3
"""Runs test steps and adds up what they counted.

usage: tally.py STEPS_FILE LOG_FOLDER [JOBS]

A step is a line `name<TAB>time limit in s<TAB>shell command[<TAB>kind]`. The kind says what it may run beside:
    computes   takes a core all the time and knows no clock; runs at low priority, so that what waits beside it is woken at once
    works      takes a core, and has clocks: many processes, a browser, a model that loads
    waits      takes a third of a core: daemons and clocks
    alone      runs alone, after all others; so does a step without a kind
JOBS is the number of cores to fill (default: all). TANDEM_BUILT, where it is set, says how long builds took, and is printed at the
end. What a step leaves running is a failure that names it (contained.py). TANDEM_SKIPS, where it is set, is a file of what may be
skipped, a line `step<TAB>what its line says<TAB>why`, two regular expressions for the whole of each: any other skip is a failure.

A step with clocks that failed runs once more, alone, at the end. Where it passes then it is FLAKY: its first log is kept beside the
second, NAME.first.log. One flaky step is told, two fail the run. Where more than three failed, none is run again.
 A step's output is searched for the closing lines of Check ("100%:
Checks: 3, Failures: 0, Errors: 0"), for "N passed, M failed[, K skipped]", and for "compared N" or "tried N": several count together.
What is compared or tried is part of a test and not one. A failure is also: a step that exits non-zero and counted none, one that counted
nothing at all, and a suite of no tests. Lines that begin with SKIPPED are shown. The last lines are the ten slowest steps, the steps that
failed with the end of their output, the flaky ones, the seconds of each kind, the number of programs and comparisons and, alone, "N
passed, M failed, K skipped", in tests.
"""
import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import contained

CHECK = re.compile(r"^(?:\d+: )?\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)", re.M)
PLAIN = re.compile(r"^(?:\d+: )?(?:\w+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$", re.M)
COMPARED = re.compile(r"^(?:\d+: )?(?:compared|tried) (\d+)\b", re.M)
LEFT = re.compile(r"^left behind: .*", re.M)
SKIPPED = re.compile(r"^(?:\d+: )?(SKIPPED.*)", re.M)
THIRDS = {"computes": 3, "works": 3, "waits": 1}  # of a core, that a step of the kind takes
N_MORE = 2  # thirds that are given out beyond the cores: most steps wait a little too, and what computes has a low priority
WITH_CLOCKS = ("works", "waits")
KINDS = (*THIRDS, "alone")
N_AGAIN = 3  # steps that failed, at most, for which a second run is worth its time
N_FLAKY = 1  # that a run may have and pass
BUILT = os.environ.pop("TANDEM_BUILT", "")  # and no step sees it
SKIPS = os.environ.pop("TANDEM_SKIPS", "")
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

    def take_back(self, other: "Counts") -> None:
        self.add(Counts(-other.passed, -other.failed, -other.skipped, -other.compared))

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
    if code == contained.LEFT:
        counts.failed += 1
        counts.why = "; ".join(LEFT.findall(text)) or f"exit status {code}"
    if code != 0 and counts.failed == 0:
        counts.failed += 1
        counts.why = f"exit status {code}, and no failure was counted"
    if counts.passed + counts.failed + counts.skipped == 0:
        counts.failed += 1
        counts.why = "nothing was counted: no tests were found, or none ran"
    return counts


def read_skips(path: str) -> list[tuple[re.Pattern, re.Pattern]] | None:
    """Steps, and what may be skipped there. None: whatever it is."""
    if not path:
        return None
    rows = [line.split("\t") for line in Path(path).read_text().splitlines() if line and not line.startswith("#")]
    if wrong := [row for row in rows if len(row) != 3]:
        sys.exit(f"{path}: not three columns: {wrong[0]}")
    return [(re.compile(step), re.compile(words)) for step, words, _ in rows]


def judge_skips(counts: Counts, name: str, text: str, skips: list[tuple[re.Pattern, re.Pattern]] | None) -> None:
    """Counts a skip as a failure that is not among those which may be."""
    if skips is None or not counts.skipped:
        return
    lines = SKIPPED.findall(text)
    wrong = [line for line in lines if not any(step.fullmatch(name) and words.fullmatch(line) for step, words in skips)]
    if wrong or not lines:
        counts.failed += 1
        counts.why = f"tests/support/skips.txt does not list: {wrong[0]}" if wrong else "what was skipped has no line that says why"


def run(command: str, limit_s: float, log: Path, nice: int) -> tuple[str, int, float]:
    """What it printed, its exit status, and the seconds of a core that it and its children took."""
    with log.open("wb") as out:
        # A process group and no session: priorities count among processes of one session alone (sched(7), autogroups).
        # -IS: what is installed beside Python's own library is not looked for, which takes half of such a start.
        process = subprocess.Popen(
            [sys.executable, "-IS", contained.__file__, str(limit_s), "nice", "-n", str(nice), "bash", "-c", command],
            stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, process_group=0)
        _, status, used = os.wait4(process.pid, 0)
        code = process.returncode = os.waitstatus_to_exitcode(status)
        if code == contained.LATE:
            out.write(f"\nstopped after its limit of {limit_s:.0f} s\n".encode())
    return log.read_text(errors="replace"), code, used.ru_utime + used.ru_stime


class Step:
    """One line of the steps' file."""

    def __init__(self, line: str):
        self.name, limit_s, self.command, *kind = line.split("\t")
        self.limit_s, self.kind = float(limit_s), kind[0] if kind else "alone"
        if self.kind not in KINDS:
            sys.exit(f"{self.name}: there is no kind of steps {self.kind!r}")
        self.seconds = self.core_s = 0.0

    @property
    def took(self) -> str:
        return f"{self.seconds:7.1f} s of{self.core_s / max(self.seconds, 0.1):5.2f} cores"


class Report:
    """Prints each step as it ends and adds it to the total. Steps may end in several threads."""

    def __init__(self, logs: Path):
        self.logs, self.total, self.done, self.lock = logs, Counts(), [], threading.Lock()
        self.began, self.skips = time.monotonic(), read_skips(SKIPS)
        self.failed: list[tuple[Step, Counts, list[str]]] = []  # each with the end of its output
        self.flaky: list[tuple[Step, list[str]]] = []  # each with the end of its first output

    def log(self, step: Step, end: str = "") -> Path:
        return self.logs / f"{step.name.replace('/', '-')}{end}.log"

    def take(self, step: Step) -> None:
        began = time.monotonic()
        text, code, step.core_s = run(step.command, step.limit_s, self.log(step), 10 if step.kind == "computes" else 0)
        step.seconds = time.monotonic() - began
        counts = count(text, code)
        judge_skips(counts, step.name, text, self.skips)
        with self.lock:
            self.total.add(counts)
            self.done.append(step)
            compared = f", compared {counts.compared}" if counts.compared else ""
            print(f"{step.name:28} {counts.mark():7} {counts.passed:6} passed {counts.failed:4} failed {counts.skipped:4} skipped"
                  f" {step.took}{compared}", flush=True)
            for line in SKIPPED.findall(text):
                print(f"    {line}")
            if counts.why:
                print(f"    {counts.why}")
            if counts.failed:
                print("\n".join("    | " + line for line in text.splitlines()[-60:]), flush=True)
                self.failed.append((step, counts, text.splitlines()[-N_REPEATED:]))

    def try_again(self) -> None:
        """Runs what failed and has clocks once more. Nothing else may run."""
        first, self.failed = self.failed, []
        worth = len(first) <= N_AGAIN
        for step, counts, lines in first:
            if not worth or step.kind == "computes":
                self.failed.append((step, counts, lines))
                continue
            print(f"once more, alone: {step.name}", flush=True)
            self.total.take_back(counts)
            self.log(step).rename(self.log(step, ".first"))
            n_failed = len(self.failed)
            self.take(step)
            if len(self.failed) == n_failed:
                self.flaky.append((step, lines))

    def close(self) -> int:
        """Prints the last lines; the exit status."""
        print("slowest:")
        for step in sorted(self.done, key=lambda step: -step.seconds)[:N_SLOWEST]:
            print(f"    {step.name:28} {step.took}, {step.kind}")
        # Again: who reads the end of a log shall not need its beginning.
        for mark, step, lines in [("FLAKY", *pair) for pair in self.flaky] + [("FAILED", f[0], f[2]) for f in self.failed]:
            print(f"{mark} {step.name}")
            print("\n".join("    | " + line for line in lines))
        by_kind = {kind: sum(step.seconds for step in self.done if step.kind == kind) for kind in KINDS}
        if BUILT:
            print(f"built: {BUILT}")
        print(", ".join(f"{kind} {seconds:.0f} s" for kind, seconds in by_kind.items())
              + f"; together {time.monotonic() - self.began:.0f} s, {sum(step.core_s for step in self.done):.0f} s of a core")
        names = "".join(f"{', ' if i else ': '}{step.name}" for i, (step, _) in enumerate(self.flaky))
        print(f"{len(self.flaky)} flaky{names}")
        total = self.total
        print(f"{len({step.name for step in self.done})} programs, {total.passed + total.failed + total.skipped} tests,"
              f" {total.compared} comparisons")
        print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
        return 1 if total.failed or total.passed == 0 or len(self.flaky) > N_FLAKY else 0


class Lanes:
    """Starts steps as cores become free. While both are left, half of the machine is for what has clocks."""

    def __init__(self, report: Report, jobs: int):
        self.report, self.jobs = report, jobs
        self.changed = threading.Condition()
        self.thirds = {True: 0, False: 0}  # that what runs takes; with clocks, without

    def next(self, left: dict[bool, list[Step]]) -> Step | None:
        """What may start now; None: one that runs must end first."""
        free = 3 * self.jobs + N_MORE - sum(self.thirds.values())
        first = 2 * self.thirds[True] < 3 * self.jobs
        for clocks in (first, not first):
            if left[clocks] and free >= THIRDS[left[clocks][0].kind]:
                return left[clocks].pop(0)
        return None

    def run(self, step: Step) -> None:
        try:
            self.report.take(step)
        finally:
            with self.changed:
                self.thirds[step.kind in WITH_CLOCKS] -= THIRDS[step.kind]
                self.changed.notify()

    def fill(self, steps: list[Step]) -> None:
        left = {clocks: [step for step in steps if (step.kind in WITH_CLOCKS) == clocks] for clocks in (True, False)}
        threads = []
        while any(left.values()):
            with self.changed:
                while not (step := self.next(left)):
                    self.changed.wait()
                self.thirds[step.kind in WITH_CLOCKS] += THIRDS[step.kind]
            threads.append(threading.Thread(target=self.run, args=(step,)))
            threads[-1].start()
        for thread in threads:
            thread.join()


def main() -> int:
    contained.end_with_parent()
    steps = [Step(line) for line in Path(sys.argv[1]).read_text().splitlines() if line.strip()]
    logs = Path(sys.argv[2])
    jobs = int(sys.argv[3]) if len(sys.argv) > 3 else os.cpu_count() or 1
    logs.mkdir(parents=True, exist_ok=True)
    report = Report(logs)
    Lanes(report, jobs).fill([step for step in steps if step.kind != "alone"])
    for step in steps:
        if step.kind == "alone":
            report.take(step)
    report.try_again()
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
