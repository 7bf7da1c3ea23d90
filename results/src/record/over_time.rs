//! Grants over the time of a history: how many in each part, how long they took, and which owners got them.
//!
//! The record is kept in `run.json`, so that a report needs no history; it is therefore short.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::record::intervals::Intervals;

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
    /// The share of the client that got least: its grants over an even share; `None` with one client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_min: Option<f64>,
    /// From the call of an acquire to its grant; `None` in runs that were kept before there was any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acquire: Option<Intervals>,
}

/// An acquire, as far as a count over time asks.
#[derive(Debug, Clone, Copy)]
pub struct AcquireSpan<'a> {
    /// `client/owner`.
    pub owner: &'a str,
    /// When it was called.
    pub called_ns: u64,
    /// When it was answered ok; `None`: it was not.
    pub granted_ns: Option<u64>,
}

impl OverTime {
    /// Counts acquires that were answered ok, by the time of the answer, in a history that ends at `end_ns`;
    /// `None` if there was none. Owners that asked and got nothing are among the owners, with 0.
    pub fn of<'a>(end_ns: u64, asked: impl Iterator<Item = AcquireSpan<'a>> + Clone) -> Option<Self> {
        let part_ns = (end_ns / PARTS + 1).max(SHORTEST_PART_NS);
        let mut grants = vec![0_u32; usize::try_from(end_ns / part_ns).ok()? + 1];
        let mut owners: BTreeMap<&str, u32> = BTreeMap::new();
        for acquire in asked.clone() {
            let owner = owners.entry(acquire.owner).or_default();
            let Some(granted_ns) = acquire.granted_ns else {
                continue;
            };
            *owner += 1;
            if let Some(part) = grants.get_mut((granted_ns / part_ns) as usize) {
                *part = part.saturating_add(1);
            }
        }
        if grants.iter().all(|count| *count == 0) {
            return None;
        }
        let owners = owners.into_iter().map(|(owner, grants)| (owner.to_owned(), grants)).collect();
        let took = asked.filter_map(|acquire| {
            let granted_ns = acquire.granted_ns?;
            Some((granted_ns, granted_ns - acquire.called_ns, 1))
        });
        Some(Self {
            part_ns,
            grants,
            share_min: share_min(&clients(&owners)),
            owners: together(owners),
            acquire: Intervals::of(end_ns, took),
        })
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

/// Of clients with so many grants and so many that asked for them, the least grants per asker over the mean
/// of all: 1 is even, 0 is a client that got nothing. `None` with fewer than two clients or no grant.
pub fn share_min(clients: &[(u64, u32)]) -> Option<f64> {
    let grants: u64 = clients.iter().map(|client| client.0).sum();
    let askers: u32 = clients.iter().map(|client| client.1).sum();
    if clients.len() < 2 || grants == 0 {
        return None;
    }
    let even = grants as f64 / f64::from(askers);
    let shares = clients.iter().map(|(grants, askers)| *grants as f64 / f64::from(*askers) / even);
    Some(shares.fold(f64::INFINITY, f64::min))
}

/// The grants of each client's owners; clients count alike, whatever the number of their owners.
fn clients(owners: &BTreeMap<String, u32>) -> Vec<(u64, u32)> {
    let mut clients: BTreeMap<&str, u64> = BTreeMap::new();
    for (owner, grants) in owners {
        *clients.entry(owner.split('/').next().unwrap_or_default()).or_default() += u64::from(*grants);
    }
    clients.into_values().map(|grants| (grants, 1)).collect()
}

fn together(owners: BTreeMap<String, u32>) -> BTreeMap<String, u32> {
    if owners.len() <= OWNERS_MAX {
        return owners;
    }
    let mut sorted: Vec<(String, u32)> = owners.into_iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let rest = sorted.split_off(OWNERS_MAX - 1);
    sorted.push(("others".to_owned(), rest.iter().map(|one| one.1).sum()));
    sorted.into_iter().collect()
}
