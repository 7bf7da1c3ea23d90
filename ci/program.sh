#!/bin/sh
# Gives a job the program: program.sh DIR prints DIR, with `locklab` in it. LOCKLAB_RELEASES, where it is set, has the archive of this processor
# and its checksum (a release's address, or a directory as file://…); else it is built from the sources beside this script, unless it is in DIR already.
set -eu
dir=${1:?usage: program.sh DIR}
source=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

if [ -x "$dir/locklab" ]; then
    printf 'program: %s is there already\n' "$dir/locklab" >&2
elif [ -n "${LOCKLAB_RELEASES:-}" ]; then
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$source/Cargo.toml" | head -n 1)
    sed -e "s|@ADDRESS@|$LOCKLAB_RELEASES|g" -e "s|@VERSION@|$version|g" "$source/deploy/install/install.sh.in" | LOCKLAB_BIN_DIR=$dir sh >&2
else
    (cd "$source" && cargo build --release --locked --manifest-path "$source/Cargo.toml" -p cli) >&2
    cp "${CARGO_TARGET_DIR:-$source/target}/release/locklab" "$dir/locklab"
fi
printf '%s\n' "$dir"
