//! Turns one scenario's outcome into its row of the matrix and its section of the page.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::bench::{NamedChart, named};
use super::{Fact, outcome_class, present};
use crate::proof::Proof;
use crate::report::{cells, charts, recovery};
use crate::run::{FaultSpan, ScenarioResult};
use crate::svg;
use crate::timeline::TimelineData;
use crate::units;
use crate::verdict::{Anomaly, State, Verdict, meaning};

pub(super) struct ScenarioView {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) place: String,
    pub(super) faults_short: String,
    pub(super) verdicts: Vec<VerdictView>,
    pub(super) recovery: String,
    /// What to sort by; empty where there is none, which sorts last.
    pub(super) recovery_key: String,
    pub(super) outcome: String,
    pub(super) outcome_class: &'static str,
    pub(super) about: String,
    pub(super) claim: String,
    pub(super) facts: Vec<Fact>,
    pub(super) notes: Vec<String>,
    pub(super) timeline: Option<TimelineView>,
    pub(super) over_time: Vec<NamedChart>,
    pub(super) faults: Vec<FaultView>,
    pub(super) endings: Vec<String>,
    pub(super) operations: Vec<(String, Vec<String>)>,
}

pub(super) struct TimelineView {
    pub(super) title: String,
    pub(super) svg: String,
    /// The same, nearer to one violation each.
    pub(super) zooms: Vec<NamedChart>,
}

/// So many violations of a scenario can be looked at from near.
const ZOOMS_MAX: usize = 3;

pub(super) struct VerdictView {
    pub(super) id: String,
    /// What to sort by: unknown between clean and violated, more violations last.
    pub(super) rank: u64,
    pub(super) class: &'static str,
    pub(super) meaning: &'static str,
    pub(super) state: &'static str,
    pub(super) short: String,
    pub(super) worst: String,
    pub(super) long: String,
    pub(super) expected_word: String,
    pub(super) expectation: String,
    pub(super) surprising: bool,
    pub(super) why: Vec<String>,
    pub(super) anomalies: Vec<AnomalyView>,
    pub(super) more: String,
    pub(super) slice: String,
}

pub(super) struct AnomalyView {
    pub(super) what: String,
    pub(super) when: String,
    pub(super) proof: String,
    pub(super) grants: String,
}

pub(super) struct FaultView {
    pub(super) name: String,
    pub(super) targets: String,
    pub(super) injected: String,
    pub(super) healed: String,
    pub(super) bit: &'static str,
    pub(super) bit_class: &'static str,
    pub(super) proof: String,
    pub(super) recovery: String,
}

impl ScenarioView {
    pub(super) fn new(index: usize, result: &ScenarioResult) -> Self {
        // Names may repeat (`--repeat`), so the place in the run makes the anchor.
        let id = format!("s{}", index + 1);
        let endings: BTreeSet<&String> = result
            .operations
            .values()
            .flat_map(|endings| endings.keys())
            .collect();
        let outcome = result.outcome();
        Self {
            name: result.name.clone(),
            place: result.place(),
            faults_short: cells::faults(&result.faults),
            verdicts: result
                .verdicts
                .iter()
                .map(|(class, verdict)| VerdictView::new(&id, class, verdict, result))
                .collect(),
            recovery: cells::recovery(result),
            recovery_key: result
                .recovery
                .first_grant_after_fault_ns
                .map(|ns| ns.to_string())
                .unwrap_or_default(),
            outcome: cells::outcome(outcome),
            outcome_class: outcome_class(outcome),
            about: result.about.clone(),
            claim: result.claim.clone(),
            facts: facts(result),
            notes: result.notes.clone(),
            timeline: result.timeline.as_ref().map(|data| TimelineView {
                title: format!("Who held {} around the worst anomaly", data.lock),
                svg: svg::timeline(data).inline(&format!("{id}timeline")),
                zooms: zooms(data, &id),
            }),
            over_time: [
                (charts::over_time(result), "overtime"),
                (charts::latency_over_time(result), "waits"),
            ]
            .into_iter()
            .filter_map(|(chart, name)| Some(named(&chart?, &format!("{id}{name}"))))
            .collect(),
            faults: result.faults.iter().map(FaultView::new).collect(),
            operations: result
                .operations
                .iter()
                .map(|(operation, counts)| {
                    let count = |ending: &&String| {
                        counts
                            .get(*ending)
                            .map_or("–".to_owned(), |n| units::count(*n))
                    };
                    (operation.clone(), endings.iter().map(count).collect())
                })
                .collect(),
            endings: endings.into_iter().cloned().collect(),
            id,
        }
    }
}

/// The longest violations of a timeline, each in a window of its own, where that shows more than the whole does.
fn zooms(data: &TimelineData, id: &str) -> Vec<NamedChart> {
    let mut overlaps = data.overlaps.clone();
    overlaps.sort_by_key(|span| {
        (
            Reverse(span.to_ns.saturating_sub(span.from_ns)),
            span.from_ns,
        )
    });
    overlaps
        .iter()
        .take(ZOOMS_MAX)
        .enumerate()
        .filter_map(|(index, span)| {
            let near = data.zoomed(*span)?;
            Some(NamedChart {
                title: format!(
                    "{} at {}",
                    units::duration(span.to_ns.saturating_sub(span.from_ns)),
                    units::instant(span.from_ns)
                ),
                svg: svg::timeline(&near).inline(&format!("{id}zoom{index}")),
            })
        })
        .collect()
}

fn facts(result: &ScenarioResult) -> Vec<Fact> {
    let length = |ns: u64| {
        if ns == 0 {
            String::new()
        } else {
            units::duration(ns)
        }
    };
    present(vec![
        ("Subject", result.subject.clone()),
        ("Topology", result.topology.clone()),
        ("Kind", result.kind.clone()),
        ("Durability", result.durability.clone()),
        ("Expected", cells::expected(result)),
        ("Load", length(result.load_ns)),
        ("Grants per second", units::figure(result.grants_per_s)),
        (
            "Least client, of an even share",
            (result.over_time.as_ref().and_then(|over| over.share_min))
                .map_or(String::new(), units::figure),
        ),
        ("First grant after the fault", cells::recovery(result)),
        ("Seed", result.seed.to_string()),
        ("Records", result.dir.clone()),
    ])
}

impl VerdictView {
    fn new(
        scenario: &str,
        class: &'static str,
        verdict: &Verdict,
        result: &ScenarioResult,
    ) -> Self {
        let expected = result.expected.get(class);
        let met = expected.map(|expected| verdict.meets(expected, result.load_ns));
        let violated = verdict.state == State::Violated;
        let shown = verdict.anomalies.len() as u64;
        Self {
            id: format!("{scenario}-{class}"),
            rank: match verdict.state {
                State::Clean => 0,
                State::Unknown => 1,
                State::Violated => verdict.count.max(1).saturating_add(1),
            },
            class,
            meaning: meaning(class),
            state: verdict.state.word(),
            short: if violated {
                format!("{} {}×", verdict.state.glyph(), units::count(verdict.count))
            } else {
                format!("{} {}", verdict.state.glyph(), verdict.state.word())
            },
            worst: if violated && verdict.worst_ns > 0 {
                format!("worst {}", units::duration(verdict.worst_ns))
            } else {
                String::new()
            },
            long: match cells::rates(verdict) {
                Some(rates) => format!("{} {rates}", verdict.state.glyph()),
                None => cells::verdict(verdict),
            },
            slice: verdict.proof.as_ref().map(Proof::text).unwrap_or_default(),
            expected_word: match (met, expected) {
                (Some(Some(true)), _) => "as expected".to_owned(),
                (Some(_), Some(expected)) => format!("expected {expected}"),
                _ => String::new(),
            },
            expectation: expected
                .map(|expected| format!("The scenario expects: {expected}."))
                .unwrap_or_default(),
            surprising: met.is_some_and(|met| met != Some(true)),
            why: verdict.why.clone(),
            anomalies: verdict.anomalies.iter().map(AnomalyView::new).collect(),
            more: if verdict.count > shown && shown > 0 {
                format!("{} of {} are shown.", shown, units::count(verdict.count))
            } else {
                String::new()
            },
        }
    }
}

impl AnomalyView {
    fn new(anomaly: &Anomaly) -> Self {
        let length_ns = anomaly.to_ns.saturating_sub(anomaly.from_ns);
        let when = if length_ns == 0 {
            format!("at {}", units::instant(anomaly.from_ns))
        } else {
            format!(
                "at {}, for {}",
                units::instant(anomaly.from_ns),
                units::duration(length_ns)
            )
        };
        Self {
            what: anomaly.what.clone(),
            when: format!("{}, {when}:", anomaly.lock),
            proof: anomaly.proof.clone(),
            grants: anomaly.grants.join(" "),
        }
    }
}

impl FaultView {
    fn new(fault: &FaultSpan) -> Self {
        Self {
            name: fault.fault.clone(),
            targets: fault.targets.join(", "),
            injected: units::instant(fault.injected_ns),
            healed: fault
                .healed_ns
                .map_or("not in this run".to_owned(), units::instant),
            bit: if fault.bit { "✓ yes" } else { "? not shown" },
            bit_class: if fault.bit { "clean" } else { "unknown" },
            proof: fault.proof.clone(),
            recovery: recovery::words(fault),
        }
    }
}
