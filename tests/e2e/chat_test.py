#!/usr/bin/env python3
"""`tandem chat` as people use it: on a terminal, in pipes, with the URL that other clients take."""
import contextlib
import fcntl
import http.server
import json
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from types import SimpleNamespace

from cluster import BIN, Cluster, Tally, eventually
from terminal import Terminal


def chat(cluster, *args, stdin=b"", server=None):
    done = subprocess.run([BIN / "tandem", "chat", "--server", server or cluster.url, "--max-tokens", "5", "--temperature", "0", *args],
                          input=stdin, capture_output=True, timeout=60)
    return done.returncode, done.stdout, done.stderr.decode()


class Talk(Terminal):
    """`tandem chat` on a terminal of its own."""

    def __init__(self, cluster, *args, **env):
        super().__init__("tandem", "chat", "--server", cluster.url, *args, TERM="xterm", **env)

    def expect(self, pattern):
        found = eventually(lambda: re.search(pattern, self.read()), f"{pattern!r} after {self.text[-300:]!r}")
        self.text = self.text[found.end():]
        return found


def prompts_of_the_server(cluster):
    return [int(n) for n in re.findall(r"dialect=chat .*?prompt_tokens=(\d+)", cluster.log_text())]


def words_and_pipes(cluster):
    one = chat(cluster, "Hello my friend")
    assert one[0] == 0 and one[1].strip(), one
    assert chat(cluster, "Hello", "my", "friend") == one
    assert chat(cluster, "-", stdin=b"Hello my friend\n") == one
    assert chat(cluster, stdin=b"Hello my friend\n\n") == one
    assert chat(cluster, "Hello", "-", stdin=b"my friend") == one
    assert chat(cluster, stdin=b"Hello\nmy friend") != one  # all of it is one prompt, with its line break
    for url in (cluster.url + "/v1", cluster.url + "/v1/", cluster.url.removeprefix("http://") + "/"):
        assert chat(cluster, "Hello my friend", server=url) == one, url


def bad_input(cluster):
    for stdin, words in ((b"", "the prompt is empty"), (b"a\0b", "not text"), (b"\xff\xfe", "UTF-8"), (b"x" * (17 << 20), "16 MiB")):
        code, out, err = chat(cluster, stdin=stdin)
        assert code == 1 and words in err and not out, (words, code, err)
    assert chat(cluster, "-", "-")[0] == 78
    code, _, err = chat(cluster, "hi", server="http://127.0.0.1:9")
    assert code == 1 and "127.0.0.1:9" in err and err.endswith(": is a server up? tandem up MODEL\n"), err
    for flags in (("--top-p", "0"), ("--top-p", "1.01"), ("--temperature", "2.01"), ("--temperature", "x")):
        assert chat(cluster, *flags, "hi")[0] == 78, flags
    for flags in (("--top-p", "0.001"), ("--top-p", "1"), ("--temperature", "2")):
        assert chat(cluster, *flags, "hi")[0] == 0, flags


def a_line_is_edited(cluster):
    """Left arrow and backspace edit, the up arrow brings the last line back: the server sees equal prompts."""
    with Talk(cluster, "--max-tokens", "3", "--temperature", "0") as terminal:
        terminal.expect("/help")
        n = len(prompts_of_the_server(cluster))
        terminal.expect("> ")
        terminal.type("/system\r")
        terminal.expect("> ")
        terminal.type("abXYc\x1b[D\x7f\x7fé\r")  # abéc
        eventually(lambda: len(prompts_of_the_server(cluster)) == n + 1, "the first turn")
        terminal.expect("> ")
        terminal.type("/clear\r")
        terminal.expect("begins anew")
        terminal.expect("> ")
        terminal.type("\x1b[A\x1b[A\r")  # past /clear, to the line
        eventually(lambda: len(prompts_of_the_server(cluster)) == n + 2, "the second turn")
        first, second = prompts_of_the_server(cluster)[-2:]
        assert first == second, (first, second)
        plain = chat(cluster, "abéc")
        assert plain[0] == 0 and prompts_of_the_server(cluster)[-1] == first
        terminal.expect("> ")
        terminal.type("/sytem x\r")
        terminal.expect("/sytem is not a command")
        terminal.expect("/system TEXT")
        terminal.expect("> ")
        terminal.type("/help\r")
        terminal.expect("/system TEXT")
        assert "/help is not" not in terminal.text, terminal.text
        terminal.expect("> ")
        terminal.type("\x04")
        assert terminal.end() == 0
        assert terminal.read().endswith("\n"), repr(terminal.text)


class Recorder(http.server.BaseHTTPRequestHandler):
    """A server of one model that says what it was asked, and answers with the words that it is given."""
    protocol_version, sampling, words, asked, stream = "HTTP/1.1", {}, [], [], None

    def log_message(self, *args):
        pass

    def send(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        model = {"id": "small-model", "object": "model"}
        if self.sampling is not None:
            model["sampling"] = self.sampling
        self.send("application/json", json.dumps({"object": "list", "data": [model]}).encode())

    def do_POST(self):
        self.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        if self.stream:
            self.send("text/event-stream", self.stream)
            return
        chunks = [json.dumps({"choices": [{"index": 0, "delta": {"content": word}}]}) for word in self.words]
        self.send("text/event-stream", "".join(f"data: {c}\n\n" for c in [*chunks, "[DONE]"]).encode())


@contextlib.contextmanager
def recorder(**fields):
    handler = type("Handler", (Recorder,), {"asked": [], **fields})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", handler
    finally:
        server.shutdown()


def how_it_is_sampled(cluster):
    """Where the model brings no defaults, ours are sent and told; else nothing is, and what the user chooses goes before both."""
    def asked(sampling, *flags):
        with recorder(sampling=sampling, words=["Paris"]) as (url, handler):
            done = subprocess.run([BIN / "tandem", "chat", "--server", url, *flags, "hi"], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0 and done.stdout == "Paris\n" and done.stderr == "", done
            return {k: v for k, v in handler.asked[0].items() if k in ("temperature", "top_p")}
    assert asked({}) == {"temperature": 0.7, "top_p": 0.9}
    assert asked({}, "--temperature", "0") == {"temperature": 0, "top_p": 0.9}
    assert asked({}, "--top-p", "1") == {"temperature": 0.7, "top_p": 1}
    assert asked({"temperature": 0.6}) == asked(None) == {}
    assert asked({"top_k": 20}, "--top-p", "0.5") == {"top_p": 0.5}
    with recorder(sampling={"temperature": 0.6, "top_k": 20}, words=["Paris"]) as (url, handler):
        with Talk(SimpleNamespace(url=url)) as terminal:
            terminal.expect(rf"small-model at {url}\s+the model's own: temperature 0.6, top_k 20")
            terminal.expect("> ")
            for line, words in (("/temperature 0.25", "temperature 0.25; the model's own"), ("/top-p 2", "not a number from 0 to 1"), ("/top-p 0.5", "top_p 0.5")):
                terminal.type(line + "\r")
                terminal.expect(re.escape(words))
                terminal.expect("> ")
            terminal.type("hi\r")
            terminal.expect("Paris")
            assert {k: handler.asked[0].get(k) for k in ("temperature", "top_p")} == {"temperature": 0.25, "top_p": 0.5}
            terminal.expect("> ")
            terminal.type("/temperature\r")
            terminal.expect("top_p 0.5; the model's own")
            terminal.type("\x04")
            assert terminal.end() == 0


def piece(text, finish=None):
    return b"data: " + json.dumps({"id": 10**30, "choices": [{"delta": {"content": text}, "finish_reason": finish}]}).encode() + b"\n\n"


def streams_are_read_as_events(cluster):
    """An answer is whole with [DONE] or a reason why it ended; else it was cut, which is an error, and not told again."""
    ab, done = piece("a") + piece("b"), b"data: [DONE]\n\n"
    cut = "the stream was cut before the answer's end"
    rows = ((ab + done, ""), (ab + piece("", "stop"), ""), (piece("a") + piece("b", "length"), ""), (b": x\n\ndata:\n\n" + ab + done, ""),
            ((ab + done).replace(b"\n", b"\r"), ""), ((ab + done).replace(b"\n", b"\r\n"), ""), (b"\xef\xbb\xbf" + ab + done, ""),
            ((ab + done).replace(b', "choices"', b',\ndata: "choices"'), ""), (ab, cut), (ab + done[:-1], cut),
            (ab + piece("c", "stop")[:-1], cut), (ab + b'data: {"error": {"message": "no room"}}\n\n' + done, "no room"),
            (ab + b'data: {"error": "x"}\n\n', "no reason given"), (ab + b"data: " + b"x" * (9 << 20), "an event of more than 8 MiB"))
    for stream, words in rows:
        with recorder(stream=stream) as (url, _):
            code, out, err = chat(cluster, "hi", server=url)
            assert out == b"ab\n" and code == (1 if words else 0) and (words in err if words else not err), (stream[:200], code, out, err)
    with recorder(stream=ab) as (url, handler), Talk(SimpleNamespace(url=url)) as terminal:
        for n, (stream, n_messages) in enumerate(((ab, 1), (ab, 1), (ab + done, 1), (ab, 3), (ab + b"data: x\n", 3), (b"\n" + ab + done, 3)), 1):
            handler.stream = stream  # what one leaves behind is nothing to the next
            terminal.expect("> ")
            terminal.type("hi\r")
            terminal.expect("ab" if done in stream else "error: " + cut)
            eventually(lambda: len(handler.asked) == n, "the request")
            assert len(handler.asked[-1]["messages"]) == n_messages, handler.asked
        terminal.expect("> ")
        terminal.type("\x04")
        assert terminal.end() == 0


def thoughts_are_dimmed(cluster):
    """On a terminal what the model thinks stands before the answer, dimmed; in a pipe, and in the next turn, there is the answer alone."""
    def stream(name, *parts):
        chunks = [json.dumps({"choices": [{"index": 0, "delta": {name if thinks else "content": words}}]}) for thinks, words in parts]
        return "".join(f"data: {chunk}\n\n" for chunk in [*chunks, "[DONE]"]).encode()
    dim, plain = re.escape("\x1b[2m"), re.escape("\x1b[22m")
    for name in ("reasoning", "reasoning_content"):
        said = stream(name, (True, "Well, "), (True, "hm"), (False, "Par"), (False, "is."))
        with recorder(stream=said) as (url, handler):
            done = subprocess.run([BIN / "tandem", "chat", "--server", url, "hi"], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0 and done.stdout == "Paris.\n", done
            with Talk(SimpleNamespace(url=url)) as terminal:
                terminal.type("hi\r")
                terminal.expect(dim + "Well, hm" + plain + r"\r?\n\r?\nParis\.\r?\n")
                terminal.type("and?\r")
                terminal.expect(dim + "Well, hm" + plain)
                assert handler.asked[-1]["messages"][1] == {"role": "assistant", "content": "Paris."}, handler.asked[-1]
    with recorder(stream=stream("reasoning", (True, "Well"))) as (url, _):  # cut in mid-thought: no style is left
        with Talk(SimpleNamespace(url=url)) as terminal:
            terminal.type("hi\r")
            terminal.expect(dim + "Well" + plain + r"\r?\n")
        with Talk(SimpleNamespace(url=url), NO_COLOR="1") as terminal:
            terminal.type("hi\r")
            terminal.expect(r"\nWell\r?\n")


def ends_with_its_terminal(cluster):
    """At the prompt and in an answer, also where SIGHUP is ignored."""
    for nohup in (False, True):
        for line in ("", "long\r"):
            with Talk(cluster, "--max-tokens", "60000", nohup=nohup) as terminal:
                terminal.expect("> ")
                if line:
                    terminal.type(line)
                    eventually(lambda: any(w["sequences"]["running"] for w in cluster.workers()), "the answer")
                terminal.hang_up()
                code = terminal.end()
                assert code in (0, 1) if nohup else code == -signal.SIGHUP, (line, nohup, code)
            cluster.quiet()


def words_are_whole(cluster):
    """On a terminal of 80 columns no word is cut; in a pipe nothing is added."""
    text = " ".join(f"word{i:0{i % 9 + 1}}" for i in range(80)) + "\n\n    code"
    words = [text[i:i + 3] for i in range(0, len(text), 3)]
    with recorder(words=words) as (url, _):
        done = subprocess.run([BIN / "tandem", "chat", "--server", url, "hi"], capture_output=True, text=True, timeout=60)
        assert done.stdout == text + "\n", done
        with Talk(SimpleNamespace(url=url), "hi") as terminal:
            fcntl.ioctl(terminal.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80, 0, 0))
            assert terminal.end() == 0
            lines = terminal.read().replace("\r", "").split("\n")
            assert lines[:2] == [f"small-model at {url}", "temperature 0.7, top_p 0.9 (the model brings no defaults)"], lines[:2]
            lines = lines[2:lines.index("")]
            assert len(lines) > 5 and max(map(len, lines)) <= 80 and " ".join(lines) == text.split("\n")[0], lines


def ctrl_c_ends_the_answer(cluster):
    """And not the conversation; at the prompt it drops what was typed."""
    with Talk(cluster, "--max-tokens", "60000") as terminal:
        terminal.expect("> ")
        for _ in range(2):
            terminal.type("long\r")
            eventually(lambda: any(w["sequences"]["running"] for w in cluster.workers()), "the answer")
            time.sleep(0.2)
            terminal.type("\x03")
            terminal.expect("> ")
            cluster.quiet()
        terminal.type("never sent\x03")
        terminal.expect("> ")
        n = len(prompts_of_the_server(cluster))
        terminal.type("/exit\r")
        assert terminal.end() == 0
        assert len(prompts_of_the_server(cluster)) == n


def an_error_ends_no_conversation(cluster):
    """What was not answered is not told again with the next turn."""
    with Talk(cluster, "--max-tokens", "3", "--temperature", "0") as terminal:
        terminal.expect("> ")
        drain = [BIN / "tandem", "drain", "--server", cluster.url, "mixed0"]
        subprocess.run(drain, check=True, capture_output=True)
        terminal.type("hi\r")
        terminal.expect("error: HTTP status 503")
        terminal.expect("> ")
        subprocess.run([*drain, "--undo"], check=True, capture_output=True)
        eventually(lambda: cluster.workers()[0]["state"] == "ready", "the worker back")
        n = len(prompts_of_the_server(cluster))
        terminal.type("hi\r")
        eventually(lambda: len(prompts_of_the_server(cluster)) == n + 1, "the answer")
        assert chat(cluster, "hi")[0] == 0
        assert len(set(prompts_of_the_server(cluster)[-2:])) == 1
        terminal.expect("> ")
        terminal.type("/exit\r")
        assert terminal.end() == 0


def main():
    tally = Tally()
    with Cluster("--mixed", 1, "--step-us", 2000) as cluster:
        for test in (words_and_pipes, bad_input, a_line_is_edited, how_it_is_sampled, words_are_whole, streams_are_read_as_events, thoughts_are_dimmed,
                     ends_with_its_terminal, ctrl_c_ends_the_answer, an_error_ends_no_conversation):
            tally.run(test.__name__, test, cluster)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
