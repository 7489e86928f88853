#!/usr/bin/env python3
"""`tandem batch`: each request of a file is answered once, in spite of a router that dies, a batch that is killed in the middle of a line
and a queue that is full; what is wrong with a file is told with its line."""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster import BIN, LIMIT_S, Cluster, Tally, eventually, get_json, post_json
from daemons import free_ports


def line(number, **body):
    return {"custom_id": f"r{number}", "method": "POST", "url": "/v1/completions",
            "body": {"prompt": f"{number}", "max_tokens": 4, "temperature": 0, "ignore_eos": True, **body}}


def write(path, lines):
    path.write_text("".join(json.dumps(entry) + "\n" for entry in lines))


def read(path):
    return [json.loads(entry) for entry in path.read_text().splitlines()]


def command(cluster, folder, *options):
    return [BIN / "tandem", "batch", "--server", cluster.url, *options, folder / "in.jsonl", folder / "out.jsonl"]


def run(cluster, folder, *options):
    return subprocess.run(command(cluster, folder, *options), capture_output=True, text=True, timeout=LIMIT_S * 5)


def once_each(folder, n):
    got = read(folder / "out.jsonl")
    assert sorted(entry["custom_id"] for entry in got) == sorted(f"r{i}" for i in range(n)), len(got)
    return {entry["custom_id"]: entry["response"] for entry in got}


def answers_are_those_of_the_server(cluster, folder):
    write(folder / "in.jsonl", [*(line(i) for i in range(40)), line(40, temperature=-1), line(41, stream=None)])
    done = run(cluster, folder, "--concurrency", "8")
    assert done.returncode == 0 and done.stderr.startswith("42 of 42 answered, 1 of them refused: "), done
    got = once_each(folder, 42)
    for i in (0, 7, 39):
        assert got[f"r{i}"]["status_code"] == 200
        assert got[f"r{i}"]["body"]["choices"] == post_json(cluster.port, "/v1/completions", line(i)["body"])["choices"]
    assert got["r40"]["status_code"] == 400 and got["r40"]["body"]["error"]["param"] == "temperature"
    again = run(cluster, folder)
    assert again.returncode == 0 and again.stderr.startswith("42 of 42 answered, 1 of them refused: "), again
    assert len(read(folder / "out.jsonl")) == 42


def a_batch_goes_on(cluster, folder, n, kills):
    """The router is killed so many times; then the batch itself, whose last line is then cut."""
    write(folder / "in.jsonl", (line(i) for i in range(n)))
    out = folder / "out.jsonl"

    def answered():
        return out.read_bytes().count(b"\n") if out.exists() else 0

    def router_but(pid):
        """Its process, once it is another one; a router that was killed a moment ago resets connections."""
        try:
            found = get_json(cluster.port, "/admin/status")["routers"][0]["pid"]
        except OSError:
            return None
        return found if found != pid else None
    pid = None
    with subprocess.Popen(command(cluster, folder), stderr=subprocess.PIPE, text=True) as first:
        for k in range(kills):
            eventually(lambda k=k: answered() > n * (k + 1) // (kills + 2), "answers")
            pid = eventually(lambda old=pid: router_but(old), "a router")
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: answered() > n * (kills + 1) // (kills + 2), "more answers")
        first.send_signal(signal.SIGKILL)
        first.communicate()
    whole = answered()
    with out.open("a") as file:
        file.write('{"id":"batch_req_1","custom_id":"r')
    done = run(cluster, folder)
    assert done.returncode == 0 and f"{n} of {n} answered" in done.stderr, done
    assert all(response["status_code"] == 200 for response in once_each(folder, n).values())
    return f"{whole} of {n} before it was killed"


def an_interrupt_says_how_it_goes_on(cluster, folder):
    write(folder / "in.jsonl", (line(i, max_tokens=3000) for i in range(500)))
    with subprocess.Popen(command(cluster, folder), stderr=subprocess.PIPE, text=True) as batch:
        eventually(lambda: (folder / "out.jsonl").exists() and get_json(cluster.port, "/admin/status")["routers"][0]["requests"]["running"], "calls")
        batch.send_signal(signal.SIGINT)
        said = batch.communicate(timeout=LIMIT_S)[1]
    assert batch.returncode == 1 and "of 500 answered" in said and said.endswith("; the same command goes on\n"), said
    cluster.quiet()


def a_full_queue_is_asked_again(folder):
    with Cluster("--mixed", 1, "--max-batch", 1, "--queue", 1, "--step-us", 2000) as cluster:
        write(folder / "in.jsonl", (line(i) for i in range(24)))
        done = run(cluster, folder, "--concurrency", "24")
        assert done.returncode == 0, done
        assert all(response["status_code"] == 200 for response in once_each(folder, 24).values())


def what_is_wrong_is_told_with_its_line(cluster, folder):
    good = json.dumps(line(0))
    cases = [(good + "\n" + good, "in.jsonl:2: the custom_id `r0` comes twice"), (good + "\n\n{", "in.jsonl:3: is not JSON"), ("[]", "in.jsonl:1: must be a JSON object"),
             (json.dumps({**line(0), "custom_id": ""}), "`custom_id` is missing"), (json.dumps({**line(0), "method": "GET"}), "`method` must be POST"),
             (json.dumps({**line(0), "url": "/admin/kill"}), "`url` must be a path under /v1/"), (json.dumps({**line(0), "body": 5}), "`body` must be an object"),
             (json.dumps(line(0, stream=True)), "`body.stream` must not be true")]
    for text, words in cases:
        (folder / "in.jsonl").write_text(text)
        said = run(cluster, folder)
        assert said.returncode == 1 and words in said.stderr and not (folder / "out.jsonl").exists(), (text, said)
    (folder / "in.jsonl").write_text(good)
    (folder / "out.jsonl").write_text("{}\n")
    assert "out.jsonl:1: is no answer of a batch" in run(cluster, folder).stderr
    same = subprocess.run([BIN / "tandem", "batch", folder / "in.jsonl", folder / "in.jsonl"], capture_output=True, text=True)
    assert same.returncode == 1 and "one file" in same.stderr and (folder / "in.jsonl").read_text() == good, same
    one = subprocess.run([BIN / "tandem", "batch", folder / "in.jsonl"], capture_output=True, text=True)
    assert one.returncode == 78 and "which files?" in one.stderr, one
    for n, code in (("0", 78), ("1", 0), ("256", 0), ("257", 78)):
        (folder / "out.jsonl").unlink(missing_ok=True)
        assert run(cluster, folder, "--concurrency", n).returncode == code, n


def nobody_listens(folder):
    write(folder / "in.jsonl", [line(0)])
    said = subprocess.run([BIN / "tandem", "batch", "--server", "http://127.0.0.1:9", folder / "in.jsonl", folder / "out.jsonl"], capture_output=True, text=True,
                          timeout=LIMIT_S)
    assert said.returncode == 1 and said.stderr.endswith(": is a server up? tandem up MODEL\n"), said


def a_key_is_needed(folder):
    keys = folder / "keys"
    keys.write_text("secret\n")
    with Cluster("--mixed", 1, "--api-keys", keys) as cluster:
        write(folder / "in.jsonl", [line(0)])
        said = run(cluster, folder)
        assert said.returncode == 1 and "API key" in said.stderr and not read(folder / "out.jsonl"), said
        assert run(cluster, folder, "--api-key", "secret").returncode == 0 and len(read(folder / "out.jsonl")) == 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lines", type=int, default=600, help="of the batch that is broken off")
    parser.add_argument("--kills", type=int, default=2, help="of its router")
    args = parser.parse_args()
    tally = Tally()
    with tempfile.TemporaryDirectory() as scratch, Cluster("--mixed", 1, "--step-us", 200, "--listen", f"127.0.0.1:{free_ports(1)[0]}") as cluster:  # a router that dies comes back there
        def folder(name):
            path = Path(scratch) / name
            path.mkdir()
            return path
        tally.run("answers are those of the server", answers_are_those_of_the_server, cluster, folder("answers"))
        tally.run("a batch goes on", a_batch_goes_on, cluster, folder("breaks"), args.lines, args.kills)
        tally.run("an interrupt says how it goes on", an_interrupt_says_how_it_goes_on, cluster, folder("interrupt"))
        tally.run("what is wrong is told with its line", what_is_wrong_is_told_with_its_line, cluster, folder("wrong"))
        tally.run("nobody listens", nobody_listens, folder("nobody"))
        tally.run("a full queue is asked again", a_full_queue_is_asked_again, folder("queue"))
        tally.run("a key is needed", a_key_is_needed, folder("key"))
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
