//! What a benchmark row says beyond its rate and latencies, and what follows from a sweep, in sentences.

use itertools::Itertools;

use super::cells::printable;
use crate::record::figure::{LATENCIES, OF_ROWS};
use crate::record::measures::{LoadShape, Sweep, WaitTail};
use crate::record::run::{BenchRow, Quantiles};
use crate::wording::units::{self, enclosed};

/// The lines of one row; none of a row whose lock was not safe, since its figures are void.
pub(super) fn lines(row: &BenchRow) -> Vec<String> {
    // A run that was kept before there were any.
    if row.measures.load.mode.is_empty() || row.is_void() {
        return Vec::new();
    }
    let said = |sentence| said(sentence, row);
    let lines = std::iter::once(load(row)).chain(SENTENCES.iter().filter_map(said));
    let lines = lines.chain(row.measures.wait_tail.map(waits)).chain(LIMITS.iter().filter_map(said));
    lines.map(|line| printable(&line)).collect()
}

/// A line about figures of the table, each by its name in braces: `{jain}` is the figure, `{jain~}` its
/// interval, `{handoff:}` the middle and the tail of a latency, `{handoff#}` its number of samples. It is how
/// the line begins, and its parts: one without its first figure is left out, and so is a line without a part.
type Sentence = (&'static str, &'static [&'static str]);

const SENTENCES: &[Sentence] = &[
    (
        "schedule: ",
        &[
            "{achieved_per_s} of {offered_per_s} cycles/s; response {response:}; ticks late {late}, not begun {not_begun}; begun {start_lag:} after \
             due; generator's own lag {lag:}",
        ],
    ),
    (
        "hand-off: ",
        &[
            "{to_another} to another, {to_itself} to itself; notify to grant {notified:} after the release was answered; each \
             {commands_per_handoff} commands, {server_cpu_us_per_handoff} µs of server; {wasted_commands_per_grant} commands wasted per grant",
        ],
    ),
    (
        "fairness: ",
        &[
            "at most {most_bypasses} later callers first, {inversions} of grants out of order, {starved} tasks starved, least client {share_min} of \
             its share, longest wait {longest_over_median} × the median; free though waited \
             for: {idle} of the time, at most {longest_idle_ns}, {lost_wakeups} lost wake-ups",
        ],
    ),
    (
        "renewal: ",
        &[
            "{held} locks held, {renewals_per_s} renewals/s; per 1,000 locks and second {commands_per_s_per_1000} commands, \
             {server_cpu_us_per_s_per_1000} µs of server, {client_cpu_us_per_s_per_1000} µs of client; least lease left {least_margin_ns} (99.9 % \
             have {margin_p001_ns}); {lost} lost; memory per lock {server_bytes_per_lock} B at the server, {client_bytes_per_lock} B at the client",
        ],
    ),
    ("recovery after the holder's death: ", &["{recovery:} (n = {recovery#})"]),
    ("of that beyond the lease: ", &["{recovery_late:} (n = {recovery_late#})"]),
    ("connecting: ", &["{connect:} (n = {connect#})"]),
    ("from the herd's arrival to its last release: ", &["{wave:} (n = {wave#})"]),
    ("acquire to read: ", &["{read:} (n = {read#})"]),
    ("acquire to write: ", &["{write:} (n = {write#})"]),
    ("10,000 pairs take one task ", &["{ten_thousand_pairs_ns}"]),
    ("held at once: at most ", &["{most_at_once}"]),
];

/// The same behind what is said of waits.
const LIMITS: &[Sentence] = &[
    (
        "cost: ",
        &[
            "{bytes_per_cycle} bytes per cycle",
            "{generator_cpu_us_per_cycle} µs of generator per cycle",
            "{client_bytes_per_waiter} bytes of client memory per waiter",
        ],
    ),
    (
        "95 % intervals: ",
        &[
            "cycles/s over rounds ({cycles_coverage})",
            "within these rounds {cycles_within_rounds~}",
            "acquire p50 {acquire_p50_ns~}",
            "p99 {acquire_p99_ns~}",
            "hand-off p50 {handoff_p50_ns~}",
        ],
    ),
    (
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

fn said((begin, parts): &Sentence, row: &BenchRow) -> Option<String> {
    let mut parts = parts.iter().filter_map(|part| filled(part, row));
    let said = enclosed(begin, &parts.join(", "), "");
    Some(said).filter(|said| !said.is_empty())
}

fn filled(part: &str, row: &BenchRow) -> Option<String> {
    let mut pieces = part.split(['{', '}']);
    let mut out = pieces.next()?.to_owned();
    for (index, (name, text)) in pieces.tuples().enumerate() {
        let words = named(name, row).or_else(|| (index > 0).then(|| "–".to_owned()));
        out += &(words? + text);
    }
    Some(out)
}

fn named(name: &str, row: &BenchRow) -> Option<String> {
    let base = name.trim_end_matches([':', '#', '~']);
    if name.ends_with([':', '#']) {
        let latency = LATENCIES.iter().find(|latency| latency.name == base)?;
        let quantiles = (latency.of)(row)?;
        return Some(match name.ends_with('#') {
            true => units::count(quantiles.n),
            false => middle_and_tail(quantiles),
        });
    }
    let figure = OF_ROWS.iter().find(|figure| figure.name == base)?;
    let found = (figure.of)(row)?;
    if !name.ends_with('~') {
        return Some(figure.words(row));
    }
    let [low, high] = [found.low?, found.high?].map(|end| figure.unit.words(end));
    Some(format!("{low}–{high}"))
}

fn load(row: &BenchRow) -> String {
    let load = &row.measures.load;
    let mut words = vec![match (&load.arrivals, load.rate_per_s.map(units::figure)) {
        (Some(arrivals), Some(rate)) => format!("open loop, {arrivals} arrivals at {rate}/s"),
        _ => "closed loop".to_owned(),
    }];
    for (what, ns) in [("hold", load.hold_ns), ("think", load.think_ns)] {
        words.extend((ns > 0).then(|| format!("{what} {}", units::duration(ns))));
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
    words.extend((load.durability != "none").then(|| load.durability.clone()));
    words.push(match load.added_rtt_ns.map(units::duration) {
        Some(wanted) => {
            let really = enclosed(" and added ", &added(load).map_or(String::new(), units::duration), "");
            format!("through a proxy that was to add {wanted} to the round trip{really}")
        }
        None => "direct".to_owned(),
    });
    let ping = load.round_trip_ns.map(units::duration);
    words.extend(ping.map(|time| format!("a PING takes {time}")));
    words.push(match (load.clients, load.client_processes) {
        (1, false) => "1 client".to_owned(),
        (n, false) => format!("{n} clients in one process"),
        (1, true) if load.own_loop => "the driver's own loop, in one process, unjudged".to_owned(),
        (n, true) => format!("{n} client processes, each call through a pipe"),
    });
    if let Some(generators) = load.generators {
        let apart = load.generators_apart_ns.map_or(String::new(), units::duration);
        let apart = enclosed(", windows at most ", &apart, " apart");
        words.push(format!("from {generators} generators{apart}"));
    }
    if !load.client_cores.is_empty() {
        words.push(format!("clients on cores {:?}", load.client_cores));
    }
    words.join(", ")
}

/// What the proxy on the way really added to a round trip.
fn added(load: &LoadShape) -> Option<u64> {
    Some(load.round_trip_ns?.saturating_sub(load.direct_round_trip_ns?))
}

fn waits(tail: WaitTail) -> String {
    let [p50, p90, p99] = [tail.p50_ns, tail.p90_ns, tail.p99_ns]
        .map(|ns| ns.map_or("longer than the longest wait".to_owned(), units::duration));
    format!("waits, those that gave up right-censored: p50 {p50}, p90 {p90}, p99 {p99}")
}

/// `p50 1.2 ms, p99 3 ms`; the largest where there are too few for a p99.
fn middle_and_tail(quantiles: &Quantiles) -> String {
    let p50 = quantiles.p50.map_or("–".to_owned(), units::duration);
    let tail = match (quantiles.p99, quantiles.max) {
        (Some(p99), _) => format!(", p99 {}", units::duration(p99)),
        (None, Some(max)) => format!(", at most {}", units::duration(max)),
        (None, None) => String::new(),
    };
    format!("p50 {p50}{tail}")
}

pub(super) fn conclusions(sweep: &Sweep) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(knee) = &sweep.knee {
        let [good, bad] = [knee.good_per_s, knee.bad_per_s].map(|rate| {
            rate.map(|rate| units::figure(rate) + "/s").unwrap_or("none that was tried".to_owned())
        });
        let rule = &knee.rule;
        let unknown = knee.unknown.as_ref().map(|unknown| {
            let (rate, why) = (units::figure(unknown.rate_per_s), &unknown.why);
            format!("; the search ended at {rate}/s, of which this is not known: {why}")
        });
        let unknown = unknown.unwrap_or_default();
        lines.push(format!("knee: kept up to {good}, not kept from {bad}{unknown}; kept means {rule}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_in_a_sentence_is_a_figure() {
        for part in SENTENCES.iter().chain(LIMITS).flat_map(|(_, parts)| *parts) {
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
}
