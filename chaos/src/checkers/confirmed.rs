//! The times that the servers confirmed: two at once mean that they lost state.
//!
//! 1. A hold begins when its acquire returned.
//! 2. It ends at the call of the last extend or release of it that was answered ok.
//! 3. Without such an answer it is empty.

use super::exclusion::Class;
use super::{CheckOptions, Finding};
use crate::checkers::record::holds::{Grant, OperationEnd, Record, Step, StepKind};

/// Whether the answer to a step shows that the servers had its grant when it was called.
pub(super) fn proves(record: &Record, grant: &Grant, step: &Step) -> bool {
    let is_blind = || record.blind.contains(&record.acquire_of(grant).client);
    step.ending == OperationEnd::Ok && (step.kind != StepKind::Release || !is_blind())
}

pub(crate) fn intervals(record: &Record) -> Vec<Option<(u64, u64)>> {
    let interval = |grant: &Grant| {
        let proven = record.steps(grant).filter(|step| proves(record, grant, step));
        let end_ns = proven.map(|step| step.called_ns).max()?;
        (grant.held && grant.returned_ns <= end_ns).then_some((grant.returned_ns, end_ns))
    };
    record.grants.iter().map(interval).collect()
}

/// One finding per lock.
pub fn check(record: &Record, _: &CheckOptions<'_>) -> Vec<Finding> {
    Class { verb: "was confirmed to hold", intervals: &intervals(record) }.findings(record)
}
