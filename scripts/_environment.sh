# Shared by the scripts beside it: one Python environment, .venv in the checkout. Sourced, not run.

checkout="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="$checkout/.venv"
locks="$checkout/scripts/lock"

say() { printf '%s\n' "$*" >&2; }

stop() {
    say "error: $1"
    [ -z "${2:-}" ] || say "next step: $2"
    exit "${3:-1}"
}

# Run a command as root where that is possible without a password prompt.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_be_root() { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }

# Install Debian packages; the caller has made sure that apt-get exists.
apt_install() {
    say "installing $* by apt"
    as_root apt-get update -qq >&2 && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >&2
}

# Print the first Python that is new enough; $PYTHON goes first.
find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11; do
        [ -n "$candidate" ] && command -v "$candidate" >/dev/null || continue
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

make_venv() {
    local python
    python="$(find_python)" || stop "there is no Python 3.11 or newer here" "install python3, or set PYTHON to its path" 3
    # Debian ships venv apart from Python, and the module imports even when ensurepip is missing.
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            apt_install python3-venv || stop "python3-venv could not be installed" "apt-get install python3-venv" 3
        else
            stop "$python has no venv module" "install it: sudo apt-get install python3-venv" 3
        fi
    fi
    say "making $venv (first use only)"
    "$python" -m venv --clear "$venv" || stop "cannot make $venv" "" 1
}

# Print what the installed environment depends on: it is stale when this changes.
fingerprint() {
    local native="$checkout/tracecorr/native"
    {
        printf '%s\n' "$checkout"
        cat "$checkout/pyproject.toml" "$locks/"*.txt "$checkout/scripts/build_native.py" "$native/"*.[ch]
        [ -e "$native/kernel.so" ] || echo "nothing is built"
    } | sha256sum
}

# Tell whether the machine has a C compiler, as the build hook asks it.
has_compiler() {
    (cd "$checkout/scripts" && "$venv/bin/python" -c "import build_native as b; exit(b.find_compiler() is None)")
}

# Install the locked versions, each checked by its hash, then the checkout itself, which has no hash.
install_locked() {
    local pip=("$venv/bin/python" -m pip --disable-pip-version-check install -q) lock="$locks/run.txt"
    [ -z "$1" ] || lock="$locks/dev.txt"
    "${pip[@]}" --require-hashes --only-binary :all: -r "$lock" || return
    has_compiler || "${pip[@]}" --require-hashes --only-binary :all: -r "$locks/compiler.txt" || return
    "${pip[@]}" --no-deps --no-build-isolation -e "$checkout"
}

# Make sure that .venv holds tracecorr with the extras given (such as "[dev]", or nothing).
ensure_environment() {
    local extras="${1:-}" log="$venv/install.log" stamp="$venv/.stamp${1:-}"
    local also=()
    [ -n "$extras" ] || also=("$venv/.stamp[dev]")
    is_ready() {
        # An environment with extras holds all that one without them needs.
        grep -qsxF "$(fingerprint)" "$stamp" "${also[@]}" && "$venv/bin/python" -c "" 2>/dev/null
    }
    is_ready && return

    # One start at a time: two that install into the same folder break each other.
    if command -v flock >/dev/null; then
        exec 9<"$checkout/pyproject.toml"
        flock 9
        if is_ready; then
            exec 9<&-
            return
        fi
    fi
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || make_venv
    say "installing tracecorr$extras and what it needs (a minute or two)"
    if ! install_locked "$extras" >"$log" 2>&1; then
        grep -v '^WARNING' "$log" | tail -n 15 >&2
        stop "pip could not install tracecorr$extras" "read $log; pip needs a package index that it can reach" 1
    fi
    fingerprint >"$stamp"
    [ -e /dev/fd/9 ] && exec 9<&- || true
}
