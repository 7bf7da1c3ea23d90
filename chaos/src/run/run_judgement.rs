//! The judgement of a run: what was recorded is read back, checked, and made a result.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use bench::recorded::Protects;
use bench::subject::Subject;
use results::history_file::{self, HistoryFileError};
use results::intervals::Intervals;
use results::open_loop::{OpenLoop, OpenLoopCall};
use results::over_time::{AcquireSpan, OverTime};
use results::run::{BOUNDS, FaultSpan, ScenarioResult};
use results::store::HISTORY_FILE;
use results::verdict::{State, Verdict};
use serde_json::Value;

use super::hand_offs;
use super::recorded::Recorded;
use super::{RunError, ScenarioRun};
use crate::checkers::record::holds::OperationEnd;
use crate::checkers::{self, CheckOptions, CheckReport, EvidenceMinimum, Reader, Record};
use crate::outcome::{UNKNOWN, judge};
use crate::planning::plan::Plan;
use crate::risk::failover_risk;
use crate::scenario::{FaultTrigger, Length};
use crate::servers::replica_lag::spread;
use crate::{proof, scenario};

fn empty(plan: &Plan) -> ScenarioResult {
    ScenarioResult {
        name: plan.name.clone(),
        topology: plan.topology.kind.name().to_owned(),
        subject: plan.lock.subject.clone(),
        kind: Vec::from_iter(plan.load.does.mix.keys().cloned()).join(", "),
        seed: plan.seed,
        expected: plan.expect.clone(),
        exit_code: UNKNOWN,
        about: plan.about.clone(),
        claim: plan.claim.clone(),
        declared_at: plan.declared_at.clone(),
        durability: plan.lock.durability.clone(),
        server_config: plan.topology.config.clone().into_iter().collect(),
        load: used(plan),
        inherent: plan.inherent.clone(),
        ..ScenarioResult::default()
    }
}

/// How the callers of a plan use the lock, in words: two configurations with the same may be compared.
fn used(plan: &Plan) -> BTreeMap<String, String> {
    // What stands elsewhere in a result, or says nothing of how a caller asks.
    const LEFT_OUT: [&str; 9] =
        ["subject", "kind", "watchdog", "durability", "permits", "mix", "enough", "protects", "outlives"];
    let (load, does) = (&plan.load, &plan.load.does);
    let mut fields = scenario::object(&plan.lock);
    fields.extend(scenario::object(does));
    let fields = scenario::in_words(&fields, results::units::duration, " to ");
    let in_words = |(name, value): (String, Value)| {
        let words = match (value.as_f64(), value) {
            (Some(share), _) => (share > 0.0).then(|| share.to_string())?,
            (_, Value::String(words)) => words,
            _ => return None,
        };
        (!LEFT_OUT.contains(&&*name)).then(|| (name.replace('_', " "), words))
    };
    let mut used: BTreeMap<String, String> = fields.into_iter().filter_map(in_words).collect();
    let known = [
        ("clients", load.clients.len().to_string()),
        ("tasks", load.tasks().to_string()),
        ("locks", load.locks.len().to_string()),
        ("workload", does.workload().name.to_owned()),
    ];
    used.extend(known.map(|(name, words)| (name.to_owned(), words)));
    used.extend(does.enough.map(|n| ("ends after".to_owned(), format!("{n} grants"))));
    used
}

pub(super) fn nothing(plan: &Plan) -> ScenarioRun {
    let mut result = empty(plan);
    result.notes.push("interrupted before anything was recorded".to_owned());
    ScenarioRun { result, partial: true, warnings: Vec::new() }
}

pub(super) fn judged(
    plan: &Plan,
    dir: &Path,
    subject: &dyn Subject,
    plain_history_max_bytes: u64,
    mut recorded: Recorded,
) -> Result<ScenarioRun, RunError> {
    let path = dir.join(HISTORY_FILE);
    let mut result = empty(plan);
    result.faults = std::mem::take(&mut recorded.faults);
    result.server = std::mem::take(&mut recorded.server);
    result.load_ns = scenario::nanoseconds(recorded.load);
    result.notes = std::mem::take(&mut recorded.notes);
    let mut warnings = std::mem::take(&mut recorded.unanswered);
    warnings.extend(recorded.incomplete.iter().cloned());
    // Judged line by line, and kept nowhere: a long run's history is larger than what is made of it.
    let mut reader = Reader::default();
    let warning = match history_file::read_lines(&path, |line| reader.line(&line)) {
        Ok(warning) => warning,
        Err(HistoryFileError::Io { source, .. }) => {
            return Err(RunError::io("read", &path, &source));
        }
        // No line at all: interrupted, or nothing could be written.
        Err(error) => {
            result.notes.push(format!("the history is of no use: {error}"));
            result.notes.extend(recorded.incomplete);
            return Ok(ScenarioRun { result, partial: recorded.partial, warnings });
        }
    };
    result.incomplete = doubts(plan, &recorded, &mut result.notes);
    let mut how = CheckOptions {
        doubts: result.incomplete.clone(),
        load: (recorded.load > Duration::ZERO).then_some(recorded.load),
        proofs: Some(&result.faults),
        ..check_options(plan)
    };
    if recorded.shared && plan.load.does.protects != Protects::None {
        let why = "parts have no resource in common: of what it protects, tokens alone were judged";
        how.class_doubts.push(("effect", why.to_owned()));
    }
    if !recorded.unheard.is_empty() {
        // Where somebody may have held all the while, nobody is stuck.
        how.grace = Duration::MAX;
        let why = format!("what {} held is not known", recorded.unheard.join(", "));
        how.class_doubts.push(("liveness", why));
    }
    let record = reader.finish(warning.is_some(), &BTreeMap::new());
    let report = proven(checkers::judge(record, &how), &how, dir)?;
    recoveries(&report, &mut result.faults);
    over_time(plan, &report.record, &recorded.waits, &mut result);
    result.timeline = proof::gravest_picture(&report.verdicts);
    result.verdicts = report.verdicts;
    result.operations = report.operations;
    result.figures = recorded.figures;
    if let Some(fairness) = report.fairness {
        result.figures.insert("fairness".to_owned(), fairness);
    }
    let told_ns = result.faults.iter().map(|fault| fault.recovery?.holder_knew_ns);
    if let Some(told_ns) = told_ns.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max()) {
        result.figures.insert("told_ms".to_owned(), told_ns as f64 / 1e6);
    }
    for (name, about) in BOUNDS {
        if let (true, Some(found)) = (plan.expect.contains_key(name), result.figures.get(name)) {
            result.notes.push(format!("{name} {found:.2}: {about}"));
        }
    }
    result.recovery = report.recovery;
    let first_ns = result.faults.iter().map(|fault| fault.injected_ns).min().unwrap_or(u64::MAX);
    let (before, after): (Vec<_>, Vec<_>) = recorded.lags.iter().partition(|(at_ns, _)| *at_ns < first_ns);
    result.lag_before_faults = spread(before.into_iter().map(|(_, lag_s)| lag_s));
    result.lag_from_first_fault = spread(after.into_iter().map(|(_, lag_s)| lag_s));
    let renewed_ns = report.record.watchdog_ns.values().max().copied();
    let wished = plan.lock.lease.or(plan.lock.watchdog).map(Length::ns);
    result.lease_ns = if plan.lock.lease.is_some() { wished } else { renewed_ns.or(wished) };
    result.without_grant_ns = report.without_grant_ns;
    let told = report.record.grants.iter().any(|grant| grant.lost_ns().is_some());
    result.tells_holder = report.record.tells_holder.map(|says| says || told);
    result.notes.extend(report.notes);
    (result.notes).extend(hand_offs::notes(&report.record, subject));
    let seconds = recorded.load.as_secs_f64();
    if seconds > 0.0 {
        result.grants_per_s = report.grants as f64 / seconds;
    }
    result.exit_code = judge(&result);
    // A history with a hole, or one that was cut short, convicts but does not acquit.
    if !result.incomplete.is_empty() && result.exit_code == crate::outcome::AS_EXPECTED {
        result.exit_code = UNKNOWN;
    }
    result.notes.extend(result.incomplete.iter().cloned());
    // What cannot be compressed stays as it is: it was judged, and can be judged again.
    if let Err(error) = history_file::compress_above(&path, plain_history_max_bytes) {
        result.notes.push(format!("{} was not compressed: {error}", path.display()));
    }
    result.as_expected = result.exit_code == crate::outcome::AS_EXPECTED;
    result.risk = failover_risk(&result, &plan.topology);
    Ok(ScenarioRun { result, partial: recorded.partial, warnings })
}

/// Why a run shows less than it was to show.
fn doubts(plan: &Plan, recorded: &Recorded, notes: &mut Vec<String>) -> Vec<String> {
    let mut doubts = recorded.incomplete.clone();
    if plan.load.does.cancel > 0.0 {
        match recorded.given_up {
            // Where nothing else is tried, a run in which nobody gave up shows nothing.
            0 if plan.faults.is_empty() => {
                doubts.push("no caller gave up an acquire, though some were to".to_owned());
            }
            count => notes.push(format!("callers gave up {count} acquires before the answer")),
        }
    }
    if recorded.partial {
        doubts.push("interrupted: what was recorded until then".to_owned());
    }
    doubts
}

/// The report with a proof of each violated verdict, which stands in the run's directory too.
fn proven(mut report: CheckReport, how: &CheckOptions<'_>, dir: &Path) -> Result<CheckReport, RunError> {
    let is_violated = |(_, verdict): (&str, &Verdict)| verdict.state == State::Violated;
    if report.verdicts.iter().any(is_violated) {
        // Only a proof needs the lines again.
        let kept = history_file::read(&dir.join(HISTORY_FILE));
        let kept = kept.map_err(|error| RunError::Input(error.to_string()))?;
        proof::attach(&mut report, &kept.history, how);
    }
    let proofs = dir.join(proof::PROOF_DIR);
    proof::write(&report.verdicts, &proofs)
        .map_err(|error| RunError::io("write the proofs in", &proofs, &error))?;
    Ok(report)
}

fn recoveries(report: &CheckReport, faults: &mut [FaultSpan]) {
    let record = &report.record;
    for fault in faults {
        let mut rows = record.faults.iter().zip(&report.faults);
        let own =
            rows.find(|(other, _)| other.fault == fault.fault && other.injected_ns == fault.injected_ns);
        fault.recovery = own.map(|(_, row)| *row);
        let in_place_ns = fault.done_ns.unwrap_or(fault.injected_ns);
        fault.first_grant_after_ns = record.goes_on_after_ns(fault.injected_ns, in_place_ns);
    }
}

/// Grants over the time of a history, and how long callers waited where cycles begin on a schedule.
fn over_time(plan: &Plan, record: &Record, waits: &[OpenLoopCall], result: &mut ScenarioResult) {
    let asked = record.acquires.iter().map(|ask| AcquireSpan {
        owner: record.owners.get(ask.owner),
        called_ns: ask.called_ns,
        granted_ns: ask.returned_ns().filter(|_| ask.ending == OperationEnd::Ok),
    });
    result.over_time = OverTime::of(record.end_ns, asked);
    if let Some(over) = &mut result.over_time
        && let Some(responses) = Intervals::of(record.end_ns, responses(waits))
    {
        // From when the call was due, not made: a lock that stalls keeps calls from being made.
        over.acquire = Some(responses);
    }
    result.open_loop = plan
        .load
        .pace()
        .and_then(|pace| OpenLoop::of(pace.rate_per_s, result.load_ns, waits, &result.faults));
}

/// When each grant came, how long it took, and how often that was: once.
fn responses(waits: &[OpenLoopCall]) -> impl Iterator<Item = (u64, u64, u64)> {
    waits.iter().filter(|wait| wait.granted).map(|wait| (wait.due_ns + wait.waited_ns, wait.waited_ns, 1))
}

/// The lease that a library renews where nothing else is wished.
const WATCHDOG_NS: u64 = 30_000_000_000;

/// How the history of a plan is judged, as far as the plan knows.
pub fn check_options(plan: &Plan) -> CheckOptions<'static> {
    let kinds = plan.load.does.mix.keys();
    let lock = &plan.lock;
    let watchdog_ns = lock.watchdog.map_or(WATCHDOG_NS, Length::ns);
    let timed = plan
        .faults
        .iter()
        .filter(|fault| !matches!(fault.when, FaultTrigger::AtNs(0) | FaultTrigger::OnMessage(_)));
    CheckOptions {
        // Where more tasks than locks are at work, some must have met.
        floors: Some(EvidenceMinimum {
            contended: u64::from(plan.load.tasks() > plan.load.locks.len()),
            granted_before: timed.map(|fault| fault.fault.clone()).collect(),
            outlived: plan.load.does.outlives.clone(),
            outlives_lease: lock.lease.is_none() && plan.load.does.hold.max_ns >= watchdog_ns,
        }),
        clients: plan.load.client_names().collect(),
        kinds: kinds.filter(|kind| !kind.is_empty()).cloned().collect(),
        masters: plan.masters(),
        ..CheckOptions::default()
    }
}
