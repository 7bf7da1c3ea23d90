//! `locklab list`: what there is of a kind, by name, with a sentence each.

use std::collections::BTreeSet;
use std::sync::Arc;

use bench::subject::Subject;
use bench::workload::WORKLOADS;
use chaos::builtin::{self, Builtin};
use chaos::checkers::CHECKERS;
use chaos::faults::FAULTS;
use chaos::scenario::Scenario;
use clap::{Args, ValueEnum};
use cluster_config::{AvailableServer, Server, TopologyKind};
use results::pattern::matches;
use results::store::Listing;
use serde::Serialize;
use serde_json::json;

use crate::exit;
use crate::run::store;
use crate::terminal::{Terminal, columns};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// What to list
    #[arg(value_enum)]
    kind: Kind,
    /// Only names that contain this, or match it where it has stars (`peer:*`)
    pattern: Option<String>,
    /// Runs with this subject; stars are allowed in all of these
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<String>,
    /// Runs on this topology
    #[arg(long, value_name = "TOPOLOGY")]
    topology: Option<String>,
}

/// What can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Runs,
    Subjects,
    Workloads,
    Faults,
    Topologies,
    Scenarios,
    Checkers,
    Servers,
}

/// One row.
#[derive(Debug, Serialize)]
struct Item {
    name: String,
    about: String,
    /// What is to be built or fetched before it can be used, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
    /// Of a lock on another system than Redis: that system, as in the scheme of its URLs.
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<String>,
    /// Of a server that is here its path, make and version.
    #[serde(flatten)]
    server: Option<Server>,
}

fn item(name: impl Into<String>, about: impl Into<String>) -> Item {
    Item { name: name.into(), about: about.into(), missing: None, system: None, server: None }
}

/// A server of the matrix: which it is, where it is, and where it is from or how to get it.
fn server_item(offered: AvailableServer) -> Item {
    let about = offered.server.as_ref().map(|server| {
        let path = server.path.display();
        format!("{} at {path}, from {}", server.name(), offered.from)
    });
    let missing = about.is_none();
    Item {
        missing: missing.then(|| format!("not on this machine: {}", offered.from)),
        server: offered.server,
        ..item(offered.name, about.unwrap_or_default())
    }
}

fn items<T>(all: &[T], item: impl Fn(&T) -> Item) -> Vec<Item> {
    all.iter().map(item).collect()
}

pub(crate) fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    if options.kind == Kind::Runs {
        return runs(&options, terminal);
    }
    if options.subject.is_some() || options.topology.is_some() {
        return Err(exit::usage("--subject and --topology filter runs only"));
    }
    let mut items: Vec<Item> = match options.kind {
        Kind::Runs => Vec::new(),
        Kind::Subjects => {
            let built = |subject: &Arc<dyn Subject>| Item {
                missing: subject.missing().map(str::to_owned),
                system: subject.system().map(str::to_owned),
                ..item(subject.name(), subject.about())
            };
            bench::subjects::all().iter().map(built).collect()
        }
        Kind::Workloads => items(WORKLOADS, |one| item(one.name, one.about)),
        Kind::Faults => {
            items(&FAULTS[..], |one| item(one.name, format!("on {}: {}", one.hits.words(), one.about)))
        }
        Kind::Topologies => items(&TopologyKind::ALL[..], |one| item(one.name(), one.about())),
        Kind::Scenarios => items(&builtin::suite(), |one| item(one.name, about(one))),
        Kind::Checkers => items(CHECKERS, |one| item(one.name, one.about)),
        Kind::Servers => cluster_config::available_servers().into_iter().map(server_item).collect(),
    };
    items.retain(|item| is_like(&item.name, options.pattern.as_deref()));
    terminal.answer(&json!({"schema": 1, "items": items}), || {
        let line = |item: &Item| {
            let missing = match (&item.missing, options.kind) {
                (None, _) => "",
                (Some(why), Kind::Servers) => why,
                (Some(_), _) => " [not built: `make peers`]",
            };
            vec![item.name.clone(), format!("{}{missing}", item.about)]
        };
        columns(&items.iter().map(line).collect::<Vec<_>>(), 0..0)
    })
}

/// Whether a name contains a pattern, or matches it.
fn is_like(name: &str, pattern: Option<&str>) -> bool {
    pattern.is_none_or(|pattern| match pattern.contains('*') {
        true => matches(pattern, name),
        false => name.contains(pattern),
    })
}

fn runs(options: &Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let mut runs = store().list().map_err(exit::input)?;
    runs.retain(|run| {
        let any = |wanted: &Option<String>, values: &BTreeSet<String>| {
            let is_like = |wanted: &String| values.iter().any(|value| matches(wanted, value));
            wanted.as_ref().is_none_or(is_like)
        };
        is_like(&run.name, options.pattern.as_deref())
            && any(&options.subject, &run.subjects)
            && any(&options.topology, &run.topologies)
    });
    let (mut rows, mut items) = (Vec::new(), Vec::new());
    for Listing { name, started_at, command, host, rows: measured, scenarios, outcome, .. } in runs {
        let (word, outcome) = match outcome {
            Ok(outcome) => (outcome.words().replace(' ', "-"), outcome.words().to_owned()),
            Err(why) => ("damaged".to_owned(), format!("damaged: {why}")),
        };
        items.push(json!({
            "name": name, "about": format!("{started_at} {command} {outcome}"), "started_at": started_at,
            "command": command, "host": host, "outcome": word, "rows": measured, "scenarios": scenarios,
        }));
        let started = started_at.get(..19).unwrap_or(&started_at).to_owned();
        rows.push(vec![name, started, command, measured.to_string(), scenarios.to_string(), outcome]);
    }
    terminal.answer(&json!({"schema": 1, "items": items}), || {
        if !rows.is_empty() {
            let heads = ["RUN", "started", "command", "rows", "scenarios", "outcome"];
            rows.insert(0, heads.map(str::to_owned).to_vec());
        }
        columns(&rows, 3..5)
    })
}

/// What a built-in scenario says of itself.
fn about(builtin: &Builtin) -> String {
    Scenario::parse(builtin.path, builtin.text)
        .map_or_else(|errors| errors.to_string(), |scenario| scenario.about)
}
