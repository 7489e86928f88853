#!/usr/bin/env python3
"""Tokenizers from every file they come in, against the packages that made the formats.

usage: tokenizer_files_oracle.py [--count N] [--seed N] [--only NAME] [COMMAND...]

Real vocabularies (llama.cpp's, fetched into the cache) pass their own cases, and give the ids and texts of
Hugging Face's tokenizers with the pipeline that the model was published with, read from GGUF and from a
tokenizer.json made of it; made tokenizer.json files try every kind of step; a made .tiktoken file is compared
with tiktoken. COMMAND is `tandem model` (or the test program), before its subcommand. A GGUF
vocabulary takes N strings, hostile ones among them, its tokenizer.json a quarter, a made one a tenth: 1,000 (the
default) take half a minute of computing, 20,000 ten minutes. Prints "N passed, M failed, K skipped".
"""
import argparse
import base64
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unicodedata

from tokenizer_oracle import COMMANDS, make_texts, read_metadata

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)
CASES = ["qwen2", "llama-bpe", "gpt-2", "falcon", "deepseek-llm", "deepseek-coder", "starcoder", "refact",
         "command-r", "mpt", "qwen35"]


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = self.compared = self.shown = 0

    def skip(self, reason):
        print(f"SKIPPED: {reason}")
        self.skipped += 1

    def fail(self, line):
        self.failed += 1
        if self.failed <= 20:
            print(f"FAILED: {line}")

    def compare(self, name, texts, ours, theirs):
        """One test: all of these are equal, and there are any."""
        wrong = 0
        for text, mine, other in zip(texts, ours, theirs):
            self.compared += 1
            if mine == other:
                continue
            wrong += 1
            self.shown += 1
            if self.shown <= 20:
                print(f"FAILED: {name}: {str(text)[:80]!r}: {str(mine)[:160]!r} is not {str(other)[:160]!r}")
        if len(ours) != len(texts) or not texts:
            self.fail(f"{name}: {len(texts)} lines in, {len(ours)} out")
        elif wrong:
            self.failed += 1
        else:
            self.passed += 1
        print(f"{name}: {len(texts)} strings, {wrong} differ")


def run(command, lines):
    done = subprocess.run(command, input="".join(json.dumps(line) + "\n" for line in lines).encode(),
                          stdout=subprocess.PIPE, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


def vocabularies():
    script = os.path.join(os.path.dirname(__file__), "..", "models", "fetch_llama_files.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None, (done.stderr.strip().splitlines() or ["llama.cpp's vocabularies cannot be fetched"])[-1]
    return done.stdout.strip(), ""


def check_cases(command, folder, tally):
    for name in CASES:
        path = f"{folder}/ggml-vocab-{name}.gguf"
        with open(path + ".inp", encoding="utf-8", newline="") as file:
            texts = file.read().split("\n__ggml_vocab_test__\n")
        with open(path + ".out", encoding="utf-8") as file:
            wanted = [[int(id) for id in line.split()] for line in file.read().split("\n")]
        ours = run(command + ["tokenize", path, "--no-special"], texts)
        tally.compare(f"{name}, its own cases", texts, ours, wanted)


def published(name):
    """Normalizer and pre-tokenizer as in the tokenizer.json that the model came with."""
    from tokenizers import Regex, normalizers, pre_tokenizers as pre
    split = lambda pattern: pre.Split(Regex(pattern), "isolated")
    plain = pre.ByteLevel(add_prefix_space=False, use_regex=True)
    bare = pre.ByteLevel(add_prefix_space=False, use_regex=False)
    digits = pre.Sequence([pre.Digits(individual_digits=True), plain])
    nfc = normalizers.NFC()
    letters = name == "deepseek-llm"
    return {
        "gpt-2": (None, plain), "mpt": (nfc, plain), "starcoder": (None, digits), "command-r": (nfc, digits),
        "qwen2": (nfc, pre.Sequence([split(QWEN), bare])),
        "llama-bpe": (None, pre.Sequence([split(LLAMA3), bare])),
        "falcon": (None, pre.Sequence([pre.Punctuation("contiguous"), plain, split("[0-9][0-9][0-9]")])),
        "deepseek-llm": (None, pre.Sequence([split("[\r\n]"), split(r"\s?[" + DEEPSEEK + "]+"),
                                             split("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"), split(r"\s+$"),
                                             split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"), pre.Digits(individual_digits=True),
                                             bare]) if letters else None),
    }[name]


# Letters with case, as deepseek-llm's tokenizer.json lists them.
DEEPSEEK = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373"
    "\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-"
    "\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-"
    "\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d"
    "\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-"
    "\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-"
    "\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-"
    "\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-"
    "\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-"
    "\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943")


def build(metadata, name):
    """The library's tokenizer from a GGUF vocabulary."""
    from tokenizers import AddedToken, Tokenizer, decoders, models
    tokens = metadata["tokenizer.ggml.tokens"]
    kinds = metadata.get("tokenizer.ggml.token_type", [1] * len(tokens))
    merges = [tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"]]
    model = models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges,
                       ignore_merges=name == "llama-bpe")
    tokenizer = Tokenizer(model)
    normalizer, cuts = published(name)
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = cuts
    tokenizer.decoder = decoders.ByteLevel()
    # Role markers are control tokens to us, whatever their file calls them: user text never becomes one.
    marker = re.compile("<(\\|.+\\||\uff5c.+\uff5c)>", re.DOTALL)
    added = [AddedToken(token, special=kind == 3 or bool(marker.fullmatch(token)), normalized=False)
             for token, kind in zip(tokens, kinds) if kind in (3, 4)]
    tokenizer.add_special_tokens([token for token in added if token.special])
    tokenizer.add_tokens([token for token in added if not token.special])
    return tokenizer


def compare_all(command, label, path, tokenizer, texts, tally, normal=None):
    """Plain, trusted, and back, with one file."""
    tokenizer.encode_special_tokens = True
    plain = [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
    tally.compare(f"{label}, plain", texts, run(command + ["tokenize", path, "--no-special"], texts), plain)
    tokenizer.encode_special_tokens = False
    few = texts[:len(texts) // 4]
    trusted = [encoding.ids for encoding in tokenizer.encode_batch(few, add_special_tokens=True)]
    tally.compare(f"{label}, trusted", few, run(command + ["tokenize", path, "--parse-special"], few), trusted)
    lists = plain + trusted
    back = tokenizer.decode_batch(lists, skip_special_tokens=False)
    tally.compare(f"{label}, back", lists, run(command + ["detokenize", path], lists), back)
    lists = trusted
    back = tokenizer.decode_batch(lists, skip_special_tokens=True)
    tally.compare(f"{label}, back without special ones", lists,
                  run(command + ["detokenize", path, "--skip-special"], lists), back)


def check_real(command, folder, texts, only, scratch, tally):
    for name in ["qwen2", "llama-bpe", "gpt-2", "falcon", "deepseek-llm", "starcoder", "command-r", "mpt"]:
        if only and only != name:
            continue
        path = f"{folder}/ggml-vocab-{name}.gguf"
        tokenizer = build(read_metadata(path), name)
        marked = with_markers(texts, tokenizer)
        tokenizer.encode_special_tokens = True
        plain = [encoding.ids for encoding in tokenizer.encode_batch(marked, add_special_tokens=False)]
        tally.compare(f"{name} from GGUF", marked, run(command + ["tokenize", path, "--no-special"], marked), plain)
        tokenizer.save(f"{scratch}/tokenizer.json")
        compare_all(command, f"{name} from tokenizer.json", f"{scratch}/tokenizer.json", tokenizer,
                    marked[:len(marked) // 4], tally)


def with_markers(texts, tokenizer):
    """The texts, some with added tokens put into them."""
    chance = random.Random(3)
    contents = [token.content for token in tokenizer.get_added_tokens_decoder().values()] or [""]
    result = []
    for text in texts:
        if chance.random() < 0.3:
            at = chance.randint(0, len(text))
            text = text[:at] + chance.choice(["", " ", "  ", "\n"]) + chance.choice(contents) + \
                chance.choice(["", " ", "\t ", "x"]) + text[at:]
        result.append(text)
    return result


def newer_than_package():
    """Characters that the package knows otherwise than Python does: marks that it does not put in order, or does not
    take for marks, what it takes for punctuation and Python does not, or the other way. Its Unicode data is older."""
    from tokenizers import normalizers, pre_tokenizers as pre
    nfc, nfkd, strip, cuts = normalizers.NFC(), normalizers.NFKD(), normalizers.StripAccents(), pre.Punctuation()
    lower = normalizers.Lowercase()
    newer = []
    for point in range(0x80, 0x110000):
        char = chr(point)
        category = unicodedata.category(char)
        if category in ("Cn", "Cs", "Co"):
            continue
        probes = [char]
        if unicodedata.combining(char):
            probes += [f"a\u0345{char}", f"a{char}\u0334"]
        differs = any(nfc.normalize_str(probe) != unicodedata.normalize("NFC", probe) for probe in probes)
        differs = differs or nfkd.normalize_str(char) != unicodedata.normalize("NFKD", char)
        differs = differs or lower.normalize_str(char) != char.lower()
        if category[0] == "M":
            differs = differs or strip.normalize_str(char) != ""
        if category[0] in "PS":
            differs = differs or len(cuts.pre_tokenize_str(f"a{char}a")) != (3 if category[0] == "P" else 1)
        if differs:
            newer.append(char)
    print(f"{len(newer)} characters are newer than the package and left out")
    return "".join(newer)


SAMPLE = ["The quick brown fox jumps over the lazy dog. It's 12 o'clock, isn't it?", "  Caf\u00e9 na\u00efve  r\u00e9sum\u00e9 ",
          "\u4e2d\u6587\u5206\u8bcd \u0440\u0443\u0441\u0441\u043a\u0438\u0439 \ud55c\uad6d\uc5b4 \u65e5\u672c\u8a9e\u306e\u6587\u7ae0", "def f(x):\n\treturn x + 1234567  # ok\n\n", "[INST] <|x|>"] * 4


def made():
    """One tokenizer for each kind of step: (name, tokenizer)."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers as pre, \
        processors, trainers
    metaspace = "\u2581"

    def train(normalizer=None, cuts=None, decoder=None, size=400, **options):
        tokenizer = Tokenizer(models.BPE(**options))
        if normalizer:
            tokenizer.normalizer = normalizer
        if cuts:
            tokenizer.pre_tokenizer = cuts
        alphabet = pre.ByteLevel.alphabet() if "ByteLevel" in str(cuts) else []
        first = ["<unk>", "<s>", "</s>"] + ([f"<0x{byte:02X}>" for byte in range(256)] if options.get("byte_fallback")
                                            else [])
        trainer = trainers.BpeTrainer(vocab_size=size + len(first), initial_alphabet=alphabet, special_tokens=first,
                                      show_progress=False)
        tokenizer.train_from_iterator(SAMPLE, trainer)
        # The trainer marks them all as special; the file shall not, but for three.
        made_of = json.loads(tokenizer.to_str())
        made_of["added_tokens"] = [token for token in made_of["added_tokens"] if token["id"] < 3]
        tokenizer = Tokenizer.from_str(json.dumps(made_of))
        if decoder:
            tokenizer.decoder = decoder
        return tokenizer

    llama_decoder = decoders.Sequence([decoders.Replace(metaspace, " "), decoders.ByteFallback(), decoders.Fuse(),
                                       decoders.Strip(" ", 1, 0)])
    llama_forms = normalizers.Sequence([normalizers.Prepend(metaspace), normalizers.Replace(" ", metaspace)])
    unk = {"unk_token": "<unk>", "fuse_unk": True}
    llama = train(llama_forms, None, llama_decoder, byte_fallback=True, **unk)
    llama.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B",
                                                         special_tokens=[("<s>", 1)])
    yield "llama-2", llama
    first = train(None, pre.Metaspace(prepend_scheme="first", split=False), llama_decoder, byte_fallback=True, **unk)
    first.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("[x]", lstrip=True, rstrip=True)])
    first.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="$A $B",
                                                         special_tokens=[("<s>", 1), ("</s>", 2)])
    yield "mistral", first
    for scheme in ["always", "never", "first"]:
        yield f"metaspace {scheme}", train(None, pre.Metaspace(prepend_scheme=scheme, split=True),
                                           decoders.Metaspace(prepend_scheme=scheme), unk_token="<unk>")
    yield "no decoder", train(None, pre.Whitespace(), None, **unk)
    yield "byte fallback and metaspace", train(
        None, pre.Metaspace(), decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]), byte_fallback=True)
    byte_level = pre.ByteLevel(add_prefix_space=False, use_regex=False)
    for behaviour in ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]:
        for invert in [False, True]:
            cuts = pre.Sequence([pre.Split(Regex(r"\s|[aeiou]{1,2}|\p{N}"), behaviour, invert), byte_level])
            yield f"split {behaviour} {invert}", train(None, cuts, decoders.ByteLevel())
        yield f"punctuation {behaviour}", train(None, pre.Sequence([pre.Punctuation(behaviour), byte_level]),
                                                decoders.ByteLevel())
    yield "split string", train(None, pre.Sequence([pre.Split("e.", "isolated"), pre.Split(" ", "merged_with_next"),
                                                    byte_level]), decoders.ByteLevel())
    yield "prefix space", train(None, pre.ByteLevel(add_prefix_space=True, use_regex=True), decoders.ByteLevel())
    yield "digits", train(None, pre.Sequence([pre.Digits(individual_digits=False), pre.WhitespaceSplit(), byte_level]),
                          decoders.ByteLevel())
    yield "digits behind bytes", train(
        None, pre.Sequence([pre.Punctuation("contiguous"), pre.ByteLevel(add_prefix_space=False, use_regex=True),
                            pre.Digits(individual_digits=False), pre.Split(Regex("[0-9][0-9][0-9]"), "isolated")]),
        decoders.ByteLevel())
    yield "empty matches", train(None, pre.Sequence([pre.Split(Regex(r"(?=(\d{3})+(?!\d))"), "isolated"),
                                                     pre.Split(Regex(r"\b"), "isolated"), byte_level]),
                                 decoders.ByteLevel())
    forms = {"nfc": normalizers.NFC(), "nfd": normalizers.NFD(), "nfkc": normalizers.NFKC(),
             "nfkd": normalizers.NFKD(), "lowercase": normalizers.Lowercase(),
             "strip": normalizers.Strip(), "strip left": normalizers.Strip(left=True, right=False),
             "accents": normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
             "replace": normalizers.Sequence([normalizers.Replace(Regex(r"\s+"), " "), normalizers.Replace("e", "xyz"),
                                              normalizers.Replace(Regex("$"), "!")]),
             "prepend": normalizers.Prepend("abc ")}
    for name, normalizer in forms.items():
        tokenizer = train(normalizer, pre.ByteLevel(add_prefix_space=False), decoders.ByteLevel())
        tokenizer.add_tokens([AddedToken("Fox E\u0301", normalized=True), AddedToken("word", single_word=True)])
        yield name, tokenizer
    whole = train(None, pre.ByteLevel(add_prefix_space=False), decoders.ByteLevel(), ignore_merges=True)
    whole.add_special_tokens([AddedToken("<|a|>", lstrip=True), AddedToken("<|a|>b", rstrip=True),
                              AddedToken("<mask>", lstrip=True, rstrip=True, single_word=True)])
    whole.add_tokens([AddedToken("  ", normalized=False), AddedToken("a b"), AddedToken("\u00e9\u00e8")])
    yield "added tokens", whole


def check_made(command, texts, only, scratch, tally):
    from tokenizers import __version__ as version
    print(f"tokenizers {version}")
    kept = texts[:max(60, len(texts) // 10)]
    for name, tokenizer in made():
        if only and only != name:
            continue
        path = f"{scratch}/tokenizer.json"
        tokenizer.save(path)
        compare_all(command, name, path, tokenizer, with_markers(kept, tokenizer), tally)


def check_tiktoken(command, folder, texts, scratch, tally):
    try:
        import tiktoken
    except ImportError as error:
        tally.skip(f"the Python package tiktoken cannot be imported ({error})")
        return
    metadata = read_metadata(f"{folder}/ggml-vocab-qwen2.gguf")
    printable = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    byte_of = {chr(byte): byte for byte in printable}
    byte_of.update({chr(0x100 + nth): byte for nth, byte in enumerate(others)})
    ranks = {bytes(byte_of[char] for char in token): i
             for i, (token, kind) in enumerate(zip(metadata["tokenizer.ggml.tokens"],
                                                   metadata["tokenizer.ggml.token_type"])) if kind == 1}
    path = f"{scratch}/qwen.tiktoken"
    with open(path, "wb") as file:
        for token, rank in ranks.items():
            file.write(base64.b64encode(token) + b" %d\n" % rank)
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [f"<|extra_{i}|>" for i in range(205)]
    special = {name: len(ranks) + i for i, name in enumerate(names)}
    encoding = tiktoken.Encoding("qwen", pat_str=QWEN, mergeable_ranks=ranks, special_tokens=special)
    formed = [unicodedata.normalize("NFC", text) for text in texts]
    theirs = [encoding.encode(text, disallowed_special=()) for text in formed]
    tally.compare("tiktoken, plain", texts, run(command + ["tokenize", path], texts), theirs)
    chance = random.Random(4)
    few = [text[:20] + chance.choice(names) + text[20:] for text in formed[:len(formed) // 4]]
    trusted = [encoding.encode(text, allowed_special="all") for text in few]
    # Where a marker ends normal forms may differ from those of the whole: only texts that are in form already.
    tally.compare("tiktoken, trusted", few, run(command + ["tokenize", path, "--parse-special"], few), trusted)
    lists = theirs + trusted + [[chance.randrange(len(ranks) + 208) for _ in range(20)] for _ in range(1000)]
    back = [encoding.decode(ids) for ids in lists]
    tally.compare("tiktoken, back", lists, run(command + ["detokenize", path], lists), back)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only")
    parser.add_argument("command", nargs="*")
    options = parser.parse_args()
    tally = Tally()
    command = options.command or next((c[:-1] for c in COMMANDS if os.path.exists(c[0])), None)
    try:
        import tokenizers  # noqa: F401
        missing = ""
    except ImportError as error:
        missing = f"the Python package tokenizers cannot be imported ({error})"
    if not command:
        missing = "nothing is built that tokenizes"
    if missing:
        tally.skip(missing)
    else:
        table = dict.fromkeys(map(ord, newer_than_package()))
        texts = [text.translate(table) for text in make_texts(options.count, options.seed)]
        folder, reason = vocabularies()
        with tempfile.TemporaryDirectory() as scratch:
            check_made(command, texts, options.only, scratch, tally)
            if not folder:
                tally.skip(reason)
            else:
                if not options.only:
                    check_cases(command, folder, tally)
                check_real(command, folder, texts, options.only, scratch, tally)
                if not options.only or options.only == "tiktoken":
                    check_tiktoken(command, folder, texts, scratch, tally)
    print(f"compared {tally.compared}")
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    sys.exit(1 if tally.failed else 0)


if __name__ == "__main__":
    main()
