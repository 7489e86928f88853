#!/usr/bin/env python3
"""Whole steps beside what is predicted of them: runs a gpu_times that prints its measures, and gives each step the numbers that
`kbench --plan --json` says of it on this device: what memory and tensor cores need at best by the data sheet (floor_ms), and that with
its launches (predicted_ms).

usage: speed.py PLAN DEVICE COMMAND...

PLAN is a file of such lines, of several devices; DEVICE is the GPU's name as the driver has it. Where neither has the step, the measure
stays as it is.
"""
import json
import re
import subprocess
import sys
from pathlib import Path


def device_of(name, known):
    """Which of the known devices ("a100-40") a GPU is ("NVIDIA A100-SXM4-40GB"); the more is said the better. None: none of them."""
    words = re.sub(r"[^a-z0-9]+", " ", name.lower()).replace("gb", " ").split()
    fits = [device for device in known if all(part in words for part in device.split("-"))]
    return max(fits, key=len, default=None)


def read_plan(text, name):
    """{(model, load): line} of one rank on that GPU."""
    lines = [json.loads(line) for line in text.splitlines() if line.strip()]
    device = device_of(name, {line["device"] for line in lines})
    return {(line["model"], line["load"]): line for line in lines if line["device"] == device and line["ranks"] == 1}


def join(line, plan):
    """The line of output, with what is predicted of the step that it measures."""
    try:
        record = json.loads(line)
    except ValueError:
        return line
    if not isinstance(record, dict) or record.get("measure") != "whole step":
        return line
    predicted = plan.get((record["model"], record["load"]))
    if predicted is None:
        return line
    record["floor_ms"], record["predicted_ms"] = predicted["floor_ms"], predicted["predicted_ms"]
    if record["ms"]:
        record["share"] = round(predicted["floor_ms"] / record["ms"], 3)
    return json.dumps(record)


def main():
    plan = read_plan(Path(sys.argv[1]).read_text(), sys.argv[2])
    with subprocess.Popen(sys.argv[3:], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            print(join(line.rstrip("\n"), plan), flush=True)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
