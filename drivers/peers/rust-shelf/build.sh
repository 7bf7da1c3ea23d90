#!/bin/sh
# Fetches the pinned libraries (Cargo.lock) and builds a driver of each into build/.
set -eu
cd "$(dirname "$0")"
command -v cargo >/dev/null || { echo "there is no cargo; \`apt-get install cargo\` or rustup provides it" >&2; exit 69; }
cargo build --quiet --release --locked --target-dir build
