//! The checkers: which promises a history keeps, which it breaks, and the proof. Pure: no clock, no
//! randomness.
//!
//! As a specification:
//!
//! 1. [`holds`] turns lines into grants: who was granted what, when, for how long, how it was renewed and
//!    given back.
//! 2. Each checker of [`CHECKERS`] reads that record and reports anomalies, lock by lock.
//! 3. A lock's verdict of a class is violated if there is an anomaly, else unknown if there is a doubt, else
//!    clean.
//! 4. [`evidence_minimum`] adds doubts to all classes: too little happened, a fault without proof, a torn or
//!    inconsistent history. A doubt turns only clean into unknown; a proven violation stands.
//! 5. Of a history from several clocks, what lies closer together than they are known is a doubt
//!    ([`Clocks`]).
//! 6. Of a history whose recorder stood still, what only its delay convicts is a doubt (`record/stalls.rs`).
//! 7. The verdict of the whole history is the worst of its locks' verdicts.
//!
//! | file | what it is for |
//! |---|---|
//! | `record/` | from lines of a history to grants, faults and times |
//! | `exclusion.rs` | two grants at one time, given an interval for each |
//! | `contract.rs`, `confirmed.rs`, `belief.rs` | three intervals: promised, confirmed by servers, believed |
//! | `effect.rs`, `liveness.rs`, `order.rs` | lost writes, a free lock refused, order of grants |
//! | `evidence_minimum.rs` | doubts |
//! | `severity.rs` | verdicts from anomalies and doubts |
//! | `recovery.rs`, `fairness.rs` | figures beside the verdicts |
//! | `porcupine.rs` | the same history for another judge |

pub mod belief;
pub mod confirmed;
pub mod contract;
pub mod effect;
pub mod evidence_minimum;
mod exclusion;
mod fairness;
pub mod liveness;
mod order;
pub mod porcupine;
pub mod record;
mod recovery;
mod severity;

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use results::history::History;
use results::run::{FaultRecovery, FaultSpan, Recovery};
use results::verdict::Verdicts;

use crate::scenario::nanoseconds;

pub use evidence_minimum::EvidenceMinimum;
pub use record::clocks::Clocks;
pub use record::holds::{Grant, Record};
pub use record::reader::Reader;
use record::stalls;
pub use record::{holds, kinds, names};
pub use severity::{Finding, join, worst};

/// One checker: a class of verdict.
#[derive(Debug, Clone, Copy)]
pub struct Checker {
    /// The verdict's name, as in `verdicts` and in a scenario's `expect`.
    pub name: &'static str,
    /// What it looks for, in one sentence.
    pub about: &'static str,
    /// The check itself: one finding per lock, in the order of [`Record::locks`].
    pub run: fn(&Record, &CheckOptions<'_>) -> Vec<Finding>,
}

/// Every checker, in the order of the docs.
pub const CHECKERS: &[Checker] = &[
    Checker {
        name: "belief",
        about: "Two clients believed that they held the lock at one time: what they guard needs fencing.",
        run: belief::check,
    },
    Checker {
        name: "contract",
        about: "Two leases that the lock had promised overlapped, or a grant was returned after its lease had run out: the algorithm or the configuration is broken.",
        run: contract::check,
    },
    Checker {
        name: "confirmed",
        about: "The servers had granted the lock to two clients at once: they had forgotten the first grant.",
        run: confirmed::check,
    },
    Checker {
        name: "effect",
        about: "The protected resource was damaged: an update was lost, or a fencing token did not rise.",
        run: effect::check,
    },
    Checker {
        name: "liveness",
        about: "A free lock was refused to clients that no fault touched, or a queue was not served in its order.",
        run: liveness::check,
    },
];

/// How a history is judged. The default judges as `locklab check` does.
#[derive(Debug, Clone)]
pub struct CheckOptions<'a> {
    /// The share of a lease that is left to clock drift, 0.0 to 1.0: cut from the contract and from nothing
    /// else.
    pub drift: f64,
    /// How much must have happened; `None` judges a short history as it is.
    pub floors: Option<EvidenceMinimum>,
    /// How long untouched clients may ask for a free lock in vain, in sum.
    pub grace: Duration,
    /// The kinds in the load's mix; empty where unknown: then those that the history asks for.
    pub kinds: Vec<String>,
    /// The clients of the load, by name: each of them must have had a turn. Empty where unknown: then nobody
    /// is missed.
    pub clients: Vec<String>,
    /// What keeps the verdicts from being clean besides: a recorder that lost a record, a run that was cut
    /// short.
    pub doubts: Vec<String>,
    /// What keeps the verdict of one class from being clean.
    pub class_doubts: Vec<(&'static str, String)>,
    /// The length of the load, for rates; `None` where unknown: then that of the history.
    pub load: Option<Duration>,
    /// The independent masters of which a client needs a majority, or the single server, by name; empty where
    /// servers replace each other or nothing is known: then a client that is cut off from one of them counts
    /// as touched.
    pub masters: Vec<String>,
    /// The faults with their proofs; one without evidence that it took effect turns clean into unknown.
    pub proofs: Option<&'a [FaultSpan]>,
}

impl Default for CheckOptions<'_> {
    fn default() -> Self {
        Self {
            drift: 0.01,
            floors: Some(EvidenceMinimum::default()),
            grace: Duration::from_millis(1500),
            kinds: Vec::new(),
            clients: Vec::new(),
            doubts: Vec::new(),
            class_doubts: Vec::new(),
            masters: Vec::new(),
            load: None,
            proofs: None,
        }
    }
}

/// What a check says.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckReport {
    /// Of the whole history: the worst of its locks.
    pub verdicts: Verdicts,
    /// Lock by lock.
    pub locks: BTreeMap<String, Verdicts>,
    /// Endings per operation; one without an end counts as `unknown`.
    pub operations: BTreeMap<String, BTreeMap<String, u64>>,
    /// How soon a lock was granted again.
    pub recovery: Recovery,
    /// The recovery from each fault, in the order of [`Record::faults`].
    pub faults: Vec<FaultRecovery>,
    /// The longest time for which a lock that nobody held was asked for and not granted; `None` where nobody
    /// asked.
    pub without_grant_ns: Option<u64>,
    /// Acquires that were answered ok.
    pub grants: u64,
    /// How evenly clients were granted since the last fault was over; `None` with one client, or without a
    /// grant.
    pub fairness: Option<f64>,
    /// What the verdicts were made of: grants, faults and writes, for a timeline.
    pub record: Record,
    /// What a reader must know: down-time of the servers, kinds that are not known.
    pub notes: Vec<String>,
}

/// Judges a history.
pub fn check(history: &History, options: &CheckOptions<'_>) -> CheckReport {
    judge(Record::of(history), options)
}

/// Judges what was read of a history.
pub fn judge(record: Record, options: &CheckOptions<'_>) -> CheckReport {
    // What keeps nothing goes on beside the checkers: together it takes as long as one.
    let figures = || {
        let doubts = evidence_minimum::doubts(&record, options);
        let grants = record.granted().count() as u64;
        (doubts, grants, recovery::without_grant_ns(&record), fairness::of(&record), liveness::notes(&record))
    };
    let (classes, (doubts, grants, without_grant_ns, fairness, notes)) = thread::scope(|scope| {
        let figures = scope.spawn(figures);
        (findings(&record, options), figures.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    let whole = severity::HistoryFacts {
        doubts: &doubts,
        length_ns: options.load.map_or(record.end_ns - record.begin_ns, nanoseconds),
        faults: record.faults.len() as u64,
    };
    let of_lock = |lock: usize| {
        severity::verdicts(|class| {
            classes.get(class).and_then(|locks| locks.get(lock)).cloned().unwrap_or_default().verdict(&whole)
        })
    };
    let locks: BTreeMap<String, Verdicts> =
        record.locks.iter().enumerate().map(|(lock, name)| (name.to_owned(), of_lock(lock))).collect();
    let verdicts = severity::verdicts(|class| {
        let all = classes.get(class).into_iter().flatten().cloned();
        all.fold(Finding::default(), Finding::merge).verdict(&whole)
    });
    CheckReport {
        verdicts,
        operations: operations(&record),
        recovery: Recovery { first_grant_after_fault_ns: record.recovery_ns() },
        without_grant_ns,
        grants,
        faults: recovery::rows(&record, &locks),
        fairness,
        notes,
        locks,
        record,
    }
}

/// The findings of each checker, in the order of the registry.
///
/// Two checkers work at a time, since no more cores are sure to be there, and what each keeps while it works
/// adds up. The registry is gone through from its end: liveness takes longest.
fn findings(record: &Record, options: &CheckOptions<'_>) -> Vec<Vec<Finding>> {
    let todo = Mutex::new(CHECKERS.iter().enumerate().rev());
    let next = || todo.lock().unwrap_or_else(PoisonError::into_inner).next();
    let earliest = LazyLock::new(|| stalls::at_the_earliest(record));
    let work = || -> Vec<_> {
        std::iter::from_fn(next)
            .map(|(place, checker)| (place, stalls::check(checker, record, &earliest, options)))
            .collect()
    };
    let mut found = thread::scope(|scope| {
        let other = scope.spawn(work);
        let mut found = work();
        found.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        found
    });
    found.sort_by_key(|(place, _)| *place);
    let with_doubts = |(place, mut findings): (usize, Vec<Finding>)| {
        for (_, doubt) in options.class_doubts.iter().filter(|(of, _)| *of == CHECKERS[place].name) {
            findings.iter_mut().for_each(|finding| finding.doubt(doubt));
        }
        findings
    };
    found.into_iter().map(with_doubts).collect()
}

/// Endings per operation. Acquire and release are in every history: a reader finds each ending there.
fn operations(record: &Record) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut operations = record.operations.clone();
    for operation in ["acquire", "release"] {
        let endings = operations.entry(operation.to_owned()).or_default();
        for ending in ["ok", "failed", "unknown"] {
            endings.entry(ending.to_owned()).or_default();
        }
    }
    operations
}
