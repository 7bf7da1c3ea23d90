//! The grid of what was broken (faults) on what (topology and durability), and the configuration of rows: what they share and where they
//! differ.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools;

use crate::compare::pivot::FIELDS;
use crate::report::cells;
use crate::run::{Run, ScenarioResult};
use crate::units;
use crate::verdict::State;

/// The grid of contract verdicts.
pub(super) struct Grid {
    pub(super) columns: BTreeSet<String>,
    /// By topology and configuration: per column the scenarios in it.
    pub(super) lines: BTreeMap<(String, String), Vec<Vec<GridLink>>>,
    /// Locks known to be broken, which stand apart.
    pub(super) controls: Vec<(String, GridLink)>,
}

pub(super) struct GridLink {
    pub(super) href: String,
    pub(super) class: &'static str,
    pub(super) words: String,
    pub(super) title: String,
    pub(super) surprising: bool,
}

/// The grid; `None` for a single scenario, which needs none.
pub(super) fn grid(run: &Run) -> Option<Grid> {
    if run.scenarios.len() < 2 {
        return None;
    }
    // A lock known to be broken says nothing of a configuration.
    let all = run.scenarios.iter().enumerate();
    let (controls, tried): (Vec<_>, Vec<_>) = all.partition(|(_, result)| result.is_control());
    let columns: BTreeSet<String> = tried.iter().map(|(_, result)| faults(result)).collect();
    let mut lines: BTreeMap<(String, String), Vec<Vec<GridLink>>> = BTreeMap::new();
    for (index, result) in tried {
        let line = lines.entry((result.topology.clone(), configured(result)));
        let cells = line.or_insert_with(|| columns.iter().map(|_| Vec::new()).collect());
        let here = columns.range(..faults(result)).count();
        cells[here].push(link(index, result));
    }
    let controls = controls.into_iter();
    let controls = controls.map(|(index, result)| (result.name.clone(), link(index, result)));
    Some(Grid {
        columns,
        lines,
        controls: controls.collect(),
    })
}

fn link(index: usize, result: &ScenarioResult) -> GridLink {
    let contract = &result.verdicts.contract;
    let expected = result.expected.get("contract");
    let met = expected.map(|expected| contract.meets(expected, result.load_ns));
    let (name, seed) = (&result.name, result.seed);
    let verdict = cells::verdict(contract);
    GridLink {
        href: format!("s{}-contract", index + 1),
        class: contract.state.word(),
        words: match contract.state {
            State::Violated => format!("{} {}×", contract.state.glyph(), contract.count),
            state => state.glyph().to_string(),
        },
        title: format!("{name}, seed {seed}: contract {verdict}"),
        surprising: met.is_some_and(|met| met != Some(true)),
    }
}

/// The faults of a scenario by name, each once.
fn faults(result: &ScenarioResult) -> String {
    let names = result.faults.iter().map(|fault| &fault.fault);
    match names.unique().join(" + ") {
        none if none.is_empty() => "no fault".to_owned(),
        names => names,
    }
}

/// In what configurations of one topology differ: subject, durability, and what the servers were configured with.
fn configured(result: &ScenarioResult) -> String {
    let config = result.server_config.iter();
    let config = config.map(|(key, value)| format!("{key} {value}"));
    let config = units::enclosed("; ", &config.format(", ").to_string(), "");
    format!("{}; {}{config}", result.subject, durability(result))
}

fn durability(result: &ScenarioResult) -> String {
    let who = match (result.durability.as_str(), result.topology.as_str()) {
        ("" | "none", "masters") => "a majority of masters",
        ("" | "none", "etcd-3" | "zookeeper-3") => "a majority of members",
        ("" | "none", "single" | "etcd" | "zookeeper" | "mysql" | "postgres" | "mongodb") => {
            "the server"
        }
        ("" | "none", _) => "the master only",
        ("wait:all", _) => "all replicas",
        ("wait:1", _) => "one replica",
        (other, _) => other,
    };
    format!("grants wait for {who}")
}

/// What all rows were configured with, and in what they differ: name and value, or name and values.
#[derive(Default)]
pub(super) struct Configuration {
    pub(super) shared: Vec<(&'static str, String)>,
    pub(super) differing: Vec<(&'static str, String)>,
}

pub(super) fn configuration(run: &Run) -> Configuration {
    let mut configuration = Configuration::default();
    // What the run itself is stands on top of the page.
    for field in FIELDS.iter().filter(|field| field.of_rows()) {
        let values = run.rows.iter().map(|row| field.value(run, row));
        let values = values.filter(|value| !value.is_empty()).unique();
        let values: Vec<String> = values.collect();
        let of = match values.len() {
            0 => continue,
            1 => &mut configuration.shared,
            _ => &mut configuration.differing,
        };
        of.push((field.name, values.join(", ")));
    }
    configuration
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Meta;

    #[test]
    fn who_has_a_grant_before_it_counts_follows_from_the_servers() {
        for (topology, who) in [
            ("single", "the server"),
            ("sentinel", "the master only"),
            ("masters", "a majority of masters"),
            ("etcd-3", "a majority of members"),
            ("postgres", "the server"),
        ] {
            let result = ScenarioResult {
                topology: topology.to_owned(),
                ..ScenarioResult::default()
            };
            assert_eq!(durability(&result), format!("grants wait for {who}"));
        }
    }

    #[test]
    fn persistence_makes_a_configuration_and_controls_stand_apart() {
        let bare = ScenarioResult {
            topology: "single".to_owned(),
            subject: "lock-core:reentrant".to_owned(),
            ..ScenarioResult::default()
        };
        let mut kept = bare.clone();
        (kept.server_config).insert("appendonly".to_owned(), "yes".to_owned());
        let control = ScenarioResult {
            name: "steal".to_owned(),
            subject: "broken:steal".to_owned(),
            ..bare.clone()
        };
        let run = Run {
            scenarios: vec![bare.clone(), kept, control, bare],
            ..Run::new("r", "chaos", Meta::default())
        };
        let grid = grid(&run).expect("several scenarios");
        let lines: Vec<(&str, usize)> = (grid.lines.iter())
            .map(|((_, small), cells)| (small.as_str(), cells[0].len()))
            .collect();
        assert_eq!(
            lines,
            [
                ("lock-core:reentrant; grants wait for the server", 2),
                (
                    "lock-core:reentrant; grants wait for the server; appendonly yes",
                    1
                )
            ]
        );
        let [(name, link)] = grid.controls.as_slice() else {
            panic!("one control");
        };
        assert_eq!(
            (name.as_str(), link.href.as_str()),
            ("steal", "s3-contract")
        );
    }
}
