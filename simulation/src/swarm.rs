//! Many seeds, on several threads: what each must keep clean, and what all of them met together.

use std::{collections::BTreeMap, io, mem::MaybeUninit, ops::Range, thread, time::Duration};

use chaos::{plan::Plan, shrink::Shrinker};
use results::history::{Call, End, Entry, Event, History, Phase};
use results::sequence::Sequence;
use results::verdict::Verdicts;
use serde::{Deserialize, Serialize};

use crate::draw::FixedChoices;
use crate::run::Outcome;
use crate::runtime::forked_copy::{CopyOutcome, ForkedCopy, Limit};
use crate::runtime::{forked_copy, system};
use crate::{draw, run, server};

/// What an operation was in the middle of when a fault was injected.
pub const PHASES: [&str; 4] = ["acquire", "hold", "extend", "release"];

/// How often a fault met an operation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FaultEncounter {
    /// The fault, by name.
    pub fault: String,
    /// One of [`PHASES`].
    pub phase: String,
    /// The kind of the lock.
    pub kind: String,
}

/// A run takes less than a second, one with a proof some seconds: one that takes longer has no end.
const LIMIT: Limit = Limit { processor_s: 60, wall_s: 1_200 };

/// What one seed led to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SeedReport {
    /// The seed.
    pub seed: u64,
    /// How much time passed in its simulation.
    pub simulated: Duration,
    /// How many locks were granted.
    pub grants: u64,
    /// Why there is no more to say of it: its run had no end, or broke off.
    pub failed: Option<String>,
    /// How much of a processor's time it took.
    pub processor: Duration,
    /// Classes that should be clean and are violated.
    pub convicted: Vec<String>,
    /// Classes that should be violated and are not.
    pub missed: Vec<String>,
    /// Classes that should be clean and of which too little is known.
    pub unknown: Vec<String>,
    /// Why something is unknown, or what was found.
    pub verdicts: Verdicts,
    /// What met what, and how often.
    pub met: Vec<(FaultEncounter, u64)>,
    /// The lines of its history, where they are wanted.
    pub history: Vec<String>,
    /// And what clients and servers said to each other in it.
    pub trace: Vec<String>,
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
    /// How much of a processor's time everything took, that of this process too.
    pub processor: Duration,
    /// Seeds that were convicted, and those whose run failed, in order.
    pub convicted: Vec<SeedReport>,
    /// In how many seeds a class was not violated that should be.
    pub missed: BTreeMap<String, u64>,
    /// What was met.
    pub coverage: BTreeMap<FaultEncounter, u64>,
}

impl SeedReport {
    fn of(seed: u64, outcome: &Outcome, in_full: bool) -> Self {
        let lines = outcome.history.lines.iter().filter(|_| in_full);
        SeedReport {
            seed,
            simulated: outcome.simulated,
            grants: outcome.report.grants,
            failed: None,
            processor: Duration::ZERO,
            convicted: outcome.convicted.clone(),
            missed: outcome.missed.clone(),
            unknown: outcome.unknown.clone(),
            verdicts: outcome.report.verdicts.clone(),
            met: met(&outcome.history).into_iter().collect(),
            history: lines.map(|line| line.to_json()).collect(),
            trace: outcome.trace.clone(),
            diagram: outcome.sequence.as_ref().map(Sequence::mermaid),
        }
    }
}

impl Report {
    fn take(&mut self, one: SeedReport) {
        self.seeds += 1;
        self.simulated += one.simulated;
        self.grants += one.grants;
        self.processor += one.processor;
        for (what, count) in &one.met {
            *self.coverage.entry(what.clone()).or_default() += count;
        }
        for class in &one.missed {
            *self.missed.entry(class.clone()).or_default() += 1;
        }
        if one.failed.is_some() || !one.convicted.is_empty() {
            self.convicted.push(one);
        } else if !one.unknown.is_empty() {
            self.unknown.push(one);
        }
    }
}

/// Runs the plan of each seed, so many at a time, each in a process of its own. `told` hears of each when it
/// is done; of `history_of` with the lines of its history. A process that calls this has not used tokio: else
/// histories tell what it did before.
///
/// A run that has no end, or breaks off, is a finding like a conviction: the others go on.
pub fn run(
    seeds: impl Iterator<Item = u64> + Send,
    jobs: usize,
    wanted: &FixedChoices,
    history_of: Option<u64>,
    told: impl FnMut(&SeedReport) + Send,
) -> io::Result<Report> {
    let work = |seed| one(&draw::plan(seed, wanted), history_of == Some(seed));
    prepared(|| run_each(seeds, jobs, LIMIT, work, told))
}

/// Does something on a thread that is as each run is to find it: with the scripts' interpreter, and with
/// nothing random that is not from a seed.
fn prepared<T: Send>(what: impl FnOnce() -> T + Send) -> T {
    let done = thread::scope(|scope| {
        let thread = scope.spawn(|| {
            system::enter(0);
            server::prepare();
            system::leave();
            // Asked and kept once: each copy would ask the processor anew, for which a virtual machine stops.
            #[cfg(target_arch = "x86_64")]
            let _ = std::is_x86_feature_detected!("avx2");
            what()
        });
        thread.join()
    });
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Does `work` for each seed in a process of its own, so many at a time; `told` hears what each said, or how
/// it ended. As of [`run()`], the process that calls this has not used tokio.
pub fn run_apart(
    seeds: Range<u64>,
    jobs: usize,
    work: impl Fn(u64) -> Vec<u8> + Send,
    mut told: impl FnMut(u64, Result<Vec<u8>, String>) + Send,
) -> io::Result<()> {
    let told = |copy: ForkedCopy| {
        told(copy.number, copy.finish().said);
        Ok(())
    };
    prepared(|| run_copies(seeds, jobs, LIMIT, work, told))
}

fn run_copies(
    mut seeds: impl Iterator<Item = u64>,
    jobs: usize,
    limit: Limit,
    work: impl Fn(u64) -> Vec<u8>,
    mut told: impl FnMut(ForkedCopy) -> io::Result<()>,
) -> io::Result<()> {
    let mut at_work = Vec::new();
    loop {
        while at_work.len() < jobs.max(1)
            && let Some(seed) = seeds.next()
        {
            at_work.push(ForkedCopy::start(seed, limit, || work(seed))?);
        }
        if at_work.is_empty() {
            return Ok(());
        }
        let place = ForkedCopy::first(&mut at_work)?;
        told(at_work.swap_remove(place))?;
    }
}

fn run_each(
    seeds: impl Iterator<Item = u64>,
    jobs: usize,
    limit: Limit,
    work: impl Fn(u64) -> Vec<u8>,
    mut told: impl FnMut(&SeedReport),
) -> io::Result<Report> {
    let began = own_processor();
    let mut report = Report::default();
    run_copies(seeds, jobs, limit, work, |copy| {
        let one = finish(copy)?;
        told(&one);
        report.take(one);
        Ok(())
    })?;
    report.convicted.sort_by_key(|one| one.seed);
    report.unknown.sort_by_key(|one| one.seed);
    report.processor += own_processor().saturating_sub(began);
    Ok(report)
}

/// Runs a plan in this process, in full with its history and proof: what the process says of it.
fn one(plan: &Plan, in_full: bool) -> Vec<u8> {
    let outcome = run::run(plan, in_full);
    let one = outcome.map(|outcome| SeedReport::of(plan.seed, &outcome, in_full));
    serde_json::to_vec(&one.map_err(|error| error.to_string())).expect("it is plain JSON")
}

fn finish(run: ForkedCopy) -> io::Result<SeedReport> {
    let seed = run.number;
    let CopyOutcome { said, processor } = run.finish();
    let one = match said {
        Ok(said) => {
            let one: Result<SeedReport, String> = serde_json::from_slice(&said)?;
            one.map_err(io::Error::other)?
        }
        Err(how) => SeedReport { seed, failed: Some(how), ..SeedReport::default() },
    };
    Ok(SeedReport { processor, ..one })
}

fn run_plan(plan: &Plan, in_full: bool) -> io::Result<SeedReport> {
    let mut run = ForkedCopy::start(plan.seed, LIMIT, || one(plan, in_full))?;
    ForkedCopy::first(std::slice::from_mut(&mut run))?;
    finish(run)
}

fn own_processor() -> Duration {
    let mut usage = MaybeUninit::uninit();
    // SAFETY: there is room for the answer, which is complete.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    forked_copy::processor(&usage)
}

/// Looks for the smallest plan that still violates a class which must be clean, by so many runs at most: that
/// plan, and its run in full.
pub fn smallest(plan: Plan, class: &str, tries: u32) -> io::Result<(Plan, SeedReport)> {
    let mut shrinker = Shrinker::new(plan, tries);
    prepared(|| {
        while let Some(reduction) = shrinker.next() {
            let one = run_plan(&reduction.plan, false)?;
            shrinker.tell(one.convicted.iter().any(|convicted| convicted == class));
        }
        let smallest = shrinker.smallest().clone();
        let one = run_plan(&smallest, true)?;
        Ok((smallest, one))
    })
}

/// Counts which faults came while operations were where.
fn met(history: &History) -> BTreeMap<FaultEncounter, u64> {
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
                if let (Some((_, kind)), End::Ok { grant: Some(grant), .. }) = (open.remove(id), end) {
                    held.insert(grant.clone(), kind);
                }
            }
            Entry::Event(Event::Fault { fault, phase: Phase::Inject, .. }) => {
                let holds = held.values().map(|kind| ("hold", kind.clone()));
                for (phase, kind) in open.values().cloned().chain(holds) {
                    let what = FaultEncounter { fault: fault.clone(), phase: phase.to_owned(), kind };
                    *coverage.entry(what).or_default() += 1;
                }
            }
            _ => {}
        }
    }
    coverage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_end_is_found_by_its_seed_and_the_others_go_on() {
        let limit = Limit { processor_s: 1, wall_s: 60 };
        let work = |seed| {
            let mut turns = 0_u64;
            while std::hint::black_box(seed) == 3 {
                turns = std::hint::black_box(turns.wrapping_add(1));
            }
            assert!(seed != 5, "this one breaks off");
            let one = SeedReport { seed, grants: 1, ..SeedReport::default() };
            serde_json::to_vec(&Ok::<_, String>(one)).expect("it is plain JSON")
        };
        let report = run_each(1..8, 2, limit, work, |_| {}).expect("it runs");
        let failed = report.convicted.iter().map(|one| (one.seed, one.failed.as_deref()));
        let failed: Vec<_> = failed.collect();
        let no_end = "it had no end: it was ended after 1 s of a processor's time";
        assert_eq!(failed[0], (3, Some(no_end)));
        assert_eq!((failed.len(), failed[1].0), (2, 5));
        assert_eq!((report.seeds, report.grants), (7, 5));
        assert!(report.processor >= Duration::from_secs(1));
    }

    #[test]
    fn a_run_that_waits_for_what_never_comes_is_ended() {
        let limit = Limit { processor_s: 60, wall_s: 1 };
        let work = |_| -> Vec<u8> {
            loop {
                std::thread::park();
            }
        };
        let report = run_each(7..8, 1, limit, work, |_| {}).expect("it runs");
        let failed = report.convicted[0].failed.as_deref();
        let no_end = "it had no end: it was ended after 1 s, in which it mostly waited";
        assert_eq!(failed, Some(no_end));
    }
}
