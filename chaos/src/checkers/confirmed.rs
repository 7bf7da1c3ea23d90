//! The times that the servers confirmed: two at once mean that they lost state.
//!
//! 1. A hold begins when its acquire returned.
//! 2. It ends at the call of the last extend or release of it that was answered ok.
//! 3. A renewal that is told of after the call of its release proves nothing: a client that was stopped tells
//!    late of one that was sent before.
//! 4. Without such an answer it is empty.

use super::exclusion::Class;
use super::{CheckOptions, Finding};
use crate::checkers::record::holds::{Grant, OperationEnd, Record, Step, StepKind};

/// Whether the answer to a step shows that the servers had its grant when it was called; `released_ns` is
/// [`first_release_ns`].
pub(super) fn proves(record: &Record, grant: &Grant, step: &Step, released_ns: u64) -> bool {
    let is_blind = || record.blind.contains(&record.acquire_of(grant).client);
    step.ending == OperationEnd::Ok
        && match step.kind {
            StepKind::Extend => true,
            StepKind::Renewal => step.called_ns <= released_ns,
            StepKind::Release => !is_blind(),
        }
}

/// When the first release of a grant was called; [`u64::MAX`] where none was.
pub(super) fn first_release_ns(record: &Record, grant: &Grant) -> u64 {
    let releases = record.steps(grant).filter(|step| step.kind == StepKind::Release);
    releases.map(|step| step.called_ns).min().unwrap_or(u64::MAX)
}

pub(crate) fn intervals(record: &Record) -> Vec<Option<(u64, u64)>> {
    let interval = |grant: &Grant| {
        let released_ns = first_release_ns(record, grant);
        let proven = record.steps(grant).filter(|step| proves(record, grant, step, released_ns));
        let end_ns = proven.map(|step| step.called_ns).max()?;
        (grant.held && grant.returned_ns <= end_ns).then_some((grant.returned_ns, end_ns))
    };
    record.grants.iter().map(interval).collect()
}

/// One finding per lock.
pub fn check(record: &Record, _: &CheckOptions<'_>) -> Vec<Finding> {
    Class { verb: "was confirmed to hold", intervals: &intervals(record) }.findings(record)
}
