//! Doubts: what keeps a verdict from being clean.
//!
//! 1. The run has three grants at least.
//! 2. Each kind in the mix was granted once at least. Extra kinds do not count for it.
//! 3. One operation at least overlaps each fault or follows it. Any client's will do: one that was cut or
//!    killed need not have had a turn.
//! 4. Of a load whose clients are known, each client was granted once at least if the others were granted ten
//!    times per client: one that a fault touched, or that died, need not have had a turn.
//! 5. In a load that is to contend, one acquire at least met another owner's hold or acquire of its lock.
//! 6. A grant came before the last of the faults that do not begin with the load: without one there was
//!    nothing to lose.
//! 7. Where the claim is about holds, one of them spanned the fault in question; where it is about renewal,
//!    one outlived the lease that is renewed.
//! 8. Of each fault of a run that carries proofs there is evidence that it took effect.
//! 9. The history is whole: its last line was not torn, no line speaks of a grant that was never given, and
//!    its recorder lost nothing.
//!
//! Rules 1 to 7 are the floors, and can be switched off; rules 8 and 9 always hold.

use std::collections::BTreeSet;

use results::units;

use crate::checkers::record::faults;
use crate::checkers::record::holds::{Grant, Record, ms};
use crate::checkers::{CheckOptions, belief, recovery};

/// How much must have happened before *clean* may be said, besides what must have in every run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EvidenceMinimum {
    /// Acquires that met another owner's hold or acquire.
    pub contended: u64,
    /// Faults by name: a grant must come before the last of them.
    pub granted_before: BTreeSet<String>,
    /// A fault by name that a hold must have spanned; empty: none.
    pub outlived: String,
    /// A hold must have outlived the lease that its library renews.
    pub outlives_lease: bool,
}

/// Why clean cannot be said of a history; empty if it can.
pub fn doubts(record: &Record, options: &CheckOptions<'_>) -> Vec<String> {
    let mut doubts = Vec::new();
    if record.torn {
        doubts.push("the history is torn at its end: the run is partial".to_owned());
    }
    doubts.extend(record.doubts.iter().cloned());
    doubts.extend(options.doubts.iter().cloned());
    if let Some(floors) = &options.floors {
        doubts.extend(below(record, options, floors));
    }
    for span in options.proofs.unwrap_or_default() {
        if !span.bit {
            doubts.push(format!(
                "no evidence that the fault took effect: {} on {} at {}",
                span.fault,
                span.targets.join(", "),
                ms(span.injected_ns)
            ));
        }
    }
    doubts
}

fn below(record: &Record, options: &CheckOptions<'_>, floors: &EvidenceMinimum) -> Vec<String> {
    let mut doubts = Vec::new();
    let little = |found: u64, wanted: u64, what: &str| {
        let doubt = || format!("too little happened: {found} {what}, {wanted} are wanted");
        (found < wanted).then(doubt)
    };
    let grants = record.granted().count() as u64;
    doubts.extend(little(grants, GRANTS, "grants"));
    let kinds: BTreeSet<&str> = match options.kinds.as_slice() {
        [] => record.kinds.iter().collect(),
        kinds => kinds.iter().map(String::as_str).collect(),
    };
    let mut of_kind = vec![0; record.kinds.len()];
    for grant in record.granted() {
        of_kind[record.acquire_of(grant).kind as usize] += 1;
    }
    for kind in kinds {
        let grants: u64 = record.kinds.position(kind).map_or(0, |index| of_kind[index as usize]);
        doubts.extend(little(grants, 1, &format!("grants of kind {kind}")));
    }
    for fault in &record.faults {
        let operations = record.operations_until(fault.injected_ns);
        let what = format!("operations overlap or follow {}", faults::shown(fault));
        doubts.extend(little(operations, 1, &what));
    }
    let mut timed = record.faults.iter().filter(|fault| floors.granted_before.contains(&fault.fault));
    if let Some(last) = timed.next_back() {
        let before = record.granted().filter(|grant| grant.returned_ns < last.injected_ns).count() as u64;
        let what = format!("grants before {}, so that nothing could be lost in it", faults::shown(last));
        doubts.extend(little(before, 1, &what));
    }
    let mut outlived = record.faults.iter().filter(|fault| fault.fault == floors.outlived);
    if !floors.outlived.is_empty() && !outlived.any(|fault| recovery::holds_across(record, fault) > 0) {
        doubts.push(format!(
            "no hold spanned {}: nothing of before it was still held after it",
            floors.outlived
        ));
    }
    if floors.outlives_lease && !record.grants.iter().any(|grant| outlives_lease(record, grant)) {
        let longest_ns = record.watchdog_ns.values().max();
        let lease = longest_ns.map_or_else(String::new, |ns| format!(" of {}", units::duration(*ns)));
        doubts.push(format!(
            "no hold outlived the lease{lease} that is renewed: whether it is renewed is not known. A driver that heeds options.watchdog_ms is tried with a shorter one"
        ));
    }
    doubts.extend(options.clients.iter().filter_map(|client| without_turn(record, client, options)));
    if floors.contended > 0 {
        let met = contended(record, floors.contended);
        doubts.extend(little(met, floors.contended, "acquires met another's"));
    }
    doubts
}

/// Whether a grant was held for longer than the lease that its library renews.
fn outlives_lease(record: &Record, grant: &Grant) -> bool {
    let lease_ns = record.renewal_ns(record.acquire_of(grant).client);
    grant.held && belief::end_ns(record, grant).saturating_sub(grant.returned_ns) > lease_ns
}

/// Fewer show nothing.
const GRANTS: u64 = 3;

/// So many grants per client, and nobody is passed over by chance.
const GRANTS_PER_CLIENT: u64 = 10;

/// Why a client is missed that never got a turn.
fn without_turn(record: &Record, client: &str, options: &CheckOptions<'_>) -> Option<String> {
    let index = record.clients.position(client);
    let own = |grant: &Grant| Some(record.acquire_of(grant).client) == index;
    let all = record.granted().count() as u64;
    let excused = index.is_some_and(|index| {
        record.deaths.iter().any(|(dead, _)| *dead == index)
            || record.faults.iter().any(|fault| fault.clients.contains(&index))
    });
    let enough = all >= GRANTS_PER_CLIENT * options.clients.len() as u64;
    let missed = enough && !excused && !record.granted().any(own);
    missed.then(|| format!("{client} never got a turn, of {all} grants, and no fault touched it"))
}

/// Acquires that met another owner's hold or acquire of their lock, counted up to `most`.
fn contended(record: &Record, most: u64) -> u64 {
    let mut met = 0;
    for lock in 0..record.locks.len() {
        // Until when somebody asked or held, and who; of two owners, since one's own does not count.
        let mut last: [(u64, Option<u32>); 2] = [(0, None); 2];
        for ask in record.acquires(lock) {
            if last.iter().any(|(until_ns, owner)| {
                owner.is_some_and(|owner| owner != ask.owner) && *until_ns >= ask.called_ns
            }) {
                met += 1;
                if met >= most {
                    return met;
                }
            }
            let grant = record.grant_of(ask);
            let until_ns = grant
                .map(|grant| belief::end_ns(record, grant))
                .or(ask.returned_ns())
                .unwrap_or(record.end_ns);
            if last[0].1 != Some(ask.owner) {
                last[1] = last[0];
                last[0] = (0, Some(ask.owner));
            }
            last[0].0 = last[0].0.max(until_ns);
        }
    }
    met
}
