"""What keys of a file give: their usage in metrics and log, tokens a minute, and turns with the other keys."""
import http.client
import json
import os
import re
import signal
import statistics
import sys
import tempfile

from cluster import Cluster, Tally, eventually, hash_answer, request


def figures(port, name):
    """The four counters of a key's name: requests, prompt, generated and cached tokens."""
    text = request(port, "GET", "/metrics")[2].decode()
    return [int(re.search(rf'^tandem_key_{kind}_total{{key="{re.escape(name)}"}} (\d+)$', text, re.M).group(1))
            for kind in ("requests", "prompt_tokens", "generation_tokens", "cached_tokens")]


def alive(port):
    """Sequences that run, at a worker's queue or in its batch, and that wait at the router."""
    text = request(port, "GET", "/metrics")[2].decode()
    return [int(re.search(rf"^vllm:num_requests_{state}{{.*}} (\d+)$", text, re.M).group(1)) for state in ("running", "waiting")]


def ask(port, key, prompt, max_tokens, **more):
    body = {"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, **more}
    return request(port, "POST", "/v1/completions", body, {"x-api-key": key})


def usage_is_told_by_name(cluster):
    """Two keys of one name count together; a call that no worker got counts as a request without tokens."""
    port, prompt = cluster.port, list(range(200))
    assert figures(port, "-") == [0, 0, 0, 0]
    assert ask(port, "one", prompt, 5)[0] == 200
    assert figures(port, "team-a") == [1, 200, 5, 0]
    status, _, _ = ask(port, "other-one", prompt, 3, n=2)
    assert status == 200
    requests, prompts, generated, cached = figures(port, "team-a")
    assert (requests, prompts, generated) == (2, 400, 11) and 0 < cached < 200, (requests, prompts, generated, cached)
    assert ask(port, "two", "x" * 20, 4)[0] == 200 and ask(port, "two", "x", 4, top_p=7)[0] == 400
    assert figures(port, "team-b") == [2, 20, 4, 0]
    assert ask(port, "nameless", "z" * 30, 2)[0] == 200
    assert figures(port, "-") == [1, 30, 2, 0]

    def keys():
        return re.findall(r'msg="request done" .* key=(\S*) ', cluster.log_text())
    eventually(lambda: len(keys()) == 5, "five lines")
    assert keys() == ["team-a", "team-a", "team-b", "team-b", ""], keys()
    assert "other-one" not in cluster.log_text() and "nameless" not in cluster.log_text()


def tokens_a_minute_are_counted_as_used(cluster):
    """60 a minute: what a call may come to is taken, and what it did not use is given back."""
    port, prompt = cluster.port, list(range(300, 310))
    stop = hash_answer(prompt, 10)[9]

    def left_is_less_than(n):
        status, headers, body = ask(port, "sixty", prompt, n - 10)
        error = json.loads(body)["error"]
        assert status == 429 and error["code"] == "rate_limit_exceeded" and "tokens" in error["message"], (status, error)
        assert 1 <= int(headers["Retry-After"]) <= 60 and int(headers["retry-after-ms"]) <= 60001, headers
    status, _, body = ask(port, "sixty", prompt, 50, stop_token_ids=[stop])
    assert status == 200 and json.loads(body)["usage"]["completion_tokens"] == 10, body
    assert figures(port, "sixty") == [1, 10, 10, 0]
    left_is_less_than(60)
    assert ask(port, "sixty", prompt, 30)[0] == 200  # 40 were left
    left_is_less_than(50)
    assert figures(port, "sixty") == [4, 20, 40, 0]
    os.kill(cluster.router_pid(), signal.SIGHUP)
    cluster.logged("reloaded.* what=api-keys")
    left_is_less_than(50)
    assert ask(port, "two", prompt, 200)[0] == 200


def a_late_key_does_not_wait_behind_a_thousand(keys, max_batch, step_us, answer, ended_max):
    """A thousand sequences of one key are there before one of another comes. A worker takes four times its batch: with a batch of 4
    nearly all of them wait at the router, with one of 250 all of them are at the worker. ended_max is below what must have ended if the
    late one waited for its turn by arrival: all of them but the last batches."""
    with Cluster("--mixed", 1, "--max-batch", max_batch, "--step-us", step_us, "--queue", 2000, "--api-keys", keys) as cluster:
        wires = [http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=120) for _ in range(10)]
        for i, wire in enumerate(wires):
            body = {"prompt": [f"{i} {k}" for k in range(100)], "max_tokens": answer, "ignore_eos": True, "stream": True}
            wire.request("POST", "/v1/completions", json.dumps(body), {"x-api-key": "one"})
        eventually(lambda: sum(alive(cluster.port)) >= 900, "a thousand sequences")
        before = alive(cluster.port)
        assert ask(cluster.port, "two", "hi", 2)[0] == 200
        after = alive(cluster.port)
        for wire in wires:
            wire.close()
        assert sum(after) > 1000 - ended_max, (before, after)
        eventually(lambda: alive(cluster.port) == [0, 0], "the thousand are cancelled")
        return f"{before} sequences ran and waited when it came, {after} when it had its answer"


def steps_to_first_token(cluster, key, prompt):
    """Steps that the worker with the most of them ended from before the call until its first token was there."""
    def steps():
        status = json.loads(request(cluster.port, "GET", "/admin/status", headers={"x-api-key": "root"})[2])
        return {w["name"]: w["steps"] for w in status["workers"]}
    wire = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=120)
    body = {"prompt": prompt, "max_tokens": 1, "ignore_eos": True, "stream": True}
    before = steps()
    wire.request("POST", "/v1/completions", json.dumps(body), {"x-api-key": key})
    answer = wire.getresponse()
    assert answer.status == 200, answer.status
    while not answer.readline().startswith(b"data: "):  # who waits long is sent comments
        pass
    after = steps()
    answer.read()
    wire.close()
    return max(after[name] - before[name] for name in before)


def a_late_keys_first_token_takes_twice_its_time_alone(keys, more, *args):
    """Counted in steps, which a slow machine makes longer and no more. Alone it is one; beside a thousand of another key, the one that
    runs when it comes and its own. `more` is for what the shape adds. Answers of 400 tokens end long after all is measured, so who waits
    for an end takes hundreds. Seven times each, for the steps go on while the count is read."""
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as admins:
        admins.write("root\n")
        admins.flush()
        with Cluster(*args, "--step-us", 100000, "--queue", 2000, "--api-keys", keys, "--admin-keys", admins.name) as cluster:
            alone = [steps_to_first_token(cluster, "two", f"alone {i}") for i in range(7)]
            wires = [http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=120) for _ in range(10)]
            for i, wire in enumerate(wires):
                body = {"prompt": [f"{i} {k}" for k in range(100)], "max_tokens": 400, "ignore_eos": True, "stream": True}
                wire.request("POST", "/v1/completions", json.dumps(body), {"x-api-key": "one"})
            eventually(lambda: sum(alive(cluster.port)) == 1000, "a thousand sequences")
            beside = [steps_to_first_token(cluster, "two", f"beside {i}") for i in range(7)]
            still = sum(alive(cluster.port))
            for wire in wires:
                wire.close()
            assert statistics.median(beside) <= 2 * statistics.median(alone) + more, (alone, beside)
            assert still >= 1000, still  # none made room by its end
            eventually(lambda: alive(cluster.port) == [0, 0], "the thousand are cancelled")
            return f"steps alone {alone}, beside a thousand {beside}"


def what_no_worker_got_counts_no_tokens(keys):
    """A call whose time is over while it waits."""
    with Cluster("--mixed", 1, "--max-batch", 1, "--step-us", 20000, "--api-keys", keys) as cluster:
        wires = [http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=120) for _ in range(2)]
        for wire, key, prompt in zip(wires, ("one", "nameless"), (["a", "b", "c"], "d")):  # one place is kept from those of one key
            body = {"prompt": prompt, "max_tokens": 30000, "ignore_eos": True, "stream": True}
            wire.request("POST", "/v1/completions", json.dumps(body), {"x-api-key": key})
        eventually(lambda: alive(cluster.port) == [4, 0], "the worker is full")
        assert ask(cluster.port, "two", "hi", 2, timeout=0.1)[0] == 504
        assert figures(cluster.port, "team-b") == [1, 0, 0, 0]
        for wire in wires:
            wire.close()
        eventually(lambda: figures(cluster.port, "team-a")[0] == 1, "the call that was left")
        assert figures(cluster.port, "team-a")[1] == 3


def main() -> int:
    tally = Tally()
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write("one name=team-a\nother-one name=team-a\ntwo name=team-b\nnameless\nsixty name=sixty tokens-per-minute=60\n")
        keys.flush()
        with Cluster("--mixed", 1, "--api-keys", keys.name) as cluster:
            tally.run("usage is told by name", usage_is_told_by_name, cluster)
            tally.run("tokens a minute are counted as used", tokens_a_minute_are_counted_as_used, cluster)
        tally.run("a late key does not wait behind a thousand at the router", a_late_key_does_not_wait_behind_a_thousand, keys.name, 4, 20000, 8, 500)
        tally.run("a late key does not wait behind a thousand at a worker", a_late_key_does_not_wait_behind_a_thousand, keys.name, 250, 50000, 100, 700)
        for name, more, *args in (("of a full batch", 0, "--mixed", 1, "--max-batch", 4),
                                  ("of a worker without blocks", 0, "--mixed", 1, "--max-batch", 250, "--kv-blocks", 300),
                                  ("of a pair whose decode worker has no blocks", 1, "--prefill", 1, "--decode", 1, "--max-batch", 64,
                                   "--kv-blocks", 300, "--roles", "fixed")):
            tally.run(f"a late key's first token, {name}", a_late_keys_first_token_takes_twice_its_time_alone, keys.name, more, *args)
        tally.run("what no worker got counts no tokens", what_no_worker_got_counts_no_tokens, keys.name)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
