//! Measures the rows of a curve, one plan after the other, and sets them beside each other.

use std::time::Duration;

use results::measures::{KneeAt, Sweep, SweepPoint, UnknownRate};
use results::run::BenchRow;

use super::knee::{Answer, Search, Step};
use super::levels;
use crate::driver::BenchPlan;
use crate::workload::Pace;

/// What a rate must do to be kept.
const KEPT: &str = "99 % of the offered cycles completed in the window and the row valid";
/// Measurements that a search for the knee may take.
const TRIES: u32 = 24;
/// No window of a search is shorter.
const SHORTEST: Duration = Duration::from_millis(500);
/// The proof of a candidate is so many times as long.
const LONG: u32 = 4;
/// So many cycles are due in a window at least, and twice as many in a proof: of fewer, one that ends behind
/// the window is over 1 % of all, and those that a valid row needs are few beside it.
const CYCLES: f64 = 120.0;

/// The rows of a plan that was measured, and what ends the sweep with them.
type Measured<E> = (Vec<BenchRow>, Option<E>);

/// One curve per subject over rising levels up to `most`, in `sweeps`. What ended it early, if anything did.
pub async fn over_levels<E>(
    what: &str,
    most: u32,
    sweeps: &mut Vec<Sweep>,
    mut measure: impl AsyncFnMut(u32) -> Measured<E>,
) -> Option<E> {
    let (mut ended, mut done) = (None, Vec::new());
    for level in levels(most) {
        let (rows, end) = measure(level).await;
        done.extend(rows.into_iter().map(|row| (f64::from(level), row)));
        ended = end;
        if ended.is_some() {
            break;
        }
    }
    let mut subjects: Vec<&str> = done.iter().map(|(_, row)| row.subject.as_str()).collect();
    subjects.sort_unstable();
    subjects.dedup();
    for subject in subjects {
        sweeps.push(curve(what, done.iter().filter(|(_, row)| row.subject == subject)));
    }
    ended
}

/// One curve per subject over offered cycles/s, with its knee; of so many tasks that the lock gives way.
pub async fn over_rates<E>(
    base: &BenchPlan,
    (first_per_s, tasks): (f64, u32),
    sweeps: &mut Vec<Sweep>,
    mut measure: impl AsyncFnMut(&BenchPlan) -> Measured<E>,
) -> Option<E> {
    for subject in &base.subjects {
        let mut search = Search::new(first_per_s, 1.0, 1e6, TRIES);
        let mut done: Vec<(f64, BenchRow)> = Vec::new();
        let mut why = String::new();
        let knee = loop {
            let (rate_per_s, long) = match search.next() {
                Step::Done(knee) => break knee,
                Step::Measure { rate_per_s, long } => (rate_per_s, long),
            };
            let mut plan = base.clone();
            plan.subjects = vec![subject.clone()];
            plan.rounds = 1;
            plan.duration = window(base.duration, rate_per_s, long);
            plan.pace = Some(Pace { rate_per_s });
            plan.tasks = vec![tasks];
            let (rows, ended) = measure(&plan).await;
            if ended.is_some() {
                return ended;
            }
            done.extend(rows.into_iter().map(|row| (rate_per_s, row)));
            let row = done.last().map(|(_, row)| row);
            let came = row.map_or(Answer::Unknown, answer);
            if let (Answer::Unknown, Some(row)) = (came, row) {
                why = row.why_invalid.join("; ");
            }
            search.record(came);
        };
        if done.is_empty() {
            continue;
        }
        let unknown = knee.unknown_per_s;
        done.sort_by(|a, b| a.0.total_cmp(&b.0));
        sweeps.push(Sweep {
            knee: Some(KneeAt {
                good_per_s: knee.good_per_s,
                bad_per_s: knee.bad_per_s,
                unknown: unknown.map(|rate_per_s| UnknownRate { rate_per_s, why }),
                rule: KEPT.to_owned(),
            }),
            ..curve("rate", done.iter())
        });
    }
    None
}

/// How long a rate is offered.
fn window(usual: Duration, rate_per_s: f64, long: bool) -> Duration {
    let (times, cycles) = if long { (LONG, 2.0 * CYCLES) } else { (1, CYCLES) };
    (usual.max(SHORTEST) * times).max(Duration::from_secs_f64(cycles / rate_per_s))
}

/// What a row says of the rate that it was offered.
fn answer(row: &BenchRow) -> Answer {
    let pacing = row.measures.pacing.as_ref();
    match (row.valid, pacing.is_some_and(|pacing| !pacing.is_kept())) {
        (true, _) => Answer::Kept,
        (false, true) => Answer::NotKept,
        (false, false) => Answer::Unknown,
    }
}

/// The rows of one subject, level by level.
fn curve<'a>(over: &str, rows: impl Iterator<Item = &'a (f64, BenchRow)> + Clone) -> Sweep {
    let first = rows.clone().next().map(|(_, row)| row.clone()).unwrap_or_default();
    Sweep {
        over: over.to_owned(),
        subject: first.subject,
        kind: first.measures.load.kind,
        topology: first.topology,
        workload: first.workload,
        points: rows.map(|(level, row)| point(*level, row)).collect(),
        ..Sweep::default()
    }
}

fn point(level: f64, row: &BenchRow) -> SweepPoint {
    SweepPoint {
        level,
        cycles_per_s: row.cycles_per_s,
        latency_ns: row.measures.response_ns.unwrap_or(row.acquire_ns),
        handoff_p50_ns: row.handoff_ns.and_then(|handoff| handoff.p50),
        commands_per_cycle: row.commands_per_cycle,
        server_cpu_us_per_cycle: row.server_cpu_us_per_cycle,
        client_cost: row.measures.client_cost,
        valid: row.valid,
    }
}
