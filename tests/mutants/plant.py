"""Mutants that nobody thought of: what PyPI's universalmutator makes of the lines of a C file, and which of them are worth a build."""
import contextlib
import io
import random
import re
import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

RULES = ["universal.rules", "c.rules", "c_like.rules"]  # those that the package's own program takes for C
STRING = r'"(?:\\.|[^"\\\n])*"'
TOKEN = re.compile(rf"/\*.*?\*/|//[^\n]*|{STRING}|'(?:\\.|[^'\\\n])*'", re.S)
# What a mutation of these changes is a text for people, or a check of the program of itself.
LEFT_OUT = re.compile(r"\b(?:log_(?:line|debug|info|warn|error|words)|D?ASSERT|_Static_assert)\s*\(")


@dataclass(frozen=True)
class Plant:
    """One line of a file as it is and as the mutant has it, both without comments and blanks at the end."""
    file: str
    number: int
    old: str
    new: str

    def apply(self, text: str) -> str:
        lines = text.split("\n")
        lines[self.number - 1] = self.new
        return "\n".join(lines)

    def row(self) -> tuple[str, str, str]:
        """What tests/mutants/equivalent.txt knows it by, wherever the line stands."""
        return self.file, self.old.strip(), self.new.strip()

    def diff(self) -> str:
        return f"    -{self.old}\n    +{self.new}"


def without_comments(text: str) -> str:
    """The same lines and columns, with blanks for comments."""
    return TOKEN.sub(lambda m: re.sub(r"[^\n]", " ", m[0]) if m[0][0] == "/" else m[0], text)


def _without_words(text: str) -> str:
    """The same columns, with nothing inside literals that could be taken for code."""
    return TOKEN.sub(lambda m: m[0][0] + "x" * (len(m[0]) - 2) + m[0][-1], text)


def _left_out(code: str) -> set[int]:
    """The numbers of the lines of log lines and asserts."""
    bare, numbers = _without_words(code), set()
    for found in LEFT_OUT.finditer(bare):
        depth, at = 1, found.end()
        while depth and at < len(bare):
            depth += {"(": 1, ")": -1}.get(bare[at], 0)
            at += 1
        numbers.update(range(bare.count("\n", 0, found.start()) + 1, bare.count("\n", 0, at) + 2))
    return numbers


def _same_but_for_prose(old: str, new: str) -> bool:
    """Do they differ in nothing but sentences? A literal without a blank is a name, which programs read."""
    def bare(line):
        return re.sub(STRING, lambda m: '""' if " " in m[0] else m[0], line)
    return bare(old) == bare(new)


def _universal(lines: list[str]) -> list[tuple[int, str]]:
    from universalmutator import mutator  # from the environment that the program beside this file adds
    with contextlib.redirect_stdout(io.StringIO()):
        found = mutator.mutants_regexp(lines, ruleFiles=RULES, ignorePatterns=[])
    return [(mutant[0], mutant[1]) for mutant in found]


def plants(file: str, text: str, numbers: set[int] | None = None, mutate=_universal) -> list[Plant]:
    """The mutants of a file's lines, or of those that have these numbers. No two are equal."""
    code = without_comments(text)
    lines, left_out = code.split("\n"), _left_out(code)
    found: dict[Plant, None] = {}
    for number, mutated in mutate([line + "\n" for line in lines]):
        if number in left_out or (numbers is not None and number not in numbers):
            continue
        # One line for one, or every later line would have another number.
        new = without_comments(" ".join([mutated.split("\n")[0], *map(str.strip, mutated.split("\n")[1:])])).rstrip()
        old = lines[number - 1].rstrip()
        if old.split() != new.split() and not _same_but_for_prose(old, new):
            found[Plant(file, number, old, new)] = None
    return list(found)


def by_turns(found: list[Plant], seed: int) -> list[Plant]:
    """In an order of the seed's: one of each line, then a second of each, and so on; a long line has no more than a short one."""
    draw = random.Random(seed)
    lines: dict[tuple[str, int], list[Plant]] = {}
    for plant in sorted(found, key=lambda p: (p.file, p.number, p.new)):
        lines.setdefault((plant.file, plant.number), []).append(plant)
    piles = list(lines.values())
    draw.shuffle(piles)
    for pile in piles:
        draw.shuffle(pile)
    return [pile[turn] for turn in range(max(map(len, piles), default=0)) for pile in piles if turn < len(pile)]


class Compiler:
    """Compiles a file's text as the build does, at -O2, without writing where the build reads."""

    def __init__(self, commands: dict[str, tuple[str, list[str]]], outputs: dict[str, str]):
        self.commands = commands  # by file: folder, command without what it reads and writes
        self.outputs = outputs    # by file: the build's own object

    @staticmethod
    def of_build(tree: Path, entries: list[dict]) -> "Compiler":
        """From the entries of compile_commands.json."""
        commands, outputs = {}, {}
        for entry in entries:
            file, words = Path(entry["file"]), shlex.split(entry["command"])
            name = str(file.relative_to(tree)) if file.is_relative_to(tree) else ""
            if not name or name in commands:
                continue
            if Path(words[0]).name == "ccache":
                del words[0]
            for option in ("-o", "-c"):
                del words[words.index(option):words.index(option) + 2]
            commands[name], outputs[name] = (entry["directory"], words), entry["output"]
        return Compiler(commands, outputs)

    def object(self, file: str, text: str) -> bytes | None:
        """The object; None: it does not compile, or not without a warning."""
        folder, words = self.commands[file]
        with tempfile.NamedTemporaryFile(suffix=".o") as out:
            done = subprocess.run([*words, "-O2", "-g0", "-fno-lto", "-Werror", "-x", "c", "-c", "-", "-o", out.name], cwd=folder,
                                  input=text.encode(), capture_output=True)
            return Path(out.name).read_bytes() if done.returncode == 0 else None


class Sieve:
    """Lets through what compiles to an object of its own."""

    def __init__(self, compiler: Compiler, texts: dict[str, str], listed: set[tuple[str, str, str]]):
        self.compiler, self.texts, self.listed = compiler, texts, listed
        self.own: dict[str, bytes] = {}  # by file: the object of the unmutated text
        self.seen: dict[str, set[bytes]] = {}
        self.counts = {"listed": 0, "do not compile": 0, "equivalent": 0, "equal another": 0}

    def why_not(self, plant: Plant) -> str | None:
        """One of the counts, or None where it is worth a build."""
        if plant.row() in self.listed:
            return "listed"
        text = self.texts[plant.file]
        made = self.compiler.object(plant.file, plant.apply(text))
        if made is None:
            return "do not compile"
        if plant.file not in self.own:
            own = self.compiler.object(plant.file, text)
            if own is None:
                raise ValueError(f"{plant.file} does not compile unmutated")
            self.own[plant.file], self.seen[plant.file] = own, set()
        if made == self.own[plant.file]:
            return "equivalent"
        if made in self.seen[plant.file]:
            return "equal another"
        self.seen[plant.file].add(made)
        return None

    def take(self, found: list[Plant], number: int) -> list[Plant]:
        """The first `number` that are worth a build; counts what is left out before them."""
        kept: list[Plant] = []
        for plant in found:
            if len(kept) == number:
                break
            why = self.why_not(plant)
            if why:
                self.counts[why] += 1
            else:
                kept.append(plant)
        return kept


def read_list(path: Path) -> dict[tuple[str, str, str], str]:
    """The rows of equivalent.txt: file, line, line as the mutant has it; why it is equivalent. ValueError names a wrong row."""
    rows = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        columns = line.split("\t")
        if len(columns) != 4 or not all(c.strip() for i, c in enumerate(columns) if i != 2):
            raise ValueError(f"{path.name}:{number}: not four columns with tabs between them: file, line, mutant's line, reason")
        row = (columns[0], columns[1], columns[2])
        if row in rows:
            raise ValueError(f"{path.name}:{number}: the row stands there twice")
        rows[row] = columns[3]
    return rows


def stale(rows, root: Path) -> list[str]:
    """Rows of the list whose line is no longer in its file."""
    wrong, lines = [], {}
    for file, old, _ in rows:
        if file not in lines:
            path = root / file
            lines[file] = {line.strip() for line in without_comments(path.read_text()).split("\n")} if path.is_file() else set()
        if old not in lines[file]:
            wrong.append(f"{file}: {old}")
    return wrong
