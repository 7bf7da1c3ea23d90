//! What the tasks of a load do: the one list of workloads, as data, for the [load engine](crate::load).
//!
//! | file | what it is for |
//! |---|---|
//! | `table.rs` | every workload, a row each |
//! | `cycle_shape.rs` | what a cycle asks for |
//! | `arrivals.rs` | when the cycles of an open loop are due |

pub(crate) mod arrivals;
mod cycle_shape;
mod table;

use std::time::Duration;

use results::spelling::nearest;

use crate::subject::SubjectError;
pub use arrivals::Pace;
pub use cycle_shape::CycleShape;
pub use table::WORKLOADS;

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

/// The order of a task's steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rhythm {
    /// Acquire, hold, release, think, over and over. Only this rhythm can follow a schedule (open loop).
    Cycles,
    /// As `Cycles`, but a releaser queues again only when the next one has the lock. Without this rule a
    /// releaser mostly meets itself again, and the figure says little about waking somebody else.
    Chain,
    /// All tasks arrive at the same moment, wave after wave.
    Herd,
    /// Takes its locks once and keeps them, renewed, until the end.
    Keep,
    /// A client takes the lock and vanishes; its task waits for the lock with another client.
    Crash,
    /// Each cycle has a client of its own.
    Churn,
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
    pub asks: CycleShape,
    /// Lock names, where nobody names a number; `None`: as many as tasks.
    pub locks: Option<u32>,
    /// Time between the grant and the release, where the plan names none.
    pub hold: Duration,
    /// Time between the release and the next acquire.
    pub think: Duration,
    /// The lease.
    pub lease: LeaseOf,
    /// Whether tasks wait for each other, so that a lock is handed on.
    pub hands_off: bool,
    /// Whether its cycles can begin on a schedule (open loop).
    pub paced: bool,
    /// The order of its steps.
    pub rhythm: Rhythm,
}

/// The workload of that name.
pub fn find(name: &str) -> Result<&'static Workload, SubjectError> {
    WORKLOADS.iter().find(|w| w.name == name).ok_or_else(|| {
        let known: Vec<&str> = WORKLOADS.iter().map(|w| w.name).collect();
        usage!(
            "unknown workload `{name}`{} (known: {})",
            nearest(name, known.iter().copied()),
            known.join(", ")
        )
    })
}

/// The names of the workloads that fit, with commas between them.
pub fn names(fit: impl Fn(&Workload) -> bool) -> String {
    let fit: Vec<&str> = WORKLOADS.iter().filter(|w| fit(w)).map(|w| w.name).collect();
    fit.join(", ")
}

impl Workload {
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

    /// Whether it connects clients of its own, beside those that it is given.
    pub fn connects(&self) -> bool {
        matches!(self.rhythm, Rhythm::Crash | Rhythm::Churn)
    }
}
