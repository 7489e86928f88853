"""Our engine against llama.cpp, in turn on the same cores. Run by tools/vs-llama.

Work: (1) one stream, 8 tokens of prompt, 128 of answer; (2) sixteen such streams at once; (3) a prompt of 512
tokens and one token of answer. Ours goes through HTTP, JSON and sampling; llama.cpp's share is llama_decode
alone, without sampling. A peer (vs_llama_peer.py) does the same by its own programs; its one stream has no prompt.
"""
import argparse
import ctypes
import http.client
import json
import random
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import llama_cpp

from vs_llama_peer import Peer, PeerError

ROOT = Path(__file__).resolve().parents[2]
N_PROMPT, N_ANSWER, N_STREAMS, N_PREFILL = 8, 128, 16, 512


class Ours:
    def __init__(self, model, threads):
        self.process = subprocess.Popen(
            [ROOT / "build/release/bin/tandem", "up", "--model", model, "--mixed", "1", "--threads", str(threads),
             "--listen", "127.0.0.1:0", "--log-level", "warn"], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])
        self.random = random.Random(1)

    def close(self):
        self.process.terminate()
        self.process.wait()

    def _ask(self, n_prompt, n_answer):
        body = {"prompt": [self.random.randrange(100, 40000) for _ in range(n_prompt)], "max_tokens": n_answer,
                "temperature": 0, "ignore_eos": True}
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        assert answer["usage"]["completion_tokens"] == n_answer, answer
        connection.close()

    def one(self):
        began = time.perf_counter()
        self._ask(N_PROMPT, N_ANSWER)
        return N_ANSWER / (time.perf_counter() - began)

    def many(self):
        threads = [threading.Thread(target=self._ask, args=(N_PROMPT, N_ANSWER)) for _ in range(N_STREAMS)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return N_STREAMS * N_ANSWER / (time.perf_counter() - began)

    def prefill(self):
        began = time.perf_counter()
        self._ask(N_PREFILL, 1)
        return N_PREFILL / (time.perf_counter() - began)


class Llama:
    def __init__(self, model, threads):
        llama_cpp.llama_backend_init()
        silent = llama_cpp.llama_log_callback(lambda level, text, user: None)
        self.silent = silent
        llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
        self.model = llama_cpp.llama_load_model_from_file(model.encode(), llama_cpp.llama_model_default_params())
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = N_STREAMS * (N_PREFILL + 128)
        params.n_batch = params.n_ubatch = N_PREFILL
        params.n_seq_max = N_STREAMS
        params.n_threads = params.n_threads_batch = threads
        self.context = llama_cpp.llama_new_context_with_model(self.model, params)
        self.batch = llama_cpp.llama_batch_init(N_PREFILL, 0, 1)

    def _decode(self, rows):
        """rows: (position, sequence, wants logits)."""
        self.batch.n_tokens = len(rows)
        for i, (position, sequence, wanted) in enumerate(rows):
            self.batch.token[i] = 100 + (position * 37 + sequence * 11) % 30000
            self.batch.pos[i] = position
            self.batch.n_seq_id[i] = 1
            self.batch.seq_id[i][0] = sequence
            self.batch.logits[i] = wanted
        assert llama_cpp.llama_decode(self.context, self.batch) == 0

    def _clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def _streams(self, n):
        self._clear()
        began = time.perf_counter()
        self._decode([(p, s, p == N_PROMPT - 1) for s in range(n) for p in range(N_PROMPT)])
        for position in range(N_PROMPT, N_PROMPT + N_ANSWER - 1):
            self._decode([(position, s, True) for s in range(n)])
        return n * N_ANSWER / (time.perf_counter() - began)

    def one(self):
        return self._streams(1)

    def many(self):
        return self._streams(N_STREAMS)

    def prefill(self):
        self._clear()
        began = time.perf_counter()
        self._decode([(p, 0, p == N_PREFILL - 1) for p in range(N_PREFILL)])
        return N_PREFILL / (time.perf_counter() - began)


def compare(engines, rounds):
    """A row for each work: medians of tokens a second, and of each round's ratios to ours. engines: (name, engine); ours is the first."""
    names = [name for name, _ in engines]
    print("| | " + " | ".join([names[0]] + [f"{name} | ratio | from..to" for name in names[1:]]) + " |")
    print("|---" * (2 + 3 * (len(engines) - 1)) + "|")
    for name, work in (("decode, one stream", "one"), (f"decode, {N_STREAMS} streams", "many"),
                       (f"prefill, {N_PREFILL} tokens", "prefill")):
        for _, engine in engines:
            getattr(engine, work)()
        taken = [[getattr(engine, work)() for _, engine in engines] for _ in range(rounds)]
        cells = [f"{statistics.median(figures[0] for figures in taken):.0f}"]
        for at in range(1, len(engines)):
            ratios = sorted(figures[0] / figures[at] for figures in taken)
            cells += [f"{statistics.median(figures[at] for figures in taken):.0f}", f"{statistics.median(ratios):.2f}",
                      f"{ratios[0]:.2f}..{ratios[-1]:.2f}"]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peer", metavar="FOLDER", help="another build of that family: llama-bench and llama-batched-bench")
    parser.add_argument("--peer-bench", metavar="ARGUMENTS", default="", help="more arguments of its llama-bench: '-fa 1'")
    parser.add_argument("--peer-batched", metavar="ARGUMENTS", default="", help="more arguments of its llama-batched-bench")
    options = parser.parse_args()
    try:
        peer = options.peer and Peer(options.peer, options.model, options.threads, (N_PROMPT, N_ANSWER, N_STREAMS, N_PREFILL),
                                     options.peer_bench, options.peer_batched)
    except PeerError as error:
        sys.exit(f"vs-llama: {error}")
    ours = Ours(options.model, options.threads)
    engines = [("ours", ours), ("llama.cpp", Llama(options.model, options.threads))]
    if peer:
        engines.append((Path(options.peer).resolve().name, peer))
    try:
        print(f"tokens/s, {options.threads} threads, medians of {options.rounds}, in turn\n")
        compare(engines, options.rounds)
    except PeerError as error:
        sys.exit(f"vs-llama: {error}")
    finally:
        ours.close()


if __name__ == "__main__":
    main()
