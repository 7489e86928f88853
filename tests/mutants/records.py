"""One-line mutants as data: reading the records of tests/mutants/ROOM.mut and applying one to a tree.

A record is a paragraph:

    id R18
    file router/core/place.c
    why a replay may go to a worker of other numerics though an equal one is ready
    - if (req->has_numerics && !same_numerics(slot, req))
    + if (false)
    seen router_place sim

The `-` lines are the text to be replaced: whole lines, leading blanks ignored, which must stand exactly once in the file. The
`+` lines stand there instead; without any the lines are removed. Several pairs in one record change several places of the
file. `seen` names who must fail: tests as ctest names them, scripts as e2e/NAME or package/NAME; one that fails
suffices.
"""
from dataclasses import dataclass, field
from pathlib import Path


class Malformed(Exception):
    """A record that cannot be used; the message begins with file and line."""


@dataclass
class Change:
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)


@dataclass
class Mutant:
    place: str  # file:line of the record
    room: str
    id: str = ""
    file: str = ""
    why: str = ""
    seen: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    def apply(self, text: str) -> str:
        """The file's text with the mutation; ValueError where the old lines are not there exactly once."""
        for change in self.changes:
            text = _replace(text, change)
        return text


def _replace(text: str, change: Change) -> str:
    lines = text.split("\n")
    bare = [line.strip() for line in lines]
    n = len(change.old)
    found = [at for at in range(len(bare) - n + 1) if bare[at:at + n] == change.old]
    if len(found) != 1:
        raise ValueError(f"its text stands there {len(found)} times, and not once: {change.old[0]}")
    at = found[0]
    indent = lines[at][:len(lines[at]) - len(lines[at].lstrip())]
    return "\n".join(lines[:at] + [indent + line for line in change.new] + lines[at + n:])


def _take_line(mutant: Mutant, line: str, place: str) -> None:
    word, _, rest = line.strip().partition(" ")
    if word[0] in "-+":  # a blank behind the mark may be left out
        word, rest = word[0], line.strip()[1:]
    rest = rest.strip()
    if word == "-":
        if not mutant.changes or mutant.changes[-1].new:
            mutant.changes.append(Change())
        mutant.changes[-1].old.append(rest)
    elif word == "+":
        if not mutant.changes:
            raise Malformed(f"{place}: a `+` line stands before any `-` line")
        mutant.changes[-1].new.append(rest)
    elif word in ("id", "file", "why"):
        if getattr(mutant, word):
            raise Malformed(f"{place}: a second `{word}` in one record")
        setattr(mutant, word, rest)
    elif word == "seen":
        mutant.seen += rest.split()
    else:
        raise Malformed(f"{place}: {word!r} is none of id, file, why, -, +, seen")


def _complete(mutant: Mutant, ids: dict[str, str]) -> Mutant:
    for name in ("id", "file", "why", "seen", "changes"):
        if not getattr(mutant, name):
            raise Malformed(f"{mutant.place}: the record has no `{'-' if name == 'changes' else name}`")
    for change in mutant.changes:
        if change.old == change.new:
            raise Malformed(f"{mutant.place}: {mutant.id} changes nothing")
    if mutant.id in ids:
        raise Malformed(f"{mutant.place}: the id {mutant.id} stands already at {ids[mutant.id]}")
    ids[mutant.id] = mutant.place
    return mutant


def read_file(path: Path, ids: dict[str, str]) -> list[Mutant]:
    """The records of one file; `ids` has those of the files read before and gets these."""
    mutants: list[Mutant] = []
    current = None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip():
            current = None
            continue
        if line.startswith("#"):
            continue
        place = f"{path.name}:{number}"
        if current is None:
            current = Mutant(place=place, room=path.stem)
            mutants.append(current)
        _take_line(current, line, place)
    return [_complete(mutant, ids) for mutant in mutants]


def read_folder(folder: Path) -> list[Mutant]:
    """All records of a folder, in the order of files and lines."""
    ids: dict[str, str] = {}
    mutants = []
    for path in sorted(folder.glob("*.mut")):
        mutants += read_file(path, ids)
    return mutants
