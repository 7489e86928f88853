#!/usr/bin/env python3
"""transformers at work for folders_oracle.py and ends_oracle.py, in a virtual environment of its own; it has no other use.

Reads one JSON object a line and answers each with one line, {"error": "..."} where transformers refuses.
{"do": "save", "source", "target", "options", "tokens", "special_tokens", "template"}: opens a folder's tokenizer, adds to it,
saves it.
{"do": "ids", "folder", "options", "texts", "chats"}: the ids of texts as the router takes them (no special token is written in
a prompt), as trusted ones, and without what stands around a text; and of conversations that an answer follows.
"""
import json
import os
import sys

os.environ.update(TRANSFORMERS_VERBOSITY="critical", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

from transformers import AddedToken, AutoTokenizer  # noqa: E402


def save(job):
    tokenizer = AutoTokenizer.from_pretrained(job["source"], **job["options"])
    if job["special_tokens"]:
        tokenizer.add_special_tokens({"additional_special_tokens": job["special_tokens"]})
    for content, flags in job["tokens"].items():
        tokenizer.add_tokens([AddedToken(content, **flags)])
    if job["template"]:
        tokenizer.chat_template = job["template"]
    tokenizer.save_pretrained(job["target"])
    return sorted(os.listdir(job["target"]))


def chat_ids(tokenizer, messages):
    try:
        return tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    except Exception as error:  # what a template raises
        return {"error": repr(error)[:200]}


def ids(job):
    tokenizer = AutoTokenizer.from_pretrained(job["folder"], **job["options"])
    texts = job["texts"]

    def plain(text, **more):
        # Slow classes then cut no added token out at all, special or not: no answer.
        added = [token.content for token in tokenizer.added_tokens_decoder.values() if not token.special]
        if not tokenizer.is_fast and any(content in text for content in added):
            return None
        return tokenizer(text, split_special_tokens=True, **more).input_ids

    return {"raw": [plain(text) for text in texts],
            "bare": [plain(text, add_special_tokens=False) for text in texts],
            "trusted": [tokenizer(text).input_ids for text in texts],
            "chat": [chat_ids(tokenizer, messages) for messages in job["chats"]]}


def main():
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = {"save": save, "ids": ids}[job["do"]](job)
        except Exception as error:  # anything that a folder makes transformers do
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
