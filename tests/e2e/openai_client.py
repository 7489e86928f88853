#!/usr/bin/env python3
"""What a client may rely on, checked against a running cluster: openai_client.py URL [--key KEY] [--admin-key KEY]

The raw checks need nothing but Python; those through the openai package say SKIPPED where it cannot be imported.
Prints one line per failed or skipped check and ends with "N passed, M failed, K skipped"; exit 1 on failures.
Ids (C01 ...) are those of the conformance list.
"""
import argparse
import http.client
import json
import socket
import sys
import time
import traceback
import urllib.parse

CHECKS = []


class Skip(Exception):
    pass


def check(fn):
    CHECKS.append(fn)
    return fn


class Target:
    def __init__(self, url, key, admin_key=None):
        parts = urllib.parse.urlsplit(url)
        self.host, self.port, self.url, self.key = parts.hostname, parts.port or 80, url.rstrip("/"), key
        self.admin_key = admin_key or key
        self.model = self.get("/v1/models")[1]["data"][0]["id"]
        self.is_hash = self.model == "hash"

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=120)
        headers = dict(headers or {})
        if self.key and "Authorization" not in headers:
            headers["Authorization"] = "Bearer " + self.key
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        data = reply.read()
        connection.close()
        return reply, data

    def admin_headers(self):
        return {"Authorization": "Bearer " + self.admin_key} if self.admin_key else {}

    def get(self, path):
        reply, data = self.request("GET", path)
        return reply.status, json.loads(data)

    def post(self, path, body):
        reply, data = self.request("POST", path, body)
        return reply.status, json.loads(data)

    def ok(self, path, body):
        status, reply = self.post(path, body)
        assert status == 200, (status, reply)
        return reply

    def events(self, path, body):
        """All events of a stream, parsed; checks the framing (C05)."""
        reply, data = self.request("POST", path, dict(body, stream=True))
        assert reply.status == 200, (reply.status, data)
        assert reply.getheader("Content-Type") == "text/event-stream; charset=utf-8"
        assert b"\r" not in data, "a carriage return in the stream"
        assert data.endswith(b"data: [DONE]\n\n"), data[-80:]
        events = data.split(b"\n\n")
        assert events.pop() == b""
        assert events.pop() == b"data: [DONE]"
        events = [e for e in events if not e.startswith(b":")]
        for event in events:
            assert event.startswith(b"data: {") and b"\n" not in event, event
        return [json.loads(e[6:]) for e in events]

    def openai(self, **options):
        try:
            import openai
        except ImportError:
            raise Skip("the openai package is not installed")
        return openai, openai.OpenAI(base_url=self.url + "/v1", api_key=self.key or "none", max_retries=0, **options)


def user(text):
    return [{"role": "user", "content": text}]


CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
GREEDY = {"temperature": 0, "ignore_eos": True}


# --- C01 ---------------------------------------------------------------------------------------
@check
def c01_models_raw(t):
    status, one = t.get("/v1/models/" + t.model)
    assert status == 200 and one["id"] == t.model and one["object"] == "model", one
    status, error = t.get("/v1/models/no-such-model")
    assert status == 404 and error["error"]["code"] == "model_not_found", error


@check
def c01_models_sdk(t):
    openai, client = t.openai()
    assert client.models.list().data[0].id == t.model
    assert client.models.retrieve(t.model).id == t.model
    try:
        client.models.retrieve("no-such-model")
    except openai.NotFoundError:
        return
    raise AssertionError("no NotFoundError")


# --- C02 ---------------------------------------------------------------------------------------
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "name": "ann", "content": [{"type": "text", "text": "What is "}, {"type": "text", "text": "2+2?"}]},
    {"role": "assistant", "content": None,
     "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "4"},
    {"role": "user", "content": "So?"},
]


@check
def c02_chat_takes_all_content_forms(t):
    reply = t.ok(CHAT, {"messages": MESSAGES, "max_tokens": 4, **GREEDY})
    choice = reply["choices"][0]
    assert reply["object"] == "chat.completion" and reply["model"] == t.model
    assert choice["message"]["role"] == "assistant" and isinstance(choice["message"]["content"], str)
    assert "tool_calls" not in choice["message"]
    usage = reply["usage"]
    assert usage["completion_tokens"] == 4
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


@check
def c02_chat_sdk(t):
    _, client = t.openai()
    reply = client.chat.completions.create(model=t.model, messages=MESSAGES, max_tokens=4, temperature=0)
    assert reply.choices[0].message.role == "assistant" and reply.usage.completion_tokens <= 4


# --- C03, C04, C05 -------------------------------------------------------------------------------
@check
def c03_stream_equals_the_plain_answer(t):
    body = {"messages": user("Tell me a story."), "max_tokens": 24, "seed": 5, **GREEDY}
    whole = t.ok(CHAT, body)["choices"][0]
    chunks = t.events(CHAT, body)
    assert len({c["id"] for c in chunks}) == 1 and len({c["created"] for c in chunks}) == 1
    assert all(c["object"] == "chat.completion.chunk" and c["model"] == t.model for c in chunks)
    deltas = [c["choices"][0]["delta"] for c in chunks]
    assert [d.get("role") for d in deltas] == ["assistant"] + [None] * (len(deltas) - 1)
    assert "".join(d.get("content") or "" for d in deltas) == whole["message"]["content"]
    assert chunks[-1]["choices"][0]["delta"] == {}
    assert chunks[-1]["choices"][0]["finish_reason"] == whole["finish_reason"] == "length"
    assert all(c["choices"][0]["finish_reason"] is None for c in chunks[:-1])
    assert all("usage" not in c for c in chunks)


@check
def c03_chat_stream_sdk(t):
    _, client = t.openai()
    text = ""
    for chunk in client.chat.completions.create(model=t.model, messages=user("hi"), max_tokens=8, temperature=0,
                                                stream=True, stream_options={"include_usage": True}):
        if chunk.choices:
            text += chunk.choices[0].delta.content or ""
        else:
            assert chunk.usage.completion_tokens <= 8
    assert text


@check
def c04_usage_in_streams(t):
    for path, prompt in ((CHAT, {"messages": user("hi")}), (COMPLETIONS, {"prompt": "hi"})):
        body = {**prompt, "max_tokens": 12, **GREEDY}
        chunks = t.events(path, {**body, "stream_options": {"include_usage": True}})
        assert chunks[-1]["choices"] == [] and all(c["choices"] for c in chunks[:-1])
        usage = chunks[-1]["usage"]
        assert usage["completion_tokens"] == 12, usage
        assert usage["total_tokens"] == usage["prompt_tokens"] + 12
        assert usage["prompt_tokens_details"]["cached_tokens"] >= 0
        options = {"include_usage": True, "continuous_usage_stats": True}
        chunks = t.events(path, {**body, "stream_options": options})
        counts = [c["usage"]["completion_tokens"] for c in chunks]
        assert counts == sorted(counts) and counts[0] >= 1 and counts[-1] == 12, counts


@check
def c05_one_connection_serves_stream_after_stream(t):
    connection = http.client.HTTPConnection(t.host, t.port, timeout=60)
    headers = {"Authorization": "Bearer " + t.key} if t.key else {}
    for _ in range(3):
        connection.request("POST", COMPLETIONS, json.dumps({"prompt": "x", "max_tokens": 3, "stream": True, **GREEDY}),
                           {**headers, "x-request-id": "abc-1"})
        reply = connection.getresponse()
        assert reply.getheader("x-request-id") == "abc-1"
        assert reply.read().endswith(b"data: [DONE]\n\n")
    connection.close()


@check
def c05_first_chunk_has_role_and_text_together(t):
    first = t.events(CHAT, {"messages": user("hi"), "max_tokens": 3, "return_token_ids": True, **GREEDY})[0]
    assert first["choices"][0]["delta"]["role"] == "assistant"
    assert len(first["choices"][0]["token_ids"]) >= 1
    assert len(first["choices"][0]["prompt_token_ids"]) >= 1


# --- C06 ---------------------------------------------------------------------------------------
@check
def c06_prompt_forms_and_indexes(t):
    one = t.ok("/tokenize", {"prompt": "One"})["tokens"]
    two = t.ok("/tokenize", {"prompt": "Two!"})["tokens"]
    base = {"max_tokens": 3, "n": 2, "seed": 1, "ignore_eos": True}
    texts = t.ok(COMPLETIONS, {"prompt": ["One", "Two!"], **base})
    ids = t.ok(COMPLETIONS, {"prompt": [one, two], **base})
    assert [c["index"] for c in texts["choices"]] == [0, 1, 2, 3]
    assert [c["text"] for c in texts["choices"]] == [c["text"] for c in ids["choices"]]
    assert texts["usage"]["prompt_tokens"] == len(one) + len(two)
    assert texts["usage"]["completion_tokens"] == 12
    single = t.ok(COMPLETIONS, {"prompt": one, "max_tokens": 3, **GREEDY})
    assert single["choices"][0]["text"] == t.ok(COMPLETIONS, {"prompt": "One", "max_tokens": 3, **GREEDY})["choices"][0]["text"]
    assert len(t.ok(COMPLETIONS, {"prompt": "hi", "ignore_eos": True})["choices"][0]["text"]) > 0
    assert t.ok(COMPLETIONS, {"prompt": "hi", "ignore_eos": True})["usage"]["completion_tokens"] == 16
    seen = {}
    for chunk in t.events(COMPLETIONS, {"prompt": ["One", "Two!"], **base}):
        choice = chunk["choices"][0]
        seen[choice["index"]] = seen.get(choice["index"], "") + choice["text"]
    assert [seen[i] for i in range(4)] == [c["text"] for c in texts["choices"]]


# --- C07 ---------------------------------------------------------------------------------------
@check
def c07_echo(t):
    prompt = "h\u00e9llo \u20ac \U0001f600 w\u00f6rld"
    reply = t.ok(COMPLETIONS, {"prompt": prompt, "echo": True, "max_tokens": 0})
    assert reply["choices"][0]["text"] == prompt, reply
    assert reply["usage"]["completion_tokens"] == 0
    with_one = t.ok(COMPLETIONS, {"prompt": prompt, "echo": True, "max_tokens": 1, **GREEDY})
    assert with_one["choices"][0]["text"].startswith(prompt)
    chunks = t.events(COMPLETIONS, {"prompt": prompt, "echo": True, "max_tokens": 2, **GREEDY})
    assert "".join(c["choices"][0]["text"] for c in chunks).startswith(prompt)


@check
def c07_completion_logprobs(t):
    reply = t.ok(COMPLETIONS, {"prompt": "Once", "max_tokens": 8, "logprobs": 3, **GREEDY})["choices"][0]
    logprobs = reply["logprobs"]
    lists = [logprobs[k] for k in ("tokens", "token_logprobs", "top_logprobs", "text_offset")]
    assert [len(x) for x in lists] == [8] * 4
    for token, logprob, top, offset in zip(*lists):
        assert logprob <= 0 and token in top and 1 <= len(top) <= 4
        if "\ufffd" not in token and token in reply["text"]:
            assert reply["text"][offset:offset + len(token)] == token, (offset, token)
    streamed = t.events(COMPLETIONS, {"prompt": "Once", "max_tokens": 8, "logprobs": 3, **GREEDY})
    parts = [c["choices"][0]["logprobs"] for c in streamed]
    for key in ("tokens", "text_offset", "token_logprobs"):
        assert sum((p[key] for p in parts if p), []) == logprobs[key], key


# --- C08 ---------------------------------------------------------------------------------------
@check
def c08_chat_logprobs(t):
    body = {"messages": user("Count."), "max_tokens": 12, "logprobs": True, "top_logprobs": 4, "seed": 3,
            "ignore_eos": True, "skip_special_tokens": False}
    choice = t.ok(CHAT, body)["choices"][0]
    content = choice["logprobs"]["content"]
    assert len(content) == 12
    joined = b"".join(bytes(c["bytes"]) for c in content)
    assert joined.decode("utf-8", "replace") == choice["message"]["content"]
    for entry in content:
        top = entry["top_logprobs"]
        values = [x["logprob"] for x in top]
        assert values == sorted(values, reverse=True) and len(top) <= 4
        assert any(x["bytes"] == entry["bytes"] for x in top)


# --- C09 ---------------------------------------------------------------------------------------
@check
def c09_stop_strings(t):
    body = {"prompt": "abc", "max_tokens": 24, "return_token_ids": True, **GREEDY}
    full = t.ok(COMPLETIONS, body)["choices"][0]
    text, ids = full["text"], full["token_ids"]
    assert len(ids) == 24
    stop = text[len(text) // 2:len(text) // 2 + 5]
    at = text.index(stop)
    cut = t.ok(COMPLETIONS, {**body, "stop": stop})
    choice = cut["choices"][0]
    assert choice["text"] == text[:at], (choice["text"], text[:at])
    assert choice["finish_reason"] == "stop" and choice["stop_reason"] == stop
    assert cut["usage"]["completion_tokens"] == len(choice["token_ids"]) < 24
    assert choice["token_ids"] == ids[:len(choice["token_ids"])]
    kept = t.ok(COMPLETIONS, {**body, "stop": ["~never~", stop], "include_stop_str_in_output": True})["choices"][0]
    assert kept["text"] == text[:at] + stop and kept["stop_reason"] == stop
    chunks = t.events(COMPLETIONS, {**body, "stop": [stop, "~1~", "~2~", "~3~"]})
    assert "".join(c["choices"][0]["text"] for c in chunks) == text[:at]
    assert sum((c["choices"][0]["token_ids"] for c in chunks), []) == choice["token_ids"]
    assert chunks[-1]["choices"][0]["stop_reason"] == stop


@check
def c09_stop_token_ids(t):
    body = {"prompt": "abc", "max_tokens": 24, "return_token_ids": True, **GREEDY}
    ids = t.ok(COMPLETIONS, body)["choices"][0]["token_ids"]
    at = ids.index(ids[10])
    choice = t.ok(COMPLETIONS, {**body, "stop_token_ids": [ids[10]]})["choices"][0]
    assert choice["token_ids"] == ids[:at + 1], (choice["token_ids"], ids[:at + 1])
    assert choice["finish_reason"] == "stop" and choice["stop_reason"] == ids[10]


# --- C10, C11 ------------------------------------------------------------------------------------
@check
def c10_seeds_and_choices(t):
    body = {"messages": user("Say something."), "max_tokens": 16, "seed": 11, "n": 4, "ignore_eos": True}
    first, again = t.ok(CHAT, body), t.ok(CHAT, body)
    texts = [c["message"]["content"] for c in first["choices"]]
    assert texts == [c["message"]["content"] for c in again["choices"]]
    assert [c["index"] for c in first["choices"]] == [0, 1, 2, 3]
    if t.is_hash:
        raise Skip("the hash oracle samples nothing: its choices are equal")
    assert len(set(texts)) == 4, texts


@check
def c10_logit_bias(t):
    if t.is_hash:
        raise Skip("the hash oracle has no logits")
    forced = t.ok("/tokenize", {"prompt": "x", "add_special_tokens": False})["tokens"][0]
    body = {"prompt": "The", "max_tokens": 4, "return_token_ids": True, **GREEDY}
    biased = t.ok(COMPLETIONS, {**body, "logit_bias": {str(forced): 100}})["choices"][0]
    assert biased["token_ids"] == [forced] * 4, biased
    plain = t.ok(COMPLETIONS, body)["choices"][0]["token_ids"]
    banned = t.ok(COMPLETIONS, {**body, "logit_bias": {str(plain[0]): -100}})["choices"][0]["token_ids"]
    assert plain[0] != banned[0]
    allowed = t.ok(COMPLETIONS, {**body, "allowed_token_ids": [forced]})["choices"][0]
    assert allowed["token_ids"] == [forced] * 4


@check
def c11_ignore_eos_gives_exactly_max_tokens(t):
    for n in (1, 2, 33):
        reply = t.ok(CHAT, {"messages": user("hi"), "max_completion_tokens": n, "ignore_eos": True, "min_tokens": n})
        assert reply["usage"]["completion_tokens"] == n
        assert reply["choices"][0]["finish_reason"] == "length"


# --- C14 ---------------------------------------------------------------------------------------
@check
def c14_errors_raw(t):
    chat = {"messages": user("hi")}
    cases = [
        (CHAT, "{", 400, None), (CHAT, "[]", 400, None), (CHAT, "{}", 400, "messages"),
        (CHAT, {**chat, "temperature": "hot"}, 400, "temperature"),
        (CHAT, {**chat, "n": 65}, 400, "n"),
        (CHAT, {**chat, "max_tokens": -1}, 400, "max_tokens"),
        (CHAT, {**chat, "max_tokens": 2**31}, 400, "max_tokens"),
        (CHAT, {**chat, "stream_options": {}}, 400, "stream_options"),
        (CHAT, {**chat, "bad_words": ["x"]}, 400, "bad_words"),
        (CHAT, {**chat, "model": "nobody"}, 404, "model"),
        (COMPLETIONS, {"prompt": ""}, 400, "prompt"),
        (COMPLETIONS, {"prompt": [2**31]}, 400, "prompt"),
        (COMPLETIONS, {"prompt": "x" * 5_000_000}, 400, "prompt"),
        ("/v1/nothing", {}, 404, None),
    ]
    for path, body, want, param in cases:
        status, reply = t.post(path, body)
        error = reply["error"]
        assert status == want, (path, str(body)[:80], status, error)
        assert set(error) == {"message", "type", "param", "code"} and error["message"]
        assert error["param"] == param, (str(body)[:80], error)
        assert error["code"] is None or isinstance(error["code"], str)
    reply, _ = t.request("DELETE", CHAT)
    assert reply.status == 405 and "POST" in reply.getheader("Allow")
    reply, _ = t.request("OPTIONS", CHAT, headers={"Origin": "http://evil.example"})
    assert reply.status == 204 and reply.getheader("Access-Control-Allow-Origin") is None
    reply, data = t.request("HEAD", "/v1/models")
    assert reply.status == 200 and data == b"" and int(reply.getheader("Content-Length")) > 0
    deep = '{"messages":' + "[" * 100000 + "]" * 100000 + "}"
    assert t.post(CHAT, deep)[0] == 400
    status, _ = t.post(CHAT, {**chat, "max_tokens": 1, "some_new_field": 1, "stop": None, "seed": None})
    assert status == 200


@check
def c14_keys(t):
    if not t.key:
        raise Skip("the server has no keys")
    for value in ("Bearer wrong", "Bearer ", "Basic x"):
        reply, data = t.request("GET", "/v1/models", headers={"Authorization": value})
        assert reply.status == 401 and json.loads(data)["error"]["type"] == "authentication_error"
    assert t.request("GET", "/health", headers={"Authorization": "Bearer wrong"})[0].status == 200


@check
def c14_errors_sdk(t):
    openai, client = t.openai()
    for kind, options in ((openai.BadRequestError, {"temperature": 1000}), (openai.NotFoundError, {"model": "nobody"}),
                          (openai.BadRequestError, {"max_tokens": 2**31})):
        try:
            client.chat.completions.create(**{"model": t.model, "messages": user("hi"), **options})
        except kind as error:
            assert error.param in options, error
        else:
            raise AssertionError(f"{options}: no error")


# --- C16 ---------------------------------------------------------------------------------------
def running(t):
    status = json.loads(t.request("GET", "/admin/status", headers=t.admin_headers())[1])
    requests = status["routers"][0]["requests"]
    return requests["running"] + requests["queued"] + sum(w["sequences"]["running"] for w in status["workers"])


def wait_for(condition, what):
    """Polls a state that has to come; the bound is only there so that a failure ends."""
    end = time.monotonic() + 60
    while True:
        late = time.monotonic() > end  # asked once more after the limit
        if condition():
            return
        assert not late, what
        time.sleep(0.02)


@check
def c16_a_client_that_leaves_ends_its_work(t):
    body = json.dumps({"prompt": "x", "max_tokens": 60000 if t.is_hash else 4000, "stream": True, "ignore_eos": True})
    key = f"Authorization: Bearer {t.key}\r\n" if t.key else ""
    head = f"POST {COMPLETIONS} HTTP/1.1\r\nHost: localhost\r\n{key}Content-Length: {len(body)}\r\n\r\n"
    wait_for(lambda: running(t) == 0, "others are running")
    for read_first in (True, False):
        client = socket.create_connection((t.host, t.port))
        client.sendall((head + body).encode())
        if read_first:
            assert client.recv(100)
        else:
            wait_for(lambda: running(t) > 0, "it never ran")
        client.close()
        wait_for(lambda: running(t) == 0, "the work goes on without its client")


# --- C20 ---------------------------------------------------------------------------------------
@check
def c20_tokenize_round_trip(t):
    for text in ("hello world", "h\u00e9llo \u20ac \U0001f600\n\tx  y", "a\u0000b", "<|im_end|> is text", "\u202e\u0301"):
        reply = t.ok("/tokenize", {"prompt": text, "add_special_tokens": False, "return_token_strs": True})
        assert reply["count"] == len(reply["tokens"]) == len(reply["token_strs"]) and reply["max_model_len"] > 0
        assert t.ok("/detokenize", {"tokens": reply["tokens"]})["prompt"] == text, text
    messages = t.ok("/tokenize", {"messages": user("hi")})
    assert messages["count"] > t.ok("/tokenize", {"prompt": "hi"})["count"]
    usage = t.ok(CHAT, {"messages": user("hi"), "max_tokens": 1})["usage"]
    assert usage["prompt_tokens"] == messages["count"]


@check
def long_bodies_are_parsed_off_the_loop(t):
    ids = [65 + i % 26 for i in range(30000)]
    reply = t.ok("/detokenize", {"tokens": ids})
    assert len(reply["prompt"]) >= 1
    text = "word " * 20000
    assert t.ok("/tokenize", {"prompt": text, "truncate_prompt_tokens": 7})["count"] == 7


# --- C25 ---------------------------------------------------------------------------------------
@check
def c25_metrics(t):
    reply, data = t.request("GET", "/metrics")
    assert reply.status == 200 and reply.getheader("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    families, samples = {}, {}
    for line in data.decode().splitlines():
        if line.startswith("# TYPE "):
            name, kind = line[7:].split()
            assert name not in families, f"{name} twice"
            families[name] = kind
        elif not line.startswith("#"):
            name = line.split("{")[0].split()[0]
            samples.setdefault(name, []).append(float(line.rsplit(" ", 1)[1]))
            base = name
            for suffix in ("_bucket", "_sum", "_count"):
                if name.endswith(suffix) and families.get(name[:-len(suffix)]) == "histogram":
                    base = name[:-len(suffix)]
            assert base in families, line
            assert families[base] != "counter" or base.endswith("_total"), base
    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "prompt_tokens_total",
                 "generation_tokens_total", "request_success_total", "num_preemptions_total",
                 "prefix_cache_queries_total", "prefix_cache_hits_total", "time_to_first_token_seconds",
                 "inter_token_latency_seconds", "request_time_per_output_token_seconds", "e2e_request_latency_seconds",
                 "request_queue_time_seconds", "request_inference_time_seconds", "request_prefill_time_seconds",
                 "request_decode_time_seconds", "request_prompt_tokens", "request_generation_tokens",
                 "request_params_n", "request_params_max_tokens", "request_max_num_generation_tokens", "cache_config_info"):
        assert "vllm:" + name in families, name
    assert samples["vllm:request_generation_tokens_sum"] == samples["vllm:generation_tokens_total"]
    assert samples["vllm:request_prompt_tokens_sum"] == samples["vllm:prompt_tokens_total"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--key")
    parser.add_argument("--admin-key")
    parser.add_argument("--only", help="checks whose name contains this")
    args = parser.parse_args()
    target = Target(args.url, args.key, args.admin_key)
    passed = failed = skipped = 0
    for fn in CHECKS:
        if args.only and args.only not in fn.__name__:
            continue
        try:
            fn(target)
            passed += 1
        except Skip as reason:
            skipped += 1
            print(f"SKIPPED {fn.__name__}: {reason}")
        except Exception:
            failed += 1
            print(f"FAILED {fn.__name__}\n{traceback.format_exc()}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
