#!/usr/bin/env python3
"""Answers that have a form: JSON of random schemas, regular expressions, choices, by every field that says so. What ends by itself is
valid by jsonschema and Python's re, whatever the temperature, whole or streamed, handed over, and when workers are killed meanwhile;
what cannot be kept is a 400 that names where. Real model."""
import argparse
import json
import os
import random
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from cluster import Cluster, Skip, Tally, post_json, real_model, request, stream_events

try:
    import jsonschema
except ImportError:
    jsonschema = None

N_TOKENS = 120
n_schemas = 24  # --schemas
os.environ.setdefault("TANDEM_THREADS", "1")  # two that share a core wait for each other; the answers have the same bits
REGEXES = [r"\d{4}-\d{2}-\d{2}", r"(yes|no), (?:because .{1,20})\.", r"[A-Z][a-z]{2,9}( [A-Z][a-z]{2,9})?", r"-?(0|[1-9]\d{0,5})(\.\d+)?",
           r"(ab|cd){2,4}", r"\w+@\w+\.(com|org)"]


def schema(chance, depth=0):
    """A small schema; most of their values are short."""
    kinds = ["enum", "integer", "number", "string", "boolean", "const", "pattern"] + ["object", "array", "anyOf"] * (2 if depth < 2 else 0)
    kind = chance.choice(kinds) if depth else "object"
    if kind == "enum":
        return {"enum": chance.sample(["red", "green", 5, None, True, [1], {"a": 1}, "é\n"], 3)}
    if kind == "const":
        return {"const": chance.choice(["x y", 17, {"k": [None]}])}
    if kind == "integer":
        low = chance.randrange(-50, 50)
        return {"type": "integer", "minimum": low, "maximum": low + chance.randrange(1, 2000)}
    if kind == "number":
        return {"type": "number", "exclusiveMinimum": 0, "maximum": 99.5}
    if kind == "string":
        return {"type": "string", "minLength": 1, "maxLength": chance.randrange(1, 12)}
    if kind == "pattern":
        return {"type": "string", "pattern": chance.choice([r"^[a-f]{3,6}$", r"^\d+-\d$", r"^(up|down)$"]), "maxLength": 12}
    if kind == "array":
        return {"type": "array", "items": schema(chance, depth + 1), "minItems": 1, "maxItems": 3}
    if kind == "anyOf":
        return {"anyOf": [schema(chance, depth + 1) for _ in range(2)]}
    if kind == "boolean":
        return {"type": ["boolean", "null"]}
    names = chance.sample(["name", "age", "tags", "ü", "a b", "id"], chance.randrange(1, 4))
    return {"type": "object", "properties": {name: schema(chance, depth + 1) for name in names},
            "required": chance.sample(names, chance.randrange(1, len(names) + 1)), "additionalProperties": False}


def bodies():
    chance = random.Random(26)
    for i in range(n_schemas):
        form = schema(chance)
        yield form, {"messages": [{"role": "user", "content": f"Number {i}. Answer in JSON."}], "max_tokens": N_TOKENS, "n": 2,
                     "temperature": (0, 1, 2)[i % 3], "seed": i, "logprobs": i % 4 == 0,
                     "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": form, "strict": True}}}


def whole(port, body):
    choices = post_json(port, "/v1/chat/completions", body, timeout=300)["choices"]
    return [(choice["message"]["content"], choice["finish_reason"]) for choice in choices]


def streamed(port, body):
    texts, ends = [""] * body["n"], [None] * body["n"]
    for event in stream_events(port, "/v1/chat/completions", body, timeout=300):
        for choice in json.loads(event)["choices"] if event != "[DONE]" else []:
            texts[choice["index"]] += choice["delta"].get("content") or ""
            ends[choice["index"]] = choice["finish_reason"] or ends[choice["index"]]
    return list(zip(texts, ends))


def answers(port, ask=whole):
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda pair: ask(port, pair[1]), bodies()))


def valid(got):
    """How many ended by themselves: each of them is a value of its schema."""
    n = 0
    for (form, _), choices in zip(bodies(), got):
        for text, end in choices:
            assert end in ("stop", "length"), end
            if end == "stop":
                n += 1
                jsonschema.validate(json.loads(text), form, cls=jsonschema.Draft202012Validator)
            else:
                assert text.startswith("{"), text
    return n


def schemas(cluster, expected):
    if not jsonschema:
        raise Skip("no jsonschema")
    got = answers(cluster.port)
    n = valid(got)
    assert n >= 0.95 * 2 * n_schemas, f"{n} of {2 * n_schemas} ended"
    assert answers(cluster.port, streamed) == got
    cluster.quiet()
    metrics = request(cluster.port, "GET", "/metrics")[2].decode()
    counts = dict(re.findall(r'tandem_formats_total\{outcome="(\w+)"\} (\d+)', metrics))
    assert int(counts["compiled"]) <= n_schemas and int(counts["known"]) >= n_schemas, counts
    expected.extend(got)
    return f"{n} of {2 * n_schemas} answers ended by themselves"


def handed_over(expected):
    if not expected:
        raise Skip("the schemas' answers are not known")
    with Cluster("--prefill", 1, "--decode", 1, "--roles", "fixed", model=real_model()) as cluster:
        assert answers(cluster.port) == expected
        n = sum(w["handoffs"]["in"] for w in cluster.quiet()["workers"])
        assert n > 0, n
    return f"{n} hand-offs"


def killed(expected, n_kills):
    """The same answers while a worker is killed each second."""
    if not expected:
        raise Skip("the schemas' answers are not known")
    got, stop = [], threading.Event()

    def ask(port):
        while not stop.is_set():
            got.append(answers(port, streamed))
    with Cluster("--mixed", 2, model=real_model()) as cluster:
        cluster.kill_workers_beside([threading.Thread(target=ask, args=(cluster.port,))], stop, n_kills)
        cluster.quiet()
        replays = cluster.status()["routers"][0]["core"]["replays"]
    assert got and all(each == expected for each in got)
    assert replays > 0, "nobody was killed while it answered"
    return f"{len(got)} rounds, {replays} replays"


def other_fields(cluster):
    for i, regex in enumerate(REGEXES):
        fields = ({"structured_outputs": {"regex": regex}}, {"guided_regex": regex}, {"regex": regex})
        for field in fields if i == 0 else fields[i % 3:][:1]:
            body = {"prompt": "The answer is", "max_tokens": 60, "temperature": 1.2, "seed": i, **field}
            choice = post_json(cluster.port, "/v1/completions", body)["choices"][0]
            if choice["finish_reason"] == "stop":
                assert re.fullmatch(regex, choice["text"]), (regex, choice)
    for field in ({"structured_outputs": {"choice": ["left", "right", "left or right"]}},
                  {"guided_choice": ["left", "right", "left or right"]}):
        for seed in range(4):
            body = {"prompt": "Turn", "max_tokens": 20, "temperature": 2, "seed": seed, "logit_bias": {"5": 3}, **field}
            choice = post_json(cluster.port, "/v1/completions", body)["choices"][0]
            assert choice["text"] in ("left", "right", "left or right") and choice["finish_reason"] == "stop", choice
    sums = 'root ::= sum " = " num\nsum ::= num ([-+*] num){1,3}\nnum ::= [1-9] [0-9]?'
    lark = 'start: NUM ("," NUM)~2..4\nNUM: /[1-9][0-9]{0,2}/'
    for regex, field in ((r"\d{1,2}([-+*]\d{1,2}){1,3} = \d{1,2}", {"grammar": sums}), (r"\d{1,3}(,\d{1,3}){2,4}", {"guided_grammar": lark}),
                         (r"\d{1,3}(,\d{1,3}){2,4}", {"structured_outputs": {"grammar": lark}})):
        body = {"prompt": "The sum is", "max_tokens": 60, "temperature": 1.2, "seed": 7, **field}
        choice = post_json(cluster.port, "/v1/completions", body)["choices"][0]
        assert choice["finish_reason"] == "stop" and re.fullmatch(regex, choice["text"]), (field, choice)
    for field in ({"response_format": {"type": "json_object"}}, {"structured_outputs": {"json_object": True}}):
        body = {"messages": [{"role": "user", "content": "JSON with one short member."}], "max_tokens": 60, **field}
        choice = post_json(cluster.port, "/v1/chat/completions", body)["choices"][0]
        text = choice["message"]["content"]
        assert text.startswith("{") and (choice["finish_reason"] == "length" or isinstance(json.loads(text), dict)), choice
    body = {"prompt": "x", "max_tokens": 9, "temperature": 0, "guided_regex": "[0-9]{40}", "ignore_eos": True, "min_tokens": 9}
    choice = post_json(cluster.port, "/v1/completions", body)["choices"][0]
    assert re.fullmatch("[0-9]+", choice["text"]) and choice["finish_reason"] == "length", choice
    tokens = post_json(cluster.port, "/tokenize", {"prompt": "abc"})["tokens"]
    none = {"prompt": "x", "max_tokens": 4, "guided_regex": "[0-9]+", "allowed_token_ids": tokens}
    for _ in range(12):  # no worker is to blame
        status, _, answer = request(cluster.port, "POST", "/v1/completions", none)
        assert status == 400 and json.loads(answer)["error"]["code"] == "no_token_left", answer
    assert [w["state"] for w in cluster.workers()] == ["ready"], cluster.workers()
    plain = {"prompt": "The answer is", "max_tokens": 8, "temperature": 0, "logprobs": 3}
    free = post_json(cluster.port, "/v1/completions", plain)["choices"][0]
    bound = post_json(cluster.port, "/v1/completions", dict(plain, guided_regex="[\\s\\S]*"))["choices"][0]
    assert bound["text"] == free["text"] and bound["logprobs"] == free["logprobs"], (free, bound)


def parsed(cluster):
    try:
        import openai
        import pydantic
    except ImportError as missing:
        raise Skip(str(missing))

    class Person(pydantic.BaseModel):
        name: str = pydantic.Field(max_length=20)
        age: int = pydantic.Field(ge=0, le=150)

    client = openai.OpenAI(base_url=cluster.url + "/v1", api_key="none")
    answer = client.chat.completions.parse(model=client.models.list().data[0].id, max_tokens=100, temperature=0,
                                           messages=[{"role": "user", "content": "Ann is 40 years old."}], response_format=Person)
    person = answer.choices[0].message.parsed
    assert isinstance(person, Person) and 0 <= person.age <= 150, answer
    return person


def hostile(cluster):
    deep = "{}"
    for _ in range(3000):
        deep = '{"items":' + deep + "}"
    gaps, ids = [], []

    def stream():
        body = {"prompt": "Once", "max_tokens": 400, "ignore_eos": True, "return_token_ids": True}
        last = time.monotonic()
        for event in stream_events(cluster.port, "/v1/completions", body):
            gaps.append(time.monotonic() - last)
            last = time.monotonic()
            choices = json.loads(event)["choices"] if event != "[DONE]" else []
            ids.extend(i for c in choices for i in c.get("token_ids") or [])
    thread = threading.Thread(target=stream)
    thread.start()
    forms = [("guided_json", deep), ("guided_json", {"enum": list(range(200000))}), ("regex", "(((a{1000}){1000}){1000})"),
             ("regex", "(" * 5000 + "a" + ")" * 5000), ("regex", "a" * (1 << 20)), ("guided_json", {"pattern": "(a|aa)+" * 500}),
             ("guided_json", {"$ref": "#"}), ("guided_json", {"anyOf": [{"$ref": "#"}, {"$ref": "#/anyOf/0"}]})]
    n = 0
    for field, form in forms:
        body = json.dumps({"prompt": "x", "max_tokens": 2, field: form})
        status, _, answer = request(cluster.port, "POST", "/v1/completions", body)
        assert status in (200, 400), (status, answer[:300])
        assert status == 200 or field in json.loads(answer)["error"]["message"], answer[:300]
        n += status == 400
    assert n >= 5, n
    thread.join(120)
    assert len(ids) == 400, len(ids)
    return f"{n} of {len(forms)} refused, a stream beside them had gaps of {max(gaps[1:]):.2f} s at most"


def main():
    global n_schemas
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schemas", type=int, default=n_schemas)
    parser.add_argument("--kills", type=int, default=4, help="of workers, one a second")
    options = parser.parse_args()
    n_schemas = options.schemas
    tally, expected = Tally(), []
    names = ("random_schemas", "regexes_choices_objects", "openai_parse", "hostile_forms",
             "the_same_when_handed_over", "the_same_when_workers_are_killed")
    try:
        real_model()
    except Skip as reason:
        for name in names:
            tally.skip(name, reason)
        sys.exit(tally.end())
    # A worker takes longer to load the model than for most of what it is asked here: one for all that wants no more of it.
    with Cluster("--mixed", 1, model=real_model()) as cluster:
        tally.run(names[0], cluster.shown, schemas, expected)
        for name, function in zip(names[1:4], (other_fields, parsed, hostile)):
            tally.run(name, cluster.shown, function)
    tally.run(names[4], handed_over, expected)
    tally.run(names[5], killed, expected, options.kills)
    sys.exit(tally.end())


main()
