#!/bin/sh
# Where the action's program comes from, as outputs of its first step: `releases`, the address of the release whose tag the action is used at, or
# nothing; and `key`, by which a program that was built from these sources is found again. From the environment: RELEASES, REF and REPOSITORY.
set -eu
releases=${RELEASES:-}
case "${REF:-}" in
v[0-9]*.[0-9]*.[0-9]*) releases=${releases:-${GITHUB_SERVER_URL:-https://github.com}/$REPOSITORY/releases/download/$REF} ;;
esac
sources=$(cd "$(dirname "$0")/.." && find . -path ./target -prune -o \( -name '*.rs' -o -name '*.toml' -o -name '*.lock' -o -name '*.lua' -o -name '*.c' \) -print |
    LC_ALL=C sort | xargs cat | sha256sum | cut -c 1-16)
{
    printf 'releases=%s\n' "$releases"
    printf 'key=locklab-%s-%s\n' "$(uname -m)" "$sources"
} >>"$GITHUB_OUTPUT"
