#!/usr/bin/env python3
"""Our ids and texts against SentencePiece's, on random and hostile strings.

usage: spm_oracle.py [--count N] [--seed N] [--only NAME] [--command PATH]

Trains small SentencePiece models here (BPE and unigram, every flag that decides ids), reads them with
tokenizer_cli (tests/support) and compares N strings each: the ids that a text gets, and the text that ids
become, for these ids and for random ones. Then llama.cpp's own vocabularies (tests/models/fetch_llama_files.py):
their .inp/.out cases, and where llama-cpp-python is at hand its ids of the same strings. Prints "N passed, M
failed, K skipped" and exits with 0 only when nothing failed.
"""
import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tokenizer_oracle import make_texts, read_metadata, skip

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ["build/release/tests/tokenizer_cli", "build/dev/tests/tokenizer_cli"]
VOCABULARIES = Path(os.environ.get("TANDEM_CACHE") or Path.home() / ".cache" / "tandem") / "vocab"
BLANK = "\u2581"
CONTROL, UNUSED = 3, 5

MODELS = {
    # Llama's and Mistral's kind.
    "bpe_bytes": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
                      remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True),
    # Baichuan2's kind: no blank before a text.
    "bpe_no_prefix": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
                          remove_extra_whitespaces=False, add_dummy_prefix=False,
                          user_defined_symbols=["<reserved>", "ab", "abc", BLANK * 2, "x y", "1"]),
    # ChatGLM3's kind: a table, bytes.
    "bpe_nfkc": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="nmt_nfkc",
                     user_defined_symbols=["<n>", "[tab]", "  "], control_symbols=["<|im_start|>", "sop"]),
    "bpe_cf": dict(model_type="bpe", normalization_rule_name="nmt_nfkc_cf", character_coverage=0.98),
    "bpe_suffix": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="nfkc",
                       treat_whitespace_as_suffix=True, remove_extra_whitespaces=False),
    "bpe_across": dict(model_type="bpe", normalization_rule_name="nmt_nfkc", split_by_whitespace=False,
                       add_dummy_prefix=False, byte_fallback=True),
    "bpe_unused": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
                       remove_extra_whitespaces=False),
    "bpe_raw_blanks": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity"),
    "unigram": dict(model_type="unigram", normalization_rule_name="nmt_nfkc"),
    "unigram_bytes": dict(model_type="unigram", byte_fallback=True, normalization_rule_name="identity",
                          remove_extra_whitespaces=False, user_defined_symbols=["<sep>", "the", "  ", BLANK * 3]),
    "unigram_unused": dict(model_type="unigram", normalization_rule_name="nfkc_cf", add_dummy_prefix=False),
}


def varint(value):
    out = bytearray()
    while value > 0x7f:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def fields(message):
    """(number, wire type, payload bytes) of a protobuf message whose fields are varints, texts and floats."""
    at = 0

    def take():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = take()
        if tag & 7 == 2:
            n = take()
            yield tag >> 3, 2, message[at:at + n]
            at += n
        else:
            begin = at
            at += 4 if tag & 7 == 5 else 8 if tag & 7 == 1 else 0
            if tag & 7 == 0:
                take()
            yield tag >> 3, tag & 7, message[begin:at]


def patched(model, change):
    """The model with change(field number, bytes) in place of every message at its top."""
    out = b""
    for number, wire, payload in fields(model):
        assert wire == 2
        payload = change(number, payload)
        out += varint(number << 3 | 2) + varint(len(payload)) + payload
    return out


def make_unused(model, seed):
    """Some of the pieces of two and more characters, as set_vocabulary() would mark them."""
    chance = random.Random(seed)

    def change(number, payload):
        if number != 1:
            return payload
        piece = dict((n, p) for n, _, p in fields(payload))
        is_normal = int.from_bytes(piece.get(3, b"\x01"), "little") == 1
        if is_normal and len(piece[1].decode()) > 1 and chance.random() < 0.4:
            return payload + b"\x18" + bytes([UNUSED])
        return payload

    return patched(model, change)


def without_escape(model):
    return patched(model, lambda number, payload: payload + b"\x28\x00" if number == 3 else payload)


def write_corpus(path):
    """English, other scripts, digits and blanks: enough for a few hundred merges."""
    chance = random.Random(7)
    lines = []
    for name in sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("docs/architecture/*.md"), ROOT / "README.md"]):
        lines += name.read_text(encoding="utf-8").splitlines()
    words = ["the", "cat", "Stra\u00dfe", "\u6a21\u578b", "\u8bed\u8a00", "\u043f\u0440\u0438\u0432\u0435\u0442",
             "\u0645\u0631\u062d\u0628\u0627", "\u3053\u3093\u306b\u3061\u306f", "caf\u00e9", "\ud55c\uad6d\uc5b4", "12", "345",
             "aaaa", "abab", "ABC", "x_y", "\U0001f600", "e\u0301", "...", "    "]
    for _ in range(3000):
        lines.append(" ".join(chance.choice(words) for _ in range(chance.randint(1, 12))))
    path.write_text("\n".join(line for line in lines if line.strip()), encoding="utf-8")


def train(sentencepiece, name, corpus, folder):
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus), model_prefix=str(folder / name), vocab_size=1600, hard_vocab_limit=False,
        num_threads=2, minloglevel=2, max_sentencepiece_length=12, **MODELS[name])
    model = (folder / f"{name}.model").read_bytes()
    if "unused" in name:
        model = make_unused(model, 3)
    if "raw_blanks" in name:
        model = without_escape(model)
    (folder / f"{name}.model").write_bytes(model)
    return sentencepiece.SentencePieceProcessor(model_proto=model)


def hostile_texts(count, seed):
    """The other oracle's strings, and as many that are made of what these models treat in a way of its own."""
    texts = make_texts(count - count // 3, seed)
    chance = random.Random(seed)
    parts = ["<reserved>", "ab", "abc", BLANK, BLANK * 2, BLANK * 3, "x y", "1", "<n>", "[tab]", "  ", " ", "\t", "\n",
             "<|im_start|>", "sop", "<s>", "</s>", "<unk>", "<0x0A>", "<0x", "<sep>", "the", "the cat", "aaaa", "\u3000",
             "\u00a0", "\u200b", "\ufb01", "\ufdfa", "\uff21", "\u1e9b\u0323", "e\u0301", "\uac00", "\u1100\u1161",
             "\u6a21\u578b", "Stra\u00dfe", "\u0130", "\u2581x", "x\u2581", "\ufffd", "\u2047", "\x00", "\U0001f600", "\U000e0001",
             "\u043f\u0440\u0438", "\u0410", "q", "zz", "\r\n", "\ufeff", "\u00ad", "\u2126", "\u00bd"]
    while len(texts) < count:
        text = "".join(chance.choice(parts) for _ in range(chance.randint(1, 14)))
        texts.append(text * chance.choice((1, 1, 1, 1, 1, 40)))
    return texts


class Ours:
    """tokenizer_cli at work on values, while the caller asks the oracle for its own answers."""

    def __init__(self, command, model, values, *flags, lines=None):
        self.model, self.n = model, len(values)
        self.given = tempfile.TemporaryFile()
        self.given.write(lines or to_lines(values))
        self.given.seek(0)
        self.answers = tempfile.TemporaryFile()
        self.process = subprocess.Popen([command, str(model), *flags], stdin=self.given, stdout=self.answers)

    def take(self):
        code = self.process.wait()
        self.answers.seek(0)
        answers = [json.loads(line) for line in self.answers]
        self.given.close()
        self.answers.close()
        if code != 0 or len(answers) != self.n:
            print(f"FAILED: {self.model}: {self.n} lines in, {len(answers)} out, exit code {code}")
            answers += [None] * (self.n - len(answers))
        return answers


def to_lines(values):
    return ("\n".join(map(json.dumps, values)) + "\n").encode()


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = self.compared = self.shown = 0

    def compare(self, what, given, ours, theirs):
        """One test: all of these are equal, and there are any."""
        wrong = 0
        for value, mine, other in zip(given, ours, theirs):
            self.compared += 1
            if mine == other:
                continue
            wrong += 1
            self.shown += 1
            if self.shown <= 20:
                print(f"FAILED: {what}: {str(value)[:80]!r}: {str(mine)[:160]} is not {str(other)[:160]}")
        good = wrong == 0 and len(given) > 0 and len(ours) >= len(given)
        self.passed += good
        self.failed += not good


def random_ids(processor, count, seed):
    """Any ids but control ones, which are shown by their names here; half of them bytes where there are any."""
    chance = random.Random(seed)
    all_ids = [i for i in range(processor.get_piece_size()) if not processor.is_control(i)]
    some = [i for i in all_ids if processor.is_byte(i)] or all_ids
    blanks = [i for i in all_ids if processor.id_to_piece(i).startswith(BLANK)] or all_ids
    return [[chance.choice(chance.choice((all_ids, some, blanks))) for _ in range(chance.randint(1, 12))]
            for _ in range(count)]


def check_model(sentencepiece, name, corpus, folder, command, texts, lines, tally):
    processor = train(sentencepiece, name, corpus, folder)
    path = folder / f"{name}.model"
    ours = Ours(command, path, texts, lines=lines)
    theirs = processor.encode(texts)
    tally.compare(f"{name} encode", texts, ours.take(), theirs)
    lists = theirs + random_ids(processor, len(texts), 5)
    ours = Ours(command, path, lists)
    tally.compare(f"{name} decode", lists, ours.take(), processor.decode(lists))


def field(number, value):
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def spm_bytes(pieces):
    """A tokenizer.model of kind BPE: (text, score, type) of its pieces; texts are taken as they are."""
    model = b"".join(field(1, field(1, text.encode()) + varint(2 << 3 | 5) + struct.pack("<f", score) + field(3, kind))
                     for text, score, kind in pieces)
    return model + field(2, field(3, 2) + field(35, 1)) + field(3, field(1, b"identity") + field(4, 0))


def check_real(sentencepiece, name, folder, command, texts, lines, tally):
    """A real vocabulary of tens of thousands of pieces, as the tokenizer.model that it once came from."""
    path = VOCABULARIES / f"ggml-vocab-{name}.gguf"
    if not path.exists():
        print(f"SKIPPED: {path} is not there")
        tally.skipped += 1
        return
    metadata = read_metadata(path)
    model = spm_bytes(zip(*(metadata[f"tokenizer.ggml.{key}"] for key in ("tokens", "scores", "token_type"))))
    file = folder / f"{name}.model"
    file.write_bytes(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    ours = Ours(command, file, texts, lines=lines)
    theirs = processor.encode(texts)
    tally.compare(f"{name} as tokenizer.model, encode", texts, ours.take(), theirs)
    ours = Ours(command, file, theirs)
    tally.compare(f"{name} as tokenizer.model, decode", theirs, ours.take(), processor.decode(theirs))


def check_cases(name, command, tally):
    path = VOCABULARIES / f"ggml-vocab-{name}.gguf"
    with open(f"{path}.inp", encoding="utf-8", newline="") as file:
        texts = file.read().split("\n__ggml_vocab_test__\n")
    ids = [[int(word) for word in line.split()] for line in Path(f"{path}.out").read_text().splitlines()]
    texts = texts[:len(ids)] # the last divider ends the file
    if len(texts) != len(ids) or len(ids) < 40:
        tally.failed += 1
        print(f"FAILED: {name}: {len(texts)} cases, {len(ids)} answers")
    tally.compare(f"{name} cases", texts, Ours(command, path, texts).take(), ids)


def marked_texts(count):
    """What chat templates make: special tokens between lines. Some of these tokens take the blanks behind them."""
    chance = random.Random(11)
    parts = ["<s>", "</s>", "<|user|>", "<|end|>", "<|assistant|>", "<|endoftext|>", "\n", " ", "  ", "Hello", " you", "12", "[INST]"]
    return ["".join(chance.choice(parts) for _ in range(chance.randint(1, 12))) for _ in range(count)]


def check_llama(name, command, texts, tally):
    """Texts that hold a token's name are left out: llama.cpp may join them to that token, we never do."""
    path = VOCABULARIES / f"ggml-vocab-{name}.gguf"
    try:
        from llama_cpp import Llama
    except ImportError:
        print(f"SKIPPED: {name} against llama.cpp: the Python package llama_cpp cannot be imported")
        tally.skipped += 1
        return
    llama = Llama(str(path), vocab_only=True, verbose=False)
    plain = [text for text in texts if "<" not in text]
    ours = Ours(command, path, plain)
    theirs = [llama.tokenize(text.encode(), add_bos=False, special=False) for text in plain]
    tally.compare(f"{name} against llama.cpp", plain, ours.take(), theirs)
    ours = Ours(command, path, plain[:100], "--special")
    theirs = [llama.tokenize(text.encode(), add_bos=True, special=False) for text in plain[:100]]
    tally.compare(f"{name} with bos", plain, ours.take(), theirs)
    marked = marked_texts(2000)
    ours = Ours(command, path, marked, "--special", "--parse-special")
    theirs = [llama.tokenize(text.encode(), add_bos=True, special=True) for text in marked]
    tally.compare(f"{name} with special tokens", marked, ours.take(), theirs)


def check_vocabularies(command, texts, tally):
    fetch = subprocess.run([sys.executable, str(ROOT / "tests/models/fetch_llama_files.py")],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if fetch.returncode != 0:
        print(f"SKIPPED: llama.cpp's vocabularies: {fetch.stderr.strip()[:200]}")
        tally.skipped += 1
        return
    for name in ("llama-spm", "phi-3"):
        check_cases(name, command, tally)
    for name in ("llama-spm", "phi-3", "baichuan"):
        check_llama(name, command, texts, tally)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--command", default=next((c for c in COMMANDS if os.path.exists(c)), ""))
    options = parser.parse_args()
    if not options.command:
        skip("tokenizer_cli is not built")
    tally = Tally()
    texts = hostile_texts(options.count, options.seed)
    check_vocabularies(options.command, texts, tally)
    try:
        import sentencepiece
    except ImportError as error:
        print(f"SKIPPED: the Python package sentencepiece cannot be imported ({error})")
        tally.skipped += len(MODELS)
        sentencepiece = None
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        write_corpus(corpus)
        lines = to_lines(texts)
        for name in MODELS if sentencepiece else ():
            if options.only not in name:
                continue
            begin = time.monotonic()
            check_model(sentencepiece, name, corpus, Path(folder), options.command, texts, lines, tally)
            print(f"{name}: {time.monotonic() - begin:.1f} s", file=sys.stderr)
        for name in ("llama-spm", "baichuan") if sentencepiece and not options.only else ():
            check_real(sentencepiece, name, Path(folder), options.command, texts, lines, tally)
    print(f"compared {tally.compared}")
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    sys.exit(1 if tally.failed else 0)


if __name__ == "__main__":
    main()
