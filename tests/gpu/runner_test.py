#!/usr/bin/env python3
"""What becomes of the steps of a phase: tests/gpu/runner.py with commands made for it; what
speed.py and waits.py make of what they are told. Prints "N passed, M failed, 0 skipped"."""
import contextlib
import io
import json
import sys
import tempfile
import traceback
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
import phases  # noqa: E402
import runner  # noqa: E402
import speed  # noqa: E402
import waits  # noqa: E402
from runner import Counts, Results, Step  # noqa: E402

ONE = 'echo \'{"measure": "speed", "us": 1.5}\''
HANGS = "while :; do sleep 1; done"


def ran(*steps, seconds=60, beside=False):
    """The counts, the records of measures, the outcomes by step, and gpu.md."""
    with tempfile.TemporaryDirectory() as folder:
        results, counts = Results(Path(folder)), Counts()
        with contextlib.redirect_stdout(io.StringIO()):  # what it says of steps is not what this test says
            runner.run_phase("phase", [list(steps)], seconds, results, counts, beside)
        records = [json.loads(line) for line in (Path(folder) / "gpu.jsonl").read_text().splitlines()]
        outcomes = {record["step"]: record for record in records if record["measure"] == "step"}
        return counts, [record for record in records if record["measure"] != "step"], outcomes, results.markdown.read_text()


def shell(title, text, **more):
    return Step(title, ["sh", "-c", text], **{"takes_s": 0, **more})


def a_measure_is_a_line_with_its_phase_and_step():
    counts, measures, outcomes, markdown = ran(shell("good", f"{ONE}; echo text; echo '{{no json'; echo '{{\"us\": 2}}'"))
    assert counts == Counts(passed=1), counts
    assert measures == [{"phase": "phase", "step": "good", "measure": "speed", "us": 1.5}], measures
    assert outcomes["good"]["tail"] == ["text", "{no json", '{"us": 2}'], outcomes
    assert "| us |\n|---|\n| 1.5 |" in markdown, markdown


def a_step_that_fails_fails_and_the_next_one_runs():
    counts, _, outcomes, markdown = ran(shell("bad", "echo why; exit 3"), shell("good", "true"))
    assert counts == Counts(passed=1, failed=1), counts
    assert outcomes["bad"]["outcome"] == "failed" and outcomes["bad"]["why"] == "status 3", outcomes
    assert "```\nwhy\n```" in markdown, markdown


def what_a_step_measured_before_the_budget_ended_is_kept():
    counts, measures, outcomes, _ = ran(shell("long", f"{ONE}; {HANGS}"), shell("late", ONE, takes_s=1), seconds=5)
    assert counts == Counts(skipped=2), counts
    assert len(measures) == 1 and measures[0]["step"] == "long", measures
    assert outcomes["long"]["outcome"] == "cut", outcomes
    assert outcomes["late"]["outcome"] == "left out" and outcomes["late"]["why"].startswith("no time"), outcomes


def a_step_that_hangs_within_the_budget_fails():
    counts, _, outcomes, _ = ran(shell("hangs", HANGS, limit_s=1))
    assert counts == Counts(failed=1) and outcomes["hangs"]["why"] == "it hung", (counts, outcomes)


def a_step_with_just_the_time_it_takes_begins():
    with mock.patch.object(runner.time, "monotonic", lambda: 1000.0):
        counts, _, outcomes, _ = ran(shell("fits", "true", takes_s=60), shell("does not", "true", takes_s=61))
    assert outcomes["fits"]["outcome"] == "passed" and outcomes["does not"]["outcome"] == "left out", outcomes
    assert counts == Counts(passed=1, skipped=1), counts


def a_step_that_cannot_run_here_says_why():
    counts, _, outcomes, _ = ran(shell("no tool", "exit 1", only_if="there is no ncu"), shell("says it", "echo SKIPPED it: no torch"))
    assert counts == Counts(skipped=2), counts
    assert outcomes["no tool"]["why"] == "there is no ncu" and outcomes["says it"]["why"] == "it: no torch", outcomes


def steps_beside_each_other_all_count():
    waits = "until [ -e {} ]; do sleep 0.1; done"
    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder) / "mark"
        counts, measures, _, _ = ran(shell("first", f"{waits.format(mark)}; {ONE}"), shell("second", f"touch {mark}; {ONE}"), beside=True)
    assert counts == Counts(passed=2) and len(measures) == 2, (counts, measures)


def a_step_stands_beside_what_is_predicted_of_it():
    lines = [{"device": device, "model": "M", "load": "decode", "ranks": ranks, "floor_ms": ms, "predicted_ms": 2 * ms}
             for device, ranks, ms in (("h200", 1, 1.0), ("h200", 2, 9.0), ("a100-40", 1, 3.0), ("a100-80", 1, 4.0))]
    text = "\n".join(map(json.dumps, lines))
    step = {"measure": "whole step", "model": "M", "load": "decode", "ms": 2.0}
    joined = json.loads(speed.join(json.dumps(step), speed.read_plan(text, "NVIDIA H200, 580.1, 143771 MiB")))
    assert joined == {**step, "floor_ms": 1.0, "predicted_ms": 2.0, "share": 0.5}, joined
    assert speed.read_plan(text, "NVIDIA A100-SXM4-80GB")["M", "decode"]["floor_ms"] == 4.0
    assert speed.read_plan(text, "NVIDIA L4") == {}
    for other in ("text", json.dumps({**step, "load": "prefill"}), '{"measure": "kernel"}', "[1]"):
        assert speed.join(other, speed.read_plan(text, "H200")) == other


NCU = """==PROF== Connected
"ID","Process ID","Kernel Name","gpu__time_duration.sum","smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",\
"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio","launch__registers_per_thread"
"","","","ns","inst","inst","register/thread"
"0","9","void gpu_cuda::tensor_few_kernel<gpu_cuda::form<1>, 2>(gpu_tensor)","12,500","0.5","4.25","86"
"1","9","void gpu_cuda::sum_rows_kernel(gpu_sum)","2,000","0","1.5","20"
"2","9","void gpu_cuda::tensor_few_kernel<gpu_cuda::form<1>, 2>(gpu_tensor)","99,000","0.5","4.25","86"
"""


def what_ncu_says_of_a_kernel_is_its_first_launch():
    few, rows = waits.read_csv(NCU)
    assert few["kernel"] == "tensor_few_kernel" and few["us"] == 12.5 and few["registers"] == 86, few
    assert few["waits_for"] == "long_scoreboard 4.2, barrier 0.5" and few["memory_pct"] is None, few
    assert rows["kernel"] == "sum_rows_kernel" and rows["waits_for"] == "long_scoreboard 1.5", rows
    assert waits.read_csv("==ERROR== no permission") == [] and waits.read_csv(NCU.split('"0"')[0]) == []


def the_operations_with_the_most_to_gain_are_asked_of():
    def kernel(operation, rows, us, floor_us, backend="cuda:fast"):
        return {"measure": "kernel", "backend": backend, "model": "M", "operation": operation, "rows": rows, "us": us, "floor_us": floor_us}
    records = [kernel("norm", 1, 3, 0.1), kernel("down", 16, 60, 11), kernel("down", 16, 90, 12), kernel("gate_up", 1, 30, 20),
               kernel("qkv", 1, 900, 1, "cuda:exact"), kernel("out", 1, None, None), {"measure": "rates"},
               *(kernel("attend", rows, 20, 12) for rows in range(9))]
    found = waits.worst(records)
    assert len(found) == 5 and found[0]["us"] == 90 and [record["operation"] for record in found][:3] == ["down", "gate_up", "attend"], found


def contributing_has_the_phases():
    text = (Path(__file__).resolve().parents[2] / "CONTRIBUTING.md").read_text()
    for name, phase in phases.TABLE.items():
        assert f"\n| `{name}` | {phase.answers} | {phase.seconds} |\n" in text, name
        assert phase.seconds < 240, name
    assert sum(phase.seconds for phase in phases.TABLE.values()) <= 900


FACTS = (a_measure_is_a_line_with_its_phase_and_step, a_step_that_fails_fails_and_the_next_one_runs,
         what_a_step_measured_before_the_budget_ended_is_kept, a_step_that_hangs_within_the_budget_fails,
         a_step_with_just_the_time_it_takes_begins, a_step_that_cannot_run_here_says_why, steps_beside_each_other_all_count,
         a_step_stands_beside_what_is_predicted_of_it, what_ncu_says_of_a_kernel_is_its_first_launch,
         the_operations_with_the_most_to_gain_are_asked_of, contributing_has_the_phases)


def main():
    failed = 0
    for fact in FACTS:
        try:
            fact()
            print(f"ok      {fact.__name__}")
        except Exception:
            failed += 1
            print(f"FAILED  {fact.__name__}\n{traceback.format_exc()}", end="")
    print(f"{len(FACTS) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
