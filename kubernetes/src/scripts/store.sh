#!/bin/sh
# Carries results to a bucket when the work beside it is over, which it learns by SIGTERM. `fetch` brings there what others have left.
set -eu
[ "${1:-}" != fetch ] || exec rclone copy "$BUCKET" /results
keep() {
    for run in /results/*/; do
        name=$(basename "$run")
        rclone sync "$run" "$BUCKET/$name"
    done
    exit 0
}
trap keep TERM
while :; do
    sleep 1 &
    wait $! || true
done
