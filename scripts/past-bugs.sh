#!/bin/sh
# Puts bugs of the library that were fixed back, one at a time (simulation/tests/past/*.patch), and lets simulated time look for each.
# Each patch says in its first lines what it undoes, and after `seeds:` where to look. Prints the first seed that convicts it, and whether
# the library as it is comes out of the same seeds clean. Exits with 1 where a bug is not found, with 2 where a patch no longer applies.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
copy=$(mktemp -d)
trap 'git worktree remove --force "$copy/tree" >/dev/null 2>&1; rm -rf "$copy"' EXIT
trap 'exit 130' INT TERM
git worktree add -q --detach "$copy/tree" HEAD
cd "$copy/tree"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$root/target}/past"

build() {
    # Not optimised: some hundred seeds take less time than that.
    cargo build -q --locked -p cli --no-default-features --features simulate
    cp "$CARGO_TARGET_DIR/debug/locklab" "$copy/$1"
}

# The seeds that convict, of those that a patch names.
convicted() {
    # shellcheck disable=SC2086 # several flags
    (cd "$copy" && "./$1" simulate --json $2 2>"$copy/said" || [ $? -eq 1 ]) |
        python3 -c 'import json, sys; print(*(one["seed"] for one in json.load(sys.stdin)["convicted"]))'
}

build sound
failed=0
for patch in "$root"/simulation/tests/past/*.patch; do
    name=$(basename "$patch" .patch)
    if ! git apply "$patch"; then
        echo "$name: the patch does not apply any more; write it anew for what the code is now" >&2
        exit 2
    fi
    build broken
    git checkout -q .
    flags=$(sed -n 's/^seeds: //p' "$patch")
    found=$(convicted broken "$flags")
    sound=$(convicted sound "$flags")
    if [ -n "$found" ] && [ -z "$sound" ]; then
        echo "$name: found by seed ${found%% *}, of $flags"
    else
        echo "$name: NOT FOUND, of $flags (convicts ${found:-nothing}; the library as it is: ${sound:-nothing})"
        failed=1
    fi
done
exit $failed
