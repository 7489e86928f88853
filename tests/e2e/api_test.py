#!/usr/bin/env python3
"""The HTTP API of a whole cluster: what any client may rely on (openai_client.py), and what the router answers when
time, room or keys are missing."""
import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

import openai_client
from cluster import BIN, Cluster, Skip, Tally, eventually, get_json, post_json, real_model, request, stopped, stream_events


def client_checks(tally, label, url, key=None, admin_key=None):
    target = openai_client.Target(url, key, admin_key)
    for check in openai_client.CHECKS:
        def run(check=check):
            try:
                check(target)
            except openai_client.Skip as reason:
                raise Skip(str(reason)) from None
        tally.run(f"{label}: {check.__name__}", run)


def to_its_deadline(cluster, body):
    """The events of a stream that its deadline ends; one that ends before its first token is a plain 504, and is asked again."""
    def begun():
        try:
            return list(stream_events(cluster.port, "/v1/completions", body))
        except AssertionError as error:
            assert error.args[0][0] == 504, error
    return eventually(begun, "a first token before the deadline")


def deadline_ends_calls(cluster):
    long = {"prompt": "x", "max_tokens": 30000, "ignore_eos": True}
    status, _, body = request(cluster.port, "POST", "/v1/completions", long)
    error = json.loads(body)["error"]
    assert status == 504 and error["code"] == "deadline_exceeded", (status, error)
    events = to_its_deadline(cluster, long)
    assert events[-1] == "[DONE]" and len(events) > 2, events[-3:]
    assert json.loads(events[-2])["error"]["code"] == "deadline_exceeded", events[-2]
    assert all("error" not in json.loads(event) for event in events[:-2])
    cluster.quiet()


def full_queue_is_told(cluster):
    """The worker stands still until the router has told or kept each call."""
    answers = []

    def ask():
        status, headers, body = request(cluster.port, "POST", "/v1/completions",
                                        {"prompt": "y", "max_tokens": 100, "n": 8})
        answers.append((status, headers.get("Retry-After"), json.loads(body)))

    def all_came():
        kept = cluster.status()["routers"][0]["requests"]
        return 8 * len(answers) + kept["queued"] + kept["running"] == 8 * 40
    threads = [threading.Thread(target=ask) for _ in range(40)]
    with stopped(cluster.workers()[0]["pid"]):
        for thread in threads:
            thread.start()
        eventually(all_came, "40 calls, refused or kept")
    for thread in threads:
        thread.join()
    refused = [a for a in answers if a[0] == 429]
    served = [a for a in answers if a[0] == 200]
    assert len(refused) + len(served) == 40 and refused and served, [a[0] for a in answers]
    assert all(a[1] and a[2]["error"]["type"] == "rate_limit_error" for a in refused)
    assert all(len(a[2]["choices"]) == 8 and a[2]["usage"]["completion_tokens"] == 800 for a in served)
    cluster.quiet()
    return f"{len(served)} served, {len(refused)} refused"


STATUS_KEYS = {
    "routers": {"name": str, "pid": int, "uptime_s": int, "requests": dict.fromkeys(
        ("queued", "running", "completed", "failed", "cancelled", "refused"), int)},
    "workers": {"name": str, "role": str, "state": str, "pid": int, "incarnation": str, "model": str, "tp": int,
                "backend": str, "preemptions": int, "tokens_per_s": int,
                "blocks": dict.fromkeys(("total", "free", "used", "reserved", "quarantined", "cached"), int),
                "sequences": dict.fromkeys(("running", "waiting"), int),
                "handoffs": dict.fromkeys(("in", "out", "bytes"), int)}}


def check_keys(want, got, where):
    for key, kind in want.items():
        assert key in got, f"{where}.{key} is missing"
        if isinstance(kind, dict):
            check_keys(kind, got[key], f"{where}.{key}")
        else:
            assert type(got[key]) is kind and (kind is str or got[key] >= 0), f"{where}.{key} is {got[key]!r}"


def status_says_what_is_promised(cluster):
    def told():
        out = subprocess.run([BIN / "tandem", "status", "--json", "--server", cluster.url], capture_output=True,
                             text=True, check=True).stdout
        return json.loads(out)
    eventually(lambda: [w["state"] for w in cluster.workers()] == ["ready"] * 2, "both workers ready")

    def all_told():
        now = told()
        out, into = (sum(w["handoffs"][way] for w in now["workers"]) for way in ("out", "in"))
        return now if out and into and any(w["tokens_per_s"] for w in now["workers"]) else None
    with cluster.answering(prompt="x" * 40):
        running = eventually(all_told, "a hand-off and a rate")
    assert [len(running[k]) for k in STATUS_KEYS] == [1, 2]
    for kind, keys in STATUS_KEYS.items():
        for row in running[kind]:
            check_keys(keys, row, row["name"])
    router, workers = running["routers"][0], {w["role"]: w for w in running["workers"]}
    assert router["requests"]["running"] == 1 and set(workers) == {"prefill", "decode"}, running
    for worker in workers.values():
        os.kill(worker["pid"], 0)
        blocks = worker["blocks"]
        assert worker["state"] == "ready" and worker["model"] == "hash" and worker["tp"] == 1, worker
        assert sum(blocks[k] for k in blocks if k != "total") == blocks["total"] > 0, blocks
    assert workers["prefill"]["handoffs"]["out"] == workers["decode"]["handoffs"]["in"] == 1, workers
    assert workers["decode"]["handoffs"]["bytes"] > 0 and workers["decode"]["blocks"]["used"] > 0, workers
    assert workers["decode"]["sequences"] == {"running": 1, "waiting": 0}, workers
    cluster.quiet()
    ended = told()
    assert ended["routers"][0]["requests"]["cancelled"] == 1, ended
    assert ended["workers"][0]["pid"] != ended["workers"][1]["pid"], ended
    eventually(lambda: not any(w["tokens_per_s"] for w in told()["workers"]), "no tokens, no rate")


def running_streams_survive_a_drain():
    with Cluster("--mixed", 1, "--step-us", 2000) as cluster:
        events = stream_events(cluster.port, "/v1/completions", {"prompt": "x", "max_tokens": 400, "ignore_eos": True})
        first = next(events)
        pid = get_json(cluster.port, "/admin/status")["routers"][0]["pid"]
        os.kill(pid, signal.SIGTERM)
        rest = list(events)
        assert first.startswith("{") and rest[-1] == "[DONE]", rest[-2:]
        assert json.loads(rest[-2])["choices"][0]["finish_reason"] == "length"


def cors_is_for_listed_origins_alone():
    with Cluster("--mixed", 1, env={"TANDEM_CORS_ORIGINS": "http://ours.example"}) as cluster:
        for origin, want in (("http://ours.example", "http://ours.example"), ("http://evil.example", None)):
            for method, path, body in (("GET", "/v1/models", None), ("OPTIONS", "/v1/completions", None),
                                       ("POST", "/v1/completions", {"prompt": "x", "max_tokens": 1}),
                                       ("POST", "/v1/completions", {"prompt": "x", "max_tokens": 1, "stream": True})):
                status, headers, _ = request(cluster.port, method, path, body, {"Origin": origin})
                assert headers.get("Access-Control-Allow-Origin") == want, (origin, method, path, headers)
                assert (status == 403) == (want is None and method == "POST"), (origin, method, path, status)
                exposed = headers.get("Access-Control-Expose-Headers", "").split(", ")
                assert ({"x-request-id", "retry-after", "retry-after-ms"} <= set(exposed)) == (want is not None and method != "OPTIONS"), headers
            asked = "authorization,content-type,openai-beta,x-stainless-lang,x-title"
            for path in ("/v1/chat/completions", "/v1/models", "/nowhere"):
                status, headers, _ = request(cluster.port, "OPTIONS", path, None, {"Origin": origin, "Access-Control-Request-Method": "POST",
                                                                                   "Access-Control-Request-Headers": asked})
                told = headers.get("Access-Control-Allow-Headers")
                assert status == 204 and told == (", ".join(asked.split(",")) if want else None), (origin, path, headers)
                assert headers.get("Vary") == ("Origin, Access-Control-Request-Headers" if want else None), headers
            status, headers, _ = request(cluster.port, "OPTIONS", "/admin/drain", None, {"Origin": origin, "Access-Control-Request-Headers": "x-a"})
            assert not [name for name in headers if name.startswith("Access-Control")], headers
            status, headers, _ = request(cluster.port, "POST", "/v1/completions", {"model": "no"}, {"Origin": origin})
            assert headers.get("Access-Control-Allow-Origin") == want and ("Access-Control-Expose-Headers" in headers) == (want is not None), headers


def silent_streams_are_pinged():
    """While the worker stands still, pings are all that comes, before the first token and behind it; a plain answer has none."""
    with Cluster("--mixed", 1, "--step-us", 2000, "--ping", "100ms") as cluster, contextlib.ExitStack() as wires:
        pid = cluster.workers()[0]["pid"]

        def asked(n, stream):
            wire = wires.enter_context(contextlib.closing(http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=60)))
            body = {"prompt": [1, 2, 3], "max_tokens": n, "ignore_eos": True, "stream": stream}
            wire.request("POST", "/v1/completions", json.dumps(body))
            return wire

        def comes(reply, start):
            while not (line := reply.readline()).startswith(start):
                assert line, f"no {start} before the end"
        with stopped(pid):
            plain, short, long = asked(3, False), asked(3, True).getresponse(), asked(60000, True).getresponse()
            assert short.readline() == long.readline() == b": ping\n"
        comes(long, b"data: ")
        with stopped(pid):
            comes(long, b": ping")
        comes(long, b"data: ")
        text = short.read().decode()
        assert ": ping\n\n" not in text and "\n\n\n" not in text and not text.startswith("\n"), text
        lines = text.split("\n")
        assert "data: [DONE]" in lines and not any("error" in line for line in lines), lines
        assert all(line == "" or line == ": ping" or line.startswith("data: ") for line in lines), lines
        answer = plain.getresponse()
        assert answer.status == 200 and json.loads(answer.read())["usage"]["completion_tokens"] == 3


def callers_bound_their_time(cluster):
    long = {"prompt": "x", "max_tokens": 30000, "ignore_eos": True}
    for extra, headers in (({"timeout": 0.2}, {}), ({}, {"x-request-timeout": "0.2"}),
                           ({"timeout": 3600}, {"x-request-timeout": "0.2"}), ({"timeout": 0.2}, {"x-request-timeout": "3600"})):
        status, _, body = request(cluster.port, "POST", "/v1/completions", dict(long, **extra), headers)
        assert status == 504 and json.loads(body)["error"]["code"] == "deadline_exceeded", (status, body)
        cluster.quiet()  # workers have stopped, and their blocks are free
    events = to_its_deadline(cluster, dict(long, timeout=0.5))
    assert events[-1] == "[DONE]" and json.loads(events[-2])["error"]["code"] == "deadline_exceeded", events[-2:]
    for bad in ("", "x", "-1", "0", "1e9", "nan", "5s", "0x10"):
        status, _, body = request(cluster.port, "POST", "/v1/completions", long, {"x-request-timeout": bad})
        assert status == 400 and "x-request-timeout" in json.loads(body)["error"]["message"], (bad, status, body)
    status, _, body = request(cluster.port, "POST", "/v1/completions", dict(long, timeout=-1))
    assert status == 400 and json.loads(body)["error"]["param"] == "timeout", body


def traces_are_logged(cluster):
    good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for value in (good, good[:-1], good + "0", good.upper(), "00 evil=1", "x" * 55):
        status, _, _ = request(cluster.port, "POST", "/v1/completions", {"prompt": "x", "max_tokens": 1},
                               {"traceparent": value, "x-request-id": "traced"})
        assert status == 200, status

    def done():
        return [line for line in cluster.log_text().splitlines() if "request done" in line and "request_id=traced" in line]
    eventually(lambda: len(done()) == 6, "six lines")
    assert sum(f"traceparent={good} " in line for line in done()) == 1, done()
    assert sum("traceparent= " in line for line in done()) == 5, done()


def keys_have_limits():
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write("free\ntwo concurrent=2\nthree per-minute=3\nsalted cache-salt=a\nother cache-salt=b\n")
        keys.flush()
        with Cluster("--mixed", 1, "--step-us", 20000, "--api-keys", keys.name) as cluster:
            def ask(key, n=1, prompt="x", **more):
                return request(cluster.port, "POST", "/v1/completions", {"prompt": prompt, "max_tokens": n, "ignore_eos": True, **more},
                               {"x-api-key": key})

            def told(answer):
                status, headers, body = answer
                assert status == 429 and json.loads(body)["error"]["code"] == "rate_limit_exceeded", (status, body)
                return int(headers["Retry-After"])
            wires = [http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=60) for _ in range(6)]
            for wire in wires:
                body = {"prompt": "x", "max_tokens": 60000, "ignore_eos": True, "stream": True}
                wire.request("POST", "/v1/completions", json.dumps(body), {"x-api-key": "two"})
            replies = [wire.getresponse() for wire in wires]
            assert sorted(r.status for r in replies) == [200] * 2 + [429] * 4, [r.status for r in replies]
            assert all(told((r.status, r.headers, r.read())) == 1 for r in replies if r.status == 429)
            for wire in wires:
                wire.close()
            eventually(lambda: ask("two")[0] == 200, "they were given back")
            answers = [ask("three") for _ in range(8)]
            assert [a[0] for a in answers[:3]] == [200] * 3
            assert all(1 <= told(a) <= 20 for a in answers if a[0] != 200) and any(a[0] == 429 for a in answers)
            assert request(cluster.port, "GET", "/v1/models", None, {"x-api-key": "three"})[0] == 200
            assert [ask("free")[0] for _ in range(5)] == [200] * 5
            prompt = list(range(200))

            def cached(key):
                return json.loads(ask(key, prompt=prompt)[2])["usage"]["prompt_tokens_details"]["cached_tokens"]
            assert cached("salted") == 0 and cached("salted") > 0
            assert cached("other") == 0 and cached("free") == 0 and cached("free") > 0


def habits(cluster):
    """What load balancers and newer clients send by habit: /ping as /health, `verbosity` as a hint that nothing here takes, embeddings
    of whatever model there is."""
    assert request(cluster.port, "GET", "/ping")[0] == 200
    status, _, body = request(cluster.port, "POST", "/v1/embeddings", {"model": "hash", "input": "x"})
    error = json.loads(body)["error"]
    assert status == 501 and error["code"] == "not_implemented" and error["message"].startswith("Embeddings"), (status, error)
    for word in ("low", "medium", "high"):
        post_json(cluster.port, "/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2, "verbosity": word})
    plan = subprocess.run([BIN / "tandem-worker", "--dry-run", "--model", "hash"], capture_output=True, text=True, timeout=60)
    assert re.fullmatch(r"weights 0\.0 MiB, KV 0\.0 KiB per token, scratch 0\.0 MiB; 4096 blocks for 65536 tokens \(2\.0 MiB\); fits\n",
                        plan.stdout), plan


def answers_are_as_the_document_says(cluster):
    """One of each path, by its schema; all that schemathesis thinks of is in openapi_test.py."""
    try:
        import jsonschema
    except ImportError as error:
        raise Skip(f"the Python package jsonschema cannot be imported ({error})") from error
    document = get_json(cluster.port, "/openapi.json")
    user = [{"role": "user", "content": "hi"}]
    bodies = {"chat": {"messages": user, "max_tokens": 3, "logprobs": True, "n": 2}, "completions": {"prompt": "a", "max_tokens": 3, "logprobs": 1},
              "messages": {"messages": user, "max_tokens": 3}, "count_tokens": {"messages": user}, "responses": {"input": "hi", "max_output_tokens": 3}, "tokenize": {"prompt": "a", "return_token_strs": True},
              "detokenize": {"tokens": [97]}, "embeddings": {"input": "a"}, "drain": {"worker": "nobody"}, "resume": {"worker": "nobody"},
              "kill": {"worker": "nobody"}}

    def follows(schema, value):
        jsonschema.validate(value, {**schema, "components": document["components"]})
    seen = set()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if path == "/admin/events":
                continue
            name, models = operation["operationId"], get_json(cluster.port, "/v1/models")["data"]
            body = bodies[name] if method == "post" else None
            status, headers, got = request(cluster.port, method.upper(), path.format(model=models[0]["id"]), body)
            told = operation["responses"].get(str(status)) or operation["responses"][f"{status // 100}XX"]
            told = document["components"]["responses"][told["$ref"].rsplit("/", 1)[1]] if "$ref" in told else told
            kind = headers["Content-Type"].split(";")[0]
            follows(told["content"][kind]["schema"], json.loads(got) if kind == "application/json" else got.decode())
            if body:
                follows(document["components"]["schemas"][name], body)
            seen.add((name, status))
    assert {("chat", 200), ("completions", 200), ("messages", 200), ("embeddings", 501), ("drain", 404), ("page", 200), ("status", 200)} <= seen, seen


def main():
    tally = Tally()
    with Cluster("--prefill", 1, "--decode", 1, "--step-us", 2000) as cluster:
        client_checks(tally, "hash", cluster.url)
    with Cluster("--mixed", 1, "--step-us", 1000, env={"TANDEM_DEADLINE": "1s"}) as cluster:
        tally.run("a deadline ends calls with 504 or an error event", deadline_ends_calls, cluster)
    with Cluster("--mixed", 1, "--step-us", 1000, "--max-batch", 16, "--queue", 64) as cluster:
        tally.run("a full queue is told, and every call is admitted whole or not at all", full_queue_is_told, cluster)
    with Cluster("--prefill", 1, "--decode", 1, "--step-us", 2000) as cluster:
        tally.run("status says what is promised", status_says_what_is_promised, cluster)
        tally.run("habits", habits, cluster)
        tally.run("answers are as the document says", answers_are_as_the_document_says, cluster)
        tally.run("callers bound their time", callers_bound_their_time, cluster)
        tally.run("traces are logged", traces_are_logged, cluster)
    tally.run("silent streams are pinged", silent_streams_are_pinged)
    tally.run("keys have limits", keys_have_limits)
    tally.run("running streams survive a drain", running_streams_survive_a_drain)
    tally.run("CORS is for listed origins alone", cors_is_for_listed_origins_alone)
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys, tempfile.NamedTemporaryFile("w") as admins:
        keys.write("# of the test\nsecret-one\n  secret-two  \n")
        keys.flush()
        admins.write("secret-three\n")
        admins.flush()
        with Cluster("--mixed", 1, "--step-us", 2000, "--api-keys", keys.name, "--admin-keys", admins.name) as cluster:
            client_checks(tally, "with a key", cluster.url, "secret-two", "secret-three")

    def with_the_real_model():
        with Cluster("--prefill", 1, "--decode", 1, model=real_model()) as cluster:
            client_checks(tally, "real model", cluster.url)
    tally.run("the real model", with_the_real_model)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
