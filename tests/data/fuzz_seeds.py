#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets gguf, tokenizer, sentencepiece, jinja and grammar_* into tests/fuzz/corpus/ (committed).

Small files that reach every part of the readers: good ones, and ones wrong in one place.
"""
import ast
import re
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
import jinja_snippets  # noqa: E402

CORPUS = Path(__file__).resolve().parent.parent / "fuzz" / "corpus"
U8, I32, U32, F32, BOOL, STRING, ARRAY, U64 = 0, 5, 4, 6, 7, 8, 9, 10


def text(value):
    value = value.encode()
    return struct.pack("<Q", len(value)) + value


def pair(key, kind, value):
    return text(key) + struct.pack("<I", kind) + value


def u32(key, value):
    return pair(key, U32, struct.pack("<I", value))


def f32(key, value):
    return pair(key, F32, struct.pack("<f", value))


def string(key, value):
    return pair(key, STRING, text(value))


def strings(key, values):
    return pair(key, ARRAY, struct.pack("<IQ", STRING, len(values)) + b"".join(map(text, values)))


def i32s(key, values):
    return pair(key, ARRAY, struct.pack(f"<IQ{len(values)}i", I32, len(values), *values))


def tensor(name, dims, kind, offset):
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def file(pairs, tensors=(), data=0, version=3, align=32, counts=None):
    n_tensors, n_pairs = counts or (len(tensors), len(pairs))
    body = b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_pairs) + b"".join(pairs) + b"".join(tensors)
    return body + bytes(-len(body) % align) + bytes(data)


def llama(kinds=(1, 1, 1, 1, 3, 3, 4), pre="smollm", heads=2):
    tokens = ["a", "b", "ab", "\u0120", "<|im_start|>", "<|im_end|>", "  "]
    return [
        string("general.architecture", "llama"), u32("llama.block_count", 1), u32("llama.context_length", 64),
        u32("llama.embedding_length", 32), u32("llama.feed_forward_length", 32),
        u32("llama.attention.head_count", heads), u32("llama.attention.head_count_kv", 1),
        f32("llama.attention.layer_norm_rms_epsilon", 1e-5), f32("llama.rope.freq_base", 1e4),
        string("tokenizer.ggml.model", "gpt2"), string("tokenizer.ggml.pre", pre),
        strings("tokenizer.ggml.tokens", tokens), i32s("tokenizer.ggml.token_type", kinds),
        strings("tokenizer.ggml.merges", ["a b"]), u32("tokenizer.ggml.bos_token_id", 4),
        u32("tokenizer.ggml.eos_token_id", 5), pair("tokenizer.ggml.add_bos_token", BOOL, b"\x01"),
        string("tokenizer.chat_template",
               "{{ '<|im_start|>system\nHelp.<|im_end|>\n' }}{% for m in messages %}{% endfor %}"),
    ]


EMBEDDING = tensor("token_embd.weight", [32, 7], 0, 0)
NESTED = pair("deep", ARRAY, struct.pack("<IQ", ARRAY, 1) * 5 + struct.pack("<IQ", U8, 0))

GGUF = {
    "empty_header": file([]),
    "version_2": file([u32("general.alignment", 64)], version=2, align=64),
    "version_1": file([], version=1),
    "llama": file(llama(), [EMBEDDING], 896),
    "llama_gpt2_cuts": file(llama(pre="gpt-2"), [EMBEDDING], 896),
    "llama_unknown_cuts": file(llama(pre="other"), [EMBEDDING], 896),
    "llama_bad_kind": file(llama(kinds=(1, 1, 1, 1, 3, 3, 9)), [EMBEDDING], 896),
    "llama_bad_heads": file(llama(heads=5), [EMBEDDING], 896),
    "llama_no_embedding": file(llama()),
    "llama_experts": file(llama() + [u32("llama.expert_count", 8)], [EMBEDDING], 896),
    "all_types": file([
        pair("u8", 0, b"\x01"), pair("i8", 1, b"\xff"), pair("u16", 2, b"\x01\x00"), pair("i16", 3, b"\xff\xff"),
        u32("u32", 7), pair("i32", 5, b"\xff" * 4), f32("f32", 1.5), pair("bool", BOOL, b"\x00"),
        string("string", "\u00e9"), pair("u64", U64, bytes(8)), pair("i64", 11, b"\xff" * 8),
        pair("f64", 12, struct.pack("<d", 2.5)),
        pair("bools", ARRAY, struct.pack("<IQ", BOOL, 3) + b"\x00\x01\x00"),
        pair("nested", ARRAY, struct.pack("<IQ", ARRAY, 2) + 2 * (struct.pack("<IQ", U8, 2) + b"ab")),
    ]),
    "tensor_types": file([], [
        tensor("f16", [32], 1, 0), tensor("bf16", [32], 30, 64), tensor("q4_0", [32], 2, 128),
        tensor("q4_1", [32], 3, 160), tensor("q8_0", [32, 1, 1, 1], 8, 192)], 256),
    "tensor_q6_k": file([], [tensor("q6_k", [256], 14, 0)], 224),
    "nested_deep": file([NESTED]),
    "bool_2": file([pair("b", BOOL, b"\x02")]),
    "duplicate_key": file([u32("a", 1), u32("a", 2)]),
    "overlap": file([], [tensor("a", [32], 0, 0), tensor("b", [32], 0, 96)], 512),
    "counts": file([], counts=(1 << 63, 1 << 63)),
    "count_of_keys": file([], counts=(0, 1 << 63)),
    "counts_beyond_the_file": file([], counts=(9, 900)),
    "magic": b"gguf" + bytes(28),
    "cut_in_a_key": file([u32("a", 1)])[:30],
    "no_data": file([], counts=(0, 0))[:24],
    "dimension_0": file([], [tensor("a", [0], 0, 0)], 64),
    "dimensions_wrap": file([], [tensor("a", [1 << 32, 1 << 32], 0, 0)], 64),
    "size_wraps": file([], [tensor("a", [1 << 31, 1 << 31], 0, 0)], 64),
    "half_a_block": file([], [tensor("a", [16], 2, 0)], 64),
    "no_name": file([], [tensor("", [32], 0, 0)], 128),
    "long_name": file([], [tensor("n" * 65, [32], 0, 0)], 128),
    "five_dimensions": file([], [tensor("a", [1] * 5, 0, 0)], 64),
    "duplicate_tensor": file([], [tensor("a", [32], 0, 0), tensor("a", [32], 0, 128)], 512),
    "unaligned": file([], [tensor("a", [32], 0, 4)], 512),
    "past_the_end": file([], [tensor("a", [32], 0, 4096)], 128),
    "alignment_3": file([u32("general.alignment", 3)]),
    "alignment_string": file([string("general.alignment", "32")]),
    "string_past_the_end": file([pair("a", STRING, struct.pack("<Q", 1 << 40))]),
    "array_of_unknown": file([pair("a", ARRAY, struct.pack("<IQ", 99, 1))]),
    "array_wraps": file([pair("a", ARRAY, struct.pack("<IQ", U64, 1 << 61))]),
    "unknown_type": file([pair("a", 13, b"")]),
    "architecture": file([string("general.architecture", "mamba")]),
    "llama_rope_scaling": file(llama() + [string("llama.rope.scaling.type", "yarn")], [EMBEDDING], 896),
    "llama_rope_plain": file(llama() + [string("llama.rope.scaling.type", "none")], [EMBEDDING], 896),
    "llama_rope_tensor": file(llama(), [EMBEDDING, tensor("rope_freqs.weight", [8], 0, 896)], 928),
    "llama_window": file(llama() + [u32("llama.attention.sliding_window", 8)], [EMBEDDING], 896),
    "llama_key_length": file(llama() + [u32("llama.attention.key_length", 8)], [EMBEDDING], 896),
    "llama_value_length": file(llama() + [u32("llama.attention.key_length", 8),
                                          u32("llama.attention.value_length", 4)], [EMBEDDING], 896),
    "llama_vocabulary": file(llama() + [u32("llama.vocab_size", 6)], [EMBEDDING], 896),
    "llama_padded": file(llama() + [u32("llama.vocab_size", 8)], [EMBEDDING], 896),
    "llama_rope_dims": file(llama() + [u32("llama.rope.dimension_count", 7)], [EMBEDDING], 896),
    "llama_kind_count": file(llama(kinds=(1, 1)), [EMBEDDING], 896),
    "llama_kind_type": file([value for value in llama() if b"token_type" not in value]
                            + [strings("tokenizer.ggml.token_type", ["1"])], [EMBEDDING], 896),
    "llama_no_merges": file([value for value in llama() if b"ggml.merges" not in value], [EMBEDDING], 896),
    "llama_bad_merge": file([value for value in llama() if b"ggml.merges" not in value]
                            + [strings("tokenizer.ggml.merges", ["a q"])], [EMBEDDING], 896),
    "llama_spm": file([value for value in llama() if b"ggml.model" not in value]
                      + [string("tokenizer.ggml.model", "llama")], [EMBEDDING], 896),
    "llama_no_bos": file([value for value in llama() if b"bos_token_id" not in value], [EMBEDDING], 896),
    "llama_bos_outside": file([value for value in llama() if b"bos_token_id" not in value]
                              + [u32("tokenizer.ggml.bos_token_id", 7)], [EMBEDDING], 896),
    "llama_eos_negative": file([value for value in llama() if b"eos_token_id" not in value]
                               + [pair("tokenizer.ggml.eos_token_id", I32, b"\xff" * 4)], [EMBEDDING], 896),
    "llama_eps_double": file([value for value in llama() if b"epsilon" not in value]
                             + [pair("llama.attention.layer_norm_rms_epsilon", 12, struct.pack("<d", 1e-6))],
                             [EMBEDDING], 896),
    "llama_layers_wide": file([value for value in llama() if b"block_count" not in value]
                              + [pair("llama.block_count", U64, struct.pack("<Q", 1 << 33))], [EMBEDDING], 896),
    "llama_layers_u8": file([value for value in llama() if b"block_count" not in value]
                            + [pair("llama.block_count", U8, b"\x02")], [EMBEDDING], 896),
    "llama_layers_i16": file([value for value in llama() if b"block_count" not in value]
                             + [pair("llama.block_count", 3, b"\x02\x00")], [EMBEDDING], 896),
    "llama_layers_text": file([value for value in llama() if b"block_count" not in value]
                              + [string("llama.block_count", "2")], [EMBEDDING], 896),
    "llama_other_template": file([value for value in llama() if b"chat_template" not in value]
                                 + [string("tokenizer.chat_template", "[INST]")], [EMBEDDING], 896),
}

TOKENIZER = {
    "plain": b"\x00ab ab  12 it's\n\n\tx",
    "special": b"\x01ab<|im_start|>ab<|im_end|><|im_",
    "special_as_text": b"\x00ab<|im_start|>ab<|im_end|><|im_",
    "long": b"\x00" + b"ab" * 300 + b" " * 200 + b"^" * 200,
    "unicode": b"\x00" + "caf\u00e9 \u4e2d\u6587 \U0001f600\u200d e\u0301 \u180e\u2003\u0663 \u0085".encode(),
    "invalid": b"\x00a\xff\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80",
    "cut": b"\x00a\xf0\x9f\x98",
}


def varint(value):
    out = b""
    while value > 0x7f:
        out += bytes([value & 0x7f | 0x80])
        value >>= 7
    return out + bytes([value])


def integer(number, value):
    return varint(number << 3) + varint(value)


def message(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def piece(value, score=0.0, kind=1):
    return message(1, message(1, value.encode()) + varint(2 << 3 | 5) + struct.pack("<f", score) + integer(3, kind))


def charsmap(to):
    """A double array of one rule, "A" to `to`: the root's children at 0x100, the value at 0x140."""
    units = [0] * 512
    units[0], units[0x141], units[0x140] = 0x100 << 10, 1 << 10 | 0x100 | ord("A"), 1 << 31
    return struct.pack("<I512I", 2048, *units) + to.encode() + b"\0"


ENDS = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3)
BYTES = b"".join(piece(f"<0x{byte:02X}>", 0, 6) for byte in range(256))
PIECES = b"".join(piece(value, -score) for score, value in enumerate(
    ["\u2581", "a", "b", "ab", "\u2581a", "\u2581ab", "\u2581\u2581", "abab", "\u4e2d"]))
BPE = integer(3, 2)
FALLBACK = BPE + integer(35, 1)


def spm(value, *parts):
    value = value.encode() if isinstance(value, str) else value
    return bytes([len(value)]) + value + b"".join(parts)


SENTENCEPIECE = {
    "bpe": spm("ab  abab\u4e2dx\U0001f600", ENDS, BYTES, PIECES, message(2, FALLBACK), message(3, integer(4, 0))),
    "bpe_without_bytes": spm("xx ab yy", ENDS, PIECES, message(2, BPE)),
    "bpe_no_prefix": spm(" ab<s>", ENDS, BYTES, PIECES, message(2, FALLBACK), message(3, integer(3, 0))),
    "bpe_table": spm("AA b A", ENDS, BYTES, PIECES, message(2, FALLBACK), message(3, message(2, charsmap("b ")))),
    "bpe_table_of_no_utf8": spm("AA", ENDS, BYTES, PIECES, message(2, FALLBACK),
                                message(3, message(2, charsmap("b")[:-2] + b"\xe4\0"))),
    "bpe_suffix": spm("ab ab", ENDS, BYTES, PIECES, message(2, FALLBACK + integer(24, 1))),
    "bpe_raw_blanks": spm("ab ab", ENDS, BYTES, PIECES, piece(" a"), message(2, FALLBACK), message(3, integer(5, 0))),
    "bpe_unused": spm("abababab", ENDS, piece("a"), piece("b"), piece("ab", -1, 5), piece("abab", -2), message(2, BPE)),
    "bpe_user_defined": spm("xyxyz ab", ENDS, PIECES, piece("xy", 0, 4), piece("y z", 0, 4), message(2, BPE)),
    "bpe_across_blanks": spm("ab a b", ENDS, PIECES, piece("a\u2581b"), message(2, BPE)),
    "bpe_reserved": spm("<reserved_106>", ENDS, piece("<reserved_106>", 0, 4), PIECES, message(2, BPE)),
    "unigram": spm("abab x a", ENDS, PIECES, message(2, b"")),
    "unigram_bytes": spm("xyab\u4e2d!", ENDS, BYTES, PIECES, piece("xy", 0, 4), piece("ba", -1, 5),
                         message(2, integer(35, 1))),
    "invalid_text": spm(b"\xffab", ENDS, PIECES, message(2, BPE)),
    "word": spm("ab", ENDS, PIECES, message(2, integer(3, 3))),
    "denormalizer": spm("ab", ENDS, PIECES, message(2, BPE), message(5, message(2, b"x"))),
    "surface": spm("xx", ENDS, PIECES, message(2, BPE + message(44, b"?") + message(46, b"</s>"))),
    "cut": spm("ab", ENDS, PIECES, message(2, BPE))[:-3],
    "past_the_end": spm("", message(1, b"")[:1] + varint((1 << 64) - 1)),
    "group": spm("", b"\x0b"),
    "fixed": spm("", b"\x31" + bytes(8) + b"\x35" + bytes(4)),
}


# Several lines of the language's tests a file, so that there are few of them; the fuzzer's small request has `messages`
# and `tools` to walk through.
LINES = [line.replace("people", "messages").replace("words", "tools") for line in
         jinja_snippets.lines(jinja_snippets.SNIPPETS)]
JINJA = {f"language_{i:02d}": "\n".join(LINES[i::40]).encode() for i in range(40)}
JINJA.update({f"refused_{i:02d}": line.encode() for i, line in enumerate(jinja_snippets.lines(jinja_snippets.REFUSED))})
JINJA.update({f"hostile_{name}": source for name, source in jinja_snippets.HOSTILE.items() if len(source) < 20000})


def rows(name, begin):
    """What stands first in each row of a unit suite's table: (the constant before it, or "", and the string)."""
    source = (CORPUS.parent.parent / "unit/model/text/grammar" / name).read_text()
    table = source[source.index(begin):]
    table = table[:table.index("\n};")]
    found = re.findall(r'^    \{(\w*),?((?:\s*"(?:[^"\\]|\\.)*")+),', table, re.M)
    return [(kind, ast.literal_eval("(" + row + ")").encode("latin-1")) for kind, row in found]


# What the unit suites of grammars take and refuse.
GRAMMARS = {"json_schema": rows("schema_test.c", " rows[] = {") + rows("schema_test.c", "mistakes[] = {"),
            "regex": rows("regex_test.c", " rows[] = {") + rows("regex_test.c", "mistakes[] = {")}
for notation in ("gbnf", "ebnf", "lark"):
    GRAMMARS[notation] = rows("notation_test.c", f"{notation}_rows[] = {{") + [
        row for row in rows("notation_test.c", "mistakes[] = {") if row[0] == "GRAMMAR_" + notation.upper()]
GRAMMARS = {notation: {f"row_{i:02d}": line for i, (_, line) in enumerate(lines)} for notation, lines in GRAMMARS.items()}


def main():
    for name, seeds in (("gguf", GGUF), ("tokenizer", TOKENIZER), ("sentencepiece", SENTENCEPIECE), ("jinja", JINJA),
                        *((f"grammar_{notation}", seeds) for notation, seeds in GRAMMARS.items())):
        folder = CORPUS / name
        folder.mkdir(parents=True, exist_ok=True)
        for seed, content in seeds.items():
            (folder / seed).write_bytes(content)
        print(f"{name}: {len(seeds)} seeds")


if __name__ == "__main__":
    main()
