//! What a benchmark row says beyond its rate and latencies, and what follows from a sweep, in sentences.

use super::cells::{is_void, printable};
use crate::figure::{LATENCIES, OF_ROWS};
use crate::measures::{Interval, LoadShape, Sweep, WaitTail};
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
    lines.extend(SENTENCES.iter().filter_map(|sentence| sentence.of(row)));
    lines.extend(measures.wait_tail.map(waits));
    lines.extend(LIMITS.iter().filter_map(|sentence| sentence.of(row)));
    lines.iter().map(|line| printable(line)).collect()
}

/// A line about figures of the table, each by its name in braces: `{jain}` is the figure, `{jain~}` its interval, `{handoff:}` the middle and
/// the tail of a latency, `{handoff#}` its number of samples.
struct Sentence {
    begin: &'static str,
    between: &'static str,
    /// A part is left out if its first figure is not there, and a line without a part too.
    parts: &'static [&'static str],
}

/// What is said of a row, in this order.
const SENTENCES: &[Sentence] = &[
    Sentence {
        begin: "schedule: ",
        between: "; ",
        parts: &[
            "{achieved_per_s} of {offered_per_s} cycles/s; response {response:}; ticks late {late}, not begun {not_begun}; begun {start_lag:} after \
             due; generator's own lag {lag:}",
        ],
    },
    Sentence {
        begin: "hand-off: ",
        between: "; ",
        parts: &[
            "{to_another} to another, {to_itself} to itself; notify to grant {notified:} after the release was answered; each \
             {commands_per_handoff} commands, {server_cpu_us_per_handoff} µs of server; {wasted_commands_per_grant} commands wasted per grant",
        ],
    },
    Sentence {
        begin: "fairness: ",
        between: "; ",
        parts: &[
            "at most {most_bypasses} later callers first, {inversions} of grants out of order, {starved} tasks starved, least client {share_min} of \
             its share, longest wait {longest_over_median} × the median",
            "free though waited for: {idle} of the time, at most {longest_idle_ns}, {lost_wakeups} lost wake-ups",
        ],
    },
    Sentence {
        begin: "renewal: ",
        between: "; ",
        parts: &[
            "{held} locks held, {renewals_per_s} renewals/s; per 1,000 locks and second {commands_per_s_per_1000} commands, \
             {server_cpu_us_per_s_per_1000} µs of server, {client_cpu_us_per_s_per_1000} µs of client; least lease left {least_margin_ns} (99.9 % \
             have {margin_p001_ns}); {lost} lost; memory per lock {server_bytes_per_lock} B at the server, {client_bytes_per_lock} B at the client",
        ],
    },
    time(
        "recovery after the holder's death: ",
        &["{recovery:} (n = {recovery#})"],
    ),
    time(
        "of that beyond the lease: ",
        &["{recovery_late:} (n = {recovery_late#})"],
    ),
    time("connecting: ", &["{connect:} (n = {connect#})"]),
    time(
        "from the herd's arrival to its last release: ",
        &["{wave:} (n = {wave#})"],
    ),
    time("acquire to read: ", &["{read:} (n = {read#})"]),
    time("acquire to write: ", &["{write:} (n = {write#})"]),
    time("10,000 pairs take one task ", &["{ten_thousand_pairs_ns}"]),
    time("held at once: at most ", &["{most_at_once}"]),
];

/// The same behind what is said of waits.
const LIMITS: &[Sentence] = &[
    time(
        "cost: ",
        &[
            "{bytes_per_cycle} bytes per cycle",
            "{generator_cpu_us_per_cycle} µs of generator per cycle",
            "{client_bytes_per_waiter} bytes of client memory per waiter",
        ],
    ),
    time(
        "95 % intervals: ",
        &[
            "cycles/s over rounds ({cycles_coverage})",
            "within these rounds {cycles_within_rounds~}",
            "acquire p50 {acquire_p50_ns~}",
            "p99 {acquire_p99_ns~}",
            "hand-off p50 {handoff_p50_ns~}",
        ],
    ),
    time(
        "machine (worst round): ",
        &[
            "{steal} stolen",
            "{pressure} of the time a task waited for a core",
            "load {load_average}",
            "{switches_per_s} involuntary switches/s",
            "{dropped_rounds} rounds dropped",
            "Little's law: {littles_law_sampled} calls seen, {littles_law_reckoned} calculated",
        ],
    ),
];

const fn time(begin: &'static str, parts: &'static [&'static str]) -> Sentence {
    Sentence {
        begin,
        between: ", ",
        parts,
    }
}

impl Sentence {
    fn of(&self, row: &BenchRow) -> Option<String> {
        let parts: Vec<String> = self
            .parts
            .iter()
            .filter_map(|part| filled(part, row))
            .collect();
        (!parts.is_empty()).then(|| format!("{}{}", self.begin, parts.join(self.between)))
    }
}

/// A part with its figures; `None` if the first is not there.
fn filled(part: &str, row: &BenchRow) -> Option<String> {
    let mut pieces = part.split(['{', '}']);
    let mut out = pieces.next()?.to_owned();
    let mut first = true;
    while let (Some(name), Some(text)) = (pieces.next(), pieces.next()) {
        let words = named(name, row);
        out += &if first {
            words?
        } else {
            words.unwrap_or("–".to_owned())
        };
        out += text;
        first = false;
    }
    Some(out)
}

/// What a name in braces stands for.
fn named(name: &str, row: &BenchRow) -> Option<String> {
    let base = name.trim_end_matches([':', '#', '~']);
    if name.ends_with([':', '#']) {
        let latency = LATENCIES.iter().find(|latency| latency.name == base)?;
        let quantiles = (latency.of)(row)?;
        return Some(if name.ends_with('#') {
            units::count(quantiles.n)
        } else {
            middle_and_tail(quantiles)
        });
    }
    let figure = OF_ROWS.iter().find(|figure| figure.name == base)?;
    let found = (figure.of)(row)?;
    if !name.ends_with('~') {
        return Some(figure.words(row));
    }
    let (low, high) = found.low.zip(found.high)?;
    Some(format!(
        "{}–{}",
        figure.unit.words(low),
        figure.unit.words(high)
    ))
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
        (1, true) if load.own_loop => "the driver's own loop, in one process, unjudged".to_owned(),
        (n, true) => format!("{n} client processes, each call through a pipe"),
    });
    if let Some(generators) = load.generators {
        let apart = load.generators_apart_ns.map_or(String::new(), |ns| {
            format!(", windows at most {} apart", units::duration(ns))
        });
        words.push(format!("from {generators} generators{apart}"));
    }
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

fn waits(tail: WaitTail) -> String {
    let [p50, p90, p99] = [tail.p50_ns, tail.p90_ns, tail.p99_ns]
        .map(|ns| ns.map_or("longer than the longest wait".to_owned(), units::duration));
    format!("waits, those that gave up right-censored: p50 {p50}, p90 {p90}, p99 {p99}")
}

/// `p50 1.2 ms, p99 3 ms`; the largest where there are too few for a p99.
fn middle_and_tail(quantiles: &Quantiles) -> String {
    let p50 = quantiles.p50.map_or("–".to_owned(), units::duration);
    match (quantiles.p99, quantiles.max) {
        (Some(p99), _) => format!("p50 {p50}, p99 {}", units::duration(p99)),
        (None, Some(max)) => format!("p50 {p50}, at most {}", units::duration(max)),
        (None, None) => format!("p50 {p50}"),
    }
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
    fn every_name_in_a_sentence_is_a_figure() {
        for part in SENTENCES
            .iter()
            .chain(LIMITS)
            .flat_map(|sentence| sentence.parts)
        {
            for name in part.split(['{', '}']).skip(1).step_by(2) {
                let base = name.trim_end_matches([':', '#', '~']);
                let known = if name.ends_with([':', '#']) {
                    LATENCIES.iter().any(|latency| latency.name == base)
                } else {
                    OF_ROWS.iter().any(|figure| figure.name == base)
                };
                assert!(known, "{name} in {part}");
            }
        }
    }

    #[test]
    fn what_does_not_apply_is_not_there() {
        let said = lines(&row()).join("\n");
        for absent in ["hand-off", "renewal", "recovery", "schedule", "gave up"] {
            assert!(!said.contains(absent), "{said}");
        }
    }
}
