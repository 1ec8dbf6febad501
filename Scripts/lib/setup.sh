# What a machine needs, and how it gets it: `ensure build test …`. Source it after common.sh.
# Each line: Debian package, then how to see that what it brings is there already.
#   cmd:NAME a program in PATH · hdr:PATH a C header · lib:SONAME a shared library · link:NAME one to link with
#   py:MODULE of /usr/bin/python3 · pc:NAME of pkg-config · venv: Python's own · file:PATH
# shellcheck shell=bash

needs() {
    case $1 in
    build)
        cat <<'LIST'
libncurses6 lib:libncurses.so.6
libsqlite3-0 lib:libsqlite3.so.0
libxml2 lib:libxml2.so.2
gcc cmd:cc
libc6-dev hdr:stdlib.h
g++ link:libstdc++.so
git cmd:git
ca-certificates file:/etc/ssl/certs/ca-certificates.crt
libcurl4-openssl-dev hdr:curl/curl.h
libzstd-dev hdr:zstd.h
zlib1g-dev hdr:zlib.h
libssl-dev hdr:openssl/evp.h
LIST
        ;;
    test)
        cat <<'LIST'
python3 cmd:python3
curl cmd:curl
openssl cmd:openssl
zstd cmd:zstd
systemd cmd:busctl
procps cmd:ps
strace cmd:strace
nginx cmd:nginx
tinyproxy cmd:tinyproxy
microsocks cmd:microsocks
libnss-wrapper link:libnss_wrapper.so
dbus cmd:dbus-daemon
gnome-keyring cmd:gnome-keyring-daemon
libsecret-1-0 lib:libsecret-1.so.0
libsecret-tools cmd:secret-tool
libglib2.0-bin cmd:gdbus
python3-dbus py:dbus
python3-gi py:gi
python3-dbusmock py:dbusmock
gir1.2-gcr-3 py:gi.repository.Gcr
keepassxc cmd:keepassxc
xvfb cmd:Xvfb
xclip cmd:xclip
LIST
        ;;
    page)
        cat <<'LIST'
python3 cmd:python3
chromium cmd:chromium
chromium-driver cmd:chromedriver
fonts-dejavu-core file:/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
LIST
        ;;
    check)
        cat <<'LIST'
python3 cmd:python3
pkg-config cmd:pkg-config
libsecret-1-dev pc:libsecret-1
LIST
        ;;
    python)
        cat <<'LIST'
python3 cmd:python3
python3-venv venv:
LIST
        ;;
    bench)
        cat <<'LIST'
python3 cmd:python3
curl cmd:curl
hyperfine cmd:hyperfine
time file:/usr/bin/time
LIST
        ;;
    *) die "setup.sh knows no list called $1" 70 ;;
    esac
}

present() {
    local what=${1#*:}
    case $1 in
    cmd:*) PATH=$PATH:/usr/sbin:/sbin command -v "$what" >/dev/null ;;
    hdr:*) [ -n "$(find /usr/include /usr/local/include -path "*/$what" -print -quit 2>/dev/null)" ] ;;
    lib:*) PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null | grep -F "$what " >/dev/null ;;
    link:*) [[ $(cc -print-file-name="$what" 2>/dev/null) == */* ]] ;;
    py:*) /usr/bin/python3 -c "import $what" 2>/dev/null ;;
    pc:*) command -v pkg-config >/dev/null && pkg-config --exists "$what" ;;
    venv:*) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    file:*) [ -e "$what" ] ;;
    esac
}

# Makes sure that everything on the named lists is there.
ensure() {
    local list package probe missing=()
    command -v swift >/dev/null ||
        die "Swift isn't installed. Chappie needs Swift 6.2 or newer: https://www.swift.org/install" 69
    for list in "$@"; do
        while read -r package probe; do
            present "$probe" || missing+=("$package")
        done < <(needs "$list")
    done
    [ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"
    # Debian keeps some daemons where an ordinary person's PATH doesn't look.
    export PATH=$PATH:/usr/sbin:/sbin
    swift_is_new_enough
}

swift_is_new_enough() {
    local printed version
    printed=$(swift --version 2>&1) || die "Swift doesn't run here: $printed" 69
    version=$(sed -n 's/.*Swift version \([0-9]*\.[0-9]*\).*/\1/p' <<<"$printed")
    [ "$(printf '%s\n6.2\n' "$version" | sort -V | head -n 1)" = 6.2 ] ||
        die "this is Swift ${version:-of an unknown version}; Chappie needs 6.2 or newer: https://www.swift.org/install" 69
}

install_packages() {
    command -v apt-get >/dev/null ||
        die "missing here: what Debian calls $*. Install your system's counterparts, then run this again." 69
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "missing: $*. As root: apt-get install $*" 69
        as_root=(sudo)
    fi
    say "Installing from Debian: $*"
    local log
    log=$(mktemp "${TMPDIR:-/tmp}/chappie-apt.XXXXXX")
    # One `update` is enough, and needed only when the lists are older than what is asked for.
    apt_install "${as_root[@]}" -- "$@" >"$log" 2>&1 ||
        { "${as_root[@]}" apt-get update >>"$log" 2>&1 && apt_install "${as_root[@]}" -- "$@" >>"$log" 2>&1; } ||
        { tail -n 20 "$log" >&2; die "apt-get could not install: $* (everything it printed: $log)" 69; }
    rm -f "$log"
}

# Installing a server must not start one: a policy that forbids it stands there for as long as apt runs.
apt_install() {
    local as_root=() policy=/usr/sbin/policy-rc.d status=0 ours=
    while [ "$1" != -- ]; do as_root+=("$1"); shift; done
    shift
    if [ ! -e "$policy" ]; then
        ours=yes
        printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
        "${as_root[@]}" chmod 755 "$policy"
    fi
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$@" || status=$?
    [ -z "$ours" ] || "${as_root[@]}" rm -f "$policy"
    return "$status"
}
