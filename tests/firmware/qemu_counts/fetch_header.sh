#!/bin/sh
# Put qemu-plugin.h of the installed QEMU into FOLDER, from the distribution's source package.
#
#   tests/firmware/qemu_counts/fetch_header.sh FOLDER
#
# The deb-src lists are derived from this machine's own apt sources and live, with apt's other state, inside FOLDER.
set -eu

[ $# -eq 1 ] || { echo "one argument is needed: the folder" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
[ -f "$folder/qemu-plugin.h" ] && exit 0

fail() {
    echo "fetch_header: $1" >&2
    exit 3
}

command -v apt-get >/dev/null || fail "this machine has no apt-get to fetch QEMU's source with"
version=$(dpkg-query -W -f '${source:Version}' qemu-system-arm 2>/dev/null) || fail "qemu-system-arm is not installed"
apt=$folder/apt
rm -rf "$apt/sources"
mkdir -p "$apt/sources" "$apt/lists/partial" "$apt/cache/archives/partial"
eval "$(apt-config shell list Dir::Etc::sourcelist/f parts Dir::Etc::sourceparts/d)"
for file in "$list" "$parts"/*.list; do
    [ -f "$file" ] || continue
    sed -n 's/^[[:space:]]*deb\(-src\)\{0,1\}[[:space:]]\{1,\}/deb-src /p' "$file"
done | sort -u >"$apt/sources/derived.list"
for file in "$parts"/*.sources; do
    [ -f "$file" ] || continue
    sed 's/^[Tt][Yy][Pp][Ee][Ss]:.*/Types: deb-src/' "$file" >"$apt/sources/$(basename "$file")"
done
set -- -q -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$apt/sources" \
    -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o "APT::Sandbox::User=$(id -un)"
# A foreign repository without sources may fail here; what counts is whether the package is found below.
apt-get "$@" update >"$apt/log.txt" 2>&1 || true
(cd "$folder" && apt-get "$@" source --download-only --tar-only "qemu=$version") >>"$apt/log.txt" 2>&1 ||
    fail "apt could not download the source of qemu $version (its log: $apt/log.txt)"
archive=$(find "$folder" -maxdepth 1 -name 'qemu_*.orig.tar.*' ! -name '*.asc' | head -n 1)
[ -n "$archive" ] || fail "apt brought no archive of qemu $version"
tar -xf "$archive" -C "$folder" --wildcards --no-same-owner --strip-components=3 '*/include/qemu/qemu-plugin.h'
rm -f "$archive"
