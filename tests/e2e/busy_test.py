#!/usr/bin/env python3
"""A worker that starts while other programs have all cores is neither slow for good nor taken for dead."""
import multiprocessing
import os
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cluster import Cluster, Tally, eventually, post_json, real_model, request  # noqa: E402


def burn():
    while True:
        pass


def chunk_tokens(port):
    status, _, text = request(port, "GET", "/metrics")
    assert status == 200, status
    return float(re.search(r"^tandem_worker_chunk_tokens{.*} (\S+)$", text.decode(), re.M).group(1))


def open_cluster(folder, model):
    """One worker with its figures on a port; (cluster, that port)."""
    ini = Path(folder) / "tandem.ini"
    ini.write_text("[worker]\nadmin = 127.0.0.1:0\n")
    cluster = Cluster("--config", ini, "--mixed", "1", "--chunk-tokens", "512", model=model).__enter__()
    admin = int(cluster.logged(r"worker ready.* admin=(\d+)").group(1))
    eventually(lambda: chunk_tokens(admin) > 0, "figures on the admin port")
    return cluster, admin


def open_under_load(folder, model):
    burners = [multiprocessing.Process(target=burn, daemon=True) for _ in range(4 * (os.cpu_count() or 1))]
    for burner in burners:
        burner.start()
    try:
        return open_cluster(folder, model)
    finally:
        for burner in burners:
            burner.kill()


def starts_on_a_busy_machine():
    model = real_model()
    with tempfile.TemporaryDirectory() as folder:
        cluster, admin = open_under_load(folder, model)
        try:
            began = chunk_tokens(admin)
            # What the machine can do now, which may be little when others use it, says a worker that starts now.
            fresh, fresh_admin = open_cluster(folder, model)
            wanted = chunk_tokens(fresh_admin)
            fresh.stop()
            n_prompts = 0

            def has_grown():
                nonlocal n_prompts
                n_prompts += 1
                prompt = f"{n_prompts} " + "and so it went on " * 100
                post_json(cluster.port, "/v1/completions", {"prompt": prompt, "max_tokens": 1})
                return chunk_tokens(admin) > began or began >= wanted / 2
            # How far they grow, and how soon, tests/unit/worker/step/budget_test.c says by a clock of its own.
            eventually(has_grown, f"chunks of more than {began:.0f} tokens, of {wanted:.0f}", seconds=300)
            assert "worker lost" not in cluster.log_text()
            return f"{began:.0f} tokens a step at first, {chunk_tokens(admin):.0f} after {n_prompts} prompts, {wanted:.0f} fresh"
        finally:
            cluster.stop()


if __name__ == "__main__":
    tally = Tally()
    tally.run("chunks grow after a start on a busy machine, and nobody is fenced", starts_on_a_busy_machine)
    sys.exit(tally.end())
