//! Draws together the holds of a watch over its time: how many grants in each part, and the longest holds of the busiest locks.

use std::collections::{BTreeMap, HashMap};

use results::history::{Call, End, Entry, Line};
use results::over_time::{AcquireSpan, OverTime};
use results::timeline::{HoldBar, MAX_BARS, TimelineData};

/// Locks of which holds are drawn.
const LOCKS: usize = 4;

/// A hold as the history has it.
struct RecordedHold<'a> {
    lock: &'a str,
    owner: &'a str,
    client: &'a str,
    called_ns: u64,
    granted_ns: Option<u64>,
    /// By its release, else when its lease was to end.
    ended: Option<(u64, &'static str)>,
}

/// When a lease ends that was set then; `None`: never.
fn end_of_lease(set_ns: u64, lease_ms: Option<u64>) -> Option<(u64, &'static str)> {
    Some((
        set_ns.saturating_add(lease_ms?.saturating_mul(1_000_000)),
        "lease",
    ))
}

/// Grants over time, and a lane of holds for each of the busiest locks, of a history in order of time.
pub(super) fn over_time(history: &[Line]) -> (Option<OverTime>, Option<TimelineData>) {
    let mut holds: Vec<RecordedHold<'_>> = Vec::new();
    let (mut by_call, mut by_grant) = (HashMap::new(), HashMap::new());
    for line in history {
        match &line.entry {
            Entry::Call {
                id,
                call: Call::Acquire(acquire),
            } => {
                by_call.insert(*id, holds.len());
                holds.push(RecordedHold {
                    lock: acquire.lock.as_deref().unwrap_or_default(),
                    owner: &acquire.owner,
                    client: &acquire.client,
                    called_ns: line.t_ns,
                    granted_ns: None,
                    ended: end_of_lease(line.t_ns, acquire.lease_ms),
                });
            }
            Entry::End {
                id,
                end: End::Ok {
                    grant: Some(grant), ..
                },
            } => {
                if let Some(place) = by_call.get(id) {
                    by_grant.insert(grant.as_str(), *place);
                    holds[*place].granted_ns = Some(line.t_ns);
                }
            }
            Entry::Call {
                call: call @ (Call::Release { grant } | Call::Extend { grant, .. }),
                ..
            } => {
                if let Some(place) = by_grant.get(grant.as_str()) {
                    holds[*place].ended = match call {
                        Call::Extend { lease_ms, .. } => end_of_lease(line.t_ns, Some(*lease_ms)),
                        _ => Some((line.t_ns, "release")),
                    };
                }
            }
            _ => {}
        }
    }
    let end_ns = history.last().map_or(0, |line| line.t_ns);
    let spans = holds.iter().map(|hold| AcquireSpan {
        owner: hold.client,
        called_ns: hold.called_ns,
        granted_ns: hold.granted_ns,
    });
    let mut over = OverTime::of(end_ns, spans);
    if let Some(over) = &mut over
        && holds
            .iter()
            .all(|hold| hold.granted_ns == Some(hold.called_ns))
    {
        // Nobody waited.
        over.acquire = None;
    }
    (over, busiest(&holds, end_ns))
}

/// The longest holds of the busiest locks.
fn busiest(holds: &[RecordedHold<'_>], end_ns: u64) -> Option<TimelineData> {
    let mut by_lock: BTreeMap<&str, Vec<HoldBar>> = BTreeMap::new();
    for hold in holds {
        let Some(from_ns) = hold.granted_ns else {
            continue;
        };
        by_lock.entry(hold.lock).or_default().push(HoldBar {
            client: hold.lock.to_owned(),
            owner: String::new(),
            grant: format!("{} by {}", hold.owner, hold.client),
            from_ns,
            to_ns: hold.ended.map(|(ended_ns, _)| ended_ns),
            ended_by: hold.ended.map_or("", |(_, how)| how).to_owned(),
        });
    }
    let mut locks: Vec<Vec<HoldBar>> = by_lock.into_values().collect();
    locks.sort_by_key(|holds| std::cmp::Reverse(holds.len()));
    locks.truncate(LOCKS);
    let mut omitted = 0;
    for holds in &mut locks {
        holds.sort_by_key(|hold| {
            std::cmp::Reverse(hold.to_ns.unwrap_or(end_ns).saturating_sub(hold.from_ns))
        });
        omitted += holds.len().saturating_sub(MAX_BARS / LOCKS) as u64;
        holds.truncate(MAX_BARS / LOCKS);
    }
    let mut holds: Vec<HoldBar> = locks.into_iter().flatten().collect();
    holds.sort_by_key(|hold| hold.from_ns);
    (!holds.is_empty()).then(|| TimelineData {
        to_ns: end_ns,
        holds,
        omitted,
        ..TimelineData::default()
    })
}
