#!/usr/bin/env python3
"""Whole answers of the real model, with every feature a request can ask for, while workers are killed or stopped: each
must equal the undisturbed one in every character, token, logprob digit, finish reason and count.

usage: real_failover_test.py [--kills N] [--stops N]
"""
import argparse
import itertools
import json
import os
import random
import signal
import sys
import threading
import time

from cluster import ROOT, Cluster, Tally, eventually, post_json, real_model, stream_events

sys.path.insert(0, str(ROOT))
from tests.models.prompts import prompt_text  # noqa: E402

N_CLIENTS, N_WORKERS = 16, 4
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


class Request:
    def __init__(self, path, stream, body):
        self.path, self.stream, self.body = path, stream, body

    def __str__(self):
        return json.dumps({"path": self.path, "stream": self.stream,
                           **{k: v for k, v in self.body.items() if k not in ("prompt", "messages")}})


# What a request asks for beside its prompt; each is sent to both routes, one of them streamed.
ASKS = [
    {"temperature": 0, "return_token_ids": True},
    {"temperature": 0, "max_tokens": 120},
    {"temperature": 0, "max_tokens": 70, "repetition_penalty": 1.3, "return_token_ids": True},
    {"temperature": 0.8, "presence_penalty": 1.5, "frequency_penalty": 0.5},
    {"temperature": 1, "max_tokens": 60, "top_p": 0.9, "top_k": 40, "return_token_ids": True},
    {"temperature": 0.7, "max_tokens": 50, "n": 2, "top_k": 20},
    {"temperature": 0, "max_tokens": 110, "logprobs": 4},
    {"temperature": 1.2, "max_tokens": 90, "logprobs": 20, "frequency_penalty": 1, "return_token_ids": True},
    {"temperature": 0.9, "max_tokens": 40, "n": 2, "logprobs": 2, "repetition_penalty": 1.1},
    {"temperature": 0, "max_tokens": 100, "ignore_eos": False, "min_tokens": 60, "stop": [".", "\n"]},
    {"temperature": 0.6, "max_tokens": 100, "ignore_eos": False, "min_tokens": 40, "logit_bias": "end", "logprobs": 1},
    {"temperature": 1, "max_tokens": 100, "ignore_eos": False, "stop_token_ids": "period", "min_tokens": 30},
    {"temperature": 0.5, "max_tokens": 64, "min_p": 0.1, "logit_bias": "words"},
    {"temperature": 0, "max_tokens": 100, "stop": "late", "repetition_penalty": 1.4},
    {"temperature": 0.8, "max_tokens": 100, "stop": "late", "logprobs": 3, "presence_penalty": 0.5},
    {"temperature": 0.9, "max_tokens": 100, "stop": "late", "include_stop_str_in_output": True, "n": 2},
]
LENGTHS = [5, 600, 17, 33, 250, 64, 100, 12, 450, 31, 48, 130, 8, 200, 80, 320]  # of the prompts, in tokens


def late_stop(cluster, path, body):
    """A string that crosses two tokens of the answer that `body` has without it, and first stands late in it."""
    choice = post_json(cluster.port, path, dict(body, n=1, logprobs=None, top_logprobs=None))["choices"][0]
    text = choice["text"] if path == COMPLETIONS else choice["message"]["content"]
    pieces = [post_json(cluster.port, "/detokenize", {"tokens": [i]})["prompt"] for i in choice["token_ids"]]
    edge = 0
    for piece in pieces:
        edge += len(piece)
        string = text[edge - 2:edge + 3]
        if edge > len(text) * 2 // 3 and len(string) == 5 and text.find(string) == edge - 2:
            return [string, "this never comes"]
    raise AssertionError(f"no piece of the answer is new late in it: {text!r}")


def complete(cluster, path, n_prompt, i, ask):
    """The body for one of ASKS, with its placeholders filled."""
    body = {"seed": 1000 + i, "max_tokens": 80, "ignore_eos": True, **ask}
    ids = post_json(cluster.port, "/tokenize", {"prompt": prompt_text(n_prompt + i)})["tokens"][:n_prompt]
    if path == CHAT:
        text = post_json(cluster.port, "/detokenize", {"tokens": ids})["prompt"]
        body["messages"] = [{"role": "system", "content": "Go on with the story."}, {"role": "user", "content": text}]
        if "logprobs" in ask:
            body["logprobs"], body["top_logprobs"] = True, ask["logprobs"]
    else:
        body["prompt"] = ids

    def tokens_of(text):
        return post_json(cluster.port, "/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"]
    if ask.get("stop_token_ids"):
        body["stop_token_ids"] = tokens_of(".") + tokens_of(",")
    if ask.get("logit_bias") == "words":
        words = {" the": -100, " and": 2.5, ".": -1.5}
        body["logit_bias"] = {str(tokens_of(word)[0]): bias for word, bias in words.items()}
    elif ask.get("logit_bias") == "end":
        turn = {"messages": [{"role": "user", "content": "x"}], "add_generation_prompt": False}
        end = post_json(cluster.port, "/tokenize", turn)["tokens"][-2]  # a newline follows it
        body["logit_bias"] = {str(end): 15}
    if ask.get("stop") == "late":
        del body["stop"]
        body["stop"] = late_stop(cluster, path, dict(body, return_token_ids=True))
    return body


def all_requests(cluster):
    requests = []
    for i, (ask, n_prompt) in enumerate(zip(ASKS, LENGTHS)):
        for path in (CHAT, COMPLETIONS):
            body = complete(cluster, path, n_prompt, i, ask)
            requests.append(Request(path, (path == CHAT) == (i % 2 == 0), body))
    return requests


def join(whole, part):
    """Adds a chunk's share of a choice: text and lists go on, what is single replaces null."""
    for key, value in part.items():
        if value is None or key == "index":
            whole.setdefault(key, None)
        elif isinstance(value, dict):
            whole[key] = join(whole.get(key) or {}, value)
        elif isinstance(value, (str, list)) and key in ("text", "content", "tokens", "token_logprobs", "top_logprobs",
                                                        "text_offset", "token_ids"):
            whole[key] = value if whole.get(key) is None else whole[key] + value
        else:
            assert whole.get(key) in (None, value), f"{key} said twice: {whole[key]} {value}"
            whole[key] = value
    return whole


def figures(usage):
    """Usage without what the prefix cache happened to hold."""
    return {k: v for k, v in usage.items() if k != "prompt_tokens_details"}


def ask_whole(port, request):
    answer = post_json(port, request.path, request.body, timeout=300)
    return {"choices": {c["index"]: join({}, c) for c in answer["choices"]}, "usage": figures(answer["usage"])}


def ask_stream(port, request):
    choices, usage = {}, None
    events = list(stream_events(port, request.path, dict(request.body, stream_options={"include_usage": True}), 300))
    assert events and events[-1] == "[DONE]", events[-2:]
    for event in map(json.loads, events[:-1]):
        assert "error" not in event, event
        for choice in event["choices"]:
            join(choices.setdefault(choice["index"], {}), choice)
        if event.get("usage"):
            assert usage is None, "usage said twice"
            usage = figures(event["usage"])
    return {"choices": choices, "usage": usage}


def ask(port, request):
    return json.dumps((ask_stream if request.stream else ask_whole)(port, request), sort_keys=True, ensure_ascii=False)


class Clients:
    """16 threads that send the list again and again until stop(); then the list's current round is finished."""

    def __init__(self, port, requests, expected=None, rounds=None):
        self.port, self.requests, self.expected, self.rounds = port, requests, expected, rounds
        self.answers = [None] * len(requests)
        self.problems = []
        self.n_done = 0
        self.lock = threading.Lock()
        self.numbers = itertools.count()
        self.threads = [threading.Thread(target=self._work, daemon=True) for _ in range(N_CLIENTS)]
        for thread in self.threads:
            thread.start()

    def _next(self):
        with self.lock:
            number = next(self.numbers)
            if number % len(self.requests) == 0 and self.rounds is not None:
                if self.rounds == 0:
                    self.numbers = itertools.repeat(0)
                    return None
                self.rounds -= 1
            return number % len(self.requests)

    def _work(self):
        while (i := self._next()) is not None:
            try:
                answer = ask(self.port, self.requests[i])
                problem = self.expected and difference(self.expected[i], answer)
            except Exception as error:  # any failure is the finding
                answer, problem = None, repr(error)
            with self.lock:
                self.answers[i] = answer
                self.n_done += 1
                if problem:
                    self.problems.append(f"request {i} {self.requests[i]}: {problem}")

    def stop(self):
        with self.lock:
            self.rounds = 0
        self.join()

    def join(self):
        for thread in self.threads:
            thread.join(300)
            assert not thread.is_alive(), "a request never ended"
        assert not self.problems, f"{len(self.problems)} of {self.n_done}:\n" + "\n".join(self.problems[:8])


def difference(expected, answer):
    if answer == expected:
        return None
    at = next((i for i, (a, b) in enumerate(zip(expected, answer)) if a != b), min(len(expected), len(answer)))
    begin = max(0, at - 80)
    return f"differs at {at}:\n  undisturbed {expected[begin:at + 80]}\n  disturbed   {answer[begin:at + 80]}"


def undisturbed(cluster, requests, expected):
    requests += all_requests(cluster)
    clients = Clients(cluster.port, requests, rounds=1)
    clients.join()
    expected += clients.answers
    reasons = [c["finish_reason"] for a in expected for c in json.loads(a)["choices"].values()]
    n_stopped = sum(c.get("stop_reason") is not None for a in expected for c in json.loads(a)["choices"].values())
    assert set(reasons) == {"length", "stop"} and n_stopped >= 8, (reasons, n_stopped)
    n_tokens = sum(json.loads(a)["usage"]["completion_tokens"] for a in expected)
    return f"{len(requests)} requests, {n_tokens} tokens, {n_stopped} ended by a stop string or id"


def faults(cluster, n, stops, seed):
    """n workers that run something are killed, drawn; the last is the busiest, which surely runs on. Or they are stopped, each
    until a request went on elsewhere."""
    chance = random.Random(seed)

    def busy():
        ready = [w for w in cluster.workers() if w["state"] == "ready"]
        return len(ready) == N_WORKERS and [w for w in ready if w["sequences"]["running"]]

    for i in range(n):
        time.sleep(2)
        running = eventually(busy, "four workers ready, one of them running something")
        last = max(running, key=lambda w: w["sequences"]["running"])
        victim = (last if i == n - 1 else chance.choice(running))["pid"]
        before = totals(cluster.status())["replays"]
        os.kill(victim, signal.SIGSTOP if stops else signal.SIGKILL)
        if stops:
            try:
                eventually(lambda: totals(cluster.status())["replays"] > before, "a replay")
            finally:
                os.kill(victim, signal.SIGCONT)


def totals(state):
    names = ("refused", "failed", "cancelled")
    return {**{k: sum(r["requests"][k] for r in state["routers"]) for k in names},
            **{k: sum(r["core"][k] for r in state["routers"]) for k in ("replays", "resends", "inexact", "poisoned")}}


def disturbed(cluster, requests, expected, n, stops, seed):
    before = totals(cluster.status())
    clients = Clients(cluster.port, requests, expected)
    try:
        faults(cluster, n, stops, seed)
    finally:
        clients.stop()
    after = {k: v - before[k] for k, v in totals(cluster.quiet()).items()}
    assert not any(after[k] for k in ("refused", "failed", "inexact", "poisoned")), after
    assert n == 0 or after["replays"] > 0, "no fault met a running request"
    return f"{clients.n_done} requests, {n} faults, {after['replays']} replays, {after['resends']} resends"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--stops", type=int, default=1)
    parser.add_argument("--seed", type=int, default=23)
    options = parser.parse_args()
    tally = Tally()
    requests, expected = [], []

    def whole():
        # Four models on a machine of two cores: a second without a word would be said of those that only wait their turn.
        env = {"TANDEM_HANG_TIMEOUT": "5s", "TANDEM_WORKER_WAIT": "60s"}
        with Cluster("--prefill", 2, "--decode", 2, "--threads", 1, model=real_model(), env=env) as cluster:
            tally.run("undisturbed", undisturbed, cluster, requests, expected)
            if len(expected) == len(requests) > 0:
                tally.run("killed_workers_change_no_answer", disturbed, cluster, requests, expected, options.kills, False,
                          options.seed)
                tally.run("stopped_workers_change_no_answer", disturbed, cluster, requests, expected, options.stops, True,
                          options.seed + 1)
            return f"{len(requests)} requests"
    tally.run("real_model_under_faults", whole)
    sys.exit(tally.end())


main()
