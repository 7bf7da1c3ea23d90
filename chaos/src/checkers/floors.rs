//! Turns what happened in a history into doubts: what keeps a verdict from being clean.
//!
//! 1. The run has three grants at least.
//! 2. Each kind in the mix was granted once at least. Extra kinds do not count for it.
//! 3. One operation at least overlaps each fault or follows it. Any client's will do: one that was cut or killed need
//!    not have had a turn.
//! 4. Each fault of a run that carries proofs can be shown to have bitten.
//! 5. The history is whole: its last line was not torn, and no line speaks of a grant that was never given.
//!
//! Rules 1 to 3 are the floors, and can be switched off; rules 4 and 5 always hold.

use std::collections::BTreeSet;

use super::holds::Record;
use super::{CheckOptions, faults};

/// How much must have happened before *clean* may be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floors {
    /// Grants in the run.
    pub grants: u64,
    /// Grants of each kind in the mix.
    pub grants_per_kind: u64,
    /// Operations that overlap or follow each fault.
    pub operations_per_fault: u64,
}

impl Default for Floors {
    fn default() -> Self {
        Self {
            grants: 3,
            grants_per_kind: 1,
            operations_per_fault: 1,
        }
    }
}

/// Why clean cannot be said of a history; empty if it can.
pub fn doubts(record: &Record, options: &CheckOptions<'_>) -> Vec<String> {
    let mut doubts = Vec::new();
    if record.torn {
        doubts.push("the history is torn at its end: the run is partial".to_owned());
    }
    doubts.extend(record.doubts.iter().cloned());
    if let Some(floors) = &options.floors {
        doubts.extend(below(record, options, floors));
    }
    for span in options.proofs.unwrap_or_default() {
        if !span.bit {
            doubts.push(format!(
                "{} on {} at {} cannot be shown to have bitten",
                span.fault,
                span.targets.join(", "),
                super::exclusion::ms(span.injected_ns)
            ));
        }
    }
    doubts
}

fn below(record: &Record, options: &CheckOptions<'_>, floors: &Floors) -> Vec<String> {
    let mut doubts = Vec::new();
    let granted = record.grants.iter().filter(|grant| !grant.unknown);
    let grants = granted.clone().count() as u64;
    if grants < floors.grants {
        doubts.push(format!(
            "too little happened: {grants} grants, {} are wanted",
            floors.grants
        ));
    }
    let kinds: BTreeSet<&str> = if options.kinds.is_empty() {
        record.asks.iter().map(|ask| ask.kind.as_str()).collect()
    } else {
        options.kinds.iter().map(String::as_str).collect()
    };
    for kind in kinds {
        let grants = granted.clone().filter(|grant| grant.kind == kind).count() as u64;
        if grants < floors.grants_per_kind {
            doubts.push(format!(
                "too little happened: {grants} grants of kind {kind}, {} are wanted",
                floors.grants_per_kind
            ));
        }
    }
    for fault in &record.faults {
        let operations = record.operations_until(fault.injected_ns);
        if operations < floors.operations_per_fault {
            doubts.push(format!(
                "too little happened: {operations} operations overlap or follow {}, {} are wanted",
                faults::shown(fault),
                floors.operations_per_fault
            ));
        }
    }
    doubts
}
