//! Turns the name of a workload into what each task does: the one list of workloads.

pub(crate) mod closed_loop;
mod contended;
pub(crate) mod judge;
pub(crate) mod record;
mod uncontended;

use std::time::Duration;

use crate::subject::SubjectError;

/// Which locks a task takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Spread {
    /// Its own, one after the other; never another task's.
    Own,
    /// The one that all take.
    One,
}

/// What one task does, over and over: acquire, hold, release, think.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Its name, as in flags and rows.
    pub name: &'static str,
    /// A sentence for `locklab list workloads`.
    pub about: &'static str,
    /// Which locks a task takes.
    pub spread: Spread,
    /// Time between the grant and the release, where the plan names none.
    pub hold: Duration,
    /// Time between the release and the next acquire, where the plan names none.
    pub think: Duration,
    /// Whether tasks wait for each other, so that a lock is handed on.
    pub hands_off: bool,
}

/// Every workload, in the order of the docs.
pub static WORKLOADS: &[Workload] = &[uncontended::WORKLOAD, contended::WORKLOAD];

/// The workload of that name.
///
/// # Errors
/// An unknown name, with the nearest known one.
pub fn find(name: &str) -> Result<&'static Workload, SubjectError> {
    WORKLOADS.iter().find(|w| w.name == name).ok_or_else(|| {
        let nearest = WORKLOADS
            .iter()
            .min_by_key(|w| strsim::damerau_levenshtein(w.name, name))
            .map_or("", |w| w.name);
        SubjectError::usage(format!(
            "unknown workload `{name}`; did you mean `{nearest}`? (known: {})",
            WORKLOADS
                .iter()
                .map(|w| w.name)
                .collect::<Vec<_>>()
                .join(", ")
        ))
    })
}

impl Workload {
    /// How many lock names `tasks` tasks need, if so many are wished for.
    pub fn locks(&self, tasks: u32, wished: Option<u32>) -> u32 {
        match self.spread {
            Spread::Own => wished.unwrap_or(tasks).max(tasks),
            Spread::One => 1,
        }
    }

    /// The lock that a task takes in its `cycle`-th cycle.
    pub(crate) fn lock_of(&self, task: u32, cycle: u64, tasks: u32, locks: u32) -> u32 {
        match self.spread {
            // Task t has the locks t, t + tasks, t + 2 tasks, …
            Spread::Own => {
                let own = (locks - task).div_ceil(tasks);
                task + tasks * u32::try_from(cycle % u64::from(own)).unwrap_or(0)
            }
            Spread::One => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_locks_are_nobody_elses() {
        let workload = find("uncontended").unwrap();
        let mut taken = std::collections::BTreeMap::new();
        for task in 0..3 {
            for cycle in 0..20 {
                let lock = workload.lock_of(task, cycle, 3, 8);
                assert_eq!(*taken.entry(lock).or_insert(task), task, "lock {lock}");
            }
        }
        assert_eq!(taken.len(), 8, "every lock is used: {taken:?}");
    }

    #[test]
    fn a_misspelt_workload_is_told_the_nearest() {
        let error = find("contendet").unwrap_err();
        assert!(
            error.message.contains("did you mean `contended`"),
            "{error}"
        );
    }
}
