//! What was seen of locks in the traffic of somebody's servers: the field `watch` of a run.

use serde::{Deserialize, Serialize};

use crate::record::over_time::OverTime;
use crate::record::timeline::TimelineData;

/// How sure a finding is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema, Default,
)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// Two had a lock at once: a server's promise was broken.
    Violated,
    /// The traffic shows it.
    #[default]
    Sure,
    /// The traffic suggests it.
    Likely,
}

impl Certainty {
    /// The word of reports.
    pub fn word(self) -> &'static str {
        match self {
            Certainty::Violated => "violated",
            Certainty::Sure => "sure",
            Certainty::Likely => "likely",
        }
    }
}

/// What was watched, and what was seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct WatchReport {
    /// The servers or the file.
    pub servers: Vec<String>,
    /// How they were watched: `monitor`, `light`, `once`, `file`.
    pub source: String,
    /// How long, by the servers' clocks.
    pub seconds: f64,
    /// Commands seen, those of scripts among them.
    pub commands: u64,
    /// What it cost the servers; `None` where nothing was measured.
    pub cost: Option<WatchCost>,
    /// Locks, the busiest first.
    pub locks: Vec<WatchedLock>,
    /// What may be locks.
    pub perhaps: Vec<PerhapsLock>,
    /// The gravest first.
    pub findings: Vec<WatchFinding>,
    /// Grants over the time of the watch, as far as its history goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_time: Option<OverTime>,
    /// The longest holds of the busiest locks in that time; a lock stands in the place of a client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<TimelineData>,
    /// Who holds what, of `--once`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<WatchedHolder>,
}

/// What watching cost the servers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct WatchCost {
    /// CPU time of the servers per command before the watch, in microseconds.
    pub cpu_us_per_command_before: Option<f64>,
    /// The same while it went on.
    pub cpu_us_per_command: Option<f64>,
    /// Cores that the watch took of the busiest server: what commands cost more than before; beside far more
    /// commands than before, the usual share at least.
    pub cores: f64,
    /// Why it ended before its time; empty if it did not.
    pub ended_by: String,
}

/// Locks whose names follow one pattern.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct WatchedLock {
    /// Names, with `*` for what differs.
    pub pattern: String,
    /// How many names.
    pub names: u64,
    /// How the lock is made.
    pub recipe: String,
    /// Whose library; empty where nothing tells.
    pub library: String,
    /// Grants seen.
    pub grants: u64,
    /// Attempts that were refused.
    pub refusals: u64,
    /// Leases that were set anew by their holders.
    pub renewals: u64,
    /// Holds that their owner released.
    pub released: u64,
    /// Holds that ended with their lease.
    pub expired: u64,
    /// Holds whose key another deleted.
    pub deleted_by_another: u64,
    /// Holds that went on when the watch ended.
    pub still_held: u64,
    /// How long the lock was held.
    pub hold_ms: WatchedTimes,
    /// The usual lease; `None`: without an end.
    pub lease_ms: Option<f64>,
    /// The share of its lease that a hold used, 0 to 1, at the 99th percentile; without renewed holds.
    pub lease_used_p99: Option<f64>,
    /// From the first refused attempt to the grant.
    pub wait_ms: WatchedTimes,
    /// Commands sent for these locks per grant.
    pub commands_per_grant: Option<f64>,
    /// Refused attempts per second.
    pub polls_per_s: f64,
    /// Connections that asked for them.
    pub clients: u64,
}

/// Quantiles in milliseconds; `None` where there was nothing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
#[allow(missing_docs)]
pub struct WatchedTimes {
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    pub max: Option<f64>,
}

/// Keys that are taken as locks are, and of which nothing else shows that they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct PerhapsLock {
    /// Names, with `*` for what differs.
    pub pattern: String,
    /// How many names.
    pub names: u64,
    /// How they are taken.
    pub recipe: String,
    /// Attempts to take them.
    pub attempts: u64,
    /// Why it is not said to be a lock.
    pub why: String,
}

/// Something that the traffic shows or suggests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct WatchFinding {
    /// Its kind, such as `overlap`.
    pub kind: String,
    /// How sure it is.
    pub certainty: Certainty,
    /// The locks, by pattern.
    pub pattern: String,
    /// The lock of the first example.
    pub lock: String,
    /// How often.
    pub count: u64,
    /// The worst of them, in milliseconds, where a length says something.
    pub worst_ms: Option<f64>,
    /// The first example: times, clients and what they did.
    pub first: Vec<String>,
    /// The holds of the first example, where a picture shows more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<TimelineData>,
    /// Why it matters.
    pub why: String,
    /// What helps.
    pub remedy: String,
    /// A scenario of `locklab chaos` that shows it; empty where none does.
    pub scenario: String,
}

/// A lock that is held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct WatchedHolder {
    /// Its name.
    pub lock: String,
    /// Who holds it: a hash of the value or field.
    pub owner: String,
    /// What is left of its lease; `None`: without an end.
    pub left_ms: Option<f64>,
    /// How it is made.
    pub recipe: String,
    /// Whose library; empty where nothing tells.
    pub library: String,
    /// The database of its key.
    #[serde(default)]
    pub database: u32,
}

impl WatchedHolder {
    /// The name of the lock, and its database where that is not the first.
    pub fn place(&self) -> String {
        match self.database {
            0 => self.lock.clone(),
            number => format!("{} (database {number})", self.lock),
        }
    }
}

impl WatchReport {
    /// Findings that are dangerous for certain.
    pub fn dangers(&self) -> impl Iterator<Item = &WatchFinding> {
        self.findings.iter().filter(|finding| finding.certainty != Certainty::Likely)
    }

    /// Holds seen in all.
    pub fn grants(&self) -> u64 {
        self.locks.iter().map(|lock| lock.grants).sum()
    }

    /// Whether too little was seen for any answer.
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty() && self.holders.is_empty()
    }
}
