"""The phases of tests/gpu/run: what each answers, its budget of seconds, and its steps, the most valuable first.

Steps in one list run beside each other on a GPU's machine. What a step takes is assumed until it was measured.
"""
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from runner import Step

EMULATED = 4  # a budget's factor on the emulator, where the machine's other work counts
PROGRAMS = ["gpu_bits", "gpu_times", "gpu_sums", "tandem", "tandem-router", "tandem-worker", "tandem-bench"]
PYTHON = next((path for path in (os.path.expanduser("~/.cache/tandem/check-venv/bin/python"), shutil.which("python3"))
               if path and os.path.exists(path)), sys.executable)

# Suites of the bundle: name, TANDEM_SUBJECT, seconds assumed. A suite whose tests share an opened device must not fork: a CUDA context
# does not survive it.
FAST_SUITES = [("conform_kernels_attend_fast", "{}:fast", 30), ("conform_kernels_rounded", "{}:fast", 30),
               ("conform_kernels_rounded_ints", "{}:fast", 30), ("conform_kernels_attend_split", "{}:fast", 15)]
SUITES = [("conform_kernels", "{}", 40), ("conform_kernels_attend", "{}:exact", 30), ("conform_kernels_moe", "{}", 30),
          ("conform_kernels_layer", "{}:fast", 30), ("conform_kernels_sample", "{}", 30), ("conform_device", "", 10),
          ("conform_device_kernels", "", 10), ("conform_device_share", "", 10), ("conform_family", "{}", 60)]
RANKS_SUITES = [("conform_kernels_ranks", "{}:exact", 40), ("conform_kernels_parts", "{}:fast", 40)]


def suites():
    """The programs of all of them."""
    return [f"test_{name}" for name, _, _ in FAST_SUITES + SUITES + RANKS_SUITES]


@dataclass
class Machine:
    backend: str
    bin: Path
    tests: Path
    build: str  # what scripts find as TANDEM_BUILD
    n_gpus: int
    gpu: str  # the first one's name, as its driver has it
    plan: Path  # what `kbench --plan --json` predicts
    results: Path  # the run's gpu.jsonl

    @property
    def emulated(self):
        return self.backend == "cuda-emu"

    def program(self, name, *arguments):
        return [self.bin / name, *arguments]

    def script(self, *arguments):
        return [PYTHON, *arguments]


@dataclass
class Phase:
    answers: str
    seconds: int
    steps: object


def suite(machine, name, subject, takes_s, **env):
    if subject:
        env["TANDEM_SUBJECT"] = subject.format(machine.backend)
    if name.startswith("conform_device"):
        env["CK_FORK"] = "no"
    about = f" ({subject.format(machine.backend)})" if subject else ""
    return Step(name + about, [machine.tests / f"test_{name}"], takes_s, env=env)


def bits(machine):
    def step(title, numerics, takes_s, *arguments):
        return Step(title, machine.program("gpu_bits", f"{machine.backend}:{numerics}", "cpu", *arguments), takes_s)
    if machine.emulated:
        return [[step("fast numerics: accuracy, and a row's bits beside any others", "fast", 30, "quick", "attend", "rows")],
                [step("exact numerics: the CPU's bits", "exact", 30, "quick", "attend")],
                [suite(machine, *FAST_SUITES[-1])]]
    far = Step("clusters: every family, and hand-over between the GPU and the CPU",
               machine.script("tests/e2e/far_test.py", machine.backend), 60, env={"TANDEM_BUILD": machine.build})
    return [[step("fast numerics: accuracy, and a row's bits beside any others", "fast", 20),
             *(suite(machine, *row) for row in FAST_SUITES),
             step("exact numerics: the CPU's bits", "exact", 40)],
            [far, *(suite(machine, *row) for row in SUITES)]]


def speed(machine):
    """Alone, one after the other."""
    def times(mode, numerics, model, takes_s):
        program = machine.program("gpu_times", mode, f"{machine.backend}:{numerics}", "--model", model)
        if mode == "steps":
            program = machine.script("tests/gpu/speed.py", machine.plan, machine.gpu, *program)
        what = "whole steps" if mode == "steps" else "each operation by itself"
        return [Step(f"{what}: {model}, {numerics} numerics", program, takes_s)]
    if machine.emulated:
        return [times(mode, numerics, "tiny", 5) for mode in ("kernels", "steps") for numerics in ("fast", "exact")]
    return [times("steps", "fast", "Mistral-7B AWQ", 10), times("kernels", "fast", "Mistral-7B AWQ", 15),
            times("steps", "fast", "Qwen-14B", 20), times("kernels", "fast", "Qwen-14B", 25),
            [Step("what the machine can do, by PyTorch", machine.script("tests/gpu/machine.py"), 15)],
            times("steps", "exact", "Mistral-7B AWQ", 15), times("kernels", "exact", "Mistral-7B AWQ", 20),
            times("steps", "fast", "ChatGLM3", 15), times("steps", "exact", "Qwen-14B", 30), times("steps", "fast", "72B AWQ", 40)]


def tune(machine):
    def cuts(model, takes_s):
        return [Step(f"products in every cut: {model}",
                     machine.program("gpu_times", "cuts", f"{machine.backend}:fast", "--model", model), takes_s)]
    if machine.emulated:
        return [cuts("tiny", 20)]
    return [cuts("Mistral-7B AWQ", 20), [Step("the same by PyTorch", machine.script("tests/gpu/peers.py"), 20)], cuts("Qwen-14B", 30)]


def profile(machine):
    """What reads a GPU's counters, or looks at each access."""
    def watched(tool, title, numerics, *parts):
        program = [tool_path("compute-sanitizer"), "--error-exitcode", "9", "--tool", tool,
                   *machine.program("gpu_bits", f"{machine.backend}:{numerics}", "cpu", "quick", *parts)]
        return [Step(f"{tool}: {title}", program, 30, only_if=missing("compute-sanitizer"))]
    if machine.emulated:
        return [[Step("what the slowest operations wait for", ["false"], only_if="an emulated device has no counters")]]
    return [[Step("what the slowest operations wait for",
                  machine.script("tests/gpu/waits.py", machine.results, *machine.program("gpu_times")), 20, only_if=missing("ncu"))],
            watched("memcheck", "attention and products of fast numerics", "fast", "attend", "products"),
            watched("racecheck", "attention of fast numerics", "fast", "attend"),
            watched("synccheck", "attention and products of fast numerics", "fast", "attend", "products"),
            watched("memcheck", "exact numerics", "exact", "attend", "products", "rows"),
            watched("initcheck", "exact numerics", "exact", "attend", "products", "rows")]


def tool_path(name):
    return shutil.which(name) or shutil.which(f"/usr/local/cuda/bin/{name}") or name


def missing(name):
    return "" if shutil.which(tool_path(name)) else f"there is no {name}"


def serve(machine):
    """Alone: the host's threads are what is asked of."""
    def served(bits):
        return [Step(f"a cluster of Mistral-7B's shapes, {bits} bits", machine.script("tests/gpu/serve.py", machine.backend, machine.bin, bits),
                     60, env={"TANDEM_BUILD": machine.build})]
    return [served(4), served(16)]


def ranks(machine):
    """They take turns on the one GPU, where there is no other: beside nobody."""
    env = {}
    if machine.emulated:
        env["TANDEM_NCCL"] = str((machine.tests / "libfake_nccl.so").resolve())  # that of the tests
    else:
        env["TANDEM_NCCL"] = os.environ.get("TANDEM_NCCL") or nccl_of_pytorch()
        env.update(NCCL_MULTI_RANK_GPU_ENABLE="1", NCCL_DEBUG="WARN")  # from 2.30 on: several ranks on one GPU
        if machine.n_gpus < 2:
            env["TANDEM_RANKS_DEVICE"] = "0"
    few = ["quick"] if machine.emulated else []
    groups = []
    for n in [2] + ([min(machine.n_gpus, 8)] if machine.n_gpus > 2 else []):
        program = machine.program("gpu_sums", f"{machine.backend}:fast", n, machine.n_gpus, *few)
        groups.append([Step(f"times of sums of {n} ranks, each way, NCCL being {Path(env['TANDEM_NCCL']).name}", program, 20, env=env)])
    return groups + [[suite(machine, *row, **env)] for row in RANKS_SUITES]


def nccl_of_pytorch():
    try:
        import nvidia.nccl
    except ImportError:
        return "libnccl.so.2"
    return list(nvidia.nccl.__path__)[0] + "/lib/libnccl.so.2"


# In the order of a run without PHASE; the budgets together are a quarter of an hour.
TABLE = {
    "bits": Phase("whether the GPU computes what the CPU and the emulator do", 170, bits),
    "speed": Phase("how long operations and whole steps take, beside their floors and what was predicted", 200, speed),
    "serve": Phase("what a served token takes beside the kernels alone", 150, serve),
    "tune": Phase("which cut of a product into blocks is the fastest, and what PyTorch takes", 150, tune),
    "profile": Phase("what the slowest operations wait for; memory checkers", 110, profile),
    "ranks": Phase("what ranks add up, and how long that takes, on as many GPUs as there are or all on the one", 120, ranks),
}
