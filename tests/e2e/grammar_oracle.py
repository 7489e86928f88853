#!/usr/bin/env python3
"""What a grammar takes, against those who know: the JSON-Schema-Test-Suite, jsonschema, Python's re, llguidance and lark.

usage: grammar_oracle.py [--count N] [--seed N] [NAME...]

Whole texts are compared with others', never masks: two engines that are right may differ in what they let a model write next. Six
comparisons (NAME: suite, walks, schemas, regexes, grammars, masks):
  suite     each group of the JSON-Schema-Test-Suite (draft 2020-12): a schema is compiled or refused with a path; a valid instance
            is taken in some spelling, an invalid one in none
  walks     of public schemas, each is compiled or refused with a path that is there; what is drawn from one is valid by jsonschema,
            and mutated instances that jsonschema refuses are refused
  schemas   random schemas: texts of ours, and mutated ones, against jsonschema and llguidance
  regexes   random expressions against Python's re and llguidance
  grammars  random context-free grammars in Lark, GBNF and EBNF, against lark's Earley parser and llguidance
  masks     of a real vocabulary, on walks over e-mail addresses and other strings, most of bounded repetitions: a mask has a token
            exactly where that token, followed byte by byte, is taken
Prints "N passed, M failed, K skipped" and exits with 0 only when nothing failed.
"""
import argparse
import collections
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "build" / "release" / "tests"
CLI = TOOLS / "grammar_cli"
CACHE = Path(os.environ.get("TANDEM_CACHE") or os.path.expanduser("~/.cache/tandem"))
SUITE = CACHE / "json-schema-suite"  # of the sdist of jsonschema (tools/lib/fetch.sh)
PUBLIC = CACHE / "public-schemas"    # of check-jsonschema and nbformat
SPELLINGS_MAX = 400

try:
    import jsonschema
    import jsonschema.validators
except ImportError:
    jsonschema = None
try:
    import llguidance
except ImportError:
    llguidance = None
try:
    import lark
except ImportError:
    lark = None

# Valid by the draft and taken in no spelling here: an expression for the tests' names, and why.
NARROWER = {
    r"(date-time|time): .*leap second": "seconds end with 59",
    r"(date-time|time): .*case-insensitive": "T and Z are large letters",
    "email: .*(quoted string|address-literal|two separated dots)": "the local part is one or two atoms, what follows a host's name",
    "ipv6: .*mixed format": "an IPv4 address stands behind six groups or ::",
    r"uri: .*(special characters|ftp scheme|a valid URL $)": "an authority is a user, a name of at most three labels or an IPv4 address, a port",
    "format: ": "a format is kept, where the draft takes it for a remark",
    "const: const with -2.0 matches": "a constant is written as the schema writes it",
    "const: float and integers are equal": "the same",
    "vocabulary: schema that uses custom metaschema": "a schema's own vocabularies say nothing",
}


class Counts:
    def __init__(self):
        self.failed = self.skipped = self.compared = 0

    def check(self, is_right, what):
        self.compared += 1
        self.failed += not is_right
        if not is_right and self.failed <= 40:
            print(f"FAILED  {what}"[:600])

    def skip(self, what, why):
        self.skipped += 1
        print(f"SKIPPED {what}: {why}")


class Grammars:
    """The tool that has our engine."""

    def __init__(self, *model):
        self.tool = subprocess.Popen([CLI, *model], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, kind, text, texts=(), begins=(), walks=0, seed=1, lenient=False, masks=0):
        line = {"kind": kind, "text": text, "texts": list(texts), "begins": list(begins), "walks": walks, "seed": seed, "lenient": lenient, "masks": masks}
        self.tool.stdin.write(json.dumps(line) + "\n")
        self.tool.stdin.flush()
        return json.loads(self.tool.stdout.readline())

    def end(self):
        self.tool.stdin.close()
        assert self.tool.wait(60) == 0


def orders(value):
    """The same value with the members of its objects in every order, and whole numbers as integers; not all where they are many."""
    if isinstance(value, dict):
        keys = [list(order) for order in itertools.islice(itertools.permutations(value), 24)]
        for order in keys:
            for values in itertools.islice(itertools.product(*(list(itertools.islice(orders(value[k]), 24)) for k in order)), SPELLINGS_MAX):
                yield dict(zip(order, values))
    elif isinstance(value, list):
        for values in itertools.islice(itertools.product(*(list(itertools.islice(orders(v), 24)) for v in value)), SPELLINGS_MAX):
            yield list(values)
    elif isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        yield int(value)
        yield value
    else:
        yield value


def spell(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def spellings(value):
    return [spell(order) for order in itertools.islice(orders(value), SPELLINGS_MAX)]


def names_a_place(error, schema):
    """Whether an error's line names a path that is there in the schema, or says that no value is of all of it."""
    if error.startswith("no text matches"):
        return True
    found = re.match(r"schema (\(root\)|/.*?): ", error)
    if not found:
        return False
    at = schema
    for token in found.group(1).split("/")[1:]:
        token = token.replace("~1", "/").replace("~0", "~")
        try:
            at = at[int(token)] if isinstance(at, list) else at[token]
        except (KeyError, IndexError, ValueError, TypeError):
            return False
    return True


def suite(counts, grammars, given):
    folder = next(SUITE.glob("*/json/tests/draft2020-12"), None)
    if not folder:
        counts.skip("suite", "there is no JSON-Schema-Test-Suite")
        return
    n_groups = n_refused = 0
    reasons = collections.Counter()
    for path in sorted([*folder.glob("*.json"), *(folder / "optional" / "format").glob("*.json")]):
        for group in json.loads(path.read_text()):
            what = f"{path.stem}: {group['description']}"
            tests = group["tests"]
            texts = [spellings(test["data"]) for test in tests]
            reply = grammars.ask("json_schema", json.dumps(group["schema"]), itertools.chain(*texts))
            n_groups += 1
            if "status" in reply:
                n_refused += 1
                reasons[reply["error"].split(": ", 1)[-1][:100]] += 1
                counts.check(names_a_place(reply["error"], group["schema"]), f"{what}: refused without a path: {reply['error']}")
                continue
            takes = iter(reply["takes"])
            for test, forms in zip(tests, texts):
                is_in = any([next(takes) for _ in forms])
                name = f"{what}: {test['description']}"
                if is_in == test["valid"]:
                    counts.check(True, name)
                elif test["valid"]:
                    counts.check(any(re.match(known, name) for known in NARROWER),
                                 f"{name}: not taken: {spell(test['data'])[:80]} of {json.dumps(group['schema'])[:200]}")
                else:
                    counts.check(False, f"{name}: taken: {spell(test['data'])[:80]} of {json.dumps(group['schema'])[:200]}")
    print(f"suite: {n_groups} groups, {n_refused} refused")
    if given.verbose:
        for reason, n in reasons.most_common():
            print(f"{n:6} {reason}")


def mutated(chance, text):
    """A text that differs by little; mostly still JSON."""
    kind = chance.randrange(6)
    at = chance.randrange(len(text) + 1)
    if kind == 0:
        return text[:at] + text[at + 1:]
    if kind == 1:
        return text[:at] + chance.choice("0123456789-.eE\"{}[],: aZé\\") + text[at:]
    try:
        value = json.loads(text)
    except ValueError:
        return text[:at] + text[at + chance.randrange(1, 4):]
    return spell(changed(chance, value))


def changed(chance, value):
    """The same with one place another."""
    if isinstance(value, dict) and value and chance.random() < 0.8:
        key = chance.choice(list(value))
        kind = chance.randrange(4)
        if kind == 0:
            return {k: v for k, v in value.items() if k != key}
        if kind == 1:
            return {(k + "x" if k == key else k): v for k, v in value.items()}
        return {k: (changed(chance, v) if k == key else v) for k, v in value.items()}
    if isinstance(value, list) and value and chance.random() < 0.8:
        at = chance.randrange(len(value))
        return value[:at] + chance.choice(([], [value[at]] * 2, [changed(chance, value[at])])) + value[at + 1:]
    if isinstance(value, str) and chance.random() < 0.6:
        return chance.choice((value + "x", value[:-1], value.upper(), "", value * 2))
    if isinstance(value, (int, float)) and not isinstance(value, bool) and chance.random() < 0.6:
        return chance.choice((value + 1, -value, value * 10, value + 0.5, 0))
    return chance.choice((None, True, False, 0, 1.5, "", "x", [], {}, [1], {"a": 1}))


def no_constant(name):
    raise ValueError(name)


def loads(text):
    """Of a name that comes twice the last value counts, as for most readers: a form cannot count names that it does not know."""
    return json.loads(text, parse_constant=no_constant)


def validator_of(schema):
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    return kind(schema, format_checker=jsonschema.FormatChecker())


def is_valid(validator, text):
    """None: jsonschema cannot tell."""
    try:
        value = loads(text)
    except (ValueError, RecursionError):
        return False
    try:
        return validator.is_valid(value)
    except Exception:
        return None


def walks(counts, grammars, given):
    files = sorted([*PUBLIC.glob("*/builtin_schemas/vendor/*.json"), *PUBLIC.glob("*/v4/*.schema.json")])
    if not files or not jsonschema:
        counts.skip("walks", "there are no public schemas" if jsonschema else "the Python package jsonschema cannot be imported")
        return
    chance = random.Random(given.seed)
    n_compiled = 0
    for path in files:
        text = path.read_text()
        schema = json.loads(text)
        reply = grammars.ask("json_schema", text, walks=20, seed=given.seed)
        if "status" in reply:
            counts.check(names_a_place(reply["error"], schema) or reply["status"] == "limit", f"{path.name}: refused without a path: {reply}")
            if given.verbose:
                print("   ", path.name, reply["error"][:140])
        else:
            n_compiled += 1
            drawn = [walk["text"] for walk in reply["walks"] if walk["whole"] and walk["text"]]
            validator = validator_of(schema)
            for one in drawn:
                counts.check(is_valid(validator, one) is not False, f"{path.name}: drawn and not valid: {one[:200]}")
            mutants = [mutated(chance, chance.choice(drawn)) for _ in range(50)] if drawn else []
            for one, is_in in zip(mutants, grammars.ask("json_schema", text, mutants)["takes"]):
                counts.check(not is_in or is_valid(validator, one) is not False, f"{path.name}: taken and not valid: {one[:200]}")
        lenient = grammars.ask("json_schema", text, lenient=True)
        is_large = "status" in lenient and lenient["status"] == "limit"
        counts.check("status" not in lenient or is_large, f"{path.name}: as a tool's parameters: {lenient}")
    print(f"walks: {len(files)} public schemas, {n_compiled} compiled")


def random_schema(chance, depth=0):
    kinds = ["enum", "integer", "number", "string", "boolean", "const", "pattern"] + ["object", "array", "anyOf", "tuple"] * (2 if depth < 3 else 0)
    kind = chance.choice(kinds) if depth else chance.choice(["object", "array", "anyOf"])
    if kind == "enum":
        return {"enum": chance.sample(["red", "green", 5, None, True, [1], {"a": 1}, "é\n"], 3)}
    if kind == "const":
        return {"const": chance.choice(["x y", 17, {"k": [None]}, "", [], -0.5])}
    if kind == "integer":
        low = chance.randrange(-1200, 1200)
        return chance.choice(({"type": "integer"}, {"type": "integer", "minimum": low, "maximum": low + chance.randrange(0, 3000)},
                              {"type": "integer", "exclusiveMinimum": low}, {"type": "integer", "multipleOf": chance.choice((2, 3, 7, 10))}))
    if kind == "number":
        return chance.choice(({"type": "number"}, {"type": "number", "exclusiveMinimum": 0, "maximum": 99.5}))
    if kind == "string":
        low = chance.randrange(0, 3)
        return {"type": "string", "minLength": low, "maxLength": low + chance.randrange(0, 12)}
    if kind == "pattern":
        return {"type": "string", "pattern": chance.choice(["^[a-f]{3,6}$", r"^\d+-\d$", "^(up|down)$", "^a", "z$", "b+c"])}
    if kind == "array":
        low = chance.randrange(0, 3)
        return {"type": "array", "items": random_schema(chance, depth + 1), "minItems": low, "maxItems": low + chance.randrange(0, 3)}
    if kind == "tuple":
        return {"type": "array", "prefixItems": [random_schema(chance, depth + 1) for _ in range(2)], "items": chance.choice((False, {"type": "null"})),
                "minItems": chance.randrange(0, 3)}
    if kind == "anyOf":
        return {"anyOf": [random_schema(chance, depth + 1) for _ in range(2)]}
    if kind == "boolean":
        return {"type": ["boolean", "null"]}
    names = chance.sample(["name", "age", "tags", "ü", "a b", "id"], chance.randrange(1, 4))
    return {"type": "object", "properties": {name: random_schema(chance, depth + 1) for name in names},
            "required": chance.sample(names, chance.randrange(0, len(names) + 1)), "additionalProperties": chance.choice((False, {"type": "integer"}))}


def in_order(schema, value):
    """Whether objects have their properties in the order of the schema, and others behind them, as we and llguidance want it. Schemas of
    random_schema() alone; a branch of anyOf may say so of any of them."""
    if "anyOf" in schema:
        return any(in_order(branch, value) for branch in schema["anyOf"])
    if isinstance(value, dict) and "properties" in schema:
        names = list(schema["properties"])
        places = [names.index(key) if key in names else len(names) for key in value]
        inner = [(schema["properties"].get(key, {}), item) for key, item in value.items()]
        return places == sorted(places) and all(in_order(s, item) for s, item in inner)
    if isinstance(value, list):
        first = schema.get("prefixItems", [])
        rest = schema.get("items")
        return all(in_order(first[i] if i < len(first) else rest if isinstance(rest, dict) else {}, item) for i, item in enumerate(value))
    return True


class Guidance:
    """llguidance over bytes as tokens, and how often it says another thing than we do. It is no judge: who is right is told beside."""

    def __init__(self, counts, what):
        self.tokenizer = llguidance.LLTokenizer("byte") if llguidance else None
        self.n = self.n_differ = 0
        if not llguidance:
            counts.skip(f"{what} against llguidance", "the Python package llguidance cannot be imported")

    def takes(self, grammar, text):
        matcher = llguidance.LLMatcher(self.tokenizer, grammar)
        if matcher.get_error():
            return None
        data = list(text.encode())
        return matcher.try_consume_tokens(data) == len(data) and matcher.is_accepting()

    def compare(self, grammar, text, is_in, judge, source):
        """`grammar` is theirs, None where there is none."""
        theirs = self.takes(grammar, text) if self.tokenizer and grammar else None
        if theirs is None:
            return
        self.n += 1
        if theirs != bool(is_in):
            self.n_differ += 1
            if self.n_differ <= 12:
                print(f"    llguidance {theirs}, here {bool(is_in)}, {judge}: {text[:100]!r} of {source[:200]}")

    def said(self):
        return f"llguidance asked {self.n} times, differs in {self.n_differ}"


def schemas(counts, grammars, given):
    if not jsonschema:
        counts.skip("schemas", "the Python package jsonschema cannot be imported")
        return
    chance = random.Random(given.seed)
    guidance = Guidance(counts, "schemas")
    n_texts = n_taken = 0
    while n_texts < given.count:
        schema = random_schema(chance)
        source = json.dumps(schema)
        validator = validator_of(schema)
        reply = grammars.ask("json_schema", source, walks=12, seed=chance.randrange(1 << 30))
        if "status" in reply:  # what no value is of
            counts.check(names_a_place(reply["error"], schema), f"schemas: {source[:200]}: {reply['error']}")
            n_texts += 1
            continue
        drawn = [walk["text"] for walk in reply["walks"] if walk["whole"] and walk["text"] is not None]
        texts = drawn + [mutated(chance, one) for one in drawn * 3]
        other = llguidance and llguidance.LLMatcher.grammar_from_json_schema(source)
        for text, is_in in zip(texts, grammars.ask("json_schema", source, texts)["takes"]):
            n_texts += 1
            n_taken += is_in
            valid = is_valid(validator, text)
            if is_in:
                counts.check(valid is True, f"schemas: taken and not valid: {text[:150]!r} of {source[:250]}")
            elif valid and is_plain(text) and in_order(schema, loads(text)):
                counts.check(False, f"schemas: valid and not taken: {text[:150]!r} of {source[:250]}")
            else:
                counts.check(True, "")
            guidance.compare(other, text, is_in, f"jsonschema {valid}", source)
    print(f"schemas: {n_texts} texts, {n_taken} taken; {guidance.said()}")


def is_plain(text):
    """JSON as our grammars spell it: no blanks, the shortest escapes, numbers without exponents or needless fractions."""
    try:
        return text == spell(loads(text)) and not re.search(r"\d[eE]|\.0\b|\\u[dD][89a-fA-F]", text)
    except (ValueError, RecursionError):
        return False


def random_regex(chance, depth=0):
    kind = chance.randrange(9 if depth < 4 else 4)
    if kind < 2:
        return chance.choice(["a", "b", "c", "0", "-", r"\.", "é", " "])
    if kind == 2:
        return chance.choice(["[abc]", "[^a]", "[a-f0-9]", r"\d", r"[\w-]", ".", r"[^\d]", r"\s", "[é-ü]"])
    if kind == 3:
        return chance.choice(["a", r"\w", "(?:)", "[bc]"])
    if kind == 4:
        return "".join(random_regex(chance, depth + 1) for _ in range(chance.randrange(2, 4)))
    if kind == 5:
        return "(" + "|".join(random_regex(chance, depth + 1) for _ in range(chance.randrange(2, 4))) + ")"
    low = chance.randrange(3)
    repeat = chance.choice(["*", "+", "?", "{%d}" % low, "{%d,}" % low, "{%d,%d}" % (low, low + chance.randrange(3)), "*?"])
    return "(?:" + random_regex(chance, depth + 1) + ")" + repeat


class TooLong(Exception):
    pass


def judged_by(judge, text):
    """Whether Python's `re` takes it, or None: repeats of repeats make it try for hours what a text may be cut into."""
    def give_up(_signal, _frame):
        raise TooLong
    signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1)
    try:
        return judge.fullmatch(text) is not None
    except TooLong:
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def regexes(counts, grammars, given):
    chance = random.Random(given.seed)
    guidance = Guidance(counts, "regexes")
    n_texts = n_taken = n_given_up = 0
    while n_texts < given.count:
        source = random_regex(chance)
        other = llguidance and llguidance.LLMatcher.grammar_from_regex(source)
        judge = re.compile(source, re.ASCII)
        reply = grammars.ask("regex", source, walks=8, seed=chance.randrange(1 << 30))
        if "status" in reply:
            counts.check(False, f"regexes: {source!r}: {reply['error']}")
            n_texts += 1
            continue
        drawn = [walk["text"] for walk in reply["walks"] if walk["whole"] and walk["text"] is not None]
        texts = drawn + [changed(chance, one) for one in drawn * 2] + [mutated(chance, one) for one in drawn * 2]
        texts = [text for text in texts if isinstance(text, str)]
        for text, is_in in zip(texts, grammars.ask("regex", source, texts)["takes"]):
            n_texts += 1
            n_taken += is_in
            theirs = judged_by(judge, text)
            n_given_up += theirs is None
            guidance.compare(other, text, is_in, f"re {theirs}", source)
            if theirs is None:
                continue
            # Complements of \d, \w and \s leave out what any dialect counts in, and \s what any leaves out.
            may_differ = not is_in and any(ord(c) > 127 or c in "\x1c\x1d\x1e\x1f\x0b" for c in text)
            counts.check(theirs == bool(is_in) or (theirs and may_differ), f"regexes: {source!r} takes {text!r}: {is_in}, re {theirs}")
    counts.check(100 * n_given_up <= n_texts, f"regexes: re gave up {n_given_up} of {n_texts} texts")
    print(f"regexes: {n_texts} texts, {n_taken} taken, {n_given_up} that re did not decide; {guidance.said()}")


def random_rules(chance):
    """Rules of a grammar as a tree, written in three notations: {name: alternatives of sequences of (item, repeat)}. None is left recursive
    behind what may be empty: each sequence begins with a letter, or names a later rule."""
    names = ["start", "one", "two", "three"][:chance.randrange(1, 5)]
    rules = {}
    for i, name in enumerate(names):
        alternatives = []
        for _ in range(chance.randrange(1, 4)):
            items = [(chance.choice(['"a"', '"b"', '"("', '"ab"']), "")]
            for _ in range(chance.randrange(0, 4)):
                item = chance.choice(['"a"', '"b"', '")"', '"-"', "[0-9]", "[a-c]", *names])
                items.append((item, chance.choice(["", "", "", "?", "*", "+"])))
            alternatives.append(items)
        rules[name] = alternatives + [[('"c"', "")]]  # every rule has a text
    return rules


def written(rules, notation):
    lines = []
    for name, alternatives in rules.items():
        def item(what, repeat):
            if what.startswith("["):
                what = f"/{what}/" if notation == "lark" else what
            elif not what.startswith('"'):
                what = "root" if what == "start" and notation != "lark" else what
            return what + repeat
        body = " | ".join(" ".join(item(*i) for i in items) for items in alternatives)
        head = "root" if name == "start" and notation != "lark" else name
        lines.append(f"{head}: {body}" if notation == "lark" else f"{head} ::= {body}")
    return "\n".join(lines) + "\n"


def grammars_(counts, grammars, given):
    if not lark:
        counts.skip("grammars", "the Python package lark cannot be imported")
        return
    chance = random.Random(given.seed)
    guidance = Guidance(counts, "grammars")
    n_texts = n_taken = 0
    while n_texts < given.count:
        rules = random_rules(chance)
        sources = {notation: written(rules, notation) for notation in ("lark", "gbnf", "ebnf")}
        judge = lark.Lark(sources["lark"], parser="earley", lexer="dynamic_complete")
        drawn = []
        for notation, source in sources.items():
            reply = grammars.ask(notation, source, walks=4, seed=chance.randrange(1 << 30))
            if "status" in reply:
                counts.check(False, f"grammars: {notation}: {reply['error']}: {source!r}")
                n_texts += 1
            else:
                drawn += [walk["text"] for walk in reply["walks"] if walk["whole"] and walk["text"] and len(walk["text"]) < 40]
        texts = drawn + [mutated(chance, one) for one in drawn]
        texts = [text for text in texts if text]
        other = llguidance and llguidance.LLMatcher.grammar_from_lark(sources["lark"])
        takes = {notation: grammars.ask(notation, source, texts).get("takes", []) for notation, source in sources.items()}
        for i, text in enumerate(texts):
            try:
                judge.parse(text)
                theirs = 1
            except lark.exceptions.LarkError:
                theirs = 0
            guidance.compare(other, text, takes["lark"][i] if takes["lark"] else 0, f"lark {theirs}", sources["lark"])
            ours = {notation: taken[i] for notation, taken in takes.items() if taken}
            n_texts += 1
            n_taken += theirs
            counts.check(set(ours.values()) <= {theirs}, f"grammars: {text!r}: lark {theirs}, ours {ours}: {sources['lark']!r}")
    print(f"grammars: {n_texts} texts, {n_taken} taken; {guidance.said()}")


BOUNDED = [{"format": "email"}, {"format": "hostname"}, {"format": "uri"}, {"pattern": "^[a-z0-9_-]{3,16}$"},
           {"pattern": "^[A-Za-z ]{1,80}$"}, {"pattern": "^([A-Z][a-z]{1,20} ?){2,4}$"}, {"format": "email", "maxLength": 40}, {"pattern": "^[^x]*$", "maxLength": 40}, {"pattern": "^.{1,60}$"},
           {"pattern": "^[^a-e!]+!"}, {"maxLength": 30}, {}]


def masks(counts, _, given):
    fetch = subprocess.run([sys.executable, ROOT / "tests" / "models" / "fetch_llama_files.py"], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, check=False)
    if fetch.returncode != 0:
        counts.skip("masks", f"llama.cpp's vocabularies: {fetch.stderr.strip()[:200]}")
        return
    tool = Grammars(f"{fetch.stdout.strip()}/ggml-vocab-qwen2.gguf")
    n = max(given.count // 50, 10)
    for string in BOUNDED:
        schema = {"type": "object", "properties": {"it": {"type": "string", **string}}, "required": ["it"]}
        reply = tool.ask("json_schema", json.dumps(schema), masks=n, seed=given.seed)
        counts.check(reply.get("masks") == [], f"masks: {string}: {reply}")
    tool.end()
    print(f"masks: {n * len(BOUNDED)} of 151,936 tokens")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20000, help="texts of each random comparison")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    counts = Counts()
    tests = {"suite": suite, "walks": walks, "schemas": schemas, "regexes": regexes, "grammars": grammars_, "masks": masks}
    tool = Grammars()
    n_passed = 0
    for name, test in tests.items():
        before = counts.failed, counts.compared
        if not given.names or name in given.names:
            test(counts, tool, given)
        n_passed += counts.failed == before[0] and counts.compared > before[1]
    tool.end()
    print(f"compared {counts.compared}")
    print(f"{n_passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    return counts.failed > 0


if __name__ == "__main__":
    sys.exit(main())
