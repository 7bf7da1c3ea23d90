//! Where clients are of different libraries: how often, and how fast, a lock went from one library to the
//! other.

use std::collections::BTreeMap;

use bench::subject::Subject;
use bench::subjects::turn;
use results::units;

use crate::checkers::record::holds::Record;

/// A note for each pair of libraries, in both directions; none where all clients are of one. A hand-off is
/// from a release, as it was called, to the return of the next acquire, where that was waiting by then.
pub(super) fn notes(record: &Record, subject: &dyn Subject) -> Vec<String> {
    let parts = subject.parts();
    if parts.is_empty() {
        return Vec::new();
    }
    let mut found: BTreeMap<(usize, usize), Vec<u64>> = BTreeMap::new();
    for from in 0..parts.len() {
        found.extend((0..parts.len()).map(|to| ((from, to), Vec::new())));
    }
    for lock in 0..record.locks.len() {
        let mut grants: Vec<_> = record.held(lock).map(|(_, grant)| grant).collect();
        grants.sort_by_key(|grant| grant.returned_ns);
        for pair in grants.windows(2) {
            let of = |ask: u32| turn(record.clients.get(ask), parts.len());
            let (before, after) = (record.acquire_of(pair[0]), record.acquire_of(pair[1]));
            let released = record.releases(pair[0]).next();
            if let Some(released) = released.filter(|step| after.called_ns < step.called_ns) {
                let took_ns = pair[1].returned_ns.saturating_sub(released.called_ns);
                found.entry((of(before.client), of(after.client))).or_default().push(took_ns);
            }
        }
    }
    let between = found.into_iter().filter(|((from, to), _)| from != to);
    let note = |((from, to), mut took_ns): ((usize, usize), Vec<u64>)| {
        took_ns.sort_unstable();
        let times = match (took_ns.get(took_ns.len() / 2), took_ns.last()) {
            (Some(median), Some(longest)) => {
                format!(", median {}, longest {}", units::duration(*median), units::duration(*longest))
            }
            _ => String::new(),
        };
        format!("hand-offs from {} to {}: {}{times}", parts[from].name(), parts[to].name(), took_ns.len())
    };
    between.map(note).collect()
}
