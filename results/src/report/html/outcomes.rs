//! What became of the lock, for the first screen of the page: a row per topology and fault, its set-ups side by side, the worst first; and
//! one picture of two owners.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools;

use super::scenario::ScenarioView;
use crate::answer::{ExclusionOutcome, bare};
use crate::report::fault_words::fault_words;
use crate::report::number_among;
use crate::run::ScenarioResult;
use crate::timeline::TimelineData;
use crate::units;
use crate::verdict::Verdict;

/// The set-ups that met the same faults on the same topology, each once.
pub(super) struct OutcomeRow<'a> {
    pub(super) place: &'a str,
    pub(super) faults: String,
    /// How much a reader would miss it, as of its scenarios.
    pub(super) came_out: &'static str,
    pub(super) set_ups: Vec<SetUp<'a>>,
}

pub(super) struct SetUp<'a> {
    pub(super) view: &'a ScenarioView<'a>,
    /// In what it differs from its twins.
    pub(super) label: String,
    pub(super) words: String,
    pub(super) class: &'static str,
}

/// All rows, those of controls last.
pub(super) fn rows<'a>(views: &'a [ScenarioView<'a>]) -> Vec<OutcomeRow<'a>> {
    let mut subjects: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for view in views {
        let subject = view.result.subject.as_str();
        subjects
            .entry(view.result.topology.as_str())
            .or_default()
            .insert(subject);
    }
    let mut times = BTreeMap::new();
    let mut rows: BTreeMap<_, Vec<SetUp<'_>>> = BTreeMap::new();
    for view in views {
        let (result, faults) = (view.result, fault_words(view.result));
        let is_control = result.is_control();
        // A set-up that is tried again stands in the next row of its kind.
        let place = (is_control, result.topology.as_str(), faults);
        let again = number_among(&mut times, (place.clone(), result.configuration()));
        let (words, class) = outcome(result);
        rows.entry((place, again)).or_default().push(SetUp {
            view,
            label: label(result, subjects[result.topology.as_str()].len() > 1),
            words,
            class,
        });
    }
    let rows = rows
        .into_iter()
        .map(|(((is_control, place, faults), _), mut set_ups)| {
            set_ups.sort_by_key(|set_up| gravity(set_up.view.result));
            let order = (is_control, gravity(set_ups[0].view.result));
            let mut came_out = set_ups.iter().map(|set_up| set_up.view.came_out);
            let came_out = came_out.by_ref().max_by_key(|word| match *word {
                "surprising" => 2,
                "convicted" => 1,
                _ => 0,
            });
            let row = OutcomeRow {
                place,
                faults,
                came_out: came_out.unwrap_or_default(),
                set_ups,
            };
            (order, row)
        });
    rows.sorted_by_key(|(order, _)| *order)
        .map(|(_, row)| row)
        .collect()
}

/// What to sort by: the worst first.
fn gravity(result: &ScenarioResult) -> impl Ord + Copy + use<> {
    let lost_ns = result.losing().map_or(0, |verdict| verdict.worst_ns);
    Reverse((result.standing(), lost_ns))
}

fn outcome(result: &ScenarioResult) -> (String, &'static str) {
    match result.standing() {
        ExclusionOutcome::Lost => {
            let (count, worst_ns) = result
                .losing()
                .map_or((1, 0), |lost: &Verdict| (lost.count, lost.worst_ns));
            let times = match count {
                0 | 1 => String::new(),
                count => format!(", {}", units::times(count)),
            };
            let long = match worst_ns {
                0 => String::new(),
                ns => format!(" for {}", units::duration(ns)),
            };
            (format!("lost{long}{times}"), "violated")
        }
        ExclusionOutcome::Unknown => ("unknown".to_owned(), "unknown"),
        standing => {
            let silence = result.without_grant_ns.map(units::duration);
            let silence = units::enclosed(", ", &silence.unwrap_or_default(), " without a grant");
            match standing {
                ExclusionOutcome::Outlived => {
                    (format!("kept{silence}; callers outlived it"), "unknown")
                }
                _ => (format!("kept{silence}"), "clean"),
            }
        }
    }
}

/// In what a set-up may differ from others on its topology: its lock, what a grant waits for, what the servers were configured with.
fn label(result: &ScenarioResult, several: bool) -> String {
    let config = result.server_config.iter();
    let config = config
        .map(|(key, value)| format!("{key} {value}"))
        .join(", ");
    let config = match config.as_str() {
        "appendonly no, save \"\"" => "no persistence".to_owned(),
        "appendfsync always, appendonly yes" => "AOF, synced always".to_owned(),
        _ => config,
    };
    let waits = match (bare(&result.durability), result.topology.as_str()) {
        ("", "masters") => "a majority grants",
        ("", "sentinel" | "cluster") => "asynchronous",
        (waits, _) => waits,
    };
    let subject = match several && !result.subject.starts_with("lock-core:") {
        true => result.subject.as_str(),
        false => "",
    };
    let words = [waits, &config, subject]
        .into_iter()
        .filter(|word| !word.is_empty());
    match words.format(" · ").to_string() {
        nothing if nothing.is_empty() => result.name.clone(),
        words => words,
    }
}

/// Two owners of one lock, as two bars over one axis.
pub(super) struct TwoOwners {
    pub(super) of: String,
    pub(super) words: String,
    pub(super) lanes: Vec<Lane>,
    pub(super) overlap: Lane,
    pub(super) faults: Vec<Lane>,
}

/// A stretch of the axis, in percent.
pub(super) struct Lane {
    pub(super) label: String,
    pub(super) left: f64,
    pub(super) width: f64,
}

/// The worst loss of the run that was no control's.
pub(super) fn two_owners(rows: &[OutcomeRow<'_>]) -> Option<TwoOwners> {
    let all = rows
        .iter()
        .flat_map(|row| row.set_ups.iter().map(move |set_up| (row, set_up)));
    let mut lost =
        all.filter(|(_, set_up)| set_up.class == "violated" && !set_up.view.result.is_control());
    lost.find_map(|(row, set_up)| {
        let data = set_up.view.result.timeline.as_ref()?;
        let of = format!("{}, {}: {}", row.place, set_up.label, row.faults);
        drawn(of, data)
    })
}

fn drawn(of: String, data: &TimelineData) -> Option<TwoOwners> {
    let (holds, overlap) = data.two_owners()?;
    let words = data.in_words()?;
    let length = data.to_ns.saturating_sub(data.from_ns).max(1) as f64;
    let lane = |label: String, from_ns: u64, to_ns: u64| {
        let percent = |ns: u64| {
            let inside = ns.clamp(data.from_ns, data.to_ns) - data.from_ns;
            (inside as f64 / length * 1e4).round() / 100.0
        };
        let left = percent(from_ns);
        let width = (percent(to_ns) - left).max(0.5);
        Lane { label, left, width }
    };
    let faults = data.faults.iter().map(|fault| {
        let to_ns = fault.to_ns.unwrap_or(data.to_ns);
        lane(fault.label.clone(), fault.from_ns, to_ns)
    });
    let names = data.names_of(holds);
    let lanes = holds
        .iter()
        .zip(names)
        .map(|(hold, name)| lane(name, hold.from_ns, hold.to_ns.unwrap_or(data.to_ns)));
    let long = units::duration(overlap.to_ns - overlap.from_ns);
    Some(TwoOwners {
        of,
        words,
        lanes: lanes.collect(),
        overlap: lane(
            format!("two owners for {long}"),
            overlap.from_ns,
            overlap.to_ns,
        ),
        faults: faults.collect(),
    })
}
