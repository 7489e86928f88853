#!/usr/bin/env python3
"""tools/vs-llama --peer with programs that stand in for llama-bench and llama-batched-bench. Prints "N passed, M failed, 0 skipped"."""
import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/lib"))
import vs_llama_peer as peers  # noqa: E402

WORK = (8, 128, 16, 512)
TABLE = """
|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |
|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|
|     8 |    128 |   16 |   2176 |    0.100 |  1280.00 |    3.900 |   525.13 |    4.000 |   544.00 |
"""


def program(path, text, status=0):
    """Notes its arguments beside itself, then prints."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > '{path}.arguments'\ntouch left.log\ncat <<'END'\n{text}\nEND\necho sorry >&2\nexit {status}\n",
                    encoding="ascii")
    path.chmod(0o755)


def refused(words, work, *arguments):
    try:
        got = work(*arguments)
    except peers.PeerError as error:
        assert words in str(error), error
        return
    raise AssertionError(f"took {arguments} for {got}")


def told(path):
    return Path(f"{path}.arguments").read_text(encoding="ascii").split()


def measures(folder):
    """Each measure calls its program with the work, in a folder of programs and in the bin of a build."""
    bench, batched = folder / peers.BENCH, folder / "bin" / peers.BATCHED
    program(bench, json.dumps([{"avg_ts": 181.5}]))
    program(batched, TABLE)
    peer = peers.Peer(folder, "m.gguf", 2, WORK, "-fa 1", "-fa")
    common = ["-m", "m.gguf", "-t", "2"]
    assert peer.one() == 181.5 and told(bench) == [*common, *"-r 1 -o json -fa 1 -p 0 -n 128".split()], told(bench)
    assert peer.prefill() == 181.5 and told(bench) == [*common, *"-r 1 -o json -fa 1 -p 512 -n 0".split()], told(bench)
    assert peer.many() == 16 * 128 / 4.0, peer.many()
    assert told(batched) == [*common, *"-fa -c 2176 -b 2048 -ub 512 -npp 8 -ntg 128 -npl 16".split()], told(batched)
    peer.close()
    assert not Path("left.log").exists(), "a program's log is left behind"


def wrong_folders(folder):
    refused(f"--peer {folder}: there is no program llama-bench", peers.Peer, folder, "m", 2, WORK)
    program(folder / peers.BENCH, "[]")
    refused("no program llama-batched-bench", peers.Peer, folder, "m", 2, WORK)
    program(folder / peers.BATCHED, TABLE)
    os.chmod(folder / peers.BENCH, 0o644)
    if os.geteuid() != 0 or not os.access(folder / peers.BENCH, os.X_OK):
        refused("no program llama-bench", peers.Peer, folder, "m", 2, WORK)
    program(folder / peers.BENCH, "[]", status=3)
    refused("exit status 3: sorry", peers.Peer(folder, "m", 2, WORK).one)


def wrong_answers(_):
    for text in ("", "{}", "[]", "[1]", '[{"avg": 1}]', '[{"avg_ts": "x"}]', '[{"avg_ts": 1}, {"avg_ts": 2}]', "null"):
        refused("list of one test", peers.rate_of_bench, text, "llama-bench")
    for rate in ("0", "-1", "NaN", "Infinity"):
        refused("llama-bench says", peers.rate_of_bench, f'[{{"avg_ts": {rate}}}]', "llama-bench")
    row = TABLE.strip().splitlines()[-1]
    for text in ("", "no table", TABLE.replace("T s", "T ms"), TABLE + row, TABLE.replace(row, ""), TABLE.replace("4.000", "x"),
                 TABLE + TABLE, TABLE.replace(row, "| 1 |")):
        refused("no table of one row", peers.seconds_of_batched, text, "llama-batched-bench")
    refused("says 0", peers.seconds_of_batched, TABLE.replace("4.000", "0.000"), "llama-batched-bench")


def main():
    failed = 0
    cases = (measures, wrong_folders, wrong_answers)
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            try:
                case(Path(folder))
            except AssertionError as error:
                failed += 1
                print(f"FAILED {case.__name__}: {error!r}")
    print(f"{len(cases) - failed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
