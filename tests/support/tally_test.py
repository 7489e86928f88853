#!/usr/bin/env python3
"""What tally.py counts, and what it must not take for a pass; noisy.py. Prints "N passed, M failed, K skipped"."""
import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import noisy  # noqa: E402
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


def run_steps(*steps, jobs=2):
    """(exit status, printed lines) of tally.py on these steps."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "steps"
        file.write_text("".join("\t".join(step) + "\n" for step in steps))
        done = subprocess.run([sys.executable, tally.__file__, file, Path(folder) / "logs", str(jobs)], capture_output=True, text=True)
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
    assert lines[-3:] == ["0 flaky", "2 programs, 6 tests, 42 comparisons", "5 passed, 0 failed, 1 skipped"], lines
    assert lines[-4].startswith("computes 0 s, works 0 s, waits 0 s, alone "), lines


def a_step_past_its_limit_fails_and_leaves_nothing():
    with tempfile.TemporaryDirectory() as folder:
        pid = Path(folder) / "pid"
        for limit in (1, 4, 16, 64):  # until it comes so far
            step = f"echo '1 passed, 0 failed, 0 skipped'; sleep 613 & echo $! >{pid}; sleep 613"
            code, lines = run_steps(("a", str(limit), step))
            assert code == 1, lines
            if pid.exists() and pid.read_text().strip():
                break
        assert lines[-1] == "1 passed, 1 failed, 0 skipped", lines
        assert not Path(f"/proc/{pid.read_text().strip()}").exists()


GOOD = "echo '1 passed, 0 failed, 0 skipped'"
BAD = "echo '0 passed, 1 failed, 0 skipped'; exit 1"


def what_is_left_behind_is_named_and_killed():
    """In a session of its own as well, and where its parent has ended."""
    with tempfile.TemporaryDirectory() as folder:
        code, lines = run_steps(("a", "60", f"setsid sleep 611 & echo $! >{folder}/pid; {GOOD}", "computes"), ("b", "60", GOOD))
        assert code == 1 and lines[-1] == "2 passed, 1 failed, 0 skipped", lines
        pid = int((Path(folder) / "pid").read_text())
        assert any(re.fullmatch(rf"    left behind: {pid} sleep 611 ?", line) for line in lines), lines
        assert not Path(f"/proc/{pid}").exists()


def what_ends_by_itself_is_not_left_behind():
    code, lines = run_steps(("a", "60", f"setsid sleep 0.5 & {GOOD}"))
    assert code == 0, lines


def nothing_is_left_where_the_tally_is_killed():
    with tempfile.TemporaryDirectory() as folder:
        file, pid = Path(folder) / "steps", Path(folder) / "pid"
        file.write_text("a\t60\tmkdir -p $TMPDIR/a $XDG_RUNTIME_DIR/b; setsid sleep 612 & "
                        f"echo $! $TMPDIR/a $XDG_RUNTIME_DIR/b >{pid}.new; mv {pid}.new {pid}; wait\twaits\n")
        child = subprocess.Popen([sys.executable, tally.__file__, file, Path(folder) / "logs"], stdout=subprocess.DEVNULL)
        wait_for(pid.exists)
        child.kill()
        child.wait()
        number, *folders = pid.read_text().split()
        assert len(folders) == 2, folders
        wait_for(lambda: not Path(f"/proc/{number}").exists() and not any(Path(each).exists() for each in folders))


def wait_for(condition):
    end = time.monotonic() + 60
    while True:
        late = time.monotonic() > end
        if condition():
            return
        assert not late, "not within 60 s"
        time.sleep(0.01)


def fails_once(folder, name):
    """A command that fails the first time."""
    return f"[ -e {folder}/{name} ] && {GOOD} || {{ touch {folder}/{name}; echo the first time; {BAD}; }}"


def one_flaky_step_is_told_and_two_fail():
    with tempfile.TemporaryDirectory() as folder:
        code, lines = run_steps(("a", "60", fails_once(folder, "a"), "waits"), ("b", "60", GOOD, "computes"))
        assert code == 0 and lines[-3] == "1 flaky: a" and lines[-1] == "2 passed, 0 failed, 0 skipped", lines
        assert lines[lines.index("FLAKY a") + 1] == "    | the first time", lines
        code, lines = run_steps(("c", "60", fails_once(folder, "c"), "works"), ("d", "60", fails_once(folder, "d")))
        assert code == 1 and lines[-3] == "2 flaky: c, d" and lines[-1] == "2 passed, 0 failed, 0 skipped", lines


def both_logs_of_a_flaky_step_are_kept():
    with tempfile.TemporaryDirectory() as folder:
        file, logs = Path(folder) / "steps", Path(folder) / "logs"
        file.write_text(f"e/a\t60\t{fails_once(folder, 'a')}\twaits\n")
        subprocess.run([sys.executable, tally.__file__, file, logs], capture_output=True)
        assert (logs / "e-a.first.log").read_text().startswith("the first time"), list(logs.iterdir())
        assert (logs / "e-a.log").read_text().startswith("1 passed"), list(logs.iterdir())


def what_fails_twice_or_only_computes_has_failed():
    with tempfile.TemporaryDirectory() as folder:
        code, lines = run_steps(("a", "60", BAD, "waits"), ("b", "60", GOOD))
        assert code == 1 and lines[-3] == "0 flaky" and lines[-1] == "1 passed, 1 failed, 0 skipped", lines
        code, lines = run_steps(("a", "60", fails_once(folder, "a"), "computes"), ("b", "60", GOOD))
        assert code == 1 and lines[-3] == "0 flaky" and lines[-1] == "1 passed, 1 failed, 0 skipped", lines


def of_many_that_failed_none_runs_again():
    with tempfile.TemporaryDirectory() as folder:
        for n, want in ((3, "0 failed"), (4, "4 failed")):
            code, lines = run_steps(*((f"s{n}{i}", "60", fails_once(folder, f"s{n}{i}"), "waits") for i in range(n)), ("g", "60", GOOD))
            assert code == 1 and want in lines[-1], lines


def what_failed_is_told_again_at_the_end():
    long = "for i in $(seq 100); do echo line $i; done; "
    code, lines = run_steps(("a", "60", long + "echo '1 passed, 1 failed, 0 skipped'; exit 1"),
                            ("b", "60", "echo '1 passed, 0 failed, 0 skipped'"))
    at = lines.index("FAILED a")
    assert code == 1 and at > lines.index("slowest:"), lines
    told = lines[at + 1:-4]
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
        code, lines = run_steps(("f", "60", f"touch {folder}/f; {GOOD}"), ("g", "1", meet(folder, "g", "f"), "computes"))
        assert lines[-1] == "1 passed, 1 failed, 0 skipped", lines
        # One that works takes a core, as one that computes does: the second of them begins when the first has ended.
        code, lines = run_steps(*((f"w{n}", "60", f"[ ! -e {folder}/w ] && touch {folder}/w && sleep 0.5 && rm {folder}/w && "
                                   "echo '1 passed, 0 failed, 0 skipped'", "works") for n in range(2)), jobs=1)
        assert code == 0 and lines[-1] == "2 passed, 0 failed, 0 skipped", lines
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
    code, lines = run_steps(("a", "60", at(own + 10), "computes"), ("b", "60", at(own), "waits"), ("c", "60", at(own)),
                            ("d", "60", at(own), "works"))
    assert code == 0, lines


def priorities_count_among_all_steps():
    """The kernel shares the machine among sessions first, whatever the priorities in them: all steps are of the tally's own."""
    same = f"[ $(ps -o sid= -p $$) = {os.getsid(0)} ] && {GOOD}"
    code, lines = run_steps(("a", "60", same, "computes"), ("b", "60", same, "waits"))
    assert code == 0, lines


def the_slowest_are_told():
    report = tally.Report(Path("unused"))
    for n in range(12):
        report.done.append(tally.Step(f"s{n}\t60\ttrue\twaits"))
        report.done[n].seconds = 9.0 if n == 4 else n / 8
    report.total.passed = 1
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert report.close() == 0
    lines = printed.getvalue().splitlines()
    first = lines.index("slowest:") + 1
    assert [line.split()[0] for line in lines[first:first + 3]] == ["s4", "s11", "s10"], lines
    assert lines[first + 10].startswith("computes 0 s, works 0 s, waits 17 s"), lines


def only_what_is_listed_may_be_skipped():
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("# step, words, why\na/.*\tSKIPPED x: no .* here\tit is for others\n")
        file.flush()
        skips = tally.read_skips(file.name)
    for name, text, n_failed in (("a/b", "7: SKIPPED x: no y here\n", 0), ("a/b", "SKIPPED x: no y here, or there\n", 1), ("a/b", "", 1),
                                 ("b/a/b", "SKIPPED x: no y here\n", 1), ("a/b", "SKIPPED x: no y here\nSKIPPED z: why\n", 1)):
        counts = tally.Counts(passed=1, skipped=1)
        tally.judge_skips(counts, name, text, skips)
        assert counts.failed == n_failed and (counts.why != "") == (n_failed > 0), (name, text, counts)
    counts = tally.Counts(passed=1)
    tally.judge_skips(counts, "b", "SKIPPED in other words\n", skips)  # which counted nothing
    tally.judge_skips(counts, "b", "", skips)
    assert counts.failed == 0, counts


def a_noisy_machine_stands_still_and_hands_the_status_on():
    """The longest time between two looks at the clock is that of a pause."""
    look = """import sys, time
end, last, gap = time.monotonic() + 3, time.monotonic(), 0
while (now := time.monotonic()) < end:
    last, gap = now, max(gap, now - last)
sys.exit(5 if gap > 0.29 else 6)"""
    done = subprocess.run([sys.executable, noisy.__file__, "--every", "0.3", "--pause", "0.3,0.4", sys.executable, "-c", look],
                          capture_output=True, text=True)
    if done.returncode == noisy.NONE:
        raise unittest.SkipTest(done.stderr.strip())
    assert done.returncode == 5 and "noisy: seed 1, 1 cores, " in done.stderr, done


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
                                          what_is_left_behind_is_named_and_killed, what_ends_by_itself_is_not_left_behind,
                                          nothing_is_left_where_the_tally_is_killed, one_flaky_step_is_told_and_two_fail,
                                          both_logs_of_a_flaky_step_are_kept, what_fails_twice_or_only_computes_has_failed,
                                          of_many_that_failed_none_runs_again, priorities_count_among_all_steps,
                                          only_what_is_listed_may_be_skipped,
                                          a_noisy_machine_stands_still_and_hands_the_status_on, an_unknown_kind_is_refused)})
    n_failed = n_skipped = 0
    for name, fact in facts.items():
        try:
            fact()
        except unittest.SkipTest as why:
            n_skipped += 1
            print(f"SKIPPED {name}: {why}")
        except AssertionError as why:
            n_failed += 1
            print(f"FAILED  {name}: {why}")
    print(f"{len(facts) - n_failed - n_skipped} passed, {n_failed} failed, {n_skipped} skipped")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
