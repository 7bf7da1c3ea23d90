//! The share that each of several clients, at several distances, gets of one lock.
//!
//! A client's share is of what it would have if all had the same: 1 is fair.

use std::time::Duration;

use lock_core::Kind;

use crate::{
    Failure,
    goals::{self, Bound},
    lock_support::shares::{Share, hand_offs, shares},
    median,
    support::Server,
};

const MS: Duration = Duration::from_millis(1);
const RUN: Duration = Duration::from_secs(4);

pub(crate) async fn run() -> Result<(), Failure> {
    println!("\nwhat each client gets of a lock that all of them want, by distance; held for 8 ms");
    println!(
        "{:<14} {:>8} {:>8} {:>8} {:>14} {:>6} {:>14}",
        "kind", "distance", "grants", "share", "longest wait", "busy", "hand-off p50"
    );
    let near = Duration::ZERO;
    let mut least = Vec::new();
    for kind in [Kind::Reentrant, Kind::NonReentrant, Kind::Fenced] {
        for distance in [near, MS, 2 * MS, 5 * MS] {
            least.push((kind, distance, 2, all(kind, &[near, distance]).await));
        }
    }
    for distance in [2 * MS, 5 * MS] {
        let distances = [near, near, distance, distance];
        least.push((Kind::Reentrant, distance, 4, all(Kind::Reentrant, &distances).await));
    }
    for (kind, distance, clients, least) in least {
        let wanted = if distance > 2 * MS { 0.25 } else { 0.5 };
        let name = format!("{kind}, {clients} clients, {distance:?} farther: the least share");
        goals::figure(&name, least, "of a fair one", Bound::AtLeast(wanted));
    }
    Ok(())
}

/// The least of the shares.
async fn all(kind: Kind, distances: &[Duration]) -> f64 {
    let server = Server::start(&[]);
    let all = shares(&server, kind, distances, 1, 8 * MS, RUN).await;
    let hand_offs_us = hand_offs(&all).iter().map(|gap| gap.as_secs_f64() * 1e6).collect();
    let hand_off_us = median(hand_offs_us);
    for share in &all {
        let Share { distance, grants, fair, longest_wait, busy, .. } = share;
        println!(
            "{kind:<14} {:>5.0} ms {grants:>8} {fair:>8.3} {:>11.1} ms {busy:>6} {hand_off_us:>11.0} µs",
            distance.as_secs_f64() * 1e3,
            longest_wait.as_secs_f64() * 1e3
        );
    }
    let fair = all.iter().map(|share| share.fair);
    fair.fold(f64::INFINITY, f64::min)
}
