"""A program on a terminal of its own, as a person sits before it."""
import os
import pty
import select
import signal

from cluster import BIN, eventually


class Terminal:
    """One of our programs, as a context manager: nothing of it is left afterwards. .text is what it wrote since somebody emptied it.
    The program does not mind SIGHUP where nohup is true, and reads from /dev/null where is_mute is."""

    def __init__(self, program, *args, nohup=False, is_mute=False, **env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            if is_mute:
                os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            if nohup:
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
            os.environ.update({"LC_ALL": "C.UTF-8", **env})
            os.execv(BIN / program, [program, *args])
        self.text = ""
        self.ended = False

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if not self.ended:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.hang_up()

    def hang_up(self):
        """The terminal is gone, as when its window is closed."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def read(self):
        while self.fd >= 0 and select.select([self.fd], [], [], 0.05)[0]:
            try:
                chunk = os.read(self.fd, 65536)
            except OSError:
                break
            if not chunk:
                break
            self.text += chunk.decode("utf-8", "replace")
        return self.text

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        """Waits until it ends; its exit status."""
        def ended():
            self.read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.ended = pid != 0
            return (os.waitstatus_to_exitcode(status),) if pid else None
        return eventually(ended, "the end")[0]
