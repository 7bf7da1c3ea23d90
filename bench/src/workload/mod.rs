//! Turns the name of a workload into what each task does: the one list of workloads.

pub(crate) mod arrivals;
mod asks;
mod chain;
mod churn;
mod contended;
mod crash;
mod cycles;
mod herd;
pub(crate) mod judge;
mod keys;
pub(crate) mod ledger;
mod multi;
mod paced;
mod pairs;
mod read_mostly;
pub(crate) mod record;
mod renewal;
pub(crate) mod round;
mod semaphore;
mod uncontended;
mod uniform;
mod zipf;

use std::time::Duration;

use futures_util::future::BoxFuture;
use results::nearest::nearest;

use crate::subject::SubjectError;
pub use arrivals::{Arrivals, Pace};
pub use asks::{Asks, AsksWished};
use round::Task;

/// Which locks a task takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Spread {
    /// Its own, one after the other; never another task's.
    Own,
    /// The one that all take.
    One,
    /// Any, each as likely as the next.
    Uniform,
    /// Any, the first far more often than the last.
    Zipf,
}

/// How long locks are leased for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseOf {
    /// As the plan says.
    Plan,
    /// The library renews them, whatever the plan says: that is the subject.
    Renewed,
    /// This long, where the plan does not say: recovery by lease takes a lease.
    Fixed(Duration),
}

/// What one task does, over and over.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Its name, as in flags and rows.
    pub name: &'static str,
    /// A sentence for `locklab list workloads`.
    pub about: &'static str,
    /// Which locks a task takes.
    pub spread: Spread,
    /// What each cycle asks for.
    pub asks: Asks,
    /// Lock names, where nobody names a number; `None`: as many as tasks.
    pub locks: Option<u32>,
    /// Time between the grant and the release, where the plan names none.
    pub hold: Duration,
    /// Time between the release and the next acquire, where the plan names none.
    pub think: Duration,
    /// The lease.
    pub lease: LeaseOf,
    /// Whether tasks wait for each other, so that a lock is handed on.
    pub hands_off: bool,
    /// Whether its cycles can begin on a schedule (open loop).
    pub paced: bool,
    /// Whether tasks have something to do before the window may begin.
    pub(crate) prepares: bool,
    /// Whether it listens to what clients report unasked.
    pub(crate) listens: bool,
    /// Whether tasks wait for others' grants.
    pub(crate) counts_grants: bool,
    /// What a task does in a closed loop.
    pub(crate) steps: fn(Task) -> BoxFuture<'static, ()>,
}

/// Every workload, in the order of the docs.
pub static WORKLOADS: &[Workload] = &[
    uncontended::WORKLOAD,
    contended::WORKLOAD,
    chain::WORKLOAD,
    herd::WORKLOAD,
    uniform::WORKLOAD,
    zipf::WORKLOAD,
    read_mostly::WORKLOAD,
    multi::WORKLOAD,
    semaphore::WORKLOAD,
    renewal::WORKLOAD,
    crash::WORKLOAD,
    churn::WORKLOAD,
    pairs::WORKLOAD,
];

/// The workload of that name.
///
/// # Errors
/// An unknown name, with the nearest known one.
pub fn find(name: &str) -> Result<&'static Workload, SubjectError> {
    WORKLOADS.iter().find(|w| w.name == name).ok_or_else(|| {
        let known: Vec<&str> = WORKLOADS.iter().map(|w| w.name).collect();
        SubjectError::usage(format!(
            "unknown workload `{name}`{} (known: {})",
            nearest(name, known.iter().copied()),
            known.join(", ")
        ))
    })
}

impl Workload {
    /// The plain closed loop, which the others differ from in what they name.
    pub(crate) const CYCLES: Workload = Workload {
        name: "",
        about: "",
        spread: Spread::Own,
        asks: Asks::One,
        locks: None,
        hold: Duration::ZERO,
        think: Duration::ZERO,
        lease: LeaseOf::Plan,
        hands_off: false,
        paced: false,
        prepares: false,
        listens: false,
        counts_grants: false,
        steps: cycles::run,
    };

    /// How many lock names `tasks` tasks need, if so many are wished for.
    pub fn locks(&self, tasks: u32, wished: Option<u32>) -> u32 {
        match self.spread {
            Spread::Own => wished.or(self.locks).unwrap_or(tasks).max(tasks),
            Spread::One => 1,
            Spread::Uniform | Spread::Zipf => wished.or(self.locks).unwrap_or(tasks),
        }
    }

    /// The lease, where the plan wants `wished`; `None` is renewal.
    pub fn lease(&self, wished: Option<Duration>, named: bool) -> Option<Duration> {
        match self.lease {
            LeaseOf::Renewed => None,
            LeaseOf::Fixed(lease) if !named => Some(lease),
            LeaseOf::Plan | LeaseOf::Fixed(_) => wished,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_workload_is_told_the_nearest() {
        let error = find("contendet").unwrap_err();
        assert!(
            error.to_string().contains("did you mean `contended`"),
            "{error}"
        );
    }

    #[test]
    fn every_task_has_a_lock_of_its_own_where_locks_are_own() {
        for workload in WORKLOADS {
            let locks = workload.locks(16, Some(4));
            match workload.spread {
                Spread::Own => assert_eq!(locks, 16, "{}", workload.name),
                Spread::One => assert_eq!(locks, 1, "{}", workload.name),
                Spread::Uniform | Spread::Zipf => assert_eq!(locks, 4, "{}", workload.name),
            }
        }
    }
}
