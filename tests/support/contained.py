#!/usr/bin/env python3
"""Runs a command so that nothing which it starts outlives it.

usage: contained.py SECONDS COMMAND...

Whatever loses its parent below this process becomes its own child (PR_SET_CHILD_SUBREAPER), in whatever session and group it is.
When the command has ended, what it left may end by itself for a while; what is still there then is killed and named on standard
error, one line `left behind: PID COMMAND` each. After SECONDS everything is killed. So it is at SIGTERM and when the process that
started this one is gone. TMPDIR and XDG_RUNTIME_DIR, where `tandem up` has its sockets, are a folder of the command's own, which goes
with it. Linux alone. The exit status is the command's (128 and the number of its signal, as in a shell), or:
    124  it took longer than SECONDS
    125  it ended with 0 and left something behind
"""
import ctypes
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

LATE, LEFT = 124, 125
GRACE_S = 10  # for what has been told to end and ends just now
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h


def end_with_parent() -> None:
    """SIGTERM to this process when the thread that started it ends."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def below(root: int) -> list[int]:
    """The processes that descend from root, but for zombies."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it has just ended
        if state != "Z":
            children.setdefault(int(parent), []).append(int(entry.name))
    found, todo = [], [root]
    while todo:
        own = children.get(todo.pop(), [])
        found += own
        todo += own
    return found


def reap() -> dict[int, int]:
    """Takes every child that has ended: {pid: status}."""
    ended = {}
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return ended
            ended[pid] = status
    except ChildProcessError:
        return ended


def kill_all() -> None:
    """Returns when nothing is left; what forks meanwhile is met in the next round."""
    while left := below(os.getpid()):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.005)
        reap()


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    except OSError:
        return "(it has just ended)"


def main() -> int:
    folder = tempfile.mkdtemp(prefix="tandem-")

    def on_end(signum, _frame):
        kill_all()
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(128 + signum)

    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, on_end)
    end_with_parent()
    try:
        return run(float(sys.argv[1]), sys.argv[2:], dict(os.environ, TMPDIR=folder, XDG_RUNTIME_DIR=folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(limit_s: float, command: list[str], environment: dict[str, str]) -> int:
    child = os.fork()
    if child == 0:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        try:
            os.execvpe(command[0], command, environment)
        except OSError as why:
            print(f"{command[0]}: {why.strerror}", file=sys.stderr)
            os._exit(127)
    end = time.monotonic() + limit_s
    pause_s, code = 0.002, None
    while code is None:
        late = time.monotonic() > end  # read first: who stood still looks once more
        status = reap().get(child)
        if status is not None:
            code = os.waitstatus_to_exitcode(status)
            code = 128 - code if code < 0 else code
        elif late:
            kill_all()
            return LATE
        else:
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.02)
    end, pause_s = time.monotonic() + GRACE_S, 0.01
    while left := below(os.getpid()):
        if time.monotonic() > end:
            for pid in left:
                print(f"left behind: {pid} {name_of(pid)}", file=sys.stderr, flush=True)
            kill_all()
            return code or LEFT
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.5)
        reap()
    return code


if __name__ == "__main__":
    sys.exit(main())
