#!/usr/bin/env python3
"""Streams of the agents' protocols, /v1/responses and /v1/messages, whose worker is killed in the middle of a thought, a text, a call of a
function or a custom tool's text: what a client reads is, event by event, what an undisturbed stream says.

usage: protocols_kill_test.py [--kills N]     of each protocol; default 50
"""
import argparse
import contextlib
import http.client
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

from cluster import Cluster, Skip, Tally, eventually

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import messages_test as messages  # noqa: E402
import responses_test as responses  # noqa: E402
import thoughts  # noqa: E402
import tools_test as tools  # noqa: E402

SAY = {"type": "custom", "name": "say", "format": {"type": "grammar", "syntax": "regex", "definition": "[a-z ]{300,400}"}}
FORM = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-z ]{300,400}$"}}, "required": ["a"], "additionalProperties": False}
LONG = {"name": "write", "description": "does it", "parameters": {"type": "object", "properties": {"text": FORM["properties"]["a"]}, "required": ["text"]}}
OPENS = {"chat_template_kwargs": {"opens": True}}


def of_responses(i):
    kinds = [{}, {"tools": [{"type": "function", **LONG}], "tool_choice": "required"}, {"tools": [SAY], "tool_choice": {"type": "custom", "name": "say"}},
             {"text": {"format": {"type": "json_schema", "name": "f", "schema": FORM}}}]
    return {"input": "What now?", "max_output_tokens": 600, "temperature": 1, "seed": i, **(OPENS if i % 3 == 0 else {"logit_bias": thoughts.OFTEN}),
            **kinds[i % len(kinds)]}


def of_messages(i):
    tool = {"name": LONG["name"], "input_schema": LONG["parameters"]}
    kinds = [{}, {"tools": [tool], "tool_choice": {"type": "any"}}, {"output_config": {"format": {"type": "json_schema", "schema": FORM}}}]
    return {"messages": tools.USER, "max_tokens": 600, "seed": i, **(OPENS if i % 2 == 0 else {"logit_bias": thoughts.OFTEN}), **kinds[i % len(kinds)]}


def read(port, path, body, on_event=lambda n: None):
    """The data of all events."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json", **messages.KEYS})
    got = []
    with contextlib.closing(connection):
        answer = connection.getresponse()
        assert answer.status == 200, (answer.status, answer.read()[:500])
        for line in answer:
            if line.startswith(b"data: "):
                got.append(json.loads(line[6:]))
                on_event(len(got))
    return got


def plain(value):
    """Without what two runs of one request differ in: names, the time, and how much of the prompt the cache had."""
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()
                if key not in ("id", "item_id", "call_id", "created_at", "sequence_number", "input_tokens", "input_tokens_details", "cache_read_input_tokens")}
    return [plain(entry) for entry in value] if isinstance(value, list) else value


def joined(got):
    """Events, with deltas that follow each other as one: how much of an answer comes at a time is up to the workers."""
    events = []
    for event in map(plain, got):
        if event["type"] == "message_start":
            del event["message"]["usage"]  # so far
        inner = event.get("delta")
        texts = [key for key in ("text", "thinking", "partial_json") if isinstance(inner, dict) and key in inner]
        last = events[-1] if events else None
        if not (isinstance(inner, str) or texts) or not last or {**last, "delta": 0} != {**event, "delta": 0}:
            events.append(event)
        elif isinstance(inner, str):
            last["delta"] += inner
        else:
            last["delta"][texts[0]] += inner[texts[0]]
    return events


def killed(cluster, path, bodies, put_together, kills):
    """So many streams, each of which lost its worker before its end."""
    n_killed, kinds = 0, set()

    def replays():
        return cluster.status()["routers"][0]["core"]["replays"]

    for i in range(3 * kills):
        if n_killed == kills:
            break
        eventually(lambda: [w["state"] for w in cluster.workers()] == ["ready"] * 2, "both workers")
        body = bodies(i)
        wanted, n_before = read(cluster.port, path, body), replays()

        def kill(n):
            if n == len(wanted) // (2 + i % 3):
                inner = wanted[n].get("delta")
                kinds.add(inner["type"] if isinstance(inner, dict) and "type" in inner else wanted[n]["type"])
                os.kill(max(cluster.workers(), key=lambda w: w["assigned"])["pid"], signal.SIGKILL)

        got = read(cluster.port, path, body, kill)
        assert joined(got) == joined(wanted), (body, joined(got), joined(wanted))
        put_together(got)
        n_killed += replays() > n_before
    assert n_killed == kills, f"{n_killed} of {kills}"
    return f"{n_killed} killed, in the middle of {', '.join(sorted(kinds))}"


def message_of(got):
    """The message, where no call was cut: the arguments of one that was are no JSON."""
    if got[-2]["delta"]["stop_reason"] != "max_tokens":
        messages.put_together([(event["type"], event) for event in got])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    kills = parser.parse_args().kills
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        try:
            folder = thoughts.model(Path(name) / "thoughts-True", True)
        except Skip as skip:
            tally.skip("streams", str(skip))
            sys.exit(tally.end())
        with Cluster("--mixed", 2, model=str(folder)) as cluster:
            tally.run("/v1/responses", cluster.shown, killed, "/v1/responses", of_responses, responses.put_together, kills)
            tally.run("/v1/messages", cluster.shown, killed, "/v1/messages", of_messages, message_of, kills)
    sys.exit(tally.end())


if __name__ == "__main__":
    main()
