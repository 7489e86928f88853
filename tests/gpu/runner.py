"""Runs the steps of a phase within its budget, and writes down what they measure while they run.

A step is a program. Lines of its output that are JSON objects are measures: each becomes a line of gpu.jsonl at once, with its phase
and step. gpu.md is made anew of those lines after every step (report.py). A step that fails is a failure of the run, unless the budget
ended it: what it had measured until then stays.
"""
import json
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import report

CONTAINED = Path(__file__).resolve().parents[1] / "support" / "contained.py"
LATE = 124  # what contained.py answers for a command that took too long
N_TAIL = 40  # lines of a step's output that its record keeps


@dataclass
class Step:
    title: str
    command: list
    takes_s: int = 10  # assumed: with less left of the budget it is left out
    limit_s: int = 240  # it hangs
    env: dict = field(default_factory=dict)
    only_if: str = ""  # why it is not run here, where it is not


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0


class Results:
    """DIR/gpu.jsonl and DIR/gpu.md. Steps beside each other add to them."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.markdown = folder / "gpu.md"
        self.lock = threading.Lock()
        self.records = []
        self.lines = (folder / "gpu.jsonl").open("w")

    def add(self, record):
        with self.lock:
            self.records.append(record)
            self.lines.write(json.dumps(record) + "\n")
            self.lines.flush()
            if record["measure"] in ("machine", "step"):
                self.markdown.write_text(report.markdown(self.records))


def measure_of(line):
    """The record that a line of a step's output is, or None."""
    if not line.startswith("{"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "measure" in record else None


def follow(step, seconds, phase, results, kept):
    """Runs the step for at most so many seconds. Answers its status and the last lines of its output, all of which goes to `kept`."""
    command = [sys.executable, str(CONTAINED), f"{seconds:.0f}", "env", *(f"{name}={value}" for name, value in step.env.items()),
               *map(str, step.command)]
    tail = []
    with kept.open("w") as output, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                                    errors="replace") as process:
        for line in process.stdout:
            output.write(line)
            output.flush()
            measure = measure_of(line)
            if measure:
                results.add({"phase": phase, "step": step.title, **measure})
            else:
                tail = [*tail, line.rstrip()][-N_TAIL:]
    return process.returncode, tail


def outcome_of(step, status, tail, had_s):
    if status == LATE:
        return ("cut", f"ended after {had_s:.0f} s, as the budget did") if had_s < step.limit_s else ("failed", "it hung")
    if status != 0:
        return "failed", f"status {status}"
    skipped = [line for line in tail if line.startswith("SKIPPED")]
    return ("skipped", skipped[0].removeprefix("SKIPPED ")) if skipped and not any("passed" in line for line in tail) else ("passed", "")


def run_step(step, phase, end, results, counts):
    left, begin = end - time.monotonic(), time.monotonic()
    kept = results.folder / (re.sub(r"[^a-z0-9]+", "-", f"{phase} {step.title}".lower()).strip("-") + ".txt")
    tail = []
    if step.only_if:
        outcome, why = "skipped", step.only_if
    elif left < step.takes_s:
        outcome, why = "left out", f"no time: {max(left, 0):.0f} s left, it takes some {step.takes_s}"
    else:
        had_s = min(left, step.limit_s)
        status, tail = follow(step, had_s, phase, results, kept)
        outcome, why = outcome_of(step, status, tail, had_s)
    took = time.monotonic() - begin
    results.add({"measure": "step", "phase": phase, "step": step.title, "outcome": outcome, "why": why, "seconds": round(took, 1),
                 "tail": tail})
    counts.passed += outcome == "passed"
    counts.failed += outcome == "failed"
    counts.skipped += outcome in ("cut", "left out", "skipped")
    word = {"passed": "ok     ", "failed": "FAILED "}.get(outcome, "SKIPPED")
    print(f"{word} {phase}: {step.title} ({took:.0f} s){': ' + outcome + ', ' + why if why else ''}", flush=True)
    if outcome == "failed":
        print("\n".join(tail[-20:]), flush=True)


def run_phase(phase, groups, seconds, results, counts, beside):
    """groups: lists of steps; those of one list run beside each other (where `beside`), the next list begins when they have ended."""
    end = time.monotonic() + seconds
    for group in groups:
        with ThreadPoolExecutor(len(group) if beside else 1) as pool:
            for done in [pool.submit(run_step, step, phase, end, results, counts) for step in group]:
                done.result()
