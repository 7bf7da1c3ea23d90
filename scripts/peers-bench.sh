#!/bin/sh
# One interleaved run of lock-core and of every peer, each in its own loop and process (`locklab bench --own-loop`), in under 15 minutes on
# two quiet cores; then results/published/DATE-peers, and the tables of docs/src/peers.md that are read from it.
# Further flags of bench may follow: `sh scripts/peers-bench.sh --warmup 2s --rounds 2 --duration 300ms` is a try of 3 minutes.
set -eu
cd "$(dirname "$0")/.."
locklab="${CARGO_TARGET_DIR:-target}/release/locklab"
"${CARGO:-cargo}" build --release --locked -p cli --no-default-features --features tls
sh scripts/peers.sh

subjects=$("$locklab" --json list subjects peer: |
    python3 -c 'import json, sys; print(*(item["name"] for item in json.load(sys.stdin)["items"] if not item.get("system")), sep=",")')
subjects=lock-core:reentrant,lock-core:plain,$subjects
published=results/published/$(date +%F)-peers
new=$(mktemp -d)/peers
given=$*
bench() {
    "$locklab" --seed 7 --out "$new" bench --own-loop --topology single --workload uncontended,contended --tasks 1,16,64,256 \
        --subject "$subjects" "$@"
}
for usual in '--warmup 30s' '--rounds 6' '--duration 800ms'; do
    case " $* " in
    *" ${usual% *} "*) ;;
    *) set -- "$@" ${usual} ;;
    esac
done
bench "$@"

rm -rf results/published/*-peers
mkdir "$published"
cp "$new/run.json" "$new/summary.txt" "$published"
python3 - "$published" "$given" <<'PYTHON'
import json, re, sys
from pathlib import Path

published, flags = sys.argv[1:]
run = json.loads(Path(published, "run.json").read_text())
rows = {(row["subject"], row["workload"], row["tasks"]): row for row in run["rows"]}
tasks = sorted({row["tasks"] for row in run["rows"]})
subjects = list(dict.fromkeys(row["subject"] for row in run["rows"]))


def time(ns):
    return "–" if ns is None else f"{ns / 1e3:.0f} µs" if ns < 1e6 else f"{ns / 1e6:.2f} ms" if ns < 1e9 else f"{ns / 1e9:.2f} s"


def table(heads, cells):
    lines = ["| | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
    for subject in subjects:
        lines.append(f"| `{subject}` | " + " | ".join(cells(subject)) + " |")
    return "\n".join(lines)


def cell(workload, at, show):
    def of(subject):
        row = rows.get((subject, workload, at))
        return "–" if row is None else show(row) if row["valid"] else "not valid"
    return of


def rate(row):
    return f"{row['cycles_per_s']['median']:,.0f}"


def server(row):
    us = row["server_cpu_us_per_cycle"]
    return "–" if us is None else f"{us:.1f} µs"


def handoff(row):
    return time((row["handoff_ns"] or {}).get("p50"))


def columns(all_of):
    return lambda subject: [of(subject) for of in all_of]


some = [at for at in tasks if at > 1]
text = f"""
Acquire and release pairs per second where nobody is in the way, each task with a lock of its own, by number of tasks; and the server's processor time per pair at 64:

{table([f"{at} tasks" for at in tasks] + ["server"], columns([cell("uncontended", at, rate) for at in tasks] + [cell("uncontended", 64, server)]))}

Hand-off where all tasks want one lock, hold it for 1 ms and think for 2 ms: the median from the sending of a release to the grant of another task, by number of tasks:

{table([f"{at} tasks" for at in some], columns([cell("contended", at, handoff) for at in some]))}

The same with 64 tasks: grants per second, how long nearly all wait for one (p99), fairness (Jain: 1 is even), and the server's processor time per grant:

{table(["grants/s", "p99 of waits", "Jain", "server"], columns([cell("contended", 64, show) for show in (rate, lambda row: time(row["acquire_ns"]["p99"]), lambda row: f"{row['jain']:.3f}", server)]))}

Grants per second also depend on how long a hold of 1 ms lasts, which is for each language's timer to say; where that rounds up to whole milliseconds, as in
Rust's usual runtime, there is time for half as many. Compare the hand-offs.

Set beside `{subjects[0]}`, round by round, with 64 tasks (ratio and its 95 % interval; *not shown*: it may be chance):

"""
marks = {"not-shown": " *not shown*"}
for metric, workload, what in (
    ("cycles_per_s", "uncontended", "pairs per second"),
    ("handoff_ns", "contended", "time of a hand-off"),
):
    text += f"- {what}: "
    found = [
        f"`{c['b']}` {c['ratio']['point']:.3g} ({c['ratio']['low']:.3g}–{c['ratio']['high']:.3g}){marks.get(c['verdict'], '')}"
        for c in run["comparisons"]
        if c["metric"] == metric and f"/{workload}/64" in c["where"] and c["ratio"]["low"] is not None
    ]
    text += "; ".join(found or ["too few rounds"]) + "\n"

name = Path(published).name
command = f"sh scripts/peers-bench.sh {flags}".strip()
run_of = f"""
## {name}

`{command}`; [Other libraries](peers.md#speed-from-the-drivers-own-loops) has its tables.

```
{{{{#include ../../{published}/summary.txt}}}}
```
"""
for page, told in (
    ("docs/src/peers.md", f"<!-- figures: {published} -->{text}<!-- /figures -->"),
    ("docs/src/published-runs.md", run_of.strip()),
):
    page = Path(page)
    block = f"<!-- peers-bench -->\n{told}\n<!-- /peers-bench -->"
    page.write_text(re.sub(r"<!-- peers-bench -->.*?<!-- /peers-bench -->", lambda _: block, page.read_text(), flags=re.S))
page = Path("results/published/README.md")
rows = [row for row in page.read_text().splitlines() if "-peers` |" not in row]
last = max(at for at, row in enumerate(rows) if row.startswith("| `"))
rows.insert(last + 1, f"| `{name}` | `{command}` | the same machine |")
page.write_text("\n".join(rows) + "\n")
PYTHON
echo "published: $published; docs/src/peers.md is written anew"
