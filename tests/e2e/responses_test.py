#!/usr/bin/env python3
"""OpenAI's Responses API, with its own package and without: texts, thoughts, calls of functions and custom tools, whole and streamed
to the same items, every event of the package's types and with no member that they do not have; forms, log-probabilities, errors; and a
coding agent's three turns, each of whose prompts begins with the one before."""
import contextlib
import http.client
import json
import re
import sys
import tempfile
from pathlib import Path

from cluster import Cluster, Skip, Tally, eventually, post_json, request

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import thoughts as thinking  # noqa: E402
import tools_test as tools  # noqa: E402

PATH = "/v1/responses"
TOOLS = [{"type": "function", **tool["function"], "strict": True} for tool in tools.TOOLS]
PATCH = {"type": "custom", "name": "apply_patch", "description": "edits files", "format": {"type": "grammar", "syntax": "lark", "definition": """
start: begin hunk+ end
begin: "*** Begin Patch" LF
end: "*** End Patch" LF?
hunk: "*** Add File: " name LF ("+" /[a-z ]{0,12}/ LF)+ | "*** Delete File: " name LF
name: /[a-z]{1,8}/
%import common.LF
"""}}
PATCH_LIKE = r"\*\*\* Begin Patch\n(\*\*\* Add File: [a-z]{1,8}\n(\+[a-z ]{0,12}\n)+|\*\*\* Delete File: [a-z]{1,8}\n)+\*\*\* End Patch\n?"


def post(port, body, want=200):
    return post_json(port, PATH, body, want=want, timeout=300)


def events(port, body):
    """The data of a stream, each under its own type and number."""
    status, headers, reply = request(port, "POST", PATH, {**body, "stream": True}, timeout=300)
    assert status == 200 and dict((k.lower(), v) for k, v in headers.items())["content-type"].startswith("text/event-stream"), (status, headers, reply[:300])
    got = []
    for block in reply.decode().strip().split("\n\n"):
        name, data = (line for line in block.split("\n") if line != ": ping")
        got.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {got[-1]['type']}" and got[-1]["sequence_number"] == len(got) - 1, block
    return got


def put_together(got):
    """The response that the events make, as clients make it, which is that of the last one."""
    assert [event["type"] for event in got[:2]] == ["response.created", "response.in_progress"], got[:2]
    assert got[0]["response"]["output"] == [] and got[0]["response"]["status"] == "in_progress"
    items, text = [], None
    for event in got[2:-1]:
        kind = event["type"].removeprefix("response.")
        if kind == "output_item.added":
            assert event["output_index"] == len(items) and text is None
            items.append(event["item"])
            text = ""
        elif kind == "output_item.done":
            assert event["item"]["id"] == items[-1]["id"]
            items[-1], text = event["item"], None
        else:
            assert event["item_id"] == items[-1]["id"] and event["output_index"] == len(items) - 1, event
            if kind.endswith(".delta"):
                text += event["delta"]
            elif kind == "content_part.added":
                assert event["part"]["text"] == ""
            elif kind == "content_part.done":
                assert event["part"]["text"] == text
            else:
                assert kind.endswith(".done") and text == event.get("text", event.get("arguments", event.get("input"))), event
    last = got[-1]
    assert text is None and last["type"] == f"response.{last['response']['status']}" and last["response"]["output"] == items, (items, last)
    return last["response"]


def without_ids(response):
    """What is the same of two answers to one request."""
    items = [{key: value for key, value in item.items() if key not in ("id", "call_id")} for item in response["output"]]
    return {**response, "id": None, "created_at": None, "output": items, "usage": {**response["usage"], "input_tokens_details": None}}


def both(port, body):
    """The whole reply, which the streamed one equals."""
    whole = post(port, body)
    assert without_ids(put_together(events(port, body))) == without_ids(whole), body
    return whole


def text_answers(_):
    with Cluster("--mixed", 1) as cluster:
        chat = {"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}], "max_tokens": 12, "logprobs": True, "top_logprobs": 2}
        asked = {"model": "hash", "input": "Hello", "instructions": "Be kind.", "max_output_tokens": 12, "store": True, "metadata": {"a": "b"}, "x": 1}
        wanted, got = post_json(cluster.port, "/v1/chat/completions", chat), both(cluster.port, asked)
        message, = got["output"]
        text = wanted["choices"][0]["message"]["content"]
        assert message["content"] == [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}] and message["status"] == "incomplete", message
        assert got["incomplete_details"] == {"reason": "max_output_tokens"} and got["status"] == "incomplete" and got["metadata"] == {"a": "b"}, got
        assert got["usage"]["input_tokens"] == wanted["usage"]["prompt_tokens"] and got["usage"]["output_tokens"] == 12, got["usage"]
        listed = both(cluster.port, {**asked, "input": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}],
                                     "instructions": None, "include": ["message.output_text.logprobs"], "top_logprobs": 2})
        part = listed["output"][0]["content"][0]
        assert part["text"] == text and part["logprobs"] == wanted["choices"][0]["logprobs"]["content"], part
        stopped = both(cluster.port, {**asked, "stop": text[5:8]})
        assert stopped["status"] == "completed" and stopped["output"][0]["content"][0]["text"] == text[:text.index(text[5:8])], stopped
        cluster.logged("unknown field ignored.*field=x$")
        cluster.logged("request done.* id=resp_[0-9a-f]{16} .*dialect=responses .*status=200")
        assert b'dialect="responses"' in request(cluster.port, "GET", "/metrics")[2]
        return f"{len(text)} characters"


def as_other_doors(_):
    """Keys and their limits, a deadline in mid-stream, HTTP/2, the list of calls that live, and a client that leaves."""
    with tempfile.TemporaryDirectory() as name:
        keys, admins = Path(name) / "keys", Path(name) / "admins"
        keys.write_text("one concurrent=1\n")
        admins.write_text("boss\n")
        admins.chmod(0o600)
        with Cluster("--mixed", 1, "--step-us", 5000, "--api-keys", keys, "--admin-keys", admins) as cluster:
            mine, long = {"Authorization": "Bearer one"}, {"input": "x", "max_output_tokens": 60000, "ignore_eos": True, "stream": True}

            def ask(body, headers, path=PATH, method="POST"):
                status, _, reply = request(cluster.port, method, path, body, headers=headers)
                return status, reply

            status, reply = ask({"input": "x"}, {})
            assert status == 401 and json.loads(reply)["error"]["code"] == "invalid_api_key", reply
            status, reply = ask({**long, "timeout": 0.5}, mine)
            got = [json.loads(line[6:]) for line in reply.decode().split("\n") if line.startswith("data: ")]
            assert status == 200 and [event["sequence_number"] for event in got] == list(range(len(got))), got
            assert [event["type"] for event in got[-2:]] == ["error", "response.failed"] and got[-2]["code"] == "deadline_exceeded", got[-2:]
            assert got[-1]["response"]["status"] == "failed" and got[-1]["response"]["error"]["code"] == "server_error", got[-1]
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=120)) as leaves:
                leaves.request("POST", PATH, json.dumps(long), {"Content-Type": "application/json", **mine})
                assert leaves.getresponse().status == 200
                status, reply = ask({"input": "x"}, mine)
                assert status == 429 and json.loads(reply)["error"]["code"] == "rate_limit_exceeded", reply
                calls = json.loads(ask(None, {"Authorization": "Bearer boss"}, "/admin/requests", "GET")[1])["requests"]
                assert [call["dialect"] for call in calls] == ["responses"], calls
            body = {"input": "x", "max_output_tokens": 5}
            eventually(lambda: ask(body, mine)[0] == 200, "the place of the client that left")
            cluster.logged("request done.* dialect=responses .*status=499")
            try:
                import h2  # noqa: F401
                import httpx
            except ImportError:
                return "without HTTP/2"
            with httpx.Client(http1=False, http2=True, headers=mine, timeout=120) as client:
                over = client.post(f"http://127.0.0.1:{cluster.port}{PATH}", json=body)
                assert over.http_version == "HTTP/2" and without_ids(over.json()) == without_ids(json.loads(ask(body, mine)[1])), over.text
    return None


def calls(cluster):
    asked = {"model": "m", "input": "What now?", "tools": TOOLS + [PATCH, {"type": "web_search"}], "max_output_tokens": 600, "temperature": 1, "seed": 1}
    asked["model"] = post_json(cluster.port, PATH, {"input": "x", "max_output_tokens": 1})["model"]
    named = both(cluster.port, {**asked, "tool_choice": {"type": "function", "name": "get"}})
    call, = named["output"]
    assert call["type"] == "function_call" and call["name"] == "get" and re.fullmatch("[A-Z]{3}", json.loads(call["arguments"])["zone"]), named
    patch = both(cluster.port, {**asked, "tool_choice": {"type": "custom", "name": "apply_patch"}})
    assert [item["type"] for item in patch["output"]] == ["custom_tool_call"] and (
        patch["status"] == "incomplete" or re.fullmatch(PATCH_LIKE, patch["output"][0]["input"])), patch
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "get"}]}
    several = both(cluster.port, {**asked, "tool_choice": allowed, "parallel_tool_calls": True})
    assert {item["name"] for item in several["output"]} == {"get"}, several
    assert cluster.logged("web_search")
    cut = both(cluster.port, {**asked, "tool_choice": {"type": "function", "name": "get_weather"}, "max_output_tokens": 45})
    assert cut["status"] == "incomplete" and cut["output"][0]["status"] == "incomplete", cut
    form = {"type": "json_schema", "name": "f", "schema": {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"], "additionalProperties": False}}
    shaped = both(cluster.port, {**asked, "tools": [], "text": {"format": form, "verbosity": "low"}})
    assert json.loads(shaped["output"][0]["content"][0]["text"])["a"] in "xy" and shaped["text"] == {"format": form, "verbosity": "low"}, shaped
    return f"a patch of {len(patch['output'][0]['input'])} characters"


def agent_turns(cluster):
    """Three turns of a coding agent: what it sends is what it was answered, and what its tools said; each prompt begins with the one before."""
    said = [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Sandbox: read-only."}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Add a file."}]}]
    shell = {"type": "function", "name": "shell", "description": "runs it", "strict": False, "parameters": {
        "type": "object", "properties": {"command": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]{1,8}$"}, "minItems": 1, "maxItems": 3}}, "required": ["command"]}}
    asked = {"model": post_json(cluster.port, PATH, {"input": "x", "max_output_tokens": 1})["model"], "instructions": "You are a coding agent. " * 8, "input": said,
             "tools": [shell, PATCH, {"type": "web_search", "external_web_access": False}, {"type": "local_shell"}, {"type": "namespace", "name": "n", "tools": []}],
             "tool_choice": "auto", "parallel_tool_calls": False, "reasoning": {"effort": "medium", "summary": "auto"}, "store": False, "stream": True,
             "include": ["reasoning.encrypted_content"], "prompt_cache_key": "0199-a", "text": {"verbosity": "medium"}}
    assert len(asked) == 12
    n_before = n_patches = 0
    for turn, choice in enumerate(({"type": "custom", "name": "apply_patch"}, {"type": "function", "name": "shell"}, {"type": "custom", "name": "apply_patch"})):
        response = put_together(events(cluster.port, {**asked, "tool_choice": choice, "seed": turn, "max_output_tokens": 900}))
        usage = response["usage"]
        assert usage["input_tokens_details"]["cached_tokens"] >= n_before // 16 * 16, (turn, n_before, usage)
        assert usage["input_tokens"] > n_before
        n_before = usage["input_tokens"]
        for item in response["output"]:
            said.append({key: value for key, value in item.items() if key not in ("id", "status")})
            if item["type"] == "custom_tool_call":
                assert response["status"] == "incomplete" or re.fullmatch(PATCH_LIKE, item["input"]), item
                n_patches += response["status"] == "completed"
                said.append({"type": "custom_tool_call_output", "call_id": item["call_id"], "output": "Done!"})
            elif item["type"] == "function_call":
                said.append({"type": "function_call_output", "call_id": item["call_id"], "output": [{"type": "input_text", "text": "a.py"}]})
    assert n_patches >= 1 and {item["type"] for item in said} >= {"message", "custom_tool_call", "custom_tool_call_output", "function_call", "function_call_output"}, said
    return f"{n_before} tokens at last, {n_patches} patches"


def thoughts(folder):
    """What is thought is an item; sent back, sealed or not, it is the same prompt."""
    with Cluster("--mixed", 1, model=str(folder)) as cluster:
        asked = {"input": "Why?", "max_output_tokens": 600, "temperature": 1, "include": ["reasoning.encrypted_content"],
                 "tools": TOOLS, "tool_choice": {"type": "function", "name": "get"}, "logit_bias": thinking.OFTEN, "chat_template_kwargs": {"opens": True}}
        seed = next(seed for seed in range(50) if post(cluster.port, {**asked, "seed": seed})["output"][0]["type"] == "reasoning")
        got = both(cluster.port, {**asked, "seed": seed})
        thought = got["output"][0]
        assert thought["type"] == "reasoning" and thought["summary"] == [] and thought["content"][0]["text"], got
        assert thought["encrypted_content"] == "thought:" + thought["content"][0]["text"], thought
        assert got["status"] == "incomplete" or [item["type"] for item in got["output"]] == ["reasoning", "function_call"], got
        plain = put_together(events(cluster.port, {**asked, "seed": seed, "include": []}))
        assert plain["output"][0]["encrypted_content"] is None and plain["output"][0]["content"] == thought["content"], plain
        counts = set()
        for kept in ("content", "encrypted_content"):
            item = {"type": "reasoning", "summary": [], kept: thought[kept]}
            reply = post(cluster.port, {"input": [{"role": "user", "content": "Why?"}, item, {"role": "assistant", "content": "So."}, {"role": "user", "content": "So?"}], "max_output_tokens": 1})
            counts.add(reply["usage"]["input_tokens"])
        assert len(counts) == 1, counts
        return f"{len(thought['content'][0]['text'])} characters, {got['usage']['output_tokens_details']}"


def what_is_refused(cluster):
    cases = [({}, 400, "input"), ({"input": "x", "previous_response_id": "resp_1"}, 400, "previous_response_id"), ({"input": "x", "background": True}, 400, "background"),
             ({"input": "x", "conversation": "c"}, 400, "conversation"), ({"input": "x", "n": 2}, 400, "n"), ({"input": "x", "model": "other"}, 404, "model"),
             ({"input": "x", "max_output_tokens": 0}, 400, "max_output_tokens"), ({"input": "x", "tools": [{"type": "function", "name": "a b"}]}, 400, "tools[0].function.name"),
             ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, 400, "input[0].content[0].type"),
             ({"input": "x", "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "strong"}}}}, 400, "text.format.schema"),
             ({"input": "x" * 70000}, 400, "messages")]
    for body, status, param in cases:
        for stream in (False, True):
            error = post(cluster.port, {**body, "stream": stream}, want=status)["error"]
            assert error["param"] == param and error["type"] == "invalid_request_error" and error["message"], (body, error)
    assert "nothing is stored" in post(cluster.port, cases[1][0], want=400)["error"]["message"]


def exact(value, where=""):
    """No member of these objects is one that the package's types do not have. Its types of deltas leave out a token's bytes, which those of parts have."""
    if hasattr(value, "model_extra"):
        extra = set(value.model_extra or ()) - {"bytes"}
        assert not extra, (where, type(value).__name__, extra)
        for name in type(value).model_fields:
            exact(getattr(value, name), f"{where}.{name}")
    elif isinstance(value, (list, tuple)):
        for i, entry in enumerate(value):
            exact(entry, f"{where}[{i}]")


def of_a_client(cluster):
    try:
        import openai
        import pydantic
        from openai.types.responses import Response, ResponseStreamEvent
    except ImportError as error:
        raise Skip(f"the Python package openai cannot be imported ({error})") from error
    one, each = pydantic.TypeAdapter(Response), pydantic.TypeAdapter(ResponseStreamEvent)
    with openai.OpenAI(base_url=f"http://127.0.0.1:{cluster.port}/v1", api_key="none", max_retries=0, timeout=300) as client:
        asked = dict(model=client.models.list().data[0].id, input="What now?", temperature=1, max_output_tokens=500, extra_body={"seed": 2})
        kinds = [dict(), dict(include=["message.output_text.logprobs"], top_logprobs=2, max_output_tokens=20),
                 dict(tools=TOOLS, tool_choice="required"), dict(tools=[*TOOLS, PATCH], tool_choice={"type": "custom", "name": "apply_patch"}),
                 dict(text={"format": {"type": "json_schema", "name": "f", "strict": True, "schema": tools.CLOCK}}, metadata={"k": "v"}, instructions="i")]
        names = set()
        for kind in kinds:
            raw = client.responses.with_raw_response.create(**{**asked, **kind})
            whole = raw.parse()
            exact(one.validate_python(json.loads(raw.text if isinstance(raw.text, str) else raw.text())))
            streamed = list(client.responses.create(**{**asked, **kind}, stream=True))
            for event in streamed:
                data = event.model_dump(mode="json", by_alias=True, exclude_unset=True)
                valid = each.validate_python(data)
                assert type(valid) is type(event), (type(valid), type(event))
                exact(valid)
                names.add(event.type)
            assert without_ids(streamed[-1].response.model_dump()) == without_ids(whole.model_dump()), (streamed[-1], whole)
            with client.responses.stream(**{**asked, **kind}) as stream:
                for _ in stream:
                    pass
                if whole.status == "completed":
                    assert stream.get_final_response().output_text == whole.output_text
        assert len(names) >= 12, names
        first = client.responses.create(**{**asked, **kinds[2]})
        said = [{"role": "user", "content": "What now?"}, *first.output]
        said += [{"type": "function_call_output", "call_id": item.call_id, "output": "fine"} for item in first.output]
        assert client.responses.create(**{**asked, "input": said, "max_output_tokens": 5}).output[0].type == "message"
        parsed = client.responses.parse(**{**asked, "text_format": Zone})
        assert parsed.output_parsed is None or re.fullmatch("[A-Z]{3}", parsed.output_parsed.zone), parsed
        for wrong, status in ((dict(previous_response_id="resp_1"), openai.BadRequestError), (dict(model="other"), openai.NotFoundError)):
            try:
                client.responses.create(**{**asked, **wrong})
                raise AssertionError(f"{wrong} was taken")
            except status as error:
                assert error.param in wrong, error.body
        return f"{len(names)} kinds of events"


try:
    import pydantic

    class Zone(pydantic.BaseModel):
        zone: str = pydantic.Field(pattern="^[A-Z]{3}$")
except ImportError:
    Zone = None


def main():
    tally = Tally()
    tally.run("text", text_answers, None)
    tally.run("as other doors", as_other_doors, None)
    with tempfile.TemporaryDirectory() as name:
        try:
            folder = tools.model(Path(name) / "special-False", False)
            thoughtful = thinking.model(Path(name) / "thoughts-True", True)
        except Skip as skip:
            tally.skip("calls", str(skip))
            sys.exit(tally.end())
        with Cluster("--mixed", 1, model=str(folder)) as cluster:
            tally.run("calls", cluster.shown, calls)
            tally.run("a coding agent's turns", cluster.shown, agent_turns)
            tally.run("what is refused", cluster.shown, what_is_refused)
            tally.run("the openai package", cluster.shown, of_a_client)
        tally.run("thoughts", thoughts, thoughtful)
    sys.exit(tally.end())


if __name__ == "__main__":
    main()
