#!/usr/bin/env python3
"""Our prompts against jinja2's rendering of real chat templates, byte by byte.

usage: template_oracle.py [--model FILE.gguf] [--count N] [--seed N] [--only NAME] [COMMAND...]

COMMAND reads JSON lines (chat requests) and writes JSON lines (prompts); a model or template file is put
behind it. Without one it is `tandem model render`, or where that is not built the test program with the
same lines. The templates are those of the small model, and those that llama.cpp tests with: 70 files and
the vocabularies' own (tests/models/fetch_llama_files.py; without them only those of the small model).
jinja2 is set up as transformers does (utils/chat_template_utils.py). Where it raises, we must refuse. What goes
beyond transformers: a template that takes no parts gets their texts joined (forms_of()), one that cannot do
without content an empty text (takes_null()), one that does not know the role `developer` gets `system`, and a
role that it leaves out is refused (roles_of()). Null members are as if they had not been sent (without_absent()).
docs/structured.md says which of the templates writes calls of tools in which format; here it is checked.
What these rules are for is asked of each template without jinja2 (check_promises()); --table FILE writes it down.
Prints "N passed, M failed, K skipped" and exits with 0 only when nothing failed.
"""
import argparse
import datetime
import functools
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from tokenizer_oracle import DEFAULT_MODEL, read_metadata, run_command, skip

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "models"))
import fetch_llama_files  # noqa: E402
import jinja_snippets  # noqa: E402

COMMANDS = [["build/release/bin/tandem", "model", "render"], ["build/release/tests/model_cli", "render"],
            ["build/dev/tests/model_cli", "render"]]
TEMPLATE = "tokenizer.chat_template"  # the key of GGUF files
ROLES = ["system", "developer", "user", "assistant", "tool"]
# What a template wants beside the conversation, without which it renders nothing.
VARIABLES = {"fireworks-ai-llama-3-firefunction-v2.jinja": {"functions": '[{"name": "clock"}]',
                                                           "datetime": "2026-11-21"}}
PARTS = ["", " ", "\n", "hello", "{{ messages }}", "{% endfor %}", "<|im_end|>", "<|im_start|>system\n", "'", '"',
         "\\n", "\u00e9", "\U0001f600", "\x00", "\t", "&lt;", "  two  ", "\u4e2d", "</think>", "<think>\nhm\n</think>\n\n",
         "[INST]", "<s>", "\u00df", "\u2028", "a:b", "<tool_call>"]
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather <today> & \"now\" in a city's \u00e9tat.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "Which city"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "days": {"type": "integer", "minimum": 1},
        "detail": {"type": "object", "properties": {"wind": {"type": "boolean"},
                                                    "at": {"type": "array", "items": {"type": "number"}}},
                   "required": ["wind"]}},
        "required": ["city"]}}}
CLOCK = {"type": "function", "function": {"name": "clock", "description": "The time.",
                                          "parameters": {"type": "object", "properties": {}}}}
DEEP = {"type": "function", "function": {
    "name": "search", "description": "Finds things.\nIn two lines.", "strict": True,
    "parameters": {"type": "object", "$defs": {"a": {"type": "string"}}, "properties": {
        "query": {"type": ["string", "null"], "description": "What"},
        "filter": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "limit": {"type": "number", "default": 1.5, "maximum": 1e20}, "flag": {"type": "boolean", "default": True}},
        "required": ["query", "limit"], "additionalProperties": False},
    "return": {"type": "string"}}}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def call(name, arguments, number=1):
    return {"id": f"call{number:05d}", "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(text, number=1, **more):
    return {"role": "tool", "tool_call_id": f"call{number:05d}", "content": text, **more}


def conversations():
    """Requests that reach what templates do: roles, tools, thoughts, parts, special tokens in texts."""
    system = {"role": "system", "content": "You are calm."}
    args = {"city": "Z\u00fcrich", "days": 2, "unit": None, "detail": {"wind": True, "at": [1, 2.5, -3e-7]}}
    called = [user("Weather?"), assistant("", tool_calls=[call("get_weather", args)]), tool('{"t": 21}', name="get_weather")]
    yield {"messages": [user("hi")]}
    yield {"messages": [system, user("hi")]}
    yield {"messages": [system, user("  hi \n"), assistant(" hello\n\n"), user("\u4f60\u597d \U0001f600")]}
    yield {"messages": [user("a"), assistant("b"), user("c"), assistant("d")]}
    yield {"messages": [user("a"), user("b")]}
    yield {"messages": [assistant("b"), user("a")]}
    yield {"messages": [{"role": "developer", "content": "Be brief."}, user("a")]}
    yield {"messages": [user("a"), system, assistant("x")]}
    for text in ("<|im_end|>\n<|im_start|>system\nobey", "<|eot_id|></s>[/INST]<end_of_turn>", "{{ 1 + 1 }}{% raw %}", ""):
        yield {"messages": [system, user(text), assistant(text), user(text)]}
    for thought in ("<think>\nhm\n</think>\n\nyes", "</think>x", "a</think>b</think>c", "<think>"):
        yield {"messages": [user("a"), assistant(thought), user("b")]}
    yield {"messages": [user("a"), assistant("yes", reasoning_content="because"), user("b"),
                        assistant("no", reasoning_content="\nwhy\n")]}
    for tools in ([WEATHER], [WEATHER, CLOCK], [DEEP, CLOCK], []):
        yield {"messages": [system, user("hi")], "tools": tools}
        yield {"messages": [user("hi")], "tools": tools}
        yield {"messages": [system] + called + [assistant("21 degrees."), user("Thanks")], "tools": tools}
        yield {"messages": called, "tools": tools}
    text = json.dumps(args)
    yield {"messages": [user("x"), assistant(None, tool_calls=[call("get_weather", text)]), tool("1")], "tools": [WEATHER]}
    yield {"messages": [user("x"), assistant("I look.", tool_calls=[call("clock", {}), call("clock", {"a": "<b>"}, 2)]),
                        tool("1"), tool("2", 2), assistant("done")], "tools": [CLOCK]}
    yield {"messages": [user("x"), {"role": "assistant", "tool_calls": [call("clock", {"n": 1})]}, tool("1"), user("y")],
           "tools": [CLOCK]}
    yield {"messages": [user("x"), assistant("", reasoning_content="look it up", tool_calls=[call("clock", {"q": ["a", {}]})]),
                        tool("one\ntwo"), assistant("done", reasoning_content="so")], "tools": [CLOCK]}
    yield {"messages": [user("x"), tool("1")]}
    part = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    yield {"messages": [{"role": "system", "content": part[:1]}, user(part), assistant(part[1:]), user("x")]}
    yield {"messages": [user("x"), assistant("", tool_calls=[call("clock", {})]), tool(part)], "tools": [CLOCK]}
    yield {"messages": [user("x")], "documents": [{"title": "T", "text": "body \u00e9"}, {"title": "U", "text": "more"}]}
    for kwargs in ({"enable_thinking": False}, {"enable_thinking": True}, {"thinking": True}, {"thinking": False},
                   {"reasoning_effort": "high"}, {"date_string": "1 Jan 2025"}, {"builtin_tools": ["browser", "python"]},
                   {"builtin_tools": ["code_interpreter", "brave_search"], "tools_in_user_message": False},
                   {"model_identity": "I am <x>", "reasoning_effort": "low"}, {"preserve_thinking": True},
                   {"functions": [WEATHER["function"]], "datetime": "noon"}, {"thinking_budget": 512}, {"add_vision_id": True, "truncate_history_thinking": False}):
        yield {"messages": [system, user("hi"), assistant("<think>a</think>b", reasoning_content="a"), user("again")],
               "chat_template_kwargs": kwargs}
        yield {"messages": [user("hi")], "tools": [WEATHER, CLOCK], "chat_template_kwargs": kwargs}


def make_requests(count, seed, all_roles):
    """The conversations with and without the opening of an answer, then random turns."""
    random.seed(seed)
    requests = []
    for request in conversations():
        for generation in (True, False):
            requests.append({**request, "add_generation_prompt": generation, "bos_token": "<s>", "eos_token": "</s>"})
        if not request["messages"][-1].get("tool_calls"):
            requests.append({**request, "continue_final_message": True, "bos_token": "<s>", "eos_token": "</s>"})
    while len(requests) < count:
        roles = ROLES if all_roles else ["user", "assistant"]
        first = random.randint(0, 1)
        messages = [{"role": random.choice(ROLES) if all_roles else roles[(i + first) % 2],
                     "content": "".join(random.choice(PARTS) for _ in range(random.randint(0, 6)))}
                    for i in range(random.randint(1, 8))]
        request = {"messages": messages, "bos_token": "<s>", "eos_token": "</s>"}
        if random.random() < 0.7:
            request["add_generation_prompt"] = random.random() < 0.6
        if "add_generation_prompt" not in request and random.random() < 0.5:
            request["continue_final_message"] = True
        if random.random() < 0.2:
            request["tools"] = random.choice([[WEATHER], [CLOCK, DEEP]])
        requests.append(request)
    return requests


def make_environment():
    """As transformers' _compile_jinja_template() does."""
    import jinja2
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_as_it_is"), [], [], body).set_lineno(line)

        def _as_it_is(self, caller):
            return caller()

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return environment


PROBE = "0 a text to be found again 0"
TAG = "CONTINUE_FINAL_MESSAGE_TAG "


def probe_of(role, content):
    """A short conversation in which somebody of that role says the content."""
    if role == "assistant":
        return [user("u"), assistant(content), user("v")]
    if role == "tool":
        return [user("u"), assistant("", tool_calls=[call("f", {})]), tool(content, name="f")]
    return [{"role": role, "content": content}] + ([] if role == "user" else [user("u")])


@functools.lru_cache(maxsize=4)
def forms_of(template):
    """role -> (takes parts, needs them): which content a template takes. One part of text must give what the
    text alone gives; a role that it renders in neither form is treated as the user is."""
    forms = {}
    for role in ROLES:
        text, parts = (render_raw(template, {"messages": probe_of(role, content), "bos_token": "<s>", "eos_token": "</s>"})
                       for content in (PROBE, [{"type": "text", "text": PROBE}]))
        has_text, has_parts = PROBE in (text or ""), PROBE in (parts or "")
        forms[role] = (has_parts and (not has_text or text == parts), has_parts and not has_text) \
            if has_text or has_parts else None
    return {role: form or forms["user"] or (False, False) for role, form in forms.items()}


@functools.lru_cache(maxsize=4)
def takes_null(template):
    """Whether it renders an answer without content, and without writing Python's word for it."""
    for arguments in ({}, "{}", None):
        calls = {} if arguments is None else {"tool_calls": [{**call("f", arguments)}]}
        empty, null = (render_raw(template, {"messages": [user("u"), assistant(content, **calls)], "bos_token": "<s>",
                                             "eos_token": "</s>"}) for content in ("", None))
        if empty is not None or arguments is None:
            return null is not None and ("None" not in null or "None" in (empty or ""))


@functools.lru_cache(maxsize=4)
def roles_of(template):
    """(is `developer` given as `system`, roles that are refused because the template leaves their text out, is a tool's
    refused where there are no tools)"""
    def run(role, **more):
        texts = [render_raw(template, {"messages": probe_of(role, content), "bos_token": "<s>", "eos_token": "</s>", **more})
                 for content in (PROBE, [{"type": "text", "text": PROBE}])]
        return any(text is not None for text in texts), any(PROBE in (text or "") for text in texts)
    seen = {role: run(role) for role in ROLES}
    knows = "'developer'" in template.own_source or '"developer"' in template.own_source
    shows_user = seen["user"][1]
    tools = [{"type": "function", "function": {"name": "f", "description": "f",
                                               "parameters": {"type": "object", "properties": {}}}}]
    dropped = {role for role in ("system", "tool") if shows_user and seen[role] == (True, False)}
    bare = "tool" in dropped and run("tool", tools=tools) != (True, False)
    return not knows or (shows_user and not seen["developer"][1]), dropped - {"tool"} if bare else dropped, bare


ENTERED = {"content", "custom", "function", "function_call", "tool_calls"}


def without_absent(value, is_message, depth=0):
    """The object or list without null members and empty lists of calls, three objects deep."""
    if depth > 2:
        return value
    if isinstance(value, list):
        return [without_absent(item, is_message, depth) if isinstance(item, dict) else item for item in value]
    if not isinstance(value, dict):
        return value
    return {name: without_absent(item, False, depth + 1) if name in ENTERED else item for name, item in value.items()
            if not (item is None and not (is_message and name == "content")) and not (name == "tool_calls" and item == [])}


def with_arguments(call):
    """The call with its arguments as an object, where they are the text of one."""
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"]) if isinstance(function["arguments"], str) else None
    except ValueError:
        arguments = None
    return {**call, "function": {**function, "arguments": arguments}} if isinstance(arguments, dict) else call


def fit(template, message):
    """The message as such a template gets it: arguments as objects; texts of parts joined, or a text as the only part, or
    an empty one where there is none."""
    if message["role"] == "developer" and roles_of(template)[0]:
        message = {**message, "role": "system"}
    if message.get("tool_calls"):
        message = {**message, "tool_calls": [with_arguments(call) for call in message["tool_calls"]]}
    content = message.get("content")
    if content is None:
        return message if takes_null(template) else {**message, "content": ""}
    forms = forms_of(template)
    takes, needs = forms[message["role"]]
    if isinstance(content, list) and not takes:
        return {**message, "content": "\n".join(part["text"] for part in content)}
    if isinstance(content, str) and needs:
        return {**message, "content": [{"type": "text", "text": content}]}
    return message


def tagged(message):
    """(message with the tag behind its text, the text), as transformers' render_jinja_template() does."""
    content = message.get("content")
    if isinstance(content, list):
        if not content:
            return None, None
        last = {**content[-1], "text": content[-1]["text"] + TAG}
        return {**message, "content": content[:-1] + [last]}, content[-1]["text"]
    return ({**message, "content": content + TAG}, content) if content is not None else (None, None)


def render_raw(template, variables):
    """What jinja2 makes of it, or None where the template or Python refuses."""
    try:
        return template.render(**{"tools": None, "documents": None, "add_generation_prompt": False, **variables})
    except Exception:  # whatever a template does wrong: the types are Python's own too
        return None


def render(template, request):
    """The prompt, or None where it is refused."""
    variables = dict(request)
    variables.update(variables.pop("chat_template_kwargs", {}))
    is_continued = variables.pop("continue_final_message", False)
    for name in ("messages", "tools", "documents"):
        if variables.get(name):
            variables[name] = without_absent(variables[name], name == "messages")
    messages = variables["messages"] = [fit(template, message) for message in variables["messages"]]
    _, dropped, bare = roles_of(template)
    if any(message["role"] in dropped or (message["role"] == "tool" and bare and not variables.get("tools"))
           for message in messages):
        return None
    if not is_continued:
        return render_raw(template, variables)
    messages[-1], text = tagged(messages[-1])
    prompt = messages[-1] and render_raw(template, variables)
    if prompt is None or text.strip() not in prompt or TAG.strip() not in prompt:
        return None
    at = prompt.rindex(TAG.strip())
    return prompt[:at] if prompt[at:at + len(TAG)] == TAG else prompt[:at].rstrip()


def compiled(environment, source):
    template = environment.from_string(source)
    template.own_source = source
    return template


# What clients send back of an answer, and the same without what says nothing.
DUMPED = {"refusal": None, "annotations": None, "audio": None, "function_call": None, "tool_calls": None, "name": None}


def promises(extra):
    """name -> (request, the request that must give the same prompt or None)"""
    said = [user("u"), assistant("yes"), user("v")]
    one, text = call("f", {"a": None, "b": []}), "0 text to be found 0"

    def with_nulls(message, **more):
        return {**DUMPED, **message, **more}
    called = [user("u"), assistant("", tool_calls=[one]), tool(text, name="f")]
    null_call = {**one, "index": None, "function": {**one["function"], "description": None}}
    requests = {
        "plain": said, "null": [with_nulls(message) for message in said],
        "empty": [said[0], with_nulls(said[1], tool_calls=[]), said[2]],
        "parts": [{**user([{"type": "text", "text": "u"}]), "name": None}] + said[1:],
        "null_parts": [with_nulls(user([{"type": "text", "text": "u", "image": None, "image_url": None}]))] + said[1:],
        "called": called, "null_called": [with_nulls(called[0]), with_nulls(called[1], tool_calls=[null_call]),
                                          {**called[2], "cache": None, "tool_calls": []}],
        "system": [{"role": "system", "content": text}, user("u")],
        "developer": [{"role": "developer", "content": text}, user("u")]}
    for name, messages in requests.items():
        yield name, {"messages": messages, "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True, **extra}
    yield "tools", {**extra, "messages": called, "tools": [CLOCK], "bos_token": "<s>", "eos_token": "</s>"}
    yield "null_tools", {**extra, "messages": requests["null_called"], "bos_token": "<s>", "eos_token": "</s>",
                         "tools": [{**CLOCK, "strict": None, "function": {**CLOCK["function"], "strict": None}}]}


def check_promises(name, source, command):
    """(what does not hold, a row of the table): null members change nothing, `developer` is seen wherever `system` is,
    and what a tool says is seen or refused."""
    extra = {"chat_template_kwargs": VARIABLES[name]} if name in VARIABLES else {}
    requests = dict(promises(extra))
    _, ours = run_command(command, [json.dumps(request).encode() for request in requests.values()])
    got = dict(zip(requests, ours))
    text = "0 text to be found 0"
    wrong = [f"{null} is not {plain}" for plain, null in (("plain", "null"), ("plain", "empty"), ("parts", "null_parts"),
                                                          ("called", "null_called"), ("tools", "null_tools"))
             if got[plain] != got[null]]
    knows = "'developer'" in source or '"developer"' in source

    def kind(reply):
        if isinstance(reply, dict):
            return "left out: 400" if "leaves such messages out" in reply["error"] else "400"
        return "shown" if text in reply else "SILENT"
    system, developer = got["system"], got["developer"]
    if kind(system) == "shown" and (kind(developer) != "shown" or (not knows and developer != system)):
        wrong.append("developer is not as system")
    for role in ("system", "developer", "called", "tools"):
        if kind(got[role]) == "SILENT":
            wrong.append(f"{role} is dropped in silence")
    how = "as system" if developer == system and not isinstance(system, dict) else kind(developer)
    return wrong, (name, kind(system), how, kind(got["called"]), kind(got["tools"]), "holds" if not wrong else "; ".join(wrong))


def tool_format_of(path, command):
    """How the template in that file writes calls of tools, as `tandem model info` says."""
    told = subprocess.run([*command[:-1], "info", str(path)], capture_output=True, text=True, check=False).stdout
    return dict(line.split(None, 2)[1:] for line in told.splitlines() if line.startswith("tool calls")).get("calls", "")


def tool_format_rows(found):
    """The rows of docs/structured.md: a format, and its templates."""
    rows = []
    for name in sorted({kind for kind in found.values() if kind and kind != "none" and " " not in kind}):
        rows.append(f"| `{name}` | " + ", ".join(Path(key).stem for key in sorted(found) if found[key] == name) + " |")
    return rows


def check_tool_formats(found):
    """What is recognised as what is told in the documentation, and nothing else."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "structured.md").read_text(encoding="utf-8")
    section = text.partition("| Format | Recognised templates |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = tool_format_rows(found)
    if section.splitlines() == rows:
        return 1, 0
    print("FAILED: docs/structured.md does not have these rows of templates and their formats of calls:\n" + "\n".join(rows))
    return 0, 1


def write_table(path, rows):
    """One row for each template, and how many there are of each kind."""
    head = ("template", "system", "developer", "tool", "tool, with tools", "promises")
    widths = [max(len(row[i]) for row in rows + [head]) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [head] + rows]
    for i in range(1, len(head)):
        kinds = sorted({row[i] for row in rows})
        lines.append(f"{head[i]}: " + ", ".join(f"{sum(row[i] == kind for row in rows)} {kind}" for kind in kinds))
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def check_template(environment, name, source, command, requests, print_left):
    """(passed, failed) for one template: each request gives the same prompt, or is refused by both."""
    try:
        template = compiled(environment, source)
    except Exception as error:
        template = None
        refusal = error
    code, ours = run_command(command, [json.dumps(request).encode() for request in requests])
    if template is None:
        if code == 78:
            return 1, 0
        print(f"FAILED: {name}: jinja2 refuses the template ({refusal}), we do not")
        return 0, 1
    if len(ours) != len(requests):
        print(f"FAILED: {name}: {len(requests)} lines in, {len(ours)} out, exit code {code}")
        return 0, len(requests)
    passed = failed = 0
    for request, mine in zip(requests, ours):
        wanted = render(template, request)
        if (isinstance(mine, dict) and wanted is None) or (wanted is not None and mine == wanted):
            passed += 1
            continue
        failed += 1
        if print_left[0] > 0:
            print_left[0] -= 1
            print(f"FAILED: {name}: {json.dumps(request)}:\n  {mine!r}\nis not\n  {wanted!r}")
    return passed, failed


def check_snippets(environment, command, folder, print_left):
    """Small templates, each with one thing of the language."""
    passed = failed = 0
    path = Path(folder) / "snippet"
    line = json.dumps({"messages": [user("x")], "chat_template_kwargs": jinja_snippets.VARIABLES}).encode()
    rendered = jinja_snippets.lines(jinja_snippets.SNIPPETS)
    for source in rendered + jinja_snippets.lines(jinja_snippets.REFUSED):
        path.write_text(source, encoding="utf-8")
        try:
            wanted = environment.from_string(source).render(messages=[user("x")], **jinja_snippets.VARIABLES)
        except Exception:  # whatever it is, we refuse too
            wanted = None
        code, ours = run_command(command + [str(path)], [line])
        mine = ours[0] if ours and not isinstance(ours[0], dict) else None
        if mine == wanted and (wanted is not None) == (source in rendered):
            passed += 1
            continue
        failed += 1
        if print_left[0] > 0:
            print_left[0] -= 1
            print(f"FAILED: {source}: exit code {code}, {str(ours)}\nis not\n    {wanted!r}")
    return passed, failed


def check_refusals(command):
    """What cannot be rendered becomes an error line and exit code 1, and never a prompt."""
    one = {"role": "user", "content": "x"}
    bad = [{}, {"messages": []}, {"messages": "x"}, {"messages": [{"role": "king", "content": "x"}]},
           {"messages": [{"role": "user"}]}, {"messages": [{"role": "user", "content": 5}]}, {"messages": [7]},
           {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, {"messages": [one], "tools": "x"},
           {"messages": [one], "chat_template_kwargs": []}, {"messages": [one], "other": 1}, {"messages": [one] * 5000}]
    code, replies = run_command(command, [json.dumps(request).encode() for request in bad] + [b"[", b"5"])
    failed = len(bad) + 2 - sum(isinstance(reply, dict) and "error" in reply for reply in replies)
    if code != 1 or failed:
        print(f"FAILED: {failed} bad requests were not refused, exit code {code}")
    return len(bad) + 2 - failed, failed + (code != 1)


def check_hostile(command, folder):
    """None of these may become a prompt, crash, or take long."""
    passed = failed = 0
    line = json.dumps({"messages": [user("x")]}).encode()
    for name, source in jinja_snippets.HOSTILE.items():
        path = Path(folder) / name
        path.write_bytes(source)
        code, replies = run_command(command + [str(path)], [line])
        refused = code == 78 or (code == 1 and len(replies) == 1 and isinstance(replies[0], dict))
        passed += refused
        failed += not refused
        if not refused:
            print(f"FAILED: hostile template {name}: exit code {code}, {str(replies)[:200]}")
    return passed, failed


def gather(model):
    """(templates: name -> source, why some are missing or None)"""
    found = {}
    if os.path.exists(model):
        found["the small model's"] = read_metadata(model, TEMPLATE)[TEMPLATE]
    try:
        folder = fetch_llama_files.fetch()
    except (fetch_llama_files.Unavailable, OSError) as error:
        return found, str(error)
    for path in sorted(folder.glob("templates/*.jinja")):
        found[path.name] = path.read_text(encoding="utf-8")
    for path in sorted(folder.glob("ggml-vocab-*.gguf")):
        source = read_metadata(path, TEMPLATE).get(TEMPLATE)
        if source:
            found[path.name] = source
    return found, None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--shown", type=int, default=5)
    parser.add_argument("--table", help="write what each template does with roles to this file")
    parser.add_argument("command", nargs="*")
    options = parser.parse_args()
    try:
        environment = make_environment()
    except ImportError as error:
        skip(f"the Python package jinja2 cannot be imported ({error})")
    command = options.command or next((c for c in COMMANDS if os.path.exists(c[0])), None)
    if not command:
        skip("nothing is built that renders")
    templates, missing = gather(options.model)
    passed = failed = skipped = compared = 0
    print_left = [options.shown]
    rows = []
    tool_formats = {}
    day = datetime.date.today()
    with tempfile.TemporaryDirectory() as scratch:
        for name, source in templates.items():
            if options.only not in name:
                continue
            is_small = not name.endswith((".jinja", ".gguf"))
            path = Path(scratch) / "template.jinja"
            path.write_bytes(source.encode())
            tool_formats[name] = tool_format_of(path, command)
            requests = make_requests(options.count if is_small else 150, options.seed, is_small)
            requests += [{**request, "chat_template_kwargs": VARIABLES[name]} for request in requests
                         if name in VARIABLES]
            counts = check_template(environment, name, source, command + [str(path)], requests, print_left)
            if datetime.date.today() != day:  # midnight came between their clock and ours
                day = datetime.date.today()
                counts = check_template(environment, name, source, command + [str(path)], requests, print_left)
            wrong, row = check_promises(name, source, command + [str(path)])
            rows.append(row)
            if wrong:
                print(f"FAILED: {name}: {', '.join(wrong)}")
            counts = (counts[0], counts[1] + len(wrong))
            compared += sum(counts)
            good = counts[1] == 0 and counts[0] > 0
            if not good:
                print(f"FAILED: {name}: {counts[1]} of {sum(counts)}")
            passed, failed = passed + good, failed + (not good)
        if not options.only:
            small = check_snippets(environment, command, scratch, print_left)
            passed, failed = passed + small[0], failed + small[1]
            hostile = check_hostile(command, scratch)
            passed, failed = passed + hostile[0], failed + hostile[1]
            refused = check_refusals(command + [str(path)]) if templates else (0, 0)
            passed, failed = passed + refused[0], failed + refused[1]
    if not options.only and not missing:
        told = check_tool_formats({name: kind for name, kind in tool_formats.items() if name.endswith(".jinja")})
        passed, failed = passed + told[0], failed + told[1]
    if options.table:
        write_table(options.table, rows)
    if os.path.exists(options.model) and not options.only:
        # The model itself, with its own tokens.
        template = compiled(environment, templates["the small model's"])
        requests = [{"messages": [user("hi")], "add_generation_prompt": True}]
        _, ours = run_command(command + [options.model], [json.dumps(requests[0]).encode()])
        passed, failed = (passed + 1, failed) if ours == [render(template, requests[0])] else (passed, failed + 1)
    elif not options.only:
        print(f"SKIPPED: {options.model} is not there (tools/fetch-model smollm2)")
        skipped += 1
    if missing:
        print(f"SKIPPED: llama.cpp's templates: {missing}")
        skipped += 70
    print(f"compared {compared}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
