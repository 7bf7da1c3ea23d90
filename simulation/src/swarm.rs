//! Many seeds, on several threads: what each must keep clean, and what all of them met together.

use std::{collections::BTreeMap, io, ops::Range, time::Duration};

use chaos::{plan::Plan, shrink::Shrinker};
use results::{
    history::{Call, End, Entry, Event, History, Phase},
    sequence::Sequence,
    verdict::Verdicts,
};
use serde::{Deserialize, Serialize};

use crate::{
    apart::Apart,
    draw::{self, Wanted},
    run::{self, Outcome},
};

/// What an operation was in the middle of when a fault was injected.
pub const PHASES: [&str; 4] = ["acquire", "hold", "extend", "release"];

/// How often a fault met an operation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Met {
    /// The fault, by name.
    pub fault: String,
    /// One of [`PHASES`].
    pub phase: String,
    /// The kind of the lock.
    pub kind: String,
}

/// What one seed led to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeedReport {
    /// The seed.
    pub seed: u64,
    /// How much time passed in its simulation.
    pub simulated: Duration,
    /// How many locks were granted.
    pub grants: u64,
    /// Classes that should be clean and are violated.
    pub convicted: Vec<String>,
    /// Classes that should be clean and of which too little is known.
    pub unknown: Vec<String>,
    /// Why something is unknown, or what was found.
    pub verdicts: Verdicts,
    /// What met what, and how often.
    pub met: Vec<(Met, u64)>,
    /// The lines of its history, where they are wanted.
    pub history: Vec<String>,
    /// Of a conviction, where it is wanted: the shortest history that convicts, as a diagram for Mermaid.
    pub diagram: Option<String>,
}

/// What all seeds led to.
#[derive(Debug, Default)]
pub struct Report {
    /// How many were run.
    pub seeds: u64,
    /// How much time passed in all simulations.
    pub simulated: Duration,
    /// How many locks were granted.
    pub grants: u64,
    /// Seeds of which too little is known, in order.
    pub unknown: Vec<SeedReport>,
    /// Seeds that were convicted, in order.
    pub convicted: Vec<SeedReport>,
    /// What was met.
    pub coverage: BTreeMap<Met, u64>,
}

impl SeedReport {
    fn of(seed: u64, outcome: &Outcome, in_full: bool) -> Self {
        let lines = outcome.history.lines.iter().filter(|_| in_full);
        SeedReport {
            seed,
            simulated: outcome.simulated,
            grants: outcome.report.grants,
            convicted: outcome.convicted.clone(),
            unknown: outcome.unknown.clone(),
            verdicts: outcome.report.verdicts.clone(),
            met: met(&outcome.history).into_iter().collect(),
            history: lines.map(|line| line.to_json()).collect(),
            diagram: outcome.sequence.as_ref().map(Sequence::mermaid),
        }
    }
}

impl Report {
    fn take(&mut self, one: SeedReport) {
        self.seeds += 1;
        self.simulated += one.simulated;
        self.grants += one.grants;
        for (what, count) in &one.met {
            *self.coverage.entry(what.clone()).or_default() += count;
        }
        if !one.convicted.is_empty() {
            self.convicted.push(one);
        } else if !one.unknown.is_empty() {
            self.unknown.push(one);
        }
    }
}

/// Runs the plan of each seed, so many at a time, each in a process of its own. `told` hears of each when it is done; of
/// `history_of` with the lines of its history. A process that calls this
/// has one thread, and has not used tokio: else histories tell what it did before.
///
/// # Errors
/// A subject that is unknown or cannot be connected, a run that panicked, or a process that could not be started.
pub fn run(
    seeds: Range<u64>,
    jobs: usize,
    wanted: &Wanted,
    history_of: Option<u64>,
    mut told: impl FnMut(&SeedReport),
) -> io::Result<Report> {
    let mut report = Report::default();
    let mut at_work = Vec::new();
    let mut rest = seeds;
    loop {
        while at_work.len() < jobs.max(1)
            && let Some(seed) = rest.next()
        {
            at_work.push(start(
                || draw::plan(seed, wanted),
                history_of == Some(seed),
            )?);
        }
        if at_work.is_empty() {
            report.convicted.sort_by_key(|one| one.seed);
            report.unknown.sort_by_key(|one| one.seed);
            return Ok(report);
        }
        let place = Apart::first(&mut at_work)?;
        let one = finish(at_work.swap_remove(place))?;
        told(&one);
        report.take(one);
    }
}

/// Begins the run of a plan in a process of its own, in full with its history and the proof of a conviction.
fn start(plan: impl FnOnce() -> Plan, in_full: bool) -> io::Result<Apart> {
    Apart::start(|| {
        let plan = plan();
        let outcome = run::run(&plan, in_full);
        let one = outcome.map(|outcome| SeedReport::of(plan.seed, &outcome, in_full));
        let one = one.map_err(|error| error.to_string());
        serde_json::to_vec(&one).expect("it is plain JSON")
    })
}

fn finish(mut run: Apart) -> io::Result<SeedReport> {
    Apart::first(std::slice::from_mut(&mut run))?;
    let one: Result<SeedReport, String> = serde_json::from_slice(&run.finish()?)?;
    one.map_err(io::Error::other)
}

/// Looks for the smallest plan that still violates a class which must be clean, by so many runs at most: that plan, and its run in full.
///
/// # Errors
/// As [`run()`].
pub fn smallest(plan: Plan, class: &str, tries: u32) -> io::Result<(Plan, SeedReport)> {
    let mut shrinker = Shrinker::new(plan, tries);
    while let Some(reduction) = shrinker.next() {
        let one = finish(start(|| reduction.plan, false)?)?;
        shrinker.tell(one.convicted.iter().any(|convicted| convicted == class));
    }
    let smallest = shrinker.smallest().clone();
    let one = finish(start(|| smallest.clone(), true)?)?;
    Ok((smallest, one))
}

/// Counts which faults came while operations were where.
fn met(history: &History) -> BTreeMap<Met, u64> {
    let mut coverage = BTreeMap::new();
    // Calls without an answer, and grants that were not given back: their phase and their kind.
    let mut open: BTreeMap<u64, (&'static str, String)> = BTreeMap::new();
    let mut held: BTreeMap<String, String> = BTreeMap::new();
    for line in &history.lines {
        match &line.entry {
            Entry::Call { id, call } => {
                let kind = |grant: &String| held.get(grant).cloned().unwrap_or_default();
                let phase = match call {
                    Call::Acquire(acquire) => ("acquire", acquire.kind.clone()),
                    Call::Extend { grant, .. } => ("extend", kind(grant)),
                    Call::Release { grant } => {
                        let kind = kind(grant);
                        held.remove(grant);
                        ("release", kind)
                    }
                    _ => continue,
                };
                open.insert(*id, phase);
            }
            Entry::End { id, end } => {
                if let (
                    Some((_, kind)),
                    End::Ok {
                        grant: Some(grant), ..
                    },
                ) = (open.remove(id), end)
                {
                    held.insert(grant.clone(), kind);
                }
            }
            Entry::Event(Event::Fault {
                fault,
                phase: Phase::Inject,
                ..
            }) => {
                let holds = held.values().map(|kind| ("hold", kind.clone()));
                for (phase, kind) in open.values().cloned().chain(holds) {
                    let what = Met {
                        fault: fault.clone(),
                        phase: phase.to_owned(),
                        kind,
                    };
                    *coverage.entry(what).or_default() += 1;
                }
            }
            _ => {}
        }
    }
    coverage
}
