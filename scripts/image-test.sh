#!/bin/sh
# Runs the container image as its users do: image-test.sh IMAGE. Says SKIPPED where no engine answers.
set -eu
image=${1:?say: image-test.sh IMAGE}
if ! docker version >/dev/null 2>&1; then
    echo 'SKIPPED the container image: no engine answers'
    exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM

echo '== without a flag'
docker run --rm "$image" quickstart --seed 7
echo '== nothing but loopback, nothing written but /runs and /tmp, the run kept as the caller'
mkdir "$dir/runs"
docker run --rm --network none --read-only --user "$(id -u):$(id -g)" -v "$dir/runs:/runs" "$image" quickstart --seed 7
test -s "$dir/runs/latest/report.html"
echo '== its user and its servers'
test "$(docker run --rm --entrypoint id "$image" -u)" != 0
docker run --rm --entrypoint sh "$image" -c 'redis-server --version && valkey-server --version'
size=$(docker save "$image" | gzip -1 | wc -c)
echo "== $((size / 1000000)) MB compressed"
[ "$size" -le 80000000 ]
