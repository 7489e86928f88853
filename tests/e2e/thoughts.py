"""A model that thinks before it answers (cases of tools_test.py): a tiny model whose template opens a thought, leaves it to the model, or
closes it. What is thought is `reasoning`, the rest is content or calls, as a few lines of Python read the same tokens; forms and required
calls come behind it; whole and streamed, also when a worker is killed in the middle."""
import json
import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import messages_test as messages
import tools_test as tools
from cluster import Cluster, Skip, post_json, request, stream_events

TEMPLATE = """{%- for t in tools or [] %}<tools>{{ t | tojson }}</tools>
{% endfor %}{%- for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}
<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|endoftext|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% if enable_thinking is false %}<think>

</think>

{% elif opens %}<think>
{% endif %}{% endif %}"""
MARKS = {**tools.MARKS, "<think>": 259, "</think>": 260}
OFTEN = {"259": 5, "260": 5}  # thoughts are begun, and end
ENDS = (3, 256)
NEVER = {str(i): -100 for i in ENDS}
SCHEMA = {"type": "object", "properties": {"a": {"enum": ["x", "yes"]}, "b": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["a", "b"],
          "additionalProperties": False}
FORM = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}


def loose(config, tensors):
    """Rows for all marks, and a head by which no token is much likelier than another."""
    import numpy as np
    tools.longer(config, tensors)
    rows, dim = tensors["model.embed_tokens.weight"].shape
    config.update(vocab_size=max(MARKS.values()) + 1, tie_word_embeddings=False)
    rng = np.random.default_rng(7)
    more = rng.normal(size=(config["vocab_size"] - rows, dim)).astype(np.float32)
    tensors["model.embed_tokens.weight"] = np.concatenate([tensors["model.embed_tokens.weight"], more])
    tensors["lm_head.weight"] = rng.normal(0, 0.05, (config["vocab_size"], dim)).astype(np.float32)


def model(folder, special):
    return tools.model(folder, special, TEMPLATE, MARKS, loose)


def body(**fields):
    return {"messages": tools.USER, "max_tokens": 200, "temperature": 1, "logit_bias": OFTEN, **fields}


def bodies():
    """Forms, required and named tools and tools as they come, with a thought that the prompt opened and with one that may come."""
    named = {"type": "function", "function": {"name": "get"}}
    kinds = [dict(response_format=FORM), dict(tools=tools.TOOLS, tool_choice="required"), dict(tools=tools.TOOLS, tool_choice=named),
             dict(tools=tools.TOOLS, response_format=FORM)]
    for i in range(16):
        yield body(**kinds[i % 4], seed=i, n=1 + i // 4 % 2, temperature=(1, 1.5)[i % 3 == 0], parallel_tool_calls=False, return_token_ids=True,
                   chat_template_kwargs={"opens": i // 8 == 0})


def spelled(ids):
    names = {number: text.encode() for text, number in MARKS.items()}
    return b"".join(names.get(i, b"" if i == 256 else bytes([i % 256])) for i in ids).decode(errors="replace")


def split(text, opens, shaped):
    """What was thought, and the rest."""
    if not opens:
        begin = re.match("[ \n\r]*<think>", text)
        if not begin:
            return None, text
        text = text[begin.end():]
    thought, _, rest = text.partition("</think>")
    return thought.strip("\r\n") or None, rest.removeprefix("\n\n") if shaped else rest.lstrip("\r\n")


def counted(ids, opens):
    """Tokens of a thought, with its marks."""
    if not opens and not re.match("[ \n\r]*<think>", spelled(ids)):
        return 0
    return ids.index(MARKS["</think>"]) + 1 if MARKS["</think>"] in ids else len(ids)


def whole(port, wanted):
    reply = post_json(port, "/v1/chat/completions", wanted, timeout=300)
    choices, details = reply["choices"], reply["usage"].get("completion_tokens_details")
    if wanted.get("return_token_ids") and details:
        wants = [counted(c["token_ids"], wanted["chat_template_kwargs"]["opens"]) for c in choices]
        assert details == {"reasoning_tokens": sum(wants)}, (details, wants, choices)
    for choice in choices:
        assert choice["message"].get("reasoning") == choice["message"].get("reasoning_content")
    return [(c["message"].get("reasoning"), c["message"]["content"] or None,
             [(t["function"]["name"], t["function"]["arguments"]) for t in c["message"].get("tool_calls", [])], c["finish_reason"],
             c.get("token_ids")) for c in choices]


def streamed(port, wanted):
    """As whole(), of a stream's chunks."""
    got = {}
    for event in stream_events(port, "/v1/chat/completions", {**wanted, "stream": True}, timeout=300):
        for choice in json.loads(event)["choices"] if event != "[DONE]" else []:
            one, delta = got.setdefault(choice["index"], [None, None, [], None, []]), choice["delta"]
            assert delta.get("reasoning") == delta.get("reasoning_content"), delta
            for place, name in enumerate(("reasoning", "content")):
                if delta.get(name) is not None:
                    assert name == "content" or one[1] is None, (one, delta)  # nothing is thought behind the answer's begin
                    one[place] = (one[place] or "") + delta[name]
            for part in delta.get("tool_calls", []):
                if part["index"] == len(one[2]):
                    one[2].append([part["function"]["name"], ""])
                one[2][-1][1] += part["function"]["arguments"]
            one[3] = choice["finish_reason"] or one[3]
            one[4] += choice.get("token_ids") or []
    return [(*got[i][:2], [tuple(call) for call in got[i][2]], *got[i][3:]) for i in range(len(got))]


def right(wanted, got):
    """Is it what the tokens say, and of the form? Counts what was thought."""
    import jsonschema
    n = 0
    for thought, content, calls, end, ids in got:
        if end == "length":
            continue
        read, rest = split(spelled(ids[:-1] if ids[-1] in ENDS else ids), wanted["chat_template_kwargs"]["opens"], True)
        assert thought == read, (thought, read)
        n += thought is not None
        for name, arguments in calls:
            jsonschema.validate(json.loads(arguments), tools.SCHEMAS[name])
            assert content is None and arguments in rest and end == "tool_calls", (content, rest)
        if not calls:
            assert content == rest and "tool_choice" not in wanted and end == "stop", (content, rest, end)
            jsonschema.validate(json.loads(content), SCHEMA)
    return n


def answers(port, ask):
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda wanted: ask(port, wanted), bodies()))


def forms(folder):
    """Forms and calls come behind what is thought, the same whole and streamed, and while workers are killed."""
    with Cluster("--mixed", 2, model=str(folder)) as cluster:
        got = answers(cluster.port, whole)
        n = sum(right(wanted, one) for wanted, one in zip(bodies(), got))
        n_ended = sum(each[3] != "length" for one in got for each in one)
        assert n >= 8 and n_ended >= 16, (n, n_ended, got)
        again = answers(cluster.port, streamed)
        assert again == got, [pair for pair in zip(again, got) if pair[0] != pair[1]]
        with ThreadPoolExecutor(1) as pool:
            later = pool.submit(answers, cluster.port, streamed)
            time.sleep(0.3)
            os.kill(cluster.workers()[0]["pid"], signal.SIGKILL)
            again = later.result()
        assert again == got, [pair for pair in zip(again, got) if pair[0] != pair[1]]
        return f"{n} thoughts, {n_ended} answers"


def texts(folder):
    """Without a form: the text of the same tokens in one piece, cut in two."""
    n = 0
    with Cluster("--mixed", 1, model=str(folder)) as cluster:
        for i in range(12):
            opens = i % 2 == 0
            asked = body(seed=i, max_tokens=60, n=2, chat_template_kwargs={"opens": opens}, logit_bias={**OFTEN, **NEVER})
            joined = whole(cluster.port, {**asked, "separate_reasoning": False, "skip_special_tokens": False})
            got = whole(cluster.port, asked)
            assert streamed(cluster.port, asked) == [(*each[:4], []) for each in got], got
            hidden = whole(cluster.port, {**asked, "include_reasoning": False})
            for one, two, three in zip(joined, got, hidden):
                thought, rest = split(one[1], opens, False)
                assert one[0] is None and two[0] == thought and (two[1] or "") == rest, (one, two)
                assert three[0] is None and (three[1] or "") == rest, (one, three)
                n += thought is not None
        assert n >= 6, n
        return f"{n} thoughts"


def ends(cluster):
    """Cut in mid-thought by a bound, by a stop string; logprobs are of all tokens; not thinking at all."""
    never = body(chat_template_kwargs={"opens": True}, logit_bias={"260": -100, **NEVER}, seed=1, max_tokens=30)
    (thought, content, _, end, _), = whole(cluster.port, never)
    assert thought and content is None and end == "length", (thought, content, end)
    part = thought[3:5]
    (stopped, content, _, end, _), = whole(cluster.port, {**never, "stop": [part]})
    assert stopped == thought[:thought.index(part)].rstrip("\r\n") and content is None and end == "stop", (stopped, content, end)
    choice = post_json(cluster.port, "/v1/chat/completions", {**body(seed=3, n=1, chat_template_kwargs={"opens": True}, response_format=FORM),
                                                              "logprobs": True, "return_token_ids": True})["choices"][0]
    entries = choice["logprobs"]["content"]
    assert len(entries) == len(choice["token_ids"])
    said = b"".join(bytes(e["bytes"]) for e in entries).decode(errors="replace")
    assert said.startswith(choice["message"]["reasoning"]) and choice["message"]["content"] in said, (said, choice)
    for field in ({"enable_thinking": False}, {"chat_template_kwargs": {"enable_thinking": False, "opens": True}}):
        (thought, content, _, end, _), = whole(cluster.port, body(response_format=FORM, seed=5, **field))
        assert thought is None and json.loads(content)["a"] in ("x", "yes"), (thought, content)
    status, _, reply = request(cluster.port, "POST", "/v1/chat/completions", body(enable_thinking=True, chat_template_kwargs={"enable_thinking": False}))
    assert status == 400 and json.loads(reply)["error"]["param"] == "enable_thinking", reply
    status, _, reply = request(cluster.port, "POST", "/v1/completions", {"prompt": "a", "enable_thinking": True})
    assert status == 400 and json.loads(reply)["error"]["param"] == "enable_thinking", reply


def of_openai(cluster):
    """The package reads what was thought, and what it makes of an answer reaches the template."""
    try:
        import openai
    except ImportError as error:
        raise Skip(f"the Python package openai cannot be imported ({error})") from error
    with openai.OpenAI(base_url=f"http://127.0.0.1:{cluster.port}/v1", api_key="none", max_retries=0, timeout=120) as client:
        asked = dict(model=client.models.list().data[0].id, messages=tools.USER, response_format=FORM, seed=3, logit_bias=OFTEN,
                     extra_body={"chat_template_kwargs": {"opens": True}})
        completion = client.chat.completions.create(**asked)
        message, n = completion.choices[0].message, completion.usage.completion_tokens_details.reasoning_tokens
        assert 0 < n < completion.usage.completion_tokens - 10, completion.usage
        last = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))[-1]
        assert last.usage.completion_tokens_details.reasoning_tokens == n and last.usage.prompt_tokens > 0, (last, n)
        assert message.reasoning and message.reasoning == message.reasoning_content and json.loads(message.content), message
        parts = [chunk.choices[0].delta for chunk in client.chat.completions.create(**asked, stream=True) if chunk.choices]
        assert "".join(getattr(part, "reasoning", None) or "" for part in parts) == message.reasoning
        assert "".join(part.content or "" for part in parts) == message.content
        said = [*tools.USER, message.model_dump(exclude_none=True)]
        ids = post_json(cluster.port, "/tokenize", {"messages": said, "add_generation_prompt": False})["tokens"]
        assert f"<think>\n{message.reasoning}\n</think>\n\n{message.content}" in spelled(ids), spelled(ids)


def of_anthropic(cluster, folder):
    """Blocks of thinking before those of text and of calls, whole and streamed, and by its package where that is here."""
    asked = {"model": folder.name, "max_tokens": 300, "messages": [{"role": "user", "content": "What now?"}], "temperature": 0,
             "chat_template_kwargs": {"opens": True}}
    form = {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}
    call = {"tools": messages.TOOLS, "tool_choice": {"type": "tool", "name": "get"}}
    for fields, kind in ((form, "text"), (call, "tool_use")):
        got = messages.post(cluster.port, {**asked, **fields})
        kinds = [block["type"] for block in got["content"]]
        assert kinds in (["thinking"], ["thinking", kind]) and got["content"][0]["thinking"] and got["content"][0]["signature"] == "", got
        assert messages.without_ids(messages.put_together(messages.events(cluster.port, {**asked, **fields}))) == messages.without_ids(got)
        off = messages.post(cluster.port, {**asked, **fields, "thinking": {"type": "disabled"}})
        assert [block["type"] for block in off["content"]] == [kind], off
    try:
        import anthropic
    except ImportError as error:
        raise Skip(f"the Python package anthropic cannot be imported ({error})") from error
    with anthropic.Anthropic(base_url=f"http://127.0.0.1:{cluster.port}", api_key="none", max_retries=0, timeout=120) as client:
        fields = dict(model=folder.name, max_tokens=40, messages=asked["messages"], extra_body={"temperature": 0, "chat_template_kwargs": {"opens": True}})
        message = client.messages.create(**fields)
        with client.messages.stream(**fields) as stream:
            final = stream.get_final_message()
        assert message.content[0].type == "thinking" and final.content[0].thinking == message.content[0].thinking, (message, final)


def run(tally, folder):
    for special in (False, True):
        model(folder / f"thinks-{special}", special)
        kind = "special tokens" if special else "text"
        tally.run(f"thoughts between marks that are {kind}, and forms", forms, folder / f"thinks-{special}")
        tally.run(f"thoughts between marks that are {kind}, and text", texts, folder / f"thinks-{special}")
    with Cluster("--mixed", 1, model=str(folder / "thinks-False")) as cluster:
        tally.run("thoughts that are cut, or left out", cluster.shown, ends)
        tally.run("thoughts of the openai package", cluster.shown, of_openai)
        tally.run("thoughts in Anthropic's messages", cluster.shown, of_anthropic, folder / "thinks-False")
