#!/bin/sh
# Packages lock-core as a registry takes it, with the public address of this repository in its manifest. `address.sh` says where it comes from.
set -eu
cd "$(dirname "$0")/.."
address=$(sh scripts/address.sh) || { echo 'package: not without that address: make package REPOSITORY=…' >&2; exit 64; }
if [ -n "$(git status --porcelain -- lock-core Cargo.toml Cargo.lock)" ]; then
    echo 'package: lock-core has changes that are not committed' >&2
    exit 65
fi
target=$(pwd)/target
target=${CARGO_TARGET_DIR:-$target}
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
trap 'exit 130' INT TERM
git archive HEAD | tar -x -C "$copy"
sed -i "s|^readme = .*|&\nrepository = \"$address\"|" "$copy/lock-core/Cargo.toml"
(cd "$copy" && CARGO_TARGET_DIR="$target" "${CARGO:-cargo}" package --locked -p lock-core)
echo "package: $(ls "$target"/package/lock-core-*.crate), repository $address"
