#!/usr/bin/env python3
"""What tools/lints/names finds in files made for it. Prints "N passed, M failed, 0 skipped"."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

LINT = Path(__file__).resolve().parents[2] / "tools/lints/names"
RUN = "static void run(int n) {\n}\n"
TAG = "struct part {\n    int n;\n};\n"

# files; rows of the list; words that the lint must print, none for a clean run
CASES = {
    "a static in two files": ({"a.c": RUN, "b.c": RUN}, [], []),
    "a static in three files": ({"a.c": RUN, "b.c": RUN, "c.c": RUN}, [], ["static run() is defined in 3 files, at most 2"]),
    "one that spans lines": ({f"{f}.c": "static struct a *run(int n,\n    int m) {\n}\n" for f in "abc"}, [], ["run() is defined in 3"]),
    "one that does not return": ({f"{f}.c": "_Noreturn " + RUN for f in "abc"}, [], ["run() is defined in 3"]),
    "one in line": ({f"{f}.h": "static inline int run(void) {\n}\n" for f in "abc"}, [], ["run() is defined in 3"]),
    "two words": ({f"{f}.c": "static void run_all(void) {\n}\n" for f in "abc"}, [], []),
    "a declaration and a variable": ({f"{f}.c": "static void run(void);\nstatic int n = f(1);\n" for f in "abc"}, [], []),
    "one in a comment": ({f"{f}.c": f"/*\n{RUN}*/\n" for f in "abc"}, [], []),
    "one of the tests": ({"a.c": RUN, "b.c": RUN, "tests/c.c": RUN}, [], []),
    "a tag in one file": ({"a.c": TAG, "b.c": "void f(struct part *part);\n"}, [], []),
    "a tag in two files": ({"a.c": TAG, "b.h": TAG}, [], ["struct part is defined in 2 files, at most 1: a.c b.h"]),
    "a tag within a struct": ({"a.c": TAG, "b.c": "struct whole {\n    struct part {\n    } parts[2];\n};\n"}, [], ["struct part"]),
    "a listed static": ({f"{f}.c": RUN for f in "abc"}, ["static run 3"], []),
    "a listed static in one more": ({f"{f}.c": RUN for f in "abcd"}, ["static run 3"], ["in 4 files, at most 3"]),
    "a listed static in one less": ({f"{f}.c": RUN for f in "abc"}, ["static run 4"], ["names.txt says 4"]),
    "a row that is not needed": ({f"{f}.c": RUN for f in "ab"}, ["static run 2"], ["names.txt says 2"]),
    "a row of a name that is gone": ({}, ["tag part 2"], ["struct part is defined in 0 files"]),
    "a listed tag": ({"a.c": TAG, "b.c": TAG}, ["tag part 2"], []),
}


def lint(folder, *args):
    return subprocess.run([LINT, *args], cwd=folder, capture_output=True, text=True)


def run(files, rows, words):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"})
        listed = Path(folder, "tools/lints/names.txt")
        listed.parent.mkdir(parents=True)
        listed.write_text("\n".join(["# a comment", *rows]) + "\n")
        for name, text in files.items():
            Path(folder, name).parent.mkdir(exist_ok=True)
            Path(folder, name).write_text(text)
        subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
        done = lint(folder)
        assert done.returncode == (1 if words else 0), done
        assert all(word in done.stdout for word in words), done
        assert done.stdout.endswith(" skipped\n"), done
        before = listed.read_text()
        done = lint(folder, "--shrink")
        grown = any("at most" in word for word in words) or any("run() is defined in 3" in word or word == "struct part" for word in words)
        assert done.returncode == (1 if grown else 0), done  # it lowers rows, and adds or raises none
        after = listed.read_text()
        assert (after == before) == (not any("says" in word or "in 0 files" in word for word in words)), after


def main():
    failed = 0
    for name, case in CASES.items():
        try:
            run(*case)
        except AssertionError as why:
            failed += 1
            print(f"FAILED {name}: {why}")
    print(f"{len(CASES) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
