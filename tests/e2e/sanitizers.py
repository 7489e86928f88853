"""Daemons built with sanitizers (TANDEM_BUILD=dev or tsan): whatever any child of a test reports is a failure.

`tandem up` starts a dead child again, and a killed one says nothing, so exit codes do not tell: every process writes its reports
into a folder of this test, and the test looks there when it ends.
"""
import atexit
import os
import shutil
import tempfile
from pathlib import Path

BUILD = os.environ.get("TANDEM_BUILD", "release")
_folder = None


def watch() -> None:
    """Tells all children, by their environment, where to report. Does nothing for a build without sanitizers."""
    global _folder
    if BUILD not in ("dev", "tsan") or _folder:
        return
    _folder = Path(tempfile.mkdtemp(prefix="tandem-reports-"))
    atexit.register(shutil.rmtree, _folder, ignore_errors=True)
    for name in ("ASAN", "UBSAN", "LSAN", "TSAN"):
        options = f"log_path={_folder}/{name.lower()}:print_stacktrace=1"
        if name == "TSAN":
            options += ":halt_on_error=0:second_deadlock_stack=1"
        elif name == "ASAN":
            options += ":handle_abort=1"
        elif name == "UBSAN":
            # Beside ASan, GCC's UBSan writes to standard error whatever its log_path says, and ends with 1. So it is to abort,
            # and ASan tells where.
            options += ":abort_on_error=1"
        kept = os.environ.get(f"{name}_OPTIONS")
        os.environ[f"{name}_OPTIONS"] = f"{kept}:{options}" if kept else options


def reports() -> list[str]:
    """What was reported so far, one text for each process."""
    if not _folder:
        return []
    return [f"{path.name}:\n{path.read_text(errors='replace')}" for path in sorted(_folder.iterdir())]
