# The Autobahn test suite against ChappieWebSocket: source it after common.sh and setup.sh, with $cache and $work set.
# shellcheck shell=bash

autobahn_version=0.8.2
# The last one that makes environments for Python 2.7 and runs on it.
virtualenv_version=20.15.1

run_autobahn() {
    local there=$cache/autobahn-$autobahn_version package=$root/Tests/Autobahn
    say "autobahn $autobahn_version:"
    check "autobahn $autobahn_version installs" autobahn_environment "$there"
    [ -e "$there/complete" ] || return 0
    ensure build
    local failures=$failed
    check "the client builds" swift build -c release --package-path "$package"
    # An older program may lie there.
    [ "$failed" -eq "$failures" ] || return 0
    command -v openssl >/dev/null || die "missing: openssl" 69
    mkdir -p "$work/autobahn"
    check_counted "autobahn" python3 "$lib/conformance_autobahn.py" "$there/bin/python" \
        "$package/.build/release/autobahn" "$work/autobahn"
}

# The suite is written for Python 2.7 and was never ported. A half-made environment has no mark and is made again.
autobahn_environment() {
    local there=$1 python
    [ ! -e "$there/complete" ] || return 0
    python=$(python_2_7) || return
    rm -rf "$there" "$there-virtualenv" && mkdir -p "$cache" || return
    "$python" -m pip install --quiet --disable-pip-version-check --target "$there-virtualenv" \
        "virtualenv==$virtualenv_version" || return
    PYTHONPATH=$there-virtualenv "$python" -m virtualenv --quiet --no-download "$there" || return
    "$there/bin/python" -m pip install --quiet --disable-pip-version-check "autobahntestsuite==$autobahn_version" ||
        return
    : >"$there/complete"
}

# A python2.7 in PATH may be a shim of pyenv's that only says that another version is active: it has to run.
python_2_7() {
    local candidate
    for candidate in python2.7 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/2.7*/bin/python2.7; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (2, 7))' 2>/dev/null &&
            "$candidate" -m pip --version >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
    echo "missing: Python 2.7 with pip, which this suite is written for (\`pyenv install 2.7.18\` brings both)"
    return 1
}
