#!/usr/bin/env python3
"""Each request is a span that comes to a collector; and a collector that is stopped, slow or full costs no request."""
import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from cluster import BIN, Cluster, Skip, Tally, eventually, request, stream_events
from collector import LARGEST, Collector
from secure import Certificates

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
BODY = {"prompt": [5, 6, 7], "max_tokens": 4, "temperature": 0.5, "seed": 1}
STAGES = ["parse", "tokenize", "admit", "place", "dispatch", "stream", "first_token", "finish"]


def parent(flags="01", trace=TRACE):
    return {"traceparent": f"00-{trace}-{PARENT}-{flags}"}


def ask(cluster, body=None, headers=None, path="/v1/completions", want=200):
    """The reply's x-request-id, by which its span is found."""
    status, got, text = request(cluster.port, "POST", path, body or BODY, headers)
    assert status == want, (status, text)
    return {name.lower(): value for name, value in got.items()}["x-request-id"]


def span_of(collector, name):
    """The span of the request with this id."""
    found = eventually(lambda: [s for s in collector.spans if s.attributes["tandem.request_id"] == name], f"the span of {name}")
    assert len(found) == 1, found
    return found[0]


def no_span_of(collector, cluster, names):
    """A span of a later request has come, and none of these."""
    span_of(collector, ask(cluster, headers=parent()))
    assert not [s for s in collector.spans if s.attributes["tandem.request_id"] in names], names


def figures(cluster):
    text = request(cluster.port, "GET", "/metrics")[2].decode()
    return {kind: int(n) for kind, n in re.findall(r'^tandem_traces_spans_total{result="(\w+)"} (\d+)$', text, re.M)}


def says(span, **wanted):
    told = {key: span.attributes.get(key) for key in wanted}
    assert told == wanted, (told, wanted)


def a_request_is_a_span(cluster, collector):
    began = time.time_ns()
    completion = span_of(collector, ask(cluster))
    ended = time.time_ns()
    assert completion.name == "text_completion hash" and completion.message.kind == 2, completion
    assert len(completion.message.trace_id) == 16 and len(completion.message.span_id) == 8 and not completion.parent, completion
    says(completion, **{"gen_ai.operation.name": "text_completion", "gen_ai.provider.name": "tandem", "gen_ai.request.model": "hash",
                        "gen_ai.response.model": "hash", "gen_ai.request.max_tokens": 4, "gen_ai.request.temperature": 0.5,
                        "gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 4, "gen_ai.usage.cache_read.input_tokens": 0,
                        "gen_ai.response.finish_reasons": ["length"], "http.response.status_code": 200,
                        "tandem.prefill_worker": "prefill0", "tandem.decode_worker": "decode0", "tandem.replays": 0,
                        "tandem.key": None, "error.type": None, "tandem.dialect": "completions"})
    assert completion.attributes["gen_ai.response.id"].startswith("cmpl-"), completion
    assert re.fullmatch(r"[0-9a-f]+\.[0-9a-f]+\.1", completion.attributes["tandem.request"]), completion
    assert completion.message.status.code == 0, completion
    assert completion.resource.items() >= {"service.name": "tandem-router", "service.instance.id": "router0"}.items(), completion.resource
    assert completion.resource["service.version"] and completion.resource["host.name"], completion.resource
    times = [at for _, at in completion.events]
    start, end = completion.message.start_time_unix_nano, completion.message.end_time_unix_nano
    assert [name for name, _ in completion.events] == STAGES and times == sorted(times), completion.events
    assert began <= start == times[0] and times[-1] <= end <= ended, (began, start, times, end, ended)
    chat = {"messages": [{"role": "user", "content": "Say nothing of xylophones"}], "max_tokens": 3, "n": 2}
    chat = span_of(collector, ask(cluster, chat, path="/v1/chat/completions"))
    assert chat.name == "chat hash" and chat.trace != completion.trace, chat
    says(chat, **{"gen_ai.request.choice.count": 2, "gen_ai.response.finish_reasons": ["length", "length"], "gen_ai.usage.output_tokens": 6})
    message = span_of(collector, ask(cluster, {"messages": [{"role": "user", "content": "x"}], "max_tokens": 3}, path="/v1/messages"))
    assert message.name == "chat hash" and message.attributes["tandem.dialect"] == "messages", message
    tokens = span_of(collector, ask(cluster, {"prompt": "abc"}, path="/tokenize"))
    assert tokens.name == "tokenize hash" and "gen_ai.usage.input_tokens" not in tokens.attributes, tokens
    path, headers, body = collector.asked[0]
    assert path == "/v1/traces" and headers["Content-Type"] == "application/x-protobuf" and headers["x-key"] == "for the collector", headers
    assert not [one for _, _, one in collector.asked if b"xylophone" in one]  # nobody's words go there
    assert figures(cluster) == {"sent": len(collector.spans), "dropped": 0, "failed": 0}, figures(cluster)


def a_trace_is_taken_up(cluster, collector):
    span = span_of(collector, ask(cluster, headers={**parent(), "tracestate": "a=b,c=d"}))
    assert (span.trace, span.parent, span.message.trace_state) == (TRACE, PARENT, "a=b,c=d") and span.id != PARENT, span
    assert span.message.flags == 0x301, span.message.flags
    long, longer = (ask(cluster, headers={**parent(), "tracestate": "a=" + "b" * (n - 2)}) for n in (512, 513))
    later = ask(cluster, headers={"traceparent": f"cc-{TRACE}-{PARENT}-01-what-will-be"})
    none = (f"00-{TRACE}-{PARENT}-0", f"00-{TRACE}-{PARENT}-01-x", f"ff-{TRACE}-{PARENT}-01", f"00-{TRACE.upper()}-{PARENT}-01",
            f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01", "x")
    none = {value: ask(cluster, headers={"traceparent": value, "tracestate": "a=b"}) for value in none}
    assert len(span_of(collector, long).message.trace_state) == 512
    assert not span_of(collector, longer).message.trace_state
    later = span_of(collector, later)
    assert (later.trace, later.parent) == (TRACE, PARENT), later
    for value, name in none.items():
        span = span_of(collector, name)
        assert span.trace not in (TRACE, "0" * 32) and not span.parent and not span.message.trace_state, (value, span)


def what_is_not_sampled_is_logged_alone(cluster, collector):
    """By workers, too: they know the trace of each request, and so does the router's line."""
    other = "1" * 32
    no_span_of(collector, cluster, [ask(cluster, headers=parent("00", other)), ask(cluster, headers=parent("fe", other))])
    cluster.logged(rf'msg="request done" .*traceparent=00-{other}-{PARENT}-00 trace={other} ')
    for role in "prefill", "decode":
        cluster.logged(rf'prog=tandem-worker msg="submitted" .*trace={other} phase={role}')
    cluster.logged(rf'prog=tandem-worker msg="ended" .*trace={other} finish=length')
    own = span_of(collector, ask(cluster))
    cluster.logged(rf'msg="request done" .*traceparent= trace={own.trace} ')
    cluster.logged(rf'prog=tandem-worker msg="first token" .*trace={own.trace} ')


def a_failure_is_an_error(cluster, collector):
    """Without words that may quote the request."""
    wrong = span_of(collector, ask(cluster, dict(BODY, top_p=7, user="quoted"), want=400))
    assert wrong.name == "completions hash" and wrong.message.status.code == 2, wrong
    assert "top_p" in wrong.message.status.message and "7" not in wrong.message.status.message, wrong
    says(wrong, **{"http.response.status_code": 400, "gen_ai.usage.input_tokens": None, "gen_ai.response.finish_reasons": None})
    assert [name for name, _ in wrong.events] == ["parse", "finish"], wrong.events
    broken = span_of(collector, ask(cluster, '{"prompt": quoted}', want=400))
    assert "quoted" not in str(broken) and broken.message.status.code == 2, broken
    late = span_of(collector, ask(cluster, {"prompt": "x", "max_tokens": 60000, "ignore_eos": True, "timeout": 0.3}, want=504))
    assert late.message.status.code == 2 and "deadline" in late.message.status.message.lower(), late
    says(late, **{"http.response.status_code": 504, "error.type": "deadline_exceeded", "gen_ai.response.finish_reasons": None})


def a_stream_is_a_span(cluster, collector):
    before = len(collector.spans)
    events = list(stream_events(cluster.port, "/v1/completions", BODY))
    assert events[-1] == "[DONE]", events
    name = json.loads(events[0])["id"]
    eventually(lambda: len(collector.spans) > before, "its span")
    span = next(s for s in collector.spans if s.attributes.get("gen_ai.response.id") == name)
    says(span, **{"gen_ai.usage.output_tokens": 4, "http.response.status_code": 200})
    with cluster.answering() as events:
        name = json.loads(next(events))["id"]
    span = eventually(lambda: [s for s in collector.spans if s.attributes.get("gen_ai.response.id") == name], "of one that was left")[0]
    says(span, **{"http.response.status_code": 499, "error.type": "client_gone", "gen_ai.response.finish_reasons": None})
    assert span.message.status.code == 0, span


def other_protocols_are_spans(cluster, collector):
    try:
        import httpx
        from grpc_client import Inference, channel
        from grpc_client import ask as grpc_ask
    except ImportError as reason:
        raise Skip(f"{reason}") from None
    with httpx.Client(http1=False, http2=True, timeout=60) as client:
        answer = client.post(f"{cluster.url}/v1/completions", json=BODY, headers=parent())
        assert answer.status_code == 200 and answer.http_version == "HTTP/2", answer
    span = span_of(collector, answer.headers["x-request-id"])
    assert (span.trace, span.parent) == (TRACE, PARENT), span
    with channel(cluster) as wire:
        Inference(wire).Complete(grpc_ask("ids", [5, 6, 7], {"max_tokens": 4}), timeout=60,
                                 metadata=(("traceparent", f"00-{TRACE}-{PARENT}-01"), ("x-request-id", "by-grpc")))
    span = span_of(collector, "by-grpc")
    assert (span.trace, span.parent, span.attributes["tandem.dialect"]) == (TRACE, PARENT, "grpc_complete"), span
    says(span, **{"gen_ai.usage.output_tokens": 4})


def a_share_begins_here(collector):
    with Cluster("--mixed", 1, "--traces", collector.url, "--traces-ratio", "0") as cluster:
        no_span_of(collector, cluster, [ask(cluster) for _ in range(5)])
        assert len(re.findall(r'msg="request done" .*trace=[0-9a-f]{32} ', cluster.log_text())) >= 5
        assert figures(cluster)["sent"] == 1, figures(cluster)


def nothing_is_sent_without_an_endpoint():
    with Cluster("--mixed", 1, "--log-level", "debug") as cluster:
        ask(cluster)
        ask(cluster, headers=parent("00"))
        cluster.logged(rf'prog=tandem-worker msg="submitted" .*trace={TRACE} ')
        cluster.logged(r'msg="request done" .*traceparent= trace= ')
        assert figures(cluster) == {"sent": 0, "dropped": 0, "failed": 0}


def a_replay_is_counted(collector):
    """A worker is killed in the middle of an answer, and another goes on."""
    with Cluster("--mixed", 2, "--step-us", 20000, "--traces", collector.url) as cluster:
        events = stream_events(cluster.port, "/v1/completions", {"prompt": "x", "max_tokens": 200, "ignore_eos": True})
        name = json.loads(next(events))["id"]
        victim = eventually(lambda: [w for w in cluster.workers() if w["assigned"]], "a worker has it")[0]
        os.kill(victim["pid"], signal.SIGKILL)
        assert list(events)[-1] == "[DONE]"
        span = eventually(lambda: [s for s in collector.spans if s.attributes.get("gen_ai.response.id") == name], "its span")[0]
    says(span, **{"tandem.replays": 1, "gen_ai.usage.output_tokens": 200, "http.response.status_code": 200})
    assert span.attributes["tandem.decode_worker"] != victim["name"] and span.message.status.code == 0, span


def keys_are_told_by_name(collector):
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write("secret-one name=team-a\nsecret-two name=team-b\n")
        keys.flush()
        with Cluster("--mixed", 1, "--api-keys", keys.name, "--traces", collector.url) as cluster:
            for key, name in ("secret-one", "team-a"), ("secret-two", "team-b"):
                span = span_of(collector, ask(cluster, headers={"x-api-key": key}))
                assert span.attributes["tandem.key"] == name, span
    assert not [body for _, _, body in collector.asked if b"secret" in body]


def the_last_spans_come_at_the_end(collector):
    """A stop does not wait until a batch is gathered."""
    with Cluster("--mixed", 1, "--traces", collector.url) as cluster:
        names = [ask(cluster) for _ in range(3)]
        cluster.stop()
        told = [s.attributes["tandem.request_id"] for s in collector.spans]
        assert set(names) <= set(told), (names, told)


# --- a collector that does not take them ----------------------------------------------------------------------------------

def flood(cluster, n, threads=8):
    """n short requests; all are answered well."""
    def some(share):
        wire = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=120)
        for _ in range(share):
            wire.request("POST", "/v1/completions", json.dumps({"prompt": [1], "max_tokens": 1}), {"Content-Type": "application/json"})
            answer = wire.getresponse()
            text = answer.read()
            assert answer.status == 200, text
        wire.close()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(some, [n // threads] * threads))


def one_that_never_answers_costs_no_request():
    """All are answered while it has answered nothing; what waits for it is bounded, and the rest is dropped."""
    n, began = 3200, time.monotonic()
    with Collector(status=None) as collector, Cluster("--mixed", 1, "--traces", collector.url, "--log-level", "warn") as cluster:
        ask(cluster)
        eventually(lambda: collector.asked, "it is asked")
        flood(cluster, n)
        told = figures(cluster)
        assert told["sent"] == 0 and len(collector.spans) == 0, told
        held = 1 + n - told["dropped"] - told["failed"]  # the batch on its way, and those that wait
        assert told["dropped"] > 0 and held <= 512 + 2048, (told, held)
        cluster.logged("traces do not come to the collector")
        collector.answer(200)
        eventually(lambda: figures(cluster)["sent"] >= held - 512, "it gets them, now that it answers")
        assert max(len(body) for _, _, body in collector.asked) <= LARGEST
        warned = len(re.findall("traces do not come to the collector", cluster.log_text()))
        assert warned <= 1 + (time.monotonic() - began) / 60, cluster.log_text()
        return f"{n} answered, {told['dropped']} spans dropped"


def one_that_is_stopped_gets_them_when_it_is_back():
    with Collector() as collector, Cluster("--mixed", 1, "--traces", collector.url) as cluster:
        span_of(collector, ask(cluster))
        collector.stop()
        names = [ask(cluster) for _ in range(20)]
        cluster.logged("traces do not come to the collector")
        names += [ask(cluster) for _ in range(20)]
        assert figures(cluster) == {"sent": 1, "dropped": 0, "failed": 0}
        collector.start()
        for name in names:
            span_of(collector, name)
        assert figures(cluster) == {"sent": 41, "dropped": 0, "failed": 0}


def an_error_drops_them_and_a_503_does_not():
    with Collector(status=500) as collector, Cluster("--mixed", 1, "--traces", collector.url) as cluster:
        flood(cluster, 16)
        eventually(lambda: figures(cluster)["failed"] == 16, "they have failed")
        cluster.logged("traces do not come to the collector.* reason=.*status 500")
        collector.answer(503, {"Retry-After": "1"})
        asked = len(collector.asked)
        names = [ask(cluster) for _ in range(5)]
        eventually(lambda: len(collector.asked) > asked, "it is asked again")
        collector.answer(200)
        for name in names:
            span_of(collector, name)
        assert figures(cluster) == {"sent": 5, "dropped": 0, "failed": 16}
        assert len(collector.spans) == 5


def one_that_does_not_answer_does_not_hold_up_a_stop():
    with Collector(status=None) as collector, Cluster("--mixed", 1, "--traces", collector.url) as cluster:
        ask(cluster)
        eventually(lambda: collector.asked, "it is asked")
        cluster.stop()
        assert "spans are lost with the router's end" in cluster.log_text(), cluster.log_text()


def one_behind_tls_shows_a_certificate():
    """Of the system's roots, or those that SSL_CERT_FILE names; another gets nothing."""
    with tempfile.TemporaryDirectory(prefix="tandem-traces-") as folder:
        certificates = Certificates(folder)
        certificates.sign("server")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.path("server.crt"), certificates.path("server.key"))
        with Collector(tls=context) as collector:
            with Cluster("--mixed", 1, "--traces", collector.url, env={"SSL_CERT_FILE": certificates.path("ca.crt")}) as cluster:
                span_of(collector, ask(cluster))
            with Cluster("--mixed", 1, "--traces", collector.url) as cluster:
                ask(cluster)
                cluster.logged("traces do not come to the collector.* reason=.*certificate")
                assert figures(cluster)["sent"] == 0 and len(collector.spans) == 1


def wrong_values_are_one_line_each():
    for flag, value, words in (("--traces", "localhost:4318", "http://"), ("--traces", "grpc://c:4317", "http://"),
                               ("--traces", "http://c:port", "http://HOST:PORT"), ("--traces-ratio", "1.5", "0 to 1"),
                               ("--traces-ratio", "half", "0 to 1"), ("--traces-header", "no colon", "name: value")):
        done = subprocess.run([BIN / "tandem-router", "--model", "hash", flag, value], capture_output=True, text=True, timeout=60)
        lines = done.stderr.strip().splitlines()
        assert done.returncode == 78 and len(lines) == 1 and flag in lines[0] and words in lines[0], (done.returncode, done.stderr)


def main() -> int:
    tally = Tally()
    with Collector() as collector:
        with Cluster("--prefill", 1, "--decode", 1, "--roles", "fixed", "--log-level", "debug", "--traces", collector.url,
                     env={"TANDEM_TRACES_HEADER": "x-key: for the collector"}) as cluster:
            for name, function in (("a request is a span", a_request_is_a_span), ("a trace is taken up", a_trace_is_taken_up),
                                   ("what is not sampled is logged alone", what_is_not_sampled_is_logged_alone),
                                   ("HTTP/2 and gRPC are spans", other_protocols_are_spans)):
                tally.run(name, function, cluster, collector)
        with Cluster("--mixed", 1, "--step-us", 20000, "--traces", collector.url) as cluster:
            tally.run("a failure is an error", a_failure_is_an_error, cluster, collector)
            tally.run("a stream is a span", a_stream_is_a_span, cluster, collector)
        tally.run("a share of the traces begins here", a_share_begins_here, collector)
        tally.run("a replay is counted", a_replay_is_counted, collector)
        tally.run("keys are told by name", keys_are_told_by_name, collector)
        tally.run("the last spans come at the end", the_last_spans_come_at_the_end, collector)
    tally.run("nothing is sent without an endpoint", nothing_is_sent_without_an_endpoint)
    tally.run("one that never answers costs no request", one_that_never_answers_costs_no_request)
    tally.run("one that is stopped gets them when it is back", one_that_is_stopped_gets_them_when_it_is_back)
    tally.run("an error drops them and a 503 does not", an_error_drops_them_and_a_503_does_not)
    tally.run("one that does not answer does not hold up a stop", one_that_does_not_answer_does_not_hold_up_a_stop)
    tally.run("one behind TLS shows a certificate", one_behind_tls_shows_a_certificate)
    tally.run("wrong values are one line each", wrong_values_are_one_line_each)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
