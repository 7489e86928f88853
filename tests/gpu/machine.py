#!/usr/bin/env python3
"""What a machine's GPU can do, as PyTorch and cuBLASLt under it show: bytes copied a second between two places of its memory,
operations of matrix products in bfloat16 and int8, and of float32 without tensor cores. What our kernels take is measured
against these. Without PyTorch: SKIPPED."""
import sys

try:
    import torch
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


def product(n, multiply):
    print(f"{multiply.__doc__} {n} x {n} x {n}: {2 * n ** 3 / seconds(multiply) * 1e-12:.0f} T/s")


def main():
    properties = torch.cuda.get_device_properties(0)
    print(f"{properties.name}: {properties.multi_processor_count} multiprocessors, {properties.total_memory >> 20} MiB, "
          f"PyTorch {torch.__version__}")
    source = torch.randint(256, (1 << 32,), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    print(f"copy of 4 GiB, read and written: {2 * source.numel() / seconds(lambda: target.copy_(source)) * 1e-12:.2f} TB/s")
    del source, target
    n = 8192
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (torch.randn(n, n, device="cuda") for _ in range(2))
    a16, b16 = a.bfloat16(), b.bfloat16()
    a8, b8 = ((x * 30).clamp(-127, 127).to(torch.int8) for x in (a, b))

    def float32():
        "float32"
        return a @ b

    def bfloat16():
        "bfloat16"
        return a16 @ b16

    def int8():
        "int8"
        return torch._int_mm(a8, b8.t())
    for multiply in (bfloat16, int8, float32):
        product(n, multiply)


if __name__ == "__main__":
    main()
