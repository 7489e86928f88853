"""Our engine behind tests/support/logits_cli: logits and greedy ids of a model file or folder, as numpy arrays."""
import json
import os
import subprocess
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / os.environ.get("TANDEM_BUILD", "release")
LOGITS_CLI = BUILD / "tests" / "logits_cli"


class EngineError(Exception):
    """The program's exit code and its standard error."""


class Answers:
    """What one prompt gave: every position computed as decode does, the last as prefill does, and greedy ids."""

    def __init__(self, rows, last, greedy):
        self.rows, self.last, self.greedy = rows, last, greedy


class Engine:
    def __init__(self, path, n_vocab, *flags):
        self.path, self.n_vocab, self.flags = str(path), n_vocab, [str(flag) for flag in flags]

    def _run(self, lines):
        command = [LOGITS_CLI, self.path, *self.flags]
        done = subprocess.run(command, input="\n".join(map(json.dumps, lines)).encode(), capture_output=True)
        if done.returncode:
            raise EngineError(f"exit {done.returncode}: {done.stderr.decode(errors='replace').strip()[-400:]}")
        return done.stdout

    def answers(self, prompts, n_greedy):
        """One Answers a prompt, all from one process."""
        lines = []
        for ids in prompts:
            lines += [{"ids": ids, "binary": True, "all": True}, {"ids": ids, "binary": True},
                      {"ids": ids, "greedy": n_greedy}]
        raw, out, at = self._run(lines), [], 0
        for ids in prompts:
            n = (len(ids) + 1) * self.n_vocab * 4
            floats = np.frombuffer(raw[at:at + n], dtype="<f4").reshape(len(ids) + 1, -1).astype(np.float64)
            end = raw.index(b"\n", at + n) + 1
            out.append(Answers(floats[:-1], floats[-1], json.loads(raw[at + n:end])["ids"]))
            at = end
        assert at == len(raw), "more came than was asked for"
        return out

    def all_logits(self, prompts):
        raw, out, at = self._run([{"ids": ids, "binary": True, "all": True} for ids in prompts]), [], 0
        for ids in prompts:
            n = len(ids) * self.n_vocab * 4
            out.append(np.frombuffer(raw[at:at + n], dtype="<f4").reshape(len(ids), -1).astype(np.float64))
            at += n
        assert at == len(raw), "more came than was asked for"
        return out


def n_vocab_of(config):
    return config.get("vocab_size") or config["padded_vocab_size"]
