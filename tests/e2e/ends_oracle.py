#!/usr/bin/env python3
"""What stands around a text, by each way a folder may say it, against transformers 4.

usage: ends_oracle.py

Tiny folders with a tokenizer.json (five post-processors) or a tokenizer.model, of types of model and classes that decide by
themselves or do not, with add_bos_token and add_eos_token absent, null, false and true, and with and without names of the
tokens: 1,732 of them, each opened by transformers (its virtual environment: tools/lib/fetch.sh) and by tokenizer_cli. Prints
"N passed, M failed, K skipped".
"""
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import sentencepiece
    from folders_oracle import TOOLS, Reference
except ImportError as missing:
    sentencepiece, reason = None, missing
from tokenizer_oracle import skip

CONFIG = {"architectures": ["LlamaForCausalLM"], "vocab_size": 32, "hidden_size": 8, "num_attention_heads": 2,
          "num_hidden_layers": 1, "intermediate_size": 8}
SPECIAL = ["<s>", "</s>", "<bos>", "<eos>", "<pad>", "<unk>"]  # ids from 1
WORDS = ["zz", *SPECIAL, "q", "r", "t", "h", "i", "hi", *"abcdefgjk"]
ANSWERS = ["absent", None, False, True]
SIDES = [None, (["<s>"], []), (["<s>"], ["</s>"]), ([], ["</s>"]), (["<s>", "<pad>"], ["<pad>"])]
CLASSES = [None, "LlamaTokenizer", "LlamaTokenizerFast", "CodeLlamaTokenizer", "GemmaTokenizer", "PreTrainedTokenizerFast",
           "GPT2Tokenizer", "Qwen2Tokenizer"]


def post_processor(sides):
    if sides is None:
        return None
    before, behind = ([{"SpecialToken": {"id": name, "type_id": 0}} for name in side] for side in sides)
    single = [*before, {"Sequence": {"id": "A", "type_id": 0}}, *behind]
    return {"type": "TemplateProcessing", "single": single, "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {name: {"id": name, "ids": [WORDS.index(name)], "tokens": [name]} for name in set(sum(sides, []))}}


def tokenizer_json(sides):
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "pre_tokenizer": byte_level,
            "added_tokens": [{"id": WORDS.index(name), "content": name, **flags} for name in SPECIAL],
            "post_processor": post_processor(sides), "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                      "vocab": {word: i for i, word in enumerate(WORDS)}, "merges": ["h i"]}}


def settings(name, answers, names):
    """tokenizer_config.json."""
    config = {"tokenizer_class": name} if name else {}
    config.update({"bos_token": "<s>", "eos_token": "</s>"} if names else {})
    config.update({key: answer for key, answer in zip(("add_bos_token", "add_eos_token"), answers) if answer != "absent"})
    return config


def json_folders():
    """(what is tried, files) of folders with a tokenizer.json."""
    for kind in ("llama", "mistral", "qwen2"):
        for name, sides, bos, eos, names in itertools.product(CLASSES if kind == "llama" else [None], SIDES, ANSWERS, ANSWERS,
                                                              (True, False)):
            yield (kind, name, sides, bos, eos, names), {
                "config.json": {**CONFIG, "model_type": kind}, "tokenizer.json": tokenizer_json(sides),
                "tokenizer_config.json": settings(name, (bos, eos), names)}


def spm_folders(model):
    """The same with a tokenizer.model, alone or with one file beside it."""
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    for kind in ("llama", "mistral"):
        files = {"config.json": {**CONFIG, "model_type": kind}, "tokenizer.model": model}
        yield (kind, "alone"), files
        yield (kind, "map"), {**files, "special_tokens_map.json": names}
        for name, bos, eos in itertools.product(CLASSES[:4], ANSWERS, ANSWERS):
            yield (kind, name, bos, eos), {**files, "tokenizer_config.json": settings(name, (bos, eos), False)}


def train(folder):
    corpus = folder / "corpus"
    corpus.write_text("hi there hi hi this is it\n" * 50)
    sentencepiece.SentencePieceTrainer.train(input=str(corpus), model_prefix=str(folder / "t"), vocab_size=300, minloglevel=2,
                                             hard_vocab_limit=False, model_type="bpe", byte_fallback=True)
    return (folder / "t.model").read_bytes()


def ours(folder):
    done = subprocess.run([TOOLS / "tokenizer_cli", folder, "--special"], input=b'"hi"\n', capture_output=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr.decode()


def differs(reference, what, files):
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, value in files.items():
            (folder / name).write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
        said = reference.ask({"do": "ids", "folder": scratch, "options": {}, "texts": ["hi"], "chats": []})
        theirs, mine = said.get("trusted", [said.get("error")])[0], ours(folder)
    if mine != theirs:
        print(f"FAILED: {what}: {mine} is not {theirs}")
    return mine != theirs


def main():
    if not sentencepiece:
        skip(f"a Python package cannot be imported ({reason})")
    if not (TOOLS / "tokenizer_cli").exists():
        skip("tokenizer_cli is not built")
    reference = Reference("4")
    with tempfile.TemporaryDirectory() as scratch:
        model = train(Path(scratch))
    wrong = [differs(reference, what, files) for what, files in itertools.chain(json_folders(), spm_folders(model))]
    print(f"{len(wrong) - sum(wrong)} passed, {sum(wrong)} failed, 0 skipped")
    sys.exit(1 if any(wrong) else 0)


if __name__ == "__main__":
    main()
