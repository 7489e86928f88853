#!/usr/bin/env python3
"""Strangers who want the router's memory or its time: bodies without a key, without an end, of a million values.

What counts is the router's own peak (VmHWM) and the longest turn of its event loop, by the thread's own clock
(tandem_loop_turn_seconds), which other programs on this machine do not lengthen.
"""
import json
import os
import re
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from cluster import Cluster, Tally, eventually, post_json, request

MIB = 1 << 20
TURN_S = 0.005  # the most CPU that a turn of the loop may take


def memory(pid, what):
    """VmHWM or VmRSS of a process in MiB."""
    text = open(f"/proc/{pid}/status").read()
    return int(re.search(rf"^{what}:\s+(\d+) kB", text, re.M).group(1)) / 1024


def reset_peak(pid):
    with open(f"/proc/{pid}/clear_refs", "w") as file:
        file.write("5")


def metric(port, name):
    text = request(port, "GET", "/metrics")[2].decode()
    return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M).group(1))


def loop_turn(port):
    return metric(port, 'tandem_loop_turn_seconds{loop="router",clock="cpu"}')


def send_all(connection, head, body):
    """Sends as much as is taken; answers what came back."""
    try:
        connection.sendall(head)
        connection.sendall(body)
    except OSError:
        pass  # refused: the answer may be there all the same
    try:
        return connection.recv(65536)
    except OSError:
        return b""


def together(n, function):
    """Runs function() in n threads; answers what they answered."""
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(function())) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def bodies_without_a_key_cost_nothing(folder):
    keys, admins = f"{folder}/keys", f"{folder}/admins"
    for path in (keys, admins):
        with open(path, "w") as file:
            file.write(f"secret-of-{Path(path).name}\n")
        os.chmod(path, 0o600)
    with Cluster("--mixed", 1, "--api-keys", keys, "--admin-keys", admins) as cluster:
        status = request(cluster.port, "GET", "/admin/status", headers={"Authorization": "Bearer secret-of-admins"})[2]
        pid = json.loads(status)["routers"][0]["pid"]
        reset_peak(pid)
        body = b"x" * (32 * MIB)
        head = (f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode()

        def stranger():
            with socket.create_connection(("127.0.0.1", cluster.port), 60) as connection:
                return send_all(connection, head, body)
        answers = together(60, stranger)
        peak = memory(pid, "VmHWM")
        assert all(answer.startswith(b"HTTP/1.1 401 ") for answer in answers), {a[:60] for a in answers}
        assert peak < 64, f"the router had {peak:.0f} MiB"
        return f"60 clients with 32 MiB each: {peak:.0f} MiB at most"


def trees_of_nothing_are_bounded(cluster):
    pid = cluster.status()["routers"][0]["pid"]
    idle = memory(pid, "VmRSS")
    reset_peak(pid)
    body = b'{"prompt":"x","max_tokens":1,"x":[' + b"[]," * (5 * MIB) + b"0]}"
    answers = together(8, lambda: request(cluster.port, "POST", "/v1/completions", body))
    peak = memory(pid, "VmHWM")
    assert {status for status, _, _ in answers} <= {413, 503} and 413 in {s for s, _, _ in answers}, answers
    assert all("too many values" in a[2].decode() for a in answers if a[0] == 413), answers[0]
    assert peak <= 512, f"the router had {peak:.0f} MiB"
    eventually(lambda: memory(pid, "VmRSS") < idle + 30, "the memory given back")
    return f"{idle:.0f} MiB idle, {peak:.0f} at most, {memory(pid, 'VmRSS'):.0f} after"


def trees_wait_for_each_other(cluster):
    """Each alone fits; together they do not. All are answered, none is refused."""
    pid = cluster.status()["routers"][0]["pid"]
    idle = memory(pid, "VmRSS")
    reset_peak(pid)
    body = b'{"prompt":"x","max_tokens":1,"x":[' + b"1234567," * (3 * MIB) + b"0]}"
    answers = together(4, lambda: request(cluster.port, "POST", "/v1/completions", body))
    peak = memory(pid, "VmHWM")
    assert [status for status, _, _ in answers] == [200] * 4, [(a[0], a[2][:200]) for a in answers]
    assert peak <= 512, f"the router had {peak:.0f} MiB"
    eventually(lambda: memory(pid, "VmRSS") < idle + 30, "the memory given back")
    return f"{peak:.0f} MiB at most"


def all_bodies_have_one_budget(cluster):
    body = b'{"prompt":"x' + b"x" * (20 * MIB)
    held = []
    head = (f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {30 * MIB}\r\n\r\n").encode()
    try:
        refused = b""
        for _ in range(13):  # 260 MiB that wait for their last bytes
            connection = socket.create_connection(("127.0.0.1", cluster.port), 60)
            held.append(connection)
            try:
                connection.sendall(head + body)
            except OSError:
                pass
        for connection in held:
            connection.setblocking(False)
            try:
                refused += connection.recv(4096)
            except OSError:
                pass
        assert b"HTTP/1.1 503 " in refused and b"Retry-After: " in refused, refused[:300]
        assert metric(cluster.port, "tandem_http_body_bytes") <= 256 * MIB
        post_json(cluster.port, "/v1/completions", {"prompt": "x", "max_tokens": 1})  # small ones still pass
    finally:
        for connection in held:
            connection.close()
    eventually(lambda: metric(cluster.port, "tandem_http_body_bytes") == 0, "the budget given back")


def a_body_that_drips_is_cut_off():
    with Cluster("--mixed", 1, env={"TANDEM_BODY_TIMEOUT": "1s"}) as cluster:
        with socket.create_connection(("127.0.0.1", cluster.port), 60) as connection:
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{")
            connection.settimeout(0.05)
            answer = b""
            end = time.monotonic() + 60
            while not answer and time.monotonic() < end:
                try:
                    connection.sendall(b" ")
                    answer = connection.recv(4096)
                except TimeoutError:
                    pass
            assert answer.startswith(b"HTTP/1.1 408 "), answer


def least_turn(port, ask):
    """The longest turn of the loop while ask() runs: the least of three tries, for what is long is long each time."""
    turns = []
    while len(turns) < 3 and (not turns or turns[-1] >= TURN_S):
        eventually(lambda: loop_turn(port) < TURN_S, "a quiet loop")
        ask()
        turns.append(loop_turn(port))
    return min(turns)


def large_bodies():
    """(route, body) of 26 MiB that some part of the router has to look at."""
    n = 26 * MIB
    text = b"word " * (n // 5)
    ids = b",".join([b"65535"] * (n // 6))
    empty = b'{"x":[' + b"[]," * (n // 3) + b"0]}"
    keys = b"{" + b",".join(b'"k%d":1' % i for i in range(n // 100)) + b',"x":"' + b"x" * (n * 7 // 8) + b'"}'
    return [
        ("/v1/completions", b'{"prompt":"' + text + b'"}'),
        ("/v1/completions", b'{"prompt":[' + ids + b"]}"),
        ("/v1/completions", b'{"prompt":"x","max_tokens":1,"x":[' + ids + b"]}"),
        ("/v1/completions", empty),
        ("/v1/completions", keys),
        ("/v1/completions", b'{"prompt":"x' * (n // 12)),
        ("/v1/chat/completions", b'{"messages":[{"role":"user","content":"' + text + b'"}]}'),
        ("/v1/chat/completions", b'{"messages":[' + b'{"role":"user","content":"x"},' * (n // 30) +
         b'{"role":"user","content":"x"}]}'),
        ("/tokenize", b'{"prompt":"' + text + b'"}'),
        ("/detokenize", b'{"tokens":[' + ids + b"]}"),
        ("/admin/drain", keys),
        ("/health", text),
        ("/nothing", text),
    ]


def read_streams(port):
    """Reads one stream after the other until standard input ends; prints the longest gap within one, in seconds.

    It is a process of its own: in the one that sends, Python would let it read only when that has the time.
    """
    body = json.dumps({"prompt": "x", "max_tokens": 100000, "ignore_eos": True, "stream": True}).encode()
    head = (f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode()
    worst, stopped = 0.0, False
    while not stopped:
        with socket.create_connection(("127.0.0.1", port), 60) as stream:
            stream.sendall(head + body)
            last, piece = None, b"-"
            while piece and b"[DONE]" not in piece and not stopped:
                readable = select.select([stream, sys.stdin], [], [])[0]
                stopped = sys.stdin in readable
                if stream in readable:
                    piece = stream.recv(1 << 16)
                    now = time.monotonic()
                    worst, last = max(worst, now - (last or now)), now
    print(worst)


def large_bodies_hold_up_no_stream(cluster):
    """No turn of the loop is long, whatever comes; the gaps in a stream are told, not judged: other programs make them too."""
    reader = subprocess.Popen([sys.executable, __file__, "--reader", str(cluster.port)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    worst = {}
    try:
        for at, (path, body) in enumerate(large_bodies()):
            def ask():
                try:
                    status, _, answer = request(cluster.port, "POST", path, body)
                except OSError:
                    return  # refused at the head, and closed while we were still sending
                assert status in (200, 400, 404, 405, 413), (path, status, answer[:200])
            worst[f"{at}:{path}"] = least_turn(cluster.port, ask)
    finally:
        gap = reader.communicate()[0]
    long = {path: turn for path, turn in worst.items() if turn > TURN_S}
    assert not long, f"turns of the loop in seconds: {worst}"
    return f"longest turn {max(worst.values()) * 1000:.1f} ms of CPU, longest gap {float(gap) * 1000:.0f} ms"


def large_requests_are_served(cluster):
    ids = list(range(256, 33024))  # four prompts of 2^15 ids, then a long list of others
    answer = post_json(cluster.port, "/v1/completions", {"prompt": [ids] * 4, "max_tokens": 1})
    assert answer["usage"]["prompt_tokens"] == 4 * len(ids), answer["usage"]
    status, _, text = request(cluster.port, "POST", "/detokenize", {"tokens": [65] * 262144})
    assert status == 200 and json.loads(text)["prompt"] == "A" * 262144, (status, text[:200])
    chat = [{"role": "user" if i % 2 == 0 else "assistant", "content": "word"} for i in range(4095)]
    answer = post_json(cluster.port, "/v1/chat/completions", {"messages": chat, "max_tokens": 1,
                                                                "truncate_prompt_tokens": 1000})
    assert answer["usage"]["completion_tokens"] == 1, answer
    million = post_json(cluster.port, "/tokenize", {"prompt": "x" * 100000})
    assert million["count"] == 100000, million["count"]
    body = {"prompt": [[300 + i % 1000 for i in range(1024)] for _ in range(1024)], "max_tokens": 1}  # 2^20 ids
    status, _, answer = request(cluster.port, "POST", "/v1/completions", body)
    assert status == 200 or json.loads(answer)["error"]["code"] == "queue_full", answer[:300]


def large_replies_hold_up_nobody(cluster):
    """What 64 choices with logprobs say, a prompt of 130,000 tokens as strings, and 262,144 ids as text."""
    choices = {"prompt": "x", "max_tokens": 1000, "n": 64, "logprobs": 5, "ignore_eos": True}

    def many():
        answer = post_json(cluster.port, "/v1/completions", choices)
        assert len(answer["choices"]) == 64 and len(answer["choices"][63]["logprobs"]["tokens"]) == 1000

    def strings():
        answer = post_json(cluster.port, "/tokenize", {"prompt": "y" * 130000, "return_token_strs": True})
        assert answer["token_strs"] == ["y"] * 130000

    def texts():
        assert post_json(cluster.port, "/detokenize", {"tokens": [65] * 262144})["prompt"] == "A" * 262144
    turns = [least_turn(cluster.port, ask) for ask in (many, strings, texts)]
    assert max(turns) < TURN_S, f"turns of the loop in seconds: {turns}"
    return f"longest turn {max(turns) * 1000:.1f} ms of CPU"


def main():
    if sys.argv[1:2] == ["--reader"]:
        return read_streams(int(sys.argv[2]))
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        tally.run("bodies without a key cost nothing", bodies_without_a_key_cost_nothing, folder)
    with Cluster("--mixed", 1, "--context", 262144, "--queue", 4096, "--kv-blocks", 40000) as cluster:
        tally.run("trees of empty values are bounded", trees_of_nothing_are_bounded, cluster)
        tally.run("trees that fit alone wait for each other", trees_wait_for_each_other, cluster)
        tally.run("all bodies have one budget", all_bodies_have_one_budget, cluster)
        tally.run("large requests are served", large_requests_are_served, cluster)
        tally.run("large bodies hold up no stream", large_bodies_hold_up_no_stream, cluster)
        tally.run("large replies hold up nobody", large_replies_hold_up_nobody, cluster)
    tally.run("a body that drips is cut off", a_body_that_drips_is_cut_off)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
