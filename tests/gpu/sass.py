#!/usr/bin/env python3
"""What nvcc makes of the kernels: every file of kernels/cuda/gpu for each architecture, without a warning, without a spill and
without a stack but for those listed here; and in the machine code the instructions that a kernel lives on, none that
read or write its stack, and loops no longer than they may be.

usage: sass.py [--registers FILE] [--changed BASE --seconds S]
    FILE: for kbench --plan, a line a kernel: architecture, name, registers, bytes that a thread's code loads, registers that
          they fill, bytes that it copies into shared memory
    BASE: first the files that differ from that commit, then the others, in an order that the commit decides; none is begun
          after S seconds

Needs no GPU. nvcc is $TANDEM_NVCC, that of the path, or of /usr/local/cuda; cuobjdump and nvdisasm beside it, on the path, or
of the PyPI packages nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm. What they print of a file is kept in $TANDEM_CACHE until
the file, one that it includes, a flag or the compiler changes; it is read anew each time.
"""
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT = Path(os.environ.get("TANDEM_CACHE") or Path.home() / ".cache/tandem") / "sass"

# What ranks on several GPUs meet by: a store behind everything that was written before, as the other GPUs see it, and a load that
# drops what the SM had read until then. The emulator cannot show that one of them is missing.
MEETING = ("MEMBAR.ALL.SYS", "STG.E.STRONG.SYS", "LDG.E.STRONG.SYS", "CCTL.IVALL")
# What a kernel lives on, and cannot have lost by a change that only looked harmless: products on tensor cores, loads of 16
# bytes, copies into shared memory that go by no register; the beginnings of their names. A row's words are the kernel's name,
# and where it has several forms a part of its mangled name, and an architecture. A kernel without a row must only have no spill.
MUST = {
    "sum_whole_kernel": MEETING,
    "sum_slices_kernel": MEETING,
    "norm_ranks_kernel": MEETING,
    "gather_ranks_kernel": MEETING,
    "ints_kernel": ("IMMA.16832.S8.S8", "LDSM.16.M88.4", "LDGSTS.E.BYPASS.128"),
    "mid_kernel": ("IMMA.16832.S8.S8", "LDSM.16.M88.4", "LDGSTS.E.BYPASS.128"),
    "few_kernel": ("IDP.4A", "LDGSTS.E.BYPASS.128", "LDS.128"),
    "tensor_few_kernel": ("HMMA.16816.F32", "LDSM.16.M88.4", "LDGSTS.E.BYPASS.128"),
    "tensor_many_kernel ELb0EEEEEv": ("HMMA.16816.F32", "LDSM.16.M88.4", "LDGSTS.E.BYPASS.128"),
    "tensor_many_kernel Li64ELb1EEEEEv 90a": ("HGMMA.64x64x16.F32", "LDGSTS.E.BYPASS.128", "USETMAXREG"),
    "tensor_many_kernel Li128ELb1EEEEEv 90a": ("HGMMA.64x128x16.F32", "LDGSTS.E.BYPASS.128", "USETMAXREG"),
    "norm_rows_kernel": ("SHFL.BFLY", "LDG.E.128"),
    "probe_kernel": ("HMMA.16816.F32",),
    "probe_warpgroup_kernel PjE 90a": ("HMMA.16816.F32", "HGMMA.64x64x16.F32"),
    "thin_kernel": ("LDGSTS.E.BYPASS.128", "LDS.128"),
    "some_kernel": ("LDGSTS.E.BYPASS.128", "LDS.128"),
    "wide_kernel": ("LDG.E.NA.128.CONSTANT", "LDS.128"),
    "attend_few_kernel": ("LDGSTS.E.BYPASS.128", "LDS.128", "SHFL.BFLY"),
    "attend_many_kernel": ("LDG.E.128", "LDS.128", "STS.128"),
    "attend_tensor_kernel": ("HMMA.16816.F32", "LDSM.16.MT88.4", "LDGSTS.E.BYPASS.128", "SHFL.BFLY"),
    "quantize_kernel": ("SHFL.BFLY",),
    "norm_kernel": ("SHFL.BFLY", "LDS"),
}
# The innermost loop with mma of a kernel with these template arguments: at most so many instructions, and so many mma. That of
# attention is 64 keys by 16 queries of a warp and 128 dimensions, with copies, masks and ALiBi. Products of few rows (8, 16, 32, 64)
# have 2 KiB of 4-bit weights of a warp in a loop, and half of that for 64 rows; those of 16-bit floats 4 KiB. Tiles of many
# rows have 32 outputs by 64 rows of a warp and 128 inputs; by wgmma 16 outputs by 128 rows, of which a mma is 16 inputs. No
# such loop reads or writes a stack.
AWQ, HALF = "ints_storedILb1ELb0EthEELb1EEE", "form_floatsIL13weight_format1EEE"
LOOPS = {
    ("tensor_few_kernel", AWQ + "Li1ELb0E"): (360, 16),
    ("tensor_few_kernel", AWQ + "Li2ELb0E"): (400, 32),
    ("tensor_few_kernel", AWQ + "Li4ELb0E"): (500, 64),
    ("tensor_few_kernel", AWQ + "Li8ELb0E"): (330, 64),
    ("tensor_few_kernel", HALF + "Li1ELb0E"): (160, 8),
    ("tensor_few_kernel", HALF + "Li8ELb0E"): (240, 64),
    ("tensor_many_kernel", AWQ + "Li128ELb0E"): (724, 128),
    ("tensor_many_kernel", HALF + "Li128ELb0E"): (409, 128),
    ("tensor_many_kernel", AWQ + "Li128ELb1E", "90a"): (200, 8),
    ("tensor_many_kernel", HALF + "Li128ELb1E", "90a"): (120, 8),
    ("attend_tensor_kernel", "ILi4ELi128E"): (1200, 128),
    ("attend_tensor_kernel", "ILi1ELi128E"): (1200, 128),
}
# No stack, nothing in double precision (many times slower, and seldom meant), and no sum or product that keeps denormals
# (the CPU flushes them; an FFMA without FTZ is a step of an IEEE division).
DENORMALS = re.compile(r"(?:FADD|FMUL)(?!.*FTZ)")
STACK = re.compile(r"LDL|STL")
DOUBLES = re.compile(r"DFMA|DADD|DMUL|F2F\.F64|F2F\.F32\.F64")
DOUBLES_BY_DEFINITION = {"choose_kernel", "top_kernel"}  # the sums of a softmax's blocks: kernels/ref/sample.c

# Bytes of stack that a kernel may have for an architecture: ptxas 13.0 keeps choose_kernel below the registers of one more
# block of sm_80 and pays with 4 words a thread. Blocks of 14
# warps leave mid_kernel 128 registers there, which two of its forms of 8 bits pass by a few words. Tiles of many rows have 128
# accumulators a thread; what else there is of a slice goes to the stack at its ends, but never in its loop.
STACK_MOST = {("mid_kernel", "80"): 24, ("choose_kernel", "80"): 24, ("join_rows_kernel", "80"): 8,
              ("tensor_many_kernel", "80"): 112, ("tensor_many_kernel", "90a"): 112}


@dataclass
class Kernel:
    name: str  # mangled
    registers: int = 0
    stack: int = 0
    spilled: int = 0
    code: Counter = field(default_factory=Counter)  # instructions, by their full names
    lines: list = field(default_factory=list)  # (address, name, the text behind it), in their order

    @property
    def short(self):
        """few_kernel of _ZN8gpu_cuda10few_kernelILi4E..."""
        match = re.match(r"_ZN8gpu_cuda(\d+)", self.name)
        return self.name[match.end():match.end() + int(match[1])] if match else self.name

    def is_of(self, words, arch):
        """Whether a row with these words is of this kernel, for this architecture."""
        return self.short == words[0] and all(part in self.name for part in words[1:2]) and words[2:] in ([], [arch])

    def loop(self):
        """(instructions, mma, those that read or write the stack) of the shortest loop with mma in it, or None."""
        loops = []
        for end, name, text in self.lines:
            to = re.search(r"(0x[0-9a-f]+)$", text)
            if name.startswith("BRA") and to and int(to[1], 16) < end:
                names = [n for at, n, _ in self.lines if int(to[1], 16) <= at <= end]
                n_mma = sum(n.startswith(("HMMA", "IMMA", "HGMMA")) for n in names)
                loops += [(len(names), n_mma, sum(bool(STACK.match(n)) for n in names))] if n_mma else []
        return min(loops, default=None)

    def loads(self, kind):
        """(bytes, registers that they fill) of all instructions of a kind in the code of a thread."""
        widths = [(width_of(name), n) for name, n in self.code.items() if name.startswith(kind)]
        return sum(width * n for width, n in widths), sum(max(1, width // 4) * n for width, n in widths)


def width_of(name):
    """Bytes that a load moves: LDG.E.128 16, LDG.E.U16.CONSTANT 2, LDG.E 4."""
    words = name.split(".")
    return next((width for word, width in (("128", 16), ("64", 8), ("U16", 2), ("S16", 2), ("U8", 1), ("S8", 1)) if word in words), 4)


def skip(reason):
    print(f"SKIPPED the kernels' machine code: {reason}\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)


def find(name, *places):
    for place in places:
        if place and Path(place).is_file():
            return str(place)
    return shutil.which(name)


def find_nvcc():
    return find("nvcc", os.environ.get("TANDEM_NVCC")) or find("nvcc", "/usr/local/cuda/bin/nvcc")


def find_dumper(nvcc):
    """cuobjdump, with nvdisasm on the path."""
    packages = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    places = [Path(nvcc).parent / "cuobjdump", *sorted(packages.glob("*/bin/cuobjdump"))]
    found = find("cuobjdump", *places)
    if found:
        os.environ["PATH"] = f"{Path(found).parent}:{os.environ['PATH']}"
    return found if found and shutil.which("nvdisasm") else None


def flags_of_the_build():
    """Those that cmake/cuda.cmake gives nvcc, and the architectures."""
    text = (ROOT / "cmake" / "cuda.cmake").read_text()
    flags = re.search(r"set\(flags (.*?)\)", text, re.S)[1].split()
    flags = [f for f in flags if f not in ("-Xcompiler", "-fPIC") and not f.startswith("-I")]
    return flags, re.search(r'set\(TANDEM_CUDA_ARCHITECTURES "(.*?)"', text)[1].split(";")


def read_ptxas(text):
    kernels, now = {}, None
    for line in text.splitlines():
        if match := re.search(r"Compiling entry function '(\S+)'", line):
            now = kernels.setdefault(match[1], Kernel(match[1]))
        elif now and (match := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill", line)):
            now.stack, now.spilled = int(match[1]), int(match[2]) + int(match[3])
        elif now and (match := re.search(r"Used (\d+) registers", line)):
            now.registers = int(match[1])
    return kernels


def read_sass(text, kernels):
    kernel = None
    for line in text.splitlines():
        if match := re.search(r"Function : (\S+)", line):
            kernel = kernels.get(match[1], Kernel(match[1]))
        elif kernel and (match := re.match(r"\s+/\*([0-9a-f]{4,6})\*/\s+(?:@!?U?P\w+ +)?([A-Z][\w.]*)\s*(.*?)\s*;", line)):
            kernel.code[match[2]] += 1
            kernel.lines.append((int(match[1], 16), match[2], match[3]))


def with_includes(source, seen):
    """The file and all of ours that it includes, by whatever way."""
    if source not in seen and source.is_file():
        seen.add(source)
        for name in re.findall(r'^\s*#\s*include\s+"(.+?)"', source.read_text(), re.M):
            with_includes(ROOT / name, seen)
            with_includes((source.parent / name).resolve(), seen)
    return seen


def printed(command, source):
    """{code, compiler, sass} of one file: the exit status and text of the compiler, and the machine code, "" without a dumper."""
    def run():
        with tempfile.TemporaryDirectory() as folder:
            cubin = Path(folder) / "cubin"
            done = subprocess.run([*command[0], source, "-o", cubin], capture_output=True, text=True)
            sass = ""
            if done.returncode == 0 and command[1]:
                sass = subprocess.run([command[1], "-sass", cubin], capture_output=True, text=True, check=True).stdout
            return {"code": done.returncode, "compiler": done.stderr + done.stdout, "sass": sass}

    key = hashlib.sha256(repr(command).replace(str(ROOT), "").encode())
    for tool in (command[0][0], command[1]):
        key.update(subprocess.run([tool, "--version"], capture_output=True).stdout if tool else b"none")
    for path in sorted(with_includes(source, set())):
        key.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    kept = KEPT / f"{key.hexdigest()}.json.gz"
    try:
        return json.loads(gzip.decompress(kept.read_bytes()))
    except (OSError, EOFError, ValueError):
        pass
    result = run()
    if result["code"] == 0:
        kept.parent.mkdir(parents=True, exist_ok=True)
        fresh = kept.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(gzip.compress(json.dumps(result).encode(), 4))
        fresh.rename(kept)
    return result


def forget_old(days=30):
    """Removes what was kept for longer, whether it is of use or not."""
    for kept in KEPT.glob("*"):
        if kept.stat().st_mtime < time.time() - days * 86400:
            kept.unlink(missing_ok=True)


def compile_one(nvcc, dumper, source, arch):
    """(what the compiler complained of, or None; the kernels)"""
    flags, _ = flags_of_the_build()
    compiler = [nvcc, *flags, f"-gencode=arch=compute_{arch},code=sm_{arch}", f"-I{ROOT}", "-Xptxas", "-v", "-cubin"]
    done = printed((compiler, dumper), source)
    if done["code"] != 0:
        return done["compiler"][-3000:], {}
    kernels = read_ptxas(done["compiler"])
    if kernels and done["sass"]:
        read_sass(done["sass"], kernels)
    return None, kernels


def problems_of(kernel, arch, dumped):
    most = STACK_MOST.get((kernel.short, arch), 0)
    if kernel.stack > most or (kernel.spilled > 0 and most == 0):
        yield f"{kernel.stack} bytes of stack, {kernel.spilled} of spills; {most} are allowed"
    if not dumped:
        return
    if not kernel.code:
        yield "no machine code was found"
    for row, all_wanted in MUST.items():
        for wanted in all_wanted if kernel.is_of(row.split(), arch) else ():
            if not any(name.startswith(wanted) for name in kernel.code):
                yield f"has no {wanted}"
    n, n_mma, n_stack = kernel.loop() or (0, 0, 0)
    if n_stack:
        yield f"its loop has {n_stack} instructions that read or write the stack"
    for row, (most_code, wanted_mma) in LOOPS.items():
        if kernel.is_of(list(row), arch) and (n > most_code or n_mma != wanted_mma):
            yield f"its loop has {n} instructions and {n_mma} mma; {most_code} and {wanted_mma} are allowed"
    for name in sorted(kernel.code):
        unwanted = DENORMALS.match(name) or (STACK.match(name) and not most)
        if unwanted or (DOUBLES.match(name) and kernel.short not in DOUBLES_BY_DEFINITION):
            yield f"has {kernel.code[name]} {name}"


def in_turn(base):
    """All (source, architecture): what differs from the commit `base` first."""
    _, archs = flags_of_the_build()

    def git(*words):
        return subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True, text=True).stdout
    every = [(source, arch) for arch in archs for source in sorted((ROOT / "kernels/cuda/gpu").glob("*.cu"))]
    if not base:
        return every
    differ = {(ROOT / name).resolve() for name in git("diff", "--name-only", base).split()}
    head = git("rev-parse", "HEAD")

    def place(pair):
        return (not with_includes(pair[0], set()) & differ, hashlib.sha256(f"{head}{pair}".encode()).digest())
    return sorted(every, key=place)


def compile_all(nvcc, dumper, pairs, seconds):
    """{(source, architecture): what compile_one() says}; None of those that nobody began in time."""
    end = time.monotonic() + seconds

    def one(pair):
        return compile_one(nvcc, dumper, *pair) if time.monotonic() < end else None
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(pairs, pool.map(one, pairs)))


def report(results, dumped, is_whole):
    """Prints a line a file and architecture; (passed, failed). is_whole: all of them were looked at."""
    failed, seen = 0, set()
    for (source, arch), (complaint, kernels) in results.items():
        problems = [complaint] if complaint else []
        for kernel in kernels.values():
            seen.add(kernel.short)
            problems += [f"{kernel.short} ({kernel.name}): {text}" for text in problems_of(kernel, arch, dumped)]
        registers = [kernel.registers for kernel in kernels.values()] or [0]
        print(f"{'FAILED ' if problems else 'ok     '} {source.name} sm_{arch}: {len(kernels)} kernels, "
              f"{min(registers)} to {max(registers)} registers", *problems, sep="\n        " if problems else "")
        failed += bool(problems)
    gone = sorted(({row.split()[0] for row in MUST} | {row[0] for row in [*STACK_MOST, *LOOPS]}) - seen)
    if gone and is_whole:
        print(f"FAILED  rows of the tables name no kernel: {', '.join(gone)}")
    return len(results) - failed, failed + (bool(gone) and is_whole)


def option(name):
    """The word behind it on the command line, or None."""
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None


def main():
    nvcc = find_nvcc()
    if not nvcc:
        skip("there is no nvcc")
    dumper = find_dumper(nvcc)
    forget_old()
    pairs = in_turn(option("--changed"))
    done = compile_all(nvcc, dumper, pairs, float(option("--seconds") or "inf"))
    results = {pair: one for pair, one in done.items() if one}
    passed, failed = report(results, dumper is not None, len(results) == len(pairs))
    print(f"{len(results)} of {len(pairs)} files and architectures")
    if option("--registers"):
        with open(option("--registers"), "w") as table:
            for (_, arch), (_, kernels) in results.items():
                for kernel in kernels.values():
                    n_bytes, n_registers = kernel.loads("LDG.")
                    table.write(f"{arch} {kernel.name} {kernel.registers} {n_bytes} {n_registers} {kernel.loads('LDGSTS.')[0]}\n")
    if not dumper:
        print("SKIPPED the instructions: there is no cuobjdump with nvdisasm (pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm)")
    print(f"{passed} passed, {failed} failed, {0 if dumper else 1} skipped")
    sys.exit(1 if failed else 0)


main()
