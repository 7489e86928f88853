#!/usr/bin/env python3
"""Tools that a model calls: a tiny model with the template and marks of Hermes calls what it must, with arguments that are valid by
jsonschema, at every temperature, whole and streamed to the same, several in an answer or one, and when its worker is killed in
the middle; what cannot be called is a 400 that names it; calls and their results of earlier turns reach the template, in every
form in which openai's package sends its own replies back."""
import argparse
import importlib.util
import json
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cluster import Cluster, Skip, Tally, eventually, post_json, request, stream_events

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

TEMPLATE = """{%- for t in tools or [] %}<tools>{{ t | tojson }}</tools>
{% endfor %}{%- for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}{% for c in m.tool_calls or [] %}
<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|endoftext|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
STRICT = """{%- for m in messages %}{% if 'tool_calls' in m and m.tool_calls | length != 1 %}{{ raise_exception('one call at a time') }}{% endif %}
{%- if m.name is defined or m.refusal is defined %}?{% endif %}<|{{ m.role }}|>{{ m.content or '' }}{% for c in m.tool_calls %}
<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}
{%- endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""  # asks whether a member is there, as Llama 3's does
MARKS = {"<tool_call>": 257, "</tool_call>": 258}
FORMATS = {"llama3": ["<|python_tag|>"], "mistral": ["[TOOL_CALLS]", "[ARGS]"], "mistral-id": ["[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"],
           "mistral-list": ["[TOOL_CALLS]"], "qwen3-coder": ["<tool_call>", "</tool_call>"], "chatglm3": []}  # its mark is what the template above writes
WEATHER = {"type": "object", "properties": {"city": {"enum": ["Paris", "Oslo"], "description": "which"}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
           "required": ["city", "days"], "additionalProperties": False}
CLOCK = {"type": "object", "properties": {"zone": {"type": "string", "pattern": "^[A-Z]{3}$"}}, "required": ["zone"], "additionalProperties": False}
SCHEMAS = {"get_weather": WEATHER, "get": CLOCK}
TOOLS = [{"type": "function", "function": {"name": name, "description": "does it", "parameters": schema}} for name, schema in SCHEMAS.items()]
os.environ.setdefault("TANDEM_THREADS", "1")  # two that share a core wait for each other; the answers have the same bits
USER = [{"role": "user", "content": "What now?"}]


def longer(config, _):
    config.update(max_position_embeddings=4096)


def model(folder, special, template=TEMPLATE, marks=MARKS, edit=longer, variant="qwen3"):
    """A token a byte, and the marks: special tokens, or tokens of text."""
    try:
        from tests.models import checkpoints
    except ImportError as error:
        raise Skip(f"the Python package numpy cannot be imported ({error})") from error
    checkpoints.write(folder, variant, "f32", edit=edit)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    for text, number in marks.items():
        tokenizer["added_tokens"].append({**tokenizer["added_tokens"][0], "id": number, "content": text, "special": special})
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    texts = {"eos_token": "<|endoftext|>", "add_bos_token": False, **({"chat_template": template} if template else {})}
    (folder / "tokenizer_config.json").write_text(json.dumps(texts))
    return folder


def body(**fields):
    return {"messages": USER, "tools": TOOLS, "max_tokens": 150, "temperature": 1, **fields}


def bodies():
    """Required ones, named ones, one of several and several of several; some that are cut."""
    for i in range(16):
        choice = ["required", {"type": "function", "function": {"name": ("get", "get_weather")[i // 4 % 2]}}, "required", "auto"][i % 4]
        yield body(tool_choice=choice, temperature=(0, 1, 2)[i % 3], seed=i, parallel_tool_calls=i % 2 == 0, n=1 + i % 2,
                   max_tokens=(300, 25)[i % 8 == 7])


def text_of(port, asked):
    """The prompt, as text."""
    tokens = post_json(port, "/tokenize", asked)["tokens"]
    return b"".join({257: b"<tool_call>", 258: b"</tool_call>", 256: b"<|endoftext|>"}.get(t, bytes([t]) if t < 256 else b"?") for t in tokens).decode()


INPUTS = {"function": "arguments", "custom": "input"}


def of_call(call):
    own = call[call["type"]]
    assert set(call) == {"id", "type", call["type"]} and set(own) == {"name", INPUTS[call["type"]]}, call
    return call["id"], call["type"], own["name"], own[INPUTS[call["type"]]]


def whole(port, wanted):
    return [(c["message"].get("content"), [of_call(t) for t in c["message"].get("tool_calls", [])], c["finish_reason"]) for c in post_json(port, "/v1/chat/completions", wanted, timeout=300)["choices"]]


def streamed(port, wanted, events=stream_events, on_piece=lambda: None):
    """As whole(), of the chunks of a stream, put together as clients do. on_piece: called with each part of arguments."""
    n = wanted["n"]
    content, calls, ends = [None] * n, [[] for _ in range(n)], [None] * n
    for event in events(port, "/v1/chat/completions", {**wanted, "stream": True}, timeout=300):
        for choice in json.loads(event)["choices"] if event != "[DONE]" else []:
            i, delta = choice["index"], choice["delta"]
            if delta.get("content") is not None:
                content[i] = (content[i] or "") + delta["content"]
            for part in delta.get("tool_calls", []):
                if part["index"] == len(calls[i]):
                    calls[i].append([part["id"], part["type"], part[part["type"]]["name"], ""])
                assert part["index"] == len(calls[i]) - 1, part
                calls[i][-1][3] += part[calls[i][-1][1]][INPUTS[calls[i][-1][1]]]
                on_piece()
            ends[i] = choice["finish_reason"] or ends[i]
    return [(c, [tuple(call) for call in k], e) for c, k, e in zip(content, calls, ends)]


def valid(wanted, got):
    import jsonschema
    for content, calls, end in got:
        choice = wanted["tool_choice"]
        if choice != "auto":
            assert content is None, content
        assert end in ("tool_calls", "length") if choice != "auto" else end in ("tool_calls", "stop", "length"), end
        assert len(calls) <= 1 or wanted["parallel_tool_calls"] and not isinstance(choice, dict), calls
        assert len({call[0] for call in calls}) == len(calls)
        for i, (_, kind, name, arguments) in enumerate(calls):
            assert kind == "function" and name in SCHEMAS
            assert not isinstance(choice, dict) or name == choice["function"]["name"]
            if end == "tool_calls" or i + 1 < len(calls):
                jsonschema.validate(json.loads(arguments), SCHEMAS[name])


def answers(port, ask):
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda wanted: ask(port, wanted), bodies()))


def of_a_model(folder):
    """Every answer is valid, the same whole and streamed, and while workers are killed."""
    with Cluster("--mixed", 2, model=str(folder)) as cluster:
        got = answers(cluster.port, whole)
        for wanted, one in zip(bodies(), got):
            valid(wanted, one)
        n_ended = sum(end == "tool_calls" for one in got for _, _, end in one)
        assert n_ended >= 8, got
        ids = [[(content, [call[1:] for call in calls], end) for content, calls, end in one] for one in got]
        again = answers(cluster.port, streamed)
        assert [[(c, [k[1:] for k in calls], e) for c, calls, e in one] for one in again] == ids, (again, got)
        with ThreadPoolExecutor(1) as pool:
            later = pool.submit(answers, cluster.port, streamed)
            time.sleep(0.5)
            os.kill(cluster.workers()[0]["pid"], signal.SIGKILL)
            again = later.result()
        assert [[(c, [k[1:] for k in calls], e) for c, calls, e in one] for one in again] == ids, (again, got)
        return f"{n_ended} answers that call"


def of_every_format(folder):
    """The options choose the format, its marks are special tokens: every answer is valid, and the same whole and streamed; custom tools, too."""
    model(folder, True, marks={mark: 257 + i for i, mark in enumerate(sorted({mark for marks in FORMATS.values() for mark in marks}))})
    n_calls = 0
    asked = list(bodies())[:4] + [body(tools=TOOLS + CUSTOM + [custom("say")], tool_choice=chosen(kind), seed=3, n=1, max_tokens=100) for kind in ("id", "say")]
    for name in FORMATS:
        with Cluster("--mixed", 1, "--tool-format", name, model=str(folder)) as cluster, ThreadPoolExecutor(len(asked)) as pool:
            assert cluster.logged(rf"router ready.* tools={name} "), name
            whole_ones, streamed_ones = ([[(content, [call[1:] for call in calls], end) for content, calls, end in one]
                                          for one in pool.map(lambda wanted: ask(cluster.port, wanted), asked)] for ask in (whole, streamed))
            assert streamed_ones == whole_ones, (name, streamed_ones, whole_ones)
        for wanted, one in zip(asked[:4], whole_ones):
            valid({**wanted, "parallel_tool_calls": wanted["parallel_tool_calls"] and name not in ("llama3", "chatglm3")},
                  [(content, [(i, *call) for i, call in enumerate(calls)], end) for content, calls, end in one])
            n_calls += sum(end == "tool_calls" for _, _, end in one)
        for kind, ((_, (call,), end),) in zip(("id", "say"), whole_ones[4:]):
            assert call[:2] == ("custom", kind) and (kind == "say" or end == "tool_calls" and re.fullmatch(TEXTS[kind], call[2])), (name, call, end)
    assert n_calls >= 2 * len(FORMATS), n_calls
    with Cluster("--mixed", 1, "--tool-format", "none", model=str(folder)) as cluster:
        assert cluster.logged(r"router ready.* tools=none "), "none"
        status, _, reply = request(cluster.port, "POST", "/v1/chat/completions", body())
        assert status == 400 and json.loads(reply)["error"]["param"] == "tools", reply
    return f"{n_calls} answers that call"


ROLES = ["[gMASK]", "sop", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"]


def of_chatglm(folder):
    """A model without a template, whose answers begin with a line that is empty or a tool's name: texts and calls are told apart, whole
    and streamed the same, and calls of earlier turns are written as it writes them."""
    model(folder, True, None, {role: 257 + i for i, role in enumerate(ROLES)}, lambda config, _: config.update(seq_length=2048), "chatglm")
    with Cluster("--mixed", 1, model=str(folder)) as cluster:
        assert cluster.logged(r"router ready.* tools=chatglm3 ")
        asked = list(bodies())[:4] + [
            body(tool_choice="auto", parallel_tool_calls=False, seed=i, n=4, logit_bias={"261": 3 * (i % 2)}) for i in range(4)]  # that of the mark
        with ThreadPoolExecutor(4) as pool:
            got = list(pool.map(lambda wanted: whole(cluster.port, wanted), asked))
            again = list(pool.map(lambda wanted: streamed(cluster.port, wanted), asked))
        n_texts = n_calls = 0
        for wanted, one in zip(asked, got):
            valid({**wanted, "parallel_tool_calls": False}, one)
            n_texts += sum(bool(content) for content, _, _ in one)
            n_calls += sum(bool(content and calls) for content, calls, _ in one)
            assert all("<|assistant|>" not in (content or "") for content, _, _ in one), one
        assert [[(c, [k[1:] for k in calls], e) for c, calls, e in one] for one in again] == \
            [[(c, [k[1:] for k in calls], e) for c, calls, e in one] for one in got], (again, got)
        assert n_texts and n_calls, got
        said = [*USER, {"role": "assistant", "content": "So.", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "get", "arguments": '{"zone": "UTC", "on": true}'}}]},
            {"role": "tool", "tool_call_id": "a", "content": "12:00"}]
        tokens = post_json(cluster.port, "/tokenize", {"messages": said})["tokens"]
        shown = b"".join(ROLES[t - 257].encode() if t > 256 else bytes([t]) for t in tokens).decode()
        assert shown == ("[gMASK]sop<|user|>\nWhat now?<|assistant|>\nSo.<|assistant|>get\n```python\ntool_call(zone=\"UTC\", on=True)\n```"
                         "<|observation|>\n12:00<|assistant|>"), shown
        return f"{n_texts} texts, {n_calls} with a call behind"


def what_is_refused(cluster):
    flat = [{"type": "function", **TOOLS[0]["function"]}]  # as /v1/responses has them
    cases = [(dict(tools=flat), "tools[0].function"), (dict(tools=TOOLS + flat, tool_choice="none"), "tools[2].function"),
             (dict(tools=[{"type": 1}]), "tools[0].type"), (dict(tools=[{"type": "function"}]), "tools[0].function"),
             (dict(tools=[{"type": "function", "function": {"name": "a b"}}]), "tools[0].function.name"),
             (dict(tools=TOOLS + TOOLS), "tools[2].function.name"), (dict(tool_choice="often"), "tool_choice"),
             (dict(tools=[], tool_choice="required"), "tool_choice"),
             (dict(tool_choice={"type": "function", "function": {"name": "other"}}), "tool_choice"),
             (dict(tools=[{"type": "function", "function": {"name": "a", "strict": True, "parameters": {"type": "object", "if": {}, "then": False}}}]), "tools"),
             (dict(parallel_tool_calls="yes"), "parallel_tool_calls")]
    for fields, field in cases:
        status, _, reply = request(cluster.port, "POST", "/v1/chat/completions", body(**fields))
        error = json.loads(reply)["error"]
        assert status == 400 and error["param"] == field, (fields, status, error)
    only = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "get"}}]}}
    for _, calls, _ in whole(cluster.port, body(tool_choice=only)):
        assert {call[2] for call in calls} == {"get"}, calls
    shown = post_json(cluster.port, "/v1/chat/completions", body(tool_choice="none", max_tokens=4))["choices"][0]
    assert "tool_calls" not in shown["message"] and shown["finish_reason"] in ("stop", "length"), shown
    with Cluster("--mixed", 1) as cluster:  # hash has no template that knows tools
        status, _, reply = request(cluster.port, "POST", "/v1/chat/completions", body())
        assert status == 400 and json.loads(reply)["error"]["param"] == "tools", reply


HOSTED = ["web_search", "web_search_preview", "file_search", "code_interpreter", "computer_use_preview", "mcp", "namespace", "tool_search",
          "local_shell", "image_generation", "web_search_20250305"]


def hosted_kinds(cluster, folder):
    """They are shown to nobody and called by nobody, over any door; the log names each once, and no more than 32."""
    hosted = [{"type": kind, "name": kind} for kind in HOSTED]
    def prompt(tools, path="/tokenize", **fields):
        return post_json(cluster.port, path, {"messages": USER, "tools": tools, **fields})

    assert prompt(hosted[:3] + TOOLS + hosted[3:])["tokens"] == prompt(TOOLS)["tokens"]
    assert prompt(hosted)["tokens"] == prompt(None)["tokens"]
    asked = body(tools=hosted + TOOLS, tool_choice="required", seed=1, temperature=2, n=4)
    assert [[call[1:] for call in calls] for _, calls, _ in whole(cluster.port, asked)] == \
        [[call[1:] for call in calls] for _, calls, _ in whole(cluster.port, {**asked, "tools": TOOLS})]
    alone = post_json(cluster.port, "/v1/chat/completions", body(tools=hosted, max_tokens=4, temperature=0))["choices"][0]
    assert "tool_calls" not in alone["message"], alone
    for choice in ("required", {"type": "mcp"}, {"type": "web_search"}, {"type": "function", "function": {"name": "mcp"}}):
        status, _, reply = request(cluster.port, "POST", "/v1/chat/completions", body(tools=hosted, tool_choice=choice))
        assert status == 400 and json.loads(reply)["error"]["param"] == "tool_choice", (choice, reply)
    count = "/v1/messages/count_tokens"
    servers = [{"type": "web_search_20250305", "name": "web_search", "max_uses": 2}, {"type": "bash_20250124", "name": "bash"}]
    own = [{"name": "get", "input_schema": CLOCK}]
    assert prompt(own + servers, count, model=folder.name) == prompt(own, count, model=folder.name)
    for i in range(60):
        prompt([{"type": f"kind {i}\nforged"}, {"type": f"kind {i}\nforged"}])

    def lines():
        return [line for line in cluster.log_text().splitlines() if "tools of this kind are left out" in line]

    told = eventually(lambda: len(lines()) >= 32 and lines(), "32 kinds in the log")
    assert len(told) == 32, told
    assert all(sum(f"kind={kind}" in line.split() for line in told) == 1 for kind in HOSTED + ["bash_20250124"]), told


LINES = 'start: begin line+ end\nbegin: "*** \\"Begin\\"" LF\nend: "*** End\\\\" LF?\nline: ("+" | "-" | " ") /[^\\n]{0,6}/ LF\n%import common.LF\n'
LINES_RE = r'\*\*\* "Begin"\n([+\- ][^\n]{0,6}\n)+\*\*\* End\\\n?'


def custom(name, syntax=None, definition=None):
    form = {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}} if syntax else {"type": "text"}
    return {"type": "custom", "custom": {"name": name, "description": "takes a text", "format": form}}


CUSTOM = [custom("patch", "lark", LINES), custom("id", "regex", r'[A-Z]{2}"\d\n\\{1,3}')]
TEXTS = {"patch": LINES_RE, "id": r'[A-Z]{2}"\d\n\\{1,3}'}


def chosen(name):
    return {"type": "custom", "custom": {"name": name}}


def custom_calls(folder):
    """What a custom tool is given is of its grammar, whole and streamed the same, also while a worker is killed; and it goes on in the next turn."""
    asked = [body(tools=TOOLS + CUSTOM + [custom("say")], tool_choice=choice, temperature=t, seed=i, max_tokens=400, n=2, parallel_tool_calls=i % 2 == 0)
             for i, (choice, t) in enumerate([(chosen("patch"), 0), (chosen("patch"), 2), (chosen("id"), 1), ("required", 2), (chosen("id"), 2),
                                              ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": CUSTOM}}, 2)])]

    def all_of(port, ask):
        with ThreadPoolExecutor(6) as pool:
            return [[(content, [call[1:] for call in calls], end) for content, calls, end in one]
                    for one in pool.map(lambda wanted: ask(port, wanted), asked)]

    with Cluster("--mixed", 2, model=str(folder)) as cluster:
        got = all_of(cluster.port, whole)
        n_ended = 0
        for wanted, choices in zip(asked, got):
            for content, calls, end in choices:
                assert content is None and calls, choices
                for i, (kind, name, text) in enumerate(calls):
                    assert (kind == "custom") == (name in TEXTS or name == "say"), calls
                    assert not isinstance(wanted["tool_choice"], dict) or wanted["tool_choice"].get("custom", {"name": name})["name"] == name
                    if name in TEXTS and (end == "tool_calls" or i + 1 < len(calls)):
                        assert re.fullmatch(TEXTS[name], text), (name, text)
                        n_ended += 1
        assert n_ended >= 6, got
        assert all_of(cluster.port, streamed) == got
        with ThreadPoolExecutor(1) as pool:
            later = pool.submit(all_of, cluster.port, streamed)
            time.sleep(0.3)
            os.kill(cluster.workers()[0]["pid"], signal.SIGKILL)
            assert later.result() == got
        said = [*USER, {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_1", "type": "custom", "custom": {"name": "patch", "input": 'a\n"b\\'}}]}, {"role": "tool", "tool_call_id": "call_1", "content": "done"}]
        shown = text_of(cluster.port, {"messages": said, "tools": CUSTOM})
        assert '<tool_call>\n{"name": "patch", "arguments": {"input": "a\\n\\"b\\\\"}}\n</tool_call>' in shown, shown
        assert '"name": "id"' in shown and '"required": ["input"]' in shown and "regular expression" in shown, shown
        flat = [{"type": "custom", **tool["custom"], "format": {"type": "grammar", **tool["custom"]["format"]["grammar"]}} for tool in CUSTOM]
        assert [[c[1:] for c in calls] for _, calls, _ in whole(cluster.port, {**asked[1], "tools": TOOLS + flat + [custom("say")]})] == \
            [calls for _, calls, _ in got[1]]
        for tools, field in (([custom("a", "lark", "start: b")], "tools[0].custom.format"), (TOOLS + [custom("a", "regex", "a(?=b)")], "tools[2].custom.format"),
                             ([custom("a", "gbnf", 'root ::= "a"')], "tools[0].custom.format.grammar.syntax"), ([{**flat[0], "name": ""}], "tools[0].name")):
            status, _, reply = request(cluster.port, "POST", "/v1/chat/completions", body(tools=tools))
            assert status == 400 and json.loads(reply)["error"]["param"] == field, (field, reply)
        return f"{n_ended} texts"


def draw(chance, depth=2):
    """A schema of what is kept, with values of which most end soon."""
    some = chance.choice
    simple = [lambda: {"type": "integer", "minimum": (low := chance.randint(-300, 50)), "maximum": low + chance.randint(0, 500)},
              lambda: {"type": "number", "exclusiveMinimum": 0, "maximum": chance.randint(1, 9)}, lambda: {"type": ["boolean", "null"]},
              lambda: {"type": "string", "minLength": chance.randint(0, 2), "maxLength": chance.randint(2, 12), "description": "a text"},
              lambda: {"type": "string", "pattern": some(["^[a-z]{2,5}$", '^"\\\\\\S?"$', "^(\\d\\d,){0,3}$", "^[^\\x00-\\x7f]{1,3}$"])},
              lambda: {"type": "string", "format": some(["date", "uuid", "ipv4"])}, lambda: {"const": some(["\u00e9\n", 0, None, [1, {"a": "}"}]])},
              lambda: {"enum": chance.sample(['a"b', "\\", "", 7, True, "</tool_call>", {"x": []}], 3)}]
    nested = [lambda: {"type": "array", "items": draw(chance, depth - 1), "minItems": chance.randint(0, 1), "maxItems": chance.randint(1, 3)},
              lambda: {"anyOf": [draw(chance, depth - 1), draw(chance, depth - 1)]}, lambda: draw_object(chance, depth - 1)]
    return some(simple + nested * (depth > 0))()


def draw_object(chance, depth=2):
    names = chance.sample(["a", "b c", "\u00fc", 'q"', "input", "title", "type", "x\n"], chance.randint(0, 4))
    return {"type": "object", "properties": {name: draw(chance, depth) for name in names}, "additionalProperties": False,
            "required": chance.sample(names, chance.randint(0, len(names))), "title": "for readers"}


def draw_tool(chance, i):
    """A function, or one in four times a custom tool; names begin each other."""
    name = "f" + chance.choice(["", "_", ".x", "-y/z"]) + str(i)
    if i % 4 < 3:
        strict = chance.random() < 0.5
        return {"type": "function", "function": {"name": name, "strict": strict, "parameters": draw_object(chance)}}
    return custom(name, "regex", chance.choice(['[a-c]{1,9}', '"?\\n{1,20}', '(\\d\\t|\\\\){2,4}', '[^ -~]{0,3}']))


def requests_of(chance, n):
    """Each tool is required or named once, beside its neighbours."""
    tools = [draw_tool(chance, i) for i in range(n)]
    for i, tool in enumerate(tools):
        beside = tools[max(0, i - 2):i + 1]
        choice = chosen_of(tool) if chance.random() < 0.5 else "required"
        yield body(tools=beside, tool_choice=choice, seed=i, temperature=chance.choice([0, 0.7, 1, 2]), n=1, max_tokens=220,
                   parallel_tool_calls=chance.random() < 0.3)


def chosen_of(tool):
    return {"type": tool["type"], tool["type"]: {"name": tool[tool["type"]]["name"]}}


def right(wanted, choices):
    """How many calls have ended, each as its tool says."""
    import jsonschema
    tools = {tool[tool["type"]]["name"]: tool for tool in wanted["tools"]}
    n_ended = 0
    for content, calls, end in choices:
        assert content is None and (calls or end == "length"), choices
        for i, (_, kind, name, given) in enumerate(calls):
            assert tools[name]["type"] == kind, (name, kind)
            if end == "length" and i + 1 == len(calls):
                continue
            n_ended += 1
            if kind == "custom":
                assert re.fullmatch(tools[name]["custom"]["format"]["grammar"]["definition"], given), (tools[name], given)
            else:
                jsonschema.validate(json.loads(given), tools[name]["function"]["parameters"])
    return n_ended


def events_of_http2(port, path, wanted, timeout):
    """As stream_events(), over HTTP/2."""
    import httpx
    with httpx.Client(http1=False, http2=True, timeout=timeout) as client, \
            client.stream("POST", f"http://127.0.0.1:{port}{path}", json=wanted) as answer:
        assert answer.status_code == 200 and answer.http_version == "HTTP/2", answer
        for line in answer.iter_lines():
            if line.startswith("data: "):
                yield line.removeprefix("data: ")


def calls_over_grpc(port, asked, kill):
    """The same calls in the text that gRPC streams: (name, arguments as an object). kill() is called within each one's arguments."""
    import grpc_client as client
    with client.grpc.insecure_channel(f"127.0.0.1:{port}") as wire:
        chat = client.pb.Chat(messages=[client.pb.Message(**m) for m in asked["messages"]], tools_json=json.dumps(asked["tools"]), tool_choice="required")
        asked = client.pb.GenerateRequest(chat=chat, seed=asked["seed"], temperature=asked["temperature"], max_tokens=asked["max_tokens"])
        said = ""
        for step in client.Inference(wire).Generate(asked):
            said += step.text
            if '"arguments":' in said.rpartition("<tool_call>")[2]:
                kill()
    return [(call["name"], call["arguments"]) for call in map(json.loads, re.findall(r"<tool_call>\n(.*?)\n</tool_call>(?=\n<tool_call>|\n?$)", said, re.S))]


def random_tools(folder, n):
    """Streams of random tools join to what the plain replies say, over HTTP/1.1, HTTP/2 and gRPC, and with workers killed in mid-arguments."""
    chance, n_ended, n_grpc, doors = random.Random(44), 0, 0, [stream_events]
    try:
        import h2  # noqa: F401
        import httpx  # noqa: F401
        doors.append(events_of_http2)
    except ImportError:
        pass
    asked = list(requests_of(chance, n))
    with Cluster("--mixed", 2, model=str(folder)) as cluster, ThreadPoolExecutor(8) as pool:
        def all_of(part, ask):
            return [[(content, [call[1:] for call in calls], end) for content, calls, end in one] for one in pool.map(lambda w: ask(cluster.port, w), part)]

        for begin in range(0, n, 20):
            part = asked[begin:begin + 20]
            got = all_of(part, whole)
            n_ended += sum(right(wanted, [(c, [(None, *call) for call in calls], e) for c, calls, e in one]) for wanted, one in zip(part, got))
            killing = threading.Semaphore(0)

            def kill():
                if killing.acquire(blocking=False):
                    os.kill(max(cluster.workers(), key=lambda w: w["assigned"])["pid"], signal.SIGKILL)

            def both_ready():
                eventually(lambda: [w["state"] for w in cluster.workers()] == ["ready"] * 2, "both workers")

            for events in doors:
                killing.release()
                assert all_of(part, lambda port, wanted: streamed(port, wanted, events, kill)) == got
                both_ready()
            killing.release()
            for wanted in part[:5 if importlib.util.find_spec("grpc_tools") else 0]:
                wanted = {**wanted, "tool_choice": "required", "parallel_tool_calls": True}
                (_, calls, end), = whole(cluster.port, wanted)
                whole_ones = calls[:len(calls) - (end == "length")]  # the last one is cut
                same = [(name, json.loads(given) if kind == "function" else {"input": given}) for _, kind, name, given in whole_ones]
                n_grpc += len(same)
                assert calls_over_grpc(cluster.port, wanted, kill) == same, (wanted, same)
            both_ready()
        replays = cluster.status()["routers"][0]["core"]["replays"]
        assert replays > 0 and n_ended >= n // 2, (replays, n_ended)
        return f"{n_ended} calls of {n} tools, {len(doors)} doors, {n_grpc} over gRPC, {replays} replays"


def of_a_client(cluster):
    """openai's package: a whole answer, one put together from a stream, and its call's result in the next turn."""
    try:
        import openai
    except ImportError as error:
        raise Skip(f"the Python package openai cannot be imported ({error})") from error
    with openai.OpenAI(base_url=f"http://127.0.0.1:{cluster.port}/v1", api_key="none", max_retries=0, timeout=120) as client:
        asked = dict(model=client.models.list().data[0].id, messages=USER, tools=TOOLS, tool_choice="required", temperature=0, max_tokens=400,
                     parallel_tool_calls=False)
        message = client.chat.completions.create(**asked).choices[0].message
        call = message.tool_calls[0]
        assert message.content is None and json.loads(call.function.arguments) is not None
        with client.chat.completions.stream(**asked) as stream:
            final = stream.get_final_completion().choices[0]
        assert final.finish_reason == "tool_calls" and final.message.tool_calls[0].function.arguments == call.function.arguments, final
        said = [*USER, message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "fine"}]
        assert client.chat.completions.create(**{**asked, "messages": said, "tool_choice": "auto"}).choices[0].finish_reason


def every_choice(cluster):
    """openai's package with all that tool_choice can be, whole and by its own reader of streams."""
    try:
        import openai
    except ImportError as error:
        raise Skip(f"the Python package openai cannot be imported ({error})") from error
    strict = [{"type": "function", "function": {**tool["function"], "strict": True}} for tool in TOOLS]  # its reader of streams wants that
    get = {"type": "function", "function": {"name": "get"}}

    def allowed(mode):
        return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [get]}}

    with openai.OpenAI(base_url=f"http://127.0.0.1:{cluster.port}/v1", api_key="none", max_retries=0, timeout=120) as client:
        asked = dict(model=client.models.list().data[0].id, messages=USER, tools=strict, temperature=0, max_tokens=300, parallel_tool_calls=False)
        for choice, names in (("none", None), ("auto", None), (allowed("auto"), None), ("required", {"get", "get_weather"}), (get, {"get"}),
                              (allowed("required"), {"get"}), (openai.NOT_GIVEN, None)):
            reply = client.chat.completions.create(**asked, tool_choice=choice).choices[0]
            message = reply.message
            assert names is None or {call.function.name for call in message.tool_calls} <= names, (choice, message)
            assert choice != "none" or not message.tool_calls, message
            for call in message.tool_calls or []:
                assert isinstance(call, openai.types.chat.ChatCompletionMessageFunctionToolCall) and json.loads(call.function.arguments), call
            if reply.finish_reason != "length":  # at which that reader fails
                with client.chat.completions.stream(**asked, tool_choice=choice) as stream:
                    final = stream.get_final_completion().choices[0].message
                assert [(call.function.name, call.function.arguments) for call in final.tool_calls] == \
                    [(call.function.name, call.function.arguments) for call in message.tool_calls], (choice, final)
        for choice in ({"type": "function", "function": {"name": "other"}}, chosen("get"), "often"):
            try:
                client.chat.completions.create(**asked, tool_choice=choice)
                raise AssertionError(choice)
            except openai.BadRequestError as error:
                assert error.param == "tool_choice", error


def custom_of_a_client(cluster):
    """openai's package with custom tools: its types, whole and in chunks, and the call in the next turn, in every form."""
    try:
        import openai
    except ImportError as error:
        raise Skip(f"the Python package openai cannot be imported ({error})") from error
    tools = CUSTOM + TOOLS
    with openai.OpenAI(base_url=f"http://127.0.0.1:{cluster.port}/v1", api_key="none", max_retries=0, timeout=120) as client:
        asked = dict(model=client.models.list().data[0].id, messages=USER, tools=tools, temperature=1, seed=5, max_tokens=400, parallel_tool_calls=False)
        for choice in (chosen("id"), chosen("patch"), {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [chosen("id"), chosen("patch")]}}):
            reply = client.chat.completions.create(**asked, tool_choice=choice).choices[0]
            (call,) = reply.message.tool_calls
            assert isinstance(call, openai.types.chat.ChatCompletionMessageCustomToolCall) and reply.message.content is None, reply
            assert reply.finish_reason == "length" or re.fullmatch(TEXTS[call.custom.name], call.custom.input), call
            name, text, kinds = "", "", []
            for chunk in client.chat.completions.create(**asked, tool_choice=choice, stream=True):
                for part in chunk.choices[0].delta.tool_calls or []:
                    own = part.model_extra["custom"]  # the package's type of a chunk knows functions alone, and keeps what else comes
                    assert part.index == 0 and part.function is None, part
                    kinds += [part.type] if part.type else []
                    name, text = name + own.get("name", ""), text + own["input"]
            assert (kinds, name, text) == (["custom"], call.custom.name, call.custom.input), (kinds, name, text)
            lengths = set()
            for form, dump in FORMS.items():
                said = [*USER, dump(reply.message), {"role": "tool", "tool_call_id": call.id, "content": "done"}]
                lengths.add(client.chat.completions.create(**{**asked, "messages": said, "max_tokens": 1}, tool_choice="none").usage.prompt_tokens)
            assert len(lengths) == 1, lengths
        try:
            client.chat.completions.create(**{**asked, "tools": [custom("a", "lark", "start: b")]})
            raise AssertionError("an unknown rule")
        except openai.BadRequestError as error:
            assert error.param == "tools[0].custom.format", error


FORMS = {
    "model_dump()": lambda message: message.model_dump(),
    "exclude_none": lambda message: message.model_dump(exclude_none=True),
    "exclude_unset": lambda message: message.model_dump(exclude_unset=True),
    "by alias, as JSON": lambda message: message.model_dump(mode="json", by_alias=True),
    "to_dict()": lambda message: message.to_dict(exclude_unset=False),
    "the object itself": lambda message: message,
}


def ten_turns(folder):
    """What openai's package makes of a reply is sent back with the next question: in each form the same prompts."""
    try:
        import openai
    except ImportError as error:
        raise Skip(f"the Python package openai cannot be imported ({error})") from error
    strict = folder.parent / "strict"
    strict.mkdir()
    for path in folder.iterdir():
        (strict / path.name).write_bytes(path.read_bytes())
    texts = json.loads((folder / "tokenizer_config.json").read_text())
    (strict / "tokenizer_config.json").write_text(json.dumps({**texts, "chat_template": TEMPLATE.split("{%- for m")[0] + STRICT}))
    with Cluster("--mixed", 1, model=str(strict)) as cluster, \
            openai.OpenAI(base_url=f"http://127.0.0.1:{cluster.port}/v1", api_key="none", max_retries=0, timeout=120) as client:
        asked = dict(model=client.models.list().data[0].id, tools=TOOLS, temperature=0, parallel_tool_calls=False)
        lengths = {}
        for form, dump in FORMS.items():
            said, lengths[form] = [{"role": "developer", "content": "Be brief."}], []
            for turn in range(10):
                said += USER
                calls = turn == 4
                reply = client.chat.completions.create(**asked, messages=said, tool_choice="required" if calls else "none",
                                                       max_tokens=200 if calls else 5)
                message = reply.choices[0].message
                assert bool(message.tool_calls) == calls, (form, message)
                lengths[form].append(reply.usage.prompt_tokens)
                said.append(dump(message))
                if calls:
                    said.append({"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "fine"})
        assert len({tuple(each) for each in lengths.values()}) == 1, lengths
        first = lengths["model_dump()"]
        assert first == sorted(set(first)), first  # each is longer than the one before
        status, _, reply = request(cluster.port, "POST", "/v1/chat/completions", body(messages=[*USER, {
            "role": "assistant", "content": "", "tool_calls": [{"id": "a"}, {"id": "b"}]}], tool_choice="none"))
        assert status == 400 and "one call at a time" in reply.decode(), reply
        return f"{len(FORMS)} forms, {first[-1]} tokens"


def earlier_turns(cluster):
    """Arguments come as text, and the template sees an object."""
    said = [*USER, {"role": "assistant", "content": None, "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "get", "arguments": '{"zone": "UTC", "é": [1, null]}'}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "12:00"}]
    text = text_of(cluster.port, {"messages": said, "add_generation_prompt": False})
    assert '<tool_call>\n{"name": "get", "arguments": {"zone": "UTC", "é": [1, null]}}\n</tool_call>' in text, text
    assert "<|tool|>12:00" in text, text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tools", type=int, default=10, help="so many random ones are called")
    n_tools = parser.parse_args().tools
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            import jsonschema  # noqa: F401
            for special in (False, True):
                model(folder / f"special-{special}", special)
        except ImportError as error:
            tally.skip("tools", f"a Python package cannot be imported ({error})")
            sys.exit(tally.end())
        except Skip as skip:
            tally.skip("tools", str(skip))
            sys.exit(tally.end())
        tally.run("marks that are text", of_a_model, folder / "special-False")
        tally.run("marks that are special tokens", of_a_model, folder / "special-True")
        tally.run("every format", of_every_format, folder / "formats")
        tally.run("ChatGLM3, which has no template", of_chatglm, folder / "chatglm")
        with Cluster("--mixed", 1, model=str(folder / "special-False")) as cluster:
            tally.run("what cannot be called is refused", cluster.shown, what_is_refused)
            tally.run("hosted tools are left out", cluster.shown, hosted_kinds, folder / "special-False")
            tally.run("the openai package", cluster.shown, of_a_client)
            tally.run("the openai package: every tool_choice", cluster.shown, every_choice)
            tally.run("the openai package: custom tools", cluster.shown, custom_of_a_client)
            tally.run("calls of earlier turns", cluster.shown, earlier_turns)
        tally.run("custom tools", custom_calls, folder / "special-True")
        tally.run("random tools", random_tools, folder / "special-True", n_tools)
        tally.run("ten turns of the openai package", ten_turns, folder / "special-False")
        import thoughts
        thoughts.run(tally, folder)
    sys.exit(tally.end())


if __name__ == "__main__":
    main()
