#!/usr/bin/env python3
"""`tandem top` against a live cluster: lines in a pipe, the screen on a terminal, keys, sizes, a server that goes and comes."""
import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from cluster import BIN, Cluster, Tally, eventually, post_json
from terminal import Terminal


def top(cluster, *args, **env):
    return subprocess.run([BIN / "tandem", "top", "--server", cluster.url if cluster else "http://127.0.0.1:9", "--interval", "0.2", *args],
                          capture_output=True, text=True, timeout=60, env={**os.environ, "LC_ALL": "C.UTF-8", **env})


class Screen(Terminal):
    """`tandem top` on a terminal of its own; .picture() is what it shows now, as lines."""

    def __init__(self, url, width=80, height=24, **env):
        os.environ.pop("LINES", None)
        os.environ.pop("COLUMNS", None)
        super().__init__("tandem", "top", "--server", url, "--interval", "0.2", **{"TERM": "xterm-256color", **env})
        self.resize(width, height)

    def resize(self, width, height):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)

    def expect(self, pattern, what, redraw=True):
        """Waits until a whole new picture has it: Ctrl-L draws everything."""
        def seen():
            if redraw:
                os.write(self.fd, b"\x0c")
            self.text = ""
            return re.search(pattern, plain(self.read()))
        try:
            return eventually(seen, what)
        except AssertionError as reason:
            raise AssertionError(f"{reason}: {pattern!r} in {plain(self.text)[-2000:]!r}") from None


def plain(text):
    """Without colours; a move of the cursor becomes a blank."""
    return re.sub(r"\x1b[()][0-9A-B]|\x1b[=>]", "", re.sub(r"\x1b\[[0-9;?]*[A-Zac-ln-z]", " ", re.sub(r"\x1b\[[0-9;]*m", "", text)))


def lines_in_a_pipe(cluster):
    post_json(cluster.port, "/v1/completions", {"prompt": list(range(40)), "max_tokens": 30})

    def all_told():
        """`top` waits 2 s for a router, and workers tell of themselves ten times a second."""
        done = top(cluster, "--once")
        return done if "hand-offs 1" in done.stdout and "done 1" in done.stdout else None
    done = eventually(all_told, "a hand-off and an answer")
    assert done.returncode == 0 and "\x1b" not in done.stdout and not done.stderr, done
    lines = done.stdout.splitlines()
    assert lines[0].startswith(cluster.url) and "hash · router0" in lines[0], lines
    assert re.search(r"TTFT (p50|-)", done.stdout), lines
    rows = {line.split()[0]: line.split()[1:3] for line in lines if re.match(r"(prefill|decode)\d", line)}
    assert rows == {"prefill0": ["prefill", "ready"], "decode0": ["decode", "ready"]}, rows
    done = eventually(lambda: (again := top(cluster, "--once", LC_ALL="C")).returncode == 0 and again, "an answer")
    assert done.stdout.isascii() and "router0" in done.stdout, done


def what_is_wrong_is_said(cluster):
    done = top(None, "--once")
    assert done.returncode == 1 and not done.stdout, done
    assert done.stderr == "error: 127.0.0.1:9: Connection refused: is a server up? tandem up MODEL\n", done
    for args, words in ((("--interval", "0"), "0.1 and 3600"), (("--interval", "x"), "0.1 and 3600"), (("word",), "")):
        done = top(cluster, *args)
        assert done.returncode == 78 and words in done.stderr, done
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder, "admin.key")
        key.write_text("secret\n")
        key.chmod(0o600)
        with Cluster("--admin-keys", key, "--mixed", 1, "--prefill", 0, "--decode", 0) as closed:
            done = eventually(lambda: "admin key" in (done := top(closed, "--once")).stderr and done, "what is wanted")
            assert done.returncode == 1, done
            eventually(lambda: "mixed0" in top(closed, "--once", TANDEM_ADMIN_KEY="secret").stdout, "a key of the environment")
            eventually(lambda: "mixed0" in top(closed, "--once", "--admin-key-file", key).stdout, "a key of a file")


def a_screen_with_keys(cluster):
    with Screen(cluster.url) as terminal:
        terminal.expect(r"decode0 +decode +ready", "the table")
        terminal.type("?")
        terminal.expect(r"reverse the order", "help")
        terminal.type("?s")
        terminal.expect(r"sort: name", "another order")
        terminal.type("S")
        terminal.expect(r"sort: role", "the order before")
        terminal.type("p")
        terminal.expect(r"PAUSED", "a pause")
        terminal.type(" ")
        terminal.resize(40, 12)
        terminal.expect(r"STATE +RUN +KV", "a narrow screen")
        terminal.resize(120, 30)
        terminal.expect(r"PROMPT/S +PID +HOST +NOTE", "a wide screen")
        terminal.type("q")
        assert terminal.end() == 0
        assert "\x1b[?1049l" in terminal.text, "the terminal's own screen comes back"


def no_color(cluster):
    with Screen(cluster.url) as colored, Screen(cluster.url, NO_COLOR="1") as bare:
        for terminal in (colored, bare):
            terminal.expect(r"decode0 +decode +ready", "the table")
        has_color = [re.search(r"\x1b\[[0-9;]*3[0-7]m", terminal.read() + terminal.text) is not None for terminal in (colored, bare)]
        for terminal in (colored, bare):
            os.kill(terminal.pid, signal.SIGTERM)
            assert terminal.end() == 0
    assert has_color == [True, False], has_color


def unknown_terminals_get_lines(cluster):
    with Screen(cluster.url, TERM="no-such-terminal") as terminal:
        terminal.expect(r"Printing lines|decode0 +decode +ready", "lines", redraw=False)
        terminal.expect(r"decode0 +decode +ready", "lines", redraw=False)
        os.kill(terminal.pid, signal.SIGINT)
        assert terminal.end() == 0


def ends_with_its_terminal(cluster):
    """Also where SIGHUP, which says so, is ignored: under nohup, or below a shell that does not tell its jobs."""
    for term in ("xterm-256color", "no-such-terminal"):
        for nohup in (False, True):
            with Screen(cluster.url, TERM=term, nohup=nohup) as terminal:
                terminal.expect(r"decode0 +decode +ready", "the table", redraw=False)
                terminal.hang_up()
                code = terminal.end()
                assert code in (0, 1) if nohup else code == -signal.SIGHUP, (term, nohup, code)
    for arguments in (("--plain", "--interval", "3600"), ("--interval", "3600")):  # nothing is written, or nothing is drawn, for an hour
        with Terminal("tandem", "top", "--server", cluster.url, *arguments, nohup=True, TERM="xterm") as terminal:
            eventually(lambda: "prefill0" in plain(terminal.read()), "the first picture")
            terminal.hang_up()
            assert terminal.end() in (0, 1), arguments


def a_server_goes_and_comes(cluster):
    with Screen(cluster.url) as terminal:
        terminal.expect(r"decode0 +decode +ready", "the table")
        worker = next(w for w in cluster.workers() if w["name"] == "decode0")
        os.kill(worker["pid"], signal.SIGKILL)
        terminal.expect(r"worker decode0 is gone", "a dead worker")
        os.kill(cluster.router_pid(), signal.SIGSTOP)
        terminal.expect(r"no answer within 2 s", "a router that hangs")
        os.kill(cluster.router_pid(), signal.SIGCONT)
        terminal.expect(r"the server answers again", "a router that goes on")
        terminal.expect(r"decode0 +decode +ready", "its workers")
        terminal.type("q")
        assert terminal.end() == 0


def main():
    tally = Tally()
    with Cluster() as cluster:
        for test in (lines_in_a_pipe, what_is_wrong_is_said, a_screen_with_keys, no_color, unknown_terminals_get_lines,
                     ends_with_its_terminal, a_server_goes_and_comes):
            tally.run(test.__name__, test, cluster)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
