"""Control groups of a test's own, with a limit of CPU time or of memory. Linux and root: version 2, or 1 with freezer."""
import os
import shlex
import signal
import time
from pathlib import Path

MOUNTS = Path("/sys/fs/cgroup")
PERIOD_US = 100000  # of a quota; the kernel's usual one


def _limits(is_v2: bool, cores: float | None, n_bytes: int | None) -> list[tuple[str, str, str]]:
    """(controller, file, value), in the order in which they are written"""
    rows = []
    if cores is not None:
        quota = int(cores * PERIOD_US)
        rows += [("cpu", "cpu.max", f"{quota} {PERIOD_US}")] if is_v2 else [
            ("cpu", "cpu.cfs_period_us", str(PERIOD_US)), ("cpu", "cpu.cfs_quota_us", str(quota))]
    if n_bytes is not None:
        rows.append(("memory", "memory.max" if is_v2 else "memory.limit_in_bytes", str(n_bytes)))
    return rows


class Group:
    """A group "outer/inner", or "name"; the limits are those of the lowest. OSError where none can be made."""

    def __init__(self, name: str, *, cores: float | None = None, n_bytes: int | None = None):
        is_v2 = (MOUNTS / "cgroup.controllers").exists()
        limits = _limits(is_v2, cores, n_bytes)
        controllers = dict.fromkeys(row[0] for row in limits)
        mounts = [MOUNTS] if is_v2 else [MOUNTS / controller for controller in (*controllers, "freezer")]
        self.made = []  # the lowest first
        self.folders = [mount / name for mount in mounts]
        self.switch = self.folders[-1] / ("cgroup.freeze" if is_v2 else "freezer.state")
        self.words = ("0", "1") if is_v2 else ("THAWED", "FROZEN")
        try:
            for mount in mounts:
                self._make(mount, Path(name).parts, [f"+{controller}" for controller in controllers] if is_v2 else [])
            for controller, file, value in limits:
                ((MOUNTS if is_v2 else MOUNTS / controller) / name / file).write_text(value)
        except OSError:
            self.close()
            raise

    def _make(self, folder: Path, parts: tuple[str, ...], handed_on: list[str]) -> None:
        for part in parts:
            for word in handed_on:
                (folder / "cgroup.subtree_control").write_text(word)
            folder = folder / part
            folder.mkdir()
            self.made.insert(0, folder)

    def command(self, *words) -> list[str]:
        """The command that starts `words` as a process of the group from its first step on."""
        enter = " && ".join(f"echo $$ >{shlex.quote(str(folder / 'cgroup.procs'))}" for folder in self.folders)
        return ["bash", "-c", enter + ' && exec "$0" "$@"', *map(str, words)]

    def freeze(self, frozen: bool) -> None:
        self.switch.write_text(self.words[frozen])

    def end(self) -> None:
        """Kills whatever is still in it."""
        self.freeze(False)
        for pid in (self.folders[-1] / "cgroup.procs").read_text().split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def close(self) -> None:
        for folder in self.made:
            for _ in range(600):  # what has ended leaves a moment later
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.1)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.close()
