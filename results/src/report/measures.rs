//! Turns what a benchmark row says beyond its rate and latencies into short lines for a terminal.

use super::cells::{is_void, printable};
use super::table;
use crate::measures::{Interval, LoadShape, Measures, Pacing, Passing, Renewal, Sweep};
use crate::run::{BenchRow, Quantiles};
use crate::units;

/// The lines of one row; none of a row whose lock was not safe, since its figures are void.
pub(super) fn lines(row: &BenchRow) -> Vec<String> {
    let measures = &*row.measures;
    // A run that was kept before there were any.
    if measures.load.mode.is_empty() || is_void(row) {
        return Vec::new();
    }
    let mut lines = vec![load(row)];
    lines.extend(
        measures
            .pacing
            .as_ref()
            .map(|pacing| paced(pacing, measures)),
    );
    lines.extend(measures.passing.iter().flat_map(passed));
    lines.extend(measures.renewal.as_ref().map(renewed));
    lines.extend(times(measures));
    lines.extend(costs(measures));
    lines.extend(sure(measures));
    lines.push(noise(measures));
    lines.iter().map(|line| printable(line)).collect()
}

fn load(row: &BenchRow) -> String {
    let load = &row.measures.load;
    let mut words = vec![match (&load.arrivals, load.rate_per_s) {
        (Some(arrivals), Some(rate)) => format!(
            "open loop, {arrivals} arrivals at {}/s",
            units::figure(rate)
        ),
        _ => "closed loop".to_owned(),
    }];
    for (what, ns) in [("hold", load.hold_ns), ("think", load.think_ns)] {
        if ns > 0 {
            words.push(format!("{what} {}", units::duration(ns)));
        }
    }
    words.push(match load.lease_ns {
        Some(ns) => format!("lease {}", units::duration(ns)),
        None => "lease renewed".to_owned(),
    });
    words.push(match row.locks {
        1 => "1 lock".to_owned(),
        n => format!("{} locks", units::count(u64::from(n))),
    });
    words.extend(load.asks.clone());
    if load.durability != "none" {
        words.push(load.durability.clone());
    }
    words.push(match (load.added_rtt_ns, added(load)) {
        (Some(ns), Some(really)) => format!(
            "through a proxy that was to add {} to the round trip and added {}",
            units::duration(ns),
            units::duration(really)
        ),
        (Some(ns), None) => format!(
            "through a proxy that was to add {} to the round trip",
            units::duration(ns)
        ),
        (None, _) => "direct".to_owned(),
    });
    words.extend(
        load.round_trip_ns
            .map(|ns| format!("a PING takes {}", units::duration(ns))),
    );
    words.push(match (load.clients, load.client_processes) {
        (1, false) => "1 client".to_owned(),
        (n, false) => format!("{n} clients in one process"),
        (n, true) => format!("{n} client processes, each call through a pipe"),
    });
    if !load.client_cores.is_empty() {
        words.push(format!("clients on cores {:?}", load.client_cores));
    }
    words.join(", ")
}

/// What the proxy on the way really added to a round trip.
fn added(load: &LoadShape) -> Option<u64> {
    let through_ns = load.round_trip_ns?;
    Some(through_ns.saturating_sub(load.direct_round_trip_ns?))
}

fn paced(pacing: &Pacing, measures: &Measures) -> String {
    format!(
        "schedule: {} of {} cycles/s; response {}; ticks late {}, not begun {}; begun {} after due; generator's own lag {}",
        units::figure(pacing.achieved_per_s),
        units::figure(pacing.offered_per_s),
        middle_and_tail(measures.response_ns.as_ref()),
        units::count(pacing.late),
        units::count(pacing.not_begun),
        middle_and_tail(Some(&pacing.start_lag_ns)),
        middle_and_tail(Some(&pacing.lag_ns)),
    )
}

fn passed(passing: &Passing) -> Vec<String> {
    let figure = |value: Option<f64>| value.map_or("–".to_owned(), units::figure);
    vec![
        format!(
            "hand-off: {} to another, {} to itself; notify to grant {} after the release was answered; each {} commands, {} µs of server; \
             {} commands wasted per grant",
            units::count(passing.to_another),
            units::count(passing.to_itself),
            middle_and_tail(passing.notified_ns.as_ref()),
            figure(passing.commands_per_handoff),
            figure(passing.server_cpu_us_per_handoff),
            figure(passing.wasted_commands_per_grant),
        ),
        format!(
            "fairness: at most {} later callers first, {} % of grants out of order, {} tasks starved, least client {} of its share, longest wait {} × the \
             median;              free though waited for: {} % of the time, at most {}, {} lost wake-ups",
            units::count(passing.most_bypasses),
            units::figure(100.0 * passing.inversions),
            units::count(passing.starved),
            figure(passing.share_min),
            figure(passing.longest_over_median),
            units::figure(100.0 * passing.idle),
            units::duration(passing.longest_idle_ns),
            units::count(passing.lost_wakeups),
        ),
    ]
}

fn renewed(renewal: &Renewal) -> String {
    let figure = |value: Option<f64>| value.map_or("–".to_owned(), units::figure);
    let left = |ns: Option<u64>| ns.map_or("–".to_owned(), units::duration);
    format!(
        "renewal: {} locks held, {} renewals/s; per 1,000 locks and second {} commands, {} µs of server, {} µs of client; least lease \
         left {} (99.9 % have {}); {} lost; memory per lock {} B at the server, {} B at the client",
        units::count(renewal.held),
        figure(renewal.renewals_per_s),
        figure(renewal.commands_per_s_per_1000),
        figure(renewal.server_cpu_us_per_s_per_1000),
        figure(renewal.client_cpu_us_per_s_per_1000),
        left(renewal.least_margin_ns),
        left(renewal.margin_p001_ns),
        units::count(renewal.lost),
        figure(renewal.server_bytes_per_lock),
        figure(renewal.client_bytes_per_lock),
    )
}

fn times(measures: &Measures) -> Vec<String> {
    let named = [
        ("recovery after the holder's death", &measures.recovery_ns),
        ("of that beyond the lease", &measures.recovery_late_ns),
        ("connecting", &measures.connect_ns),
        (
            "from the herd's arrival to its last release",
            &measures.wave_ns,
        ),
        ("acquire to read", &measures.read_ns),
        ("acquire to write", &measures.write_ns),
    ];
    let mut lines: Vec<String> = named
        .into_iter()
        .filter_map(|(what, quantiles)| {
            let quantiles = quantiles.as_ref()?;
            Some(format!(
                "{what}: {} (n = {})",
                middle_and_tail(Some(quantiles)),
                units::count(quantiles.n)
            ))
        })
        .collect();
    if let Some(ns) = measures.ten_thousand_pairs_ns {
        lines.push(format!(
            "10,000 pairs take one task {}",
            units::duration(ns)
        ));
    }
    if let Some(most) = measures.most_at_once {
        lines.push(format!("held at once: at most {}", units::count(most)));
    }
    if let Some(tail) = measures.wait_tail {
        let longer =
            |ns: Option<u64>| ns.map_or("longer than anybody waited".to_owned(), units::duration);
        lines.push(format!(
            "waits, those that gave up counted in: p50 {}, p90 {}, p99 {}",
            longer(tail.p50_ns),
            longer(tail.p90_ns),
            longer(tail.p99_ns)
        ));
    }
    lines
}

fn costs(measures: &Measures) -> Option<String> {
    let mut words = Vec::new();
    if let Some(bytes) = measures.bytes_per_cycle {
        words.push(format!("{} bytes per cycle", units::figure(bytes)));
    }
    if let Some(bytes) = measures
        .client_bytes_per_waiter
        .filter(|bytes| *bytes > 0.0)
    {
        words.push(format!(
            "{} bytes of client memory per waiter",
            units::figure(bytes)
        ));
    }
    (!words.is_empty()).then(|| format!("cost: {}", words.join(", ")))
}

fn sure(measures: &Measures) -> Option<String> {
    let certainty = &measures.certainty;
    let time = |interval: Interval| {
        format!(
            "{}–{}",
            units::duration(interval.low as u64),
            units::duration(interval.high as u64)
        )
    };
    let mut words = Vec::new();
    if let Some(coverage) = certainty.cycles_coverage {
        words.push(format!(
            "cycles/s over rounds ({} %)",
            units::figure(100.0 * coverage)
        ));
    }
    if let Some(within) = certainty.cycles_within_rounds {
        words.push(format!(
            "within these rounds {}–{}",
            units::figure(within.low),
            units::figure(within.high)
        ));
    }
    for (what, interval) in [
        ("acquire p50", certainty.acquire_p50_ns),
        ("p99", certainty.acquire_p99_ns),
        ("hand-off p50", certainty.handoff_p50_ns),
    ] {
        words.extend(interval.map(|interval| format!("{what} {}", time(interval))));
    }
    (!words.is_empty()).then(|| format!("95 % intervals: {}", words.join(", ")))
}

fn noise(measures: &Measures) -> String {
    let noise = &measures.noise;
    let mut words = vec![format!("{} % stolen", units::figure(100.0 * noise.steal))];
    words.extend(noise.pressure.map(|p| {
        format!(
            "{} % of the time a task waited for a core",
            units::figure(100.0 * p)
        )
    }));
    words.push(format!("load {}", units::figure(noise.load_average)));
    words.push(format!(
        "{} involuntary switches/s",
        units::figure(noise.switches_per_s)
    ));
    if noise.dropped_rounds > 0 {
        words.push(format!("{} rounds dropped", noise.dropped_rounds));
    }
    if let Some(law) = measures.littles_law {
        words.push(format!(
            "Little's law: {} calls seen, {} reckoned",
            units::figure(law.sampled),
            units::figure(law.reckoned)
        ));
    }
    format!("machine (worst round): {}", words.join(", "))
}

/// `p50 1.2 ms, p99 3 ms`; the largest where there are too few for a p99.
fn middle_and_tail(quantiles: Option<&Quantiles>) -> String {
    let Some(quantiles) = quantiles else {
        return "–".to_owned();
    };
    let p50 = quantiles.p50.map_or("–".to_owned(), units::duration);
    match (quantiles.p99, quantiles.max) {
        (Some(p99), _) => format!("p50 {p50}, p99 {}", units::duration(p99)),
        (None, Some(max)) => format!("p50 {p50}, at most {}", units::duration(max)),
        (None, None) => format!("p50 {p50}"),
    }
}

/// A sweep: its curve as a table by level, and what follows from it.
pub(super) fn sweep(sweep: &Sweep) -> String {
    let mut out = sweep.title() + "\n";
    let (heads, rows) = table::sweep(sweep).plain();
    out.push_str(&aligned(heads, rows));
    for line in conclusions(sweep) {
        out.push_str(&format!("    {line}\n"));
    }
    printable_lines(&out)
}

/// Lines of cells, each as wide as the widest of its column.
fn aligned(heads: Vec<String>, mut rows: Vec<Vec<String>>) -> String {
    rows.insert(0, heads);
    let length = |cell: &String| cell.chars().count();
    let columns = 0..rows[0].len();
    let widths: Vec<usize> = columns
        .map(|column| {
            rows.iter()
                .map(|row| length(&row[column]))
                .max()
                .unwrap_or(0)
        })
        .collect();
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:>width$}"))
            .collect();
        format!("    {}", cells.join("   ")).trim_end().to_owned() + "\n"
    });
    lines.collect()
}

/// What follows from a sweep: its law, its knee.
pub(super) fn conclusions(sweep: &Sweep) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(law) = &sweep.scalability {
        let within = |interval: Option<Interval>| {
            interval.map_or(" (no interval)".to_owned(), |i| {
                format!(" ({}–{})", units::figure(i.low), units::figure(i.high))
            })
        };
        lines.push(format!(
            "scalability law: γ {}/s, α {}{}, β {}{}, most at {}; largest deviation {} %",
            units::figure(law.gamma),
            units::figure(law.alpha),
            within(law.alpha_interval),
            units::figure(law.beta),
            within(law.beta_interval),
            law.peak_tasks
                .map_or("more tasks than were tried".to_owned(), |n| format!(
                    "{} tasks",
                    units::figure(n)
                )),
            units::figure(100.0 * law.worst_residual)
        ));
    }
    if let Some(knee) = &sweep.knee {
        let rate = |rate: Option<f64>| {
            rate.map_or("none that was tried".to_owned(), |r| {
                format!("{}/s", units::figure(r))
            })
        };
        lines.push(format!(
            "knee: kept up to {}, not kept from {}; kept means {}",
            rate(knee.good_per_s),
            rate(knee.bad_per_s),
            knee.rule
        ));
    }
    lines
}

fn printable_lines(text: &str) -> String {
    text.lines()
        .map(|line| format!("{}\n", printable(line)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Safety;
    use crate::verdict::State;

    fn row() -> BenchRow {
        let mut row = BenchRow::default();
        row.measures.load.mode = "closed".into();
        row.measures.load.durability = "none".into();
        row.measures.load.clients = 1;
        row
    }

    #[test]
    fn a_proxy_is_always_said() {
        let mut row = row();
        assert!(lines(&row)[0].contains("direct"));
        row.measures.load.added_rtt_ns = Some(5_000_000);
        assert!(
            lines(&row)[0].contains("through a proxy that was to add 5"),
            "{:?}",
            lines(&row)
        );
        row.measures.load.round_trip_ns = Some(6_250_000);
        row.measures.load.direct_round_trip_ns = Some(250_000);
        assert!(
            lines(&row)[0].contains("to the round trip and added 6"),
            "{:?}",
            lines(&row)
        );
    }

    #[test]
    fn a_row_of_an_unsafe_lock_says_nothing_more() {
        let mut row = row();
        row.safety = Safety {
            state: State::Violated,
        };
        assert!(lines(&row).is_empty());
    }

    #[test]
    fn what_does_not_apply_is_not_there() {
        let said = lines(&row()).join("\n");
        for absent in ["hand-off", "renewal", "recovery", "schedule", "gave up"] {
            assert!(!said.contains(absent), "{said}");
        }
    }
}
