//! How many replicas must have a write before it counts.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::topology::{Replicas, WaitFor};

/// How many replicas must acknowledge an acquire before it counts as acquired.
///
/// Renewals and extends of such a hold count as successful under the same condition. A release needs
/// no replica. Acknowledged means received by the replica, not synced to its disk; and a failover may
/// still promote a replica that had not acknowledged, unless all had to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// The master's word is enough.
    #[default]
    None,
    /// At least this many replicas.
    Wait(u32),
    /// Every replica that the topology knows of.
    WaitAll,
}

impl Durability {
    /// What is asked of the server, with the time it may take.
    pub(crate) fn wait_for(self, timeout: Duration) -> Option<WaitFor> {
        let replicas = match self {
            Durability::None | Durability::Wait(0) => return None,
            Durability::Wait(count) => Replicas::AtLeast(count),
            Durability::WaitAll => Replicas::All,
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
        }
    }
}

/// `none`, `wait:K` with K of 1 or more, or `wait:all`.
impl FromStr for Durability {
    type Err = UnknownDurability;

    fn from_str(text: &str) -> Result<Self, UnknownDurability> {
        let count = text.strip_prefix("wait:").and_then(|k| k.parse().ok());
        match (text, count) {
            ("none", _) => Ok(Durability::None),
            ("wait:all", _) => Ok(Durability::WaitAll),
            (_, Some(count)) if count > 0 => Ok(Durability::Wait(count)),
            _ => Err(UnknownDurability {
                text: text.to_owned(),
            }),
        }
    }
}

/// Words that name no [`Durability`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no durability; it is none, wait:K (K replicas, 1 or more) or wait:all")]
pub struct UnknownDurability {
    text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_back() {
        for durability in [Durability::None, Durability::Wait(2), Durability::WaitAll] {
            assert_eq!(durability.to_string().parse(), Ok(durability));
        }
        for wrong in ["", "wait", "wait:0", "wait:many", "all"] {
            assert!(wrong.parse::<Durability>().is_err(), "{wrong}");
        }
    }
}
