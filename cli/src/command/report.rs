//! `locklab report`: kept runs as a document.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use results::merge::merge;
use results::report::{FORMATS, by_name};

use super::run::load;
use crate::exit;
use crate::files;
use crate::terminal::Terminal;

/// Flags of `report`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Directories, their names under runs/, or `latest`; several make one document with everything of all
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
    /// The document's form
    #[arg(long, default_value = "html", value_name = "FORMAT",
          value_parser = PossibleValuesParser::new(FORMATS.map(|format| format.name)))]
    format: String,
    /// Only the scenarios of this name, without benchmarks
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// The file to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let runs = options.runs.iter().map(|name| load(name));
    let runs = runs.collect::<anyhow::Result<Vec<_>>>()?;
    let name = runs
        .iter()
        .map(|run| run.run.as_str())
        .collect::<Vec<_>>()
        .join(" + ");
    let mut run = merge(runs, &name).map_err(exit::usage)?;
    if let Some(name) = &options.scenario {
        run = run.only(name).map_err(exit::usage)?;
    }
    let exporter = by_name(&options.format)
        .ok_or_else(|| exit::usage(format!("there is no format `{}`", options.format)))?;
    let document = exporter
        .render(&run)
        .map_err(|error| match error.is_of_run {
            true => exit::input(error),
            false => error.into(),
        })?;
    match &options.output {
        None => {
            let whole =
                serde_json::json!({"schema": 1, "format": options.format, "document": document});
            terminal.answer_data(&whole, || document.clone())?;
        }
        Some(path) => {
            files::write(path, document)?;
            terminal.note(&format!("wrote {}", path.display()));
            terminal
                .json(&serde_json::json!({"schema": 1, "format": options.format, "file": path}))?;
        }
    }
    Ok(exit::AS_EXPECTED)
}
