//! The rounds that generators of one load wrote down, read side by side and made into the rows of one run.
//! Histograms are summed before any quantile is taken; one round of each generator is in memory.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use results::limits;
use results::run::Run;
use serde::{Deserialize, Serialize};

use super::{BenchOutcome, BenchPlan, Group, WholeRound, compare, groups, rows, subjects_of, workloads_of};
use crate::{parts::GeneratorShare, subject::SubjectError};

/// Why the rounds of generators cannot be put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartsError {
    /// What was written down is not what this reads.
    #[error("{0}: {1}")]
    Bad(String, String),
    /// They follow different plans, or one is there twice.
    #[error("{0} and {1} are not parts of one plan: {2}")]
    OtherPlan(String, String, String),
    /// A subject or workload that is not known here.
    #[error(transparent)]
    Unknown(#[from] SubjectError),
}

/// Which round of which arm: the round, the group, the arm.
type Key = (usize, usize, usize);

#[derive(Serialize, Deserialize)]
struct Head {
    share: GeneratorShare,
    plan: BenchPlan,
}

#[derive(Serialize, Deserialize)]
struct RoundLine<W> {
    of: Key,
    whole: W,
}

pub(super) fn line(of: Key, whole: &WholeRound) -> String {
    serde_json::to_string(&RoundLine { of, whole }).expect("numbers and words")
}

impl BenchPlan {
    /// The first line of what a generator writes down, before those of its rounds.
    pub fn head(&self) -> String {
        let (share, plan) = (self.share, self.clone());
        serde_json::to_string(&Head { share, plan }).expect("numbers and words")
    }

    /// What all generators of a load have in common, as JSON.
    pub fn in_common(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("numbers and words")
    }
}

/// What a generator wrote down: a name for messages, and its lines.
type Source = (String, Box<dyn BufRead>);

struct RoundSource {
    name: String,
    share: GeneratorShare,
    lines: Box<dyn BufRead>,
    next: Option<RoundLine<WholeRound>>,
}

impl RoundSource {
    fn open((name, mut lines): Source) -> Result<Option<(Self, BenchPlan)>, PartsError> {
        let Some(text) = next_line(&name, lines.as_mut())? else { return Ok(None) };
        let head: Head = read(&name, &text)?;
        let mut part = RoundSource { name, share: head.share, lines, next: None };
        part.advance()?;
        Ok(Some((part, head.plan)))
    }

    fn advance(&mut self) -> Result<Option<RoundLine<WholeRound>>, PartsError> {
        let text = next_line(&self.name, self.lines.as_mut())?;
        let next = text.map(|text| read(&self.name, &text)).transpose()?;
        Ok(std::mem::replace(&mut self.next, next))
    }
}

/// The next whole line; one without an end was being written when its generator was killed.
fn next_line(name: &str, lines: &mut dyn BufRead) -> Result<Option<String>, PartsError> {
    let mut text = Vec::new();
    let read = limits::read_line(&mut &mut *lines, &mut text).map(|_| String::from_utf8(text));
    let bad = |why: &dyn fmt::Display| PartsError::Bad(name.to_owned(), why.to_string());
    let text = read.map_err(|why| bad(&why))?.map_err(|why| bad(&why))?;
    Ok(text.ends_with('\n').then_some(text))
}

fn read<'a, T: Deserialize<'a>>(name: &str, text: &'a str) -> Result<T, PartsError> {
    serde_json::from_str(text).map_err(|error| PartsError::Bad(name.to_owned(), error.to_string()))
}

/// What a part measured, a line for each round, in its run's directory.
pub const ROUNDS_FILE: &str = "rounds.jsonl";

/// What all parts of a run measured together, from what each wrote down.
pub fn merged_runs(runs: &[Run], dirs: &[PathBuf]) -> Result<BenchOutcome, PartsError> {
    let mut sources: Vec<Source> = Vec::new();
    for (run, dir) in runs.iter().zip(dirs) {
        // One that was killed before its first line has measured nothing.
        if let Ok(file) = limits::open(&dir.join(ROUNDS_FILE)) {
            sources.push((run.run.clone(), Box::new(BufReader::new(file))));
        }
    }
    merged(sources)
}

/// A row holds the rounds that as many parts made as its first one; what a lost part did not make is left
/// out, and said. Where any part is missing from a row, it is not valid and is compared with nothing.
fn merged(sources: Vec<Source>) -> Result<BenchOutcome, PartsError> {
    let mut outcome = BenchOutcome { warnings: rows::warnings(), ..BenchOutcome::default() };
    let Some((mut parts, plan)) = opened(sources)? else { return Ok(outcome) };
    let mut all = empty(&plan)?;
    // Who made the first round of each group: later ones are of the same, or are left out.
    let mut makers: Vec<Vec<u32>> = vec![Vec::new(); all.len()];
    let mut left_out = 0;
    while let Some((round, group, _)) = next(&parts) {
        let mut measured = Vec::new();
        let mut whole_group = true;
        while let Some(key) = next(&parts).filter(|key| (key.0, key.1) == (round, group)) {
            let (made, by) = joined(&mut parts, key)?;
            if round == 0 && measured.is_empty() {
                makers[group].clone_from(&by);
            }
            whole_group &= makers[group] == by;
            measured.push((key.2, made));
        }
        let Some(of) = all.get_mut(group) else {
            return Err(PartsError::Bad(parts[0].name.clone(), format!("no group {group}")));
        };
        if whole_group { of.keep(&plan, measured) } else { left_out += 1 }
    }
    if left_out > 0 {
        outcome.warnings.push(format!(
            "{left_out} rounds are left out that a part did not make any more: what is shown is from the rounds before it was lost"
        ));
    }
    for (group, makers) in all.iter().zip(&makers) {
        add(&plan, group, makers, &mut outcome);
    }
    outcome.warnings.dedup();
    results::decide::decide(&mut outcome.comparisons);
    Ok(outcome)
}

/// The parts in their order, and the plan that they have in common; `None` without any.
fn opened(sources: Vec<Source>) -> Result<Option<(Vec<RoundSource>, BenchPlan)>, PartsError> {
    let mut parts: Vec<RoundSource> = Vec::new();
    let mut common: Option<(String, BenchPlan)> = None;
    for source in sources {
        let Some((part, plan)) = RoundSource::open(source)? else { continue };
        let refused =
            |base: &str, why: &str| PartsError::OtherPlan(base.to_owned(), part.name.clone(), why.to_owned());
        match &common {
            Some((base, first)) if first.in_common() != plan.in_common() => {
                return Err(refused(base, "they were started with other flags"));
            }
            Some(_) => {}
            None => common = Some((part.name.clone(), plan)),
        }
        if let Some(twin) = parts.iter().find(|twin| twin.share == part.share) {
            let why = format!("both are part {} of {}", part.share.index, part.share.of);
            return Err(refused(&twin.name, &why));
        }
        parts.push(part);
    }
    parts.sort_by_key(|part| part.share.index);
    Ok(common.map(|(_, plan)| (parts, plan)))
}

/// Adds the rows of a group, which is compared where every part is among those that made it.
fn add(plan: &BenchPlan, group: &Group, makers: &[u32], outcome: &mut BenchOutcome) {
    let from = outcome.rows.len();
    rows::add(plan, &group.arms, group.dropped, outcome);
    let missing: Vec<String> =
        (0..plan.generators).filter(|index| !makers.contains(index)).map(|index| index.to_string()).collect();
    if missing.is_empty() {
        compare::add(plan, &group.arms, group.again.as_ref(), outcome);
    } else {
        let why = format!(
            "part {} of {} is not in it: this is what the others measured, of a load that was meant to be larger",
            missing.join(", "),
            plan.generators
        );
        for row in &mut outcome.rows[from..] {
            row.valid = false;
            row.why_invalid.push(why.clone());
        }
    }
    if group.arms.iter().any(|arm| arm.is_shared_out(plan)) {
        outcome.warnings.push(format!(
            "{}: tasks of several parts took the same locks, and holds of different parts were not compared: each part judged its own, \
             so safety is unknown at best; hand-offs between parts are not timed",
            group.arms[0].workload.name
        ));
    }
}

fn empty(plan: &BenchPlan) -> Result<Vec<Group>, PartsError> {
    Ok(groups(plan, &plan.placed(subjects_of(plan)?), &workloads_of(plan)?))
}

/// The round that comes next: all parts make them in one order, and a part that was lost has none any more.
fn next(parts: &[RoundSource]) -> Option<Key> {
    parts.iter().filter_map(|part| part.next.as_ref()).next().map(|read| read.of)
}

fn joined(parts: &mut [RoundSource], key: Key) -> Result<(Box<WholeRound>, Vec<u32>), PartsError> {
    let mut sum: Option<Box<WholeRound>> = None;
    let mut by = Vec::new();
    for part in parts {
        if part.next.is_none() {
            continue;
        }
        let read = part.advance()?.filter(|read| read.of == key);
        let Some(RoundLine { whole, .. }) = read else {
            let why = "its rounds are not those of the others".to_owned();
            return Err(PartsError::Bad(part.name.clone(), why));
        };
        by.push(part.share.index);
        match &mut sum {
            None => sum = Some(Box::new(whole)),
            Some(sum) => {
                sum.round.join(whole.round);
                sum.overlap = sum.overlap.take().or(whole.overlap);
            }
        }
    }
    let Some(sum) = sum else {
        return Err(PartsError::Bad(String::new(), "no part has the round".to_owned()));
    };
    Ok((sum, by))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::{Disturbance, ResourceUse, Round};
    use crate::stats;

    /// A round of given latencies, with as many cycles, by one task.
    fn round(latencies: &[u64]) -> WholeRound {
        let report = crate::driver_loop::LoadReport {
            cycles: latencies.len() as u64,
            elapsed_ns: 1_000_000_000,
            per_task: vec![latencies.len() as u64],
            acquire: latencies.iter().map(|ns| (*ns, 1)).collect(),
            ..Default::default()
        };
        let spent = ResourceUse {
            cycles: report.cycles,
            commands: Some(2.0 * latencies.len() as f64),
            ..ResourceUse::default()
        };
        WholeRound { round: Round::reported(&report, spent, Disturbance::default()), overlap: None }
    }

    fn plan(share: GeneratorShare) -> BenchPlan {
        let mut plan = BenchPlan::new("redis://127.0.0.1:1");
        plan.subjects = vec!["lock-core:plain".to_owned()];
        (plan.share, plan.generators, plan.rounds) = (share, share.of, 1);
        plan
    }

    fn source(share: GeneratorShare, rounds: &[WholeRound]) -> Source {
        let mut text = plan(share).head() + "\n";
        for (number, whole) in rounds.iter().enumerate() {
            text += &(line((number, 0, 0), whole) + "\n");
        }
        (format!("part {}", share.index), Box::new(std::io::Cursor::new(text.into_bytes())))
    }

    fn share(index: u32) -> GeneratorShare {
        GeneratorShare { index, of: 3 }
    }

    /// Latencies from 1 µs to about a second, of which no two parts have alike many.
    fn latencies() -> Vec<u64> {
        let draw = |n: u64| 1_000 + n.wrapping_mul(n).wrapping_mul(2_654_435_761) % 1_000_000_007;
        (1..40_000).map(draw).collect()
    }

    #[test]
    fn merged_percentiles_are_those_of_one_process_on_the_same_samples() {
        let all = latencies();
        let mut alone = stats::histogram::Latencies::default();
        all.iter().for_each(|ns| alone.add(*ns));
        let of = |index: u32| -> Vec<u64> {
            all.iter().enumerate().filter(|(at, _)| at % 7 % 3 == index as usize).map(|(_, ns)| *ns).collect()
        };
        let sources = (0..3).map(|index| source(share(index), &[round(&of(index))]));
        let outcome = merged(sources.collect()).expect("three parts of one plan");
        let row = &outcome.rows[0];
        assert_eq!(row.acquire_ns, stats::quantiles(&alone), "to the last digit");
        assert_eq!(row.acquire_ns.n, all.len() as u64);
        assert_eq!(row.cycles_per_s.median, all.len() as f64, "rates are summed");
        assert_eq!(row.commands_per_cycle, Some(2.0));
        assert_eq!((row.tasks, row.measures.load.generators), (16, Some(3)));
        assert!(row.valid, "{:?}", row.why_invalid);
    }

    #[test]
    fn a_part_that_is_missing_or_was_lost_is_named_and_nothing_is_made_up() {
        let two = || [round(&latencies()), round(&latencies())];
        let without = merged(vec![source(share(0), &two()), source(share(2), &two())]).expect("two parts");
        assert!(!without.rows[0].valid);
        let why = without.rows[0].why_invalid.join(" ");
        assert!(why.contains("part 1 of 3 is not in it"), "{why}");
        assert!(without.comparisons.is_empty());

        let lost = source(share(1), &[round(&latencies())]);
        let all = vec![source(share(0), &two()), lost, source(share(2), &two())];
        let cut = merged(all).expect("three parts");
        assert_eq!(cut.rows[0].rounds, 1, "the second round is not of the whole load");
        assert!(cut.warnings.iter().any(|warning| warning.contains("1 rounds are left out")));
    }
}
