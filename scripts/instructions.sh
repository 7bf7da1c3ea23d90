#!/bin/sh
# Counts the instructions of the pure parts under valgrind. Leaves it out, and says why, where a program for it is missing.
set -eu
cd "$(dirname "$0")/../bench/instructions"

version=$(sed -n 's/^gungraun = "=\(.*\)"$/\1/p' Cargo.toml)
runner=${GUNGRAUN_RUNNER:-gungraun-runner}

skip() {
    echo "instruction counts: left out, $1" >&2
    exit 0
}

command -v valgrind >/dev/null || skip "valgrind is missing; install it: apt-get install valgrind"
command -v "$runner" >/dev/null ||
    skip "gungraun-runner is missing; install it: cargo install --locked gungraun-runner --version $version"

exec "${CARGO:-cargo}" bench "$@"
