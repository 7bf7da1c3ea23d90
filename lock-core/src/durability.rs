//! How many replicas must have a write before it counts.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::topology::{Replicas, WaitFor};

/// How many replicas must acknowledge an acquire before it counts as acquired.
///
/// Renewals and extends of such a hold count as successful under the same condition. A release needs
/// no replica. Acknowledged means received by the replica, and synced to its disk only with `WaitAof`; and a failover
/// may still promote a replica that had not acknowledged, unless all had to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// The master's word is enough.
    #[default]
    None,
    /// At least this many replicas, 1 or more.
    Wait(u32),
    /// Every replica: as many as [`ClientOptions::replicas`](crate::ClientOptions::replicas) says, otherwise the most that this
    /// client ever saw, by the word of the master, the sentinels or the cluster. The number never falls because one is not seen any
    /// more, and where none was ever seen the acquire is refused as `NotDurable`, with nothing taken.
    WaitAll,
    /// As many replicas as make, with the master, more than half of the servers that have the data; of as many as `WaitAll` counts.
    WaitMajority,
    /// The disk of the master and the disks of this many replicas, by WAITAOF: servers of 7.2 or newer with an
    /// append-only file. Others refuse such an acquire before anything is taken.
    WaitAof(u32),
}

impl Durability {
    /// `1 of 2 replicas acknowledged`
    pub(crate) fn shortage(self, acked: u32, demanded: u32) -> String {
        let who = match self {
            Durability::WaitAof(_) => "disks",
            _ => "replicas",
        };
        format!("{acked} of {demanded} {who} acknowledged")
    }

    /// Why nothing can be asked for so, if so.
    pub(crate) fn mistake(self) -> Option<&'static str> {
        (self == Durability::Wait(0)).then_some("wait:K asks for 1 replica or more")
    }

    /// How many acknowledgements that is of a master with `replicas`, where it depends on them.
    pub(crate) fn demand(self, replicas: u32) -> Option<u32> {
        match self.wait_for(Duration::ZERO)?.replicas {
            all @ (Replicas::All | Replicas::Majority) => Some(all.of(replicas)),
            Replicas::AtLeast(_) | Replicas::Disks(_) => None,
        }
    }

    /// What is asked of the server, with the time it may take.
    pub(crate) fn wait_for(self, timeout: Duration) -> Option<WaitFor> {
        let replicas = match self {
            Durability::None => return None,
            Durability::Wait(count) => Replicas::AtLeast(count),
            Durability::WaitAll => Replicas::All,
            Durability::WaitMajority => Replicas::Majority,
            Durability::WaitAof(count) => Replicas::Disks(count),
        };
        Some(WaitFor { replicas, timeout })
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::None => f.write_str("none"),
            Durability::Wait(count) => write!(f, "wait:{count}"),
            Durability::WaitAll => f.write_str("wait:all"),
            Durability::WaitMajority => f.write_str("wait:majority"),
            Durability::WaitAof(count) => write!(f, "waitaof:{count}"),
        }
    }
}

/// `none`, `wait:K` with K of 1 or more, `wait:majority`, `wait:all`, or `waitaof:K` with K of 0 or more.
impl FromStr for Durability {
    type Err = UnknownDurability;

    fn from_str(text: &str) -> Result<Self, UnknownDurability> {
        let count = text.strip_prefix("wait:").and_then(|k| k.parse().ok());
        let disks = text.strip_prefix("waitaof:").and_then(|k| k.parse().ok());
        if let Some(count) = disks {
            return Ok(Durability::WaitAof(count));
        }
        match (text, count) {
            ("none", _) => Ok(Durability::None),
            ("wait:all", _) => Ok(Durability::WaitAll),
            ("wait:majority", _) => Ok(Durability::WaitMajority),
            (_, Some(count)) if count > 0 => Ok(Durability::Wait(count)),
            _ => Err(UnknownDurability {
                text: text.to_owned(),
            }),
        }
    }
}

/// Words that name no [`Durability`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no durability; it is none, wait:K (K replicas, 1 or more), wait:majority, wait:all \
    or waitaof:K (the master's disk and those of K replicas)"
)]
pub struct UnknownDurability {
    text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_back() {
        for durability in [
            Durability::None,
            Durability::Wait(2),
            Durability::WaitAll,
            Durability::WaitMajority,
            Durability::WaitAof(0),
        ] {
            assert_eq!(durability.to_string().parse(), Ok(durability));
        }
        for wrong in [
            "",
            "wait",
            "wait:0",
            "wait:many",
            "all",
            "waitaof:",
            "waitaof",
        ] {
            assert!(wrong.parse::<Durability>().is_err(), "{wrong}");
        }
    }
}
