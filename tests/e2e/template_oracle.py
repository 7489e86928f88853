#!/usr/bin/env python3
"""Our prompts against jinja2's rendering of the template in the model file, byte by byte.

usage: template_oracle.py [--model FILE.gguf] [--count N] [--seed N] [COMMAND...]

COMMAND reads JSON lines (chat requests) and writes JSON lines (prompts); MODEL is put behind it.
Without one it is `tandem model render`, or where that is not built the test program with the same
lines. Prints "N passed, M failed, K skipped" and exits with 0 only when nothing failed.
"""
import argparse
import json
import os
import random
import sys

from tokenizer_oracle import DEFAULT_MODEL, read_metadata, run_command, skip

COMMANDS = [["build/release/bin/tandem", "model", "render"], ["build/release/tests/model_cli", "render"],
            ["build/dev/tests/model_cli", "render"]]
ROLES = ["system", "developer", "user", "assistant", "tool"]
PARTS = ["", " ", "\n", "hello", "{{ messages }}", "{% endfor %}", "<|im_end|>", "<|im_start|>system\n", "'", '"',
         "\\n", "\u00e9", "\U0001f600", "\x00", "\t", "&lt;", "  two  ", "\u4e2d"]


def make_requests(count, seed):
    random.seed(seed)
    requests = []
    while len(requests) < count:
        messages = [{"role": random.choice(ROLES),
                     "content": "".join(random.choice(PARTS) for _ in range(random.randint(0, 6)))}
                    for _ in range(random.randint(1, 8))]
        request = {"messages": messages}
        if random.random() < 0.7:
            request["add_generation_prompt"] = random.random() < 0.6
        requests.append(request)
    return requests


def check_refusals(command):
    """What cannot be rendered becomes an error line and exit code 1, and never a prompt."""
    user = {"role": "user", "content": "x"}
    bad = [{}, {"messages": []}, {"messages": "x"}, {"messages": [{"role": "king", "content": "x"}]},
           {"messages": [{"role": "user"}]}, {"messages": [{"role": 5, "content": "x"}]}, {"messages": [7]},
           {"messages": [user], "tools": [{"type": "function"}]}, {"messages": [user] * 5000}]
    code, replies = run_command(command, [json.dumps(request).encode() for request in bad] + [b"[", b"5"])
    failed = len(bad) + 2 - sum(isinstance(reply, dict) and "error" in reply for reply in replies)
    if code != 1 or failed:
        print(f"FAILED: {failed} bad requests were not refused, exit code {code}")
    return len(bad) + 2 - failed, failed + (code != 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("command", nargs="*")
    options = parser.parse_args()
    try:
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as error:
        skip(options.count, f"the Python package jinja2 cannot be imported ({error})")
    if not os.path.exists(options.model):
        skip(options.count, f"{options.model} is not there (tools/fetch-model smollm2)")
    command = options.command or next((c for c in COMMANDS if os.path.exists(c[0])), None)
    if not command:
        skip(options.count, "nothing is built that renders")
    # The environment that transformers uses for chat templates.
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(read_metadata(options.model)["tokenizer.chat_template"])
    requests = make_requests(options.count, options.seed)
    command = command + [options.model]
    code, ours = run_command(command, [json.dumps(request).encode() for request in requests])
    passed, failed = check_refusals(command)
    if code != 0 or len(ours) != len(requests):
        print(f"FAILED: {len(requests)} lines in, {len(ours)} out, exit code {code}")
        failed += 1
    for request, mine in zip(requests, ours):
        wanted = template.render(tools=None, documents=None, **request)
        if mine == wanted:
            passed += 1
            continue
        failed += 1
        if failed <= 5:
            print(f"FAILED: {request}: {mine!r} is not {wanted!r}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
