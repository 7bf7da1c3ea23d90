//! How many replicas must have a write before it counts.

use std::fmt;
use std::str::FromStr;

/// How many replicas must acknowledge an acquire before it counts as acquired.
///
/// Renewals and extends of such a hold count as successful under the same condition. A release needs no
/// replica. Acknowledged means received by the replica, and synced to its disk only with `WaitAof`; and a
/// failover may still promote a replica that had not acknowledged, unless all had to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// The master's word is enough.
    #[default]
    None,
    /// At least this many replicas, 1 or more.
    Wait(u32),
    /// Every replica: as many as [`ClientOptions::replicas`](crate::ClientOptions::replicas) says, which it
    /// needs. Nobody else knows: a master that is cut off lists none of those that are promoted without it.
    WaitAll,
    /// As many replicas as make, with the master, more than half of the servers that have the data; of as
    /// many as `replicas` says, as with `WaitAll`.
    WaitMajority,
    /// The disk of the master and the disks of this many replicas, by WAITAOF: servers of 7.2 or newer with
    /// an append-only file. Others refuse such an acquire before anything is taken.
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

    /// Why nothing can be asked for so where each master has so many replicas, if so.
    pub(crate) fn mistake(self, replicas: Option<u32>) -> Option<String> {
        if let Durability::Wait(count) | Durability::WaitAof(count) = self
            && (self == Durability::Wait(0) || i32::try_from(count).is_err())
        {
            let most = i32::MAX;
            return Some(format!("wait:K asks for 1 to {most} replicas, and waitaof:K for 0 to {most}"));
        }
        let lacks_number = self.depends_on_replicas() && replicas.is_none();
        lacks_number.then(|| {
            format!(
                "{self} needs the number of replicas of each master: `?replicas=N` in the URL, or ClientOptions::replicas; \
                 one server without replicas keeps a grant through a crash by waitaof:0"
            )
        })
    }

    /// Whether it means another number of acknowledgements where there are more replicas.
    pub(crate) fn depends_on_replicas(self) -> bool {
        matches!(self, Durability::WaitAll | Durability::WaitMajority)
    }

    /// How many must acknowledge: of `WaitAof` also the master's disk. Unknown numbers are more than can be.
    pub(crate) fn acknowledgements(self) -> u32 {
        match self {
            Durability::None => 0,
            Durability::Wait(count) => count,
            Durability::WaitAof(count) => count + 1,
            Durability::WaitAll | Durability::WaitMajority => u32::MAX,
        }
    }

    /// The same by its number, of a master with so many replicas.
    pub fn counted(self, replicas: u32) -> Self {
        match self {
            Durability::WaitAll => Durability::Wait(replicas),
            // Of one master and its replicas more than half, less the master itself.
            Durability::WaitMajority => Durability::Wait(replicas.div_ceil(2)),
            counted => counted,
        }
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
            _ => Err(UnknownDurability { text: text.to_owned() }),
        }
    }
}

/// Words that name no [`Durability`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no durability; it is none, wait:K (K replicas, 1 or more), wait:majority, wait:all or waitaof:K (the master's disk and those of K replicas)"
)]
pub struct UnknownDurability {
    text: String,
}
