#!/usr/bin/env python3
"""What tally.py counts, and what it must not take for a pass. Prints "N passed, M failed, 0 skipped"."""
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import tally  # noqa: E402

# output, exit status, (passed, failed, skipped, compared)
CASES = {
    "a suite of Check": ("Running suite(s): x\n100%: Checks: 3, Failures: 0, Errors: 0\n", 0, (3, 0, 0, 0)),
    "a suite with one that was skipped": ("4: SKIPPED x: no model\n4: 0 passed, 0 failed, 1 skipped\n"
                                          "4: 100%: Checks: 3, Failures: 0, Errors: 0\n", 0, (3, 0, 1, 0)),
    "through ctest": ("4: 66%: Checks: 3, Failures: 1, Errors: 0\n", 8, (2, 1, 0, 0)),
    "an error counts as a failure": ("50%: Checks: 2, Failures: 0, Errors: 1\n", 1, (1, 1, 0, 0)),
    "a closing line": ("5 passed, 0 failed, 2 skipped\n", 0, (5, 0, 2, 0)),
    "without the skipped": ("5 passed, 1 failed\n", 1, (5, 1, 0, 0)),
    "several count together": ("2 passed, 0 failed, 0 skipped\n100%: Checks: 3, Failures: 0, Errors: 0\n", 0, (5, 0, 0, 0)),
    "comparisons are not tests": ("compared 660000 strings\n11 passed, 0 failed, 0 skipped\n", 0, (11, 0, 0, 660000)),
    "comparisons alone are nothing": ("compared 5 strings\n", 0, (0, 1, 0, 5)),
    "an empty suite fails": ("100%: Checks: 0, Failures: 0, Errors: 0\n", 0, (0, 1, 0, 0)),
    "an empty suite among others fails": ("100%: Checks: 0, Failures: 0, Errors: 0\n7 passed, 0 failed, 0 skipped\n", 0,
                                          (7, 1, 0, 0)),
    "silence fails": ("", 0, (0, 1, 0, 0)),
    "zero of everything fails": ("0 passed, 0 failed, 0 skipped\n", 0, (0, 1, 0, 0)),
    "no tests found fails": ("Test project /x\nNo tests were found!!!\n", 0, (0, 1, 0, 0)),
    "an exit status fails": ("5 passed, 0 failed, 0 skipped\n", 1, (5, 1, 0, 0)),
    "a counted failure is not counted twice": ("5 passed, 2 failed, 0 skipped\n", 1, (5, 2, 0, 0)),
    "skipped alone is not a failure": ("SKIPPED: no PyPI\n0 passed, 0 failed, 7 skipped\n", 0, (0, 0, 7, 0)),
    "a line inside other words counts nothing": ("it says 5 passed, 0 failed, 0 skipped\n", 0, (0, 1, 0, 0)),
}


def counts_of(case):
    text, code, wanted = case
    got = tally.count(text, code)
    assert (got.passed, got.failed, got.skipped, got.compared) == wanted, (got, wanted)


def run_steps(*steps):
    """(exit status, printed lines) of tally.py on these steps."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "steps"
        file.write_text("".join("\t".join(step) + "\n" for step in steps))
        done = subprocess.run([sys.executable, tally.__file__, file, Path(folder) / "logs", "2"], capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines()


def only_skipped_says_so():
    code, lines = run_steps(("a", "60", "echo '0 passed, 0 failed, 3 skipped'"), ("b", "60", "echo '1 passed, 0 failed, 0 skipped'"))
    assert code == 0 and " SKIPPED " in lines[0] and " ok " in lines[1], lines
    assert lines[-1] == "1 passed, 0 failed, 3 skipped", lines


def nothing_but_skipped_is_no_success():
    code, lines = run_steps(("a", "60", "echo '0 passed, 0 failed, 3 skipped'"))
    assert code == 1, lines


def the_last_lines_tell_programs_tests_and_comparisons():
    code, lines = run_steps(("a", "60", "echo compared 40 strings; echo '2 passed, 0 failed, 1 skipped'"),
                            ("b", "60", "echo compared 2; echo '100%: Checks: 3, Failures: 0, Errors: 0'"))
    assert code == 0, lines
    assert lines[-2:] == ["2 programs, 6 tests, 42 comparisons", "5 passed, 0 failed, 1 skipped"], lines


def a_step_past_its_limit_fails_and_leaves_nothing():
    began = time.monotonic()
    code, lines = run_steps(("a", "1", "echo '1 passed, 0 failed, 0 skipped'; sleep 600 & sleep 600"))
    assert code == 1 and lines[-1] == "1 passed, 1 failed, 0 skipped" and time.monotonic() - began < 100, lines


def what_failed_is_told_again_at_the_end():
    long = "for i in $(seq 100); do echo line $i; done; "
    code, lines = run_steps(("a", "60", long + "echo '1 passed, 1 failed, 0 skipped'; exit 1"),
                            ("b", "60", "echo '1 passed, 0 failed, 0 skipped'"))
    at = lines.index("FAILED a")
    assert code == 1 and at > lines.index("slowest:"), lines
    told = lines[at + 1:-2]
    assert told == [f"    | line {i}" for i in range(82, 101)] + ["    | 1 passed, 1 failed, 0 skipped"], told


def meet(folder, mine, other):
    """A command that ends when the other step has begun as well."""
    return f"touch {folder}/{mine}; while [ ! -e {folder}/{other} ]; do sleep 0.01; done; echo '1 passed, 0 failed, 0 skipped'"


def steps_run_beside_each_other_only_where_they_may():
    with tempfile.TemporaryDirectory() as folder:
        code, lines = run_steps(("a", "60", meet(folder, "a", "b"), "computes"), ("b", "60", meet(folder, "b", "a"), "computes"))
        assert code == 0, lines
        code, lines = run_steps(("c", "60", meet(folder, "c", "e"), "waits"), ("d", "60", meet(folder, "d", "c"), "waits"),
                                ("e", "60", meet(folder, "e", "d"), "computes"))
        assert code == 0, lines
        code, lines = run_steps(("f", "1", meet(folder, "f", "g")), ("g", "1", meet(folder, "g", "f"), "waits"))
        assert lines[-1] == "1 passed, 1 failed, 0 skipped", lines
        # Two fill both cores: the third begins when one of them has ended, and neither ends before both have looked.
        code, lines = run_steps(*((f"i{n}", "60", f"{meet(folder, f'i{n}', f'i{1 - n}')}; sleep 0.3; [ ! -e {folder}/j ] && "
                                   f"{meet(folder, f'k{n}', f'k{1 - n}')}", "computes") for n in range(2)),
                                ("j", "60", f"touch {folder}/j; echo '1 passed, 0 failed, 0 skipped'", "computes"))
        assert code == 0 and lines[-1] == "5 passed, 0 failed, 0 skipped", lines


def alone_comes_last():
    with tempfile.TemporaryDirectory() as folder:
        code, lines = run_steps(("a", "60", f"cat {folder}/b && echo '1 passed, 0 failed, 0 skipped'"),
                                ("b", "60", f"touch {folder}/b; echo '1 passed, 0 failed, 0 skipped'", "waits"))
        assert code == 0, lines


def what_computes_gives_way_to_what_waits():
    own = os.nice(0)  # the check runs this as a step of its own

    def at(nice):
        return f"[ $(nice) = {min(nice, 19)} ] && echo '1 passed, 0 failed, 0 skipped'"
    code, lines = run_steps(("a", "60", at(own + 10), "computes"), ("b", "60", at(own), "waits"), ("c", "60", at(own)))
    assert code == 0, lines


def the_slowest_are_told():
    steps = [(f"s{n}", "60", f"sleep {2 if n == 4 else 0}; echo '1 passed, 0 failed, 0 skipped'", "waits") for n in range(12)]
    code, lines = run_steps(*steps)
    first = lines.index("slowest:") + 1
    assert code == 0 and lines[first].split()[0] == "s4" and lines[first + 10].startswith("12 programs"), lines


def an_unknown_kind_is_refused():
    code, lines = run_steps(("a", "60", "echo '1 passed, 0 failed, 0 skipped'", "beside"))
    assert code == 1 and not lines, lines


def main() -> int:
    facts = {name: lambda case=case: counts_of(case) for name, case in CASES.items()}
    facts.update({f.__name__: f for f in (only_skipped_says_so, nothing_but_skipped_is_no_success,
                                          the_last_lines_tell_programs_tests_and_comparisons,
                                          what_failed_is_told_again_at_the_end,
                                          a_step_past_its_limit_fails_and_leaves_nothing,
                                          steps_run_beside_each_other_only_where_they_may, alone_comes_last,
                                          what_computes_gives_way_to_what_waits, the_slowest_are_told,
                                          an_unknown_kind_is_refused)})
    n_failed = 0
    for name, fact in facts.items():
        try:
            fact()
        except AssertionError as why:
            n_failed += 1
            print(f"FAILED  {name}: {why}")
    print(f"{len(facts) - n_failed} passed, {n_failed} failed, 0 skipped")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
