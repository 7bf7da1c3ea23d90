#!/bin/sh
# Runs many seeds of the library in simulated time, in a build for them: usage: seeds.sh FROM SEEDS
# The build is guided by what the program does: first it is built with counters and runs some seeds, then for what was counted, which makes
# a seed an eighth cheaper and takes three times as long to build. That needs rustc's own llvm-profdata (`rustup component add llvm-tools`);
# without it, or with GUIDED=no, it is built once. What was counted is kept with the builds; GUIDED=again counts anew.
set -eu
cd "$(dirname "$0")/.."
from=$1 seeds=$2
cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-$PWD/target}
host=$(rustc -vV | sed -n 's/^host: //p')
profdata=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
counted=$target/guided/counted

# Build scripts and macros are for the host, and so neither counted nor guided, where a target is named.
build() {
    dir=$1
    shift
    CARGO_TARGET_DIR=$dir "$@" "$cargo" build --profile simulate --locked --target "$host" -p cli --no-default-features --features simulate
}

if [ "${GUIDED:-yes}" = no ] || [ ! -x "$profdata" ]; then
    [ "${GUIDED:-yes}" = no ] || echo "seeds: not guided by counts; rustup component add llvm-tools" >&2
    build "$target" env
    exec "$target/$host/simulate/locklab" --seed "$from" simulate --seeds "$seeds"
fi
if [ "${GUIDED:-yes}" = again ] || [ ! -e "$counted/merged.profdata" ]; then
    rm -rf "$counted"
    mkdir -p "$counted"
    # By the same profile: the names of functions, by which counts are found again, come from it.
    build "$target/guided/counting" env RUSTFLAGS="-Cprofile-generate=$counted --cfg training"
    echo "seeds: counting what 300 of them call" >&2
    LLVM_PROFILE_FILE="$counted/%2m.profraw" "$target/guided/counting/$host/simulate/locklab" --seed 1 simulate --seeds 300 --json >"$counted/seeds.json" || [ $? -eq 1 ]
    "$profdata" merge -o "$counted/merged.profdata" "$counted"/*.profraw
fi
build "$target/guided" env RUSTFLAGS="-Cprofile-use=$counted/merged.profdata"
exec "$target/guided/$host/simulate/locklab" --seed "$from" simulate --seeds "$seeds"
