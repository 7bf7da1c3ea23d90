#!/bin/sh
# Turns the log of a test run that failed into a second try of each failed test, alone. The tests start hundreds of servers
# and wait for their leases; on a shared machine one of them is now and then starved of its time. Who passes alone is named
# as UNSTABLE, which the summary counts. More than five are no accident, and are not tried again.
set -eu
log=$1
most=5

# `-p cli --test decide`, with the names of the tests that failed there.
failed=$(awk '
    /^failures:$/ { inside = 1; names = ""; next }
    /^test result:/ { inside = 0 }
    inside && /^    [^ ]+( \(.*\))?$/ { names = names " " $1 }
    /^error: .*to rerun pass `/ { split($0, part, "`"); print part[2] "|" names; names = "" }
' "$log")
count=$(printf '%s\n' "$failed" | sed 's/[^|]*|//' | wc -w)
# A program that crashed, a doc test and a build that failed name no test.
if [ "$count" = 0 ] || [ "$count" -gt "$most" ] || printf '%s\n' "$failed" | grep -q '|$'; then
    printf '\n%s named tests failed; up to %s of them are tried again, and nothing else is\n' "$count" "$most"
    exit 1
fi

printf '\n== a second try, alone, of %s\n' "$count"
printf '%s\n' "$failed" | while IFS='|' read -r target names; do
    for name in $names; do
        # Of the whole workspace, so that dependencies keep their features and nothing is built anew. Words are arguments of their own.
        # shellcheck disable=SC2086
        cargo test --locked --workspace ${FEATURES:-} ${target#-p * } -- --exact "$name" </dev/null
        printf 'UNSTABLE %s %s: failed, and passed alone\n' "$target" "$name"
    done
done
