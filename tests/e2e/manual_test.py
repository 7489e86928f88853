#!/usr/bin/env python3
"""Manual pages and bash completion: made from the programs' own option tables, complete, and without a complaint of mandoc."""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster import BIN, ROOT, Skip, Tally

PAGES = ["man1/tandem.1", "man1/tandem-bench.1", "man1/tandem-router.1", "man1/tandem-worker.1", "man5/tandem.ini.5"]


def flags_of(*command):
    text = subprocess.run([BIN / command[0], *command[1:], "--help"], capture_output=True, text=True).stdout
    return set(re.findall(r"^ +(?:-\S, +)?--([a-z0-9-]+)", text, re.M))


def every_option_is_on_its_page(folder):
    n = 0
    for name in ("tandem-router", "tandem-worker", "tandem"):
        page = (folder / f"man1/{name}.1").read_text()
        flags = flags_of(name) if name != "tandem" else set().union(*(flags_of("tandem", c) for c in ("up", "chat", "status", "top", "drain", "batch", "doctor")))
        missing = [flag for flag in flags if f'Fl "-{flag}"' not in page]
        assert len(flags) > 10 and not missing, (name, missing)
        n += len(flags)
    ini = (folder / "man5/tandem.ini.5").read_text()
    for program in ("tandem-router", "tandem-worker"):
        text = subprocess.run([BIN / program, "--print-config"], capture_output=True, text=True, check=True).stdout
        keys = re.findall(r"^#?([a-z0-9_]+) =", text, re.M)
        missing = [key for key in keys if f'.It Ic "{key}"' not in ini]
        assert len(keys) > 10 and not missing, missing
        n += len(keys)
    return f"{n} options and keys"


def up_groups_what_its_daemons_name(folder):
    """`tandem up` knows its daemons' options as =VALUE: the page has their words, and says whose each is."""
    page = (folder / "man1/tandem.1").read_text()
    assert "VALUE" not in page, [line for line in page.splitlines() if "VALUE" in line]
    up = page[page.index('.Ss "tandem up"'):page.index('.Ss "tandem chat"')]
    heads = ["The cluster as a whole:", "The router:", "The workers:", "The router and the workers:"]
    parts = re.split("|".join(f"^{head}$" for head in heads), up, flags=re.M)
    assert len(parts) == 5, parts
    for part, flag in zip(parts[1:], ('Fl "-prefill" Ns = Ns Ar "N"', 'Fl "-api-keys" Ns = Ns Ar "FILE"', 'Fl "-backend" Ns = Ns Ar "NAME"',
                                      'Fl "-model" Ns = Ns Ar "')):
        assert flag in part and page.count(flag + "\n") <= 1, (flag, part[:500])
    assert 'Fl "-ctx-size" Ns = Ns Ar "N"' in parts[3], parts[3]
    if shutil.which("groff"):
        shown = subprocess.run(["groff", "-mdoc", "-Tascii", folder / "man1/tandem.1"], capture_output=True, text=True, check=True).stdout
        assert "Tandem General Commands Manual" in shown and "BSD" not in shown, shown[:300]
    router = (folder / "man1/tandem-router.1").read_text()
    assert "gRPC" in router, router[:1000]


def mandoc_has_no_complaint(folder):
    if not shutil.which("mandoc"):
        raise Skip("there is no mandoc here")
    done = subprocess.run(["mandoc", "-Tlint", "-W", "warning", *(folder / page for page in PAGES)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[:2000]
    text = subprocess.run(["mandoc", "-Tascii", folder / "man1/tandem-worker.1"], capture_output=True, text=True, check=True).stdout
    assert "KV blocks of 16 tokens" in re.sub(r".\x08", "", text).replace("\n", " ")


def bash_completes(folder):
    cases = {
        ("tandem", "s"): {"status"},
        ("tandem", "d"): {"drain", "doctor"},
        ("tandem", "top", "--int"): {"--interval="},
        ("tandem", "doctor", "--js"): {"--json"},
        ("tandem", "up", "--poli"): {"--policy="},
        ("tandem", "up", "--policy", "=", "le"): {"least_load"},
        ("tandem-router", "--log-level", "=", ""): {"debug", "info", "warn", "error"},
        ("tandem-bench", "sw"): {"sweep"},
        ("tandem-bench", "load", "--concurr"): {"--concurrency="},
        ("tandem-worker", "--dry"): {"--dry-run"},
    }
    for words, want in cases.items():
        script = (f". {folder}/bash-completion/tandem; COMP_WORDS=({' '.join(repr(w) for w in words)}); COMP_CWORD={len(words) - 1}; "
                  "_tandem 2>/dev/null; printf '%s\\n' \"${COMPREPLY[@]}\"")
        got = set(subprocess.run(["bash", "-c", script], capture_output=True, text=True).stdout.split())
        assert got == want, (words, got)
    return f"{len(cases)} cases"


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tally.run("pages are made", lambda: subprocess.run([ROOT / "tools/manual", BIN, folder], check=True) and None)
        for test in (every_option_is_on_its_page, up_groups_what_its_daemons_name, mandoc_has_no_complaint, bash_completes):
            tally.run(test.__name__, test, folder)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
