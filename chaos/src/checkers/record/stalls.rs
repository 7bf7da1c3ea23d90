//! What a history can prove although its recorder stood still at times.
//!
//! 1. What a client told while the recorder stood still was written down when that was over. So it may have
//!    happened since the recorder stopped: a loss, an extend that was refused, a renewal, the sending that an
//!    answer dates.
//! 2. What the recorder itself began, a call and a crash, is as old as it says. So is a grant's return: later
//!    is the milder reading.
//! 3. What is convicted only because such a line is as late as it says is *unknown*. A conviction that stands
//!    when each of them is put as early as it can be stands.
//! 4. Of liveness, all stalls of the recorder together are added to the grace.
//! 5. A client that stood still although no fault paused it counts as paused by one: it is late by itself,
//!    and loses its turn.
//! 6. Servers end leases by the machine's clock. What is convicted after that was set, as it is when a
//!    virtual machine goes on after a pause, is *unknown*: any lock would have lost its leases.

use std::mem;
use std::sync::LazyLock;
use std::time::Duration;

use results::units::plural;

use crate::checkers::record::faults::Fault;
use crate::checkers::record::holds::{OperationEnd, OptionalNs, Record, Stall, StepKind, ms};
use crate::checkers::{CheckOptions, Checker, Finding};

/// Lines that waited are written one after the other: so long after a stall they may still be late.
const CATCH_UP_NS: u64 = 50_000_000;

/// The findings of a checker, of which none rests on a line that a stall delayed, or on a clock that was set.
/// `earliest` is [`at_the_earliest`] of the record, made if it is needed.
pub(crate) fn check(
    checker: &Checker,
    record: &Record,
    earliest: &LazyLock<Record, impl FnOnce() -> Record>,
    options: &CheckOptions<'_>,
) -> Vec<Finding> {
    let mut findings = check_delayed(checker, record, earliest, options);
    if let Some(step) = record.clock_steps.first() {
        withdraw_after_step(&mut findings, *step);
    }
    findings
}

fn check_delayed(
    checker: &Checker,
    record: &Record,
    earliest: &LazyLock<Record, impl FnOnce() -> Record>,
    options: &CheckOptions<'_>,
) -> Vec<Finding> {
    let findings = (checker.run)(record, options);
    if record.stalls.is_empty() || findings.iter().all(|finding| finding.count == 0) {
        return findings;
    }
    let lasted_ns = |stall: &Stall| stall.to_ns - stall.from_ns;
    let own_ns = of_recorder(record).map(lasted_ns).sum();
    let longest_ns = record.stalls.iter().map(lasted_ns).max().unwrap_or(0);
    let patient = CheckOptions { grace: options.grace + Duration::from_nanos(own_ns), ..options.clone() };
    let certain = (checker.run)(earliest, &patient);
    let doubt = format!(
        "the recorder or a client stood still {} {}, for {} at the longest, and what would be violated is closer than that",
        record.stalls.len(),
        plural(record.stalls.len(), "time"),
        ms(longest_ns)
    );
    let judged = findings.into_iter().zip(certain);
    judged
        .map(|(finding, mut certain)| {
            if certain.count < finding.count {
                certain.doubt(&doubt);
            }
            certain
        })
        .collect()
}

/// Withdraws what is convicted only after the machine's clock was set.
fn withdraw_after_step(findings: &mut [Finding], (set_at_ns, step_ns): (u64, i64)) {
    let sign = if step_ns < 0 { "-" } else { "" };
    let step = ms(step_ns.unsigned_abs());
    for finding in findings.iter_mut().filter(|finding| finding.count > 0) {
        if finding.anomalies.iter().all(|anomaly| anomaly.to_ns > set_at_ns) {
            let (doubts, notes) = (mem::take(&mut finding.doubts), mem::take(&mut finding.notes));
            *finding = Finding { doubts, notes, ..Finding::default() };
            finding.doubt(&format!(
                "the machine's clock was set by {sign}{step} meanwhile, and servers end leases by it"
            ));
        }
    }
}

fn of_recorder(record: &Record) -> impl Iterator<Item = &Stall> {
    record.stalls.iter().filter(|stall| stall.client.is_none())
}

/// The record with every line that a stall may have delayed at the earliest time that it can be about.
pub(crate) fn at_the_earliest(record: &Record) -> Record {
    let mut earliest = record.clone();
    let delay_ns = |t_ns: u64| {
        let within =
            |stall: &&Stall| (stall.from_ns..=stall.to_ns.saturating_add(CATCH_UP_NS)).contains(&t_ns);
        // Of stalls that follow each other closely all may have delayed it.
        of_recorder(record).find(within).map_or(0, |stall| t_ns - stall.from_ns)
    };
    let back = |t_ns: u64| t_ns - delay_ns(t_ns);
    for grant in &mut earliest.grants {
        let called_ns = record.acquires[grant.acquire as usize].called_ns;
        let sent_ns = |sent_ns: u64| sent_ns.saturating_sub(delay_ns(grant.returned_ns));
        grant.sent_ns = grant.sent_ns().map(|at_ns| sent_ns(at_ns).max(called_ns)).into();
        grant.handed_over_ns = back(grant.handed_over_ns).max(called_ns);
        grant.lost_ns = grant.lost_ns().map(back).into();
    }
    for step in &mut earliest.steps {
        let Some(returned_ns) = step.returned_ns() else { continue };
        match (step.kind, step.ending) {
            (StepKind::Renewal, _) => {
                step.called_ns = back(step.called_ns);
                step.sent_ns = back(step.sent_ns);
            }
            (_, OperationEnd::NotHeld) => step.returned_ns = OptionalNs::some(back(returned_ns)),
            _ => {
                let sent_ns = step.sent_ns.saturating_sub(delay_ns(returned_ns));
                step.sent_ns = sent_ns.max(step.called_ns);
            }
        }
    }
    for stall in &record.stalls {
        if let Some(client) = stall.client {
            let name = record.clients.get(client).to_owned();
            let mut pause = Fault::new("pause", &[name], stall.from_ns);
            pause.healed_ns = Some(stall.to_ns);
            pause.resolve(&record.clients);
            earliest.faults.push(pause);
        }
    }
    earliest.faults.sort_by_key(|fault| fault.injected_ns);
    earliest
}
