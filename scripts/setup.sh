#!/bin/sh
# Turns a fresh Debian or Ubuntu machine with Rust, make and git into one that can build and run everything here.
# Installs only what is missing. Without root it says what is missing and the command for it, and exits with 69.
# `setup.sh --servers` installs what a program that is built already needs: redis-server.
set -eu

fail() {
    printf 'setup: %s\n' "$1" >&2
    exit 69
}

missing=''
if [ "${1:-}" != --servers ]; then
    command -v cargo >/dev/null 2>&1 || fail 'no Rust toolchain: install one from https://rustup.rs, then run this again'
    command -v cc >/dev/null 2>&1 || missing="$missing gcc libc6-dev"
    # Drivers of locks in another language, as the tests try them, are in Python.
    command -v python3 >/dev/null 2>&1 || missing="$missing python3"
fi

server_major() {
    redis-server --version 2>/dev/null | sed -n 's/.* v=\([0-9][0-9]*\)\..*/\1/p'
}
major=$(server_major || true)
[ -n "$major" ] || missing="$missing redis-server"

if [ -n "$missing" ]; then
    command -v apt-get >/dev/null 2>&1 || fail "missing:$missing. Install them with this system's package manager (Redis 7 or newer)"
    if [ "$(id -u)" = 0 ]; then
        sudo=''
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        sudo='sudo'
    else
        fail "missing:$missing. As root: apt-get update && apt-get install --no-install-recommends$missing"
    fi
    printf 'setup: installing%s\n' "$missing" >&2
    $sudo apt-get update -qq
    # RUNLEVEL=1 keeps the package from starting a server of its own on port 6379: ours are started per run.
    # shellcheck disable=SC2086
    $sudo env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
    major=$(server_major || true)
fi

[ -n "$major" ] || fail 'redis-server still does not answer --version'
[ "$major" -ge 7 ] || fail "redis-server $major is too old: 7 or newer is needed. Debian 12 and Ubuntu 24.04 have it"
