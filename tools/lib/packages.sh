# tools/lib/packages.sh: what Tandem needs from Debian 12, sourced by quickstart and check.
# install_packages NAMES... installs the missing ones; needs root or sudo only when some are missing.

build_packages="build-essential cmake ninja-build pkg-config ccache ca-certificates python3 python3-venv
  python3-pip libevent-dev libzmq3-dev libsodium-dev libprotobuf-c-dev protobuf-c-compiler
  protobuf-compiler libjansson-dev libpcre2-dev libutf8proc-dev libxxhash-dev libinih-dev
  libjemalloc-dev check"
test_packages="clang clang-format clang-tidy llvm binutils curl git procps"

install_packages() {
    local missing="" name
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
    # Lists older than the archive are the usual reason for a failed install: refresh once.
    $as_root apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >&2
}

# python_venv DIR PACKAGES...: a virtual environment with these PyPI packages; answers 1 (and says why)
# where PyPI cannot be reached, so that a test can be SKIPPED instead of failing.
python_venv() {
    local dir="$1"
    shift
    [ -x "$dir/bin/python" ] || python3 -m venv "$dir" >&2 || return 1
    local stamp="$dir/.installed" want="$*"
    [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ] && return 0
    "$dir/bin/python" -m pip install -q --disable-pip-version-check "$@" >&2 || return 1
    echo "$want" >"$stamp"
}
