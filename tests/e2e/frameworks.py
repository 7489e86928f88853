"""What the tests of frameworks from PyPI share: their virtual environment, the clusters, and what is asked for.

Each framework is judged by what it makes of the answers: it parses them, its tools are called with arguments that are valid, and its
loops end. A tiny model with random weights, whose every choice is left to the masks, is the model; where a framework describes a
form in the prompt and sends nothing of it along, no mask can help, and the small real model has to follow the prompt.
"""
import contextlib
import importlib.metadata
import os
import sys
import tempfile
from pathlib import Path

from cluster import Cluster, Skip, Tally, get_json, real_model

CACHE = Path(os.environ.get("TANDEM_CACHE") or Path.home() / ".cache/tandem")
MAX_TOKENS = 4000  # a text without a bound is over long before
CITIES = ("Paris", "Oslo")
USER = "What is the weather in Oslo?"
# Nobody else is asked for anything.
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", LANGSMITH_TRACING="false", OPENAI_API_KEY="none")


def enter(environment, wanted):
    """Goes on in that virtual environment of the cache (tools/lib/fetch.sh), or ends with a SKIPPED."""
    python = CACHE / environment / "bin/python"
    if Path(sys.prefix) == python.parents[1]:
        return
    if not (python.parents[1] / ".installed").exists():
        print(f"SKIPPED {wanted}: {python.parents[1]} is not complete (tools/check --full makes it, from PyPI)\n0 passed, 0 failed, 1 skipped")
        sys.exit(0)
    os.execv(python, [str(python), *sys.argv])


class Server:
    def __init__(self, cluster, model):
        self.url, self.port, self.model = f"http://127.0.0.1:{cluster.port}/v1", cluster.port, model


@contextlib.contextmanager
def serving(model, *args):
    """A router, a prefill and a decode worker; the model's calls are written as Hermes writes them."""
    with Cluster("--prefill", 1, "--decode", 1, "--tool-format", "hermes", *args, model=model) as cluster:
        yield Server(cluster, get_json(cluster.port, "/v1/models")["data"][0]["id"])


def even(config, tensors):
    """Room for the prompts of agents, and no token much likelier than another: what may go on without end goes on by chance alone."""
    config.update(max_position_embeddings=65536)
    tensors["model.norm.weight"] *= 0.02


@contextlib.contextmanager
def tiny():
    """A token a byte, random weights."""
    import tools_test
    with tempfile.TemporaryDirectory() as name:
        folder = tools_test.model(Path(name) / "tiny", True, edit=even)
        with serving(str(folder)) as server:
            yield server


@contextlib.contextmanager
def real():
    with serving(real_model()) as server:
        yield server


def versions(*packages):
    return ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)


class Calls:
    """The tool of all agents: what it was called with, and that it is what its schema says."""

    def __init__(self):
        self.seen = []

    def get_weather(self, city, days):
        assert city in CITIES and isinstance(days, int), (city, days)
        self.seen.append((city, days))
        return f"{city}: sun for {days} days"


def run(of_tiny, of_real, only):
    """Each of the tests on its model, by name; the script's exit status."""
    tally = Tally()
    for model, tests in ((tiny, of_tiny), (real, of_real)):
        wanted = {name: test for name, test in tests.items() if only in name}
        if not wanted:
            continue
        with contextlib.ExitStack() as stack:
            try:
                server = stack.enter_context(model())
            except Skip as reason:
                for name in wanted:
                    tally.skip(name, str(reason))
                continue
            for name, test in wanted.items():
                tally.run(name, test, server)
    return tally.end()
