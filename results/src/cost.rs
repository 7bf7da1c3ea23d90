//! What one core of a server carries: derived from the processor time that servers spent on a cycle, or on a lock that is held and renewed.
//!
//! None of it is a limit that was tried. What was not measured is absent, and so is what follows from it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::figure::COSTS;
use crate::measures::{Interval, Renewal};
use crate::report::is_void;
use crate::run::{BenchRow, Estimate, Run};

/// Cycles per second for which the servers together need one core; `None` without their processor time.
pub(crate) fn cycles_per_core(row: &BenchRow) -> Option<Estimate> {
    let certainty = &row.measures.certainty;
    let us_per_cycle = of_pairs(row)?.server_cpu_us_per_cycle?;
    carried(1e6, us_per_cycle, certainty.server_cpu_us_per_cycle)
}

/// Locks, held and renewed, for which the servers together need one core; `None` without their processor time.
pub(crate) fn held_per_core(row: &BenchRow) -> Option<Estimate> {
    let certainty = &row.measures.certainty;
    let us_per_s_per_1000 = renewed(row)?.server_cpu_us_per_s_per_1000?;
    let interval = certainty.server_cpu_us_per_s_per_1000;
    carried(1e9, us_per_s_per_1000, interval)
}

/// What a second of 1,000 locks costs, as the cost of one lock for an hour.
pub(crate) fn per_lock_hour(per_s_per_1000: Option<f64>) -> Option<f64> {
    per_s_per_1000.map(|cost| cost * 3.6)
}

/// What renewal cost, if each lock was renewed while it was measured.
pub(crate) fn renewed(row: &BenchRow) -> Option<&Renewal> {
    let renewal = row.measures.renewal.as_ref()?;
    let seen = renewal.window_ns? >= renewal.lease_ns?;
    (seen && renewal.commands_per_s_per_1000 != Some(0.0)).then_some(renewal)
}

/// The row, if its cycle is an acquire and a release: one of the renewal workload is a renewal.
pub(crate) fn of_pairs(row: &BenchRow) -> Option<&BenchRow> {
    row.measures.renewal.is_none().then_some(row)
}

/// How often `spent` goes into `budget`. The less is spent, the more is carried, so the ends of the interval change places.
fn carried(budget: f64, spent: f64, interval: Option<Interval>) -> Option<Estimate> {
    let interval = interval.filter(|interval| interval.low > 0.0);
    (spent > 0.0).then(|| Estimate {
        median: budget / spent,
        low: interval.map(|interval| budget / interval.high),
        high: interval.map(|interval| budget / interval.low),
    })
}

/// A line of the table for programs: where it was measured, and the figures that are known, each by its name.
#[derive(Debug, Serialize)]
pub(crate) struct Cost<'a> {
    subject: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    topology: &'a str,
    workload: &'a str,
    tasks: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    added_rtt_ns: Option<u64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    origin: &'a str,
    /// Whether the figures may be quoted.
    valid: bool,
    #[serde(flatten)]
    figures: BTreeMap<&'static str, Estimate>,
}

/// The whole table, without rows whose figures are void.
pub(crate) fn all(run: &Run) -> Vec<Cost<'_>> {
    let applies = |row: &BenchRow| COSTS.iter().any(|group| (group.applies)(row));
    let rows = run.rows.iter();
    let rows = rows.filter(|row| !is_void(row) && applies(row));
    let figures = |row| {
        let all = COSTS.iter().flat_map(|group| group.figures);
        all.filter_map(move |figure| Some((figure.name, (figure.of)(row)?)))
    };
    rows.map(|row| Cost {
        subject: &row.subject,
        kind: row.measures.load.kind.as_deref(),
        topology: &row.topology,
        workload: &row.workload,
        tasks: row.tasks,
        added_rtt_ns: row.added_rtt_ns(),
        origin: &row.origin,
        valid: row.valid,
        figures: figures(row).collect(),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report;
    use crate::samples;
    use crate::verdict::State;

    fn row(topology: &str, us_per_cycle: f64) -> BenchRow {
        let mut row = samples::row("lock-core:plain", topology, Estimate::default());
        row.server_cpu_us_per_cycle = Some(us_per_cycle);
        row.commands_per_cycle = Some(2.0);
        row.measures.certainty.server_cpu_us_per_cycle = Some(Interval {
            low: us_per_cycle * 0.8,
            high: us_per_cycle * 1.25,
        });
        row
    }

    fn renewal(costs: Renewal) -> BenchRow {
        let mut row = row("single", 40.0);
        row.workload = "renewal".into();
        row.measures.renewal = Some(costs);
        row
    }

    fn table(rows: Vec<BenchRow>) -> Vec<serde_json::Value> {
        let run = samples::run("runs/x", rows, Vec::new());
        let table = serde_json::to_value(all(&run)).expect("costs serialise");
        table.as_array().expect("a list").clone()
    }

    #[test]
    fn the_dearer_end_is_the_lower_one() {
        let found = cycles_per_core(&row("single", 10.0)).expect("measured");
        assert_eq!(found.median, 100_000.0);
        assert_eq!((found.low, found.high), (Some(80_000.0), Some(125_000.0)));
    }

    #[test]
    fn several_servers_share_one_core() {
        let costs = table(vec![row("single", 10.0), row("sentinel", 25.0)]);
        let carried = |at: usize| costs[at]["cycles_per_s_per_core"]["median"].as_f64();
        assert_eq!((carried(0), carried(1)), (Some(100_000.0), Some(40_000.0)));
    }

    #[test]
    fn what_was_not_measured_is_absent_and_never_zero() {
        let mut unknown = row("external", 0.0);
        assert_eq!(cycles_per_core(&unknown), None, "nothing spent is no cost");
        unknown.server_cpu_us_per_cycle = None;
        unknown.measures.bytes_per_cycle = Some(400.0);
        let costs = table(vec![unknown.clone(), BenchRow::default()]);
        assert_eq!(costs.len(), 1, "a row of which nothing is known is no line");
        assert_eq!(costs[0].get("cycles_per_s_per_core"), None);
        assert_eq!(costs[0]["bytes_per_cycle"]["median"], 400.0);
        // Without an interval of the spending there is none of what is carried.
        let mut one_round = row("single", 10.0);
        one_round.measures.certainty.server_cpu_us_per_cycle = None;
        let found = cycles_per_core(&one_round).expect("measured");
        assert_eq!((found.low, found.high), (None, None));
    }

    #[test]
    fn a_held_lock_costs_by_the_hour_and_its_cycles_are_no_pairs() {
        let mut row = renewal(Renewal {
            lease_ns: Some(3_000_000_000),
            window_ns: Some(3_000_000_000),
            commands_per_s_per_1000: Some(1_000.0),
            server_cpu_us_per_s_per_1000: Some(20_000.0),
            ..Renewal::default()
        });
        row.measures.certainty.server_cpu_us_per_s_per_1000 = Some(Interval {
            low: 10_000.0,
            high: 40_000.0,
        });
        let costs = table(vec![row.clone()]);
        assert_eq!(costs[0]["held_per_core"]["median"], 50_000.0);
        assert_eq!(costs[0]["held_per_core"]["low"], 25_000.0);
        assert_eq!(costs[0]["held_per_core"]["high"], 100_000.0);
        assert_eq!(costs[0]["commands_per_lock_hour"]["median"], 3_600.0);
        let of_pairs = ["cycles_per_s_per_core", "commands_per_cycle"];
        let unknown = ["bytes_per_lock_hour", "server_bytes_per_lock"];
        for absent in of_pairs.into_iter().chain(unknown) {
            assert_eq!(costs[0].get(absent), None, "{absent}");
        }
    }

    #[test]
    fn a_window_without_a_renewal_says_nothing_of_renewed_locks() {
        let costs = |window_ns, commands| Renewal {
            lease_ns: Some(3_000_000_000),
            window_ns,
            commands_per_s_per_1000: Some(commands),
            server_cpu_us_per_s_per_1000: Some(20_000.0),
            server_bytes_per_lock: Some(230.0),
            ..Renewal::default()
        };
        for (window_ns, commands, known) in [
            (Some(3_000_000_000), 50.0, true),
            (Some(2_999_999_999), 50.0, false),
            (Some(3_000_000_000), 0.0, false),
            (None, 50.0, false),
        ] {
            let found = table(vec![renewal(costs(window_ns, commands))]);
            for name in ["held_per_core", "commands_per_lock_hour"] {
                assert_eq!(found[0].get(name).is_some(), known, "{name}: {found:?}");
            }
            assert_eq!(found[0]["server_bytes_per_lock"]["median"], 230.0);
        }
    }

    #[test]
    fn every_format_has_the_table_and_says_that_it_is_derived() {
        let mut void = row("masters", 1.0);
        void.safety.state = State::Violated;
        let mut run = samples::run("runs/x", vec![row("single", 8.1), void], Vec::new());
        // 1e6 / 8.1 µs; the void row would be at 1,000,000.
        for format in ["text", "markdown", "html", "json"] {
            let format = report::by_name(format).expect("a format");
            let document = format.render(&run).expect("a document");
            let shown = document.split("id=\"run\"").next().unwrap_or_default();
            let plain = shown.replace('\u{202f}', "");
            let mut exact = ["123457", "123456.7"].into_iter();
            assert!(exact.any(|figure| plain.contains(figure)), "{shown}");
            assert!(!plain.contains("1000000"), "{shown}");
            assert_eq!(plain.contains("Derived, no limit"), format.name != "json");
        }
        run.rows.remove(0);
        for format in ["text", "markdown", "html"] {
            let format = report::by_name(format).expect("a format");
            let document = format.render(&run).expect("a document");
            assert!(!document.contains(COSTS[0].title), "{document}");
        }
    }
}
