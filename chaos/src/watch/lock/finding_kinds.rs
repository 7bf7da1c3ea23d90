//! The kinds of findings of a watch: why each matters, what helps, and the scenario that shows it.

use results::watch::{Certainty, WatchFinding};

/// A kind of finding, the gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FindingKind {
    Overlap,
    LostByServer,
    ReleasedByAnother,
    ExtendedByAnother,
    Revived,
    NoExpiry,
    ExpirySetLater,
    ReleaseWithoutOwnerCheck,
    TwoRecipes,
    OutlivedItsLease,
    LeaseNearlyUsed,
    NeverReleased,
    HeldLong,
    HotPolling,
    Unfair,
    ScriptSentWhole,
}

/// Of each kind, in their order, a line: its name, a scenario that shows it, why it matters, the remedy.
const KINDS: &str = include_str!("finding_kinds.txt");

impl FindingKind {
    /// A finding of this kind that says nothing yet of where it was made.
    pub(crate) fn finding(self) -> WatchFinding {
        let line = KINDS.lines().nth(self as usize).unwrap_or_default();
        let mut cells = line.split(" | ").map(str::to_owned);
        let [kind, scenario, why, remedy] = std::array::from_fn(|_| cells.next().unwrap_or_default());
        let certainty = match self {
            FindingKind::Overlap => Certainty::Violated,
            shown if shown <= FindingKind::TwoRecipes => Certainty::Sure,
            _ => Certainty::Likely,
        };
        WatchFinding { certainty, kind, why, remedy, scenario, ..WatchFinding::default() }
    }
}
