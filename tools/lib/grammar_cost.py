"""What grammars cost: our engine beside llguidance's, in turn on the same core; then answers with a form beside answers without.
Run by tools/vs-llguidance.

Engines: each round is a process of its own for each of the two (tools/gbench), bound to one core; its figures are CPU time of its
thread. A round draws walks of its own. Answers: one cluster of SmolLM2 at the /v1/completions door; each round asks without a form
and with one, in an order that changes. The form is a list that is longer than the answer, so that both have the same count of tokens.
"""
import argparse
import glob
import http.client
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
CACHE = Path(os.environ.get("TANDEM_CACHE") or os.path.expanduser("~/.cache/tandem"))
SCHEMAS = ROOT / "tools" / "gbench" / "schemas.jsonl"
MASK_MIB = 64  # as the workers keep them (worker/step/constraint.c)
N_PROMPT, N_ANSWER = 8, 128
FORM = {"type": "array", "minItems": 1000, "items": {
    "type": "object", "properties": {"name": {"type": "string", "maxLength": 30}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
                                     "tags": {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 1, "maxItems": 4}},
    "required": ["name", "age", "tags"], "additionalProperties": False}}


def one(found, what):
    if not found:
        sys.exit(f"error: {what}")
    return str(found[0])


def libraries():
    """The Python library that llguidance's object wants, and that object."""
    import llguidance
    name = sysconfig.get_config_var("INSTSONAME") or "libpython3.so"
    places = [sysconfig.get_config_var("LIBDIR") or "", f"/usr/lib/{sysconfig.get_config_var('MULTIARCH') or ''}", "/usr/lib"]
    python = [f"{place}/{name}" for place in places if os.path.exists(f"{place}/{name}")] or sorted(
        path for place in places for path in glob.glob(f"{place}/libpython3*.so*"))
    return one(python, "there is no shared libpython (libpython3-dev has one)"), one(
        glob.glob(os.path.dirname(llguidance.__file__) + "/_lib*.so"), "llguidance has no shared object")


def qwen():
    done = subprocess.run([sys.executable, ROOT / "tests" / "models" / "fetch_llama_files.py"], stdout=subprocess.PIPE, text=True, check=True)
    return f"{done.stdout.strip()}/ggml-vocab-qwen2.gguf"


def measure(vocabulary, big, seed, mask_mib=MASK_MIB, theirs=()):
    done = subprocess.run([BUILD / "tests" / "gbench", vocabulary, SCHEMAS, big, str(mask_mib), str(seed), *theirs], stdout=subprocess.PIPE,
                          text=True, check=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def middle(rounds, name):
    """None: refused, or not measured."""
    values = [float(figures[name]) for figures in rounds if name in figures]
    return statistics.median(values) if values else None


def say(value, digits=3):
    return "-" if value is None else f"{value:.{digits}f}" if value < 100 else f"{value:,.0f}"


def row(what, ours, theirs, target=None, digits=3):
    ratio = f"{ours / theirs:.2f}" if ours and theirs else "-"
    kept = "" if target is None else f"{target:g}" + (": missed" if ours is None or ours > target else "")
    print(f"| {what} | {say(ours, digits)} | {say(theirs, digits)} | {ratio} | {kept} |")


def engines(given):
    vocabulary, theirs = given.vocabulary or qwen(), libraries()
    big = one(sorted((CACHE / "public-schemas").glob("*/v4/nbformat.v4.schema.json")), "there is no schema of nbformat")
    names = [json.loads(line)["title"] for line in SCHEMAS.read_text().splitlines()]
    ours, other = [], []
    for i in range(given.rounds):
        for of in (ours, other) if i % 2 else (other, ours):
            of.append(measure(vocabulary, big, i + 1, theirs=theirs if of is other else ()))
    print(f"{ours[0]['tokens']} tokens ({Path(vocabulary).name}), {given.rounds} rounds each, medians; CPU time of one thread\n")
    print("| | tandem | llguidance | ratio | target |\n|---|---|---|---|---|")

    def line(what, name, target=None, digits=3):
        row(what, middle(ours, name), middle(other, name), target, digits)
    line("vocabulary, ms", "vocabulary", 300, 1)
    for i, name in enumerate(names):
        line(f"first compile of \"{name}\", ms", f"compile.{i}", 2)
    for i, name in enumerate(names):
        line(f"\"{name}\" again, ms", f"compile_again.{i}")
    line("nbformat's schema, lenient, ms", "big_lenient", 50)
    for what, name in (("first walks, all masks", "first"), ("of them made", "made"), ("of them found", "found"), ("the same walks again", "again")):
        for share, target in (("p50", 1.2), ("p99", 150), ("max", None)):
            line(f"{what}: {share}, us", f"{name}.{share}", target if name in ("first", "again") else None)
        line(f"{what}: masks", f"{name}.n", digits=0)
    for i, name in enumerate(names):
        line(f"first walks of \"{name}\" alone: p99, us", f"schema.{i}.p99")
    line("a token taken: p50, us", "accept.p50")
    line("a token taken: p99, us", "accept.p99")
    line("the clock itself: p50, us (in all of these)", "clock.p50")
    line("memory of the vocabulary, MiB", "vocabulary_mib", digits=1)
    line("memory of all at the end, MiB", "memory_mib", digits=1)
    asked = [(name, f"compile.{i}") for i, name in enumerate(names)] + [("nbformat", "big"), ("nbformat, lenient", "big_lenient")]
    print()
    for who, figures in (("tandem", ours[0]), ("llguidance", other[0])):
        refused = [f"{name} ({figures[key + '.refused']})" for name, key in asked if key + ".refused" in figures]
        print(f"Refused by {who}: {'; '.join(refused) or 'none'}.")
    print("Masks that are kept: " + "; ".join(
        f"{int(f['kept_bytes']) / 2**20:.1f} MiB under a bound of {int(f['kept_bytes_max']) / 2**20:.0f} ({f['dropped']} dropped; masks of first "
        f"walks p50 {f['first.p50']} us, p99 {f['first.p99']} us)" for f in (ours[-1], measure(vocabulary, big, 1, mask_mib=4))), flush=True)


class Cluster:
    def __init__(self):
        model = subprocess.run([ROOT / "tools" / "fetch-model", "smollm2"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        self.process = subprocess.Popen([BUILD / "bin" / "tandem", "up", "--model", model, "--mixed", "1", "--threads", "1",
                                         "--listen", "127.0.0.1:0", "--log-level", "warn"], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])
        status = json.loads(self.request("GET", "/admin/status"))
        self.pids = [status["routers"][0]["pid"], status["workers"][0]["pid"]]

    def close(self):
        self.process.terminate()
        self.process.wait()

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse().read()
        connection.close()
        return answer

    def cpu(self):
        """Seconds of all threads of router and worker."""
        return sum(int(open(path).read().split()[0]) for pid in self.pids for path in glob.glob(f"/proc/{pid}/task/*/schedstat")) / 1e9

    def ask(self, seed, temperature, with_form):
        body = {"prompt": [100 + (seed * 37 + i * 11) % 30000 for i in range(N_PROMPT)], "max_tokens": N_ANSWER, "seed": seed,
                "temperature": temperature, "ignore_eos": True, **({"guided_json": FORM} if with_form else {})}
        answer = json.loads(self.request("POST", "/v1/completions", body))
        assert answer.get("usage", {}).get("completion_tokens") == N_ANSWER, answer

    def time(self, n, seed, temperature, with_form):
        """(seconds, seconds of CPU) for each token of n streams."""
        threads = [threading.Thread(target=self.ask, args=(seed * n + i, temperature, with_form)) for i in range(n)]
        began, cpu = time.perf_counter(), self.cpu()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return (time.perf_counter() - began) / (n * N_ANSWER), (self.cpu() - cpu) / (n * N_ANSWER)


def answers(given):
    cluster = Cluster()
    rounds = given.rounds
    print(f"\nSmolLM2-135M, one thread, {N_ANSWER} tokens an answer, {rounds} rounds in turns, medians\n")
    print("| ms a token | plain | with a schema | ratio | ratios from..to | target |\n|---|---|---|---|---|---|")
    try:
        for n in (1, 16):
            for temperature in (0, 1):
                for with_form in (False, True):
                    cluster.time(n, 0, temperature, with_form)
                pairs = []
                for i in range(1, rounds + 1):
                    found = {with_form: cluster.time(n, i, temperature, with_form) for with_form in ((False, True) if i % 2 else (True, False))}
                    pairs.append((found[False], found[True]))
                for clock, what in enumerate(("", ", CPU of router and worker")):
                    ratios = sorted(form[clock] / plain[clock] for plain, form in pairs)
                    ratio = statistics.median(ratios)
                    print(f"| {n} stream{'s' if n > 1 else ''}, temperature {temperature}{what} | {statistics.median(p[clock] for p, _ in pairs) * 1e3:.3f} "
                          f"| {statistics.median(f[clock] for _, f in pairs) * 1e3:.3f} | {ratio:.3f} | {ratios[0]:.3f}..{ratios[-1]:.3f} "
                          f"| 1.03{': missed' if ratio > 1.03 else ''} |", flush=True)
    finally:
        cluster.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("engines", "answers"))
    parser.add_argument("--vocabulary", help="a model's file or folder in place of Qwen's vocabulary")
    given = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # children's, too
    for part in (engines, answers):
        if given.only in (None, part.__name__):
            part(given)


if __name__ == "__main__":
    main()
