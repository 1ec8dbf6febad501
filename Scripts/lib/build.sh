# Building the program: source it after common.sh.
# shellcheck shell=bash

# `build_chappie debug|release [MORE…]`. A release carries the Swift runtime in itself and starts faster for it.
build_chappie() {
    local configuration=$1 flags=()
    shift
    [ "$configuration" != release ] || flags=(--static-swift-stdlib)
    swift build --package-path "$root" -c "$configuration" --product chappie "${flags[@]}" "$@"
}

chappie_program() {
    printf '%s/.build/%s/chappie\n' "$root" "$1"
}

# The codec's benchmark and the load of WebSockets: Tests/Bench.
build_bench() {
    swift build --package-path "$root/Tests/Bench" -c release -Xswiftc -enable-testing
}
