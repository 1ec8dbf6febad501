# Makes the root of a new Debian 12 in a folder: debian.sh FOLDER [PACKAGE…]. It needs root. The new apt has the mirrors and the
# settings of this machine's.
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Prints the Debian mirrors that this machine uses, and nothing if it has never fetched their lists of packages.
mirrors() {
    apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)' "Created-By: Packages" |
        awk '$3 ~ /^bookworm/ && $5 == "Debian" { print $1, $2, $3, $4 }'
}

folder=$1
shift
make_work_folder
sources=$(mirrors) || :
apt-config dump | grep '^Acquire::' | grep -v '^Acquire::IndexTargets' >"$work/apt"
mmdebstrap --quiet --variant=minbase --aptopt="$work/apt" ${1:+--include="$(tr ' ' , <<<"$*")"} \
    bookworm "$folder" ${sources:+-} <<<"$sources"
cp -L /etc/resolv.conf /etc/hosts "$folder/etc/"
