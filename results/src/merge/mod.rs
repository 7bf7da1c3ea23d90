//! Joins several runs into one that holds all of their parts, for `merge` and for a report over many.
//!
//! | file | what it is for |
//! |---|---|
//! | `merge_input.rs` | runs that are to be joined, with their directories |
//! | `parts.rs` | whether runs are all parts of one plan |

pub mod merge_input;
pub mod parts;

use itertools::Itertools;

use crate::compare::{differences, first_few, row_key, row_load, scenario_key};
use crate::record::run::{PartRan, Run, ScenarioResult};

/// Why runs cannot be joined.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum MergeError {
    /// None was given.
    #[error("there is no run to merge")]
    Nothing,
    /// They were not made from the same plan.
    #[error("{other} was not made from the plan of {base}:\n  {}", reasons.join("\n  "))]
    OtherPlan {
        /// The first run.
        base: String,
        /// The run that differs.
        other: String,
        /// What differs, the first few.
        reasons: Vec<String>,
    },
    /// What was asked cannot be meant.
    #[error("{0}")]
    Usage(String),
    /// A run, or what belongs to it, cannot be read, copied or used.
    #[error("{0}")]
    Unreadable(String),
}

/// Whether all runs were made from the plan of the first, as far as they say: the same command, scenarios
/// (seed, kind, durability, expectation), and rows under one load.
pub fn same_plan(runs: &[Run]) -> Result<(), MergeError> {
    let Some((base, others)) = runs.split_first() else {
        return Err(MergeError::Nothing);
    };
    for other in others {
        let (a, b) = (parts(base), parts(other));
        let only = |left: &[String], right: &[String], of: &str| {
            let mut right = right.to_vec();
            let mut only = Vec::new();
            for part in left {
                match right.iter().position(|other| other == part) {
                    Some(at) => drop(right.swap_remove(at)),
                    None => only.push(format!("only in {of}: {part}")),
                }
            }
            only
        };
        let mut reasons = only(&a, &b, &base.run);
        reasons.extend(only(&b, &a, &other.run));
        if !reasons.is_empty() {
            return Err(MergeError::OtherPlan {
                base: base.run.clone(),
                other: other.run.clone(),
                reasons: first_few(reasons),
            });
        }
    }
    Ok(())
}

/// What a run was asked to do, part by part. A seed decides what a scenario does, but not a row.
fn parts(run: &Run) -> Vec<String> {
    let mut parts = vec![format!("the command {}", run.command)];
    for result in &run.scenarios {
        let expected = result.expected.iter().map(|(class, state)| format!("{class} {state}"));
        parts.push(format!(
            "{}, kind {}, durability {}, seed {}, expected {}",
            scenario_key(result),
            result.kind,
            result.durability,
            result.seed,
            expected.format(" and ")
        ));
    }
    for row in &run.rows {
        let mut load = row_load(row);
        load.retain(|(_, value)| !value.is_empty());
        let load = load.iter().map(|(name, value)| format!("{name} {value}"));
        let (key, load) = (row_key(row), load.format(", "));
        parts.push(format!("{key}, rounds {}, {load}", row.rounds));
    }
    parts
}

/// Joins runs in their order, under the name `run`. One run stays as it is, but for the name.
///
/// Rows, comparisons, sweeps, scenarios and warnings are put one after another; rows and scenarios say which
/// machine they are from (which run, where machines share a name), and a scenario's directory gets its run's
/// name in front. Figures of several machines are not pooled: they are samples of different things. The
/// configuration is that of the first; a warning names every other run whose machine or version is another.
/// The whole is as expected if every part that expected anything is, and partial if any part is. Parts of one
/// plan make a whole run: its scenarios stand in the plan's order, and a lock of several parts is one.
pub fn merge(runs: Vec<Run>, run: &str) -> Result<Run, MergeError> {
    let several = runs.len() > 1;
    let origins = origins(&runs);
    let ran = runs.iter().filter_map(|run| Some(PartRan::of(run.part.as_ref()?, &run.meta.environment.host)));
    let ran = ran.sorted_by_key(|ran| ran.part).collect();
    let mut runs = runs.into_iter().zip(origins);
    let (mut whole, origin) = runs.next().ok_or(MergeError::Nothing)?;
    if several {
        let own = whole.run.clone();
        name_parts(&mut whole, &own, &origin);
    }
    whole.run = run.to_owned();
    for (mut part, origin) in runs {
        let name = part.run.clone();
        whole.differences.extend(differences(&whole, &part, &[], &[]));
        name_parts(&mut part, &name, &origin);
        let machine = |run: &Run| {
            let on = run.meta.environment.clone();
            (on.host, on.cpu, on.cores)
        };
        // A run that does not say its servers had those of the machine.
        let [ours, theirs] = [&whole, &part].map(|run| &run.meta.environment.servers);
        let is_other = |(name, server): (&String, &_)| ours.get(name).is_some_and(|own| own != server);
        let are_others = theirs.iter().any(is_other);
        let program = |run: &Run| (run.meta.version.clone(), run.meta.commit.clone());
        if are_others || machine(&whole) != machine(&part) || program(&whole) != program(&part) {
            whole.warnings.push(format!(
                "{name} was made on another machine, with other servers or another version: do not compare its figures with the others"
            ));
        }
        if part.command != whole.command {
            whole.command = "merge".to_owned();
        }
        whole.meta.elapsed_ns = whole.meta.elapsed_ns.saturating_add(part.meta.elapsed_ns);
        whole.rows.append(&mut part.rows);
        whole.comparisons.append(&mut part.comparisons);
        whole.sweeps.append(&mut part.sweeps);
        whole.scenarios.append(&mut part.scenarios);
        whole.not_applicable.append(&mut part.not_applicable);
        whole.warnings.append(&mut part.warnings);
        if let Some(more) = part.audit.take() {
            let audit = whole.audit.get_or_insert_default();
            if whole.part.is_some() {
                audit.join(*more);
            } else {
                audit.subjects.extend(more.subjects);
                audit.regressions.extend(more.regressions);
            }
        }
        whole.partial |= part.partial;
        whole.as_expected = match (whole.as_expected, part.as_expected) {
            (Some(a), Some(b)) => Some(a && b),
            (a, b) => a.or(b),
        };
    }
    if let Some(part) = whole.part.take() {
        whole.parts = ran;
        let place = |result: &ScenarioResult| {
            part.plan.iter().position(|share| (&share.name, share.seed) == (&result.name, result.seed))
        };
        whole.scenarios.sort_by_key(place);
    }
    Ok(whole)
}

/// The machines' names if they tell the runs apart, else the runs' own.
fn origins(runs: &[Run]) -> Vec<String> {
    let host = |run: &Run| run.meta.environment.host.clone();
    if runs.iter().map(host).filter(|host| !host.is_empty()).unique().count() == runs.len() {
        return runs.iter().map(host).collect();
    }
    runs.iter().map(|run| run.name().to_owned()).collect()
}

/// Where the records of a scenario are in a joined run. A run of one scenario has them in its own directory.
pub fn beside(run: &str, dir: &str) -> String {
    match dir {
        "" => run.to_owned(),
        dir => format!("{run}/{dir}"),
    }
}

/// What says where it is from only by its place gets the run's name.
fn name_parts(run: &mut Run, name: &str, origin: &str) {
    let of_rows = run.rows.iter_mut().map(|row| &mut row.origin);
    let of_scenarios = run.scenarios.iter_mut().map(|result| &mut result.origin);
    for own in of_rows.chain(of_scenarios).filter(|own| own.is_empty()) {
        *own = origin.to_owned();
    }
    for dir in run.dirs_mut() {
        *dir = beside(name, dir);
    }
    for warning in &mut run.warnings {
        *warning = format!("{name}: {warning}");
    }
}
