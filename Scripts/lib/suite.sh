# The Swift test suite and small checks around it: source it after common.sh and build.sh.
# shellcheck shell=bash

# Builds and runs the tests of the root manifest, which are those of every package and those that cross packages; adds
# their number to the count. Options go to SwiftPM.
run_suite() {
    local options=() filter=() status=0
    while [ $# -gt 0 ]; do
        case $1 in
        --filter) filter=(--filter "$2"); shift ;;
        *) options+=("$1") ;;
        esac
        shift
    done
    say "Building the tests; the first time takes a few minutes."
    swift build --package-path "$root" --build-tests --explicit-target-dependency-import-check error "${options[@]}" \
        >"$work/build.log" 2>&1 || {
        tail -n 60 "$work/build.log" >&2
        failed=$((failed + 1))
        return
    }
    if [ ${#filter[@]} -gt 0 ]; then
        run_tests "every test that matches" "${options[@]}" "${filter[@]}"
        return
    fi
    # A process for each target: a test that measures time or counts threads must not meet another target's.
    local target
    for target in $(python3 "$lib/targets.py"); do
        run_tests "$target" "${options[@]}" --filter "^$target\\."
    done
}

run_tests() {
    local name=$1 status=0 begin=$SECONDS
    shift
    (
        private_environment
        sanitizer_settings
        swift test --package-path "$root" --skip-build --xunit-output "$work/results.xml" "$@"
    ) >"$work/test.log" 2>&1 </dev/null || status=$?
    count_results "$name" "$status" $((SECONDS - begin))
}

# The first report of a sanitizer ends the process, so that none of them passes for a success.
sanitizer_settings() {
    # Swift's own backtracer was seen to hang on a crash with many threads, and the whole run with it.
    export SWIFT_BACKTRACE=${SWIFT_BACKTRACE:-enable=no}
    export ASAN_OPTIONS=detect_leaks=0
    export TSAN_OPTIONS=halt_on_error=1
    [ ! -e "$work/mutex.so" ] || export LD_PRELOAD=$work/mutex.so
}

# What ThreadSanitizer has to be told: see the file. The compiler is the one that comes with Swift.
teach_thread_sanitizer() {
    local clang
    clang=$(dirname "$(readlink -f "$(command -v swift)")")/clang
    "$clang" -O1 -fPIC -shared -Wall -Werror -o "$work/mutex.so" "$lib/thread-sanitizer-mutex.c"
}

# Counts what the run has written down, and shows what went wrong.
count_results() {
    local name=$1 status=$2 line
    line=$(python3 "$lib/results.py" "$work" || echo "0 0")
    passed=$((passed + ${line% *}))
    failed=$((failed + ${line#* }))
    # A run that ends badly without a failed test has crashed, or was not there.
    if [ "${line#* }" -eq 0 ] && { [ "$status" -ne 0 ] || [ "$line" = "0 0" ]; }; then failed=$((failed + 1)); fi
    if [ "$status" -ne 0 ] || [ "${line#* }" -gt 0 ]; then
        grep -E '^(✘|.*(error:|recorded an issue|Fatal error|ERROR: AddressSanitizer|WARNING: ThreadSanitizer))' "$work/test.log" |
            head -n 60 >&2 || true
        say "  …and the end of the log:"
        tail -n 40 "$work/test.log" >&2
    fi
    # What tests have counted or measured.
    sed -n 's/^measured: /        /p' "$work/test.log"
    say "  $name: ${line% *} passed, ${line#* } failed ($3 s)"
    rm -f "$work"/results*.xml
}

try_prints_a_conversation() {
    local printed
    printed=$("$root/Scripts/try" </dev/null) || return
    echo "$printed"
    grep -q 'ChatGPT Linked! Return to the app' <<<"$printed" && grep -q 'good evening' <<<"$printed"
}
