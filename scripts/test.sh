#!/bin/sh
# Everything that a change must pass, in the order in which it fails fastest. `--quick` leaves out tests that start servers.
set -eu
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

step format
cargo fmt --all --check

# With the locks of other systems, unless what builds the client of etcd is missing.
FEATURES=--all-features
if ! command -v protoc >/dev/null 2>&1 || [ ! -e "${PROTOC_INCLUDE:-/usr/include}/google/protobuf/descriptor.proto" ]; then
    FEATURES='--features cli/kube'
    echo 'SKIPPED the locks of other systems: protoc or its .proto files are missing (apt-get install protobuf-compiler libprotobuf-dev)'
fi
export FEATURES

step clippy
# `--all-targets` leaves out the benchmarks that `cargo bench` leaves out.
# shellcheck disable=SC2086
cargo clippy --locked --workspace --lib --bins --tests --examples --bench '*' $FEATURES -- -D warnings
# The default build with the features that it really has, and the tests that only it has.
cargo clippy --locked -p bench -p chaos -p cli --lib --bins --test part -- -D warnings
# The quickstart's, which leaves out what it does not need.
cargo clippy --locked -p cli --no-default-features -- -D warnings
# The library without TLS, for who has no C compiler.
cargo clippy --locked -p lock-core --no-default-features -- -D warnings
if cargo tree --locked -p lock-core --no-default-features -e normal,build --prefix none | grep '^cc '; then
    echo 'lock-core without its feature tls needs a C compiler' >&2
    exit 1
fi

step docs
# The examples are named so that dependencies have the features that they have for clippy, and are not checked anew.
# shellcheck disable=SC2086
RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace $FEATURES --no-deps --document-private-items --lib --bins --examples

step tidy
cargo run --locked --quiet -p xtask -- tidy

step workflows
sh scripts/workflows.sh

if [ "${1:-}" = --quick ]; then
    step 'unit tests'
    # shellcheck disable=SC2086
    cargo test --locked --workspace $FEATURES --lib --bins
else
    step 'unit, integration and doc tests'
    # All of them, also when one fails: a second run costs more than the rest of this one.
    kept=$(mktemp -d)
    trap 'rm -rf "$kept"' EXIT
    # Tests wait for servers and leases most of the time, so several for each processor: one program more than those, and in each as many threads.
    threads=$(getconf _NPROCESSORS_ONLN)
    # shellcheck disable=SC2086
    { RUST_TEST_THREADS=${RUST_TEST_THREADS:-$threads} cargo run --locked --quiet -p xtask -- test --locked --workspace $FEATURES 2>&1 && touch "$kept/passed"; } | tee "$kept/log"
    [ -e "$kept/passed" ] || sh scripts/try-again.sh "$kept/log"
fi
