#!/usr/bin/env python3
"""Our logits and greedy ids on tiny checkpoints of every family and format, at every tensor-parallel size that the heads
allow, against the float64 models of numpy_models.py.

usage: families_test.py [--full] [--mutants] [--backend NAME] [--only TEXT] [--tp-off]

float32 checkpoints must agree to 1e-5 of the largest logit, all others to 2e-2; the 32 greedy ids must be the
likeliest, or as near to it as that error excuses. --mutants proves without the engine that each trap, once sprung, is
seen on its case (mutants.py). --only runs the cases whose name begins with TEXT.
"""
import argparse
import collections
import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: matrices this small gain nothing from threads
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "tests/e2e"))
from cluster import Tally  # noqa: E402

try:
    import gguf  # noqa: F401
    import numpy  # noqa: F401
except ImportError as missing:
    print(f"SKIPPED tiny checkpoints: {missing}\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)
from tests.models import cases, checkpoints, judge, mutants, packing  # noqa: E402
from tests.models.engine import Engine, EngineError, n_vocab_of  # noqa: E402


class Bench:
    """One case's files and float64 model, made once for all its TP sizes."""

    def __init__(self, case, folder):
        self.case, self.tolerance = case, judge.tolerance_of(case.fmt)
        self.path, self.config, self.model = case.make(folder)
        self.prompts = judge.clear_prompts(self.model, self.config, cases.LENGTHS, checkpoints.prompt_ids,
                                           self.tolerance)
        self.truths = [self.model.logits(ids) for ids in self.prompts]
        self.unsplit = None  # answers at TP 1

    def check(self, tp, kind, backend):
        try:
            answers = self.answers(tp, backend)
        except EngineError as refusal:
            if kind == "refused" and f"for tp {tp}" in str(refusal):
                return f"refused: {one_line(refusal)}"
            if kind == "unserved" and "not served in a mixture of experts" in str(refusal):
                return f"refused: {one_line(refusal)}"
            raise
        assert kind not in ("refused", "unserved"), f"tp {tp} cannot be right"
        error = judge.agree(self.model, self.prompts, answers, self.tolerance, self.truths)
        if tp == 1:
            self.unsplit = answers
        elif self.tolerance == judge.EXACT and self.unsplit:
            judge.same(answers, self.unsplit)
        return f"{error:.1e}"

    def answers(self, tp, backend):
        flags = ["--backend", backend, "--chunk", 16, "--threads", 1]
        if self.tolerance == judge.EXACT:
            flags += ["--kv-dtype", "f32"]
        if tp > 1:
            flags += ["--tp", tp]
        return Engine(self.path, n_vocab_of(self.config), *flags).answers(self.prompts, judge.N_GREEDY)


def one_line(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"


class Lines(Tally):
    """A line a case, failures too: what was wrong, not where this script was."""

    def run(self, name, function, *args):
        began = time.monotonic()
        try:
            note, mark = function(*args), "ok     "
            self.passed += 1
        except Exception as error:
            note, mark = one_line(error), "FAILED "
            self.failed += 1
        print(f"{mark} {name} ({time.monotonic() - began:.1f} s){': ' + str(note) if note else ''}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--mutants", action="store_true")
    parser.add_argument("--tp-off", action="store_true")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    tally = Lines()
    tally.run("packing/test_vectors", packing.check_vectors)
    if options.mutants:
        for trap in mutants.TRAPS:
            tally.run(f"mutant/{trap.name}", trap.prove)
        return tally.end()
    traps_of = collections.defaultdict(list)
    for trap in mutants.TRAPS:
        traps_of[trap.case].append(trap.name)
    chosen = cases.full() if options.full else cases.quick()
    missing = set(traps_of) - set(chosen)
    assert not missing, f"traps whose cases do not run: {missing}"
    for case in chosen:
        if not case.name.startswith(options.only):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                bench = Bench(case, Path(folder))
            except Exception as error:
                tally.failed += 1
                print(f"FAILED  {case.name}: the checkpoint could not be made: {one_line(error)}", flush=True)
                continue
            for tp, kind in case.tp_sizes(bench.config):
                if tp == 1 or not options.tp_off:
                    tally.run(f"{case.name}/tp{tp}", bench.check, tp, kind, options.backend)
            if traps_of[case]:
                print(f"        would show: {', '.join(traps_of[case])}", flush=True)
    return tally.end()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
