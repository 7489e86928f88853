#!/usr/bin/env python3
"""Forms of answers that mean harm, while 64 plain streams run: deep, wide, ambiguous, endless, catastrophic, 1 MiB of it, 10,000
different ones. Each is a 400 that names its field, or is served within its budgets; no step of the engine and no turn of the router's
loop is held up beyond its bound; memory comes back. Real model.

Steps are counted by the worker itself (tandem_step_seconds, stage "sample": that is where masks are made), beside a control: the same
streams without forms in the same run, so that a machine that pauses is not taken for a form that holds up.
"""
import argparse
import json
import multiprocessing
import random
import re
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from cluster import Cluster, Tally, eventually, real_model, request
from exhaust_test import loop_turn, memory, metric, reset_peak
from flood_test import Others

N_STREAMS = 64
TURN_S = 0.005       # CPU of one turn of the router's loop, as exhaust_test.py has it
STEP_S = 0.06        # of a step's sampling beside 64 streams; a mask alone may take 20 ms
# What a worker keeps by its own bounds (worker/step/constraint.c): masks, and grammars with their automata.
WORKER_MIB = 64 + 256


def nested(inside, n, begin, end):
    return begin * n + inside + end * n


def schemas(salt):
    """Names and schemas; `salt` makes those of one round others than those of the next."""
    yield "deep", nested("{}", 3000, '{"items":', "}")
    yield "as deep as may be", nested('{"const":%d}' % salt, 55, '{"items":', "}")
    yield "deep alternatives", nested('{"const":%d}' % salt, 55, '{"anyOf":[{"type":"null"},', "]}")
    yield "wide alternatives", {"anyOf": [{"const": f"{salt}-{i}"} for i in range(3000)]}
    yield "huge enum", {"enum": [salt * 100000 + i for i in range(7000)]}
    yield "huge enum of strings", {"enum": [f"{salt}" + "x" * i for i in range(330)]}
    yield "too huge enum", {"enum": list(range(200000))}
    yield "a product of alternatives", {"allOf": [{"anyOf": [{"required": [f"{k}{i}"]} for i in range(10)]} for k in range(10)], "title": str(salt)}
    yield "many properties", {"type": "object", "properties": {f"p{salt}x{i}": {"type": "integer", "maximum": i} for i in range(1200)}}
    yield "many properties, each required", {"type": "object", "properties": {f"p{salt}{i}": {} for i in range(2000)},
                                             "required": [f"p{salt}{i}" for i in range(2000)]}
    yield "patterns for names", {"patternProperties": {"^(a|b)*a(a|b){9}": {}, "^(a|b)*b(a|b){9}": {"type": "null"}, f"{salt}": {}}}
    yield "endless reference", {"$ref": "#", "title": str(salt)}
    yield "endless alternatives", {"anyOf": [{"$ref": "#"}, {"$ref": "#/anyOf/0"}], "title": str(salt)}
    yield "endless lists", {"type": "array", "items": {"$ref": "#"}, "minItems": 1, "title": str(salt)}
    yield "a chain of references", {"$defs": {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(1500)} | {"d1500": {"const": salt}}, "$ref": "#/$defs/d0"}
    yield "a tree that doubles", {"$defs": {f"d{i}": {"type": "array", "prefixItems": [{"$ref": f"#/$defs/d{i + 1}"}] * 2, "minItems": 2}
                                            for i in range(40)} | {"d40": {"const": salt}}, "$ref": "#/$defs/d0"}
    yield "resources", {"$defs": {f"a{i}": {"$id": f"http://h/{salt}/{i}", "const": i} for i in range(600)},
                        "anyOf": [{"$ref": f"#/$defs/a{i}"} for i in range(600)]}
    yield "catastrophic pattern", {"type": "string", "pattern": f"^(([a-z]{{1,{salt % 9 + 9}}})+.)+[A-Z]([a-z])+$"}
    yield "patterns of readings", {"type": "string", "pattern": "(a|aa)+" * 500 + str(salt)}
    yield "long repeats", {"type": "string", "pattern": f"^[a-z{salt % 10}]{{1,99999}}$", "minLength": 9000, "maxLength": 90000}
    yield "lists without end", {"type": "array", "items": {"type": "array", "items": {"type": "string", "minLength": salt, "maxLength": 99999}, "minItems": 9999},
                                "minItems": 10 ** 9}
    yield "numbers", {"type": "number", "minimum": 0.1 ** 20 * salt, "exclusiveMaximum": 1.7e308}
    yield "integers", {"type": "integer", "multipleOf": 4093, "minimum": -(10 ** 15) + salt, "maximum": 10 ** 15}
    yield "branches that may meet", {"oneOf": [{"type": "object", "properties": {"k": {"const": f"{salt}{i}"}}, "required": ["k"]} for i in range(300)]}


def regexes(salt):
    yield "nested repeats", f"(((a{{1000}}){{1000}}){{1000}}){salt}"
    yield "brackets", "(" * 5000 + str(salt) + ")" * 5000
    yield "a mebibyte", "a" * (1 << 20)
    yield "64 KiB", f"{salt}" + "a?" * 32000
    yield "subsets", f"(a|b)*a(a|b){{{200 + salt % 50}}}c"
    yield "subsets of all", f"[\\s\\S]*x[\\s\\S]{{{400 + salt % 99}}}y"
    yield "subsets of words", f"(\\w+\\s?){{1,{1000 + salt}}}!"
    yield "optional ones", f"(a?){{{500 + salt % 100}}}a{{500}}"
    yield "readings", f"(?:a|ab|abc|abcd|bcd|cd|d|bc)*z{{{salt % 1000}}}"
    yield "stars", "[a-z]*" * 400 + str(salt)
    yield "any, long", f".{{0,5000}}{salt}.{{0,5000}}b.{{0,5000}}"
    yield "letters", f"\\p{{L}}{{{1 + salt},100000}}"
    yield "many classes", "|".join(f"[{chr(0x4e00 + i)}-{chr(0x4e00 + 2 * i + salt % 9)}]+{i}" for i in range(400))
    yield "words", "|".join(f"\\w{{{i}}}{salt}" for i in range(1, 150))


def grammars(salt):
    yield "left without end", f'root ::= root | "{salt}"'
    yield "every reading", f'root ::= root root | root root root | "a" | "{salt}"'
    yield "empty and every reading", f'root ::= "" | root root "a" | "{salt}"'
    yield "never ends", f'root ::= "{salt}" root'
    yield "palindromes", f'root ::= "a" root "a" | "b" root "b" | [a-z] root? | "{salt}"'
    yield "a chain", "root ::= r0\n" + "\n".join(f"r{i} ::= r{i + 1}" for i in range(3000)) + f'\nr3000 ::= "{salt}"'
    yield "a chain of options", "root ::= r0\n" + "\n".join(f'r{i} ::= r{i + 1}? [a-z]? r{i + 1}?' for i in range(40)) + f'\nr40 ::= "{salt}"'
    yield "nested counts", f'root ::= (((("a" | "aa"){{1,300}} "b"?){{1,300}} "c"?){{1,300}}){{1,300}} "{salt}"'
    yield "many readings at once", "root ::= " + " | ".join(f"r{i}" for i in range(500)) + "\n" + "\n".join(
        f'r{i} ::= [a-z ]* "{i}" | [a-z ]* r{i} "{salt}"' for i in range(500))
    yield "lark, all of it ignored", f'start: (A | B)* "{salt}"\nA: /[a-z ]+/\nB: /[a-z ]*x/\nIGN: /[ \\n]+/\n%ignore IGN'
    yield "lark, counts", f'start: x~1..9999 "{salt}"\nx: y~1..9999\ny: ("a" | "b" | "ab")~1..9999'
    yield "brackets", "root ::= " + "(" * 9000 + f'"{salt}"' + ")" * 9000


def forms(salt):
    """(name, field, form)"""
    for name, form in schemas(salt):
        yield "schema: " + name, "guided_json", form
    for name, form in regexes(salt):
        yield "regex: " + name, "regex", form
    for name, form in grammars(salt):
        yield "grammar: " + name, "guided_grammar", form
    yield "choices", "guided_choice", [f"{salt}" + "y" * (i % 12) + str(i) for i in range(3500)]


def ask(port, field, form, seed, n_tokens=24):
    """What came: a count of tokens, or "400" for a form that is refused, or the reason of an end."""
    body = {"prompt": "x", "max_tokens": n_tokens, "temperature": 2, "seed": seed, field: form}
    status, _, answer = request(port, "POST", "/v1/completions", body, timeout=300)
    answer = json.loads(answer)
    if status == 200:
        return answer["usage"]["completion_tokens"]
    assert status in (400, 413), (status, field, str(form)[:100], answer)
    code = answer["error"]["code"]
    assert code == "no_token_left" or field in answer["error"]["message"], answer
    return "no_token_left" if code == "no_token_left" else "400"


class Steps:
    """How many of the worker's steps took longer than STEP_S to choose their tokens, and how many there were."""

    def __init__(self, port):
        self.port = port
        self.begin = self.read()

    def read(self):
        text = request(self.port, "GET", "/metrics")[2].decode()
        found = {limit: int(n) for limit, n in re.findall(r'tandem_step_seconds_bucket\{[^}]*stage="sample",le="([^"]+)"\} (\d+)', text)}
        return {float(limit): n for limit, n in found.items()}

    def since(self):
        """{limit: steps beyond it}, and all"""
        now = self.read()
        counts = {limit: now[limit] - self.begin[limit] for limit in now}
        total = counts[float("inf")]
        return {limit: total - n for limit, n in counts.items()}, total


class Beside:
    """What runs beside a fact: 64 streams; what the fact may not do to them."""

    def __init__(self, cluster, figures, control=None):
        self.cluster, self.figures, self.control = cluster, figures, control

    def __enter__(self):
        self.others = Others(self.cluster, N_STREAMS, n_tokens=1500)
        self.others.__enter__()
        eventually(lambda: sum(w["sequences"]["running"] for w in self.cluster.workers()) >= N_STREAMS, "all streams run")
        self.steps = Steps(self.figures)
        self.turns, self.stop = [], threading.Event()
        self.watcher = threading.Thread(target=self.watch)
        self.watcher.start()
        return self

    def watch(self):
        while not self.stop.wait(0.5):
            self.turns.append(loop_turn(self.cluster.port))

    def __exit__(self, kind, value, trace):
        self.stop.set()
        self.watcher.join()
        self.beyond, self.n = self.steps.since()
        self.others.__exit__(kind, value, trace)
        if kind is None and self.control is not None:
            share = self.beyond[STEP_S] / max(1, self.n)
            allowed = self.control.beyond[STEP_S] / max(1, self.control.n)
            assert share <= allowed + 0.01, f"{self} against {self.control}"
            assert self.beyond[0.25] <= self.control.beyond[0.25] + 1, f"{self} against {self.control}"
            assert sorted(self.turns)[len(self.turns) * 9 // 10] <= max(TURN_S, 2 * max(self.control.turns)), f"{self} against {self.control}"

    def __str__(self):
        tail = ", ".join(f"{self.beyond[limit]} over {limit * 1000:.0f} ms" for limit in (0.01, 0.03, 0.06, 0.12, 0.25, 0.5, 1.0))
        return f"{self.n} steps, sampling {tail}; longest turn {max(self.turns, default=0) * 1000:.1f} ms; {self.others}"


def alone(cluster, figures, controls):
    with Beside(cluster, figures) as control:
        time.sleep(15)
    controls.append(control)
    return control


def one_by_one(cluster, figures, controls):
    outcomes = {}
    with Beside(cluster, figures, controls[0]) as beside:
        for i, (name, field, form) in enumerate(forms(7)):
            before = Steps(figures)
            outcomes[name] = ask(cluster.port, field, form, i)
            slow = before.since()[0]
            if slow[0.03]:
                print(f"        {name}: {outcomes[name]}: {slow[0.03]} steps over 30 ms, {slow[0.06]} over 60, {slow[0.25]} over 250", flush=True)
    told = list(outcomes.values())
    n_refused, n_stuck = told.count("400"), told.count("no_token_left")
    assert n_refused >= 10 and len(told) - n_refused >= 10, outcomes
    return f"{len(told)} forms, {n_refused} refused, {n_stuck} ended; {beside}"


def together(cluster, figures, controls, salt, left):
    """All at a time from eight clients, each form anew."""
    asked = [(field, form, salt + i) for i in range(2) for _, field, form in forms(salt + i)]
    random.Random(salt).shuffle(asked)
    with Beside(cluster, figures, controls[0]) as beside, ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda one: ask(cluster.port, *one), asked))
    cluster.quiet()
    left.append(held(figures))
    return f"{len(told)} forms, {told.count('400')} refused, {told.count('no_token_left')} ended; {beside}"


# What is wrong with seven in eight of many, and what their refusal says.
SMALL = (("kept", None), ("not", "not cannot be kept"), ("look-ahead", "look-around"), ("no such rule", "undefined name"),
         ("repeats of repeats", "a repeat of a repeat"), ("no such type", "/type: must be"), ("no such reference", "there is no #/none"),
         ("no end", "no text matches"))


def small_form(i):
    """The ith of many."""
    return (("guided_json", {"type": "object", "properties": {f"k{i}": {"type": "integer", "maximum": i}}, "required": [f"k{i}"]}),
            ("guided_json", {"properties": {f"k{i}": {"not": {"const": i}}}}), ("regex", f"(?={i})"), ("guided_grammar", f'root ::= x{i}'),
            ("regex", f"(a{{{i}}}" + "{9999}" * 3), ("guided_json", {"type": f"t{i}"}), ("guided_json", {"$ref": f"#/none/{i}"}),
            ("guided_grammar", f'root ::= "{i}" root'))[i % 8]


class Line:
    """A connection that costs its client little: requests and answers of HTTP/1.1 with a length."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=300)
        self.rest = b""

    def ask(self, body):
        self.socket.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                            % len(body) + body)
        data = self.rest
        while b"\r\n\r\n" not in data:
            data += self.more()
        head, data = data.split(b"\r\n\r\n", 1)
        n = int(re.search(rb"(?i)content-length: (\d+)", head).group(1))
        while len(data) < n:
            data += self.more()
        self.rest = data[n:]
        return int(head[9:12]), data[:n]

    def more(self):
        got = self.socket.recv(65536)
        assert got, "the connection was closed"
        return got


def small_ones(port, which, told):
    """A process with twelve clients, which wait for the worker; puts {(kind, what came): how often}."""
    counts, lock, wrong = {}, threading.Lock(), []
    asked = iter(which)

    def client():
        line = Line(port)
        while not wrong:
            with lock:
                i = next(asked, None)
            if i is None:
                return
            field, form = small_form(i)
            status, text = line.ask(json.dumps({"prompt": "x", "max_tokens": 2, "temperature": 1, field: form}).encode())
            kind, says = SMALL[i % 8]
            if status not in ((200, 429, 503) if says is None else (400, 429, 503)) or (status == 400 and not re.search(says, text.decode())):
                wrong.append(f"{i} ({kind}): {status} {text[:300]}")
            with lock:
                counts[kind, status] = counts.get((kind, status), 0) + 1

    def guarded():
        try:
            client()
        except (OSError, AssertionError) as error:
            wrong.append(repr(error))
    threads = [threading.Thread(target=guarded) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told.put((counts, wrong))


def ten_thousand(cluster, figures, controls, n):
    counts, told, n_processes = {}, multiprocessing.Queue(), 4
    with Beside(cluster, figures, controls[0]) as beside:
        began = time.monotonic()
        processes = [multiprocessing.Process(target=small_ones, args=(cluster.port, range(k, n, n_processes), told)) for k in range(n_processes)]
        for process in processes:
            process.start()
        wrong = []
        for _ in processes:
            more, bad = told.get(timeout=600)
            wrong += bad
            for key, times in more.items():
                counts[key] = counts.get(key, 0) + times
        for process in processes:
            process.join()
        seconds = time.monotonic() - began
        assert not wrong, wrong[:3]
    served = counts.get(("kept", 200), 0)
    refused = sum(times for (_, status), times in counts.items() if status == 400)
    assert served + refused >= 0.9 * n, counts
    return (f"{n} in {seconds:.1f} s: {served} served, {refused} refused ("
            + ", ".join(f"{kind} {counts.get((kind, 400), 0)}" for kind, says in SMALL if says) + f"), {n - served - refused} turned away as too many; {beside}")


def held(port):
    """MiB that a process has asked for and not given back: pages of KV that were touched for the first time do not count."""
    return metric(port, "tandem_memory_allocated_bytes") / (1 << 20)


def memory_comes_back(cluster, figures, idle):
    cluster.quiet()
    router = eventually(lambda: (now := held(cluster.port)) < idle[0] + 16 and now, "the router's memory given back")
    worker = eventually(lambda: (now := held(figures)) < idle[1] + WORKER_MIB and now, "the worker's within what it keeps")
    return (f"router {idle[0]:.1f} MiB idle, {router:.1f} after, {memory(pids(cluster)[0], 'VmHWM'):.0f} resident at most; "
            f"worker {idle[1]:.1f} MiB idle, {worker:.1f} after")


def no_more_the_second_time(cluster, figures, controls, left):
    """What a second round of other forms leaves behind is what the first one left."""
    together(cluster, figures, controls, 900, left)
    before = left[0]
    after = eventually(lambda: (now := held(figures)) < before * 1.25 + 16 and now, f"no more than {before:.0f} MiB and a quarter of it")
    return f"worker {before:.1f} MiB after the first one, {after:.1f} after this"


def pids(cluster):
    status = cluster.status()
    return status["routers"][0]["pid"], status["workers"][0]["pid"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forms", type=int, default=10000, help="small ones, all different")
    given = parser.parse_args()
    tally, controls, left = Tally(), [], []
    with Cluster("--mixed", 1, "--threads", 1, "--max-batch", 128, model=real_model(),
                 env={"TANDEM_ADMIN": "127.0.0.1:0"}) as cluster:
        figures = int(cluster.logged(r"worker ready.* admin=(\d+)").group(1))
        tally.run("64 streams alone", alone, cluster, figures, controls)
        cluster.quiet()
        idle = [held(cluster.port), held(figures)]
        for pid in pids(cluster):
            reset_peak(pid)
        tally.run("each form by itself", one_by_one, cluster, figures, controls)
        tally.run("forms together", together, cluster, figures, controls, 100, left)
        tally.run(f"{given.forms} small ones", ten_thousand, cluster, figures, controls, given.forms)
        tally.run("memory comes back", memory_comes_back, cluster, figures, idle)
        tally.run("no more the second time", no_more_the_second_time, cluster, figures, controls, left)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
