# The parts of Scripts/test: source it after common.sh and setup.sh.
# shellcheck shell=bash

# Builds everything, and the tests with `--build-tests`; options go to SwiftPM.
build() { attempt "Building" swift build --package-path "$root" --explicit-target-dependency-import-check error "$@"; }

# The program that the acceptance tests drive is built as users build it: an optimiser's mistakes are in no other.
build_release() { attempt "Building the program as it is released" build_chappie release; }

attempt() {
    say "$1; the first time takes a few minutes."
    "${@:2}" >"$work/build.log" 2>&1 && return
    tail -n 60 "$work/build.log" >&2
    failed=$((failed + 1))
    return 1
}

# `run_suite PATTERN FOLDER` runs what was built into a folder below .build. A process for each target: a test that measures time
# or counts threads must not meet another target's. A pattern selects tests of all of them. The bundle is started by itself:
# `swift test` takes five seconds to find out each time that nothing is to be built.
run_suite() {
    local pattern=${1:-} bundle=$root/.build${2:+/$2}/debug/chappiePackageTests.xctest target begin status
    for target in ${pattern:-$(python3 "$lib/tree.py" test-targets)}; do
        begin=$SECONDS status=0
        [ -n "$pattern" ] || target="^$target\\."
        (
            private_environment
            # Swift's own backtracer was seen to hang on a crash with many threads. The first report of a sanitizer ends the process.
            export SWIFT_BACKTRACE=enable=no ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=halt_on_error=1 NO_COLOR=1
            [ ! -e "$work/mutex.so" ] || export LD_PRELOAD=$work/mutex.so
            cd "$root" && "$bundle" --testing-library swift-testing --xunit-output "$work/swift.xml" --filter "$target"
        ) >"$work/test.log" 2>&1 </dev/null || status=$?
        if [ "$status" -ne 0 ]; then
            grep -E '^(✘|.*(error:|recorded an issue|Fatal error|ERROR: AddressSanitizer|WARNING: ThreadSanitizer))' "$work/test.log" |
                head -n 60 >&2 || :
            tail -n 40 "$work/test.log" >&2
        fi
        # What tests have counted or measured, and why some were skipped.
        grep -E '^measured: | skipped: ' "$work/test.log" | sed 's/^/        /' >&2 || :
        count_results "${target//[^A-Za-z|]/}" "$status" "$begin" "$work/swift.xml"
        rm -f "$work/swift.xml"
    done
}

run_sanitized() {
    local clang
    say "Under the $1 sanitizer:"
    # Bounds in time are for the program as people run it.
    export TEST_PATIENCE=10
    rm -f "$work/mutex.so"
    build --build-tests --scratch-path "$root/.build/$1" --sanitize="$1" || return 0
    if [ "$1" = thread ]; then
        # What ThreadSanitizer has to be told: see the file. The compiler is the one that comes with Swift.
        clang=$(dirname "$(readlink -f "$(command -v swift)")")/clang
        "$clang" -O1 -fPIC -shared -Wall -Werror -o "$work/mutex.so" "$lib/thread-sanitizer-mutex.c"
    fi
    run_suite "" "$1"
}

# `acceptance NAME OPTION…` runs Tests/Acceptance; options go to pytest. Most of a test is waiting for polls and deadlines.
acceptance() {
    (cd "$root/Tests/Acceptance" && TEST_PATIENCE=${TEST_PATIENCE:-3} "$python" -m pytest -q -n "${ACCEPTANCE_WORKERS:-4}" --dist loadgroup \
        -p no:cacheprovider --basetemp "$work/pytest-$1" --junitxml "$work/$1.xml" "${@:2}") >&2 </dev/null
}

# A user's own settings must not reach the tests, nor the tests a user's files.
private_environment() {
    local home=$work/home demanded=$CHAPPIE_REQUIRE_COUNTERPARTS packaged=$CHAPPIE_TEST_PYTHON schemas
    schemas=$(echo "${XDG_CACHE_HOME:-$HOME/.cache}"/chappie-tests/python/jsonschema-*/json/tests/draft2020-12)
    mkdir -p -m 700 "$home" "$home"/{config,cache,data,state,run}
    unset DBUS_SESSION_BUS_ADDRESS DISPLAY WAYLAND_DISPLAY TMUX SSL_CERT_FILE SSL_CERT_DIR
    unset http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY "${!CHAPPIE_@}"
    export HOME=$home XDG_CONFIG_HOME=$home/config XDG_CACHE_HOME=$home/cache XDG_DATA_HOME=$home/data
    export XDG_STATE_HOME=$home/state XDG_RUNTIME_DIR=$home/run CHAPPIE_REQUIRE_COUNTERPARTS=$demanded CHAPPIE_TEST_PYTHON=$packaged
    [ ! -d "$schemas" ] || export CHAPPIE_JSON_SCHEMA_SUITE=$schemas
}
