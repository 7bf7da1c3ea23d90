//! How many replicas must acknowledge, from what a master, its sentinels or its cluster say. That number never falls
//! because a replica is not listed any more: a master that is cut off from its replicas forgets them, and they are promoted.
use std::{collections::BTreeSet, time::Duration};

use redis::Value;

use super::attempt::{Answer, probed};
use super::node::{Lease, Node};
use super::{WaitFor, info_field};
use crate::clock::Instant;

/// The code of a refusal of our own: nothing was sent, since acknowledgements of replicas were asked for and none is known.
pub(crate) const UNREPLICATED: &str = "UNREPLICATED";

/// For how long the replicas that a master listed are believed to be all.
const FRESH: Duration = Duration::from_secs(1);

/// What has been seen of a master's replicas.
#[derive(Debug, Default)]
pub(super) struct ReplicaCounts {
    /// When the master was asked last.
    listed_at: Option<Instant>,
    /// The most that it listed at once.
    listed: u32,
    /// As many as the sentinels or the cluster know of; `None` until they have been asked.
    elsewhere: Option<u32>,
}

impl ReplicaCounts {
    /// The most ever seen.
    pub(super) fn most(&self) -> u32 {
        self.listed.max(self.elsewhere.unwrap_or(0))
    }

    /// The same, if both sources were asked; the master a moment ago.
    pub(super) fn fresh(&self) -> Option<u32> {
        self.elsewhere?;
        let fresh = self.listed_at.is_some_and(|at| at.elapsed() < FRESH);
        fresh.then(|| self.most())
    }

    pub(super) fn list(&mut self, count: u32) {
        self.listed_at = Some(Instant::now());
        self.listed = self.listed.max(count);
    }

    /// The master is to be asked again.
    pub(super) fn age(&mut self) {
        self.listed_at = None;
    }

    /// Keeps how many the sentinels or the cluster count. They count fewer than before only where one was seen to belong to
    /// another master since.
    pub(super) fn count_elsewhere(&mut self, count: u32) {
        if self.elsewhere.is_some_and(|before| count < before) {
            self.listed = 0;
        }
        self.elsewhere = Some(count);
    }
}

/// How many replicas INFO lists. A replica that came back stands there twice until its old connection times out, and what takes
/// a copy without being a replica has no port.
pub(super) fn listed(info: &str) -> Option<u32> {
    let count = info_field(info, "connected_slaves")?.parse().ok()?;
    let mut addresses = BTreeSet::new();
    let mut described = false;
    for line in info.lines() {
        let numbered = line
            .strip_prefix("slave")
            .and_then(|rest| rest.split_once(":ip="));
        let Some((_, address)) = numbered else {
            continue;
        };
        described = true;
        let address: Vec<_> = address.split(',').take(2).collect();
        if address.get(1) != Some(&"port=0") {
            addresses.insert(address);
        }
    }
    match described {
        true => u32::try_from(addresses.len()).ok(),
        false => Some(count),
    }
}

/// How many replicas there are. Asks the master if nobody has for a while; nothing is done if that fails, or if none is known.
pub(super) async fn all(
    node: &Node,
    lease: &Lease<'_>,
    wait: WaitFor,
    deadline: Instant,
) -> Result<u32, Answer> {
    let count = match node.replicas() {
        Some(count) => count,
        None => {
            let info = redis::cmd("INFO").arg("replication").take();
            let count = match probed(node, lease, wait, deadline, &info).await? {
                Value::BulkString(text) => listed(&String::from_utf8_lossy(&text)),
                _ => None,
            };
            let unnamed = "INFO replication names no number of replicas";
            node.sightings
                .lock()
                .list(count.ok_or_else(|| Answer::try_again(unnamed))?);
            let unknown = "its place among the others, and so its replicas, are not known yet";
            (node.replicas()).ok_or_else(|| Answer::try_again(unknown))?
        }
    };
    if count == 0 {
        let why = "acknowledgements of replicas are asked for, and no replica was ever seen; where there are some, give their \
            number (`?replicas=N` in the URL, or ClientOptions::replicas)";
        return Err(Answer::refused(UNREPLICATED, why));
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_counts_once_and_a_copy_not_at_all() {
        let info =
            |lines: &str| format!("role:master\r\nconnected_slaves:3\r\n{lines}repl_offset:1\r\n");
        let one = "slave0:ip=10.0.0.2,port=6379,state=online,offset=9,lag=0\r\n";
        let stale = "slave1:ip=10.0.0.2,port=6379,state=online,offset=5,lag=40\r\n";
        let copy = "slave2:ip=10.0.0.3,port=0,state=wait_bgsave,offset=0,lag=0\r\n";
        let other = "slave2:ip=10.0.0.2,port=6380,state=online,offset=9,lag=0\r\n";
        assert_eq!(listed(&info(&[one, stale, copy].concat())), Some(1));
        assert_eq!(listed(&info(&[one, stale, other].concat())), Some(2));
        assert_eq!(listed(&info("")), Some(3), "a server that describes none");
        assert_eq!(listed("role:master\r\n"), None);
    }

    #[test]
    fn the_number_falls_only_where_a_replica_was_seen_elsewhere() {
        let mut seen = ReplicaCounts::default();
        seen.list(2);
        assert_eq!(
            (seen.fresh(), seen.most()),
            (None, 2),
            "nobody else was asked"
        );
        seen.count_elsewhere(1);
        seen.list(0);
        assert_eq!(seen.fresh(), Some(2));
        seen.age();
        assert_eq!((seen.fresh(), seen.most()), (None, 2));
        seen.count_elsewhere(3);
        seen.list(3);
        seen.count_elsewhere(2);
        assert_eq!(seen.most(), 2);
    }
}
