//! What a checker says: a verdict per class, with the anomalies that prove it.

use serde::{Deserialize, Serialize};

/// A verdict's state. `Unknown` never passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing wrong in a history in which enough happened.
    Clean,
    /// Too little happened, a fault without proof, or an incomplete history.
    Unknown,
    /// At least one anomaly, with its proof.
    Violated,
}

/// The verdict of one class over one history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Clean, violated or unknown.
    pub state: State,
    /// How many anomalies were found (the list below may be shorter).
    pub count: u64,
    /// The worst anomaly's length in nanoseconds; 0 where a length has no meaning.
    pub worst_ns: u64,
    /// Why it is unknown, or what else a reader must know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
    /// The first and worst anomalies, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anomalies: Vec<Anomaly>,
}

/// One thing that must not happen, and the proof of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Anomaly {
    /// What kind: `overlap`, `late-grant`, `lost-update`, `token-regression`, `stuck`, …
    pub what: String,
    /// The lock.
    pub lock: String,
    /// When it began, nanoseconds since the run began.
    pub from_ns: u64,
    /// When it ended.
    pub to_ns: u64,
    /// The grants involved, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<String>,
    /// One sentence for a person, with clients and times.
    pub proof: String,
}

/// The five verdicts of one history, or of one lock in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdicts {
    /// Somebody acted while not alone.
    pub belief: Verdict,
    /// The algorithm or the configuration is broken.
    pub contract: Verdict,
    /// The servers lost state.
    pub confirmed: Verdict,
    /// Real damage at the protected resource.
    pub effect: Verdict,
    /// Nobody got a lock that was free.
    pub liveness: Verdict,
}
