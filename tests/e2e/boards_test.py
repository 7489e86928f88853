#!/usr/bin/env python3
"""Grafana boards and Prometheus rules find what they ask for: every expression of deploy/ names series, labels and values that a
live cluster's /metrics has, and so does what vLLM's public board reads. promtool and a real Prometheus look at them too, where
Debian's package prometheus is installed."""
import json
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
from pathlib import Path

from cluster import ROOT, Cluster, Skip, Tally, eventually, get_json, post_json, request, stream_events
from daemons import free_ports

BOARD = ROOT / "deploy/grafana/tandem-cluster.json"
RULES = ROOT / "deploy/prometheus/tandem.rules.yml"
ADDED = {"instance", "job"}  # labels that Prometheus gives to what it scrapes

# What vLLM's board examples/observability/prometheus_grafana/grafana.json reads, each chosen by model_name.
VLLM_BOARD = [f"vllm:{name}_{part}" for name in (
    "e2e_request_latency_seconds", "inter_token_latency_seconds", "time_to_first_token_seconds") for part in (
    "bucket", "sum", "count")] + [f"vllm:{name}" for name in (
        "prompt_tokens_total", "generation_tokens_total", "num_requests_running", "num_requests_waiting", "kv_cache_usage_perc",
        "request_prompt_tokens_bucket", "request_generation_tokens_bucket", "request_success_total",
        "request_queue_time_seconds_sum", "request_prefill_time_seconds_sum", "request_decode_time_seconds_sum",
        "request_max_num_generation_tokens_sum")]
VLLM_LABELS = {"vllm:request_success_total": "finished_reason"}  # beside model_name, and le of buckets

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")
SELECTOR = re.compile(rf"(?<![\w.$])({NAME})\s*(\{{[^}}]*\}})?(?!\s*\(|[\w:])")
MATCHER = re.compile(rf'({NAME})\s*(=~|!~|!=|=)\s*"([^"]*)"')
SERIES = re.compile(rf"^({NAME})(?:\{{(.*)\}})? \S+$", re.M)
LABEL = re.compile(rf'({NAME})="((?:[^"\\]|\\.)*)"')
BOUND = re.compile(r"^(.*?)\s(?:==|>=|>)\s[0-9.]+$", re.S)


def parse(text):
    """[(name, {label: value})] of an exposition."""
    return [(name, dict(LABEL.findall(labels))) for name, labels in SERIES.findall(text)]


def fits(series, name, matchers):
    found, labels = series
    return found == name and all(label in ADDED or label in labels and (
        "$" in value or (re.fullmatch(value, labels[label]) is not None if "~" in how else value == labels[label]) ==
        (how[0] == "=")) for label, how, value in matchers)


def missing(expression, series):
    """What of the expression names nothing in `series`: texts."""
    plain = re.sub(r"\[(?:\d+[smhd]|\$__\w+)\]|\b(?:and|or|unless)\b", "", expression)
    labels = {label.strip() for group in GROUPING.findall(plain) for label in group.split(",")} - ADDED
    found, lacks = [], []
    for name, matchers in SELECTOR.findall(GROUPING.sub("", plain)):
        fitting = [s for s in series if fits(s, name, MATCHER.findall(matchers))]
        found += fitting
        if not fitting:
            lacks.append(name + matchers)
    return lacks + sorted(label for label in labels if not any(label in labels for _, labels in found))


def board_expressions():
    panels = json.loads(BOARD.read_text())["panels"]
    return [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", [])]


def rule_expressions():
    return re.findall(r"- alert: (\w+)\n\s+expr: (.*)", RULES.read_text())


def scrape(ports):
    return "".join(request(port, "GET", "/metrics")[2].decode() for port in ports)


def the_check_finds_what_is_wrong():
    series = parse('a_total{x="1",y="z w"} 3\nb_bucket{le="+Inf"} 0\n')
    right = ['sum by (x) (rate(a_total{y="z w"}[5m])) > 0.5', 'histogram_quantile(0.9, sum by (le) (b_bucket))',
             'a_total{x=~"[0-9]",x!="2",job="j"} / on (x) a_total', "time() - a_total", 'a_total{x=~"$model"}',
             "a_total - 1 < 2 and a_total > 0"]
    wrong = [("c_total", ["c_total"]), ('a_total{x="2"}', ['a_total{x="2"}']), ("sum by (le) (a_total)", ["le"]),
             ('rate(b_bucket{x="1"}[1m]) + a_total', ['b_bucket{x="1"}']), ('a_total{x!~"1|2"}', ['a_total{x!~"1|2"}'])]
    for expression in right:
        assert missing(expression, series) == [], (expression, missing(expression, series))
    for expression, lacks in wrong:
        assert missing(expression, series) == lacks, (expression, missing(expression, series))


def every_expression_finds_its_series(ports):
    series = parse(scrape(ports))
    asked = board_expressions() + rule_expressions()
    assert len(asked) > 60, len(asked)
    lacks = {title: missing(expression, series) for title, expression in asked}
    assert not any(lacks.values()), {title: what for title, what in lacks.items() if what}
    return f"{len(asked)} expressions"


def vllms_board_finds_its_series(ports):
    series = parse(scrape(ports[:1]))
    for name in VLLM_BOARD:
        labels = {"model_name"} | ({"le"} if name.endswith("_bucket") else set()) | (
            {VLLM_LABELS[name]} if name in VLLM_LABELS else set())
        assert any(found == name and labels <= set(has) for found, has in series), (name, labels)
    reasons = {labels["finished_reason"] for name, labels in series if name == "vllm:request_success_total"}
    assert reasons == {"stop", "length", "abort", "error"}, reasons


def what_the_new_figures_say(ports):
    """The longest choice of each call, the tokens of each step, and a process that began lately."""
    def value(port, name):
        return sum(float(v) for v in re.findall(rf"^{re.escape(name)}(?:\{{.*\}})? (\S+)$", scrape([port]), re.M))
    before = value(ports[0], "vllm:request_max_num_generation_tokens_sum"), value(ports[0], "vllm:generation_tokens_total")
    post_json(ports[0], "/v1/completions", {"prompt": ["a", "b"], "max_tokens": 7, "ignore_eos": True, "n": 2})
    assert value(ports[0], "vllm:generation_tokens_total") == before[1] + 28
    assert value(ports[0], "vllm:request_max_num_generation_tokens_sum") == before[0] + 7


    def computed():
        names = ("vllm:iteration_tokens_total_count", "vllm:iteration_tokens_total_sum", "tandem_worker_steps_total",
                 "tandem_worker_prompt_tokens_total", "tandem_worker_tokens_total")
        return [sum(value(port, name) for port in ports[1:]) for name in names]
    post_json(ports[0], "/v1/completions", {"prompt": "y" * 8000, "max_tokens": 2, "ignore_eos": True})

    def is_counted():
        observed, tokens, steps, prompt, generated = computed()
        return observed == steps and prompt > 4 * generated > 0 and prompt <= tokens <= prompt + generated
    eventually(is_counted, "the tokens of each step: those of prompts, and one of each sequence that goes on")
    for port in ports:
        held, active, resident, process = (value(port, name) for name in (
            "tandem_memory_allocated_bytes", "tandem_memory_active_bytes", "tandem_memory_resident_bytes",
            "process_resident_memory_bytes"))
        sanitizer = 'allocator="sanitizer"' in scrape([port])
        assert sanitizer or 0 < held <= active <= resident, (port, held, active, resident)
        assert process > 1 << 20, process
    return re.search(r'allocator="(.*?)"', scrape(ports[:1])).group(1)


def a_request_that_waits_is_seen():
    with Cluster("--mixed", 1, "--step-us", 20000, "--max-batch", 1) as cluster:
        long = {"prompt": ["x"] * 16, "max_tokens": 60000, "ignore_eos": True}

        def age():
            return float(re.search(r"^tandem_router_queue_age_seconds (\S+)$", scrape([cluster.port]), re.M).group(1))
        assert age() == 0
        stream = stream_events(cluster.port, "/v1/completions", long)
        next(stream)
        first = eventually(age, "a sequence that waits")
        eventually(lambda: age() > first, "it waits longer")
        stream.close()
        eventually(lambda: age() == 0, "nobody waits")


def tool(name):
    path = shutil.which(name)
    if not path:
        raise Skip(f"no {name} here (Debian's package prometheus)")
    return path


def promtool_is_content(ports):
    promtool = tool("promtool")
    for args in (["check", "config", ROOT / "deploy/prometheus/prometheus.yml"], ["check", "rules", RULES],
                 ["test", "rules", RULES.with_name("tandem.rules_test.yml")]):
        done = subprocess.run([promtool, *args], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    tests = RULES.with_name("tandem.rules_test.yml").read_text()
    for alert, _ in rule_expressions():
        after = tests.split(f"alertname: {alert}\n")[1:]
        assert any("exp_alerts" in part.split("- eval_time")[0] for part in after), f"nothing fires {alert}"
    for port in ports:
        text = scrape([port])
        done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        # vLLM's names break two of Prometheus' rules.
        complaints = [line for line in done.stderr.splitlines() if line and not line.startswith("vllm:")]
        assert not complaints, complaints
        assert "vllm:" in done.stderr, done.stderr


def a_real_prometheus_answers_every_expression(ports):
    prometheus = tool("prometheus")
    with tempfile.TemporaryDirectory() as folder:
        text = (ROOT / "deploy/prometheus/prometheus.yml").read_text()
        targets = [f"localhost:{port}" for port in ports]
        text = text.replace('["localhost:8000"]', json.dumps(targets[:1])).replace(
            '["localhost:9101", "localhost:9102"]', json.dumps(targets[1:])).replace(": 10s", ": 1s")
        text = text.replace("tandem.rules.yml", str(RULES))
        Path(folder, "prometheus.yml").write_text(text)
        port, = free_ports(1)
        log = Path(folder, "log").open("w+")
        server = subprocess.Popen([prometheus, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                                   f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
        try:
            def answer(expression):
                expression = expression.replace("$__rate_interval", "30s").replace("$model_name", ".*")
                return get_json(port, "/api/v1/query?query=" + urllib.parse.quote(expression))["data"]["result"]

            def up():
                assert server.poll() is None, Path(folder, "log").read_text()[-2000:]
                try:
                    return [float(r["value"][1]) for r in answer("min_over_time(up[30s]) * count_over_time(up[30s]) >= 3")]
                except (OSError, AssertionError):  # it is not ready yet
                    return []
            eventually(lambda: len(up()) == len(ports), "three scrapes of every daemon")
            asked = board_expressions() + [(name, BOUND.match(rule).group(1)) for name, rule in rule_expressions()]
            silent = [(title, expression) for title, expression in asked if not answer(expression)]
            assert not silent, silent
            rules = get_json(port, "/api/v1/rules")["data"]["groups"][0]["rules"]
            assert [(rule["name"], rule["health"]) for rule in rules] == [(name, "ok") for name, _ in rule_expressions()], rules
            return f"{len(asked)} expressions"
        finally:
            server.terminate()
            server.wait(60)
            log.close()


def main():
    tally = Tally()
    tally.run("the check finds what is wrong", the_check_finds_what_is_wrong)
    with Cluster("--prefill", 1, "--decode", 1, "--step-us", 1000, env={"TANDEM_ADMIN": "127.0.0.1:0"}) as cluster:
        for _ in range(2):
            list(stream_events(cluster.port, "/v1/completions", {"prompt": "x" * 200, "max_tokens": 20, "ignore_eos": True}))
        late = {"prompt": "x", "max_tokens": 50000, "ignore_eos": True, "timeout": 1}
        post_json(cluster.port, "/v1/completions", late, want=504)
        admin = eventually(lambda: len(found := re.findall(r"worker ready.* admin=(\d+)", cluster.log_text())) == 2 and found, "two ports")
        ports = [cluster.port] + sorted(map(int, admin))
        tally.run("every expression finds its series", every_expression_finds_its_series, ports)
        tally.run("vLLM's board finds its series", vllms_board_finds_its_series, ports)
        tally.run("what the new figures say", what_the_new_figures_say, ports)
        tally.run("promtool is content", promtool_is_content, ports)
        tally.run("a real Prometheus answers every expression", a_real_prometheus_answers_every_expression, ports)
    tally.run("a request that waits is seen", a_request_that_waits_is_seen)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
