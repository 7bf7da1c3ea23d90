//! What a checker says: a verdict per class, with the anomalies that prove it.

use serde::{Deserialize, Serialize};

use crate::record::proof::Proof;

/// A verdict's state. `Unknown` never passes.
// In order, the worst last: the worse of two is the larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema, Default)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing wrong in a history in which enough happened.
    Clean,
    /// Too little happened, a fault without proof, or an incomplete history.
    #[default]
    Unknown,
    /// At least one anomaly, with its proof.
    Violated,
}

/// The verdict of one class over one history.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct Verdict {
    /// Clean, violated or unknown.
    pub state: State,
    /// How many anomalies were found (the list below may be shorter).
    pub count: u64,
    /// The worst anomaly's length in nanoseconds; 0 where a length has no meaning.
    pub worst_ns: u64,
    /// The median length of the anomalies that have one; 0 where none has.
    #[serde(default)]
    pub median_ns: u64,
    /// Anomalies per minute of load, or of the history where that is not known; `None` without a length.
    pub per_minute: Option<f64>,
    /// Anomalies per injected fault; `None` without a fault.
    pub per_fault: Option<f64>,
    /// Why it is unknown, or what else a reader must know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
    /// The first and worst anomalies, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anomalies: Vec<Anomaly>,
    /// The gravest anomaly as a picture, and as the shortest history that still shows it.
    pub proof: Option<Proof>,
}

/// One thing that must not happen, and the proof of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
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
    /// What a holder did before that explains it: `late-release`, `late-extend`; empty where nothing does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub after: String,
    /// One sentence for a person, with clients and times.
    pub proof: String,
}

/// The five verdicts of one history, or of one lock in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
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

/// The names of the five classes, in the order in which they are always shown.
pub const CLASSES: [&str; 5] = ["belief", "contract", "confirmed", "effect", "liveness"];

/// What an overlap in a class means, in one line for a reader; the empty string for a name that is no class.
pub fn meaning(class: &str) -> &'static str {
    match class {
        "belief" => "somebody acted while not alone: fencing needed",
        "contract" => "the algorithm or the configuration is broken",
        "confirmed" => "the servers lost state",
        "effect" => "real damage at the protected resource",
        "liveness" => "nobody got a lock that was free",
        _ => "",
    }
}

impl State {
    /// The word for it, as in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Unknown => "unknown",
            Self::Violated => "violated",
        }
    }

    /// One character for it, which no colour is needed to tell from the others.
    pub fn glyph(self) -> char {
        match self {
            Self::Clean => '✓',
            Self::Unknown => '?',
            Self::Violated => '✗',
        }
    }
}

impl Verdict {
    /// Whether the verdict keeps to `expected` (`clean`, `violated`, `at-most N/min`), given the length of
    /// the load in nanoseconds. `None`: an unknown verdict, no length, or words not understood.
    pub fn meets(&self, expected: &str, load_ns: u64) -> Option<bool> {
        if self.state == State::Unknown {
            return None;
        }
        match expected {
            "clean" => Some(self.state == State::Clean),
            "violated" => Some(self.state == State::Violated),
            other => {
                let (limit, unit) = other.strip_prefix("at-most ")?.split_once('/')?;
                let limit: f64 = limit.trim().parse().ok()?;
                let rate = self.rate_per_minute(load_ns)?;
                (unit.trim() == "min").then_some(rate <= limit)
            }
        }
    }

    /// Anomalies per minute of a load; `None` without a length.
    pub(crate) fn rate_per_minute(&self, load_ns: u64) -> Option<f64> {
        (load_ns > 0).then(|| self.count as f64 * 60e9 / load_ns as f64)
    }
}

impl Verdicts {
    /// The verdict of a class, to be changed; `None` for a name that is no class.
    pub fn get_mut(&mut self, class: &str) -> Option<&mut Verdict> {
        Some(match class {
            "belief" => &mut self.belief,
            "contract" => &mut self.contract,
            "confirmed" => &mut self.confirmed,
            "effect" => &mut self.effect,
            "liveness" => &mut self.liveness,
            _ => return None,
        })
    }

    /// The five with their names, in the order of [`CLASSES`].
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Verdict)> {
        CLASSES.into_iter().zip([&self.belief, &self.contract, &self.confirmed, &self.effect, &self.liveness])
    }

    /// The verdict of a class by its name.
    pub fn get(&self, class: &str) -> Option<&Verdict> {
        self.iter().find_map(|(name, verdict)| (name == class).then_some(verdict))
    }
}
