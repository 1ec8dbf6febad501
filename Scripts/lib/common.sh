# Shared by every script: where the repository is, how to say things, a temporary folder, a count of checks.
# shellcheck shell=bash
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
lib=$root/Scripts/lib
passed=0 failed=0 started=$SECONDS work=
# Debian keeps some daemons where an ordinary user's PATH doesn't look.
export PATH=$PATH:/usr/sbin:/sbin
# Warnings are errors here, and never for those who depend on the package: see Package.swift.
export CHAPPIE_STRICT=1

say() { printf '%s\n' "$*" >&2; }

# Ends the script with one sentence. Exit code 1, or the one in $2.
die() {
    say "$(basename "$0"): $1"
    exit "${2:-1}"
}

# Prints the comment block at the top of the calling script, without its marks.
usage() { sed -n '2,/^[^#]/{/^#/!q;s/^# \{0,1\}//;p}' "$0"; }
case " $* " in *" --help "* | *" -h "*) usage; exit ;; esac

# A private folder that goes away with the script, as do the jobs that it has started.
make_work_folder() {
    work=$(mktemp -d "${TMPDIR:-/tmp}/chappie.XXXXXX")
    trap 'status=$?; jobs -p | xargs -r kill 2>/dev/null || :; wait; rm -rf "$work"; exit $status' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

# Runs a command as one check: `check NAME COMMAND…`. Its output is shown only when it fails.
check() {
    local name=$1 begin=$SECONDS
    shift
    if "$@" >"$work/check.log" 2>&1 </dev/null; then
        passed=$((passed + 1))
        say "  ok    $name ($((SECONDS - begin)) s)"
    else
        failed=$((failed + 1))
        say "  FAIL  $name ($((SECONDS - begin)) s)"
        sed 's/^/        /' "$work/check.log" | tail -n 60 >&2
    fi
}

# `count_results NAME STATUS BEGIN FILE…` counts what a run has recorded. One that ended badly without a failed test has crashed.
count_results() {
    local line
    line=$(python3 "$lib/results.py" "${@:4}")
    passed=$((passed + ${line% *})) failed=$((failed + ${line#* }))
    if [ "${line#* }" -eq 0 ] && { [ "$2" -ne 0 ] || [ "$line" = "0 0" ]; }; then failed=$((failed + 1)); fi
    say "  $1: ${line% *} passed, ${line#* } failed ($((SECONDS - $3)) s)"
}

# The last line of every counting script, and its exit code.
finish() {
    say "took $((SECONDS - started)) s"
    printf '%d passed, %d failed\n' "$passed" "$failed"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

# `build_chappie debug|release PROGRAM…` builds programs. A release carries the Swift runtime in itself, which
# makes it start faster, and neither debug information (making it took a sixth of the time) nor symbols: the program keeps neither
# core files nor backtraces. In the folder `static` the linker finds some libraries as archives alone: a shared one costs every start
# half a million instructions or more. Assertions in C name their files, which must not depend on the folder.
build_chappie() {
    local flags=() program library archive static=$root/.build/static
    if [ "$1" = release ]; then
        mkdir -p "$static" || return
        for library in stdc++ cmark-gfm cmark-gfm-extensions; do
            # If there is no archive, the linker takes the shared library.
            archive=$(clang -print-file-name="lib$library.a")
            [ ! -e "$archive" ] || ln -sfn "$archive" "$static/" || return
        done
        flags=(--static-swift-stdlib -debug-info-format none -Xcc "-ffile-prefix-map=$root=." -Xswiftc -L"$static" -Xlinker -s
            -Xlinker --no-export-dynamic)
    fi
    for program in "${@:2}"; do
        swift build --package-path "$root/Apps" --scratch-path "$root/.build" -c "$1" --product "$program" "${flags[@]}" || return
    done
}

# Counts the instructions of the release program as one check. What the count found, or why there is none, is shown as well.
count_instructions() {
    local before=$failed
    check "$instructions_check" python3 "$lib/instructions.py" "$(chappie_program release)"
    [ "$failed" -gt "$before" ] || grep -E '^(measured|note|skipped): ' "$work/check.log" | sed 's/^/        /' >&2 || :
}
instructions_check="start-up and decoding take at most 10 % more instructions"

chappie_program() { printf '%s/.build/%s/chappie\n' "$root" "$1"; }
