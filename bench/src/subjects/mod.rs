//! The locks that can be named: the one list of subjects.
//!
//! | file | what it is for |
//! |---|---|
//! | `common.rs`, `library_hold.rs` | shared by subjects in this process |
//! | `engine.rs` | the kinds of the library: `lock-core:KIND` |
//! | `recipe.rs`, `steps.rs`, `naive.rs` | locks on one key as data, their commands, the baselines |
//! | `flawed.rs`, `quorum.rs`, `broken_counts.rs` | locks that are known to be wrong |
//! | `peers.rs`, `mixed.rs` | other libraries, alone and several on one lock |
//! | `baselines/` | locks of other systems |

mod baselines;
mod broken_counts;
mod common;
mod engine;
mod flawed;
mod library_hold;
mod mixed;
mod naive;
mod peers;
mod quorum;
mod recipe;
mod steps;

use std::{collections::BTreeSet, iter, sync::Arc};

pub(crate) use baselines::topologies;
pub use baselines::{addresses, is_loopback, of_system, remove_keys, system_of};
pub use mixed::{Mixed, turn};
use results::spelling;

use crate::exec::{ExecSubject, is_command};
use crate::subject::{Subject, SubjectError};

/// The password that servers get from a fault, and that clients whose password a provider tells are told.
pub const CHANGED_PASSWORD: &str = "changed";

/// Every subject known by name, in the order of the docs; `exec:PROGRAM ARG…` cannot be listed.
pub fn all() -> Vec<Arc<dyn Subject>> {
    each().collect()
}

/// Refuses, in words, a kind that no lock here has.
pub(crate) fn check_kind(kind: &str) -> Result<(), String> {
    let known: BTreeSet<String> = all().iter().flat_map(|one| one.kinds()).collect();
    if known.contains(kind) {
        return Ok(());
    }
    let near = spelling::nearest(kind, known.iter().map(String::as_str));
    let known: Vec<String> = known.into_iter().collect();
    let known = known.join(", ");
    Err(format!("no lock has the kind `{kind}`{near}; there are {known}"))
}

/// One after the other: each is made when it is its turn.
fn each() -> impl Iterator<Item = Arc<dyn Subject>> {
    (engine::subjects())
        .chain(recipe::BASELINES.iter().map(naive::subject))
        .chain(baselines::subjects())
        .chain(iter::once_with(peers::subjects).flatten())
        .chain(flawed::BROKEN.iter().map(naive::subject))
        .chain(broken_counts::subjects())
        .chain(quorum::BROKEN.iter().map(quorum::subject))
        .chain(baselines::broken())
}

/// A subject as it was typed: `exec:` may be left out before a driver's command. A name of [`all`] is taken
/// before a program of that name.
pub fn typed(name: &str) -> String {
    let named = |part: &str| {
        let known = part.starts_with("exec:") || each().any(|subject| subject.name() == part);
        if !known && is_command(part) { format!("exec:{part}") } else { part.to_owned() }
    };
    name.split(mixed::AND).map(|part| named(part.trim())).collect::<Vec<_>>().join(mixed::AND)
}

/// Subjects by comma. A driver's command line may hold commas itself: what follows one is another subject
/// only if it is the name of one.
pub fn by_comma(given: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for given in given {
        let mut driver = false;
        for word in given.split(',') {
            let name = word.trim();
            match all.last_mut().filter(|_| driver) {
                Some(line) if find(name).is_err() => {
                    line.push(',');
                    line.push_str(word);
                }
                _ => {
                    let name = typed(name);
                    driver = name.starts_with("exec:");
                    all.push(name);
                }
            }
        }
    }
    all
}

/// The locks that are measured at a target where nobody names any; [`check_usual`] refuses workloads that
/// need different ones.
pub fn usual(url: &str, workloads: &[String]) -> Vec<String> {
    let own = system_of(url).map(of_system);
    let names: &[&str] = if let Some(own) = &own {
        own
    } else if url.starts_with("redlock") {
        &["lock-core:redlock"]
    } else {
        match workloads.first().map_or(&[][..], |name| locks_for(name)) {
            [] => &["baseline:set-nx-px", "lock-core:reentrant"],
            special => special,
        }
    };
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Refuses workloads that need different locks.
pub fn check_usual(workloads: &[String]) -> Result<(), SubjectError> {
    let (first, others) = workloads.split_first().expect("a workload");
    match others.iter().find(|name| locks_for(name) != locks_for(first)) {
        None => Ok(()),
        Some(other) => Err(SubjectError::Usage(format!(
            "`{first}` and `{other}` are for different kinds of lock: name locks that can do both with --subject, or \
             measure one after the other"
        ))),
    }
}

/// The locks that a workload needs; empty: any will do.
fn locks_for(workload: &str) -> &'static [&'static str] {
    crate::workload::find(workload).map_or(&[], |workload| workload.asks.subjects())
}

/// The subject of that name.
pub fn find(name: &str) -> Result<Arc<dyn Subject>, SubjectError> {
    if name.contains(mixed::AND) {
        let parts = name.split(mixed::AND).map(|part| find(part.trim()));
        return Ok(Arc::new(Mixed::new(parts.collect::<Result<_, _>>()?)?));
    }
    if let Some(command) = name.strip_prefix("exec:") {
        return Ok(Arc::new(ExecSubject::from_command_line(command)?));
    }
    if let Some(found) = each().find(|subject| subject.name() == name) {
        return Ok(found);
    }
    let all = all();
    // The whole name, or what follows the family: `reentrant` is meant to be `lock-core:reentrant`.
    let mut names = all.iter().map(|s| s.name());
    fn tail(name: &str) -> &str {
        name.split_once(':').map_or(name, |(_, tail)| tail)
    }
    let near = spelling::word(name, names.clone().flat_map(|name| [name, tail(name)]));
    let meant = names.find(|name| near == Some(name) || near == Some(tail(name)));
    Err(usage!(
        "unknown subject `{name}`{} (`locklab list subjects` shows all; any other lock: the command of its driver, `PROGRAM ARG…`)",
        meant.map_or(String::new(), |name| format!("; did you mean `{name}`?"))
    ))
}

/// The subject of that name, whose program can be started: what cannot is said before anything else is begun.
pub fn startable(name: &str) -> Result<Arc<dyn Subject>, SubjectError> {
    let subject = find(name)?;
    for part in iter::once(&subject).chain(subject.parts()) {
        if let (None, Some(command)) = (part.missing(), part.program()) {
            crate::exec::check_program(command)?;
        }
    }
    Ok(subject)
}
