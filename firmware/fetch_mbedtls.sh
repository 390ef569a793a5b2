#!/bin/sh
# Put the mbedTLS source tree into BUILD/mbedtls, from the distribution's source package.
#
#   firmware/fetch_mbedtls.sh BUILD
#
# The deb-src lists are derived from this machine's own apt sources and live, with apt's other state, inside BUILD:
# no host is named here, no system file changes, and root is not needed. The archive must have the SHA-256 below.
# An archive with that SHA-256 in BUILD/downloads is used as it is, so a second build needs no network.
set -eu

sha256=3b4953aa55a681e084d31892d9904cc5328d6b4958ea57b90ae4b4f94ae69a8d # mbedTLS 2.28.3, archive of the source package

fail() {
    echo "fetch_mbedtls: $1" >&2
    echo "  remedy: $2" >&2
    exit 3
}

[ $# -eq 1 ] || fail "one argument is needed: the build folder" "$0 build"
mkdir -p "$1/downloads"
build=$(cd "$1" && pwd)
downloads=$build/downloads
tree=$build/mbedtls
by_hand="put the mbedTLS 2.28.3 archive with SHA-256 $sha256 into $downloads (any name ending in .tar.*), then run again"

# Two builds may want the tree at the same time.
if command -v flock >/dev/null; then
    exec 9>"$downloads/.lock"
    flock 9
fi

# A file that was removed or edited is as bad as another archive.
[ "$(cat "$tree/.sha256" 2>/dev/null || true)" = "$sha256" ] &&
    (cd "$tree" && sha256sum --check --status .files) 2>/dev/null && exit 0

find_archive() {
    for file in "$downloads"/*.tar.*; do
        [ -f "$file" ] || continue
        if [ "$(sha256sum <"$file" | cut -d' ' -f1)" = "$sha256" ]; then
            archive=$file
            return 0
        fi
    done
    return 1
}

derive_sources() { # the machine's apt sources, both formats, with every deb line as deb-src
    eval "$(apt-config shell list Dir::Etc::sourcelist/f parts Dir::Etc::sourceparts/d)"
    rm -rf "$apt/sources" && mkdir -p "$apt/sources"
    for file in "$list" "$parts"/*.list; do
        [ -f "$file" ] || continue
        sed -n 's/^[[:space:]]*deb\(-src\)\{0,1\}[[:space:]]\{1,\}/deb-src /p' "$file"
    done | sort -u >"$apt/sources/derived.list"
    for file in "$parts"/*.sources; do
        [ -f "$file" ] || continue
        sed 's/^[Tt][Yy][Pp][Ee][Ss]:.*/Types: deb-src/' "$file" >"$apt/sources/$(basename "$file")"
    done
}

fetch() {
    command -v apt-get >/dev/null || fail "no archive in $downloads, and this machine has no apt-get" "$by_hand"
    apt=$build/apt
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    derive_sources
    set -- -q -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$apt/sources" \
        -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o "APT::Sandbox::User=$(id -un)"
    log=$apt/log.txt
    # A foreign repository without sources may fail here; what counts is whether mbedtls is found below.
    apt-get "$@" update >"$log" 2>&1 || true
    version=$(apt-cache "$@" showsrc mbedtls 2>>"$log" |
        awk -v sha="$sha256" '/^Version:/ { version = $2 } $1 == sha { print version; exit }')
    if [ -z "$version" ]; then
        tail -n 5 "$log" >&2
        fail "apt offers no mbedtls source package whose archive has SHA-256 $sha256 (its log: $log)" \
            "check the network and 'apt-get update', or $by_hand"
    fi
    (cd "$downloads" && apt-get "$@" source --download-only --tar-only "mbedtls=$version") >>"$log" 2>&1 || {
        tail -n 5 "$log" >&2
        fail "apt-get could not download mbedtls=$version (its log: $log)" "check the network, or $by_hand"
    }
}

archive=
find_archive || fetch
[ -n "$archive" ] || find_archive ||
    fail "no archive in $downloads has SHA-256 $sha256" "delete what lies there and run again, or $by_hand"

rm -rf "$tree" "$tree.new"
mkdir "$tree.new"
tar -xf "$archive" -C "$tree.new" --strip-components=1 --no-same-owner
(cd "$tree.new" && find . -type f \( -path './library/*' -o -path './include/*' \) -exec sha256sum {} + >.files)
echo "$sha256" >"$tree.new/.sha256"
mv "$tree.new" "$tree"
