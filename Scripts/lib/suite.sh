# The parts of Scripts/test: source it after common.sh and setup.sh.
# shellcheck shell=bash

# Builds the libraries and then the programs, with their tests. Both use the same folder, so that each module is compiled once.
# Continuous integration needs no debug information, because backtraces are off. Other options compile everything again.
# SwiftPM needs the index of the tests, but not the one of the system's modules.
build() {
    local options=()
    [ -z "${CI:-}" ] || options=(-debug-info-format none -Xswiftc -index-ignore-system-modules)
    attempt "Building" build_both --scratch-path "$root/.build" "${options[@]}"
}

# `build_both OPTION…`
build_both() {
    local package
    for package in "$root" "$root/Apps"; do
        swift build --package-path "$package" --build-tests --explicit-target-dependency-import-check error "$@" || return
    done
}

# The acceptance tests run the Examples, GTK's window and what the documents print as well: see CHAPPIE_CONSUMERS in Package.swift.
build_with_consumers() {
    python3 "$lib/printed.py" "$root/.build/consumers" && CHAPPIE_CONSUMERS=.build/consumers build
}

# The program that the acceptance tests drive is built as users build it: an optimiser's mistakes are in no other.
build_release() { attempt "Building the program as it is released" build_chappie release chappie chappie-simulator; }

attempt() {
    local begin=$SECONDS
    say "$1; the first time takes a few minutes."
    if "${@:2}" >"$work/build.log" 2>&1; then
        say "  took $((SECONDS - begin)) s"
        return
    fi
    tail -n 60 "$work/build.log" >&2
    failed=$((failed + 1))
    return 1
}

# `run_suite OPTION…` runs what was built. Each target has its own process, because some tests count threads.
run_suite() {
    local target
    for target in $(test_targets); do run_bundle "$target" --filter "^$target\\." "$@"; done
}

# They are asked for once, before a build that SwiftPM would wait for.
test_targets() {
    [ -s "$work/targets" ] || python3 "$lib/tree.py" test-targets >"$work/targets"
    cat "$work/targets"
}

# Tests of times, which other work changes, run alone.
run_measured() {
    local pattern
    for pattern in $(measured_tests); do run_bundle "Measured: $(tr -cs A-Za-z0-9 " " <<<"$pattern" | xargs)" --filter "$pattern"; done
}

# A pattern for each target that has some.
measured_tests() { python3 "$lib/tree.py" measured-tests; }

# `run_bundle NAME OPTION…` runs the tests that the options select, of the libraries and of the programs. `swift test` would
# look for five seconds each time whether something must be built.
run_bundle() {
    local begin=$SECONDS status=0 file=$work/swift-$BASHPID log=$work/swift-$BASHPID.log
    (
        private_environment "$BASHPID"
        # Swift's own backtracer was seen to hang on a crash with many threads. The first report of a sanitizer ends the process.
        export SWIFT_BACKTRACE=enable=no ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=halt_on_error=1 NO_COLOR=1
        [ ! -e "$work/mutex.so" ] || export LD_PRELOAD=$work/mutex.so
        # A shell lets what it starts in the background ignore signals that tests send.
        cd "$root" || exit
        for bundle in chappie chappie-programs; do
            ended=0
            env --default-signal=INT,QUIT ".build/${FOLDER:-.}/debug/${bundle}PackageTests.xctest" --testing-library swift-testing \
                --xunit-output "$file.$bundle.xml" "${@:2}" || ended=$?
            # With 69 it has none of these tests.
            [ "$ended" -eq 0 ] || [ "$ended" -eq 69 ] || exit "$ended"
        done
    ) >"$log" 2>&1 </dev/null || status=$?
    if [ "$status" -ne 0 ]; then
        grep -E '^(✘|.*(error:|recorded an issue|Fatal error|ERROR: AddressSanitizer|WARNING: ThreadSanitizer))' "$log" | head -n 60 >&2 || :
        tail -n 40 "$log" >&2
    fi
    # What tests have counted or measured, and why some were skipped.
    grep -E '^measured: | skipped: ' "$log" | sed 's/^/        /' >&2 || :
    count_results "$1" "$status" "$begin" "$file".*.xml
    rm -f "$file".*.xml "$log"
}

run_sanitized() {
    local clang
    say "Under the $1 sanitizer:"
    # Bounds in time are for the program as people run it.
    export TEST_PATIENCE=10
    rm -f "$work/mutex.so"
    attempt "Building" build_both --scratch-path "$root/.build/$1" --sanitize="$1" || return 0
    if [ "$1" = thread ]; then
        # What ThreadSanitizer has to be told: see the file. The compiler is the one that comes with Swift.
        clang=$(dirname "$(readlink -f "$(command -v swift)")")/clang
        "$clang" -O1 -fPIC -shared -Wall -Werror -o "$work/mutex.so" "$lib/thread-sanitizer-mutex.c"
    fi
    FOLDER=$1 run_suite
}

# `acceptance OPTION…` runs Tests/Acceptance; options go to pytest. Most of a test is waiting for polls and deadlines.
acceptance() {
    local begin=$SECONDS
    (cd "$root/Tests/Acceptance" && TEST_PATIENCE=${TEST_PATIENCE:-3} "$python" -m pytest -q -n "${ACCEPTANCE_WORKERS:-5}" --dist loadgroup \
        --durations=25 -p no:cacheprovider --basetemp "$work/pytest" --junitxml "$work/acceptance.xml" "$@") >&2 </dev/null || :
    count_results "Acceptance" 0 "$begin" "$work/acceptance.xml"
}

# What Apple's systems alone can prove. No Mac has run this yet. A Mac's own shell is bash 3.2.
run_on_a_mac() {
    local platform
    # A warning about another SDK must not keep the tests from running.
    unset CHAPPIE_STRICT
    check "the documentation's app compiles" swift build --package-path "$root/Tests/Mac" --product DocumentsApp
    check "the adapters keep their contracts" swift test --package-path "$root/Tests/Mac"
    for platform in iOS visionOS; do
        check "the SDK and the testing kit compile for $platform" compile_with_xcode "$platform"
    done
}

compile_with_xcode() {
    local scheme
    for scheme in ChappieSDKRuntime ChappieSDKTesting; do
        (cd "$root" && xcodebuild build -quiet -scheme "$scheme" -destination "generic/platform=$1" -derivedDataPath "$work/derived") || return
    done
}

# They take the time that nothing else wants: tests that measure may run beside them.
run_checks() {
    local line
    line=$(chrt --idle 0 "$root/Scripts/check" ${CHAPPIE_LONG_TESTS:+--full} | tail -n 1) || :
    if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
        passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
    else
        failed=$((failed + 1))
    fi
}

# `beside NAME COMMAND…` starts a part in the background. `gather` waits for all parts, shows what they said, and counts.
parts=()
beside() {
    parts+=("$1")
    {
        passed=0 failed=0
        "${@:2}"
        printf '%d %d\n' "$passed" "$failed" >"$work/$1.counts"
    } >"$work/$1.log" 2>&1 </dev/null &
}

gather() {
    local part line
    wait
    for part in "${parts[@]}"; do
        cat "$work/$part.log" >&2
        # A part that broke down has counted nothing.
        line=$(cat "$work/$part.counts") || line="0 1"
        passed=$((passed + ${line% *})) failed=$((failed + ${line#* }))
    done
}

# A user's own settings must not reach the tests, nor the tests a user's files. The home has a name.
private_environment() {
    local home=$work/home-$1 demanded=$CHAPPIE_REQUIRE_COUNTERPARTS packaged=$CHAPPIE_TEST_PYTHON schemas
    schemas=$(echo "${XDG_CACHE_HOME:-$HOME/.cache}"/chappie-tests/python/jsonschema-*/json/tests/draft2020-12)
    mkdir -p -m 700 "$home" "$home"/{config,cache,data,state,run}
    unset DBUS_SESSION_BUS_ADDRESS DISPLAY WAYLAND_DISPLAY TMUX SSL_CERT_FILE SSL_CERT_DIR
    unset http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY "${!CHAPPIE_@}"
    export HOME=$home XDG_CONFIG_HOME=$home/config XDG_CACHE_HOME=$home/cache XDG_DATA_HOME=$home/data
    export XDG_STATE_HOME=$home/state XDG_RUNTIME_DIR=$home/run CHAPPIE_REQUIRE_COUNTERPARTS=$demanded CHAPPIE_TEST_PYTHON=$packaged
    [ ! -d "$schemas" ] || export CHAPPIE_JSON_SCHEMA_SUITE=$schemas
}
