# The parts of Scripts/check: source it after common.sh.
# shellcheck shell=bash

# Files of ours, committed or not, whose paths match.
our_files() { git -C "$root" ls-files -co --exclude-standard -- "$@"; }

format_is_ours() { our_files '*.swift' | xargs swift format lint --strict --parallel --configuration .swift-format; }

# Paths of one machine, marks of unfinished work, build products. The patterns are written so that they don't find themselves.
no_forbidden_words() {
    ! git grep --untracked -nIE '(^|[^A-Za-z0-9_.])/(work|root|opt/swift)/|TOD[O]|FIXM[E]|XX[X]:' -- . ':!LICENSE' &&
        ! git ls-files --cached -- '*.build/*' 'Package.resolved' '*/Package.resolved' | grep .
}

scripts_answer_for_help() {
    local script
    our_files '*.py' | xargs python3 -c 'import ast, sys; [ast.parse(open(path).read(), path) for path in sys.argv[1:]]' || return
    for script in $(our_files Scripts .ci/run); do
        case $script in
        *.py | *.json | *.txt) ;;
        *.sh) bash -n "$script" || return ;;
        *.c) ;;
        *) [ -n "$("./$script" --help </dev/null)" ] || { echo "$script --help prints nothing"; return 1; } ;;
        esac
    done
}

shim_matches_headers() {
    local package=$root/Packages/adapters/ChappieKeychainLinux
    # shellcheck disable=SC2046 # the flags are words
    cc -std=c11 -Wall -Werror -fsyntax-only $(pkg-config --cflags libsecret-1) -I "$package/Sources/CSecret/include" \
        "$package/Checks/secret-declarations.c"
}

apple_crypto_changed() {
    ! git -C "$root" diff --quiet HEAD~20 -- 'Packages/adapters/ChappieCrypto/*.swift' Tests/AppleCrypto
}

# Compiling swift-crypto takes two and a half minutes of a processor, so that its build is kept beside the other parts of the tests'
# set-up: SwiftPM compiles our sources anew, and swift-crypto only for another version or compiler.
apple_crypto_opens_what_openssl_sealed() {
    local build=${XDG_CACHE_HOME:-$HOME/.cache}/chappie-tests/apple-crypto
    swift build --package-path "$root/Tests/AppleCrypto" --scratch-path "$build" --build-tests -debug-info-format none \
        -Xswiftc -index-ignore-system-modules && "$build/debug/apple-cryptoPackageTests.xctest" --testing-library swift-testing
}

# A program that leaves the trait off must not even fetch its packages.
default_traits_fetch_nothing_more() {
    local names
    names=$(swift package --package-path "$root" --scratch-path "$work/default-traits" show-dependencies --format flatlist) || return
    [[ $names == *swift-log* ]] && ! grep -E 'swift-(metrics|distributed-tracing)' <<<"$names"
}

# Whether the release program is there and no source of it is newer.
release_is_current() {
    local program
    program=$(chappie_program release)
    [ -x "$program" ] &&
        [ -z "$(our_files Package.swift 'Packages/*/Sources/*' 'Apps/*' | xargs -d "\n" sh -c 'exec find "$@" -newer "$0"' "$program" 2>/dev/null | head -n 1)" ]
}

# The build is kept, as the one above.
observability_works() {
    local build=${XDG_CACHE_HOME:-$HOME/.cache}/chappie-tests/observability
    swift build --package-path "$root/Tests/Observability" --scratch-path "$build" --build-tests -debug-info-format none \
        -Xswiftc -index-ignore-system-modules && "$build/debug/observabilityPackageTests.xctest" --testing-library swift-testing
}

# Hummingbird and what it brings. SwiftPM keeps them after somebody has built the server, and no check fetches them.
server_packages_are_there() { compgen -G "${XDG_CACHE_HOME:-$HOME/.cache}/org.swift.swiftpm/repositories/hummingbird-*" >/dev/null; }

# A cold build takes three minutes of two processors, so it is kept.
server_builds() {
    local build=${XDG_CACHE_HOME:-$HOME/.cache}/chappie-tests/server
    swift build --package-path "$root/Examples/server" --scratch-path "$build" -debug-info-format none \
        -Xswiftc -index-ignore-system-modules --explicit-target-dependency-import-check error || return
    ! command -v systemd-analyze >/dev/null || unit_is_sound
}

# The program need not be installed.
unit_is_sound() {
    local unit=$work/chappie-server.service
    sed 's|^ExecStart=.*|ExecStart=/bin/true|' "$root/Examples/server/chappie-server.service" >"$unit"
    systemd-analyze verify "$unit" && systemd-analyze security --offline=true --threshold=20 "$unit"
}

# Bounded runs of libFuzzer, the one in Swift's toolchain. SwiftPM knows the address sanitizer; the fuzzer's instrumentation
# needs lld, because gold stumbles over it.
fuzz_everything() {
    local seconds=$1 package=$root/Tests/Fuzz target
    check "fuzzers build" swift build --package-path "$package" -c release --sanitize=address -Xswiftc -enable-testing -Xswiftc -sanitize=fuzzer -Xswiftc -use-ld=lld
    # The runtime's own crash reports wait for a terminal; libFuzzer reports better.
    export SWIFT_BACKTRACE=enable=no
    for target in $("$package/.build/release/fuzz" || :); do
        check "fuzz $target for $seconds s" fuzz_one "$package" "$target" "$seconds"
    done
}

# What it finds stays in .build/findings.
fuzz_one() {
    local found=$1/.build/findings/$2 corpus=$work/corpus-$2
    mkdir -p "$found" && cp -R "$1/Corpus/$2" "$corpus" || return
    timeout $(($3 + 60)) "$1/.build/release/fuzz" "$2" -max_total_time="$3" -timeout=10 -rss_limit_mb=2048 -max_len=4096 \
        -print_final_stats=1 -verbosity=0 -artifact_prefix="$found/" "$corpus"
}
