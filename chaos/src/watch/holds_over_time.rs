//! Draws together the holds of a watch over its time: how many grants in each part, and the longest holds of
//! the busiest locks.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use results::history::Line;
use results::over_time::{AcquireSpan, OverTime};
use results::timeline::{HoldBar, MAX_BARS, TimelineData};

use crate::checkers::{Reader, Record, contract};
use crate::proof::hold_bar;

/// Locks of which holds are drawn.
const LOCKS: usize = 4;

/// Grants over time, and a lane of holds for each of the busiest locks, of a history in order of time.
pub(super) fn over_time(history: &[Line]) -> (Option<OverTime>, Option<TimelineData>) {
    let mut reader = Reader::default();
    history.iter().for_each(|line| reader.line(line));
    let record = reader.finish(false, &BTreeMap::new());
    let asked = record.acquires.iter().map(|ask| AcquireSpan {
        owner: record.clients.get(ask.client),
        called_ns: ask.called_ns,
        granted_ns: ask.returned_ns(),
    });
    let mut over = OverTime::of(record.end_ns, asked.clone());
    if let Some(over) = &mut over
        && asked.clone().all(|ask| ask.granted_ns == Some(ask.called_ns))
    {
        // Nobody waited.
        over.acquire = None;
    }
    (over, busiest(&record))
}

/// The longest holds of the busiest locks.
fn busiest(record: &Record) -> Option<TimelineData> {
    let mut by_lock: BTreeMap<u32, Vec<HoldBar>> = BTreeMap::new();
    for (grant, interval) in record.grants.iter().zip(contract::intervals(record, 0.0)) {
        let lock = record.locks_of(record.acquire_of(grant)).first();
        let (Some(interval), Some(lock)) = (interval, lock) else { continue };
        let bar = hold_bar(record, grant, interval);
        by_lock.entry(*lock).or_default().push(HoldBar {
            client: record.locks.get(*lock).to_owned(),
            owner: String::new(),
            grant: format!("{} by {}", bar.owner, bar.client),
            ..bar
        });
    }
    let mut locks: Vec<Vec<HoldBar>> = by_lock.into_values().collect();
    locks.sort_by_key(|holds| Reverse(holds.len()));
    locks.truncate(LOCKS);
    let mut omitted = 0;
    for holds in &mut locks {
        let length_ns = |hold: &HoldBar| hold.to_ns.unwrap_or(record.end_ns) - hold.from_ns;
        holds.sort_by_key(|hold| Reverse(length_ns(hold)));
        omitted += holds.len().saturating_sub(MAX_BARS / LOCKS) as u64;
        holds.truncate(MAX_BARS / LOCKS);
    }
    let mut holds: Vec<HoldBar> = locks.into_iter().flatten().collect();
    holds.sort_by_key(|hold| hold.from_ns);
    (!holds.is_empty()).then(|| TimelineData {
        to_ns: record.end_ns,
        holds,
        omitted,
        ..TimelineData::default()
    })
}
