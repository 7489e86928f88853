#!/usr/bin/env python3
"""tools/bench/clients.py: tandem-bench beside guidellm, aiperf and vLLM's client, on one server and one load.

usage: tools/bench/clients.py [--rounds N] [--venvs FOLDER] [--bin FOLDER] [--seconds S] [--step-ms N] [--knee R] [--shares LIST]

Starts a cluster of the pseudo-model `hash` (16 sequences a step, 30 ms a step), finds its knee with `tandem-bench sweep`
(unless --knee says it), and runs the clients in turn at 30 % and 60 % of it, N rounds. Prints each run, and a Markdown table of
the medians: TTFT, ITL and completed requests per second, and each client's ratio to tandem-bench. Exit 1 when a ratio is off by
more than 5 %.

The clients are installed from PyPI into FOLDER/guidellm and FOLDER/aiperf when they are not there. vLLM's comes with the whole
engine; its own modules run unchanged without what they do not need of that, beside guidellm, which needs PyTorch too. It asks
/v1/completions: of a chat it takes the first chunk for the first token, and that has the role alone.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"guidellm": ["guidellm==0.8.1"], "aiperf": ["aiperf==0.13.0"]}
VLLM = "vllm==0.32.0"
# What its client imports that guidellm does not bring.
VLLM_NEEDS = ["fastapi", "cbor2", "psutil", "pyzmq", "urllib3", "aiohttp", "requests", "openai-harmony", "openai", "msgspec",
              "cloudpickle", "pillow", "pybase64", "cachetools", "py-cpuinfo", "prometheus-client", "xgrammar",
              "partial-json-parser", "llguidance", "einops"]
RUN_VLLM = """
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""
INPUT, OUTPUT = 64, 32  # tokens by the clients' tokenizer, and of each answer
COLUMNS = ("TTFT ms", "ITL ms", "requests/s")

MAKE_TOKENIZER = """
import json, sys
from pathlib import Path
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.train_from_iterator([Path(sys.argv[2]).read_text()], trainers.BpeTrainer(
    vocab_size=2000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|end|>"]))
folder = Path(sys.argv[1])
folder.mkdir()
tokenizer.save(str(folder / "tokenizer.json"))
(folder / "tokenizer_config.json").write_text(json.dumps(
    {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>", "model_max_length": 100000}))
"""


def run(command, **more):
    done = subprocess.run([str(x) for x in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def install(venvs, name):
    """The folder of the client's programs."""
    programs = venvs / name / "bin"
    if not (programs / name).exists():
        run([sys.executable, "-m", "venv", venvs / name])
        run([programs / "pip", "install", "-q", "--only-binary", ":all:", *PACKAGES[name]])
    return programs


def install_vllm(programs):
    """vLLM without its dependencies, into guidellm's folder."""
    if not list(programs.parent.glob("lib/python*/site-packages/vllm")):
        run([programs / "pip", "install", "-q", "--only-binary", ":all:", *VLLM_NEEDS])
        run([programs / "pip", "install", "-q", "--no-deps", VLLM])


class Clients:
    """Each method: one load of `rate` requests per second for `seconds`; its mean TTFT and ITL in ms and requests/s."""

    def __init__(self, args, url, folder):
        self.args, self.url, self.folder = args, url, folder
        self.programs = {name: install(args.venvs, name) for name in PACKAGES}
        install_vllm(self.programs["guidellm"])
        self.tokenizer = folder / "tokenizer"
        run([self.programs["guidellm"] / "python", "-c", MAKE_TOKENIZER, self.tokenizer, ROOT / "docs/http-api.md"])

    def tandem(self, rate):
        made = json.loads(run([self.args.bin / "tandem-bench", "load", "--target", self.url, "--rate", rate, "--duration",
                               self.args.seconds, "--prompt-tokens", INPUT * 4, "--max-tokens", OUTPUT, "--json", "--quiet"]))
        return made["ttft_ms"]["mean"], made["itl_ms"]["mean"], made["requests_per_s"]

    def guidellm(self, rate):
        out = self.folder / "guidellm.json"
        run([self.programs["guidellm"] / "guidellm", "run", "--backend", f"kind=openai_http,target={self.url}", "--tokenizer",
             f"kind=huggingface_auto,model={self.tokenizer}", "--data",
             f"kind=synthetic_text,prompt_tokens={INPUT},output_tokens={OUTPUT}", "--profile",
             json.dumps({"kind": "constant", "rate": [rate]}), "--constraint",
             f"kind=max_duration,seconds={self.args.seconds}", "--output", f"kind=json,path={out}",
             "--disable-console-interactive"],
            env=dict(os.environ, HF_HUB_OFFLINE="1", GUIDELLM__MAX_WORKER_PROCESSES="1"))
        metrics = json.loads(out.read_text())["benchmarks"][0]["metrics"]
        return tuple(metrics[name]["successful"]["mean"]
                     for name in ("time_to_first_token_ms", "inter_token_latency_ms", "requests_per_second"))

    def aiperf(self, rate):
        out = self.folder / "aiperf"
        run([self.programs["aiperf"] / "aiperf", "profile", "-m", "hash", "--tokenizer", self.tokenizer, "--url", self.url,
             "--endpoint-type", "chat", "--streaming", "--request-rate", rate, "--arrival-pattern", "constant",
             "--benchmark-duration", self.args.seconds, "--benchmark-grace-period", 30, "--isl", INPUT, "--osl", OUTPUT,
             "--extra-inputs", "ignore_eos:true", "--use-server-token-count", "--no-server-metrics", "--no-gpu-telemetry",
             "--artifact-dir", out, "--ui", "none"])
        made = json.loads(next(out.rglob("profile_export_aiperf.json")).read_text())
        return tuple(made[name]["avg"] for name in ("time_to_first_token", "inter_token_latency", "request_throughput"))

    def vllm(self, rate):
        out = self.folder / "vllm.json"
        run([self.programs["guidellm"] / "python", "-c", RUN_VLLM, "--backend", "openai", "--endpoint", "/v1/completions",
             "--base-url", self.url, "--model", "hash", "--tokenizer", self.tokenizer, "--dataset-name", "random",
             "--random-input-len", INPUT, "--random-output-len", OUTPUT, "--num-prompts", round(rate * self.args.seconds),
             "--request-rate", rate, "--burstiness", "inf", "--ignore-eos", "--disable-tqdm", "--save-result",
             "--result-dir", out.parent, "--result-filename", out.name],
            env=dict(os.environ, HF_HUB_OFFLINE="1"), cwd=self.folder)
        made = json.loads(out.read_text())
        return made["mean_ttft_ms"], made["mean_tpot_ms"], made["request_throughput"]


def find_knee(args, url):
    made = json.loads(run([args.bin / "tandem-bench", "sweep", "--target", url, "--duration", args.seconds, "--levels", 4,
                           "--concurrency", 64, "--prompt-tokens", INPUT * 4, "--max-tokens", OUTPUT, "--json", "--quiet"]))
    if "knee" not in made:
        sys.exit("error: the sweep shows no knee: the machine is too busy to measure on")
    return float(re.search(r"@([\d.]+)", made["knee"])[1])


def measure(args, url, folder):
    clients = Clients(args, url, folder)
    names = {"tandem-bench": clients.tandem, "guidellm 0.8.1": clients.guidellm, "aiperf 0.13.0": clients.aiperf,
             "vLLM 0.32.0": clients.vllm}
    knee = args.knee or find_knee(args, url)
    is_off = False
    print(f"knee {knee:.2f} requests/s; {args.rounds} rounds of {args.seconds} s; load average {os.getloadavg()[0]:.1f}\n")
    print("| load | client | " + " | ".join(COLUMNS) + " | ratios to tandem-bench |\n|---|---|" + "---|" * 4)
    for share in args.shares:
        rate = round(share * knee, 2)
        made = {name: [] for name in names}
        for _ in range(args.rounds):  # in turn, so that what else the machine does meets all of them
            for name, client in names.items():
                made[name].append(client(rate))
                print(f"{share:.0%} {name}:", ", ".join(f"{value:.2f}" for value in made[name][-1]), file=sys.stderr, flush=True)
        medians = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in made.items()}
        for name, row in medians.items():
            ratios = [value / base for value, base in zip(row, medians["tandem-bench"])]
            is_off |= any(abs(ratio - 1) > 0.05 for ratio in ratios)
            print(f"| {share:.0%} ({rate}/s) | {name} | " + " | ".join(f"{value:.2f}" for value in row) + " | "
                  + ", ".join(f"{ratio:.3f}" for ratio in ratios) + " |", flush=True)
    return 1 if is_off else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--venvs", type=Path, default=Path.home() / ".cache" / "tandem")
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--step-ms", type=int, default=30)
    parser.add_argument("--knee", type=float, help="requests per second; default: a sweep finds it")
    parser.add_argument("--shares", type=lambda text: [float(word) for word in text.split(",")], default=[0.3, 0.6])
    args = parser.parse_args()
    command = [args.bin / "tandem", "up", "--model", "hash", "--mixed", "1", "--step-us", args.step_ms * 1000, "--max-batch", "16",
               "--listen", "127.0.0.1:0"]
    with tempfile.TemporaryDirectory() as folder, \
            subprocess.Popen([str(x) for x in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as cluster:
        try:
            line = cluster.stdout.readline()
            if not line.startswith("ready "):
                sys.exit("error: the cluster did not start")
            return measure(args, line.split()[1], Path(folder))
        finally:
            cluster.terminate()


if __name__ == "__main__":
    sys.exit(main())
