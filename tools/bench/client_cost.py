#!/usr/bin/env python3
"""tools/bench/client_cost.py: what tandem-bench itself costs, and how true its TTFT is.

usage: tools/bench/client_cost.py [--rounds N] [--build FOLDER] [--beside PROGRAM]

Runs it against tests/support/known_server, which records its own true TTFT, each on a core of its own: 320 requests per
second of 128 tokens (41,000 tokens a second), and 10,000 streams at once. Prints a Markdown line for each run: TTFT by the
client and by the server's record, both means, and the CPU of both per token, start included. `--beside`: another
tandem-bench, run in turn. Exit 1 when a median of the client's TTFT is off by more than 5 %.
"""
import argparse
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOADS = {"41,000 tokens/s": ((50, 10), 128, ["--rate", "320", "--duration", "4"]),
         "10,000 streams": ((1000, 1000), 10, ["--profile", "throughput", "--concurrency", "10000", "--requests", "10000"])}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(build, bench, load):
    """A run's figures: TTFT by the client and the server, how late the server was, and microseconds per token of both."""
    times, n_tokens, options = LOADS[load]
    port = free_port()
    server = subprocess.Popen(["taskset", "-c", "0", build / "tests" / "known_server", str(port), *map(str, times)],
                              stdout=subprocess.PIPE, text=True)
    server.stdout.readline()
    begun_s = cpu_s()
    done = subprocess.run(["taskset", "-c", "1", bench, "load", "--target", f"http://127.0.0.1:{port}", "--prompt-tokens", "64",
                           "--max-tokens", str(n_tokens), "--json", "--quiet", *options], capture_output=True, text=True)
    client_s = cpu_s() - begun_s
    server.terminate()
    words = server.stdout.read().split()
    server.wait()
    if done.returncode != 0:
        sys.exit(f"error: {bench}: exit {done.returncode}: {done.stderr[-500:]}")
    said, made = dict(zip(words[::2], map(float, words[1::2]))), json.loads(done.stdout)
    n = said["tokens"]
    return {"completed": made["requests"]["completed"], "ttft": made["ttft_ms"]["mean"], "true": said["ttft_mean_ms"],
            "itl": made["itl_ms"]["mean"], "late": said["late_mean_ms"], "us": 1e6 * client_s / n,
            "server": 1e6 * (cpu_s() - begun_s - client_s) / n}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--beside", type=Path)
    args = parser.parse_args()
    programs = [args.build / "bin" / "tandem-bench"] + ([args.beside] if args.beside else [])
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    is_off = False
    print("| load | program | completed | TTFT ms | true TTFT ms | ratio | ITL ms | server late ms | client us/token | server us/token |")
    print("|---|---|" + "---|" * 8)
    for load in LOADS:
        made = {program: [] for program in programs}
        for _ in range(args.rounds):
            for program in programs:
                made[program].append(measure(args.build, program, load))
        for program, runs in made.items():
            row = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
            ratio = statistics.median(run["ttft"] / run["true"] for run in runs)
            is_off |= abs(ratio - 1) > 0.05
            print(f"| {load} | {program.name} | {row['completed']} | {row['ttft']:.2f} | {row['true']:.2f} | {ratio:.4f} | {row['itl']:.2f} |"
                  f" {row['late']:.2f} | {row['us']:.2f} | {row['server']:.2f} |", flush=True)
    print(f"\nload average {os.getloadavg()[0]:.1f}; medians of {args.rounds} runs")
    return 1 if is_off else 0


if __name__ == "__main__":
    sys.exit(main())
