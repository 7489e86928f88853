#!/usr/bin/env python3
"""vllm.grpc.engine.VllmEngine as its gateways' client speaks it (PyPI: smg-grpc-proto): answers equal /v1/completions', what is not
served is refused by its name, and a call can be aborted by its id."""
import os
import sys
import threading
from pathlib import Path

# That package wants a protobuf that other packages of the check do not take: it has an environment of its own.
OTHER = Path(os.environ.get("TANDEM_CACHE", Path.home() / ".cache/tandem")) / "smg-venv/bin/python"
try:
    import grpc
    from smg_grpc_proto.generated import common_pb2, vllm_engine_pb2 as pb, vllm_engine_pb2_grpc as services
except ImportError as reason:
    if OTHER.exists() and Path(sys.executable) != OTHER:
        os.execv(OTHER, [str(OTHER), *sys.argv])
    print(f"SKIPPED the gateways' client: {reason} (tools/check installs smg-grpc-proto 0.4.28 from PyPI)")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

from cluster import Cluster, Tally, eventually, hash_answer, post_json  # noqa: E402

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
# vLLM's fields, and the same in HTTP's where they differ.
CASES = [
    ({"max_tokens": 20}, {}), ({"max_tokens": 20, "temperature": 0}, {}), ({"max_tokens": 20, "temperature": 0.7, "top_p": 0.5}, {}),
    ({"max_tokens": 20, "top_k": 3}, {}), ({"max_tokens": 20, "min_p": 0.25}, {}), ({"max_tokens": 9, "n": 3}, {}),
    ({"max_tokens": 20, "presence_penalty": 1.5, "frequency_penalty": -0.5, "repetition_penalty": 1.25}, {}),
    ({"max_tokens": 9, "logprobs": 0}, {}), ({"max_tokens": 9, "logprobs": 5, "temperature": 0}, {}),
    ({"max_tokens": 60, "stop": ["e", "a "]}, {}), ({"max_tokens": 60, "stop_token_ids": [101, 32]}, {}),
    ({"max_tokens": 30, "min_tokens": 30, "ignore_eos": True}, {}), ({"max_tokens": 9, "truncate_prompt_tokens": 3}, {}),
    ({"max_tokens": 9, "truncate_prompt_tokens": -1}, {"truncate_prompt_tokens": None}),
    ({"max_tokens": 20, "logit_bias": {72: 5.0, 105: -100.0}}, {"logit_bias": {"72": 5.0, "105": -100.0}}),
    ({"max_tokens": 20, "spaces_between_special_tokens": True, "skip_special_tokens": True}, {"spaces_between_special_tokens": None}),
]


def question(stream=True, prompt=PROMPT, **params):
    request = pb.GenerateRequest(request_id="g", sampling_params=pb.SamplingParams(**params), stream=stream)
    if isinstance(prompt, str):
        request.text = prompt
    else:
        request.tokenized.input_ids.extend(prompt)
    return request


def gather(responses):
    """By index: all ids, all logprobs, the complete."""
    found = {}
    for response in responses:
        part = response.chunk if response.HasField("chunk") else response.complete
        ids, logprobs, _ = found.setdefault(part.index, ([], [], None))
        assert found[part.index][2] is None, "something behind the end"
        if response.HasField("chunk"):
            ids += part.token_ids
            logprobs.append(part.output_logprobs)
            assert part.completion_tokens == len(part.token_ids) > 0
        else:
            found[part.index] = (ids, logprobs, part)
    return found


def values(parts):
    assert all(list(p.token_ids) == [] or len(p.token_ids) == len(p.token_logprobs) for p in parts)
    return ([v for p in parts for v in p.token_logprobs], [list(t.values) for p in parts for t in p.top_logprobs])


def calls_equal_their_twins(cluster, client):
    for i, (params, http) in enumerate(CASES):
        prompt = PROMPT if i % 2 else f"Number {i}: the Rhine \u00e9"
        params = {"seed": 5, **params}
        body = {"prompt": prompt, "return_token_ids": True, "temperature": 1, **params, **http}
        twin = post_json(cluster.port, "/v1/completions", {k: v for k, v in body.items() if v is not None})
        streamed = gather(client.Generate(question(prompt=prompt, **params)))
        whole = [r.complete for r in client.Generate(question(False, prompt, **params))]
        assert len(streamed) == len(whole) == len(twin["choices"])
        for theirs, complete in zip(twin["choices"], whole):
            ids, logprobs, end = streamed[theirs["index"]]
            assert ids == list(complete.output_ids) == theirs["token_ids"], (params, ids, theirs)
            assert end.finish_reason == complete.finish_reason == theirs["finish_reason"]
            assert complete.prompt_tokens == end.prompt_tokens == twin["usage"]["prompt_tokens"]
            assert complete.completion_tokens == len(ids) and complete.index == theirs["index"]
            for at_end in (end, complete):
                stop = getattr(at_end, at_end.WhichOneof("matched_stop") or "", None)
                assert stop == theirs["stop_reason"], (stop, theirs)
            assert values(logprobs) == values([complete.output_logprobs])
            want = (theirs["logprobs"] or {}).get("token_logprobs") or []
            got = values(logprobs)[0]
            assert len(got) == len(want) and all(abs(a - b) <= 1e-5 * max(1, abs(b)) for a, b in zip(got, want)), (got, want)
            tops = [list(t.values()) for t in (theirs["logprobs"] or {}).get("top_logprobs") or []] if params.get("logprobs") else []
            assert len(values(logprobs)[1]) == len(tops)
            for top, want in zip(values(logprobs)[1], tops):
                assert top and all(abs(a - b) <= 1e-5 * max(1, abs(b)) for a, b in zip(top, want)), (top, want)
    cluster.quiet()
    return f"{2 * len(CASES)} calls"


def defaults_are_vllms(cluster, client):
    """Without max_tokens the rest of the context, which also ends what asks for more; without sampling_params temperature 1, n 1; a
    prompt is cut before it is too long."""
    context = cluster.workers()[0]["context"]
    for params in ({}, {"max_tokens": 8}, {"max_tokens": 100000}):
        ids, _, end = gather(client.Generate(question(prompt=[7] * (context - 7), ignore_eos=True, **params)))[0]
        assert len(ids) == 7 and end.finish_reason == "length", (params, len(ids), end)
    end = gather(client.Generate(question(prompt=[7] * 150000 + PROMPT, truncate_prompt_tokens=8, max_tokens=3)))[0][2]
    assert end.prompt_tokens == 8, end
    stream = client.Generate(question(ignore_eos=True))
    ids = []
    for response in stream:
        ids += response.chunk.token_ids
        if len(ids) > 500:
            break
    stream.cancel()
    assert len(ids) > 500 and ids == hash_answer(PROMPT, len(ids))
    bare = pb.GenerateRequest(tokenized=pb.TokenizedInput(input_ids=PROMPT), stream=True)
    first = next(iter(client.Generate(bare)))
    assert first.chunk.index == 0
    cluster.quiet()


def what_is_not_served_is_refused(cluster, client):
    rows = (
        (question(json_schema="{"), "json_schema"), (question(regex="("), "regex"), (question(grammar="root ::= a"), "grammar"),
        (question(structural_tag="{}"), "structural_tag"), (question(choice=pb.ChoiceConstraint(choices=[""])), "guided_choice"),
        (question(prompt_logprobs=1), "prompt_logprobs"), (question(logprobs=-1), "logprobs"), (question(n=65), "n"),
        (question(temperature=-1), "temperature"), (question(logit_bias={-1: 1.0}), "logit_bias"), (question(prompt=[]), "prompt"),
        (pb.GenerateRequest(), "prompt"), (pb.GenerateRequest(text="x", kv_transfer_params_json="{}"), "kv_transfer_params_json"),
        (pb.GenerateRequest(text="x", mm_inputs=pb.MultimodalInputs()), "mm_inputs"),
        (pb.GenerateRequest(text="x", media_refs=pb.MediaRefs()), "media_refs"),
    )
    for request, words in rows:
        try:
            list(client.Generate(request))
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT and words in error.details(), (words, error)
            continue
        raise AssertionError(request)
    for call in (lambda: client.FlushCache(common_pb2.FlushCacheRequest()), lambda: client.Embed(pb.EmbedRequest()),
                 lambda: list(client.GetTokenizer(common_pb2.GetTokenizerRequest()))):
        try:
            call()
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error
            continue
        raise AssertionError(call)
    return f"{len(rows)} requests"


def the_engine_tells_of_itself(cluster, client):
    model = client.GetModelInfo(pb.GetModelInfoRequest())
    assert model.served_model_name == "hash" and model.is_generation and model.vocab_size > 65000, model
    assert model.max_context_length == cluster.workers()[0]["context"], model
    assert client.HealthCheck(pb.HealthCheckRequest()).healthy
    info = client.GetServerInfo(pb.GetServerInfoRequest())
    assert info.server_type == "tandem" and info.uptime_seconds > 0 and not info.is_paused, info
    stream = client.Generate(question(max_tokens=60000, ignore_eos=True))
    next(stream)
    eventually(lambda: client.GetLoads(pb.GetLoadsRequest()).loads[0].token_usage > 0, "blocks are in use")
    load = client.GetLoads(pb.GetLoadsRequest()).loads[0]
    assert load.num_running_reqs == load.num_total_reqs == 1 and load.num_waiting_reqs == 0, load
    assert client.GetServerInfo(pb.GetServerInfoRequest()).active_requests == 1
    stream.cancel()
    cluster.quiet()
    assert client.GetLoads(pb.GetLoadsRequest()).loads[0].token_usage == 0


def a_call_is_aborted_by_its_id(cluster, client):
    requests = [question(max_tokens=60000, ignore_eos=True) for _ in range(3)]
    for request, name in zip(requests, ("one", "two", "two")):
        request.request_id = name
    streams = [client.Generate(request) for request in requests]
    for stream in streams:
        next(stream)
    client.Abort(pb.AbortRequest(request_ids=["nobody", "", "two"]))
    for stream in streams[1:]:
        try:
            list(stream)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.CANCELLED and "aborted" in error.details(), error
            continue
        raise AssertionError("it went on")
    eventually(lambda: sum(w["sequences"]["running"] for w in cluster.workers()) == 1, "the aborted are gone, the other is not")
    assert next(streams[0]).chunk.token_ids
    streams[0].cancel()
    cluster.quiet()


def many_at_once(cluster, client):
    wrong = []

    def one(seed):
        prompt = [seed + 300, 7]
        found = gather(client.Generate(question(prompt=prompt, max_tokens=100, ignore_eos=True)))
        if found[0][0] != hash_answer(prompt, 100):
            wrong.append(seed)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong, wrong


def main() -> int:
    tally = Tally()
    with Cluster("--mixed", 2, "--step-us", 1000) as cluster, grpc.insecure_channel(f"127.0.0.1:{cluster.port}") as wire:
        for test in (calls_equal_their_twins, defaults_are_vllms, what_is_not_served_is_refused, the_engine_tells_of_itself,
                     a_call_is_aborted_by_its_id, many_at_once):
            tally.run(test.__name__, test, cluster, services.VllmEngineStub(wire))
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
