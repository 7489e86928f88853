"""A build of llama.cpp's family as a peer of tools/vs-llama: its own llama-bench and llama-batched-bench do the work.

A measure is a process: the model is loaded and warmed before the clock of that program starts, and there is no HTTP, no JSON and
no sampling in what it measures.
"""
import json
import os
import shlex
import subprocess
import tempfile
from pathlib import Path

BENCH, BATCHED = "llama-bench", "llama-batched-bench"


class PeerError(Exception):
    """What is wrong with a peer, in words."""


def find(folder, program):
    """The program in a folder of programs, or in the `bin` of a build."""
    for path in (Path(folder).resolve() / program, Path(folder).resolve() / "bin" / program):
        if os.access(path, os.X_OK) and path.is_file():
            return str(path)
    raise PeerError(f"--peer {folder}: there is no program {program} in it or in its bin/")


def run(command):
    """What it printed, both streams apart. Some leave a log where they run."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, cwd=folder)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise PeerError(f"{shlex.join(command)}: exit status {done.returncode}: {last}")
    return done.stdout, done.stderr


def rate_of_bench(text, program):
    """Tokens a second of llama-bench's only test, from what `-o json` prints: a list with an object for each test."""
    try:
        tests = json.loads(text)
        [test] = tests
        rate = float(test["avg_ts"])
    except (ValueError, TypeError, KeyError) as error:
        raise PeerError(f"{program} -o json printed no list of one test with avg_ts: {text[:200]!r}") from error
    return positive(rate, program)


def seconds_of_batched(text, program):
    """Seconds of prompts and answers together, from the column "T s" of llama-batched-bench's table of one row."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines() if line.strip().startswith("|")]
    heads = [i for i, row in enumerate(rows) if "T s" in row]
    try:
        [head] = heads
        [figures] = [row for row in rows[head + 1:] if not set("".join(row)) <= set("-")]
        seconds = float(figures[rows[head].index("T s")])
    except (ValueError, IndexError) as error:
        raise PeerError(f"{program} printed no table of one row with a column \"T s\": {text[-200:]!r}") from error
    return positive(seconds, program)


def positive(figure, program):
    if not 0 < figure < float("inf"):
        raise PeerError(f"{program} says {figure}")
    return figure


class Peer:
    """Has the measures of `Ours` and `Llama` in vs_llama.py, each in tokens a second. The model's path is absolute."""

    def __init__(self, folder, model, threads, work, bench_args="", batched_args=""):
        """work: (tokens of prompt, tokens of answer, streams, tokens of the long prompt). The arguments are added to each call."""
        self.n_prompt, self.n_answer, self.n_streams, self.n_prefill = work
        common = ["-m", model, "-t", str(threads)]
        self.bench = [find(folder, BENCH), *common, "-r", "1", "-o", "json", *shlex.split(bench_args)]
        self.batched = [find(folder, BATCHED), *common, *shlex.split(batched_args)]

    def close(self):
        """Nothing runs between measures."""

    def one(self):
        return rate_of_bench(run([*self.bench, "-p", "0", "-n", str(self.n_answer)])[0], BENCH)

    def many(self):
        n, prompts = self.n_streams * self.n_answer, self.n_streams * self.n_prompt
        out = run([*self.batched, "-c", str(n + prompts), "-b", "2048", "-ub", "512", "-npp", str(self.n_prompt),
                   "-ntg", str(self.n_answer), "-npl", str(self.n_streams)])
        return n / seconds_of_batched("\n".join(out), BATCHED)

    def prefill(self):
        return rate_of_bench(run([*self.bench, "-p", str(self.n_prefill), "-n", "0"])[0], BENCH)
