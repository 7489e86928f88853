#!/usr/bin/env python3
"""The same tokens and the same logprob digits whatever the batch, the chunking, the threads, the hand-off, the
cache or the memory. Real model; greedy and sampled."""
import json
import random
import sys
from concurrent.futures import ThreadPoolExecutor

from cluster import ROOT, Cluster, Tally, post_json, real_model

sys.path.insert(0, str(ROOT))
from tests.models.prompts import prompt_text  # noqa: E402

N_PROMPTS, N_TOKENS = 6, 20
STEP = 135  # a prompt is so much longer than the one before it


def requests(cluster, n_tokens, n_prompts=N_PROMPTS, step=STEP):
    """Requests with prompts of 1 to about 700 tokens, every second one sampled."""
    chance = random.Random(5)
    bodies = []
    for i in range(n_prompts):
        ids = post_json(cluster.port, "/tokenize", {"prompt": prompt_text(step * i + 1)})["tokens"][:1 + step * i]
        bodies.append({"prompt": ids, "max_tokens": n_tokens, "ignore_eos": True, "logprobs": 3,
                       "return_token_ids": True, "seed": chance.randrange(1 << 40),
                       "temperature": 0 if i % 2 else 0.9, "top_p": 0.95, "top_k": 40 * (i % 3)})
    return bodies


def answer(port, body):
    choice = post_json(port, "/v1/completions", body, timeout=600)["choices"][0]
    logprobs = choice["logprobs"]
    return choice["token_ids"], json.dumps([logprobs["token_logprobs"], logprobs["top_logprobs"]])


def run_all(cluster, together, n_tokens=N_TOKENS, **prompts):
    bodies = requests(cluster, n_tokens, **prompts)
    with ThreadPoolExecutor(len(bodies) if together else 1) as pool:
        return list(pool.map(lambda body: answer(cluster.port, body), bodies))


def compare(got, expected):
    for i, (ours, theirs) in enumerate(zip(got, expected)):
        assert ours[0] == theirs[0], f"prompt {i}: tokens differ: {ours[0]} {theirs[0]}"
        assert ours[1] == theirs[1], f"prompt {i}: logprobs differ: {ours[1][:300]} {theirs[1][:300]}"


def handoffs(cluster):
    return sum(w["handoffs"]["in"] for w in cluster.workers())


def case(model, expected, args, together=True, twice=False, want_handoffs=None):
    with Cluster(*args, model=model) as cluster:
        got = run_all(cluster, together)
        compare(got, expected)
        if twice:  # the second run finds its prompts in the prefix cache
            compare(run_all(cluster, together), expected)
            assert any(w["blocks"]["cached"] for w in cluster.workers())
        cluster.quiet()
        n = handoffs(cluster)
        if want_handoffs is not None:
            assert n >= want_handoffs if want_handoffs else n == 0, f"{n} hand-offs"
        return f"{n} hand-offs"


def short_of_blocks(model):
    """A pool of a quarter of what the long answers need at once, against a roomy one."""
    n_tokens, n_prompts, step = 96, 10, 75  # so many that some have to give way
    with Cluster("--mixed", 1, model=model) as cluster:
        expected = run_all(cluster, True, n_tokens, n_prompts=n_prompts, step=step)
    need = sum((1 + step * i + n_tokens + 15) // 16 for i in range(n_prompts))
    with Cluster("--mixed", 1, "--kv-blocks", need // 4, model=model) as cluster:
        compare(run_all(cluster, True, n_tokens, n_prompts=n_prompts, step=step), expected)
        preemptions = sum(w["preemptions"] for w in cluster.quiet()["workers"])
        assert preemptions > 0, "no preemption: the pool was not short"
    return f"{need // 4} blocks, {preemptions} preemptions"


def main():
    tally = Tally()
    expected = []

    def baseline():
        model = real_model()
        with Cluster("--mixed", 1, "--threads", 2, model=model) as cluster:
            expected.extend(run_all(cluster, together=False))
        assert len(expected) == N_PROMPTS and all(len(e[0]) == N_TOKENS for e in expected)

    tally.run("each_prompt_alone", baseline)
    if expected:
        model = real_model()
        tally.run("all_together", case, model, expected, ("--mixed", 1))
        for chunk in (16, 64, 512):
            tally.run(f"chunks_of_{chunk}", case, model, expected, ("--mixed", 1, "--chunk-tokens", chunk))
        tally.run("one_thread", case, model, expected, ("--mixed", 1, "--threads", 1))
        for kind in ("shm", "tcp"):
            tally.run(f"handed_over_by_{kind}", case, model, expected,
                      ("--prefill", 1, "--decode", 1, "--roles", "fixed", "--kv-transport", kind), want_handoffs=N_PROMPTS - 1)
        tally.run("from_the_prefix_cache", case, model, expected, ("--mixed", 1), twice=True, want_handoffs=0)
        tally.run("a_quarter_of_the_blocks", short_of_blocks, model)
    sys.exit(tally.end())


main()
