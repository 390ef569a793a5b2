#!/bin/sh
# Install distribution packages where something that they bring is missing.
#   setup/apt.sh "PACKAGE ..." "NEEDED ..."
# NEEDED is a command, a file (with its whole path), or python:MODULE.
# Root installs them; elsewhere the exact command is printed and the exit status is 3.
set -eu
packages=$1
missing=""
for needed in $2; do
    case $needed in
        /*) [ -e "$needed" ] || missing="$missing $needed" ;;
        python:*) "${PYTHON:-python3}" -c "import ${needed#python:}" 2>/dev/null || missing="$missing $needed" ;;
        *) command -v "$needed" >/dev/null 2>&1 || missing="$missing $needed" ;;
    esac
done
[ -n "$missing" ] || exit 0
install="apt-get install -y --no-install-recommends $packages"
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "missing:$missing; installing $packages"
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    if { apt-get update && DEBIAN_FRONTEND=noninteractive $install; } >"$log" 2>&1; then
        exit 0
    fi
    tail -n 20 "$log" >&2
    echo "installing $packages failed; the last lines of apt-get are above" >&2
    exit 3
fi
echo "missing:$missing; install them with:" >&2
echo "    sudo apt-get update && sudo $install" >&2
exit 3
