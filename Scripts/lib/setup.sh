# What a machine needs, and how it gets it: `demand build check` only looks, `ensure build test` installs what is missing and
# says so. Source it after common.sh.
# shellcheck shell=bash

# What Swift's makers name for Debian 12 (https://www.swift.org/install/linux/tarball).
swift_packages="binutils git gnupg2 libc6-dev libcurl4-openssl-dev libedit2 libgcc-12-dev libpython3.11 libsqlite3-0 libstdc++-12-dev \
libxml2-dev libncurses-dev libz3-dev pkg-config tzdata zlib1g-dev"

# Each word is a Debian package, then where to see that it is there: a program in PATH, a header, or a path; lib: a shared
# library; py: a module of /usr/bin/python3; pc: a name of pkg-config.
needs() {
    case $1 in
    build) echo libncurses6=lib:libncurses.so.6 libsqlite3-0=lib:libsqlite3.so.0 libxml2=lib:libxml2.so.2 gcc=cc libc6-dev=stdlib.h \
        g++=g++ git=git ca-certificates=/etc/ssl/certs/ca-certificates.crt libcurl4-openssl-dev=curl/curl.h \
        libzstd-dev=zstd.h zlib1g-dev=zlib.h libssl-dev=openssl/evp.h libsqlite3-dev=sqlite3.h libedit-dev=histedit.h \
        libqrencode-dev=qrencode.h libpq-dev=libpq-fe.h libcmark-gfm-dev=cmark-gfm.h libcmark-gfm-extensions-dev=cmark-gfm-core-extensions.h ;;
    test) echo python3=python3 python3-venv=py:ensurepip curl=curl time=/usr/bin/time openssl=openssl zstd=zstd systemd=busctl procps=ps iproute2=ip util-linux=unshare strace=strace valgrind=valgrind \
        nginx=nginx tmux=tmux tinyproxy=tinyproxy microsocks=microsocks libnss-wrapper=lib:libnss_wrapper.so dbus=dbus-daemon \
        gnome-keyring=gnome-keyring-daemon libsecret-1-0=lib:libsecret-1.so.0 libsecret-tools=secret-tool libglib2.0-bin=gdbus \
        python3-dbus=py:dbus python3-gi=py:gi python3-dbusmock=py:dbusmock gir1.2-gcr-3=py:gi.repository.Gcr \
        keepassxc=keepassxc libkf5wallet-bin=kwalletd5 libqca-qt5-2-plugins=/usr/share/doc/libqca-qt5-2-plugins/copyright xvfb=Xvfb xclip=xclip xterm=xterm xfonts-base=/usr/share/fonts/X11/misc \
        libgtk-4-dev=pc:gtk4 openbox=openbox xdotool=xdotool at-spi2-core=/usr/libexec/at-spi2-registryd \
        gir1.2-atspi-2.0=py:gi.repository.Atspi zbar-tools=zbarimg imagemagick=import chromium=chromium chromium-driver=chromedriver \
        mmdebstrap=mmdebstrap lintian=lintian postgresql-15=/usr/lib/postgresql/15/bin/postgres pgbouncer=pgbouncer fonts-dejavu-core=/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf ;;
    check) echo python3=python3 valgrind=valgrind pkg-config=pkg-config libsecret-1-dev=pc:libsecret-1 ;;
    package) echo python3=python3 dpkg-dev=dpkg-shlibdeps binutils=readelf git=git ;;
    fresh) echo mmdebstrap=mmdebstrap git=git util-linux=unshare procps=pkill ;;
    esac
}

is_there() {
    case $1 in
    /*) [ -e "$1" ] ;;
    *.h) [ -n "$(find /usr/include /usr/local/include -path "*/$1" -print -quit 2>/dev/null)" ] ;;
    lib:*) ldconfig -p | grep -qF "${1#*:}" || [[ $(cc -print-file-name="${1#*:}" 2>/dev/null) == */* ]] ;;
    py:*) /usr/bin/python3 -c "import ${1#*:}" 2>/dev/null ;;
    pc:*) pkg-config --exists "${1#*:}" 2>/dev/null ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

# Sets `missing` to the packages on these lists that are not there.
look_for() {
    local list need
    missing=()
    for list in "$@"; do
        for need in $(needs "$list"); do
            is_there "${need#*=}" || missing+=("${need%%=*}")
        done
    done
}

# Wants a Swift that is new enough. One that can't start says why: as a rule a shared library is missing.
demand_swift() {
    local said version
    command -v swift >/dev/null || die "Chappie needs Swift 6.2 or newer, and here is none: https://www.swift.org/install" 69
    said=$(swift --version 2>&1) || :
    version=$(sed -n 's/.*Swift version \([0-9]*\.[0-9]*\).*/\1/p' <<<"$said")
    [ -n "$version" ] || die "$(command -v swift) can't start: $said
With Debian 12, Swift needs: apt-get install $swift_packages" 69
    [ "$(printf '%s\n6.2\n' "$version" | sort -V | head -n 1)" = 6.2 ] ||
        die "Chappie needs Swift 6.2 or newer, and here is $version: https://www.swift.org/install" 69
}

demand() {
    look_for "$@"
    [ ${#missing[@]} -eq 0 ] || die "missing: ${missing[*]}. With Debian: apt-get install ${missing[*]}" 69
    demand_swift
}

ensure() {
    install_missing "$@"
    demand_swift
}

install_missing() {
    local as_root=()
    look_for "$@"
    [ ${#missing[@]} -gt 0 ] || return 0
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    command -v apt-get "${as_root[@]}" >/dev/null || demand "$@"
    say "Installing from Debian: ${missing[*]}"
    # One `update` is needed only when the lists are older than what is asked for.
    install_packages "${as_root[@]}" >"$work/apt.log" 2>&1 ||
        { "${as_root[@]}" apt-get update >>"$work/apt.log" 2>&1 && install_packages "${as_root[@]}" >>"$work/apt.log" 2>&1; } ||
        { tail -n 20 "$work/apt.log" >&2; die "apt-get could not install: ${missing[*]}" 69; }
}

# Installing a server must not start one: a policy that forbids it stands there for as long as apt runs.
install_packages() {
    local policy=/usr/sbin/policy-rc.d ours= status=0
    [ -e "$policy" ] || { ours=yes; printf '#!/bin/sh\nexit 101\n' | "$@" tee "$policy" >/dev/null; "$@" chmod 755 "$policy"; }
    "$@" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}" || status=$?
    [ -z "$ours" ] || "$@" rm -f "$policy"
    return "$status"
}

# Sets `python` to an environment with what the tests need from PyPI; made once, and again when the list has changed.
ensure_python() {
    local there=${XDG_CACHE_HOME:-$HOME/.cache}/chappie-tests/python list=$root/Tests/Acceptance/requirements.txt
    python=$there/bin/python
    ! cmp -s "$list" "$there/complete" || { ensure_former_mcp "$there"; return; }
    say "Installing from PyPI into $there: $(grep -o '^[^=#]*' "$list" | paste -sd ' ') litellm"
    make_python "$there" "$list" >"$work/pip.log" 2>&1 || { tail -n 20 "$work/pip.log" >&2; die "pip could not install what $list names" 69; }
    cp "$list" "$there/complete"
    ensure_former_mcp "$there"
}

# The generation of the mcp package before the one on the list, in a folder beside it that goes into PYTHONPATH: both have the
# same name. What else it needs, the environment has.
ensure_former_mcp() {
    local there=$1/mcp-1.30
    [ ! -d "$there" ] || return 0
    say "Installing from PyPI into $there: mcp==1.30.0"
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$there.new" mcp==1.30.0 httpx-sse==0.4.3 \
        >"$work/pip.log" 2>&1 || { tail -n 20 "$work/pip.log" >&2; die "pip could not install mcp 1.30" 69; }
    mv "$there.new" "$there"
}

# litellm pins a certifi that mirrors may not have yet; certificates play no part on loopback. The source of jsonschema carries
# the official JSON-Schema-Test-Suite. Of axe-playwright-python the script of axe-core is used, Playwright is not.
make_python() {
    local pip=("$python" -m pip install --quiet --disable-pip-version-check)
    rm -rf "$1" && python3 -m venv "$1" && "${pip[@]}" -r "$2" && "${pip[@]}" --no-deps litellm==1.109.1 axe-playwright-python==0.1.8 || return
    "$python" -c 'import importlib.metadata as m; print(*(l for l in m.requires("litellm") if "extra" not in l and "certifi" not in l), sep="\n")' \
        >"$1/litellm.txt" && "${pip[@]}" -r "$1/litellm.txt" &&
        "$python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary jsonschema --dest "$1" jsonschema==4.26.0 &&
        tar -xzf "$1/jsonschema-4.26.0.tar.gz" -C "$1"
}
