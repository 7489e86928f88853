#!/usr/bin/env python3
"""The exported tokenizer, opened by Hugging Face's tokenizers, against our own ids.

usage: export_oracle.py [--model FILE.gguf] [--count N] [COMMAND...]

COMMAND is `tandem model` (or the test program), before its subcommand. Special tokens are parsed on
both sides, as that library does. A tiny model that wants a token before and behind a text is exported with both. Prints
"N passed, M failed, K skipped".
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tokenizer_oracle import COMMANDS, DEFAULT_MODEL, make_texts, run_command, skip


def export(command, model, folder):
    """(the library's tokenizer, the settings beside it)."""
    from tokenizers import Tokenizer
    subprocess.run(command + ["export-tokenizer", model, folder], check=True)
    with open(f"{folder}/tokenizer_config.json", encoding="utf-8") as file:
        return Tokenizer.from_file(f"{folder}/tokenizer.json"), json.load(file)


def both_ends_are_exported(command, texts):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.models import tiny_gguf
    with tempfile.TemporaryDirectory() as scratch:
        model = f"{scratch}/tiny.gguf"
        tiny_gguf.write(model, "f16", adds_ends=True)
        exported, config = export(command, model, f"{scratch}/made")
        _, ours = run_command(command + ["tokenize", model, "--parse-special"], [json.dumps(text).encode() for text in texts])
    theirs = [encoding.ids for encoding in exported.encode_batch(texts)]
    bare = [encoding.ids for encoding in exported.encode_batch(texts, add_special_tokens=False)]
    good = ours == theirs == [[256, *ids, 256] for ids in bare] and config["add_bos_token"] is True
    if not good:
        print(f"FAILED: a token before and one behind: {ours[:3]} is not {theirs[:3]}, {config}")
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("command", nargs="*")
    options = parser.parse_args()
    try:
        import tokenizers  # noqa: F401
    except ImportError as error:
        skip(f"the Python package tokenizers cannot be imported ({error})")
    if not os.path.exists(options.model):
        skip(f"{options.model} is not there (tools/fetch-model smollm2)")
    command = options.command or next((c[:-1] for c in COMMANDS if os.path.exists(c[0])), None)
    if not command:
        skip("nothing is built that exports")
    texts = make_texts(options.count, 2)
    with tempfile.TemporaryDirectory() as folder:
        exported, config = export(command, options.model, folder)
    _, ours = run_command(command + ["tokenize", options.model, "--parse-special"],
                          [json.dumps(text).encode() for text in texts])
    theirs = [encoding.ids for encoding in exported.encode_batch(texts)]
    passed = sum(mine == other for mine, other in zip(ours, theirs))
    failed = len(texts) - passed
    same = failed == 0 and passed > 0
    for text, mine, other in zip(texts, ours, theirs):
        if mine != other:
            print(f"FAILED: {text[:60]!r}: {str(mine)[:100]} is not {str(other)[:100]}")
            break
    sane = bool(config["eos_token"] and config["chat_template"]) and config["model_max_length"] > 0
    if not sane:
        print(f"FAILED: tokenizer_config.json: {config}")
    ends = both_ends_are_exported(command, ["", " ", "th", "hello <|endoftext|> there", "\u00e9\n"] + texts[:100])
    print(f"compared {len(texts)}")
    results = [same, sane, ends]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed, 0 skipped")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
