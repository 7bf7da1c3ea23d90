//! The small record around one anomaly from which its picture is drawn: holds, overlaps and faults.
//!
//! The record is kept in `run.json`, so that a report needs no history; it is therefore capped.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::wording::units;

/// The most bars that [`TimelineData::around`] keeps: more can neither be read nor forwarded.
pub const MAX_BARS: usize = 200;

/// Holds of one lock in a window of time, with what went wrong and what was done to the servers in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct TimelineData {
    /// The lock.
    pub lock: String,
    /// The class whose intervals are drawn: `belief`, `contract` or `confirmed`.
    pub class: String,
    /// The window's start, nanoseconds since the run began.
    pub from_ns: u64,
    /// The window's end.
    pub to_ns: u64,
    /// Holds that reach into the window.
    pub holds: Vec<HoldBar>,
    /// Operations that reach into the window: asking, extending, giving back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<OperationBar>,
    /// Stretches in which more held than may.
    pub overlaps: Vec<Span>,
    /// Faults that reach into the window.
    pub faults: Vec<FaultBar>,
    /// Holds in the window that were left out to keep the record small.
    #[serde(default)]
    pub omitted: u64,
}

/// One hold as a bar.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct HoldBar {
    /// The client process.
    pub client: String,
    /// The caller inside the client.
    pub owner: String,
    /// The hold's name.
    pub grant: String,
    /// When it began, nanoseconds since the run began.
    pub from_ns: u64,
    /// When it ended; `None`: not in this history.
    pub to_ns: Option<u64>,
    /// What ended it, in a word or two: `release`, `lost`, `lease`, `crash`.
    #[serde(default)]
    pub ended_by: String,
}

/// One operation as a thin bar.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct OperationBar {
    /// The client process.
    pub client: String,
    /// The caller inside the client.
    pub owner: String,
    /// `acquire`, `extend`, `release` or `write`.
    pub op: String,
    /// The hold's name; empty for an acquire that gave none.
    pub grant: String,
    /// When it was called, nanoseconds since the run began.
    pub from_ns: u64,
    /// When it was answered; `None`: not in this history.
    pub to_ns: Option<u64>,
    /// How it ended, as in the history; empty without an answer.
    pub end: String,
}

/// A stretch of time, nanoseconds since the run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct Span {
    /// Its start.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
}

/// A fault's span as a shaded stretch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema, Default)]
pub struct FaultBar {
    /// Its name and targets, e.g. `kill n1`.
    pub label: String,
    /// When it was injected.
    pub from_ns: u64,
    /// When it was healed; `None`: not in this run.
    pub to_ns: Option<u64>,
}

impl TimelineData {
    /// The two holds of the longest overlap, the earlier first, and the overlap; `None` without both.
    pub(crate) fn two_owners(&self) -> Option<([&HoldBar; 2], Span)> {
        let length_ns = |span: &&Span| span.to_ns.saturating_sub(span.from_ns);
        let overlap = self.overlaps.iter().rev().max_by_key(length_ns)?;
        let covers = |hold: &&HoldBar| {
            hold.from_ns <= overlap.from_ns && hold.to_ns.is_none_or(|to_ns| to_ns >= overlap.to_ns)
        };
        let mut holds: Vec<&HoldBar> = self.holds.iter().filter(covers).collect();
        holds.sort_by_key(|hold| hold.from_ns);
        let [first, .., second] = holds[..] else {
            return None;
        };
        Some(([first, second], *overlap))
    }

    /// What to call two owners: their clients, and of one client its callers too.
    pub(crate) fn names_of(&self, [first, second]: [&HoldBar; 2]) -> [String; 2] {
        [first, second].map(|hold| {
            let name = match hold.client.strip_prefix('c').map(str::parse::<u32>) {
                Some(Ok(number)) => format!("client {number}"),
                _ => hold.client.clone(),
            };
            if first.client == second.client { format!("{name} ({})", hold.owner) } else { name }
        })
    }

    /// `orders-3: client 3 held 0.08–3.26 s, client 1 got it at 2.76 s: 504 ms together`; or `None`.
    pub(crate) fn in_words(&self) -> Option<String> {
        let ([first, second], overlap) = self.two_owners()?;
        let [holder, other] = self.names_of([first, second]);
        let seconds = |ns: u64| ns as f64 / 1e9;
        let from = seconds(first.from_ns);
        let held = match first.to_ns {
            Some(to_ns) => format!("held {from:.2}–{:.2} s", seconds(to_ns)),
            None => format!("held from {from:.2} s on"),
        };
        let together = units::duration(overlap.to_ns.saturating_sub(overlap.from_ns));
        Some(format!(
            "{}: {holder} {held}, {other} got it at {:.2} s: {together} together",
            self.lock,
            seconds(second.from_ns)
        ))
    }

    /// The part of `holds`, `overlaps` and `faults` around `anomaly`: its length on each side, 50 ms to 5 s.
    ///
    /// The [`MAX_BARS`] holds nearest to the anomaly's middle stay, in order; `omitted` counts the others.
    pub fn around(
        lock: &str,
        class: &str,
        anomaly: Span,
        holds: &[HoldBar],
        overlaps: &[Span],
        faults: &[FaultBar],
    ) -> Self {
        let length_ns = anomaly.to_ns.saturating_sub(anomaly.from_ns);
        let margin_ns = length_ns.clamp(50_000_000, 5_000_000_000);
        let window = Span {
            from_ns: anomaly.from_ns.saturating_sub(margin_ns),
            to_ns: anomaly.to_ns.max(anomaly.from_ns).saturating_add(margin_ns),
        };
        let middle_ns = anomaly.from_ns + length_ns / 2;
        let holds = holds.iter().filter(|hold| window.meets(hold.from_ns, hold.to_ns));
        let holds: Vec<HoldBar> = holds.cloned().collect();
        let spans = overlaps.iter().filter(|span| window.meets(span.from_ns, Some(span.to_ns)));
        let faults = faults.iter().filter(|fault| window.meets(fault.from_ns, fault.to_ns));
        Self {
            lock: lock.to_owned(),
            class: class.to_owned(),
            from_ns: window.from_ns,
            to_ns: window.to_ns,
            omitted: holds.len().saturating_sub(MAX_BARS) as u64,
            holds: nearest(holds, middle_ns, |hold| (hold.from_ns, hold.to_ns, &hold.grant)),
            operations: Vec::new(),
            overlaps: spans.take(MAX_BARS).copied().collect(),
            faults: faults.take(MAX_BARS).cloned().collect(),
        }
    }

    /// Client and caller of everything drawn: a lane each, in order.
    pub fn owners(&self) -> BTreeSet<(&str, &str)> {
        let holds = self.holds.iter().map(|hold| (&hold.client, &hold.owner));
        let operations = self.operations.iter().map(|op| (&op.client, &op.owner));
        holds.chain(operations).map(|(client, owner)| (client.as_str(), owner.as_str())).collect()
    }

    /// Adds operations that reach into the window: the [`MAX_BARS`] nearest to its middle, in their order.
    #[must_use]
    pub fn with_operations(mut self, mut operations: Vec<OperationBar>) -> Self {
        let window = Span { from_ns: self.from_ns, to_ns: self.to_ns };
        operations.retain(|one| window.meets(one.from_ns, one.to_ns));
        let middle_ns = self.from_ns + self.to_ns.saturating_sub(self.from_ns) / 2;
        self.operations = nearest(operations, middle_ns, |one| (one.from_ns, one.to_ns, &one.grant));
        self
    }
}

impl Span {
    /// Whether they share an instant; what has no end lasts for ever.
    fn meets(self, from_ns: u64, to_ns: Option<u64>) -> bool {
        from_ns <= self.to_ns && to_ns.is_none_or(|to_ns| to_ns >= self.from_ns)
    }
}

/// When a bar begins and ends, and its grant.
type Ends<B> = fn(&B) -> (u64, Option<u64>, &str);

/// At most [`MAX_BARS`], those nearest to an instant, in order of their start.
fn nearest<B>(mut bars: Vec<B>, at_ns: u64, ends: Ends<B>) -> Vec<B> {
    let far = |bar: &B| {
        let (from_ns, to_ns, _) = ends(bar);
        distance(at_ns, from_ns, to_ns)
    };
    bars.sort_by(|a, b| (far(a), ends(a).2).cmp(&(far(b), ends(b).2)));
    bars.truncate(MAX_BARS);
    bars.sort_by(|a, b| (ends(a).0, ends(a).2).cmp(&(ends(b).0, ends(b).2)));
    bars
}

/// How far a bar is from an instant; 0 if it covers it.
fn distance(at_ns: u64, from_ns: u64, to_ns: Option<u64>) -> u64 {
    let to_ns = to_ns.unwrap_or(u64::MAX);
    if from_ns <= at_ns && at_ns <= to_ns { 0 } else { from_ns.abs_diff(at_ns).min(to_ns.abs_diff(at_ns)) }
}
