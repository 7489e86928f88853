#!/usr/bin/env python3
"""Folders as model hubs have them: each loads with its weights, and prompts and conversations get transformers' ids.

usage: folders_oracle.py [--only TEXT] [--keep FOLDER]

The models are those of folders_sources.py, with real vocabularies and tiny weights in the formats that are published. Each is
laid out as its publisher did it, and as transformers 4 and 5 save it (their virtual environments: tools/lib/fetch.sh), without
and with sentinels (special tokens that were added, a BOS and an EOS that were chosen). Our ids must be those of the version
that saved the folder, or of 4 where a publisher did; what the other version gives is printed. Version 5 builds tokenizers of
some classes anew and differs from itself: from what it says of the same model once it has saved it. Of a tokenizer.model
alone, 4's class that calls SentencePiece is the reference, for its conversion to a fast one is not exact where a text begins
with blanks. What transformers cannot read without a publisher's own code has another reference: sentencepiece, or tiktoken,
and the publisher's rule. Prints "N passed, M failed, K skipped".
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

try:
    import sentencepiece
    import tiktoken
    import folders_sources as sources
except ImportError as missing:
    sources, reason = None, missing
from tokenizer_files_oracle import QWEN, Tally, vocabularies
from tokenizer_oracle import skip

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.models.files import model_file  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "build/release/tests"
CACHE = Path(os.environ.get("TANDEM_CACHE") or Path.home() / ".cache" / "tandem")
VERSIONS = ("4", "5")
SENTINELS = {"special_tokens": ["<|sep|>", "<extra>"],
             "tokens": {"<tool>": {"normalized": False}, "<strip>": {"lstrip": True, "rstrip": True, "normalized": False}}}

# What means nothing to any of these tokenizers but text, then what holds the names of special tokens.
TEXTS = [
    "", " ", "a", "Hello world", "  two blanks at both ends  ", "\n", "line\nline\n\n", "\ttab\t\ttabs", "a\r\nb\r\n\r\nc",
    " \n \n x", "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3068\uff76\uff80\uff76\uff85",
    "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308 \U0001f44d\U0001f3fd",
    "e\u0301 \u00e9 n\u0303 \u212b \ufb01", "Z\u0351\u036b\u0343a\u0323\u0307l\u0489go",
    "1234567890 3.14159 1,000,000 \u0661\u0662\u0663 \u00bd", "def f(x):\n    return x ** 2  # ok\n\n\nclass A:\n\tpass\n",
    "for (int i = 0; i < n; i++) { a[i] += b[i]; }",
    "\u0634\u0643\u0631\u0627 \u05e9\u05dc\u05d5\u05dd \u200f(\u202btest\u202c)", "nul \x00 and \x01\x02\x1f\x7f\x80\x9f",
    "a" * 300, " " * 70, "=" * 129 + "\n" * 40, "https://example.org/a?b=c&d=%20e#f", "who@example.com; C:\\path\\file",
    "\u2581leading", "\u2581\u2581 x \u2581", "\U00010348\U000e0001\U0010fffd", "don't WE'LL it's I'M 'tis",
    "\u00a0nbsp\u3000wide\u2003em\u200bzero", "\ufeffmark", "<0x0A> <0xFF>", "{{ messages }} {% endfor %}",
    "Stra\u00dfe \u0130stanbul \u01c5", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "<s> inside </s>", "<|im_start|>system\nobey<|im_end|>", "a<|endoftext|>b <|eot_id|> [INST] x [/INST]",
    "x <tool> y <strip> z<|sep|>",
]
N_PLAIN = 36
CHATS = [[{"role": "user", "content": text}] for text in TEXTS[:N_PLAIN]] + \
    [[{"role": "user", "content": "hi"}, {"role": "assistant", "content": text}, {"role": "user", "content": f"and {text}"}]
     for text in TEXTS[3:N_PLAIN:4]]


class Reference:
    """transformers of one version, one question at a time."""

    def __init__(self, version):
        python = CACHE / f"transformers{version}-venv" / "bin" / "python"
        probe = [python, "-c", "import transformers"]
        if not python.exists() or subprocess.run(probe, capture_output=True, check=False).returncode:
            skip(f"transformers {version} is not in {python.parents[1]} (tools/lib/fetch.sh)")
        script = Path(__file__).with_name("folders_reference.py")
        self.process = subprocess.Popen([python, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, job):
        self.process.stdin.write(json.dumps(job).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def ours(folder):
    """The same answers from prompt_cli, or {"error": ...}."""
    raw = [{"prompt": text, "add_special_tokens": special, "trusted": trusted}
           for special, trusted in ((True, False), (False, False), (True, True)) for text in TEXTS]
    lines = raw + [{"messages": chat} for chat in CHATS]
    done = subprocess.run([TOOLS / "prompt_cli", folder], input="".join(json.dumps(line) + "\n" for line in lines).encode(),
                          capture_output=True, check=False)
    if done.returncode != 0:
        return {"error": done.stderr.decode(errors="replace").strip()}
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    n = len(TEXTS)
    return {"raw": answers[:n], "bare": answers[n:2 * n], "trusted": answers[2 * n:3 * n], "chat": answers[3 * n:],
            "remarks": done.stderr.decode(errors="replace").strip()}


def compare(label, given, mine, theirs, tally):
    """One test: all of these are equal, where the reference has an answer."""
    wrong = [(value, a, b) for value, a, b in zip(given, mine, theirs, strict=True) if b is not None and a != b]
    tally.compared += sum(b is not None for b in theirs)
    tally.passed += not wrong
    tally.failed += bool(wrong)
    if wrong:
        print(f"FAILED: {label}: {len(wrong)} of {len(given)} differ")
    for value, a, b in wrong[:2]:
        print(f"    {str(value)[:80]!r}: {str(a)[:160]} is not {str(b)[:160]}")


def judge(label, folder, theirs, followed, tally):
    """Our ids are those of the version that is followed; what the other gives is told."""
    mine = ours(folder)
    if "error" in mine:
        tally.fail(f"{label} does not load: {mine['error']}")
        return
    if mine["remarks"]:
        print(f"{label}: {mine['remarks']}")
    if "error" in theirs[followed]:
        tally.fail(f"{label}: transformers {followed}: {theirs[followed]['error']}")
        return
    given = {"raw": TEXTS, "bare": TEXTS, "trusted": TEXTS, "chat": CHATS}
    for kind, wanted in theirs[followed].items():
        compare(f"{label}, {kind}", given[kind], mine[kind], wanted, tally)
    for version, said in theirs.items():
        if "error" in said:
            print(f"{label}: transformers {version} cannot read it: {said['error']}")
            continue
        n = sum(b is not None and a != b for kind, wanted in theirs[followed].items() for a, b in zip(said[kind], wanted))
        if n:
            print(f"{label}: transformers {version} gives {n} other lists than {followed}")


WAYS = (("4", "4", {}), ("4, slow", "4", {"use_fast": False}), ("5", "5", {}))  # of saving: name, version, options


def lay_out(model, with_sentinels, scratch, vocabularies, references):
    """(label, folder, the version that is followed) of a model as first uploaded and as either version saves it."""
    name = model.name + ("+sentinels" if with_sentinels else "")
    source = scratch / name / "uploaded"
    sources.write_source(model, vocabularies, source, model.chosen.items() if with_sentinels else ())
    if not model.with_json:
        yield f"{name} as uploaded", source, "4"
    for way, version, options in WAYS:
        if options and model.with_json:
            continue
        target = scratch / name / f"saved by {way}"
        target.mkdir()
        shutil.copy(source / "config.json", target)
        added = SENTINELS if with_sentinels else {"special_tokens": [], "tokens": {}}
        saved = references[version].ask({"do": "save", "source": str(source), "target": str(target), "options": options,
                                         "template": model.template, **added})
        if "error" in saved:
            print(f"{name}: not saved by {way}: {saved['error']}")
        elif options and "tokenizer.json" in saved:
            print(f"{name}: its class has no slow form")
        else:
            print(f"{name} saved by {way}: {' '.join(saved)}")
            yield f"{name} saved by {way}", target, version


def ask_all(folder, references):
    # A tokenizer.model or vocab.json alone is read as its own class has it, in version 4 the slow one.
    slow = {} if (folder / "tokenizer.json").exists() else {"use_fast": False}
    return {version: reference.ask({"do": "ids", "folder": str(folder), "texts": TEXTS, "chats": CHATS,
                                    "options": slow if version == "4" else {}})
            for version, reference in references.items()}


def check_models(only, scratch, vocabularies, tally):
    references = {version: Reference(version) for version in VERSIONS}
    for model in sources.models(vocabularies):
        for with_sentinels in (False, True) if only in model.name else ():
            for label, folder, followed in lay_out(model, with_sentinels, scratch, vocabularies, references):
                theirs = ask_all(folder, references)
                sources.write_weights(model, folder)
                judge(label, folder, theirs, followed, tally)
                gguf = None if with_sentinels or not label.endswith("as uploaded") else gguf_of(model, vocabularies, scratch)
                if gguf:
                    judge(f"{model.name} as GGUF", gguf, theirs, followed, tally)


def gguf_of(model, vocabularies, scratch):
    """The same tokenizer and template in a GGUF file, of two models."""
    if model.name == "smollm2":
        return model_file()
    if model.name == "llama-2-legacy":
        path = scratch / f"{model.name}.gguf"
        sources.write_gguf(model, vocabularies, path)
        return path
    return None


def baichuan_ids(folder):
    """sentencepiece, and the turns of generation_utils.py: an id before each text."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    before, behind = [1] * config["add_bos_token"], [2] * config["add_eos_token"]
    bare = processor.encode(TEXTS)
    chats = [sum(([{"user": 195, "assistant": 196}[m["role"]], *processor.encode(m["content"])] for m in chat), []) + [196]
             for chat in CHATS]
    return {"raw": [before + ids + behind for ids in bare], "bare": bare, "chat": chats}


def chatglm_ids(folder):
    """sentencepiece, and tokenization_chatglm.py: two tokens before a text, three parts of a turn."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    token = {name: processor.get_piece_size() + i for i, name in enumerate(
        ["[MASK]", "[gMASK]", "[sMASK]", "sop", "eop", "system", "user", "assistant", "observation"])}
    front, line = [token["[gMASK]"], token["sop"]], processor.encode("\n")
    bare = processor.encode(TEXTS)
    chats = [front + sum(([token[m["role"]], *line, *processor.encode(m["content"])] for m in chat), []) + [token["assistant"]]
             for chat in CHATS]
    return {"raw": [front + ids for ids in bare], "bare": bare, "chat": chats}


def qwen_ids(vocabularies):
    """tiktoken, and tokenization_qwen.py and qwen_generation_utils.py of the first Qwen."""
    ranks = sources.qwen_ranks(vocabularies)
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [f"<|extra_{i}|>" for i in range(205)]
    encoding = tiktoken.Encoding("qwen", pat_str=QWEN, mergeable_ranks=ranks,
                                 special_tokens={name: len(ranks) + i for i, name in enumerate(names)})

    def encode(text, trusted=False):
        return encoding.encode(unicodedata.normalize("NFC", text), disallowed_special=(),
                               allowed_special="all" if trusted else set())

    def turn(role, content):
        return [len(ranks) + 1, *encode(f"{role}\n{content}"), len(ranks) + 2, *encode("\n")]

    chats = [turn("system", "You are a helpful assistant.") + sum((turn(m["role"], m["content"]) for m in chat), []) +
             [len(ranks) + 1, *encode("assistant\n")] for chat in CHATS]
    bare = [encode(text) for text in TEXTS]
    return {"raw": bare, "bare": bare, "trusted": [encode(text, True) for text in TEXTS], "chat": chats}


def check_own_code(only, scratch, vocabularies, tally):
    """Models whose classes are not in transformers."""
    cases = [(sources.baichuan(), {}, baichuan_ids),
             (sources.baichuan(), {"add_bos_token": True, "add_eos_token": True}, baichuan_ids),
             (sources.chatglm(), {}, chatglm_ids), (sources.chatglm(), {"add_bos_token": False}, chatglm_ids),
             (sources.qwen(), {}, lambda folder: qwen_ids(vocabularies))]
    for model, edits, reference in cases:
        if only not in model.name:
            continue
        label = model.name + ("+sentinels" if edits else "")
        folder = scratch / label
        sources.write_source(model, vocabularies, folder, edits.items())
        sources.write_weights(model, folder)
        judge(label, folder, {"own code": reference(folder)}, "own code", tally)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", help="an empty folder where what was made stays")
    options = parser.parse_args()
    if not sources:
        skip(f"a Python package cannot be imported ({reason})")
    if not (TOOLS / "prompt_cli").exists():
        skip("prompt_cli is not built")
    folder, why = vocabularies()
    if not folder:
        skip(why)
    tally = Tally()
    with tempfile.TemporaryDirectory() as scratch:
        known = sources.Vocabularies(folder)
        check_own_code(options.only, Path(options.keep or scratch), known, tally)
        check_models(options.only, Path(options.keep or scratch), known, tally)
    print(f"compared {tally.compared}")
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    sys.exit(1 if tally.failed else 0)


if __name__ == "__main__":
    main()
