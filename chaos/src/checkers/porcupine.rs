//! The operations of a history for Porcupine, a checker of linearizability that shares nothing with ours
//! (github.com/anishathalye/porcupine). `drivers/porcupine` holds the model of a lock that it is run with.
//!
//! 1. What belongs to a grant is under its number; nothing is judged, shortened or left out because of a rule
//!    of ours.
//! 2. An acquire is exported if its grant was held: answered ok, or unknown and proven later. All others held
//!    nothing.
//! 3. A grant ends by its releases, a signal of its loss, an extend's `not_held`, and the death of its
//!    client: one line for each.
//! 4. Of several locks that were taken together each has lines of its own.

use results::overlap::Mode;
use serde::Serialize;

use super::confirmed;
use super::contract::Starts;
use super::exclusion::sizes;
use crate::checkers::record::holds::{Grant, OperationEnd, Record, StepKind};

/// What an operation does with its grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OperationKind {
    /// It was given.
    Acquire,
    /// Its lease began anew: an extend that was answered ok, of the caller or of the library.
    Extend,
    /// It ended.
    End,
}

/// One operation, as a line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Operation<'a> {
    /// What it does.
    pub op: OperationKind,
    /// The lock.
    pub lock: &'a str,
    /// A number for each owner in each life of its client.
    pub owner: u32,
    /// A number for each grant.
    pub grant: u32,
    /// How its holds share: `exclusive`, `reentrant`, `read` or `permit`.
    pub mode: &'static str,
    /// How many permits there are, where the history says so.
    pub permits: Option<u64>,
    /// When it was called, in nanoseconds.
    pub call: u64,
    /// When it returned; `None` for an end that was never answered.
    #[serde(rename = "return")]
    pub returned: Option<u64>,
    /// From when its lease counts.
    pub sent: u64,
    /// The lease; `None`: it does not run out by itself, or the operation has none.
    pub lease_ns: Option<u64>,
    /// Its answer shows that the servers had the grant when it was called.
    pub proves: bool,
}

/// The operations of a history, grant by grant, each in order of calls.
pub fn operations(record: &Record) -> Vec<Operation<'_>> {
    let (starts, sizes) = (Starts::of(record), sizes(record));
    let mut all = Vec::new();
    for (number, grant) in (0..).zip(&record.grants) {
        let Some(mode) = grant.promise.mode.filter(|_| grant.held) else { continue };
        for lock in record.locks_of(record.acquire_of(grant)) {
            let whole = Operation {
                op: OperationKind::Acquire,
                lock: record.locks.get(*lock),
                owner: grant.owner,
                grant: number,
                mode: match mode {
                    Mode::Exclusive => "exclusive",
                    Mode::Reentrant => "reentrant",
                    Mode::Read => "read",
                    Mode::Permit => "permit",
                },
                permits: sizes[*lock as usize],
                call: 0,
                returned: None,
                sent: 0,
                lease_ns: None,
                proves: false,
            };
            all.extend(of_grant(record, &starts, grant, &whole));
        }
    }
    all
}

fn of_grant<'a>(
    record: &Record,
    starts: &Starts<'_>,
    grant: &Grant,
    whole: &Operation<'a>,
) -> Vec<Operation<'a>> {
    let ask = record.acquire_of(grant);
    let (sent, lease_ns) = starts.first(grant);
    let mut found = vec![Operation {
        call: ask.called_ns,
        returned: Some(grant.returned_ns),
        sent,
        lease_ns,
        ..whole.clone()
    }];
    let visible = starts.is_visible(ask);
    let released_ns = confirmed::first_release_ns(record, grant);
    for step in record.steps(grant) {
        let (op, call) = match (step.kind, step.ending) {
            (StepKind::Release, _) => (OperationKind::End, step.called_ns),
            (_, OperationEnd::Ok) => (OperationKind::Extend, step.called_ns),
            // Its caller knows from the answer on.
            (_, OperationEnd::NotHeld) => (OperationKind::End, step.returned_ns().unwrap_or(step.called_ns)),
            _ => continue,
        };
        let leases = op == OperationKind::Extend && visible;
        found.push(Operation {
            op,
            call,
            returned: step.returned_ns(),
            sent: step.sent_ns,
            lease_ns: leases.then_some(step.lease_ns),
            proves: confirmed::proves(record, grant, step, released_ns),
            ..whole.clone()
        });
    }
    found.extend(grant.lost_ns().into_iter().chain(record.died_ns(grant)).map(|t_ns| Operation {
        op: OperationKind::End,
        call: t_ns,
        returned: Some(t_ns),
        ..whole.clone()
    }));
    found.sort_by_key(|operation| operation.call);
    found
}
