//! The sentence that matters of two runs: how much slower or faster one is, and which loses locks.

use itertools::Itertools;

use super::compare_rows;
use super::settings::{pairs, row_key, scenario_key};
use crate::record::run::{Comparison, Estimate, Ratio, Run};
use crate::record::verdict::{State, Verdict};
use crate::wording::units;

/// `B is 12 % (9–15) slower than A and loses no lock where A lost 3.`
pub(super) fn sentence(base: &Run, other: &Run) -> String {
    let said = speed(base, other).into_iter().chain(safety(base, other));
    let (this, that) = (&other.run, &base.run);
    match said.collect::<Vec<_>>().as_slice() {
        [] => format!("{this} and {that} have nothing that can be compared."),
        words => format!("{this} {}.", words.join(" and ")),
    }
}

fn speed(base: &Run, other: &Run) -> Option<String> {
    let rows = pairs(&base.rows, &other.rows, row_key);
    let safe = rows.iter().filter(|(a, b)| !a.is_void() && !b.is_void());
    let found: Vec<_> = safe
        .filter_map(|(a, b)| {
            compare_rows(a, b).into_iter().find(|comparison| comparison.metric == "cycles_per_s")
        })
        .collect();
    let of = |verdict: &str| found.iter().filter(|c| c.verdict == verdict).count();
    let than = &base.run;
    match (found.as_slice(), of("worse"), of("better")) {
        ([], ..) => None,
        ([one], 1, _) | ([one], _, 1) => Some(format!("is {} than {than}", share(&one.ratio))),
        (all, 0, 0) => Some(match all.len() {
            1 => format!("is not shown to be faster or slower than {than}"),
            n => format!("is in none of {n} rows shown to be faster or slower than {than}"),
        }),
        (all, slower, faster) => {
            let far = |one: &&Comparison| one.ratio.point.ln().abs();
            let ways = [(slower, "slower", "worse"), (faster, "faster", "better")];
            let words = ways.into_iter().filter_map(|(count, how, verdict)| {
                let shown = all.iter().filter(|one| one.verdict == verdict);
                let most = shown.max_by(|a, b| far(a).total_cmp(&far(b)))?;
                let (at_most, rows) = (share(&most.ratio), all.len());
                let place = format!("{} on {}", most.b, most.r#where);
                Some(format!("{how} in {count} of {rows} rows (at most {at_most}, {place})"))
            });
            Some(format!("is {} than {than}", words.format(" and ")))
        }
    }
}

/// `12 % (9–15) slower`, `2.1 % (1.8–2.4) faster`.
fn share(ratio: &Ratio) -> String {
    let percent = |value: f64| (value - 1.0).abs() * 100.0;
    let ends = ratio.low.zip(ratio.high).map(|(low, high)| (percent(low), percent(high)));
    let interval = Estimate {
        median: percent(ratio.point),
        low: ends.map(|(low, high)| low.min(high)),
        high: ends.map(|(low, high)| low.max(high)),
    };
    let (figure, range) = (units::figure(interval.median), interval.behind());
    let way = if ratio.point < 1.0 { "slower" } else { "faster" };
    format!("{figure} %{range} {way}")
}

/// How many locks each lost in scenarios whose outcome both know; controls do not count.
fn safety(base: &Run, other: &Run) -> Option<String> {
    let both = pairs(&base.scenarios, &other.scenarios, scenario_key).into_iter();
    let both = both.filter(|(a, _)| !a.is_control());
    let both: Vec<_> = both.map(|(a, b)| [&a.verdicts.contract, &b.verdicts.contract]).collect();
    let known = |pair: &&[&Verdict; 2]| pair.iter().all(|one| one.state != State::Unknown);
    let known: Vec<_> = both.iter().filter(known).collect();
    if both.is_empty() {
        return None;
    }
    if known.is_empty() {
        return Some("is not known to lose or to keep its locks".to_owned());
    }
    let lost = |of: usize| known.iter().map(|pair| pair[of].count).fold(0, u64::saturating_add);
    let than = &base.run;
    let words = match (lost(0), lost(1)) {
        (0, 0) => format!("loses no lock, as {than}"),
        (a, b) => {
            let a = match a {
                0 => "none".to_owned(),
                a => units::count(a),
            };
            let b = match b {
                0 => "no lock".to_owned(),
                1 => "1 lock".to_owned(),
                b => format!("{} locks", units::count(b)),
            };
            format!("loses {b} where {than} lost {a}")
        }
    };
    let (unknown, all) = (both.len() - known.len(), both.len());
    let doubt = match unknown {
        0 => String::new(),
        _ => format!(" (of {unknown} of {all} scenarios too little is known)"),
    };
    Some(words + &doubt)
}
