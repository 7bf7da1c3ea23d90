//! How evenly the clients of a run were granted since its last fault was over.
//!
//! 1. The window begins with the latest heal or injection of all faults; without a fault, with the history.
//! 2. Counted are the clients that asked in the window and had not died for good by its end.
//! 3. A client that asked and got nothing counts with 0.

use std::collections::BTreeMap;

use results::over_time::jain;

use crate::checkers::record::holds::Record;

/// Jain's index; `None` with fewer than two clients, or where nobody was granted.
pub(super) fn of(record: &Record) -> Option<f64> {
    let over = record.faults.iter();
    let from_ns = over.map(|fault| fault.healed_ns.unwrap_or(fault.injected_ns)).max().unwrap_or(0);
    let mut grants: BTreeMap<u32, f64> = BTreeMap::new();
    let dead = |client: u32| {
        let died_ns = record.deaths.iter().filter(|(dead, _)| *dead == client).map(|(_, at_ns)| *at_ns).max();
        let asks = || record.acquires.iter().filter(|ask| ask.client == client);
        died_ns.is_some_and(|died_ns| asks().all(|ask| ask.called_ns <= died_ns))
    };
    for ask in record.acquires.iter().filter(|ask| ask.called_ns >= from_ns) {
        let granted = record.grant_of(ask).is_some_and(|grant| !grant.unknown);
        *grants.entry(ask.client).or_default() += f64::from(u8::from(granted));
    }
    grants.retain(|client, _| !dead(*client));
    (grants.len() > 1).then(|| jain(grants.into_values()))?
}
