#!/usr/bin/env python3
"""Anthropic's Messages API, with its own package and without: text, blocks of calls and results, streams event by event, counts,
stops, cut and prefilled answers, forms, and errors in its words; and the same prompt and answer as the chat that asks for the same."""
import json
import sys
import tempfile
from pathlib import Path

from cluster import Cluster, Skip, Tally, post_json, request

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import tools_test as tools  # noqa: E402

KEYS = {"anthropic-version": "2023-06-01", "x-api-key": "none"}
TOOLS = [{"name": t["function"]["name"], "description": "does it", "input_schema": t["function"]["parameters"], "cache_control": {"type": "ephemeral"}}
         for t in tools.TOOLS]
SAID = [{"role": "user", "content": [{"type": "text", "text": "What "}, {"type": "text", "text": "now?", "cache_control": {"type": "ephemeral"}}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "text", "text": "See:"},
                                          {"type": "tool_use", "id": "toolu_1", "name": "get", "input": {"zone": "UTC"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "12:00"}]},
                                     {"type": "text", "text": "So?"}]}]


def post(port, body, want=200, path="/v1/messages"):
    status, headers, reply = request(port, "POST", path, body, headers=KEYS)
    assert status == want, (status, reply)
    return json.loads(reply)


def events(port, body):
    """(name, data) of a stream; each name is its data's type."""
    status, headers, reply = request(port, "POST", "/v1/messages", {**body, "stream": True}, headers=KEYS)
    assert status == 200 and dict((k.lower(), v) for k, v in dict(headers).items())["content-type"].startswith("text/event-stream"), (status, headers, reply[:300])
    got = []
    for block in reply.decode().strip().split("\n\n"):
        name, data = block.split("\n")
        got.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
        assert got[-1][0] == got[-1][1]["type"], block
    return got


def put_together(got):
    """The message that a stream's events make, as clients make it."""
    assert got[0][0] == "message_start" and got[-2][0] == "message_delta" and got[-1][0] == "message_stop", [name for name, _ in got]
    message, inputs, is_open = got[0][1]["message"], {}, False
    for name, data in got[1:-2]:
        if name == "content_block_start":
            assert data["index"] == len(message["content"]) and not is_open
            message["content"].append(data["content_block"])
            is_open = True
        elif name == "content_block_delta":
            assert is_open and data["index"] == len(message["content"]) - 1
            delta = data["delta"]
            if delta["type"] in ("text_delta", "thinking_delta"):
                name = delta["type"].removesuffix("_delta")
                message["content"][-1][name] += delta[name]
            else:
                inputs[data["index"]] = inputs.get(data["index"], "") + delta["partial_json"]
        elif name == "content_block_stop":
            assert is_open and data["index"] == len(message["content"]) - 1
            is_open = False
        else:
            assert name == "ping", name
    assert not is_open
    for index, text in inputs.items():
        message["content"][index]["input"] = json.loads(text)
    message.update(got[-2][1]["delta"])
    message["usage"].update(got[-2][1]["usage"])
    return message


def without_ids(message):
    return {**message, "id": None, "content": [{**block, "id": None} for block in message["content"]], "usage": message["usage"]["output_tokens"]}


def text_answers(_):
    body = {"model": "hash", "max_tokens": 12, "messages": [{"role": "user", "content": "Hello"}], "system": "Be kind.", "metadata": {"user_id": "u"}}
    chat = {"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}], "max_tokens": 12}
    with Cluster("--mixed", 1) as cluster:
        wanted = post_json(cluster.port, "/v1/chat/completions", chat)
        got = post(cluster.port, body)
        assert got["content"] == [{"type": "text", "text": wanted["choices"][0]["message"]["content"]}], (got, wanted)
        assert got["stop_reason"] == "max_tokens" and got["stop_sequence"] is None and got["type"] == "message" and got["role"] == "assistant", got
        n = wanted["usage"]["prompt_tokens"]
        usage = got["usage"]
        assert usage["input_tokens"] + usage["cache_read_input_tokens"] == n and usage["output_tokens"] == 12, (usage, wanted["usage"])
        assert without_ids(put_together(events(cluster.port, body))) == without_ids(got)
        assert post(cluster.port, {**body, "max_tokens": None}, path="/v1/messages/count_tokens") == {"input_tokens": n}
        text = got["content"][0]["text"]
        stopped = post(cluster.port, {**body, "stop_sequences": [text[5:8]]})
        assert stopped["stop_reason"] == "stop_sequence" and stopped["stop_sequence"] == text[5:8], stopped
        assert stopped["content"][0]["text"] == text[:text.index(text[5:8])]
        prefilled = post(cluster.port, {**body, "messages": body["messages"] + [{"role": "assistant", "content": text[:4]}], "max_tokens": 8})
        assert prefilled["content"][0]["type"] == "text" and prefilled["usage"]["output_tokens"] == 8
        return f"{len(text)} characters"


def calls(folder):
    with Cluster("--mixed", 1, model=str(folder)) as cluster:
        body = {"model": "special-False", "max_tokens": 400, "messages": SAID, "tools": TOOLS, "temperature": 0, "tool_choice": {"type": "any"}}
        got = post(cluster.port, body)
        assert got["stop_reason"] in ("tool_use", "max_tokens") and {b["type"] for b in got["content"]} == {"tool_use"}, got
        named = post(cluster.port, {**body, "tool_choice": {"type": "tool", "name": "get", "disable_parallel_tool_use": True}})
        assert [b["name"] for b in named["content"]] == ["get"] and named["stop_reason"] == "tool_use", named
        assert set(named["content"][0]["input"]) == {"zone"}
        streamed = put_together(events(cluster.port, {**body, "tool_choice": {"type": "tool", "name": "get"}}))
        assert without_ids(streamed) == without_ids(named), (streamed, named)
        cut = post(cluster.port, {**body, "max_tokens": 40, "tool_choice": {"type": "tool", "name": "get_weather"}})
        assert cut["stop_reason"] == "max_tokens" and cut["content"] == [] or cut["content"][0]["input"] == {}, cut
        form = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"], "additionalProperties": False}
        shaped = post(cluster.port, {**body, "tools": None, "tool_choice": None, "output_config": {"format": {"type": "json_schema", "schema": form}}})
        assert json.loads(shaped["content"][0]["text"])["a"] in "xy", shaped
        ids = post_json(cluster.port, "/tokenize", {"messages": [
            {"role": "user", "content": "What \nnow?"}, {"role": "assistant", "content": "See:", "reasoning_content": "hm", "tool_calls": [
                {"id": "toolu_1", "type": "function", "function": {"name": "get", "arguments": {"zone": "UTC"}}}]},
            {"role": "tool", "tool_call_id": "toolu_1", "content": "12:00"}, {"role": "user", "content": "So?"}]})["count"]
        assert post(cluster.port, {"model": "special-False", "messages": SAID}, path="/v1/messages/count_tokens")["input_tokens"] == ids


def what_is_refused(folder):
    user = [{"role": "user", "content": "x"}]
    cases = [({"messages": user}, "max_tokens"), ({"messages": [], "max_tokens": 1}, "messages"), ({"max_tokens": 1, "messages": [{"role": "tool", "content": "x"}]}, "role"),
             ({"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "image"),
             ({"max_tokens": 1, "messages": [{"role": "user"}]}, "content"), ({"max_tokens": 1, "messages": [{"role": "user", "content": []}]}, "messages"),
             ({"max_tokens": 1, "messages": [{"role": "assistant", "content": [{"type": "tool_use", "name": "f"}]}]}, "id"),
             ({"max_tokens": 1, "messages": user, "system": 5}, "system"), ({"max_tokens": 1, "messages": user, "tool_choice": {"type": "some"}}, "tool_choice"),
             ({"max_tokens": 1, "messages": user, "tools": [{"type": 7, "name": "bash"}]}, "tools[0].type"),
             ({"max_tokens": 1, "messages": user, "tools": [{"type": "bash_20250124", "name": "bash"}], "tool_choice": {"type": "tool", "name": "bash"}}, "bash"),
             ({"max_tokens": 1, "messages": user, "mcp_servers": []}, "mcp_servers"), ({"max_tokens": 1, "messages": user, "temperature": -1}, "temperature"),
             ({"max_tokens": 1, "messages": user, "output_config": {"format": {"type": "regex"}}}, "json_schema"),
             ({"max_tokens": 1, "messages": user, "output_format": {"type": "regex"}}, "json_schema"),
             ({"max_tokens": 1, "messages": user, "output_config": {}, "output_format": {"type": "regex"}}, "json_schema"),
             ({"max_tokens": 1, "messages": user, "output_config": {"format": None}, "output_format": 5}, "output_format"),
             ({"max_tokens": 1, "messages": user, "tools": [5], "tool_choice": {"type": "none"}}, "tools")]
    with Cluster("--mixed", 1, model=str(folder)) as cluster:
        for body, word in cases:
            error = post(cluster.port, {"model": "special-False", **body}, want=400)
            assert error["type"] == "error" and error["error"]["type"] == "invalid_request_error" and word in error["error"]["message"], (body, error)
        assert post(cluster.port, {"model": "other", "max_tokens": 1, "messages": user}, want=404)["error"]["type"] == "not_found_error"


def of_a_client(folder):
    try:
        import anthropic
    except ImportError as error:
        raise Skip(f"the Python package anthropic cannot be imported ({error})") from error
    with Cluster("--mixed", 1, model=str(folder)) as cluster, \
            anthropic.Anthropic(base_url=f"http://127.0.0.1:{cluster.port}", api_key="none", max_retries=0, timeout=120) as client:
        asked = dict(model="special-False", max_tokens=400, messages=SAID, tools=TOOLS, extra_body={"temperature": 0}, tool_choice={"type": "tool", "name": "get"})
        message = client.messages.create(**asked)
        assert message.stop_reason == "tool_use" and message.content[0].name == "get", message
        with client.messages.stream(**asked) as stream:
            final = stream.get_final_message()
        assert final.content[0].input == message.content[0].input and final.stop_reason == "tool_use", (final, message)
        assert client.messages.count_tokens(model="special-False", messages=SAID).input_tokens > 10
        later = SAID + [{"role": "assistant", "content": message.content},
                        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": message.content[0].id, "content": "fine"}]}]
        assert client.messages.create(**{**asked, "messages": later, "tool_choice": {"type": "none"}, "max_tokens": 5}).content[0].type == "text"
        try:
            client.messages.create(**{**asked, "max_tokens": 0})
            raise AssertionError("max_tokens 0 was taken")
        except anthropic.BadRequestError as error:
            assert error.body["error"]["type"] == "invalid_request_error", error.body


def thoughts_of_a_client(_):
    """What is thought before a text, a form and a call, whole and event by event; and sent back, in the next turn."""
    try:
        import anthropic
    except ImportError as error:
        raise Skip(f"the Python package anthropic cannot be imported ({error})") from error
    import thoughts
    kinds = set()
    with tempfile.TemporaryDirectory() as name:
        folder = thoughts.model(Path(name) / "thoughts-True", True)
        with Cluster("--mixed", 1, model=str(folder)) as cluster, \
                anthropic.Anthropic(base_url=f"http://127.0.0.1:{cluster.port}", api_key="none", max_retries=0, timeout=120) as client:
            form = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"], "additionalProperties": False}
            for more in ({}, {"output_config": {"format": {"type": "json_schema", "schema": form}}}, {"tools": TOOLS, "tool_choice": {"type": "tool", "name": "get"}}):
                def ask(i):
                    return dict(model="thoughts-True", max_tokens=600, messages=[{"role": "user", "content": "What now?"}],
                                thinking={"type": "enabled", "budget_tokens": 1024}, extra_body={"seed": i, "logit_bias": thoughts.OFTEN, "chat_template_kwargs": {"opens": True}}, **more)

                # Some thoughts are empty, others do not end.
                asked, whole = next((ask(i), got) for i in range(40) if len((got := client.messages.create(**ask(i))).content) == 2)
                with client.messages.stream(**asked) as stream:
                    seen = {event.type for event in stream}
                    final = stream.get_final_message()
                assert seen >= {"thinking", "content_block_start", "content_block_stop", "message_stop"}, seen
                without = {"id", "parsed_output"}
                assert [b.model_dump(exclude=without) for b in final.content] == [b.model_dump(exclude=without) for b in whole.content], (final, whole)
                thought, block = whole.content
                kinds |= {thought.type, block.type}
                if more and whole.stop_reason != "max_tokens":
                    assert json.loads(block.text)["a"] in "xy" if block.type == "text" else set(block.input) == {"zone"}, whole
                said = [*asked["messages"], {"role": "assistant", "content": whole.content}, {"role": "user", "content": "So?"}]
                assert client.messages.count_tokens(model="thoughts-True", messages=said).input_tokens > whole.usage.output_tokens / 2
                quiet = client.messages.create(**{**asked, "thinking": {"type": "disabled"}, "extra_body": {"seed": 1}})
                assert quiet.content[0].type != "thinking", quiet
        assert kinds == {"thinking", "text", "tool_use"}, kinds
        return ", ".join(sorted(kinds))


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "special-False"
        tally.run("text", text_answers, None)
        try:
            tools.model(folder, False)
        except Skip as skip:
            tally.skip("calls", str(skip))
            sys.exit(tally.end())
        tally.run("calls", calls, folder)
        tally.run("what is refused", what_is_refused, folder)
        tally.run("the anthropic package", of_a_client, folder)
        tally.run("the anthropic package: thoughts", thoughts_of_a_client, None)
    sys.exit(tally.end())


if __name__ == "__main__":
    main()
