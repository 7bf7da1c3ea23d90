//! Grants over the time of a history: how many in each part, how long they took, and which owners got them.
//!
//! The record is kept inside `run.json`, so that a report can be drawn without the history; it is therefore short.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::history::{Call, End, Entry, History};
use crate::intervals::Intervals;

/// Into how many parts a history is cut.
const PARTS: u64 = 120;
/// No part is shorter: a grant every few milliseconds would draw nothing but noise.
const SHORTEST_PART_NS: u64 = 20_000_000;
/// The most owners that are counted one by one; those with the fewest grants are counted together.
const OWNERS_MAX: usize = 64;

/// Grants over time, and by owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct OverTime {
    /// The length of each part; the first begins when the run began.
    pub part_ns: u64,
    /// Grants in each part.
    pub grants: Vec<u32>,
    /// Grants by `client/owner`; those of further owners stand under `others`.
    pub owners: BTreeMap<String, u32>,
    /// The share of the client that got least: its grants over what it would have if all had the same, 1 is even; `None` with one client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_min: Option<f64>,
    /// From the call of an acquire to its grant; `None` in runs that were kept before there was any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acquire: Option<Intervals>,
}

impl OverTime {
    /// Counts the acquires of a history that were answered ok, by the time of the answer; `None` if there was none. Owners that asked and
    /// got nothing are among the owners, with 0.
    pub fn of(history: &History) -> Option<Self> {
        let end_ns = history.lines.last()?.t_ns;
        let part_ns = (end_ns / PARTS + 1).max(SHORTEST_PART_NS);
        let mut grants = vec![0_u32; usize::try_from(end_ns / part_ns).ok()? + 1];
        let mut asked: BTreeMap<u64, (u64, String)> = BTreeMap::new();
        let mut owners: BTreeMap<String, u32> = BTreeMap::new();
        let mut took: Vec<(u64, u64, u64)> = Vec::new();
        for line in &history.lines {
            match &line.entry {
                Entry::Call {
                    id,
                    call: Call::Acquire(acquire),
                } => {
                    let owner = format!("{}/{}", acquire.client, acquire.owner);
                    owners.entry(owner.clone()).or_default();
                    asked.insert(*id, (line.t_ns, owner));
                }
                Entry::End {
                    id,
                    end: End::Ok { .. },
                } => {
                    let Some((called_ns, owner)) = asked.remove(id) else {
                        continue;
                    };
                    if let Some(part) = grants.get_mut((line.t_ns / part_ns) as usize) {
                        *part = part.saturating_add(1);
                    }
                    *owners.entry(owner).or_default() += 1;
                    took.push((line.t_ns, line.t_ns - called_ns, 1));
                }
                _ => {}
            }
        }
        if grants.iter().all(|count| *count == 0) {
            return None;
        }
        Some(Self {
            part_ns,
            grants,
            share_min: share_min(&clients(&owners)),
            owners: together(owners),
            acquire: Intervals::of(end_ns, took),
        })
    }

    /// Jain's index over owners: 1 is even, 1/n is one for all; `None` without owners.
    pub fn jain(&self) -> Option<f64> {
        jain(self.owners.values().map(|count| f64::from(*count)))
    }
}

/// Jain's index of some counts: 1 is even, one over their number is one for all; `None` where all are 0.
pub fn jain(counts: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut many, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for count in counts {
        many += 1.0;
        sum += count;
        squares += count * count;
    }
    (squares > 0.0).then(|| sum * sum / (many * squares))
}

/// Of clients with so many grants and so many that asked for them, the least grants per asker over the mean of all: 1 is even, 0 is a client
/// that got nothing. `None` with fewer than two clients, and where none got anything.
pub fn share_min(clients: &[(u64, u32)]) -> Option<f64> {
    let (grants, askers) = clients.iter().fold((0, 0), |(grants, askers), client| {
        (grants + client.0, askers + client.1)
    });
    if clients.len() < 2 || grants == 0 {
        return None;
    }
    let even = grants as f64 / f64::from(askers);
    let shares = clients.iter();
    let shares = shares.map(|(grants, askers)| *grants as f64 / f64::from(*askers) / even);
    Some(shares.fold(f64::INFINITY, f64::min))
}

/// The grants of each client's owners; clients count alike, whatever the number of their owners.
fn clients(owners: &BTreeMap<String, u32>) -> Vec<(u64, u32)> {
    let mut clients: BTreeMap<&str, u64> = BTreeMap::new();
    for (owner, grants) in owners {
        let client = owner.split('/').next().unwrap_or_default();
        *clients.entry(client).or_default() += u64::from(*grants);
    }
    clients.into_values().map(|grants| (grants, 1)).collect()
}

fn together(owners: BTreeMap<String, u32>) -> BTreeMap<String, u32> {
    if owners.len() <= OWNERS_MAX {
        return owners;
    }
    let mut sorted: Vec<(String, u32)> = owners.into_iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let rest: u32 = sorted
        .split_off(OWNERS_MAX - 1)
        .iter()
        .map(|one| one.1)
        .sum();
    sorted.push(("others".to_owned(), rest));
    sorted.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(grants: &[(u64, &str)]) -> History {
        let mut text = String::new();
        for (id, (t_ms, owner)) in grants.iter().enumerate() {
            let t_ns = t_ms * 1_000_000;
            text.push_str(&format!(
                "{{\"t_ns\":{t_ns},\"id\":{id},\"client\":\"c1\",\"owner\":\"{owner}\",\"op\":\"acquire\",\"lock\":\"l\",\"kind\":\"plain\",\
                 \"lease_ms\":1,\"wait_ms\":1}}\n{{\"t_ns\":{t_ns},\"id\":{id},\"end\":\"ok\",\"grant\":\"g{id}\"}}\n"
            ));
        }
        History::parse(&text).expect("a good history")
    }

    #[test]
    fn grants_fall_into_the_part_of_their_answer() {
        let over = OverTime::of(&history(&[(0, "t0"), (10, "t1"), (25, "t0")])).expect("grants");
        assert_eq!(over.part_ns, SHORTEST_PART_NS);
        assert_eq!(over.grants, [2, 1]);
        assert_eq!(over.owners["c1/t0"], 2);
        let took = over.acquire.as_ref().expect("grants");
        assert_eq!(took.histograms, [[(0, 3)]]);
        let jain = over.jain().expect("owners");
        assert!((jain - 0.9).abs() < 1e-12, "{jain}");
    }

    #[test]
    fn the_least_share_is_that_of_a_client() {
        assert_eq!(share_min(&[(30, 1), (10, 1)]), Some(0.5));
        assert_eq!(share_min(&[(30, 3), (10, 1)]), Some(1.0));
        assert_eq!(share_min(&[(30, 1), (0, 1)]), Some(0.0));
        assert_eq!(share_min(&[(30, 1)]), None);
        assert_eq!(share_min(&[(0, 1), (0, 1)]), None);
        let owners = [("c1/t0", 4), ("c1/t1", 5), ("c2/t0", 1), ("c2/t1", 2)];
        let owners = owners.map(|(owner, grants)| (owner.to_owned(), grants));
        assert_eq!(share_min(&clients(&owners.into())), Some(0.5));
    }

    #[test]
    fn a_history_without_a_grant_has_nothing_to_draw() {
        assert_eq!(OverTime::of(&History::default()), None);
    }

    #[test]
    fn many_owners_are_counted_together() {
        let names: Vec<String> = (0..100).map(|n| format!("t{n}")).collect();
        let grants: Vec<(u64, &str)> = names.iter().map(|name| (1, name.as_str())).collect();
        let over = OverTime::of(&history(&grants)).expect("grants");
        assert_eq!(over.owners.len(), OWNERS_MAX);
        assert_eq!(over.owners.values().sum::<u32>(), 100);
    }
}
