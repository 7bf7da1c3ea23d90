#!/bin/sh
# Packages lock-core as a registry takes it, with the public address of this repository in its manifest. The tree names no address, since
# copies of it have different ones: REPOSITORY gives it, else the remote `origin` of this clone.
set -eu
cd "$(dirname "$0")/.."
address=${REPOSITORY:-$(git remote get-url origin 2>/dev/null || true)}
# git@host:path is https://host/path; what stands before an @ may be a token, which must not be published.
address=$(printf '%s' "$address" | sed -E 's|^(ssh://)?git@([^:/]+)[:/]|https://\2/|; s|^https://[^/@]*@|https://|; s|\.git/?$||')
if ! printf '%s' "$address" | grep -Eq '^https://[A-Za-z0-9.-]+(:[0-9]+)?/[A-Za-z0-9._~/-]+$'; then
    echo 'package: this clone has no remote `origin` with a public address; give one: make package REPOSITORY=https://example.org/locklab' >&2
    exit 64
fi
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
