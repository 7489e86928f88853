#!/usr/bin/env python3
"""A worker in a control group with little memory: what it plans, what it says, and that it lives."""
import json
import os
import subprocess
import sys

from cluster import BIN, ROOT, Cluster, Skip, Tally, post_json, real_model

sys.path.insert(0, str(ROOT))
from tests.support.groups import Group  # noqa: E402


def group_of(n_bytes):
    """A group with that limit, in another without one."""
    try:
        return Group(f"tandem-memory-{os.getpid()}/in ner", n_bytes=n_bytes)
    except OSError as why:
        raise Skip(f"no control group: {why}") from why


def plan(group, model, *options):
    command = group.command(BIN / "tandem-worker", "--name", "w", "--routers", "ipc:///run/r", "--endpoint", "ipc:///run/e",
                            "--model", model, "--dry-run", "--json", *options)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def plans_are_by_the_groups_limit():
    model = real_model()
    with group_of(250 << 20) as group:
        roomy = plan(group, model)
        greedy = plan(group, model, "--kv-blocks", 100000)
    with group_of(100 << 20) as group:
        tight = plan(group, model)
    assert 150 << 20 < roomy["available_bytes"] <= 250 << 20 and roomy["fits"], roomy
    assert greedy["blocks"] == 100000 and not greedy["fits"], greedy
    assert tight["available_bytes"] <= 100 << 20 and not tight["fits"], tight


def a_cut_context_is_said_once_and_holds():
    """A prompt as long as the context: no process is killed for want of memory."""
    with group_of(200 << 20) as group:
        cluster = Cluster("--mixed", 1, model=real_model())
        cluster.args = group.command(*cluster.args)
        with cluster:
            said = [line for line in cluster.log_text().splitlines() if "memory cuts the context" in line]
            worker = cluster.workers()[0]
            context = worker["blocks"]["total"] * 16
            assert len(said) == 1 and f"context={context} model=8192" in said[0], (said, context)
            answer = post_json(cluster.port, "/v1/completions", {"prompt": [5] * (context - 4), "max_tokens": 4, "ignore_eos": True})
            assert answer["usage"]["total_tokens"] == context, answer["usage"]
            assert cluster.workers()[0]["pid"] == worker["pid"]
        return f"{context} tokens"


if __name__ == "__main__":
    tally = Tally()
    tally.run("plans are by the group's limit", plans_are_by_the_groups_limit)
    tally.run("a cut context is said once and holds", a_cut_context_is_said_once_and_holds)
    sys.exit(tally.end())
