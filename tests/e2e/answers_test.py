#!/usr/bin/env python3
"""What answers hold, beside the words: ids that have text, the model's own sampling defaults, known words in refusals, request
ids, times to come again, all of a call or nothing, the end of a prompt that is cut, tenants that share nothing, and slow readers."""
import contextlib
import json
import re
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cluster import BIN, ROOT, Cluster, Tally, eventually, get_json, hash_answer, post_json, request, stopped, stream_events
from daemons import free_ports, running

CHECKPOINTS = ROOT / "tests" / "models" / "checkpoints.py"
N_CHATS = 40


def make_checkpoint(folder, family="qwen2-tp", form="gptq4-g32-act"):
    """The example of docs/models.md: 259 rows, a tokenizer of fewer tokens."""
    subprocess.run([sys.executable, str(CHECKPOINTS), family, form, str(folder)], check=True, stdout=subprocess.DEVNULL)
    return folder


def ids_with_text(folder):
    """Every id that may be in an answer: the tokenizer's, and those that end one."""
    tokenizer = json.loads((Path(folder) / "tokenizer.json").read_text())
    ids = set(tokenizer["model"]["vocab"].values()) | {a["id"] for a in tokenizer.get("added_tokens", [])}
    ends = json.loads((Path(folder) / "config.json").read_text()).get("eos_token_id", [])
    return ids | set(ends if isinstance(ends, list) else [ends])


def chats(port, n, **fields):
    def one(i):
        body = {"messages": [{"role": "user", "content": f"number {i}"}], "max_tokens": 64, "seed": i,
                "return_token_ids": True, **fields}
        status, _, answer = request(port, "POST", "/v1/chat/completions", body)
        return status, json.loads(answer)
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(one, range(n)))


def all_answered(cluster, drawable, **fields):
    answers = chats(cluster.port, N_CHATS, **fields)
    errors = [a for status, a in answers if status != 200]
    assert not errors, f"{len(errors)} of {N_CHATS}: {errors[0]}"
    drawn = set()
    for _, answer in answers:
        choice = answer["choices"][0]
        drawn.update(choice["token_ids"])
        if fields.get("ignore_eos"):
            assert len(choice["token_ids"]) == 64, len(choice["token_ids"])
        for token in (choice["logprobs"] or {}).get("content", []):
            assert token["logprob"] > -9999, token
            assert len(token["top_logprobs"]) == fields["top_logprobs"], token
            named = [t["token"] for t in token["top_logprobs"]]
            strange = [t for t in named if t.startswith("token_id:") and int(t[9:]) not in drawable]
            assert not strange, strange
    assert drawn <= drawable, sorted(drawn - drawable)
    return f"{len(answers)} chats, {len(drawn)} ids of {len(drawable)}"


def a_stream_ends_well(cluster):
    events = list(stream_events(cluster.port, "/v1/chat/completions",
                                {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 64, "n": 64,
                                 "ignore_eos": True}))
    assert events[-1] == "[DONE]" and not any('"error"' in e for e in events), events[-3:]
    ends = [json.loads(e)["choices"][0]["finish_reason"] for e in events[:-1]]
    assert ends.count("length") == 64, ends.count("length")


def naming_one_is_refused(cluster, textless):
    for body, param in [({"allowed_token_ids": [65, textless]}, "allowed_token_ids"),
                        ({"logit_bias": {str(textless): 5}}, "logit_bias")]:
        answer = post_json(cluster.port, "/v1/completions", {"prompt": "a", "max_tokens": 1, **body}, want=400)
        assert answer["error"]["param"] == param, answer
        assert "no text" in answer["error"]["message"], answer
    # The model has a row for it, so a prompt may hold it, and an answer may wait for it in vain.
    answer = post_json(cluster.port, "/v1/completions", {"prompt": [65, textless], "max_tokens": 2, "echo": True,
                                                         "stop_token_ids": [textless]})
    assert answer["choices"][0]["text"].startswith("A"), answer
    answer = post_json(cluster.port, "/detokenize", {"tokens": [65, textless, 66]})
    assert answer == post_json(cluster.port, "/detokenize", {"tokens": [65, 66]}), answer


def the_same_at_every_size(folder, drawable):
    """What is left out changes nothing between threads and sizes that give the same sums."""
    fields = {"ignore_eos": True, "logprobs": True, "top_logprobs": 5, "temperature": 1.3}
    answers = []
    for args in (("--backend", "cpu", "--threads", "1"), ("--backend", "cpu", "--threads", "3"), ("--backend", "ref")):
        with Cluster("--mixed", "1", *args, model=str(folder)) as cluster:
            got = [(a["choices"][0]["token_ids"], a["choices"][0]["logprobs"]) for _, a in chats(cluster.port, 6, **fields)]
            answers.append(json.dumps(got))
    assert answers[0] == answers[1] == answers[2]
    with Cluster("--mixed", "1", "--tp", "2", model=str(folder)) as cluster:
        all_answered(cluster, drawable, **fields)


def distinct(cluster, n=32, **fields):
    answer = post_json(cluster.port, "/v1/completions", {"prompt": "abc", "max_tokens": 4, "n": n, "seed": 7,
                                                         "ignore_eos": True, **fields})
    return frozenset(choice["text"] for choice in answer["choices"])


def distinct_texts(cluster, n=32, **fields):
    return len(distinct(cluster, n, **fields))


def own_defaults_hold(folder):
    """What generation_config.json says holds where a request is silent, field by field."""
    def write(**values):
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 256, "do_sample": False, **values}))
    write(temperature=100.0, top_k=1, max_new_tokens=5)
    info = subprocess.run([str(BIN / "tandem"), "model", "info", "--json", str(folder)], check=True, capture_output=True)
    assert json.loads(info.stdout)["sampling"] == {"temperature": 100.0, "top_k": 1.0, "max_new_tokens": 5.0}
    with Cluster("--mixed", "1", model=str(folder)) as cluster:
        assert distinct_texts(cluster) == 1
        assert distinct_texts(cluster, top_k=0) > 30
        assert distinct_texts(cluster, top_k=0, temperature=0) == 1
        answer = chats(cluster.port, 1, max_tokens=None, ignore_eos=True)[0][1]
        assert answer["usage"]["completion_tokens"] == 5, answer["usage"]
        answer = chats(cluster.port, 1, max_tokens=9, ignore_eos=True)[0][1]
        assert answer["usage"]["completion_tokens"] == 9, answer["usage"]
    with Cluster("--mixed", "1", "--generation-config", "none", "--default-max-tokens", "7", "--served-model-name",
                 "my-model", model=str(folder)) as cluster:
        assert distinct_texts(cluster) > 20
        for body in ({"messages": [{"role": "user", "content": "x"}]}, {"prompt": "x"}):
            path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
            answer = post_json(cluster.port, path, {**body, "ignore_eos": True, "model": "my-model"})
            assert answer["usage"]["completion_tokens"] == 7 and answer["model"] == "my-model", answer
        # A default never refuses: it ends where the context does.
        answer = post_json(cluster.port, "/v1/completions", {"prompt": [65] * 253, "ignore_eos": True})
        assert answer["usage"]["completion_tokens"] == 3, answer["usage"]
    write(temperature=-1, top_p=1.5, min_p=0.5, bos_token_id=1 << 20)
    with Cluster("--mixed", "1", model=str(folder)) as cluster:
        cluster.logged("a sampling default of the model is not used")
        log = cluster.log_text()
        assert log.count("a sampling default of the model is not used") == 1 and "temperature must be" in log, log
        assert log.count("a part of the model's files is not used") == 2 == log.count("bos_token_id is not a token id"), log
        distinct_texts(cluster)
    write(top_p=0.0)
    with Cluster("--mixed", "1", model=str(folder)) as cluster:
        assert distinct_texts(cluster) == 1
        assert "is not used" not in cluster.log_text()
        texts = {distinct(cluster, n=8, top_p=p, temperature=t) for p, t in ((0, 1), (0.0, 100), (1e-320, 1), (1, 0))}
        assert len(texts) == 1 and len(*texts) == 1, texts  # all are greedy
    write(min_p=1.0)
    with Cluster("--mixed", "1", model=str(folder)) as cluster:
        assert distinct_texts(cluster) == 1
    write(repetition_penalty=1.9, top_k=1)
    with Cluster("--mixed", "1", model=str(folder)) as cluster:
        ask = {"prompt": "abc", "max_tokens": 40, "ignore_eos": True, "return_token_ids": True}
        own = post_json(cluster.port, "/v1/completions", ask)["choices"][0]["token_ids"]
        same = post_json(cluster.port, "/v1/completions", {**ask, "repetition_penalty": 1.9})["choices"][0]["token_ids"]
        off = post_json(cluster.port, "/v1/completions", {**ask, "repetition_penalty": 1})["choices"][0]["token_ids"]
        assert own == same != off, (own, off)


def known_words(cluster):
    """Too long by ids, by text, by a conversation, and without room for one token; the words stand in each."""
    cases = [("/v1/completions", {"prompt": [65] * 300}, "prompt", "too long: 300 tokens."),
             ("/v1/completions", {"prompt": "a" * 300}, "prompt", "too long: more than 256 tokens."),
             ("/v1/completions", {"prompt": [65] * 257, "max_tokens": 65535}, "prompt", "too long: 257 tokens."),
             ("/v1/completions", {"prompt": [65] * 256, "max_tokens": 1}, "prompt", "too long to be followed by an answer: 256 tokens."),
             ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a" * 256}], "max_completion_tokens": 65535}, "messages",
              "too long: "),
             ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a" * 256}]}, "messages", "too long: ")]
    for path, body, param, words in cases:
        error = post_json(cluster.port, path, body, want=400)["error"]
        assert error["code"] == "context_length_exceeded" and error["param"] == param, error
        assert error["message"].startswith("This model's maximum context length is 256 tokens. However, the prompt is "
                                           + words), error
    assert post_json(cluster.port, "/v1/completions", {"prompt": [65] * 255, "max_tokens": 9, "ignore_eos": True})


def answers_end_with_the_context(cluster):
    """However many tokens are asked for, by whatever field or default: what the context has left, and the finish says so."""
    chat = [{"role": "user", "content": "a" * 100}]
    n_chat = post_json(cluster.port, "/tokenize", {"messages": chat})["count"]
    forms = [("/v1/completions", {"prompt": [65] * n}, n, more) for n, more in (
        (250, {"max_tokens": 5}), (250, {"max_tokens": 6}), (250, {"max_tokens": 7}), (250, {"max_tokens": 2147483647}),
        (245, {"max_completion_tokens": 65535}), (245, {}), (245, {"max_tokens": None}), (239, {}), (240, {}), (241, {}), (255, {}))]
    forms += [("/v1/chat/completions", {"messages": chat}, n_chat, more) for more in (
        {}, {"max_completion_tokens": 65535}, {"max_tokens": 8192}, {"max_tokens": 256 - n_chat, "n": 2}, {"max_tokens": 257 - n_chat})]
    for path, prompt, n_prompt, more in forms:
        wanted = more.get("max_completion_tokens") or more.get("max_tokens") or (16 if "prompt" in prompt else 256)
        wanted = min(wanted, 256 - n_prompt)
        reply = post_json(cluster.port, path, {**prompt, **more, "ignore_eos": True})
        assert reply["usage"]["prompt_tokens"] == n_prompt, reply["usage"]
        assert reply["usage"]["completion_tokens"] == wanted * more.get("n", 1), (path, n_prompt, more, reply["usage"])
        assert {choice["finish_reason"] for choice in reply["choices"]} == {"length"}, (more, reply)
        events = [json.loads(e) for e in stream_events(cluster.port, path, {**prompt, **more, "ignore_eos": True, "stream_options": {
            "include_usage": True}}) if e != "[DONE]"]
        assert events[-1]["usage"]["completion_tokens"] == wanted * more.get("n", 1), (path, n_prompt, more, events[-1])
    reply = post_json(cluster.port, "/v1/messages", {"messages": chat, "max_tokens": 65535})
    assert reply["stop_reason"] in ("model_context_window_exceeded", "end_turn"), reply
    with_two = post_json(cluster.port, "/v1/completions", {"prompt": [[65] * 250, [65] * 10], "max_tokens": 20, "ignore_eos": True})
    assert with_two["usage"]["completion_tokens"] == 26, with_two["usage"]
    by_choice = post_json(cluster.port, "/v1/completions", {"prompt": [[65] * 250, [65] * 10], "n": 2, "max_tokens": 20, "ignore_eos": True,
                                                            "return_token_ids": True})["choices"]
    assert [len(choice["token_ids"]) for choice in by_choice] == [6, 6, 20, 20], by_choice
    return f"{len(forms)} requests, whole and streamed"


def request_ids(cluster):
    """In every reply, the client's own where it is one; in the log."""
    seen = set()
    stream = {"prompt": "x", "max_tokens": 2, "stream": True}
    for method, path, body, want in [("GET", "/health", None, 200), ("GET", "/metrics", None, 200), ("GET", "/nothing", None, 404),
                                     ("GET", "/v1/models", None, 200), ("OPTIONS", "/v1/models", None, 204),
                                     ("POST", "/v1/completions", "{", 400), ("POST", "/v1/completions", stream, 200),
                                     ("POST", "/v1/completions", {"prompt": "x"}, 200), ("DELETE", "/health", None, 405)]:
        status, headers, _ = request(cluster.port, method, path, body)
        assert status == want, (method, path, status)
        made = headers["x-request-id"]
        assert made.startswith("req-") and made not in seen, headers
        seen.add(made)
        _, headers, _ = request(cluster.port, method, path, body, headers={"x-request-id": "mine/7"})
        assert headers["x-request-id"] == "mine/7", headers
    def logged():
        lines = [line for line in cluster.log_text().splitlines() if "request done" in line]
        return (sum("request_id=mine/7 " in line for line in lines) == 3
                and sum(f"request_id={made} " in line for line in lines for made in seen) == 3)
    eventually(logged, "three lines with the client's id and three with ids made here")


def chunks_and_wholes_agree(cluster):
    body = {"prompt": "x", "max_tokens": 3, "ignore_eos": True}
    whole = post_json(cluster.port, "/v1/completions", {**body, "model": ""})
    assert whole["system_fingerprint"].startswith("fp_") and len(whole["system_fingerprint"]) == 15, whole
    for options, wanted in ((None, "none"), ({"include_usage": True}, "null")):
        chunks = [json.loads(e) for e in stream_events(cluster.port, "/v1/completions",
                                                       dict(body, **({"stream_options": options} if options else {})))
                  if e != "[DONE]"]
        assert {c["system_fingerprint"] for c in chunks} == {whole["system_fingerprint"]}, chunks
        for chunk in [c for c in chunks if c["choices"]]:
            assert ("usage" in chunk, chunk.get("usage")) == (wanted == "null", None), chunk


def put_aside(cluster):
    text = request(cluster.port, "GET", "/metrics")[2].decode()
    return sum(float(v) for v in re.findall(r"^tandem_router_put_aside_total(?:{[^}]*})? (\S+)$", text, re.M))


def what_empties_itself_blames_nobody(folder):
    """Requests that leave themselves no token, or whose edits no float holds: a 400 that names the field, or an answer. No worker is
    put aside, and no replay is tried."""
    config = folder / "generation_config.json"
    own = config.read_text()
    end = json.loads(own)["eos_token_id"]
    end = end[0] if isinstance(end, list) else end
    config.write_text(json.dumps({**json.loads(own), "eos_token_id": [end, 60]}))  # it ends in two ways
    refused = [{"allowed_token_ids": [60], "min_tokens": 2},
               {"allowed_token_ids": [end], "min_tokens": 2},
               {"allowed_token_ids": [40], "stop_token_ids": [40], "min_tokens": 2},
               {"allowed_token_ids": [40, end], "stop_token_ids": [40], "min_tokens": 2},
               {"allowed_token_ids": [end], "min_tokens": 4, "ignore_eos": True, "temperature": 0},
               {"allowed_token_ids": [41, 40], "stop_token_ids": [40, 41], "min_tokens": 1, "logit_bias": {"50": 100}}]
    answered = [{"repetition_penalty": 1e-40}, {"repetition_penalty": 1e-38}, {"repetition_penalty": 1e-39, "temperature": 0},
                {"repetition_penalty": 1e-45, "frequency_penalty": 2, "presence_penalty": 2, "temperature": 100, "logprobs": 5},
                {"repetition_penalty": 100, "frequency_penalty": -2, "logit_bias": {"40": -100}, "allowed_token_ids": [40]},
                {"allowed_token_ids": [40, 41], "stop_token_ids": [40], "min_tokens": 2},
                {"allowed_token_ids": [end], "min_tokens": 0}]
    with Cluster("--mixed", "3", model=str(folder)) as cluster:
        for path, ask in (("/v1/completions", {"prompt": "x"}), ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]})):
            ask["max_tokens"] = 4
            for fields in refused:
                answer = post_json(cluster.port, path, {**ask, **fields}, want=400)
                assert answer["error"]["param"] == "allowed_token_ids", answer
            for fields in answered:
                if "messages" in ask and "logprobs" in fields:
                    fields = {**fields, "logprobs": True, "top_logprobs": 5}
                answer = post_json(cluster.port, path, {**ask, **fields})
                assert answer["choices"][0]["finish_reason"] in ("stop", "length"), (fields, answer)
            for fields in ({"guided_regex": "[0-9]+", "allowed_token_ids": [ord("a")]}, {"guided_choice": ["no"], "allowed_token_ids": [end]}):
                answer = post_json(cluster.port, path, {**ask, **fields}, want=400)
                assert answer["error"]["code"] == "no_token_left", answer
        assert put_aside(cluster) == 0 and cluster.status()["routers"][0]["core"]["replays"] == 0
        assert [w["state"] for w in cluster.workers()] == ["ready"] * 3, cluster.workers()
    config.write_text(own)


def broken_weights_put_their_worker_aside(folder):
    """NaN in the model is its worker's fault, whatever the request asks for."""
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    n_header = int.from_bytes(data[:8], "little")
    about = json.loads(data[8:8 + n_header])["model.norm.weight"]
    assert about["dtype"] == "F32", about
    begin = 8 + n_header + about["data_offsets"][0]
    data[begin:begin + 4] = b"\x00\x00\xc0\x7f"
    path.write_bytes(data)
    for fields in ({}, {"allowed_token_ids": [40]}, {"repetition_penalty": 1e-40}, {"guided_regex": "[ab]+"}):
        with Cluster("--mixed", "1", model=str(folder)) as cluster:
            answer = post_json(cluster.port, "/v1/completions", {"prompt": "x", "max_tokens": 4, **fields}, want=500)
            assert answer["error"]["code"] == "numerics", answer
            cluster.logged("worker put aside[^\n]* reason=numerics")
            assert put_aside(cluster) == 1


def many_stop_strings(cluster):
    body = {"prompt": "x", "max_tokens": 4, "ignore_eos": True}
    for n in (48, 64):
        post_json(cluster.port, "/v1/completions", {**body, "stop": [f"\nclass {i}" for i in range(n)]})
    answer = post_json(cluster.port, "/v1/completions", {**body, "stop": [f"\nclass {i}" for i in range(65)]}, want=400)
    assert answer["error"]["param"] == "stop" and "at most 64 entries" in answer["error"]["message"], answer
    # The last of them counts as the first does.
    whole = post_json(cluster.port, "/v1/completions", {**body, "temperature": 0, "allowed_token_ids": [98]})["choices"][0]
    cut = post_json(cluster.port, "/v1/completions", {**body, "temperature": 0, "allowed_token_ids": [98],
                                                      "stop": [f"#{i}" for i in range(63)] + ["bb"]})["choices"][0]
    assert (whole["text"], whole["finish_reason"], cut["text"], cut["finish_reason"]) == ("bbbb", "length", "", "stop"), (whole, cut)


def parts_of_characters_keep_their_keys(cluster):
    """All that were asked for, each under its own key, and the sampled token among them."""
    for seed in range(8):
        answer = post_json(cluster.port, "/v1/completions", {"prompt": "x", "max_tokens": 4, "seed": seed, "logprobs": 20,
                                                             "allowed_token_ids": [240, 159, 152, 138], "ignore_eos": True})
        logprobs = answer["choices"][0]["logprobs"]
        for token, logprob, top in zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True):
            assert token in ("bytes:\\xf0", "bytes:\\x9f", "bytes:\\x98", "bytes:\\x8a"), token
            assert len(top) in (20, 21) and top[token] == logprob, top


def near_paths(cluster):
    for path, near in (("/chat/completions", "/v1/chat/completions"), ("/v1/models/", "/v1/models"), ("//v1/models", "/v1/models")):
        status, _, body = request(cluster.port, "GET", path)
        assert status == 404 and f"did you mean {near}?" in json.loads(body)["error"]["message"], (path, body)


def the_end_is_kept(cluster, padded):
    """truncate_prompt_tokens: of ids, of text, of a chat; at, below and above the prompt's length."""
    prompt = list(range(1000, 1040))
    for n in (1, 7, 39, 40, 41):
        choice = post_json(cluster.port, "/v1/completions", {"prompt": prompt, "truncate_prompt_tokens": n, "max_tokens": 8,
                                                             "temperature": 0, "return_token_ids": True})["choices"][0]
        assert choice["prompt_token_ids"] == prompt[-n:], (n, choice)
        assert choice["token_ids"] == hash_answer(prompt[-n:], 8), (n, choice)
    for body in ({"prompt": "begin and end"}, {"messages": [{"role": "user", "content": "begin and end"}]}):
        whole = post_json(cluster.port, "/tokenize", body)["tokens"]
        assert len(set(whole[-5:])) > 1 and whole[:5] != whole[-5:], whole
        assert post_json(cluster.port, "/tokenize", {**body, "truncate_prompt_tokens": 5})["tokens"] == whole[-5:], body
    # What is cut may have been longer than the context.
    choice = post_json(padded.port, "/v1/completions", {"prompt": "a" * 300 + "xyz", "truncate_prompt_tokens": 5, "max_tokens": 1,
                                                        "echo": True})["choices"][0]
    assert choice["text"].startswith("aaxyz"), choice
    long = [65 + i % 20 for i in range(300)]
    for path, n_before in (("/tokenize", None), ("/v1/completions", 300), ("/v1/completions", 9000)):
        for n in (1, 100, 255):
            ids = long if n_before is None else [70] * (n_before - 300) + long
            body = {"prompt": ids, "truncate_prompt_tokens": n, "max_tokens": 1, "return_token_ids": True}
            reply = post_json(padded.port, path, body)
            assert (reply["tokens"] if n_before is None else reply["choices"][0]["prompt_token_ids"]) == long[-n:], (path, n, reply)
        error = post_json(padded.port, path, {"prompt": ids}, want=400)["error"]
        assert error["code"] == "context_length_exceeded" and error["param"] == "prompt", error
    reply = post_json(padded.port, "/v1/completions", {"prompt": [long, [66] * 257, [67] * 3], "truncate_prompt_tokens": 7, "max_tokens": 1,
                                                       "return_token_ids": True})
    assert [choice["prompt_token_ids"] for choice in reply["choices"]] == [long[-7:], [66] * 7, [67] * 3], reply
    error = post_json(padded.port, "/tokenize", {"prompt": [7] * (4 * 262144 + 1), "truncate_prompt_tokens": 5}, want=400)["error"]
    assert error["param"] == "prompt" and "before it is cut" in error["message"], error
    error = post_json(padded.port, "/tokenize", {"prompt": "a" * (4 * 262144 + 1), "truncate_prompt_tokens": 5}, want=400)["error"]
    assert error["param"] == "prompt" and "maximum context" not in error["message"], error  # no shorter one is asked for


def salts_share_nothing(cluster):
    """What one tenant's prompt left in the cache helps that tenant alone, and those without a salt are one of their own."""
    prompt = list(range(2000, 2100))

    def cached(salt):
        usage = post_json(cluster.port, "/v1/completions", {"prompt": prompt, "max_tokens": 2, "temperature": 0,
                                                            **({"cache_salt": salt} if salt else {})})["usage"]
        cluster.quiet()
        return usage["prompt_tokens_details"]["cached_tokens"]
    tenants = ("tenant-a", None, "tenant-b", "tenant", "Tenant-a")
    for i, salt in enumerate(tenants):
        assert cached(salt) == 0, f"{salt} was given what {tenants[:i]} left"
        assert cached(salt) == 96, salt  # whole blocks of 16 tokens
    assert [cached(salt) for salt in tenants] == [96] * len(tenants)


def all_or_none():
    """24 calls of 64 choices where 10 sequences may wait: what is refused leaves no trace, and is asked to come again at
    different times."""
    with Cluster("--mixed", "1", "--queue", "10", "--step-us", "20000", "--max-batch", "16") as cluster:
        before = cluster.status()["routers"][0]["requests"]

        def all_came():
            now = cluster.status()["routers"][0]["requests"]
            return now["queued"] + now["running"] + now["refused"] - before["refused"] == 24 * 64
        with ThreadPoolExecutor(24) as pool:
            with stopped(cluster.workers()[0]["pid"]):
                replies = pool.map(lambda i: request(cluster.port, "POST", "/v1/completions",
                                                     {"prompt": "x" * (i + 1), "max_tokens": 20, "n": 64}), range(24))
                eventually(all_came, "24 calls, refused or kept")
            replies = list(replies)
        cluster.quiet()
        after = cluster.status()["routers"][0]["requests"]
        counts = {k: after[k] - before[k] for k in ("completed", "failed", "cancelled", "refused")}
        refused = [headers for status, headers, _ in replies if status == 429]
        assert refused and len(refused) + sum(status == 200 for status, _, _ in replies) == 24, [r[0] for r in replies]
        assert counts == {"completed": 64 * (24 - len(refused)), "failed": 0, "cancelled": 0, "refused": 64 * len(refused)}, counts
        times = [int(headers["retry-after-ms"]) for headers in refused]
        for headers, ms in zip(refused, times):
            assert int(headers["Retry-After"]) == (ms + 999) // 1000 and 500 <= ms <= 60000, headers
        assert len(set(times)) > len(times) // 2, times
        return f"{len(refused)} calls refused, to come again after {min(times)} to {max(times)} ms"


@contextlib.contextmanager
def workers_of_two_sizes(folder):
    """A prefill worker of 8,192 tokens and a decode worker of 512; the router's port."""
    port, announce = free_ports(1)[0], f"ipc://{folder}/announce"
    programs = [[BIN / "tandem-router", "--model", "hash", "--listen", f"127.0.0.1:{port}", "--announce", announce]]
    programs += [[BIN / "tandem-worker", "--model", "hash", "--name", name, "--role", role, "--kv-blocks", blocks, "--routers", announce,
                  "--endpoint", f"ipc://{folder}/{name}", "--kv-endpoint", f"ipc://{folder}/{name}.kv"]
                 for name, role, blocks in (("p0", "prefill", 512), ("d0", "decode", 32))]

    def ready():
        try:
            return sum(worker["state"] == "ready" for worker in get_json(port, "/admin/status")["workers"]) == 2
        except OSError:
            return False
    with running(Path(folder) / "log", *programs):
        eventually(ready, "both workers")
        yield port


def an_answer_is_as_long_at_every_worker(base):
    """A sequence that outgrows its worker goes on at the one that holds more: alone, under load, up to that one's own end."""
    folder = Path(base) / "sizes"
    folder.mkdir()

    def complete(number, n_prompt, most, wanted):
        prompt = [(7 * i + number) % 60000 for i in range(n_prompt)]
        body = {"prompt": prompt, "max_tokens": most, "temperature": 0, "return_token_ids": True}
        choice = post_json(port, "/v1/completions", body)["choices"][0]
        assert choice["token_ids"] == hash_answer(prompt, wanted), (n_prompt, most, len(choice["token_ids"]))
        assert choice["finish_reason"] == "length"
    with workers_of_two_sizes(folder) as port:
        for number, (n_prompt, most, wanted) in enumerate(((400, 300, 300), (400, 112, 112), (400, 113, 113), (511, 2, 2), (512, 2, 2),
                                                           (8000, 300, 192), (10, 100000, 8182))):
            complete(number, n_prompt, most, wanted)
        with ThreadPoolExecutor(12) as pool:
            for done in [pool.submit(complete, number, 380 + number, 300, 300) for number in range(24)]:
                done.result()
        status = eventually(lambda: (lambda s: s if s["requests"]["running"] == 0 else None)(get_json(port, "/admin/status")["routers"][0]),
                            "quiet")
        assert status["requests"]["failed"] == 0, status


def a_slow_reader_gets_it_all():
    """A client that reads nothing while its tokens come: its call waits for it, and every token is there in the end."""
    n_choices, n_tokens = 32, 2000
    with Cluster("--mixed", "1") as cluster, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", cluster.port))
        body = json.dumps({"prompt": [5] * 20, "n": n_choices, "max_tokens": n_tokens, "stream": True,
                           "return_token_ids": True, "temperature": 0, "ignore_eos": True}).encode()
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                       b"Content-Length: %d\r\n\r\n" % len(body) + body)
        eventually(lambda: cluster.status()["routers"][0]["requests"]["completed"] == n_choices, "all tokens")
        metrics = request(cluster.port, "GET", "/metrics")[2]
        assert b"\ntandem_router_calls 1\n" in metrics, "the client took all of it at once"
        client.settimeout(60)
        reply = b"".join(iter(lambda: client.recv(1 << 20), b""))
        counts = [0] * n_choices
        events = re.findall(rb"data: (.*?)\n\n", re.sub(rb"\r\n[0-9a-f]+\r\n", b"", reply))
        assert events[-1] == b"[DONE]", events[-1][-80:]
        for event in events[:-1]:
            for choice in json.loads(event)["choices"]:
                counts[choice["index"]] += len(choice["token_ids"])
        assert counts == [n_tokens] * n_choices, counts
        return f"{len(reply) >> 20} MiB"


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="tandem-answers-") as base:
        padded = make_checkpoint(Path(base) / "padded")
        drawable = ids_with_text(padded)
        n_vocab = json.loads((padded / "config.json").read_text())["vocab_size"]
        textless = sorted(set(range(n_vocab)) - drawable)
        assert textless, "the checkpoint is not padded"
        with Cluster(model=str(padded)) as cluster:
            tally.run("chats end without an error", all_answered, cluster, drawable)
            tally.run("so they do past the end token", all_answered, cluster, drawable, ignore_eos=True)
            tally.run("no top log-probability names an id without text", all_answered, cluster, drawable,
                      ignore_eos=True, logprobs=True, top_logprobs=20)
            tally.run("flat logits draw no id without text", all_answered, cluster, drawable, ignore_eos=True,
                      temperature=100)
            tally.run("a stream of 64 choices ends well", a_stream_ends_well, cluster)
            tally.run("naming an id without text is refused where it is to be drawn", naming_one_is_refused, cluster,
                      textless[-1])
            tally.run("a prompt that is too long is refused in known words", known_words, cluster)
            tally.run("an answer ends with the context", answers_end_with_the_context, cluster)
            tally.run("every reply has a request id", request_ids, cluster)
            tally.run("chunks say what whole replies say", chunks_and_wholes_agree, cluster)
            tally.run("a path that is nearly served is named", near_paths, cluster)
            tally.run("a request has as many stop strings as the bound", many_stop_strings, cluster)
            tally.run("parts of characters keep their keys", parts_of_characters_keep_their_keys, cluster)
            with Cluster("--mixed", "1") as hashing:
                tally.run("a prompt that is cut keeps its end", the_end_is_kept, hashing, cluster)
                tally.run("tenants of other salts share no cached prefix", salts_share_nothing, hashing)
        tally.run("threads, kernels and sizes agree", the_same_at_every_size, padded, drawable)
        tally.run("a request that leaves itself no token blames no worker", what_empties_itself_blames_nobody, padded)
        tally.run("broken weights put their worker aside", broken_weights_put_their_worker_aside,
                  make_checkpoint(Path(base) / "broken", form="f32"))
        tally.run("the model's own sampling defaults hold", own_defaults_hold, padded)
        tally.run("an answer is as long at every worker", an_answer_is_as_long_at_every_worker, base)
    tally.run("all sequences of a call or none", all_or_none)
    tally.run("a slow reader gets all of its answer", a_slow_reader_gets_it_all)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
