"""Which tests a mutant of a file gets."""
import re
from collections import Counter
from pathlib import Path

from tests.mutants.records import Mutant
from tests.mutants.trees import SCRIPTS, Test, Tree

DECIDES = ("router/core", "worker/core")  # the rooms that the simulator runs whole
CAMPAIGN = ["--seed", "1", "--seeds", "150", "--jobs", "1"]  # beside the seeds that ever failed
SHORT = "sim/short"
OBJECT = re.compile(r"\btest_(\w+)\.dir/")


def _sources(tree: Tree) -> dict[str, list[str]]:
    """The tests of ctest by the folder below tests/unit in which they have a source; a source of the name first."""
    folders: dict[str, dict[str, None]] = {}
    for entry in tree.entries:
        file, found = Path(entry["file"]), OBJECT.search(entry["output"])
        if found and found[1] in tree.tests and file.is_relative_to(tree.path / "tests" / "unit"):
            folders.setdefault(str(file.relative_to(tree.path / "tests" / "unit").parent), {})[found[1]] = None
    return {folder: list(names) for folder, names in folders.items()}


def _own(tree: Tree, file: str) -> list[str]:
    """The tests of the file's own name: tests/unit/ROOM/FILE_test.c."""
    source = str(tree.path / "tests" / "unit" / file.replace(".c", "_test.c"))
    names = [OBJECT.search(entry["output"]) for entry in tree.entries if entry["file"] == source]
    return [found[1] for found in names if found and found[1] in tree.tests]


def stages_of(tree: Tree, file: str, records: list[Mutant]) -> list[list[str]]:
    """The tests of each stage: those of the file; those of its room, or of the next folder above that has any; the simulator."""
    counts = Counter(name for record in records if record.file == file for name in record.seen)
    named = [name for name, _ in counts.most_common() if not name.startswith(SCRIPTS) and name in tree.tests and name != "sim"]
    first = list(dict.fromkeys(_own(tree, file) + named))
    folders, room = _sources(tree), Path(file).parent
    while str(room) != "." and str(room) not in folders:
        room = room.parent
    rest = [name for name in folders.get(str(room), []) if name not in first]
    stages = [first, rest]
    if str(Path(file).parent).startswith(DECIDES) or "sim" in counts:
        command = tree.tests["sim"].command
        tree.tests[SHORT] = Test(command[:command.index("--seed")] + CAMPAIGN, tree.tests["sim"].folder)
        stages.append([SHORT])
    return [stage for stage in stages if stage]
