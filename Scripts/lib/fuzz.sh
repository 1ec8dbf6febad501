# Bounded runs of libFuzzer (the one in Swift's toolchain) over every decoder: source it after common.sh and setup.sh.
# shellcheck shell=bash

fuzz_everything() {
    local seconds=$1 package=$root/Tests/Fuzz target
    # SwiftPM knows the address sanitizer; the fuzzer's instrumentation needs lld, because gold stumbles over it.
    local flags=(-c release --sanitize=address -Xswiftc -sanitize=fuzzer -Xswiftc -use-ld=lld)
    check "fuzzers build" swift build --package-path "$package" "${flags[@]}"
    local program=$package/.build/release/fuzz
    [ -x "$program" ] || return 0
    # The runtime's own crash reports wait for a terminal; libFuzzer reports better.
    export SWIFT_BACKTRACE=enable=no
    for target in $("$program" || true); do
        check "fuzz $target for $seconds s" fuzz_one "$program" "$target" "$seconds"
    done
}

# What it finds is copied to .build/, so that it outlives the run.
fuzz_one() {
    local program=$1 target=$2 seconds=$3 found=$work/fuzz-$2 kept=$root/Tests/Fuzz/.build/findings
    mkdir -p "$found/corpus" "$found/artifacts"
    cp "$root/Tests/Fuzz/Corpus/$target"/* "$found/corpus/"
    timeout $((seconds + 60)) "$program" "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
        -max_len=4096 -print_final_stats=1 -verbosity=0 -artifact_prefix="$found/artifacts/" "$found/corpus" && return 0
    mkdir -p "$kept" && cp "$found/artifacts"/* "$kept/" && echo "The inputs are in $kept"
    return 1
}
