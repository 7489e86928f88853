#!/usr/bin/env python3
"""gRPC as grpcio speaks it: every call of tandem.v1.Inference equals its HTTP twin; statuses, deadlines, cancellation, hostile
messages, health and reflection; streams that survive their workers.

usage: grpc_test.py [--kills N] [--streams N]
"""
import argparse
import concurrent.futures
import json
import queue
import random
import re
import sys
import tempfile
import threading
from pathlib import Path

import sanitizers
from cluster import Cluster, Skip, Tally, eventually, get_json, hash_answer, post_json, real_model, request
from grpc_client import (DescriptorPool, Inference, ProtoReflectionDescriptorDatabase, ask, channel, grpc, health_pb2,
                         health_pb2_grpc, pb, refused, reflection_pb2, varint)

# What is asked by its name in both languages: sets of parameters, each by Complete and by Generate.
PARAMETERS = [
    {}, {"max_tokens": 1}, {"max_tokens": 33, "ignore_eos": True}, {"temperature": 0, "max_tokens": 20},
    {"temperature": 0.7, "seed": 5, "max_tokens": 20}, {"top_p": 0.5, "seed": 6, "max_tokens": 20},
    {"top_p": 0, "temperature": 1, "max_tokens": 20, "stop": [f"<{i}>" for i in range(48)]},
    {"top_k": 3, "seed": 7, "max_tokens": 20}, {"top_k": -1, "seed": 8, "max_tokens": 20},
    {"min_p": 0.2, "seed": 9, "max_tokens": 20}, {"n": 3, "seed": 10, "max_tokens": 12},
    {"logprobs": 0, "max_tokens": 9}, {"logprobs": 5, "max_tokens": 9, "temperature": 0},
    {"presence_penalty": 1.5, "frequency_penalty": -0.5, "repetition_penalty": 1.1, "seed": 11, "max_tokens": 20},
    {"logit_bias": {72: 5.0, 105: -100.0}, "seed": 12, "max_tokens": 20},
    {"allowed_token_ids": [65, 66, 67], "seed": 13, "max_tokens": 20},
    {"stop_token_ids": [101, 32], "seed": 14, "max_tokens": 64}, {"stop": ["e", "a "], "seed": 15, "max_tokens": 64},
    {"stop": ["e"], "include_stop_str_in_output": True, "seed": 15, "max_tokens": 64},
    {"min_tokens": 8, "max_tokens": 30, "seed": 16}, {"truncate_prompt_tokens": 3, "max_tokens": 8, "return_token_ids": True},
]
CHAT = [{"role": "system", "content": "You are brief."}, {"role": "user", "content": "Where does the Rhine end? \u00e9\u4e16"}]


# What a chat has beside its messages, JSON in both languages; for a model whose template takes it.
CHAT_EXTRAS = [
    {"tools": [{"type": "function", "function": {"name": "length", "description": "of a river \u00e9", "parameters": {
        "type": "object", "properties": {"river": {"type": "string"}}, "required": ["river"]}}}], "tool_choice": "none"},
    {"documents": [{"title": "Rivers", "text": "The Rhine ends in the sea."}]},
    {"chat_template_kwargs": {"enable_thinking": False}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "array", "items": {"enum": [1, 22]}}}}},
    {"json_schema": '{"type": "integer", "minimum": 100, "maximum": 999}'},
    {"regex": "[A-F]{2,5}"},
    {"grammar": 'root ::= "left" | "right"'},
    {"guided_choice": ["yes", "no"]},
]


def http_body(kind, prompt, fields):
    """The twin's path and body."""
    fields = dict(fields)
    fields["return_token_ids"] = True
    if "logit_bias" in fields:
        fields["logit_bias"] = {str(k): v for k, v in fields["logit_bias"].items()}
    if kind == "chat":
        if "logprobs" in fields:
            fields.update(logprobs=True, top_logprobs=fields["logprobs"])
        return "/v1/chat/completions", {"messages": prompt, **fields}
    return "/v1/completions", {"prompt": prompt, **fields}


def joined(responses):
    """The choices and the usage of a stream, as Complete answers them."""
    choices, usage = {}, None
    for response in responses:
        if response.HasField("usage"):
            assert usage is None and not response.token_ids
            usage = response.usage
            continue
        assert usage is None
        choice = choices.setdefault(response.index, pb.GenerateResponse(index=response.index))
        assert not choice.HasField("finish_reason"), "something behind the end"
        assert bool(response.id) == (not choice.id)
        logprobs = choice.logprobs if response.HasField("logprobs") else None
        text, ids = choice.text + response.text, list(choice.token_ids) + list(response.token_ids)
        if logprobs is not None:
            logprobs.token_logprobs.extend(response.logprobs.token_logprobs)
            logprobs.top.extend(response.logprobs.top)
        response.ClearField("logprobs")
        choice.MergeFrom(response)
        choice.text = text
        del choice.token_ids[:]
        choice.token_ids.extend(ids)
    return [choices[i] for i in sorted(choices)], usage


def near(a, b):
    assert abs(a - b) <= 1e-5 * max(1, abs(b)), (a, b)


def same_logprobs(kind, ours, theirs):
    if theirs is None:
        return
    if kind == "chat":
        values = [t["logprob"] for t in theirs["content"]]
        tops = [[c["logprob"] for c in t["top_logprobs"]] for t in theirs["content"]]
    else:
        values, tops = theirs["token_logprobs"], [list(t.values()) for t in theirs["top_logprobs"]]
    assert len(values) == len(ours.token_logprobs)
    for a, b in zip(ours.token_logprobs, values):
        near(a, b)
    for top, twin in zip(ours.top, tops):
        for a, b in list(zip(top.logprobs, twin))[:-1]:  # HTTP gives the last place to the drawn token
            near(a, b)


def same(kind, choices, usage, twin):
    assert len(choices) == len(twin["choices"])
    for ours, theirs in zip(choices, twin["choices"]):
        text = theirs["message"]["content"] if kind == "chat" else theirs["text"]
        assert ours.index == theirs["index"] and ours.text == text, (ours.text, text)
        assert list(ours.token_ids) == theirs["token_ids"]
        assert ours.finish_reason == theirs["finish_reason"]
        if isinstance(theirs["stop_reason"], str):
            assert ours.stop_reason == theirs["stop_reason"]
        elif theirs["stop_reason"] is not None:
            assert ours.stop_token_id == theirs["stop_reason"]
        else:
            assert not ours.HasField("stop_reason") and not ours.HasField("stop_token_id")
        same_logprobs(kind, ours.logprobs, theirs["logprobs"])
    assert usage.prompt_tokens == twin["usage"]["prompt_tokens"]
    assert usage.completion_tokens == twin["usage"]["completion_tokens"]


def equals_its_twin(port, client, kind, prompt, fields, more=None):
    """`more`: JSON of the chat beside its messages."""
    path, body = http_body(kind, prompt, fields)
    twin = post_json(port, path, {**body, **(more or {})})
    question = ask(kind, prompt, fields)
    for name, value in (more or {}).items():
        if name == "tool_choice":
            question.chat.tool_choice = value
        elif name == "response_format":
            question.response_format_json = json.dumps(value)
        elif name == "guided_choice":
            question.guided_choice.extend(value)
        elif isinstance(value, str):
            setattr(question, name, value)
        else:
            setattr(question.chat, f"{name.removeprefix('chat_')}_json", json.dumps(value))
    whole = client.Complete(question)
    same(kind, whole.choices, whole.usage, twin)
    assert whole.model == twin["model"] and whole.system_fingerprint == twin["system_fingerprint"]
    same(kind, *joined(client.Generate(question)), twin)


def calls_equal_their_twins(cluster, most=64, extras=()):
    """All kinds of parameters and prompts, some at a time; answers of at most so many tokens."""
    with channel(cluster) as wire, concurrent.futures.ThreadPoolExecutor(8) as pool:
        client, cases = Inference(wire), []
        for i, fields in enumerate(PARAMETERS):
            kind = ("text", "ids", "chat")[i % 3]
            prompt = {"text": f"Number {i}: the Rhine \u00e9", "ids": [72, 101, 108, 108, 111, i + 1], "chat": CHAT}[kind]
            cases.append((kind, prompt, {"seed": 1, **fields, "max_tokens": min(most, fields.get("max_tokens", 16))}))
        cases += [("chat", CHAT, {"seed": 2, "max_tokens": 8}, more) for more in extras]
        for done in [pool.submit(equals_its_twin, cluster.port, client, *case) for case in cases]:
            done.result()
    cluster.quiet()
    return f"{2 * len(cases)} calls"


def calls_equal_their_twins_on_a_real_model():
    if sanitizers.BUILD != "release":
        raise Skip("sanitizers make a real model slow, and it is shown without them")
    with Cluster("--mixed", 2, "--threads", 1, model=real_model()) as cluster:
        return calls_equal_their_twins(cluster, 12, CHAT_EXTRAS)


def thoughts_have_a_place():
    """What a model thinks is apart from its text, as in the same chat over HTTP: whole, streamed, with a form and without."""
    import thoughts
    with tempfile.TemporaryDirectory() as folder:
        try:
            thoughts.model(Path(folder) / "thinks", False)
        except ImportError as error:
            raise Skip(f"a Python package cannot be imported ({error})") from error
        n = 0
        with Cluster("--mixed", 1, model=str(Path(folder) / "thinks")) as cluster, channel(cluster) as wire:
            client = Inference(wire)
            for i in range(16):
                extra = [{}, {"regex": "[A-F]{2,5}"}][i % 2]
                bias = {**thoughts.OFTEN, **(thoughts.NEVER if not extra else {})}
                kwargs = {"opens": i // 2 % 2 == 0}
                switch = [{}, {"enable_thinking": False}, {"include_reasoning": False}, {"separate_reasoning": False}][i // 4]
                asked = {**switch, "messages": [{"role": "user", "content": "What?"}], "max_tokens": 40, "seed": i, "n": 2, "logit_bias": bias, "temperature": 1.0,
                         "chat_template_kwargs": kwargs, **extra}
                twins = [(c["message"].get("reasoning") or "", c["message"]["content"] or "")
                         for c in post_json(cluster.port, "/v1/chat/completions", asked)["choices"]]
                chat = pb.Chat(messages=[pb.Message(role="user", content="What?")], template_kwargs_json=json.dumps(kwargs), **switch)
                wanted = pb.GenerateRequest(chat=chat, max_tokens=40, seed=i, n=2, temperature=1.0, logit_bias={int(k): v for k, v in bias.items()}, **extra)
                whole = client.Complete(wanted).choices
                assert [(c.reasoning_content, c.text) for c in whole] == twins, (whole, twins)
                parts = {k: ["", ""] for k in range(2)}
                for response in client.Generate(wanted):
                    parts[response.index][0] += response.reasoning_content
                    parts[response.index][1] += response.text
                assert [tuple(parts[k]) for k in range(2)] == twins, (parts, twins)
                n += sum(bool(thought) for thought, _ in twins)
        assert n >= 4, n
        return f"{n} thoughts"


def a_chunk_per_step(cluster):
    with channel(cluster) as wire:
        responses = list(Inference(wire).Generate(ask("text", "steps", {"max_tokens": 24, "ignore_eos": True})))
    assert sum(len(r.token_ids) for r in responses) == 24
    assert all(r.token_ids or r.HasField("finish_reason") or r.HasField("usage") for r in responses)
    return f"{len(responses)} responses"


def tokenize_and_back(cluster):
    with channel(cluster) as wire:
        client = Inference(wire)
        for kind, prompt in (("text", "a b \u00e9\0c"), ("chat", CHAT)):
            twin = post_json(cluster.port, "/tokenize", {"messages" if kind == "chat" else "prompt": prompt})
            ours = client.Tokenize(ask(kind, prompt, {}))
            assert list(ours.token_ids) == twin["tokens"] and ours.max_model_len == twin["max_model_len"]
            back = client.Detokenize(pb.DetokenizeRequest(tokens=ours.token_ids))
            assert back.text == post_json(cluster.port, "/detokenize", {"tokens": twin["tokens"]})["prompt"]
        assert client.Detokenize(pb.DetokenizeRequest()).text == ""


def lengths_are_https(cluster):
    """An answer ends with the context, by a default too; a prompt of ids is cut before its bound is looked at."""
    context = get_json(cluster.port, "/v1/models")["data"][0]["max_model_len"]
    with channel(cluster) as wire:
        client = Inference(wire)
        for n_left, fields in ((11, {}), (16, {}), (17, {}), (11, {"max_tokens": 12}), (11, {"max_tokens": 2**31 - 1}), (1, {"max_tokens": 2})):
            question = ask("ids", [7] * (context - n_left), {"ignore_eos": True, **fields})
            for choices, usage in ((list(client.Complete(question).choices), client.Complete(question).usage),
                                   joined(client.Generate(question))):
                assert choices[0].finish_reason == "length" and usage.prompt_tokens == context - n_left
                assert usage.completion_tokens == min(n_left, fields.get("max_tokens", 16)), (n_left, fields, usage)
        refused(lambda: client.Complete(ask("ids", [7] * context, {})), grpc.StatusCode.INVALID_ARGUMENT, "maximum context length")
        for n in (1, 100, context - 1):
            question = ask("ids", [7] * 150000 + list(range(n)), {"truncate_prompt_tokens": n, "max_tokens": 1, "return_token_ids": True})
            assert list(client.Complete(question).choices[0].prompt_token_ids) == list(range(n)), n
            assert list(client.Tokenize(question).token_ids) == list(range(n)), n
    cluster.quiet()
    return f"{context} tokens"


def errors_have_their_status(cluster):
    code = grpc.StatusCode
    with channel(cluster) as wire:
        client = Inference(wire)
        for call in (client.Complete, client.Generate):
            refused(lambda: call(ask("text", "x", {"model": "other"})), code.NOT_FOUND, "other")
            refused(lambda: call(ask("text", "x", {"temperature": -1})), code.INVALID_ARGUMENT, "temperature")
            refused(lambda: call(ask("text", "x", {"temperature": float("nan")})), code.INVALID_ARGUMENT, "temperature")
            refused(lambda: call(ask("text", "x", {"n": 65})), code.INVALID_ARGUMENT, "n")
            refused(lambda: call(ask("text", "x", {"top_p": -0.1})), code.INVALID_ARGUMENT, "top_p")
            refused(lambda: call(ask("text", "x", {"stop": [str(i) for i in range(65)]})), code.INVALID_ARGUMENT, "stop")
            refused(lambda: call(ask("text", "x", {"allowed_token_ids": [40], "stop_token_ids": [40], "min_tokens": 2})),
                    code.INVALID_ARGUMENT, "allowed_token_ids")
            refused(lambda: call(ask("text", "", {})), code.INVALID_ARGUMENT, "prompt")
            refused(lambda: call(ask("ids", [], {})), code.INVALID_ARGUMENT, "prompt")
            refused(lambda: call(ask("ids", [1 << 31], {})), code.INVALID_ARGUMENT, "prompt")
            refused(lambda: call(ask("chat", [], {})), code.INVALID_ARGUMENT, "messages")
            refused(lambda: call(ask("chat", CHAT, {"echo": True})), code.INVALID_ARGUMENT, "echo")
            refused(lambda: call(pb.GenerateRequest()), code.INVALID_ARGUMENT, "prompt")
            refused(lambda: call(ask("ids", [1] * 200000, {})), code.INVALID_ARGUMENT, "maximum context length")
        for tools in ("[", "1", "[] , \"n\": 3", "{]", "", "[]x"):
            chat = pb.Chat(messages=[pb.Message(role="user", content="x")], tools_json=tools)
            refused(lambda: client.Complete(pb.GenerateRequest(chat=chat)), code.INVALID_ARGUMENT)
        hosted = pb.Chat(messages=[pb.Message(role="user", content="x")], tools_json='[{"type": "web_search"}, {"type": "mcp"}]')
        plain = client.Complete(ask("chat", [{"role": "user", "content": "x"}], {"max_tokens": 3, "seed": 1}))
        assert client.Complete(pb.GenerateRequest(chat=hosted, max_tokens=3, seed=1)).choices[0].token_ids == plain.choices[0].token_ids
        unknown = wire.unary_unary("/tandem.v1.Inference/Nothing")
        refused(lambda: unknown(b""), code.UNIMPLEMENTED, "Nothing")
        refused(lambda: wire.unary_unary("/no.Service/Call")(b""), code.UNIMPLEMENTED)
        garbage = wire.unary_unary("/tandem.v1.Inference/Complete")
        refused(lambda: garbage(b"\xff\xff\xff"), code.INVALID_ARGUMENT, "GenerateRequest")
        refused(lambda: garbage(b"\x12\x02\xff\xfe"), code.INVALID_ARGUMENT, "UTF-8")
        refused(lambda: garbage(b"\x12\x05" + b"x" * 4), code.INVALID_ARGUMENT)
        refused(lambda: garbage(b"\x22" + varint(4000000) + b"\x0a\0" * 2000000), code.RESOURCE_EXHAUSTED)
        refused(lambda: garbage(b"\0" * ((4 << 20) + 1)), code.RESOURCE_EXHAUSTED, "4194304")
    cluster.quiet()


def gzip_comes_in(cluster):
    with channel(cluster) as wire:
        client = Inference(wire)
        prompt = ask("text", "gzip " * 50, {"max_tokens": 4, "seed": 3})
        plain = client.Complete(prompt)
        packed = client.Complete(prompt, compression=grpc.Compression.Gzip)
        assert plain.choices[0].token_ids == packed.choices[0].token_ids
        bomb = ask("text", "x" * (5 << 20), {})
        refused(lambda: client.Complete(bomb, compression=grpc.Compression.Gzip), grpc.StatusCode.RESOURCE_EXHAUSTED)
        refused(lambda: client.Complete(prompt, compression=grpc.Compression.Deflate), grpc.StatusCode.UNIMPLEMENTED, "deflate")


def steps(cluster):
    """That all workers have computed, as the router was told."""
    return int(re.search(rb"^tandem_worker_steps_total (\d+)", request(cluster.port, "GET", "/metrics")[2], re.M)[1])


def deadlines_and_cancellation_free_blocks(cluster):
    """By the workers' own figures, and long before the answers would be whole: each has 60,000 steps to go."""
    long = ask("text", "long", {"max_tokens": 60000, "ignore_eos": True})

    def ends_soon():
        at_end = steps(cluster)
        cluster.quiet()
        assert steps(cluster) - at_end < 20000, (at_end, steps(cluster))
    with channel(cluster) as wire:
        client = Inference(wire)

        def meets_its_deadline(call):
            before = steps(cluster)
            running = call(long, timeout=1)
            refused(lambda: running.result() if call is not client.Generate else list(running), grpc.StatusCode.DEADLINE_EXCEEDED)
            ends_soon()
            return steps(cluster) > before
        for call in (client.Complete.future, client.Generate):
            eventually(lambda call=call: meets_its_deadline(call), "it ran before its deadline")
        stream = client.Generate(long)
        assert next(stream).token_ids
        future = client.Complete.future(long)
        eventually(lambda: sum(w["sequences"]["running"] for w in cluster.workers()) == 2, "both run")
        for call in (stream, future):
            call.cancel()
        ends_soon()
        assert client.Complete(ask("text", "x", {"max_tokens": 2})).choices  # the connection goes on


def the_server_tells_of_itself(cluster):
    with channel(cluster) as wire:
        client = Inference(wire)
        twin = json.loads(request(cluster.port, "GET", "/v1/models")[2])["data"][0]
        model = client.ListModels(pb.ListModelsRequest()).models[0]
        assert (model.id, model.created, model.max_model_len) == (twin["id"], twin["created"], twin["max_model_len"])
        state = client.GetClusterStatus(pb.GetClusterStatusRequest())
        assert state.ready and not state.draining and state.n_workers == 2
        assert state.version == json.loads(request(cluster.port, "GET", "/version")[2])["version"]
        health = health_pb2_grpc.HealthStub(wire)
        for name in ("", "readiness", "liveness", "tandem.v1.Inference"):
            assert health.Check(health_pb2.HealthCheckRequest(service=name)).status == health_pb2.HealthCheckResponse.SERVING
        refused(lambda: health.Check(health_pb2.HealthCheckRequest(service="x")), grpc.StatusCode.NOT_FOUND)


def reflection_serves_the_files(cluster):
    with channel(cluster) as wire:
        database = ProtoReflectionDescriptorDatabase(wire)
        services = set(database.get_services())
        assert services == {"tandem.v1.Inference", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                            "grpc.reflection.v1alpha.ServerReflection", "vllm.grpc.engine.VllmEngine"}, services
        pool = DescriptorPool(database)
        for name in services:
            assert pool.FindServiceByName(name).methods
        ours = pool.FindMessageTypeByName("tandem.v1.GenerateRequest")
        assert [f.name for f in ours.fields] == [f.name for f in pb.GenerateRequest.DESCRIPTOR.fields]
        assert pool.FindMethodByName("tandem.v1.Inference.Generate").output_type.full_name == "tandem.v1.GenerateResponse"
        for missing in ("tandem.v1.Nothing", "tandem.v1", "tandem", ""):
            try:
                database.FindFileContainingSymbol(missing)
            except KeyError:
                continue
            raise AssertionError(missing)


def reflection_talks_in_turns(cluster):
    """As grpcurl does: one stream is kept open, and each question waits for the answer to the one before it."""
    with channel(cluster) as wire:
        for version in ("v1", "v1alpha"):  # the same messages in both
            path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
            ask_on = wire.stream_stream(path, reflection_pb2.ServerReflectionRequest.SerializeToString,
                                        reflection_pb2.ServerReflectionResponse.FromString)
            question, questions = reflection_pb2.ServerReflectionRequest, queue.Queue()
            answers = ask_on(iter(questions.get, None), timeout=60)
            for _ in range(3):
                questions.put(question(list_services="*"))
                assert len(next(answers).list_services_response.service) == 5
                questions.put(question(file_containing_symbol="tandem.v1.Inference"))
                assert next(answers).file_descriptor_response.file_descriptor_proto
                questions.put(question(file_containing_symbol="no.Such"))
                assert next(answers).error_response.error_code == 5
            questions.put(None)
            assert list(answers) == []
            left = ask_on(iter(questions.get, None), timeout=60)
            questions.put(question(list_services="*"))
            next(left)
            left.cancel()
            questions.put(None)
        raw = wire.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        refused(lambda: list(raw(iter([b"\xff\xff\xff"]))), grpc.StatusCode.INVALID_ARGUMENT)
        refused(lambda: list(raw(iter([b"\x0a" + varint(300000) + b"x" * 300000]))), grpc.StatusCode.RESOURCE_EXHAUSTED)


def http_statuses(cluster):
    """Foreign content types are a 415; JSON to a JSON path goes on beside gRPC."""
    status, _, _ = request(cluster.port, "POST", "/tandem.v1.Inference/Complete", b"{}")
    assert status == 415, status
    status, headers, _ = request(cluster.port, "POST", "/tandem.v1.Inference/Complete", bytes(5),
                                 {"Content-Type": "application/grpc"})
    assert status == 505 and headers["grpc-status"] == "12" and "HTTP/2" in headers["grpc-message"], (status, headers)


def listen_on(wire, seed, stop, told):
    """One stream after the other until told to stop; each has to be the oracle's answer, token for token."""
    chance = random.Random(seed)
    client = Inference(wire)
    try:
        while not stop.is_set():
            prompt = [chance.randrange(256, 60000) for _ in range(chance.randrange(1, 200))]
            fields = {"max_tokens": 200, "ignore_eos": True}
            ids = [token for step in client.Generate(ask("ids", prompt, fields)) for token in step.token_ids]
            assert ids == hash_answer(prompt, 200), (len(ids), "a stream is not the oracle's answer")
            told["streams"] += 1
    except Exception as reason:  # a thread's exception would be lost
        told["wrong"].append(repr(reason))


def streams_survive_their_workers(kills, streams):
    """A worker dies in the midst of streams, again and again."""
    stop, told = threading.Event(), {"streams": 0, "wrong": []}
    with Cluster("--prefill", 2, "--decode", 2, "--step-us", 5000, "--threads", 1) as cluster, channel(cluster) as wire:
        threads = [threading.Thread(target=listen_on, args=(wire, seed, stop, told)) for seed in range(streams)]
        cluster.kill_workers_beside(threads, stop, kills)
        assert not told["wrong"], told["wrong"][:3]
        assert told["streams"] >= streams, told
        cluster.quiet()
        replays = cluster.status()["routers"][0]["core"]["replays"]
        assert replays > 0, "nobody was killed while it answered"
        return f"{kills} kills, {told['streams']} streams, {replays} replays"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--streams", type=int, default=16)
    options = parser.parse_args()
    tally = Tally()
    with Cluster("--mixed", 2, "--step-us", 1000) as cluster:
        for test in (calls_equal_their_twins, a_chunk_per_step, tokenize_and_back, lengths_are_https, errors_have_their_status, gzip_comes_in,
                     deadlines_and_cancellation_free_blocks, the_server_tells_of_itself, reflection_serves_the_files,
                     reflection_talks_in_turns, http_statuses):
            tally.run(test.__name__, test, cluster)
    tally.run("thoughts_have_a_place", thoughts_have_a_place)
    tally.run("calls_equal_their_twins_on_a_real_model", calls_equal_their_twins_on_a_real_model)
    tally.run("streams_survive_their_workers", streams_survive_their_workers, options.kills, options.streams)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
