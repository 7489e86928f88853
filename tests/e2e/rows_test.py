#!/usr/bin/env python3
"""tandem-bench rows and plan: published tables and clusters on a virtual clock; nothing is served."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster import BIN, Tally


def bench(*args, code=0):
    done = subprocess.run([BIN / "tandem-bench", *map(str, args)], capture_output=True, text=True, timeout=600)
    assert done.returncode == code, (args, done.returncode, done.stdout[-500:], done.stderr[-500:])
    return done


def a_table_beside_what_the_model_gives():
    with tempfile.TemporaryDirectory(prefix="rows-") as folder:
        own = Path(folder) / "own"
        own.write_text("# one row\nname: mine\nweights: 0.9 0.9 0.9\nstep_us: 100\nsource: a test\n")
        outputs = []
        for jobs in (1, 2):
            names = [Path(folder) / f"{jobs}.{kind}" for kind in ("json", "csv", "md")]
            bench("rows", "--table", "mistral-7b-awq", "--system", "vllm 0.2.5", "--efficiencies", own, "--jobs", jobs,
                  f"--json={names[0]}", f"--csv={names[1]}", f"--markdown={names[2]}")
            outputs.append([name.read_bytes() for name in names])
        assert outputs[0] == outputs[1], "threads change what comes out"
        rows = json.loads(outputs[0][0])["rows"]
        assert len(rows) == 16, len(rows)
        for row in rows:
            for figure in row["figures"]:
                fitted, mine = (figure["predicted"][name]["value"] for name in ("vllm 0.2.5", "mine"))
                assert 0.5 < fitted / figure["published"] < 2, figure
                if figure["figure"] == "ms/token alone":
                    assert mine < fitted, figure
        assert len(outputs[0][1].decode().splitlines()) == 1 + 16 * 2 * 2
        assert "- mine: a test." in outputs[0][2].decode()


def fitted_rows_are_read_again():
    with tempfile.TemporaryDirectory(prefix="rows-") as folder:
        fitted = Path(folder) / "fitted"
        fitted.write_text(bench("rows", "--fit").stdout)
        text = bench("rows", "--table", "mistral-7b-awq", "--system", "vllm 0.2.5", "--efficiencies", fitted).stdout
        assert "| vllm 0.2.5, fitted |" in text, text[:400]


def wrong_arguments_are_named():
    with tempfile.TemporaryDirectory(prefix="rows-") as folder:
        bad = Path(folder) / "bad"
        bad.write_text("name: x\n\nkv: lots\n")
        for args, words in (
            (("--table", "nobody"), 'unknown table "nobody"'),
            (("--efficiencies", bad), f"--efficiencies: {bad}: line 3: kv: expected 1 number"),
            (("--efficiencies", f"{bad}.not"), f"{bad}.not"),
            (("--jobs", 0), "--jobs"),
            (("--jobs", 65), "--jobs"),
        ):
            done = subprocess.run([BIN / "tandem-bench", "rows", *map(str, args)], capture_output=True, text=True,
                                  timeout=60)
            assert done.returncode not in (0, 1) and words in done.stderr, (args, done.returncode, done.stderr)
    done = subprocess.run([BIN / "tandem-bench", "rows", "--table", "mistral-7b-awq", "--system", "tgi 1.3.4",
                           "--json=/nowhere/x"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "--json: /nowhere/x" in done.stderr, done.stderr


tally = Tally()
tally.run("a table beside what the model gives", a_table_beside_what_the_model_gives)
tally.run("fitted rows are read again", fitted_rows_are_read_again)
tally.run("wrong arguments are named", wrong_arguments_are_named)
sys.exit(tally.end())
