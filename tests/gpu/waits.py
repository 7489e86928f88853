#!/usr/bin/env python3
"""What the slowest operations wait for: ncu on the five that have the most time to gain, by the measures of the phase speed.

usage: waits.py RESULTS COMMAND...     RESULTS: a gpu.jsonl; COMMAND: a gpu_times

Without ncu: SKIPPED. The clocks are left as they are.
"""
import csv
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

N_WORST = 5
# Where RESULTS has no measures of kernels: what docs/results/2026-11-23-gpu.md names as the slowest.
DEFAULTS = [{"backend": "cuda:fast", "model": model, "operation": operation, "rows": rows}
            for model, operation, rows in (("Mistral-7B AWQ", "gate_up", 16), ("Mistral-7B AWQ", "down", 64), ("Mistral-7B AWQ", "attend", 1),
                                           ("Mistral-7B AWQ", "gate_up", 2048), ("Qwen-14B F16", "attend", 2048))]
OURS = r"regex:few|mid|ints|tiles|thin|some|wide|tensor|attend|join|norm|rope|round|sum"  # and none of those that measure rates
STALL = r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active.ratio"
METRICS = {"gpu__time_duration.sum": "us", "dram__throughput.avg.pct_of_peak_sustained_elapsed": "memory_pct",
           "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": "tensor_pct", "smsp__inst_executed.avg.per_cycle_active": "ipc",
           "launch__registers_per_thread": "registers", "launch__waves_per_multiprocessor": "waves",
           "sm__warps_active.avg.pct_of_peak_sustained_active": "warps_pct"}
SECTION = "WarpStateStats"  # whose metrics are the reasons for stalls


def worst(records):
    """Of each kernel's measures those that take longest beyond their floor, the layers of a model being alike; one backend's."""
    kernels = [record for record in records if record.get("measure") == "kernel" and record["us"] and record["backend"].endswith("fast")]
    kernels.sort(key=lambda record: record["floor_us"] - record["us"])
    found, seen = [], set()
    for record in kernels:
        what = (record["operation"], record["rows"])
        if what not in seen:
            seen.add(what)
            found.append(record)
    return found[:N_WORST]


def number(text):
    try:
        return float(text.replace(",", ""))
    except (AttributeError, ValueError):
        return None


def read_csv(text):
    """Of ncu --csv --page raw: what each kernel did, its first launch. The units stand in the row below the names."""
    lines = text.splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        return []
    units, *rows = list(csv.DictReader(io.StringIO("\n".join(lines[begin:])))) or [{}]
    found = {}
    for row in rows:
        figures = {"kernel": re.sub(r"[<(].*", "", row["Kernel Name"]).split("::")[-1].removeprefix("void ")}
        for metric, name in METRICS.items():
            value = number(row.get(metric))
            if name == "us" and value is not None:
                value *= {"ns": 1e-3, "nsecond": 1e-3, "us": 1, "usecond": 1, "ms": 1e3, "msecond": 1e3}[units[metric]]
            figures[name] = value
        stalls = {match[1]: number(row[column]) for column in row if column and (match := re.fullmatch(STALL, column))}
        known = sorted(((value, name) for name, value in stalls.items() if value), reverse=True)[:4]
        figures["waits_for"] = ", ".join(f"{name} {value:.2g}" for value, name in known)
        found.setdefault(figures["kernel"], figures)
    return list(found.values())


def profile(ncu, record, command):
    asked = [*command, "kernels", record["backend"], "--model", record["model"], "--operation", record["operation"], "--rows",
             str(record["rows"]), "--no-graphs"]
    done = subprocess.run([ncu, "--clock-control", "none", "--csv", "--page", "raw", "--section", SECTION, "--metrics", ",".join(METRICS),
                           "--kernel-name", OURS, "--launch-skip", "12", "--launch-count", "6", *asked], capture_output=True, text=True)
    kernels = read_csv(done.stdout)
    for figures in kernels:
        print(json.dumps({"measure": "profile", **{key: record[key] for key in ("model", "operation", "rows")}, **figures}), flush=True)
    if not kernels:
        print(f"ncu said nothing of {record['operation']}, {record['rows']} rows: status {done.returncode}\n"
              f"{done.stdout[-500:]}{done.stderr[-500:]}", flush=True)
    return bool(kernels)


def main():
    results, command = Path(sys.argv[1]), sys.argv[2:]
    ncu = shutil.which("ncu") or shutil.which("/usr/local/cuda/bin/ncu")
    if not ncu:
        print("SKIPPED what the slowest operations wait for: there is no ncu")
        return 0
    records = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    done = [profile(ncu, record, command) for record in worst(records) or DEFAULTS]
    return 0 if any(done) else 1


if __name__ == "__main__":
    sys.exit(main())
