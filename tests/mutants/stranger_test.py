#!/usr/bin/env python3
"""What tests/mutants/stranger plants, leaves out and finds, on a C file of a few lines. Prints "N passed, M failed, K skipped"."""
import contextlib
import importlib.machinery
import importlib.util
import io
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.mutants import plant as planting, suites, trees  # noqa: E402
from tests.mutants.plant import Plant  # noqa: E402

loader = importlib.machinery.SourceFileLoader("stranger", str(ROOT / "tests" / "mutants" / "stranger"))
stranger = importlib.util.module_from_spec(importlib.util.spec_from_loader("stranger", loader))
loader.exec_module(stranger)

TINY = """int doubled(int x); /* a comment
 * of two lines */
int doubled(int x) {
    int seen = x; /* 1 */
    log_info("one",
             "x=%d", seen + 1);
    ASSERT(x < 100);
    fail("not a number", x);
    get("name", x);
    return x * 2;
}
"""
SUBJECT = "unsigned f(unsigned x);\nunsigned f(unsigned x) {\n    while (x > 100)\n        x -= 50;\n    return x * 2;\n}\n"
CHECK = "unsigned f(unsigned x);\nint main(void) {\n    return f(7) != 14 || f(120) != 140;\n}\n"


def planted(*mutated, numbers=None):
    """What is kept of these (line, text) of TINY."""
    return [(p.number, p.new) for p in planting.plants("a/tiny.c", TINY, numbers, mutate=lambda lines: mutated)]


def comments_are_left_out():
    given = []
    planting.plants("a/tiny.c", TINY, mutate=lambda lines: given.extend(lines) or [])
    assert given[:4] == ["int doubled(int x);             \n", " " * len(" * of two lines */") + "\n", "int doubled(int x) {\n",
                         "    int seen = x;        \n"], given
    assert planted((4, "    int seen = x; /* 2 */\n"), (4, "    int seen = x; // 2\n")) == []
    assert planted((10, "    /*return x * 2;*/\n")) == [(10, "")]


def log_lines_and_asserts_are_left_out():
    assert planted((5, '    log_info("",\n'), (6, '             "x=%d", seen - 1);\n'), (7, "    ASSERT(x > 100);\n")) == []
    assert planted((4, "    int seen = -x;\n")) == [(4, "    int seen = -x;")]


def sentences_are_left_out_and_names_are_not():
    assert planted((8, '    fail("", x);\n'), (8, '    fail("not 1 number", x);\n')) == []
    assert planted((9, '    get("", x);\n'), (8, '    fail("not a number", -x);\n')) == [(9, '    get("", x);'),
                                                                                   (8, '    fail("not a number", -x);')]


def a_line_stays_one_line():
    assert planted((10, "    return x * 2;\n    break;\n")) == [(10, "    return x * 2; break;")]


def only_the_lines_of_the_range_are_planted():
    both = (4, "    int seen = -x;\n"), (10, "    return x;\n")
    assert [n for n, _ in planted(*both)] == [4, 10]
    assert [n for n, _ in planted(*both, numbers={10})] == [10]
    assert planted(*both, numbers={9, 11}) == []


def each_line_has_its_turn_and_a_seed_repeats():
    found = [Plant("a.c", n, "x", f"{n}.{i}") for n in range(10) for i in range(9 if n == 3 else 2)]
    order = planting.by_turns(found, 5)
    assert sorted(p.number for p in order[:10]) == list(range(10)) and len(set(order)) == len(found)
    assert order == planting.by_turns(found[::-1], 5) and order != planting.by_turns(found, 6)
    assert planting.by_turns([], 1) == []


def what_is_not_worth_a_build_is_left_out():
    compiler = planting.Compiler({"f.c": (".", ["cc", "-Wall", "-Wextra"])}, {})
    old = "    return x * 2;"
    sieve = planting.Sieve(compiler, {"f.c": SUBJECT}, {("f.c", "return x * 2;", "return x * 4;")})
    plants = [Plant("f.c", 5, old, new) for new in (
        "    return x + x;", "    return y * 2;", "    return ;", "    int y = 0; return x * 2;", "    return x * 4;",
        "    return x * 3;", "    return x + x + x;", "    return 0;", "    return 1;")]
    assert [p.new.strip() for p in sieve.take(plants, 2)] == ["return x * 3;", "return 0;"]
    assert sieve.counts == {"listed": 1, "do not compile": 3, "equivalent": 1, "equal another": 1}, sieve.counts
    assert [p.new.strip() for p in sieve.take(plants[8:], 2)] == ["return 1;"]


class Tiny:
    """A tree of two files and one test of each exit that counts."""

    def __init__(self, path: Path):
        self.path, self.runs = path, []
        (path / "f.c").write_text(SUBJECT)
        (path / "check.c").write_text(CHECK)

    def knows(self, name):
        return name in ("blind", "f_test")

    def build(self, *names):
        done = subprocess.run(["cc", "-o", "check", "f.c", "check.c"], cwd=self.path, capture_output=True)
        if done.returncode != 0:
            raise trees.Broken("cc")

    def run(self, name, limit_s):
        self.runs.append(name)
        if name == "blind":
            return 0, "", 0.1
        try:
            return subprocess.run([self.path / "check"], timeout=limit_s).returncode, "", 0.1
        except subprocess.TimeoutExpired:
            return None, "", limit_s


def each_verdict_is_told():
    with tempfile.TemporaryDirectory() as folder:
        tree, baseline = Tiny(Path(folder)), trees.Baseline(60)
        stages = [["blind"], ["f_test", "absent"]]
        with contextlib.redirect_stdout(io.StringIO()) as out:
            verdicts = stranger.try_all([
                Plant("f.c", 5, "    return x * 2;", "    return x * 3;"),
                Plant("f.c", 3, "    while (x > 100)", "    while (x > 101)"),
                Plant("f.c", 5, "    return x * 2;", "    return y * 2;")], [tree], baseline, lambda *_: stages, None)
            limits, baseline.limit = baseline.limit, lambda name: 0.5
            hang = stranger.judge(tree, baseline, Plant("f.c", 4, "        x -= 50;", "        x -= 0;"), stages)
            baseline.limit = limits
        assert [verdict for _, verdict in verdicts] == ["killed", "survived", "does not build"], verdicts
        assert hang[0] == "killed" and "hangs" in hang[1], hang
        assert "SKIPPED survivor f.c:3: 2 tests" in out.getvalue() and "    +    while (x > 101)\n" in out.getvalue(), out.getvalue()
        assert list(baseline.failed) == ["absent"] and (tree.path / "f.c").read_text() == SUBJECT
        late = stranger.try_all([verdicts[0][0]], [tree], baseline, lambda *_: stages, -1)
        assert [verdict for _, verdict in late] == ["not tried"]
        again = stranger.survivors_of(out.getvalue(), [plant for plant, _ in verdicts])
        assert again == [verdicts[1][0]], again


def a_survivor_is_found_again_where_lines_moved():
    output = "\n".join(f"SKIPPED survivor f.c:{p.number}: 2 tests [1 s]\n{p.diff()}"
                       for p in (Plant("f.c", 10, "    x();", ""), Plant("f.c", 7, "gone();", "")))
    found = [Plant("f.c", 3, "  x();", ""), Plant("f.c", 13, "  x();", ""), Plant("f.c", 10, "    x();", "    y();"),
             Plant("g.c", 10, "    x();", "")]
    assert stranger.survivors_of(output, found) == [found[1]]
    assert stranger.survivors_of("killed" + output, found) == []


def the_rate_is_of_what_matters():
    verdicts = [(Plant(f, 1, "", ""), v) for f, v in (("a/b/x.c", "killed"), ("a/b/x.c", "survived"), ("a/b/y.c", "killed"),
                                                       ("c/z.c", "survived"), ("c/z.c", "does not build"), ("d/n.c", "not tried"))]
    assert stranger.table(verdicts).splitlines()[2:] == [
        "| a/b/x.c | 2 | 1 | 1 | 50 % |", "| a/b/y.c | 1 | 1 | 0 | 100 % |", "| **a/b** | 3 | 2 | 1 | 67 % |",
        "| c/z.c | 1 | 0 | 1 | 0 % |", "| **c** | 1 | 0 | 1 | 0 % |", "| **all** | 4 | 2 | 2 | 50 % |"], stranger.table(verdicts)


def a_file_gets_its_own_tests_then_its_rooms_then_the_simulator():
    tree = trees.Tree(0)
    tree.tests = {name: trees.Test([name, "--seed", "1"], tree.path) for name in ("core_a", "core_b", "core_c", "base_x", "sim")}
    tree.entries = [{"file": f"{tree.path}/tests/unit/{file}_test.c", "output": f"tests/CMakeFiles/test_{name}.dir/x.o"}
                    for name, file in (("core_a", "router/core/a"), ("core_b", "router/core/b"), ("core_c", "router/core/c"),
                                       ("base_x", "base/x"), ("gone", "base/y"))]
    record = stranger.records.Mutant(place="x:1", room="x", file="router/core/b.c", seen=["core_c", "e2e/x", "sim"])
    assert suites.stages_of(tree, "router/core/b.c", [record]) == [["core_b", "core_c"], ["core_a"], ["sim/short"]]
    assert suites.stages_of(tree, "router/core/new.c", [record]) == [["core_a", "core_b", "core_c"], ["sim/short"]]
    assert suites.stages_of(tree, "base/net/x.c", []) == [["base_x"]]
    assert suites.stages_of(tree, "tools/x.c", []) == []


def the_list_has_four_columns_and_lines_that_stand():
    with tempfile.TemporaryDirectory() as folder:
        file, root = Path(folder) / "list", Path(folder)
        (root / "f.c").write_text(SUBJECT)
        file.write_text("# words\n\nf.c\tx -= 50;\t\twhy\nf.c\tx -= 51;\tx;\twhy\ngone.c\tx;\ty;\twhy\n")
        rows = planting.read_list(file)
        assert rows[("f.c", "x -= 50;", "")] == "why" and planting.stale(rows, root) == ["f.c: x -= 51;", "gone.c: x;"]
        for wrong in ("f.c\tx;\ty;\n", "f.c\tx;\ty;\twhy\tmore\n", "f.c\tx;\ty;\t\n", "\tx;\ty;\twhy\n", "f.c\tx;\ty;\ta\nf.c\tx;\ty;\tb\n"):
            file.write_text(wrong)
            try:
                planting.read_list(file)
            except ValueError as why:
                assert f"list:{wrong.count(chr(10))}:" in str(why), why
            else:
                raise AssertionError(wrong)


def every_line_of_the_list_stands():
    assert planting.stale(planting.read_list(stranger.LIST), ROOT) == []


def lines_are_those_that_the_commits_wrote_and_that_stand():
    with tempfile.TemporaryDirectory() as folder:
        def git(*words):
            subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@x", *words], cwd=folder, check=True, capture_output=True)
        git("init", "-q")
        for text in ("a\nb\nc\n", "a\nB\nc\nd\n", "new\na\nB\nc\nd2\n"):
            (Path(folder) / "f.c").write_text(text)
            git("add", "f.c")
            git("commit", "-qm", "x")
        root, stranger.ROOT = stranger.ROOT, Path(folder)
        try:
            for span, wanted in (("HEAD~2..HEAD", {1, 3, 5}), ("HEAD~2..HEAD~1", {3}), ("HEAD~1..HEAD", {1, 5})):
                assert stranger.lines_of(span, "f.c", set(stranger.git("rev-list", span).split())) == wanted, span
        finally:
            stranger.ROOT = root


def main():
    cases = [case for name, case in globals().items() if callable(case) and getattr(case, "__module__", "") == __name__
             and name not in ("main", "planted", "Tiny")]
    n_failed = 0
    for case in cases:
        try:
            case()
        except Exception:
            n_failed += 1
            print(f"FAILED {case.__name__}\n{traceback.format_exc()}")
    print(f"{len(cases) - n_failed} passed, {n_failed} failed, 0 skipped")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
