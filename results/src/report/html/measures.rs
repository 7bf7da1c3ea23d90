//! Turns what benchmark rows say beyond rate and latency into tables: how locks were passed on, what renewal and memory cost, how an open
//! loop kept its schedule, and the curves of sweeps.

use super::bench::Cell;
use super::table::{Line, TableView, figures, words};
use crate::measures::{Measures, Sweep};
use crate::report::cells;
use crate::run::{BenchRow, Quantiles, Run};
use crate::units;

fn time(ns: Option<u64>) -> Cell {
    Cell::figure(
        ns.map_or("–".to_owned(), units::duration),
        ns.map(|ns| ns as f64),
    )
}

fn figure(value: Option<f64>) -> Cell {
    Cell::figure(value.map_or("–".to_owned(), units::figure), value)
}

fn count(value: u64) -> Cell {
    Cell::figure(units::count(value), Some(value as f64))
}

fn share(value: Option<f64>) -> Cell {
    Cell::figure(
        value.map_or("–".to_owned(), |share| {
            format!("{} %", units::figure(100.0 * share))
        }),
        value,
    )
}

fn p50(quantiles: Option<&Quantiles>) -> Cell {
    time(quantiles.and_then(|quantiles| quantiles.p50))
}

fn p99(quantiles: Option<&Quantiles>) -> Cell {
    time(quantiles.and_then(|quantiles| quantiles.p99))
}

/// A line of a row, unless its figures are void.
fn line(row: &BenchRow, cells_of: impl FnOnce(&Measures) -> Option<Vec<Cell>>) -> Option<Line> {
    if cells::is_void(row) {
        return None;
    }
    Some(Line {
        name: row.subject.clone(),
        small: row.place(),
        dim: !row.valid,
        cells: cells_of(&row.measures)?,
    })
}

/// All tables that have a row.
pub(super) fn tables(run: &Run) -> Vec<TableView> {
    [passing(run), open_loop(run), renewal(run), others(run)]
        .into_iter()
        .flatten()
        .collect()
}

fn passing(run: &Run) -> Option<TableView> {
    let rows = run.rows.iter().filter_map(|row| {
        line(row, |measures| {
            let passing = measures.passing.as_ref()?;
            Some(vec![
                p50(row.handoff_ns.as_ref()),
                p99(row.handoff_ns.as_ref()),
                p50(passing.notified_ns.as_ref()),
                figure(passing.commands_per_handoff),
                figure(passing.wasted_commands_per_grant),
                figure(Some(row.jain)),
                count(passing.most_bypasses),
                share(Some(passing.inversions)),
                count(passing.starved),
                figure(passing.share_min),
                figure(passing.longest_over_median),
                share(Some(passing.idle)),
                time(Some(passing.longest_idle_ns)),
                count(passing.lost_wakeups),
            ])
        })
    });
    TableView {
        id: "passing",
        title: "From hand to hand",
        note: "How a lock that others wait for is passed on, how fair that is, and what is wasted on the way.",
        heads: vec![
            words("Subject", "The lock under test, and where it was measured"),
            figures(
                "Hand-off p50",
                "From the sending of a release to the next owner's return from acquire",
            ),
            figures("p99", "The same, 99 of 100"),
            figures(
                "Told and woken p50",
                "From the answer to a release to the grant of a task that was waiting by then",
            ),
            figures("Commands", "Commands that clients sent per hand-off to another task"),
            figures(
                "Wasted",
                "Commands per grant beyond the one that takes and the one that gives back",
            ),
            figures("Jain", "Fairness over tasks: 1 is even"),
            figures("Bypassed", "The most later callers that one call had to see pass"),
            figures("Out of order", "Grants that passed over a call that was there before"),
            figures("Starved", "Tasks that asked and got nothing"),
            figures("Least client", "What the client that got least got, over an even share: 1 is even"),
            figures("Longest wait", "As a multiple of the median wait"),
            figures("Idle", "Share of the time in which the lock was free although somebody waited"),
            figures("Longest idle", "The longest of these times"),
            figures(
                "Lost wake-ups",
                "Times that the lock was free for more than 100 ms although somebody waited",
            ),
        ],
        rows: rows.collect(),
    }
    .trimmed()
}

fn open_loop(run: &Run) -> Option<TableView> {
    let rows = run.rows.iter().filter_map(|row| {
        line(row, |measures| {
            let pacing = measures.pacing.as_ref()?;
            let response = measures.response_ns.as_ref();
            Some(vec![
                figure(Some(pacing.offered_per_s)),
                figure(Some(pacing.achieved_per_s)),
                p50(response),
                p99(response),
                time(row.acquire_ns.p50),
                time(row.acquire_ns.p99),
                count(pacing.late),
                count(pacing.not_begun),
                p99(Some(&pacing.lag_ns)),
            ])
        })
    });
    TableView {
        id: "open-loop",
        title: "Open loop",
        note: "Cycles began on a schedule. Response is timed from when a cycle was due, service from when it was sent: where the two part, \
               calls were queueing.",
        heads: vec![
            words("Subject", "The lock under test, and where it was measured"),
            figures("Offered/s", "Cycles per second that the schedule asked for"),
            figures("Achieved/s", "Cycles per second that were completed"),
            figures("Response p50", "From the due time to the grant"),
            figures("p99", "The same, 99 of 100"),
            figures("Service p50", "From the sending to the grant"),
            figures("p99", "The same, 99 of 100"),
            figures("Late", "Ticks that began more than a millisecond after they were due"),
            figures("Not begun", "Ticks that were due and had not begun at the window's end"),
            figures("Generator's lag p99", "How late the generator itself woke"),
        ],
        rows: rows.collect(),
    }
    .trimmed()
}

fn renewal(run: &Run) -> Option<TableView> {
    let rows = run.rows.iter().filter_map(|row| {
        line(row, |measures| {
            let renewal = measures.renewal.as_ref()?;
            Some(vec![
                count(renewal.held),
                figure(renewal.renewals_per_s),
                figure(renewal.commands_per_s_per_1000),
                figure(renewal.server_cpu_us_per_s_per_1000),
                figure(renewal.client_cpu_us_per_s_per_1000),
                time(renewal.least_margin_ns),
                time(renewal.margin_p001_ns),
                count(renewal.lost),
                figure(renewal.server_bytes_per_lock),
                figure(renewal.client_bytes_per_lock),
            ])
        })
    });
    TableView {
        id: "renewal",
        title: "Renewal and memory",
        note: "What it costs to keep locks that are held for long.",
        heads: vec![
            words("Subject", "The lock under test, and where it was measured"),
            figures("Held", "Locks held through the window"),
            figures("Renewals/s", "As clients reported them"),
            figures("Commands", "Per second and 1,000 held locks"),
            figures("Server µs", "Server CPU per second and 1,000 held locks"),
            figures("Client µs", "Client CPU per second and 1,000 held locks"),
            figures(
                "Least margin",
                "What was left of the lease when its renewal was sent, at least",
            ),
            figures("99.9 % have", "The margin that 99.9 % of renewals exceed"),
            figures(
                "Lost",
                "Locks that the library said it had lost although nobody took them",
            ),
            figures("Server B/lock", "Server memory per held lock"),
            figures(
                "Client B/lock",
                "Memory of the client process per held lock",
            ),
        ],
        rows: rows.collect(),
    }
    .trimmed()
}

fn others(run: &Run) -> Option<TableView> {
    let rows = run.rows.iter().filter_map(|row| {
        line(row, |measures| {
            let has_any = measures.recovery_ns.is_some()
                || measures.connect_ns.is_some()
                || measures.wave_ns.is_some()
                || measures.write_ns.is_some()
                || measures.most_at_once.is_some()
                || measures.ten_thousand_pairs_ns.is_some()
                || measures
                    .client_bytes_per_waiter
                    .is_some_and(|bytes| bytes > 0.0)
                || measures.wait_tail.is_some();
            let tail = measures.wait_tail;
            has_any.then(|| {
                vec![
                    p50(measures.recovery_ns.as_ref()),
                    p99(measures.recovery_ns.as_ref()),
                    p50(measures.recovery_late_ns.as_ref()),
                    p50(measures.connect_ns.as_ref()),
                    p50(measures.wave_ns.as_ref()),
                    p50(measures.read_ns.as_ref()),
                    p50(measures.write_ns.as_ref()),
                    figure(measures.most_at_once.map(|most| most as f64)),
                    time(measures.ten_thousand_pairs_ns),
                    figure(
                        measures
                            .client_bytes_per_waiter
                            .filter(|bytes| *bytes > 0.0),
                    ),
                    time(tail.and_then(|tail| tail.p50_ns)),
                    time(tail.and_then(|tail| tail.p99_ns)),
                ]
            })
        })
    });
    TableView {
        id: "others",
        title: "Recovery, herds, sides, waiting",
        note: "What single workloads measure besides.",
        heads: vec![
            words("Subject", "The lock under test, and where it was measured"),
            figures(
                "Recovery p50",
                "From the death of a holder to the next grant",
            ),
            figures("p99", "The same, 99 of 100"),
            figures(
                "Beyond the lease p50",
                "From the end of the dead holder's lease to the next grant",
            ),
            figures("Connect p50", "Connecting a client"),
            figures(
                "Herd p50",
                "From a herd's arrival to the release of its last member",
            ),
            figures("Read p50", "Acquires of the reading side"),
            figures("Write p50", "Acquires of the writing side"),
            figures(
                "At once",
                "The most holds that lasted at once: readers, permits, different locks",
            ),
            figures(
                "10,000 pairs",
                "Acquire and release, one after the other, by one task",
            ),
            figures(
                "B per waiter",
                "Memory of the client process per waiting call",
            ),
            figures(
                "Wait p50",
                "Waits, those that gave up counted as longer than they lasted",
            ),
            figures("Wait p99", "The same, 99 of 100"),
        ],
        rows: rows.collect(),
    }
    .trimmed()
}

/// The table of one sweep.
pub(super) fn sweep(sweep: &Sweep) -> Option<TableView> {
    let rows = sweep.points.iter().map(|point| Line {
        name: units::figure(point.level),
        small: if point.valid {
            String::new()
        } else {
            "✗ not to be quoted".to_owned()
        },
        dim: !point.valid,
        cells: vec![
            figure(Some(point.cycles_per_s.median)),
            time(point.latency_ns.p50),
            time(point.latency_ns.p99),
            time(point.handoff_p50_ns),
            figure(point.commands_per_cycle),
            figure(point.server_cpu_us_per_cycle),
        ],
    });
    TableView {
        id: "",
        title: "",
        note: "",
        heads: vec![
            figures("Level", "What was raised"),
            figures("Cycles/s", "Median over rounds"),
            figures(
                "p50",
                "Acquire latency; of an open loop the response from the due time",
            ),
            figures("p99", "The same, 99 of 100"),
            figures("Hand-off p50", "Median hand-off"),
            figures("Commands", "Commands that clients sent per cycle"),
            figures("Server µs", "Server CPU per cycle"),
        ],
        rows: rows.collect(),
    }
    .trimmed()
}
