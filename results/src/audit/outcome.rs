//! How a scenario came out for a lock, and how many came out how.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::run::Outcome;

/// How a scenario came out; in order, the worst last.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum AuditOutcome {
    /// The lock has nothing that the scenario is about.
    NotApplicable,
    /// Every judged checker is clean.
    Kept,
    /// Violated, and no lock can keep it there.
    Inherent,
    /// Too little is known.
    #[default]
    Unknown,
    /// Violated, and a sound lock kept it in the same run.
    Broken,
}

impl AuditOutcome {
    /// All, in the order in which they are counted.
    pub const ALL: [Self; 5] = [Self::Kept, Self::Broken, Self::Inherent, Self::NotApplicable, Self::Unknown];

    /// The word for it, as in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::NotApplicable => "not-applicable",
            Self::Kept => "kept",
            Self::Inherent => "inherent",
            Self::Unknown => "unknown",
            Self::Broken => "broken",
        }
    }

    /// One character for it, which no colour is needed to tell from the others.
    pub fn glyph(self) -> char {
        match self {
            Self::NotApplicable => '–',
            Self::Kept => '✓',
            Self::Inherent => '≈',
            Self::Unknown => '?',
            Self::Broken => '✗',
        }
    }

    /// Both together: `✓ kept`.
    pub fn mark(self) -> String {
        format!("{} {}", self.glyph(), self.word())
    }

    /// What it means, for a legend.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::NotApplicable => "the lock lacks what the scenario is about",
            Self::Kept => "every judged checker is clean",
            Self::Inherent => "violated, and no lock can keep it there",
            Self::Unknown => "too little is known",
            Self::Broken => "violated, and a sound lock kept it in the same run",
        }
    }

    /// The outcome of a run in which this is the worst.
    pub fn of_run(self) -> Outcome {
        match self {
            Self::NotApplicable | Self::Kept | Self::Inherent => Outcome::AsExpected,
            Self::Unknown => Outcome::Unknown,
            Self::Broken => Outcome::NotAsExpected,
        }
    }
}

/// What stands behind a violation that no lock keeps from happening.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum InherentCause {
    /// Persistence, eviction, `appendfsync`, who may give commands: other settings keep it.
    ServerSettings,
    /// Only the resource can refuse what a late holder does.
    NeedsFencing,
    /// No lock on these servers can keep it.
    #[default]
    NoLock,
}

impl InherentCause {
    /// All, in the order in which they are counted.
    pub const ALL: [Self; 3] = [Self::ServerSettings, Self::NeedsFencing, Self::NoLock];

    /// The words for it.
    pub fn words(self) -> &'static str {
        match self {
            Self::ServerSettings => "the servers' settings",
            Self::NeedsFencing => "needs fencing",
            Self::NoLock => "no lock can keep it",
        }
    }
}

/// Why no lock keeps a scenario, and what helps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Inherent {
    /// What stands behind it.
    pub cause: InherentCause,
    /// Why, in a sentence.
    pub why: String,
    /// What to change, in a sentence; empty where nothing is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

/// How many scenarios came out how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Score {
    pub kept: u32,
    pub broken: u32,
    pub inherent: u32,
    pub not_applicable: u32,
    pub unknown: u32,
}

impl Score {
    /// How many came out so.
    pub fn of(mut self, outcome: AuditOutcome) -> u32 {
        *self.of_mut(outcome)
    }

    fn of_mut(&mut self, outcome: AuditOutcome) -> &mut u32 {
        match outcome {
            AuditOutcome::Kept => &mut self.kept,
            AuditOutcome::Broken => &mut self.broken,
            AuditOutcome::Inherent => &mut self.inherent,
            AuditOutcome::NotApplicable => &mut self.not_applicable,
            AuditOutcome::Unknown => &mut self.unknown,
        }
    }

    /// The worst that there is; `None` where nothing was tried at all.
    pub fn worst(&self) -> Option<AuditOutcome> {
        let there = |outcome: &AuditOutcome| self.of(*outcome) > 0;
        let tried = AuditOutcome::ALL.into_iter().filter(there).max();
        tried.filter(|worst| *worst != AuditOutcome::NotApplicable)
    }

    /// `41 kept, 0 broken, 20 inherent, 3 not applicable, 0 unknown`.
    pub fn words(&self) -> String {
        let words = AuditOutcome::ALL
            .map(|outcome| format!("{} {}", self.of(outcome), outcome.word().replace('-', " ")));
        words.join(", ")
    }
}

impl FromIterator<AuditOutcome> for Score {
    fn from_iter<I: IntoIterator<Item = AuditOutcome>>(outcomes: I) -> Self {
        let mut score = Self::default();
        for outcome in outcomes {
            *score.of_mut(outcome) += 1;
        }
        score
    }
}
