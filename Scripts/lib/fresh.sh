# Makes a new Debian 12 in a folder, and runs commands there, in a clone of HEAD: fresh.sh FOLDER COMMAND…
# `Scripts/test --fresh` starts it in namespaces of its own. Its mounts and processes end with them.
# shellcheck shell=bash
. "$(dirname "$0")/common.sh"
. "$lib/setup.sh"

fresh=$1
shift

# Makes a path of this machine available in the root. A folder is mounted there, and can't be written to.
bring() {
    local path
    for path in "$@"; do
        [ -e "$path" ] && [ ! -e "$fresh$path" ] || continue
        if [ -d "$path" ]; then
            mkdir -p "$fresh$path"
            mount --bind "$path" "$fresh$path" && mount -o remount,bind,ro "$fresh$path"
        else
            install -D -m 644 "$path" "$fresh$path"
        fi
    done
}

# Brings Swift, and the settings with which git and pip reach their servers, or a copy of them.
bring_settings() {
    local key value swift
    # The authorities that this machine trusts. The package ca-certificates adds what is in this folder.
    mkdir -p "$fresh/usr/local/share/ca-certificates"
    [ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$fresh/usr/local/share/ca-certificates/caller.crt"
    while read -r key value; do
        git config --file "$fresh/etc/gitconfig" --add "$key" "$value"
        case $key in
        url.*) key=${key#url.} key=${key%.*}; bring "${key#file://}" ;;
        esac
    done < <(git config --get-regexp '^(url\..*\.insteadof|http\.(.*\.)?proxy)$')
    for key in /etc/pip.conf /etc/xdg/pip/pip.conf ~/.pip/pip.conf ~/.config/pip/pip.conf; do
        [ ! -e "$key" ] || { bring "$key"; bring_named <"$key"; }
    done
    environment | bring_named
    swift=$(dirname "$(dirname "$(readlink -f "$(command -v swift)")")")
    [ "$swift" != /usr ] || die "Swift is installed in /usr. --fresh needs one in a folder of its own: https://www.swift.org/install" 69
    bring "$swift"
    paths=$swift/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
}

# Prints the variables that say how to reach servers of packages.
environment() { env | grep -iE '^(pip_|git_ssl_|ssl_cert_|(https?|all|no)_proxy=)' || :; }

# Brings the absolute paths that some settings name, but not authorities: the root has a bundle of its own.
bring_named() {
    local path
    grep -oE '(^|[=[:space:]])/[^[:space:]]+' | tr -d '= \t' | grep -v '^/etc/ssl/' | while read -r path; do bring "$path"; done || :
}

# Makes the folder the root of this process, and removes the old root. After chroot the kernel would refuse the
# namespaces that some tests make.
enter() {
    mkdir "$fresh/mnt/outside"
    cd "$fresh"
    # Without the new root the commands would run on this machine itself.
    pivot_root . mnt/outside || die "The new Debian can't become the root." 69
    cd /
    umount --lazy /mnt/outside
}

# Runs a command with nothing else of this machine's environment, and says how long it took.
try() {
    local begin=$SECONDS status=0 variables=()
    mapfile -t variables < <(environment)
    say "# $1"
    env -i HOME=/root USER=root LANG=C.UTF-8 TERM=dumb PATH="$paths" "${variables[@]}" \
        bash -c "cd /usr/src/chappie && $1" </dev/null || status=$?
    say "# $1: status $status after $((SECONDS - begin)) s"
    if [ "$status" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

# Only a mount can become the root.
mkdir "$fresh"
mount --bind "$fresh" "$fresh"
say "Making a new Debian 12 with what Swift's makers name: $swift_packages"
# shellcheck disable=SC2086 # the packages are words
bash "$lib/debian.sh" "$fresh" $swift_packages
bring_settings
for folder in proc dev sys; do mount --rbind "/$folder" "$fresh/$folder"; done
mount -t tmpfs run "$fresh/run"
git clone --quiet "$root" "$fresh/usr/src/chappie"
say "Made in $((SECONDS - started)) s, with commit $(git -C "$root" rev-parse --short HEAD)"
enter
for command in "$@"; do try "$command"; done
finish
