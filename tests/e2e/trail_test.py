#!/usr/bin/env python3
"""A request can be followed: one id in the lines of its router and of both its workers; and the stages of both are timed."""
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cluster import BIN, Cluster, Tally, eventually, get_json, request
from daemons import free_ports

BODY = {"prompt": list(range(1, 41)), "max_tokens": 5, "temperature": 0}
WAY = ["parse", "tokenize", "admit", "place", "dispatch", "stream", "finish"]  # the same
STAGES = ["receive", "schedule", "batch", "launch", "forward", "sample", "emit"]  # as in docs/architecture/worker.md


def fields(line):
    return {key: quoted or plain for key, quoted, plain in re.findall(r'(\w+)=(?:"([^"]*)"|(\S*))', line)}


def lines_of(cluster):
    return [fields(line) for line in cluster.log_text().splitlines() if line.startswith("ts=")]


def done_of(cluster):
    return [line for line in lines_of(cluster) if line["msg"] == "request done"]


def ask(cluster, body):
    status, _, text = request(cluster.port, "POST", "/v1/completions", body)
    assert status == 200, text
    return eventually(lambda: done_of(cluster), "the router's line")[-1]


def value(text, kind, stage=None):
    label = f'stage="{stage}"' if stage else ""
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(kind) and label in line)


def count(lines, **wanted):
    return sum(all(line.get(key) == str(value) for key, value in wanted.items()) for line in lines)


def a_request_is_followed():
    with Cluster("--log-level", "debug", "--prefill", 1, "--decode", 1, "--roles", "fixed") as cluster:
        done = ask(cluster, BODY)
        name = done["request"]
        assert re.fullmatch(r"[1-9a-f][0-9a-f]*\.[1-9a-f][0-9a-f]*\.1", name), name

        def told():
            lines = [line for line in lines_of(cluster) if line.get("request") == name]
            return lines if count(lines, msg="forgotten") == 2 else None
        lines = eventually(told, "both workers forget the request")
    assert count(lines, prog="tandem-router", msg="request done", id=done["id"]) == 1
    assert count(lines, prog="tandem-router", msg="sequence done", id=done["id"], sequence=0, tokens=5) == 1
    decided = [line for line in lines if line["prog"] == "tandem-router" and line["msg"] in ("placed", "dispatched")]
    assert [(line["msg"], line["worker"], line["prefill"], line["id"]) for line in decided] == [
        (msg, done["decode"], done["prefill"], done["id"]) for msg in ("placed", "dispatched")], decided
    assert decided[0]["reason"] == "policy" and decided[0]["tokens"] == "40", decided
    way = [line for line in lines if line["prog"] == "tandem-worker"]
    assert all(line["level"] == "debug" for line in way), way
    for expected in ({"msg": "reserved", "tokens": 40, "cached_tokens": 0},
                     {"msg": "submitted", "phase": "prefill", "prompt_tokens": 40, "tokens": 40},
                     {"msg": "submitted", "phase": "decode", "prompt_tokens": 40, "tokens": 40},
                     {"msg": "first token", "index": 0},
                     {"msg": "handed over", "side": "out", "peer": done["decode"], "tokens": 40},
                     {"msg": "handed over", "side": "in", "peer": done["prefill"], "tokens": 40},
                     {"msg": "ended", "finish": "none", "tokens": 1},
                     {"msg": "ended", "finish": "length", "tokens": 5}):
        assert count(way, **expected) == 1, (expected, way)
    assert count(way, msg="scheduled") == 2 and count(way, msg="forgotten") == 2, way
    assert len(way) == 12, way


def each_choice_has_its_own_id():
    with Cluster("--log-level", "debug", "--mixed", 1) as cluster:
        done = ask(cluster, {**BODY, "n": 3, "seed": 1, "temperature": 1})

        def told():  # each program writes its log at its own time
            lines = lines_of(cluster)
            names = [line["request"] for line in lines if line["msg"] == "sequence done" and line["id"] == done["id"]]
            submitted = [count(lines, msg="submitted", phase="both", request=name) for name in names]
            return names if len(names) == 3 and all(submitted) else None
        names = eventually(told, "three sequences in both logs")
        lines = lines_of(cluster)
    assert len(set(names)) == 3 and names[0] == done["request"], names
    for name in names:
        assert count(lines, msg="submitted", phase="both", request=name) == 1, name


def info_says_no_more_than_before():
    with Cluster("--prefill", 1, "--decode", 1) as cluster:
        ask(cluster, BODY)
        lines = lines_of(cluster)
    assert count(lines, level="debug") == 0
    assert [line["prog"] for line in lines if "request" in line] == ["tandem-router"]


def the_router_times_its_stages():
    """Each stage is in the log line of its call, in order, and in a histogram; a call that failed says in which one."""
    with Cluster("--prefill", 1, "--decode", 1) as cluster:
        done = ask(cluster, BODY)
        context = get_json(cluster.port, "/v1/models")["data"][0]["max_model_len"]
        assert request(cluster.port, "POST", "/v1/completions", {**BODY, "n": 0})[0] == 400
        assert request(cluster.port, "POST", "/v1/completions", {**BODY, "prompt": [7] * context})[0] == 400
        failed = eventually(lambda: done_of(cluster)[1:] if len(done_of(cluster)) == 3 else None, "three lines")

        def counted():
            text = request(cluster.port, "GET", "/metrics")[2].decode()
            return text if value(text, "tandem_worker_steps_total") >= 1 <= value(text, "tandem_kv_transfers_total") else None
        text = eventually(counted, "the workers' figures")
    assert [key[:-3] for key in done if key.endswith("_us")] == [*WAY, "first_token"], done
    assert done["stage"] == "finish" and [line["stage"] for line in failed] == ["parse", "admit"], failed
    spent = {stage: int(done[stage + "_us"]) for stage in WAY}
    assert spent["dispatch"] > 0, spent  # the decode worker is asked first
    assert spent["stream"] > 0 and sum(spent.values()) >= int(done["first_token_us"]), done
    assert value(text, "tandem_kv_transfers_total") == 1, text
    counts = [value(text, "tandem_stage_seconds_count", stage) for stage in WAY]
    assert counts == [3, 2, 2, 1, 1, 1, 3], counts


def a_failure_within_a_stream_is_told_as_the_client_saw_it():
    """Log and metrics say one status: 504 for a plain reply, 200 where the error came behind one."""
    statuses = []
    with Cluster("--mixed", 1, "--step-us", "20000", "--deadline", "500ms") as cluster:
        def ended(stream, wanted):
            """A call that its deadline met behind its first token; on a machine that pauses, that may take some."""
            status, _, text = request(cluster.port, "POST", "/v1/completions", {**BODY, "max_tokens": 200, "stream": stream})
            statuses.append(str(status))
            line = eventually(lambda: done_of(cluster)[len(statuses) - 1:], "its line")[0]
            assert b'"error"' in text and line["status"] == str(status), (text, line)
            return line if line["stage"] == "stream" and status == wanted else None
        done = [eventually(lambda: ended(False, 504), "a plain call"), eventually(lambda: ended(True, 200), "a stream")]
        text = request(cluster.port, "GET", "/metrics")[2].decode()
    for line in done:
        told = {key: line[key] for key in ("outcome", "error", "stage")}
        assert told == {"outcome": "error", "error": "timeout", "stage": "stream"}, line
        n = statuses.count(line["status"])
        assert f'tandem_http_requests_total{{dialect="completions",code="{line["status"]}"}} {n}\n' in text, text


def stages_are_timed(folder):
    http, admin = free_ports(2)
    announce = f"ipc://{folder}/announce"
    daemons = [subprocess.Popen([BIN / "tandem-router", "--model", "hash", "--listen", f"127.0.0.1:{http}",
                                 "--announce", announce], stderr=subprocess.DEVNULL),
               subprocess.Popen([BIN / "tandem-worker", "--model", "hash", "--step-us", "50000", "--name", "w0",
                                 "--routers", announce, "--endpoint", f"ipc://{folder}/w0",
                                 "--admin", f"127.0.0.1:{admin}"], stderr=subprocess.DEVNULL)]

    def up():
        try:
            return request(http, "GET", "/health", timeout=10)[0] == 200
        except OSError:
            return False

    def counted():
        text = request(admin, "GET", "/metrics")[2].decode()
        return text if value(text, "tandem_worker_steps_total") >= 5 else None
    try:
        eventually(up, "the router")
        began = time.monotonic()
        assert request(http, "POST", "/v1/completions", BODY)[0] == 200
        text = eventually(counted, "the worker's figures")
        steps = value(text, "tandem_worker_steps_total")
        assert [value(text, "tandem_step_seconds_count", stage) for stage in STAGES] == [steps] * len(STAGES), text
        seconds = {stage: value(text, "tandem_step_seconds_sum", stage) for stage in STAGES}
        assert seconds["forward"] >= steps * 0.05 and min(seconds.values()) > 0, seconds
        assert sum(seconds.values()) <= time.monotonic() - began, seconds  # no time is in two stages
    finally:
        for daemon in daemons:
            daemon.terminate()
            daemon.wait(60)


def main():
    tally = Tally()
    tally.run("a request's id leads from its router through both workers", a_request_is_followed)
    tally.run("each choice of a call has an id of its own", each_choice_has_its_own_id)
    tally.run("at info nothing of it is said", info_says_no_more_than_before)
    tally.run("each stage of the router is timed", the_router_times_its_stages)
    tally.run("a failure has one status", a_failure_within_a_stream_is_told_as_the_client_saw_it)
    with tempfile.TemporaryDirectory(prefix="tandem-trail-") as name:
        tally.run("a worker's metrics say how long each stage of a step takes", stages_are_timed, Path(name))
    sys.exit(tally.end())


main()
