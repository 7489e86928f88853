#!/usr/bin/env python3
"""What tools/lints/commits finds in a repository made for it. Prints "N passed, M failed, 0 skipped"."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

LINT = Path(__file__).resolve().parents[2] / "tools/lints/commits"
LINES = [f"the line number {i} of a file\n" for i in range(40)]
TEXT = "".join(LINES)

# steps: (file, text or None to delete it, message); words that the lint must print, none for a clean run
CASES = {
    "a good one": ([("a", TEXT, "a: forty lines")], []),
    "a subject of 65 characters": ([("a", TEXT, "x" * 65)], []),
    "a subject of 66 characters": ([("a", TEXT, "x" * 66)], ["66 characters"]),
    "a body's line of 100 characters": ([("a", TEXT, "a\n\n" + "x" * 100)], []),
    "a body's line of 101 characters": ([("a", TEXT, "a\n\n" + "x" * 101)], ["101 characters"]),
    "a subject that says nothing": ([("a", TEXT, "wip")], ["says nothing"]),
    "lines taken back": ([("a", TEXT, "a"), ("a", None, "b: another thing")], ["takes back 40 lines"]),
    "20 lines taken back": ([("a", "".join(LINES[:20]), "a"), ("a", None, "b")], ["takes back 20 lines"]),
    "19 lines taken back": ([("a", "".join(LINES[:19]), "a"), ("a", None, "b")], []),
    "lines taken back, and said": ([("a", TEXT, "a"), ("a", None, "b\n\nTakes HASH back.")], []),
    "lines moved to another file": ([("a", TEXT, "a"), ("b", TEXT, "b"), ("a", None, "a: all of it is in b")],
                                    ["takes back 40 lines"]),
    "a file moved": ([("a", TEXT, "a"), ("a>b", TEXT, "a becomes b")], []),
    "lines taken back after eleven commits": (
        [("a", TEXT, "a"), *((f"c{i}", f"{i}\n", f"c{i}") for i in range(10)), ("a", None, "b")], []),
    "lines taken back after ten commits": (
        [("a", TEXT, "a"), *((f"c{i}", f"{i}\n", f"c{i}") for i in range(9)), ("a", None, "b")], ["takes back"]),
}


def run(steps, words):
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x", "GIT_COMMITTER_NAME": "x",
               "GIT_COMMITTER_EMAIL": "x", "GIT_CONFIG_GLOBAL": "/dev/null"}

        def git(*args):
            return subprocess.run(["git", *args], cwd=folder, env=env, check=True, capture_output=True, text=True).stdout

        def commit(message):
            git("add", "-A")
            git("commit", "-q", "-m", message)

        git("init", "-q")
        Path(folder, "old").write_text("x\n")
        commit("y" * 90)  # older than the lint: not looked at
        Path(folder, "tools/lints").mkdir(parents=True)
        Path(folder, "tools/lints/commits").write_text("x\n")
        commit("the lint")
        for name, text, message in steps:
            gone, _, name = name.rpartition(">")
            if gone:
                Path(folder, gone).unlink()
            if text is None:
                Path(folder, name).unlink()
            else:
                Path(folder, name).write_text(text)
            commit(message.replace("HASH", git("rev-parse", "--short=9", "HEAD").strip()))
        done = subprocess.run([LINT], cwd=folder, env=env, capture_output=True, text=True)
        assert done.returncode == (1 if words else 0), done
        assert all(word in done.stdout for word in words), done
        assert done.stdout.endswith(" skipped\n"), done


def main():
    failed = 0
    for name, (steps, words) in CASES.items():
        try:
            run(steps, words)
        except AssertionError as error:
            failed += 1
            print(f"FAILED  {name}: {error}")
    print(f"{len(CASES) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
