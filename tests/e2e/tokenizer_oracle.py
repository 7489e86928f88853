#!/usr/bin/env python3
"""Our token ids against those of Hugging Face's tokenizers, on random and hostile strings.

usage: tokenizer_oracle.py [--model FILE.gguf] [--count N] [--seed N] [--llama] [COMMAND...]

COMMAND reads JSON lines (strings) and writes JSON lines (lists of ids); "MODEL --no-special" is put
behind it. Without one it is `tandem model tokenize`, or where that is not built the test program with
the same lines. The vocabulary and merges come from the GGUF file
itself; with --llama the oracle is llama.cpp (llama-cpp-python) instead. Prints "N passed, M failed,
K skipped" and exits with 0 only when nothing failed.
"""
import argparse
import json
import mmap
import os
import random
import struct
import subprocess
import sys
import unicodedata

DEFAULT_MODEL = os.environ.get("TANDEM_TEST_MODEL") or os.path.join(
    os.environ.get("TANDEM_CACHE") or os.path.expanduser("~/.cache/tandem"),
    "models", "SmolLM2-135M-Instruct.Q4_1.gguf")


COMMANDS = [["build/release/bin/tandem", "model", "tokenize"], ["build/release/tests/model_cli", "tokenize"],
            ["build/dev/tests/model_cli", "tokenize"]]


def skip(reason):
    print(f"SKIPPED: {reason}")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)


def read_metadata(path, only=None):
    """The key-value part of a GGUF file, little-endian (ggml docs/gguf.md); of lists with `only` the one under that key, for a
    vocabulary has some hundred thousand texts."""
    sizes = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = 4
        n_bytes = struct.Struct("<Q").unpack_from

        def take(form):
            nonlocal at
            got = struct.unpack_from("<" + form, data, at)
            at += struct.calcsize("<" + form)
            return got

        def text():
            nonlocal at
            begin = at + 8
            at = begin + n_bytes(data, at)[0]
            return data[begin:at].decode("utf-8", "surrogateescape")

        def skip_texts(n):
            nonlocal at
            for _ in range(n):
                at += 8 + n_bytes(data, at)[0]

        def value(kind, is_wanted):
            if kind == 8:
                return text()
            if kind != 9:
                return take(sizes[kind])[0]
            item, n = take("IQ")
            if item == 9:
                return [value(item, is_wanted) for _ in range(n)]
            if item != 8:
                return list(take(f"{n}{sizes[item]}"))
            return [text() for _ in range(n)] if is_wanted else skip_texts(n)

        assert data[:4] == b"GGUF"
        take("IQ")
        found = {}
        for _ in range(take("Q")[0]):
            key = text()
            found[key] = value(take("I")[0], only in (None, key))
        return found


def build_tokenizers(metadata):
    try:
        from tokenizers import Tokenizer, models, pre_tokenizers
    except ImportError as error:
        skip(f"the Python package tokenizers cannot be imported ({error})")
    tokens = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if metadata["tokenizer.ggml.pre"] == "smollm":
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), byte_level])
    else:
        tokenizer.pre_tokenizer = byte_level
    return lambda texts: [encoding.ids for encoding in
                          tokenizer.encode_batch(texts, add_special_tokens=False)]


def bytes_without_token(tokens):
    """Bytes whose character in GPT-2's alphabet (openai/gpt-2 encoder.py) is not a token."""
    printable = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    spelled = {byte: chr(byte) for byte in printable}
    spelled.update({byte: chr(0x100 + nth) for nth, byte in enumerate(others)})
    tokens = set(tokens)
    return {byte for byte, char in spelled.items() if char not in tokens}


def build_llama(path):
    try:
        from llama_cpp import Llama
    except ImportError as error:
        skip(f"the Python package llama_cpp cannot be imported ({error})")
    llama = Llama(path, vocab_only=True, verbose=False)
    return lambda texts: [llama.tokenize(text.encode(), add_bos=False, special=False) for text in texts]


def alphabets():
    """Pools of characters; the mixture is what breaks pre-tokenizers."""
    assigned = [chr(point) for point in range(0x110000)
                if unicodedata.category(chr(point)) not in ("Cn", "Cs", "Co")]
    by_category = {}
    for char in assigned:
        by_category.setdefault(unicodedata.category(char)[0], []).append(char)
    return [
        list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        list("etaoin shrdlu etaoin shrdlu "),
        list("0123456789"), list(" "), list("  \t\n\r\v\f"), list("'"),
        ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'RE", " the", " 12", "\r\n", "\n\n", "   "],
        list(".,;:!?-_+*/=<>()[]{}@#$%^&|~`\"\\"),
        [chr(point) for point in range(0x20)] + ["\x7f"] + [chr(p) for p in range(0x80, 0xa0)],
        [" ", "\u00a0", "\u1680", "\u180e", "\u2000", "\u2003", "\u200b", "\u2028", "\u2029", "\u202f",
         "\u205f", "\u3000", "\ufeff", "\u0085", "\x1c", "\x1f"],
        [chr(point) for point in range(0x4e00, 0x9fa5)], [chr(p) for p in range(0x3041, 0x30ff)],
        [chr(point) for point in range(0xac00, 0xd7a3)],
        [chr(p) for p in range(0x1f300, 0x1f64f)] + ["\u200d", "\ufe0f", "\U0001f3fd", "\U0001f468\u200d\U0001f469"],
        [chr(point) for point in range(0x300, 0x36f)],
        [chr(point) for point in range(0x600, 0x6ff) if unicodedata.category(chr(point)) != "Cn"],
        [chr(point) for point in range(0x900, 0x97f)],
        by_category["N"], by_category["Z"], by_category["M"], by_category["P"], by_category["S"],
        by_category["L"], by_category["C"], assigned,
        ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|", "|>", "<repo_name>"],
    ]


def make_texts(count, seed):
    random.seed(seed)
    pools = alphabets()
    texts = ["", " ", "  ", "a", "\x00", "\u00a0 x", " 12", "12 34", "x  12", "\n \n", "'re'RE", "\u180e\u180ea",
             "a" * 20000, "^" * 20000, " " * 20000 + "x", "\n" * 5000, "ab" * 7000, "1" * 3000,
             "\U0001f600" * 3000, "e\u0301" * 3000, " a" * 5000, "\t\t x", "don't", "we'll'll"]
    while len(texts) < count:
        kind = random.random()
        if kind < 0.05:
            texts.append(random.choice(random.choice(pools)) * random.randint(1, 400))
            continue
        chosen = random.sample(pools, random.randint(1, 6))
        n = random.randint(1, 60) if kind < 0.9 else random.randint(60, 600)
        text = ""
        while len(text) < n:
            pool = random.choice(chosen)
            text += "".join(random.choice(pool) for _ in range(random.randint(1, 5)))
        texts.append(text)
    return texts


def run_command(command, lines):
    done = subprocess.run(command, input=b"\n".join(lines) + b"\n", stdout=subprocess.PIPE, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def check_refusals(command):
    """Invalid UTF-8 must become an error line and exit code 1."""
    bad = [b"\xff", b"\xc0\x80", b"\xe2\x82", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80", b"\xf0\x9f\x98"]
    code, replies = run_command(command, [b'"a' + text + b'"' for text in bad])
    wrong = [text for text, reply in zip(bad, replies) if not isinstance(reply, dict) or "error" not in reply]
    if code != 1 or len(replies) != len(bad):
        wrong = bad
    for text in wrong:
        print(f"FAILED: invalid UTF-8 {text!r} was not refused")
    return len(bad) - len(wrong), len(wrong)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--llama", action="store_true")
    parser.add_argument("command", nargs="*")
    options = parser.parse_args()
    if not os.path.exists(options.model):
        skip(f"{options.model} is not there (tools/fetch-model smollm2)")
    oracle = build_llama(options.model) if options.llama else build_tokenizers(read_metadata(options.model))
    command = options.command or next((c for c in COMMANDS if os.path.exists(c[0])), None)
    if not command:
        skip("nothing is built that tokenizes")
    command = command + [options.model, "--no-special"]
    texts = make_texts(options.count, options.seed)
    skipped = 0
    if options.llama:
        missing = bytes_without_token(read_metadata(options.model)["tokenizer.ggml.tokens"])
        kept = [text for text in texts if missing.isdisjoint(text.encode())]
        skipped, texts = len(texts) - len(kept), kept
    code, ours = run_command(command, [json.dumps(text).encode() for text in texts])
    n_refused, failed = check_refusals(command)
    wrong = 0
    if code != 0 or len(ours) != len(texts):
        print(f"FAILED: {len(texts)} lines in, {len(ours)} out, exit code {code}")
        failed += 1
    for text, mine, theirs in zip(texts, ours, oracle(texts)):
        if mine == list(theirs):
            continue
        wrong += 1
        if wrong <= 10:
            print(f"FAILED: {text[:80]!r}: {str(mine)[:200]} is not {str(list(theirs))[:200]}")
    print(f"compared {len(texts)}")
    print(f"{n_refused + (wrong == 0)} passed, {failed + (wrong > 0)} failed, {1 if skipped else 0} skipped")
    sys.exit(1 if failed or wrong else 0)


if __name__ == "__main__":
    main()
