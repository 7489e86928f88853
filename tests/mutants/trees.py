"""Copies of this checkout in which mutants are built, and what the tests do there; shared by the programs of this folder."""
import contextlib
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import contained

ROOT = Path(__file__).resolve().parents[2]
PRESET = "emu"  # as release, and with the emulator
SCRIPTS = ("e2e/", "package/")  # what is no entry of ctest
DAEMONS = ["tandem", "tandem-router", "tandem-worker", "tandem-bench"]
TOOL = re.compile(r'TOOLS / "(\w+)"')
# What CMake writes for ctest; ctest itself tells commands only of what is built.
ADD_TEST = re.compile(r"^add_test\(\[=\[(.*?)\]=\] (.*)\)$", re.M)
ENVIRONMENT = re.compile(r'^set_tests_properties\(\[=\[(.*?)\]=\] PROPERTIES .*?ENVIRONMENT "(.*?)"', re.M)
FOLDER = re.compile(r'^set_tests_properties\(\[=\[(.*?)\]=\] PROPERTIES .*?WORKING_DIRECTORY "(.*?)"', re.M)
WORD = re.compile(r'"(.*?)"')
COUNT = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped\s*$", re.M)
CHECKS = re.compile(r"%: Checks: [1-9]")  # those that Check ran, beside what it skipped
OUTPUT = re.compile(r" -o (\S+)")
REPORTED = threading.Lock()


def say(*words):
    with REPORTED:
        print(*words, flush=True)


class Broken(Exception):
    """Something cannot be built or done; the message says what."""


@dataclass
class Test:
    command: list[str]
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)


class Tree:
    """A copy of this checkout with a build of its own. One thread uses it."""

    def __init__(self, number: int):
        self.path = ROOT / "build" / "mutants" / str(number)
        self.build_path = self.path / "build" / PRESET
        self.tests: dict[str, Test] = {}
        self.entries: list[dict] = []  # of compile_commands.json, each with its `output`

    def update(self):
        """Makes the files those of the checkout, touching only what differs; takes back what an interrupted run left."""
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "-co", "--exclude-standard"], check=True,
                                capture_output=True).stdout.decode().split("\0")
        wanted = {name for name in listed if name and (ROOT / name).is_file()}
        for name in wanted:
            source, target = ROOT / name, self.path / name
            text = source.read_bytes()
            if not target.exists() or target.read_bytes() != text:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(text)
                shutil.copymode(source, target)
        for folder, folders, files in os.walk(self.path):
            if Path(folder) == self.path and "build" in folders:
                folders.remove("build")
            for file in files:
                path = Path(folder) / file
                if str(path.relative_to(self.path)) not in wanted:
                    path.unlink()

    def configure(self):
        # With the tests' backend: what only a device's memory shows is seen by tests that walk the table.
        self._quiet(["cmake", "--preset", PRESET, "-DTANDEM_FAR_KERNELS=ON"], "configuring")
        self.entries = json.loads((self.build_path / "compile_commands.json").read_text())
        for entry in self.entries:
            entry["output"] = OUTPUT.search(entry["command"])[1]
        for file in self.build_path.rglob("CTestTestfile.cmake"):
            text = file.read_text()
            for name, command in ADD_TEST.findall(text):
                self.tests[name] = Test(WORD.findall(command), self.path)
            for name, folder in FOLDER.findall(text):
                self.tests[name].folder = Path(folder)
            for name, words in ENVIRONMENT.findall(text):
                self.tests[name].environment = dict(word.split("=", 1) for word in words.split(";"))

    def _quiet(self, command, what):
        cached = {"CCACHE_BASEDIR": str(self.path), "CCACHE_NOHASHDIR": "1"}  # what one tree compiled serves the others
        done = subprocess.run(command, cwd=self.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=dict(os.environ, **cached))
        if done.returncode != 0:
            raise Broken(f"{what} failed:\n{done.stdout[-2500:]}")

    def build(self, *names: str):
        """Builds what these tests need."""
        targets: dict[str, None] = {}
        for name in names:
            if name.startswith(SCRIPTS):
                script = (self.path / "tests" / f"{name}.py").read_text()
                targets.update(dict.fromkeys(DAEMONS + sorted(set(TOOL.findall(script)))))
            else:
                targets[Path(self.tests[name].command[0]).name] = None
        self.make(*targets)

    def make(self, *targets: str):
        self._quiet(["cmake", "--build", "--preset", PRESET, "--target", *targets], "the build")

    def knows(self, name: str) -> bool:
        if name.startswith(SCRIPTS):
            return (self.path / "tests" / f"{name}.py").is_file()
        return name in self.tests

    def run(self, name: str, limit_s: float) -> tuple[int | None, str, float]:
        """(exit status or None after its limit, output, seconds)."""
        if name.startswith(SCRIPTS):
            command, folder, environment = [PYTHON, f"tests/{name}.py"], self.path, {}
        else:
            command, folder, environment = self.tests[name].command, self.tests[name].folder, self.tests[name].environment
        began = time.monotonic()
        log = self.path / "build" / "output"
        with log.open("wb") as out:
            code = subprocess.run([sys.executable, contained.__file__, str(limit_s), *command], cwd=folder, stdout=out,
                                  stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, process_group=0,
                                  env=dict(os.environ, TANDEM_BUILD=PRESET, **environment)).returncode
        return code if code != contained.LATE else None, log.read_text(errors="replace"), time.monotonic() - began


def find_python() -> str:
    cache = Path(os.environ.get("TANDEM_CACHE", "~/.cache/tandem")).expanduser()
    venv = cache / "check-venv" / "bin" / "python"
    return str(venv) if venv.exists() else sys.executable


PYTHON = find_python()


class Baseline:
    """What each test does on the unmutated tree: seconds it took, or why it is of no use. Taken when first asked for."""

    def __init__(self, limit_s: float):
        self.limit_s = limit_s
        self.lock = threading.Lock()
        self.taking: dict[str, threading.Lock] = {}
        self.seconds: dict[str, float] = {}
        self.failed: dict[str, str] = {}
        self.absent: set[str] = set()  # nothing of it can run here

    def passes(self, tree: Tree, name: str) -> bool:
        """Does the test pass unmutated? The tree must be so just now."""
        with self.lock:
            taking = self.taking.setdefault(name, threading.Lock())
        with taking:
            if name not in self.seconds and name not in self.failed and name not in self.absent:
                self._take(tree, name)
        return name in self.seconds

    def _take(self, tree: Tree, name: str):
        if not tree.knows(name):
            self._fail(name, "there is no such test")
            return
        try:
            tree.build(name)
        except Broken as why:
            self._fail(name, str(why))
            return
        code, output, seconds = tree.run(name, max(self.limit_s, 900))
        counts = COUNT.findall(output)
        if code != 0:
            self._fail(name, f"exit status {code} on the unmutated tree\n{output[-1500:]}")
        elif counts and not any(int(good) for good, _, _ in counts) and not CHECKS.search(output):
            self.absent.add(name)
        else:
            self.seconds[name] = seconds

    def _fail(self, name: str, why: str):
        self.failed[name] = why
        say(f"FAILED   {name}: {why}")

    def limit(self, name: str) -> float:
        """Seconds after which a mutant hangs in this test."""
        return max(self.limit_s, 5 * self.seconds[name])


def in_threads(trees: list[Tree], items: list, work):
    """work(tree, item) for every item, one thread for each tree; the first exception is raised again."""
    todo: queue.SimpleQueue = queue.SimpleQueue()
    for item in items:
        todo.put(item)
    errors = []

    def drain(tree):
        while not errors:
            try:
                item = todo.get_nowait()
            except queue.Empty:
                return
            try:
                work(tree, item)
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=drain, args=(tree,), daemon=True) for tree in trees]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@contextlib.contextmanager
def changed(path: Path, text: str):
    """Inside, the file has this text; afterwards its own again."""
    before = path.read_text()
    path.write_text(text)
    try:
        yield
    finally:
        path.write_text(before)
