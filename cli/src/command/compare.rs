//! Turns several kept runs into differences: configuration first, then verdicts that changed, then figures with what they show.

use clap::Args;
use results::compare::compare;
use results::compare::pivot::{Grouping, pivot};
use results::report::text;

use super::run::store;
use crate::args::Common;
use crate::exit;
use crate::terminal::Terminal;

/// Flags of `compare`.
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct Options {
    /// Directories, their names under runs/, or `latest`; the first is the base. One is enough with --rows or --cols
    #[arg(required = true)]
    runs: Vec<String>,
    /// Set figures into tables: what their lines are, such as `topology`
    #[arg(long, value_name = "FIELD[,FIELD]", value_delimiter = ',')]
    rows: Vec<String>,
    /// The same for columns, such as `subject`; the first column is the base
    #[arg(long, value_name = "FIELD[,FIELD]", value_delimiter = ',')]
    cols: Vec<String>,
    /// Compare what was asked in different ways all the same: other loads, kinds, durabilities
    #[arg(long)]
    force: bool,
}

fn after_help() -> String {
    let names: Vec<&str> = results::compare::pivot::FIELDS
        .iter()
        .map(|field| field.name)
        .collect();
    format!("Fields: {}", names.join(", "))
}

pub(crate) fn run(options: Options, common: &Common, terminal: &Terminal) -> anyhow::Result<u8> {
    let grouping = if options.rows.is_empty() && options.cols.is_empty() {
        None
    } else {
        Some(Grouping::new(&options.rows, &options.cols).map_err(exit::usage)?)
    };
    if grouping.is_none() && options.runs.len() < 2 {
        return Err(exit::usage(
            "two runs or more are needed to compare, the first is the base; or group one by --rows and --cols",
        ));
    }
    let mut runs = Vec::new();
    for name in &options.runs {
        runs.push(store().load(name).map_err(exit::input)?);
    }
    let (json, words) = match grouping {
        Some(grouping) => {
            let tables = pivot(&runs, &grouping).map_err(exit::input)?;
            (
                serde_json::to_string(&tables)?,
                text::pivot(&tables, terminal.text_options()),
            )
        }
        None => {
            let compared = compare(&runs, options.force).map_err(exit::input)?;
            (
                serde_json::to_string(&compared)?,
                text::comparison(&compared, terminal.text_options()),
            )
        }
    };
    terminal.result(if common.json { &json } else { &words });
    Ok(exit::AS_EXPECTED)
}
