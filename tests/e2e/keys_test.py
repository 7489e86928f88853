"""What keys of a file give: their usage in metrics and log."""
import re
import sys
import tempfile

from cluster import Cluster, Tally, eventually, request


def figures(port, name):
    """The four counters of a key's name: requests, prompt, generated and cached tokens."""
    text = request(port, "GET", "/metrics")[2].decode()
    return [int(re.search(rf'^tandem_key_{kind}_total{{key="{re.escape(name)}"}} (\d+)$', text, re.M).group(1))
            for kind in ("requests", "prompt_tokens", "generation_tokens", "cached_tokens")]


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


def main() -> int:
    tally = Tally()
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write("one name=team-a\nother-one name=team-a\ntwo name=team-b\nnameless\n")
        keys.flush()
        with Cluster("--mixed", 1, "--api-keys", keys.name) as cluster:
            tally.run("usage is told by name", usage_is_told_by_name, cluster)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
