#!/usr/bin/env python3
"""Answers that have a form: JSON of random schemas and of groups of the JSON-Schema-Test-Suite, regular expressions, choices, grammars, by
every field that says so. What ends by itself is valid by jsonschema and Python's re, and what is cut short is a beginning of such a
text, whatever the temperature, whole or streamed, handed over, and when workers are killed meanwhile; what cannot be kept is a 400
that names where. Real model."""
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
from grammar_oracle import SUITE, Grammars

try:
    import jsonschema
except ImportError:
    jsonschema = None

N_TOKENS = 120
N_MIXED = 24    # schemas that are asked for at temperatures 0, 1 and 2; the others at 2
n_schemas = 24  # --schemas
n_groups = 0    # --groups
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


SUMS = 'root ::= sum " = " num\nsum ::= num ([-+*] num){1,3}\nnum ::= [1-9] [0-9]?'
LARK = 'start: NUM ("," NUM)~2..4\nNUM: /[1-9][0-9]{0,2}/'
CHOICES = ["left", "right", "left or right", "\u00fcber \u4e2d"]


class Form:
    """What an answer must look like: of which notation, who says so, and how it is asked for."""

    def __init__(self, kind, text, judge, field, is_small=False):
        self.kind, self.text, self.judge, self.field, self.is_small = kind, text, judge, field, is_small


def of_schema(schema, is_small):
    return Form("json_schema", json.dumps(schema), lambda text: jsonschema.validate(json.loads(text), schema, cls=jsonschema.Draft202012Validator),
                {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}}, is_small)


def matches(regex):
    def judge(text):
        assert re.fullmatch(regex, text, re.ASCII), (regex, text)
    return judge


def groups(grammars):
    """Schemas of the JSON-Schema-Test-Suite that are kept, the first of each file, then the second and so on."""
    folder = next(SUITE.glob("*/json/tests/draft2020-12"), None)
    if not folder or n_groups == 0:
        return []
    files = [[group["schema"] for group in json.loads(path.read_text())] for path in sorted(folder.glob("*.json"))]
    in_turn = [each[i] for i in range(max(map(len, files))) for each in files if i < len(each)]
    return [schema for schema in in_turn if "status" not in grammars.ask("json_schema", json.dumps(schema))][:n_groups]


forms = []


def draw_forms(grammars):
    chance = random.Random(26)
    forms.extend(of_schema(schema(chance), True) for _ in range(n_schemas))
    forms.extend(of_schema(each, False) for each in groups(grammars))
    forms.extend(Form("regex", regex, matches(regex), {"guided_regex": regex}) for regex in REGEXES)
    forms.append(Form("regex", "|".join(CHOICES), matches("|".join(CHOICES)), {"guided_choice": CHOICES}))
    forms.append(Form("gbnf", SUMS, matches(r"\d{1,2}([-+*]\d{1,2}){1,3} = \d{1,2}"), {"grammar": SUMS}))
    forms.append(Form("lark", LARK, matches(r"\d{1,3}(,\d{1,3}){2,4}"), {"guided_grammar": LARK}))


def bodies():
    for i, form in enumerate(forms):
        yield form, {"messages": [{"role": "user", "content": f"Number {i}. Answer in JSON."}], "max_tokens": N_TOKENS, "n": 2,
                     "temperature": (0, 1, 2)[i % 3] if i < N_MIXED else 2, "seed": i, "logprobs": i % 4 == 0, **form.field}


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


def valid(got, grammars):
    """How many answers of small schemas ended by themselves. All that did are of their forms, the others begin a text of theirs."""
    n = 0
    for form, choices in zip(forms, got):
        for text, end in choices:
            assert end in ("stop", "length"), (end, form.text)
            reply = grammars.ask(form.kind, form.text, [text], begins=[text.rstrip("\ufffd")])
            if end == "stop":
                n += form.is_small
                form.judge(text)
                assert reply["takes"] == [1], (form.text, text)
            assert reply["begins"] == [1], (form.text, text)
    return n


def answered(cluster, expected, grammars):
    if not jsonschema:
        raise Skip("no jsonschema")
    got = answers(cluster.port)
    n = valid(got, grammars)
    assert n >= 0.95 * 2 * n_schemas, f"{n} of {2 * n_schemas} ended"
    assert answers(cluster.port, streamed) == got
    cluster.quiet()
    metrics = request(cluster.port, "GET", "/metrics")[2].decode()
    counts = dict(re.findall(r'tandem_formats_total\{outcome="(\w+)"\} (\d+)', metrics))
    assert int(counts["compiled"]) + int(counts["known"]) >= 2 * len(forms) and int(counts["refused"]) == 0, counts
    if len(forms) < 60:  # of a few none is forgotten
        assert int(counts["compiled"]) <= len(forms), counts
    expected.extend(got)
    ended = sum(end == "stop" for choices in got for _, end in choices)
    return (f"{n} of {2 * n_schemas} answers of random schemas ended by themselves, of {len(forms) - n_schemas} other forms "
            f"({len(forms) - n_schemas - len(REGEXES) - 3} groups of the suite) {ended - n} of {2 * (len(forms) - n_schemas)}")


def handed_over(expected):
    if not expected:
        raise Skip("the schemas' answers are not known")
    with Cluster("--prefill", 1, "--decode", 1, "--roles", "fixed", model=real_model()) as cluster:
        assert answers(cluster.port) == expected
        n = sum(w["handoffs"]["in"] for w in cluster.quiet()["workers"])
        assert n > 0, n
    return f"{sum(map(len, expected))} answers, {n} hand-offs"


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
    return f"{len(got)} rounds of {sum(map(len, expected))} answers, {n_kills} kills, {replays} replays"


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
    for regex, field in ((r"\d{1,2}([-+*]\d{1,2}){1,3} = \d{1,2}", {"grammar": SUMS}), (r"\d{1,3}(,\d{1,3}){2,4}", {"guided_grammar": LARK}),
                         (r"\d{1,3}(,\d{1,3}){2,4}", {"structured_outputs": {"grammar": LARK}})):
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
    global n_schemas, n_groups
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schemas", type=int, default=n_schemas)
    parser.add_argument("--groups", type=int, default=n_groups, help="of the JSON-Schema-Test-Suite, at most")
    parser.add_argument("--kills", type=int, default=4, help="of workers, one a second")
    options = parser.parse_args()
    n_schemas, n_groups = options.schemas, options.groups
    tally, expected = Tally(), []
    names = ("random_schemas", "regexes_choices_objects", "openai_parse", "hostile_forms",
             "the_same_when_handed_over", "the_same_when_workers_are_killed")
    try:
        real_model()
    except Skip as reason:
        for name in names:
            tally.skip(name, reason)
        sys.exit(tally.end())
    grammars = Grammars()
    draw_forms(grammars)
    # A worker takes longer to load the model than for most of what it is asked here: one for all that wants no more of it.
    with Cluster("--mixed", 1, model=real_model()) as cluster:
        tally.run(names[0], cluster.shown, answered, expected, grammars)
        for name, function in zip(names[1:4], (other_fields, parsed, hostile)):
            tally.run(name, cluster.shown, function)
    tally.run(names[4], handed_over, expected)
    tally.run(names[5], killed, expected, options.kills)
    grammars.end()
    sys.exit(tally.end())


main()
