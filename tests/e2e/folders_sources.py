"""Tokenizers of published models as their publishers laid them out, and tiny weights that go with them.

The vocabularies are real: llama.cpp's (fetched into the cache), and SmolLM2's from its GGUF file. What the hub has beside
them is written here: classes, settings, templates in the form of each model.
"""
import base64
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import tokenizer_files_oracle  # noqa: E402
from spm_oracle import spm_bytes  # noqa: E402
from tests.models import checkpoints, shapes  # noqa: E402
from tests.models.files import model_file  # noqa: E402
from tokenizer_oracle import read_metadata  # noqa: E402

CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
LLAMA2 = ("{% for m in messages %}{% if m['role'] == 'user' %}{{ bos_token + '[INST] ' + m['content'].strip() + ' [/INST]' }}"
          "{% else %}{{ ' ' + m['content'].strip() + ' ' + eos_token }}{% endif %}{% endfor %}")
MISTRAL = ("{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + '[/INST]' }}"
           "{% else %}{{ ' ' + m['content'] + eos_token }}{% endif %}{% endfor %}")
ZEPHYR = ("{% for m in messages %}{{ '<|' + m['role'] + '|>\\n' + m['content'] + eos_token + '\\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}")
LLAMA3 = ("{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + "
          "m['content'] | trim + '<|eot_id|>' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}")


@dataclass(frozen=True)
class Model:
    """A published model: what makes its tokenizer's files, its class and settings, its weights' shape and format."""
    name: str
    fill: object  # fill(vocabularies, folder): writes the tokenizer's own file
    config: dict  # tokenizer_config.json
    shape: object  # () -> shapes' (config, tensors)
    fmt: str = "f16"
    template: str = ""
    shards: int = 1
    more: dict = field(default_factory=dict)  # other files
    chosen: dict = field(default_factory=dict)  # what its settings say for sentinels
    with_json: bool = False  # its publisher saved it with version 4, tokenizer.json included


class Vocabularies:
    """Metadata of the real vocabularies, each read once."""

    def __init__(self, folder):
        self.folder, self.known = folder, {}

    def get(self, name):
        if name not in self.known:
            path = model_file() if name == "smollm2" else f"{self.folder}/ggml-vocab-{name}.gguf"
            self.known[name] = read_metadata(path)
        return self.known[name]

    def pieces(self, name):
        metadata = self.get(name)
        return [list(row) for row in zip(*(metadata[f"tokenizer.ggml.{key}"] for key in ("tokens", "scores", "token_type")))]


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2), encoding="utf-8")


def sentencepiece(name, edit=None):
    def fill(vocabularies, folder):
        pieces = vocabularies.pieces(name)
        (folder / "tokenizer.model").write_bytes(spm_bytes(edit(pieces) if edit else pieces))
    return fill


def byte_level(name, pipeline, special, kept=None, post=None):
    """tokenizer.json, vocab.json and merges.txt of a vocabulary; `special` (text, whether it is) stand behind `kept` tokens."""
    def fill(vocabularies, folder):
        metadata = dict(vocabularies.get(name))
        for key in ("tokens", "token_type") if kept else ():
            metadata[f"tokenizer.ggml.{key}"] = metadata[f"tokenizer.ggml.{key}"][:kept]
        made = json.loads(tokenizer_files_oracle.build(metadata, pipeline).to_str())
        n = len(made["model"]["vocab"])
        made["added_tokens"] += [{"id": n + i, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
                                  "normalized": False, "special": is_special} for i, (content, is_special) in enumerate(special)]
        made["post_processor"] = post
        (folder / "tokenizer.json").write_text(json.dumps(made, ensure_ascii=False), encoding="utf-8")
        merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in made["model"]["merges"]]
        (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
        (folder / "vocab.json").write_text(json.dumps(made["model"]["vocab"], ensure_ascii=False), encoding="utf-8")
    return fill


def begins_with(token, number):
    """A post-processor as Llama 3's files have it."""
    bos = {"SpecialToken": {"id": token, "type_id": 0}}
    text, other = ({"Sequence": {"id": name, "type_id": i}} for i, name in enumerate("AB"))
    template = {"type": "TemplateProcessing", "single": [bos, text],
                "pair": [bos, text, {"SpecialToken": {"id": token, "type_id": 1}}, other],
                "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}}}
    return {"type": "Sequence", "processors": [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}, template]}


MARKS = ["[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"]


def mistral_v3(pieces):
    """Version 3 has its marks as control tokens in front of the bytes."""
    return pieces[:3] + [[mark, 0.0, 3] for mark in MARKS] + pieces[3:]


def baichuan2(pieces):
    """The second Baichuan has its turns' marks where the first has others of that kind."""
    for number, name in ((195, "<reserved_106>"), (196, "<reserved_107>")):
        pieces = [[f"<moved_{number}>" if row[0] == name else row[0], *row[1:]] for row in pieces]
        pieces[number][0] = name
    return pieces


def alphabet():
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return {chr(b): b for b in shown} | {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in shown)}


def qwen_ranks(vocabularies):
    """bytes -> rank of Qwen's first generation, whose vocabulary is that of the second."""
    byte_of = alphabet()
    tokens = vocabularies.get("qwen2")["tokenizer.ggml.tokens"][:151643]
    return {bytes(byte_of[char] for char in token): rank for rank, token in enumerate(tokens)}


def tiktoken_file(vocabularies, folder):
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in qwen_ranks(vocabularies).items()]
    (folder / "qwen.tiktoken").write_text("".join(lines))


def _added(contents, first=0, rstrip=False):
    """added_tokens_decoder with these texts, by rising ids."""
    return {str(first + i): {"content": content, "lstrip": False, "normalized": False, "rstrip": rstrip, "single_word": False,
                             "special": True} for i, content in enumerate(contents)}


_SPM = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "model_max_length": 4096}
_LLAMA = {**_SPM, "add_bos_token": True, "add_eos_token": False, "clean_up_tokenization_spaces": False,
          "tokenizer_class": "LlamaTokenizer"}
_ENDS = {"special_tokens_map.json": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}}
_QWEN2 = {"add_prefix_space": False, "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
          "unk_token": None, "errors": "replace", "split_special_tokens": False, "clean_up_tokenization_spaces": False,
          "model_max_length": 131072,
          "tokenizer_class": "Qwen2Tokenizer", "additional_special_tokens": ["<|im_start|>", "<|im_end|>"]}
_QWEN2_FILE = byte_level("qwen2", "qwen2", [("<|endoftext|>", True), ("<|im_start|>", True), ("<|im_end|>", True)], 151643)
_QWEN25_FILE = byte_level("qwen2", "qwen2", [("<|endoftext|>", True), ("<|im_start|>", True), ("<|im_end|>", True),
                                             ("<|object_ref_start|>", True), ("<|vision_pad|>", True), ("<tool_call>", False),
                                             ("</tool_call>", False), ("<|fim_prefix|>", False)], 151643)
_BOS_EOS = {"add_bos_token": True, "add_eos_token": True}


def _qwen2_shape(**more):
    return lambda: shapes.qwen2(dim=64, heads=2, kv=1, head_dim=32, inner=128, layers=1, vocab=152064, **more)


def _llama_shape(vocab, arch="LlamaForCausalLM", kind="llama", **more):
    return lambda: shapes.llama(arch, kind, dim=64, heads=2, kv=1, head_dim=32, inner=128, layers=2, vocab=vocab, **more)


def models(vocabularies):
    """Those of the published rows first."""
    templates = Path(vocabularies.folder) / "templates"
    qwen25 = (templates / "Qwen-Qwen2.5-7B-Instruct.jinja").read_text(encoding="utf-8")
    yield Model("mistral-awq", sentencepiece("llama-spm"), {
        **_LLAMA, "eos_token": "<|im_end|>", "legacy": True, "use_default_system_prompt": True,
        "added_tokens_decoder": {**_added(["<unk>", "<s>", "</s>"]), **_added(["<|im_end|>", "<|im_start|>"], 32000)}},
        _llama_shape(32064, "MistralForCausalLM", "mistral", sliding_window=4096), "awq-g32", CHATML,
        more={"added_tokens.json": {"<|im_end|>": 32000, "<|im_start|>": 32001},
              "special_tokens_map.json": {"bos_token": "<s>", "eos_token": "<|im_end|>", "unk_token": "<unk>"}}, chosen=_BOS_EOS)
    for name, fmt, shards in (("qwen2-57b-a14b", "bf16", 2), ("qwen2-72b", "bf16", 3), ("qwen2-72b-awq", "awq-g32", 2),
                              ("qwen2-72b-gptq8", "gptq8-g32", 1)):
        shape = _qwen2_shape() if "72b" in name else lambda: shapes.qwen2_moe(
            dim=64, heads=2, kv=1, inner=128, expert=64, shared=64, experts=4, top=2, layers=1, vocab=151936)
        yield Model(name, _QWEN2_FILE, _QWEN2, shape, fmt, CHATML, shards)
    yield Model("llama-2", sentencepiece("llama-spm"), {**_LLAMA, "legacy": False, "padding_side": "right"}, _llama_shape(32016),
                "f16", LLAMA2, 2, _ENDS, _BOS_EOS)
    yield Model("llama-2-legacy", sentencepiece("llama-spm"), _LLAMA, _llama_shape(32016), "f16", LLAMA2, 1, _ENDS, _BOS_EOS)
    yield Model("tinyllama", sentencepiece("llama-spm"), {**_LLAMA, "legacy": False, "pad_token": "</s>"}, _llama_shape(32016),
                "bf16", ZEPHYR, 1, _ENDS, _BOS_EOS)
    yield Model("mistral-v3", sentencepiece("llama-spm", mistral_v3), {
        **_LLAMA, "legacy": False, "added_tokens_decoder": _added(["<unk>", "<s>", "</s>", *MARKS])}, _llama_shape(
        32768, "MistralForCausalLM", "mistral", sliding_window=None), "bf16", MISTRAL, 3, _ENDS, _BOS_EOS)
    llama3 = {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>", "clean_up_tokenization_spaces": True,
              "model_input_names": ["input_ids", "attention_mask"], "model_max_length": 131072,
              "tokenizer_class": "PreTrainedTokenizerFast"}
    llama3_file = byte_level("llama-bpe", "llama-bpe", [], None, begins_with("<|begin_of_text|>", 128000))
    yield Model("llama-3", llama3_file, llama3, _llama_shape(128320), "bf16", LLAMA3, 2)
    yield Model("llama-3.1", llama3_file, {**llama3, "eos_token": "<|eot_id|>"}, _llama_shape(128320), "bf16",
                (templates / "meta-llama-Llama-3.1-8B-Instruct.jinja").read_text(encoding="utf-8"))
    # Tokens that take white space behind them, and marks that a template puts together from a role's name.
    phi3 = {**_LLAMA, "legacy": False, "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "add_bos_token": False,
            "additional_special_tokens": ["<|assistant|>", "<|system|>", "<|end|>", "<|user|>"]}
    phi3_tokens = {**_added(["<unk>", "<s>"]), **_added(["</s>"], 2, True), **_added(["<|endoftext|>"], 32000),
                   **_added(["<|assistant|>", "<|system|>", "<|end|>", "<|user|>"], 32001, True)}
    yield Model("phi-3", sentencepiece("llama-spm"), {**phi3, "added_tokens_decoder": phi3_tokens}, _llama_shape(32064), "bf16",
                (templates / "microsoft-Phi-3.5-mini-instruct.jinja").read_text(encoding="utf-8"),
                more={"added_tokens.json": {token["content"]: int(number) for number, token in phi3_tokens.items()
                                            if int(number) >= 32000}}, chosen=_BOS_EOS, with_json=True)
    roles = [("<|user|>", True), ("<|system|>", True), ("<|assistant|>", True)]
    yield Model("stablelm-zephyr", byte_level("starcoder", "gpt-2", roles), {
        "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>", "add_prefix_space": False,
        "model_max_length": 4096, "tokenizer_class": "PreTrainedTokenizerFast"}, _llama_shape(49216), "f16", ZEPHYR)
    smollm2_template = vocabularies.get("smollm2")["tokenizer.chat_template"]
    yield Model("smollm2", byte_level("smollm2", "starcoder", []), {
        "add_prefix_space": False, "bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>",
        "unk_token": "<|endoftext|>", "additional_special_tokens": ["<|im_start|>", "<|im_end|>"], "vocab_size": 49152,
        "clean_up_tokenization_spaces": False, "model_max_length": 8192, "tokenizer_class": "GPT2Tokenizer"},
        _llama_shape(49216, tied=True), "bf16", smollm2_template)
    yield Model("qwen2.5", _QWEN25_FILE, {**_QWEN2, "add_bos_token": False}, _qwen2_shape(tied=True), "bf16", qwen25, 2)


def baichuan():
    return Model("baichuan2-gptq", sentencepiece("baichuan", baichuan2), {
        "add_bos_token": False, "add_eos_token": False, "use_fast": False, "clean_up_tokenization_spaces": False,
        "tokenizer_class": "BaichuanTokenizer", "model_max_length": 4096,
        "auto_map": {"AutoTokenizer": ["tokenization_baichuan.BaichuanTokenizer", None]},
        **{f"{name}_token": {"__type": "AddedToken", "content": text, "lstrip": False, "normalized": True, "rstrip": False,
                             "single_word": True} for name, text in (("bos", "<s>"), ("eos", "</s>"), ("unk", "<unk>"))}},
        lambda: shapes.baichuan(dim=64, heads=2, inner=128, layers=1, vocab=64064), "gptq4-g32")


def qwen():
    return Model("qwen-14b", tiktoken_file, {
        "model_max_length": 8192, "tokenizer_class": "QWenTokenizer",
        "auto_map": {"AutoTokenizer": ["tokenization_qwen.QWenTokenizer", None]}},
        lambda: shapes.qwen(dim=64, heads=2, inner=128, layers=1, vocab=152064, seq_length=2048), "bf16", shards=3)


def chatglm():
    return Model("chatglm3", sentencepiece("llama-spm"), {
        "tokenizer_class": "ChatGLMTokenizer", "remove_space": False, "do_lower_case": False,
        "auto_map": {"AutoTokenizer": ["tokenization_chatglm.ChatGLMTokenizer", None]}},
        lambda: shapes.chatglm(dim=64, heads=2, groups=1, inner=128, layers=1, vocab=32064), "f16", shards=2)


def write_source(model, vocabularies, folder, edits=()):
    """The files beside the weights as they were first uploaded."""
    folder.mkdir(parents=True)
    model.fill(vocabularies, folder)
    config = {**model.config, **dict(edits)}
    if model.template:
        config["chat_template"] = model.template
    write_json(folder / "tokenizer_config.json", config)
    for name, value in model.more.items():
        write_json(folder / name, value)
    write_json(folder / "config.json", model.shape()[0])


def write_weights(model, folder):
    """config.json, generation_config.json and the weights; the tokenizer's files stay as they are."""
    kept = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "config.json"}
    shapes.VARIANTS["published"] = model.shape
    checkpoints.write(folder, "published", model.fmt, n_shards=model.shards,
                      edit=lambda config, _: config.update(bos_token_id=1, eos_token_id=2))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    for name, value in kept.items():
        (folder / name).write_bytes(value)


def write_gguf(model, vocabularies, path):
    """The model's vocabulary as converters write it, with tiny weights; its template, too."""
    import gguf
    config, _ = model.shape()
    dim, n_vocab = config["hidden_size"], 32000
    pieces = vocabularies.pieces("llama-spm")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(2048)
    writer.add_embedding_length(dim)
    writer.add_block_count(1)
    writer.add_feed_forward_length(128)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_rope_dimension_count(32)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(n_vocab)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([row[0] for row in pieces])
    writer.add_token_scores([row[1] for row in pieces])
    writer.add_token_types([row[2] for row in pieces])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_chat_template(model.template)
    sizes = {"token_embd": (n_vocab, dim), "output_norm": (dim,), "blk.0.attn_norm": (dim,), "blk.0.ffn_norm": (dim,),
             "blk.0.attn_q": (64, dim), "blk.0.attn_k": (32, dim), "blk.0.attn_v": (32, dim), "blk.0.attn_output": (dim, 64),
             "blk.0.ffn_gate": (128, dim), "blk.0.ffn_up": (128, dim), "blk.0.ffn_down": (dim, 128)}
    rng = np.random.default_rng(1)
    for name, shape in sizes.items():
        writer.add_tensor(name + ".weight", (0.1 * rng.standard_normal(shape)).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
