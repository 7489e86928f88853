#!/usr/bin/env python3
"""What PyTorch takes for the products and the attention that gpu_times kernels takes, on the same GPU in the same run: torch.mm in
bfloat16 (cuBLASLt) and scaled_dot_product_attention, over operands that rotate beyond the caches, in one graph. Without PyTorch or
without a GPU that it sees: SKIPPED."""
import json
import sys

try:
    import torch
    if not torch.cuda.is_available():
        raise ImportError("PyTorch sees no GPU")
except ImportError as missing:
    print(f"SKIPPED peers: {missing}")
    sys.exit(0)

BEYOND_CACHES = 256 << 20  # bytes
MOST = 64  # calls in a graph
# name, dim, outputs of qkv, inner, heads, key heads; heads have 128 dimensions. As tests/gpu/times_bench.c has them.
MODELS = [("Mistral-7B", 4096, 6144, 14336, 32, 8), ("Qwen-14B", 5120, 15360, 13696, 40, 40)]
ROWS = [1, 16, 64, 2048, 4]
CONTEXT = 512


def graph_seconds(calls):
    """The time of one of the calls, which are made one behind the other."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls[:2]:
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    times = []
    for i in range(9):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        if i >= 2:
            times.append(begin.elapsed_time(end) * 1e-3)
    return sorted(times)[len(times) // 2] / len(calls)


def say(model, operation, rows, seconds, n_bytes, ops):
    print(json.dumps({"measure": "peer", "model": model, "operation": operation, "rows": rows, "us": round(seconds * 1e6, 2),
                      "GB_s": round(n_bytes / seconds * 1e-9), "T_s": round(ops / seconds * 1e-12, 1)}), flush=True)


def products(model, dim, qkv, inner):
    for name, n, k in (("gate_up", 2 * inner, dim), ("down", dim, inner), ("qkv", qkv, dim), ("out", dim, dim)):
        weights = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) for _ in range(BEYOND_CACHES // (2 * n * k) + 2)]
        for rows in ROWS:
            x = torch.randn(rows, k, device="cuda", dtype=torch.bfloat16)
            out = torch.empty(rows, n, device="cuda", dtype=torch.bfloat16)
            count = 4 if rows > 64 else MOST
            calls = [lambda w=weights[i % len(weights)], x=x, out=out: torch.mm(x, w.t(), out=out) for i in range(count)]
            say(model, name, rows, graph_seconds(calls), 2 * (n * k + rows * (n + k)), 2 * rows * n * k)


def attention(model, heads, kv_heads):
    """Of a prompt, or of one token for each of so many sequences behind a context."""
    attend = torch.nn.functional.scaled_dot_product_attention
    for rows in ROWS:
        n_seqs, n_queries, n_keys = (1, rows, rows) if rows > 64 else (rows, 1, CONTEXT)
        size = 4 * n_seqs * n_keys * kv_heads * 128
        count = min(BEYOND_CACHES // size + 2, MOST)
        caches = [torch.randn(2, n_seqs, kv_heads, n_keys, 128, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
        q = torch.randn(n_seqs, heads, n_queries, 128, device="cuda", dtype=torch.bfloat16)
        calls = [lambda c=cache, q=q, n=n_queries: attend(q, c[0], c[1], is_causal=n > 1, enable_gqa=True) for cache in caches]
        pairs = n_seqs * (n_queries * (n_queries + 1) // 2 if n_queries > 1 else n_keys)
        say(model, "attend", rows, graph_seconds(calls), size + 4 * n_seqs * n_queries * heads * 128, 4 * pairs * heads * 128)


def main():
    with torch.inference_mode():
        for model, dim, qkv, inner, heads, kv_heads in MODELS:
            products(model, dim, qkv, inner)
            attention(model, heads, kv_heads)


if __name__ == "__main__":
    main()
