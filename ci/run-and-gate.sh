#!/bin/sh
# Turns scenarios and a budget into one exit code and a directory of reports: what the GitHub action and the GitLab job both run.
# With a lock of your own it fails when that was lost, whatever a scenario expects. Without scenarios the lock is audited.
# usage: LOCKLAB_SCENARIOS='NAME|FILE …' | LOCKLAB_SUBJECT=LOCK [LOCKLAB_SUITE=quick] [LOCKLAB_SEED=N] [LOCKLAB_BUDGET=FILE] [LOCKLAB_BASE=RUN] run-and-gate.sh DIR
set -u

out=${1:?usage: run-and-gate.sh DIR}
locklab=${LOCKLAB:-locklab}

if [ -n "${LOCKLAB_SCENARIOS:-}" ]; then
    # shellcheck disable=SC2086
    "$locklab" chaos $LOCKLAB_SCENARIOS --seed "${LOCKLAB_SEED:-1}" ${LOCKLAB_SUBJECT:+--subject "$LOCKLAB_SUBJECT"} --out "$out"
else
    "$locklab" audit "${LOCKLAB_SUBJECT:?which scenarios, or which lock?}" --suite "${LOCKLAB_SUITE:-quick}" --seed "${LOCKLAB_SEED:-1}" --out "$out"
fi
code=$?

if [ -f "$out/run.json" ]; then
    "$locklab" report "$out" --format junit -o "$out/junit.xml"
    "$locklab" report "$out" --format html -o "$out/report.html"
    "$locklab" report "$out" --format markdown -o "$out/summary.md"
    if [ -n "${LOCKLAB_BASE:-}" ]; then
        {
            printf '\n### Against the base\n\n```\n'
            "$locklab" compare "$LOCKLAB_BASE" "$out"
            printf '```\n'
        } >>"$out/summary.md"
    fi
    if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
        cat "$out/summary.md" >>"$GITHUB_STEP_SUMMARY"
        "$locklab" report "$out" --format annotations
    fi
    if [ -n "${LOCKLAB_BUDGET:-}" ]; then
        if [ -n "${LOCKLAB_BASE:-}" ]; then
            "$locklab" gate "$out" --budget "$LOCKLAB_BUDGET" --base "$LOCKLAB_BASE"
        else
            "$locklab" gate "$out" --budget "$LOCKLAB_BUDGET"
        fi
        gate=$?
        # A broken expectation (1) is worse than a doubt (2), and either hides no fault of the tools themselves.
        if [ "$code" = 0 ] || { [ "$code" = 2 ] && [ "$gate" = 1 ]; }; then
            code=$gate
        fi
    fi
fi
exit "$code"
