#!/usr/bin/env python3
"""The stream goes on: workers are killed or stopped under load, every token is checked.

usage: failover_test.py [--kills N] [--stops N]
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from cluster import TOOLS, Cluster, Tally, eventually, hash_answer, post_json

CLUSTER = ("--prefill", 2, "--decode", 2, "--roles", "fixed", "--step-us", 5000, "--threads", 1)


def ready_workers(cluster):
    return [w for w in cluster.workers() if w["state"] == "ready"]


def disturb(cluster, check, n, stops, seed):
    """Kills a random worker every two seconds, n times; or stops it until it is taken for hung."""
    chance = random.Random(seed)
    for i in range(n):
        time.sleep(2)
        assert check.poll() is None, "the checker ended early"
        workers = eventually(lambda: len(now := ready_workers(cluster)) == 4 and now, "four workers ready")
        victim = chance.choice(workers)["pid"]
        os.kill(victim, signal.SIGSTOP if stops else signal.SIGKILL)
        if stops:
            try:
                eventually(lambda: victim not in [w["pid"] for w in ready_workers(cluster)], "it is taken for hung")
            finally:
                os.kill(victim, signal.SIGCONT)


def campaign(n, stops):
    with Cluster(*CLUSTER, env={"TANDEM_HANG_TIMEOUT": "1s" if stops else "60s", "TANDEM_WORKER_WAIT": "60s"}) as cluster:
        check = subprocess.Popen([TOOLS / "hash_check", "--target", cluster.url, "--streams", "64", "--tokens", "256",
                                  "--seconds", str(100 * n + 600), "--seed", "7"], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        try:
            disturb(cluster, check, n, stops, 11)
            time.sleep(2)
            check.send_signal(signal.SIGTERM)  # start no more, finish what runs
            out, problems = check.communicate(timeout=120)
        finally:
            check.kill()
        result = json.loads(out)
        state = cluster.quiet()
        refused = sum(r["requests"]["refused"] for r in state["routers"])
        assert check.returncode == 0, (result, problems)
        assert refused == 0, state["routers"]
        assert result["complete"] == result["started"] > 0
        return f"{n} faults, {result}"


def stopped_router():
    """What workers compute while the router stands still is more than they keep logprobs of: none may be missing."""
    n_streams, n_tokens = 16, 1000
    with Cluster("--prefill", 1, "--decode", 1, "--roles", "fixed", "--step-us", 2000, "--threads", 1) as cluster:
        def ask(i):
            body = {"prompt": [i + 1, 7, 9], "max_tokens": n_tokens, "ignore_eos": True, "logprobs": 20,
                    "return_token_ids": True}
            choice = post_json(cluster.port, "/v1/completions", body)["choices"][0]
            assert choice["token_ids"] == hash_answer(body["prompt"], n_tokens)
            missing = [at for at, x in enumerate(choice["logprobs"]["token_logprobs"]) if x != 0]
            assert not missing, f"{len(missing)} tokens without their logprobs, the first is {missing[0]}"
        router = cluster.status()["routers"][0]
        with ThreadPoolExecutor(n_streams) as pool:
            answers = [pool.submit(ask, i) for i in range(n_streams)]
            eventually(lambda: cluster.status()["routers"][0]["core"]["tokens"] > n_streams * 50, "streams run")
            os.kill(router["pid"], signal.SIGSTOP)
            time.sleep(3)
            os.kill(router["pid"], signal.SIGCONT)
            for answer in answers:
                answer.result()
        state = cluster.quiet()["routers"][0]
        assert state["requests"]["completed"] == n_streams, state
        return f"{n_streams} streams of {n_tokens} tokens, {state['core']['replays']} replays"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--stops", type=int, default=3)
    options = parser.parse_args()
    tally = Tally()
    tally.run("killed_workers_cost_no_token", campaign, options.kills, False)
    tally.run("stopped_workers_cost_no_token", campaign, options.stops, True)
    tally.run("a_stopped_router_costs_no_logprob", stopped_router)
    sys.exit(tally.end())


main()
