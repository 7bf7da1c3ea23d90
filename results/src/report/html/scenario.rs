//! One scenario on the page: its set-up among the outcomes, and its section.

use std::collections::BTreeSet;

use super::bench::{NamedChart, named};
use super::{Fact, length, present};
use crate::report::{cells, charts};
use crate::run::{Outcome, ScenarioResult};
use crate::sequence::Sequence;
use crate::svg::{self, Chart};
use crate::timeline::TimelineData;
use crate::units;
use crate::verdict::{Anomaly, State, Verdict};

pub(super) struct ScenarioView<'a> {
    pub(super) id: String,
    /// How it came out, to say how much a reader would miss it.
    pub(super) came_out: &'static str,
    /// What needs no other words than its own.
    pub(super) result: &'a ScenarioResult,
    pub(super) verdicts: Vec<VerdictView<'a>>,
    pub(super) sequence: Option<NamedChart>,
    pub(super) over_time: Vec<NamedChart>,
    /// The conviction in one line.
    pub(super) line: Option<String>,
    pub(super) endings: Vec<String>,
    pub(super) operations: Vec<(String, Vec<String>)>,
}

pub(super) struct VerdictView<'a> {
    pub(super) id: String,
    pub(super) verdict: &'a Verdict,
    pub(super) class: &'static str,
    pub(super) words: String,
    pub(super) long: String,
    pub(super) expected_word: String,
    pub(super) more: String,
}

impl<'a> ScenarioView<'a> {
    pub(super) fn new(index: usize, result: &'a ScenarioResult) -> Self {
        // Names may repeat (`--repeat`), so the place in the run makes the anchor.
        let id = format!("s{}", index + 1);
        let verdicts = result.verdicts.iter();
        let verdicts =
            verdicts.map(|(class, verdict)| VerdictView::new(&id, class, verdict, result));
        let chart = |chart: &Chart, name: &str| named(chart, &format!("{id}{name}"));
        let sequence = Sequence::of(result).map(|data| chart(&svg::sequence(&data), "sequence"));
        let grants = charts::over_time(result).map(|of| chart(&of, "overtime"));
        let waits = charts::latency_over_time(result).map(|of| chart(&of, "waits"));
        let endings = result.operations.values();
        let endings: BTreeSet<&String> = endings.flat_map(|endings| endings.keys()).collect();
        let operations = result.operations.iter().map(|(operation, counts)| {
            let counts = endings.iter().map(|ending| counts.get(*ending));
            let words = counts.map(|n| n.map_or("–".to_owned(), |n| units::count(*n)));
            (operation.clone(), words.collect())
        });
        let mut states = result.verdicts.iter().map(|(_, verdict)| verdict.state);
        Self {
            came_out: match result.outcome() {
                Outcome::Unknown | Outcome::NotAsExpected => "surprising",
                _ if states.any(|state| state == State::Violated) => "convicted",
                _ => "clean",
            },
            line: (result.timeline.as_ref()).and_then(TimelineData::in_words),
            result,
            verdicts: verdicts.collect(),
            sequence,
            over_time: grants.into_iter().chain(waits).collect(),
            operations: operations.collect(),
            endings: endings.into_iter().cloned().collect(),
            id,
        }
    }
}

pub(super) fn facts(result: &ScenarioResult) -> Vec<Fact> {
    let least = result.over_time.as_ref().and_then(|over| over.share_min);
    let least = least.map_or(String::new(), units::figure);
    present(vec![
        ("Subject", result.subject.clone()),
        ("Topology", result.topology.clone()),
        ("Kind", result.kind.clone()),
        ("Durability", result.durability.clone()),
        ("Expected", cells::expected(result)),
        ("Load", length(result.load_ns)),
        ("Grants per second", units::figure(result.grants_per_s)),
        ("Least client, of an even share", least),
        ("First grant after the fault", cells::recovery(result)),
        ("Seed", result.seed.to_string()),
        ("Records", result.dir.clone()),
    ])
}

impl<'a> VerdictView<'a> {
    fn new(
        scenario: &str,
        class: &'static str,
        verdict: &'a Verdict,
        result: &ScenarioResult,
    ) -> Self {
        let expected = result.expected.get(class);
        let met = expected.map(|expected| verdict.meets(expected, result.load_ns));
        let words = cells::verdict(verdict);
        let shown = verdict.anomalies.len() as u64;
        Self {
            id: format!("{scenario}-{class}"),
            verdict,
            class,
            long: match cells::rates(verdict) {
                Some(rates) => format!("{} {rates}", verdict.state.glyph()),
                None => words.clone(),
            },
            words,
            expected_word: match (met, expected) {
                (Some(Some(true)), _) => "as expected".to_owned(),
                (Some(_), Some(expected)) => format!("expected {expected}"),
                _ => String::new(),
            },
            more: match verdict.count > shown && shown > 0 {
                true => format!("{shown} of {} are shown.", units::count(verdict.count)),
                false => String::new(),
            },
        }
    }
}

/// Text with links as `n1 -> n2`, where no line may end inside of an arrow.
pub(super) fn unbroken(text: impl AsRef<str>) -> String {
    text.as_ref().replace("->", "-\u{2060}>")
}

/// Which lock an anomaly is about, and when.
pub(super) fn when(anomaly: &Anomaly) -> String {
    let at = format!("{}, at {}", anomaly.lock, units::instant(anomaly.from_ns));
    match anomaly.to_ns.saturating_sub(anomaly.from_ns) {
        0 => format!("{at}:"),
        length_ns => format!("{at}, for {}:", units::duration(length_ns)),
    }
}
