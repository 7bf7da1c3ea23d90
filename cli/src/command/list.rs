//! Turns a registry into a list: what there is, by name, with a sentence each.

use chaos::scenario::Scenario;
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::run::store;
use crate::args::Common;
use crate::exit;
use crate::terminal::Terminal;

/// Flags of `list`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Which registry
    #[arg(value_enum)]
    kind: Kind,
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
}

/// One row.
#[derive(Debug, Serialize)]
struct Item {
    name: String,
    about: String,
}

fn item(name: impl Into<String>, about: impl Into<String>) -> Item {
    Item {
        name: name.into(),
        about: about.into(),
    }
}

pub(crate) fn run(options: Options, common: &Common, terminal: &Terminal) -> anyhow::Result<u8> {
    let items: Vec<Item> = match options.kind {
        Kind::Runs => runs()?,
        Kind::Subjects => bench::subjects::all()
            .iter()
            .map(|subject| item(subject.name(), subject.about()))
            .collect(),
        Kind::Workloads => bench::workload::WORKLOADS
            .iter()
            .map(|workload| item(workload.name, workload.about))
            .collect(),
        Kind::Faults => chaos::faults::FAULTS
            .iter()
            .map(|fault| {
                item(
                    fault.name,
                    format!("on {}: {}", fault.hits.words(), fault.about),
                )
            })
            .collect(),
        Kind::Topologies => cluster_config::TopologyKind::ALL
            .iter()
            .map(|kind| item(kind.name(), kind.about()))
            .collect(),
        Kind::Scenarios => chaos::builtin::BUILTINS
            .iter()
            .map(|builtin| item(builtin.name, about(builtin)))
            .collect(),
        Kind::Checkers => chaos::checkers::CHECKERS
            .iter()
            .map(|checker| item(checker.name, checker.about))
            .collect(),
    };
    if common.json {
        terminal.result(&serde_json::to_string(
            &serde_json::json!({"schema": 1, "items": items}),
        )?);
    } else {
        let width = items.iter().map(|item| item.name.len()).max().unwrap_or(0);
        for item in &items {
            terminal.result(&format!("{:<width$}  {}", item.name, item.about));
        }
    }
    Ok(exit::AS_EXPECTED)
}

fn runs() -> anyhow::Result<Vec<Item>> {
    let listings = store().list().map_err(exit::input)?;
    Ok(listings
        .into_iter()
        .map(|listing| {
            let outcome = match listing.outcome {
                Ok(outcome) => outcome.words().to_owned(),
                Err(why) => format!("damaged: {why}"),
            };
            item(
                listing.name,
                format!("{} {} {outcome}", listing.started_at, listing.command),
            )
        })
        .collect())
}

/// What a built-in scenario says of itself.
fn about(builtin: &chaos::builtin::Builtin) -> String {
    Scenario::parse(builtin.path, builtin.text)
        .map_or_else(|errors| errors.to_string(), |scenario| scenario.about)
}
