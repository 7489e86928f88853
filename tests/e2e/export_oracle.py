#!/usr/bin/env python3
"""The exported tokenizer, opened by Hugging Face's tokenizers, against our own ids.

usage: export_oracle.py [--model FILE.gguf] [--count N] [COMMAND...]

COMMAND is `tandem model` (or the test program), before its subcommand. Special tokens are parsed on
both sides, as that library does. Prints "N passed, M failed, K skipped".
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

from tokenizer_oracle import COMMANDS, DEFAULT_MODEL, make_texts, run_command, skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("command", nargs="*")
    options = parser.parse_args()
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        skip(f"the Python package tokenizers cannot be imported ({error})")
    if not os.path.exists(options.model):
        skip(f"{options.model} is not there (tools/fetch-model smollm2)")
    command = options.command or next((c[:-1] for c in COMMANDS if os.path.exists(c[0])), None)
    if not command:
        skip("nothing is built that exports")
    texts = make_texts(options.count, 2)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(command + ["export-tokenizer", options.model, folder], check=True)
        exported = Tokenizer.from_file(folder + "/tokenizer.json")
        with open(folder + "/tokenizer_config.json", encoding="utf-8") as file:
            config = json.load(file)
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
    print(f"compared {len(texts)}")
    print(f"{same + sane} passed, {(not same) + (not sane)} failed, 0 skipped")
    sys.exit(0 if same and sane else 1)


if __name__ == "__main__":
    main()
