#!/bin/sh
# One part of the plan, its number in JOB_COMPLETION_INDEX: runs what that number gives it, and leaves the run with the results.
set -eu
out=/results/part-$JOB_COMPLETION_INDEX
# What an earlier try of this part left is no result, and joined with this one it would count twice.
rm -rf "$out"

# Its own servers, out of those of all parts.
if [ -n "${NODES:-}" ]; then
    list=
    for node in $URL_NODES; do
        list=$list${list:+,}$HOST_BEFORE$((JOB_COMPLETION_INDEX * NODES + node))$HOST_AFTER:6379
    done
    TARGET=$URL_BEFORE$list$URL_AFTER
    # A lock that is granted shows that they have found each other. Without one this part ends with 69, and is tried again.
    tries=0
    until locklab lock "$TARGET" locklab:ready --wait 2s -- true; do
        tries=$((tries + 1))
        [ "$tries" -lt 60 ] || exit 69
        sleep 1
    done
    set -- "$@" --yes-this-is-mine
fi
[ -z "${TARGET:-}" ] || set -- "$@" --target "$TARGET"
exec locklab chaos /locklab/scenario.toml "$@" --out "$out"
