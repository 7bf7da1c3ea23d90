#!/bin/sh
# Audits every peer that is built and one lock of our own, or the locks that are named, runs what was convicted three times more, and leaves what
# the book's pages of what libraries keep are made of: publish-audit.sh LOCKLAB OUT [SUITE [SUBJECT...]]. OUT is a directory below
# results/published, made anew: DATE-audit for all libraries, DATE-rust-shelf for those of Rust. JOBS is how many scenarios run at a time.
set -eu
locklab=$1
out=$2
suite=${3:-standard}
shift $(($# < 3 ? $# : 3))
jobs=${JOBS:-4}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PATH=$(cd "$(dirname "$locklab")" && pwd):$PATH
subjects="$*"
[ -n "$subjects" ] || subjects="lock-core:reentrant $(locklab --json list subjects peer: |
    python3 -c 'import json, sys; print(*(item["name"] for item in json.load(sys.stdin)["items"] if not item.get("missing") and not item.get("system")))')"

# Faults are not drawn: what they find is no scenario by name, which other seeds could repeat. Exit codes 1 and 2 say that something is broken or unknown: that is what is to be published.
locklab --seed 7 audit $subjects --suite "$suite" --jobs "$jobs" --draw 0s --no-bench --out "$work/audit" >"$work/summary.txt" || [ $? -le 2 ]
python3 - "$work/audit/audit.json" >"$work/broken" <<'PY'
import json, sys
for subject in json.load(open(sys.argv[1]))["subjects"]:
    broken = [one["name"] for one in subject["scenarios"] if one["outcome"] == "broken"]
    if broken:
        print(subject["name"], ",".join(broken))
PY
mkdir -p "$out"
rm -f "$out"/repeats-*.json
while read -r subject scenarios; do
    locklab --seed 101 audit "$subject" --scenario "$scenarios" --repeat 3 --jobs "$jobs" --no-bench --out "$work/again" </dev/null >/dev/null || [ $? -le 2 ]
    mv "$work/again/audit.json" "$out/repeats-$(echo "$subject" | tr -c 'a-z0-9\n' -).json"
    rm -rf "$work/again"
done <"$work/broken"
mv "$work/audit/audit.json" "$work/audit/report.html" "$work/summary.txt" "$out"
echo "$out is complete. The page: LOCKLAB_BLESS=1 cargo test -p results --test what_libraries_keep"
