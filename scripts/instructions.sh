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
install="cargo install --locked gungraun-runner --version $version"
command -v "$runner" >/dev/null || skip "gungraun-runner is missing; install it: $install"
# Said before the build, which takes some minutes, instead of after it.
found=$("$runner" --version | sed 's/.* //')
[ "$found" = "$version" ] || skip "gungraun-runner is $found, and the benches need $version; install it: $install"

exec "${CARGO:-cargo}" bench --locked "$@"
