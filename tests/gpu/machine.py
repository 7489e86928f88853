#!/usr/bin/env python3
"""What a machine's GPU can do, as PyTorch and cuBLASLt under it show: bytes copied a second between two places of its memory,
operations of matrix products in bfloat16 and int8, and of float32 without tensor cores. What our kernels take is measured
against these. Without PyTorch: SKIPPED."""
import json
import sys

try:
    import torch
    if not torch.cuda.is_available():
        raise ImportError("PyTorch sees no GPU")
except ImportError as missing:
    print(f"SKIPPED what the machine can do: {missing}")
    sys.exit(0)


def seconds(what, n=20):
    """The median of n runs, after three."""
    times = []
    for i in range(n + 3):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        what()
        end.record()
        torch.cuda.synchronize()
        if i >= 3:
            times.append(begin.elapsed_time(end) * 1e-3)
    return sorted(times)[len(times) // 2]


def say(operation, **figures):
    print(json.dumps({"measure": "by PyTorch", "operation": operation, **figures}), flush=True)


def main():
    properties = torch.cuda.get_device_properties(0)
    print(f"{properties.name}: {properties.multi_processor_count} multiprocessors, {properties.total_memory >> 20} MiB, "
          f"PyTorch {torch.__version__}")
    source = torch.randint(256, (1 << 32,), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    say("copy of 4 GiB, read and written", GB_s=2 * source.numel() / seconds(lambda: target.copy_(source)) * 1e-9)
    del source, target
    n = 8192
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (torch.randn(n, n, device="cuda") for _ in range(2))
    a16, b16 = a.bfloat16(), b.bfloat16()
    a8, b8 = ((x * 30).clamp(-127, 127).to(torch.int8) for x in (a, b))
    for name, multiply in (("bfloat16", lambda: a16 @ b16), ("int8", lambda: torch._int_mm(a8, b8.t())), ("float32", lambda: a @ b)):
        say(f"{name} {n} x {n} x {n}", T_s=2 * n ** 3 / seconds(multiply) * 1e-12)


if __name__ == "__main__":
    main()
