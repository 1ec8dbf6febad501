# Shared by every script: where the repository is, how to say things, a temporary directory, a count of checks.
# Source it; it runs nothing on its own but `set`.
# shellcheck shell=bash
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
lib=$root/Scripts/lib
passed=0
failed=0
started=$SECONDS

say() { printf '%s\n' "$*" >&2; }

# Ends the script with one sentence. Exit code 1, or the one in $2.
die() {
    say "$(basename "$0"): $1"
    exit "${2:-1}"
}

# Prints the comment block at the top of the calling script, without its marks.
usage() { sed -n '2,/^[^#]/{/^#/!q;s/^# \{0,1\}//;p}' "$0"; }

# A private directory that goes away with the script. Processes listed in $children end with it.
children=()
work=
make_work_directory() {
    work=$(mktemp -d "${TMPDIR:-/tmp}/chappie.XXXXXX")
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

clean_up() {
    local status=$? child
    for child in "${children[@]}"; do
        kill "$child" 2>/dev/null && wait "$child" 2>/dev/null || true
    done
    [ -z "$work" ] || rm -rf "$work"
    return "$status"
}

# Runs a command as one check: `check NAME COMMAND…`. Its output is shown only when it fails.
check() {
    local name=$1 log begin=$SECONDS
    shift
    log=$(mktemp "$work/check.XXXXXX")
    if "$@" >"$log" 2>&1 </dev/null; then
        passed=$((passed + 1))
        say "  ok    $name ($((SECONDS - begin)) s)"
    else
        failed=$((failed + 1))
        say "  FAIL  $name ($((SECONDS - begin)) s)"
        sed 's/^/        /' "$log" | tail -n "${CHECK_LINES:-60}" >&2
    fi
    rm -f "$log"
}

# Adds the numbers of a command whose last line is "N passed, M failed", and shows what it prints.
check_counted() {
    local name=$1 log line begin=$SECONDS
    shift
    log=$(mktemp "$work/check.XXXXXX")
    local status=0
    "$@" </dev/null 2>&1 | tee "$log" >&2 || status=$?
    line=$(tail -n 1 "$log")
    if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
        passed=$((passed + BASH_REMATCH[1]))
        failed=$((failed + BASH_REMATCH[2]))
        # A command that fails without a failed check has broken down on the way.
        [ "$status" -eq 0 ] || [ "${BASH_REMATCH[2]}" -gt 0 ] || failed=$((failed + 1))
    else
        failed=$((failed + 1))
        say "  FAIL  $name ended without a count"
    fi
    say "  $name took $((SECONDS - begin)) s"
    rm -f "$log"
}

# The last line of every counting script, and its exit code.
finish() {
    say "took $((SECONDS - started)) s"
    printf '%d passed, %d failed\n' "$passed" "$failed"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

# A person's own settings must not reach the tests, nor the tests a person's files.
private_environment() {
    local home=$work/home
    mkdir -p "$home/.config" "$home/.cache" "$home/.local/share" "$home/.local/state" "$home/run"
    chmod 700 "$home" "$home/run"
    export HOME=$home XDG_CONFIG_HOME=$home/.config XDG_CACHE_HOME=$home/.cache
    export XDG_DATA_HOME=$home/.local/share XDG_STATE_HOME=$home/.local/state XDG_RUNTIME_DIR=$home/run
    unset DBUS_SESSION_BUS_ADDRESS DISPLAY WAYLAND_DISPLAY TMUX SSL_CERT_FILE SSL_CERT_DIR
    unset http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY
    unset "${!CHAPPIE_@}"
}
