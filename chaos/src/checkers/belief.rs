//! The times in which holders believed that they held: two at once acted while not alone.
//!
//! 1. A hold begins when its acquire returned.
//! 2. It ends at the first of: its release's call, whatever the answer; the lost-signal; an extend's answer
//!    `not_held`; its client's death; the end of the history.
//! 3. Nothing else ends it: a paused client still believes, and so does one whose lease ran out unnoticed.

use super::exclusion::Class;
use super::{CheckOptions, Finding};
use crate::checkers::record::holds::{Grant, OperationEnd, Record};

pub(crate) fn end_ns(record: &Record, grant: &Grant) -> u64 {
    let released = record.releases(grant).map(|release| release.called_ns);
    released.chain([end_unless_released_ns(record, grant)]).min().unwrap_or(record.end_ns)
}

/// The first of: lost, an extend's `not_held`, the client's death, the end of the history.
pub(crate) fn end_unless_released_ns(record: &Record, grant: &Grant) -> u64 {
    let refused = record.extends(grant).filter(|extend| extend.ending == OperationEnd::NotHeld);
    refused
        .filter_map(|extend| extend.returned_ns())
        .chain(grant.lost_ns())
        .chain(record.died_ns(grant))
        .min()
        .unwrap_or(record.end_ns)
}

pub(crate) fn intervals(record: &Record) -> Vec<Option<(u64, u64)>> {
    let interval = |grant: &Grant| {
        let end_ns = end_ns(record, grant);
        // Nobody acts by a lock whose loss is said with its grant.
        let begins = grant.lost_ns().is_none_or(|lost_ns| lost_ns > grant.returned_ns);
        (begins && grant.held && grant.returned_ns <= end_ns).then_some((grant.returned_ns, end_ns))
    };
    record.grants.iter().map(interval).collect()
}

/// One finding per lock.
pub fn check(record: &Record, _: &CheckOptions<'_>) -> Vec<Finding> {
    Class { verb: "believed to hold", intervals: &intervals(record) }.findings(record)
}
