#!/usr/bin/env python3
"""Fetches llama.cpp's own test data into the cache and prints the folder.

usage: fetch_llama_files.py

The source package llama-cpp-python 0.3.36 (PyPI, MIT) carries real vocabularies and real chat templates.
${TANDEM_CACHE:-~/.cache/tandem}/vocab/ then holds ggml-vocab-*.gguf with their .inp and .out cases, and
templates/*.jinja. A folder that is whole is not fetched again; two runs at a time do no harm. Exits with 1 and one
line on standard error where the package cannot be had.
"""
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
MODELS = f"llama_cpp_python-{VERSION}/vendor/llama.cpp/models/"
MEMBER_BYTES_MAX = 64 << 20


class Unavailable(Exception):
    """Why the files cannot be had, as one line."""


def folder():
    cache = os.environ.get("TANDEM_CACHE", os.path.expanduser("~/.cache/tandem"))
    return Path(cache) / "vocab"


def is_whole(path):
    """The note is written last, and names the package that the files are from."""
    note = path / "SHA256"
    return note.is_file() and note.read_text().strip() == SHA256


def pip(scratch):
    """A Debian Python without pip has venv."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
        return [sys.executable, "-m", "pip"]
    made = subprocess.run([sys.executable, "-m", "venv", f"{scratch}/venv"], capture_output=True, check=False)
    if made.returncode != 0:
        raise Unavailable("python3 has neither pip nor venv")
    return [f"{scratch}/venv/bin/python", "-m", "pip"]


def download(scratch):
    command = pip(scratch) + ["download", "--quiet", "--disable-pip-version-check", "--retries", "2", "--no-deps",
                              "--no-binary", "llama-cpp-python", "--dest", scratch, f"llama-cpp-python=={VERSION}"]
    # pip prepares the package's metadata, for which it fetches the build tools too.
    got = subprocess.run(command, capture_output=True, text=True, check=False)
    found = list(Path(scratch).glob("llama_cpp_python-*.tar.gz"))
    if got.returncode != 0 or len(found) != 1:
        why = [line for line in got.stderr.splitlines() if "error" in line.lower()]
        raise Unavailable("pip could not fetch llama-cpp-python" + (f": {why[-1].strip()}" if why else ""))
    with found[0].open("rb") as archive:
        sha256 = hashlib.file_digest(archive, "sha256").hexdigest()
    if sha256 != SHA256:
        raise Unavailable(f"the package has the SHA-256 {sha256}, not {SHA256}")
    return found[0]


def is_wanted(name):
    if not name.startswith(MODELS):
        return False
    rest = name[len(MODELS):].split("/")
    if len(rest) == 1:
        return rest[0].startswith("ggml-vocab-")
    return len(rest) == 2 and rest[0] == "templates" and rest[1].endswith(".jinja")


def unpack(archive, target):
    with tarfile.open(archive) as files:
        for member in files:
            if not member.isfile() or not is_wanted(member.name) or member.size > MEMBER_BYTES_MAX:
                continue
            path = target / member.name[len(MODELS):]
            path.parent.mkdir(parents=True, exist_ok=True)
            with files.extractfile(member) as source, path.open("wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
    if len(list(target.glob("ggml-vocab-*.gguf"))) < 10 or len(list(target.glob("templates/*.jinja"))) < 10:
        raise Unavailable("the package does not hold the files that are known to be in it")
    (target / "SHA256").write_text(SHA256 + "\n")


def fetch():
    """The folder with the files. Raises Unavailable."""
    target = folder()
    if is_whole(target):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    # In the same file system, so that the last step is a rename.
    with tempfile.TemporaryDirectory(prefix=".vocab.", dir=target.parent) as scratch:
        archive = download(scratch)
        made = Path(scratch) / "vocab"
        made.mkdir()
        unpack(archive, made)
        made.chmod(0o755)
        try:
            if target.exists() and not is_whole(target):
                shutil.rmtree(target)
            made.rename(target)
        except OSError:
            if not is_whole(target):  # another run was faster, or something else is there
                raise Unavailable(f"{target} cannot be replaced") from None
    return target


if __name__ == "__main__":
    try:
        print(fetch())
    except (Unavailable, OSError) as error:
        print(f"error: fetch_llama_files: {error}", file=sys.stderr)
        sys.exit(1)
