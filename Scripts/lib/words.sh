# What must not stand in the tree: source it after common.sh.
# shellcheck shell=bash

# Paths of one machine, and marks of unfinished work. The patterns are written so that they don't find themselves.
forbidden_words() {
    local found=0 status=0
    git -C "$root" grep --untracked -nIE '(^|[^A-Za-z0-9_.])/(work|root|opt/swift)/|TOD[O]|FIXM[E]|XX[X]:' -- . ':!LICENSE' || status=$?
    # 1 is git's word for "nothing found".
    [ "$status" -eq 1 ] || found=1
    if git -C "$root" ls-files --cached -- '*.build/*' 'Package.resolved' '*/Package.resolved' | grep .; then
        echo "these are build products and don't belong in the repository"
        found=1
    fi
    return "$found"
}

# ARCHITECTURE.md is one page. A long source file is worth a look, not a failure.
lengths() {
    local lines
    lines=$(wc -l <"$root/ARCHITECTURE.md")
    [ "$lines" -le 150 ] || { echo "ARCHITECTURE.md has $lines lines; 150 is the most"; return 1; }
}

long_files() {
    git -C "$root" ls-files -co --exclude-standard -- '*.swift' | while IFS= read -r file; do
        [ ! -f "$root/$file" ] || printf '%s %s\n' "$(wc -l <"$root/$file")" "$file"
    done | awk '$1 > 400 { print "  note  " $2 " has " $1 " lines: is there a type in it that wants its own file?" }'
}

scripts_answer_for_help() {
    local script
    while IFS= read -r script; do
        bash -n "$root/$script" || return 1
        case $script in
        Scripts/lib/*) ;;
        *)
            [ -x "$root/$script" ] || { echo "$script can't be executed"; return 1; }
            [ -n "$("$root/$script" --help </dev/null)" ] || { echo "$script --help prints nothing"; return 1; }
            ;;
        esac
    done < <(cd "$root" && git ls-files -co --exclude-standard -- 'Scripts/*' 'Tests/*/run' '.ci/run' | grep -vE '\.(py|c)$')
    python3 - "$lib"/*.py <<'PYTHON'
import ast, sys
for path in sys.argv[1:]:
    ast.parse(open(path, encoding="utf-8").read(), path)
PYTHON
}

format_is_ours() {
    git -C "$root" ls-files -co --exclude-standard -z -- '*.swift' |
        (cd "$root" && xargs -0 swift format lint --strict --parallel --configuration .swift-format)
}

shim_matches_headers() {
    local source=$root/Packages/ChappieKeychainLinux/Checks/secret-declarations.c flags
    [ -f "$source" ] || { echo "there is no $source"; return 1; }
    flags=$(pkg-config --cflags libsecret-1)
    # shellcheck disable=SC2086 # the flags are words
    cc -std=c11 -Wall -Werror -fsyntax-only $flags -I "$root/Packages/ChappieKeychainLinux/Sources/CSecret/include" "$source"
}

# What an adapter opens at run time, and full Foundation, must not be linked: they would cost every start.
links_little() {
    local linked
    linked=$(ldd "$1") || return
    echo "$linked"
    ! grep -E 'libsecret|libglib|libFoundation\.so|libFoundationNetworking' <<<"$linked"
}
