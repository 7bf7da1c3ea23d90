//! `locklab report`: kept runs, as text on a terminal or as a document in a file.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use results::command_line::shell_line;
use results::merge::merge;
use results::report::text::{self, ScreenOptions};
use results::report::{FORMATS, answered, by_name, format_of};
use results::run::Run;
use results::store::REPORT_FILE;

use crate::exit;
use crate::files;
use crate::run::{dir_of, file_url, load, run_text};
use crate::terminal::Terminal;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Directories, their names under runs/, or `latest`; several make one document with everything of all
    #[arg(default_value = "latest", value_name = "RUN")]
    runs: Vec<String>,
    /// The document's form [default: text; with -o what the file's name ends with, else html]
    #[arg(long, value_name = "FORMAT",
          value_parser = PossibleValuesParser::new(FORMATS.map(|format| format.name)))]
    format: Option<String>,
    /// Only the scenarios of this name, without benchmarks; as text with their proofs
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// As text: also the proof of every violated verdict, the holds with their times, and the shortest
    /// history that still convicts
    #[arg(long)]
    proofs: bool,
    /// Say which scenarios do not apply for which reason, not only how many
    #[arg(long)]
    all_reasons: bool,
    /// The file to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let runs = options.runs.iter().map(|name| load(name));
    let runs = runs.collect::<anyhow::Result<Vec<_>>>()?;
    let names: Vec<String> = runs.iter().map(|run| run.run.clone()).collect();
    let mut run = merge(runs, &names.join(" + ")).map_err(exit::usage)?;
    if names.len() > 1 {
        run.joined = names;
    }
    if let Some(name) = &options.scenario {
        run = run.only(name).map_err(exit::usage)?;
    }
    // As it is named, or as the file's name ends.
    let format = match (&options.format, &options.output) {
        (Some(format), _) => format,
        (None, None) => "text",
        (None, Some(path)) => format_of(path),
    };
    if format == "text" && options.output.is_none() {
        return terminal.answer_painted(&answered(&run)?, || as_text(&options, &run, terminal));
    }
    let exporter = by_name(format).ok_or_else(|| exit::usage(format!("there is no format `{format}`")))?;
    let document = exporter.render(&run).map_err(|error| match error.is_of_run {
        true => exit::input(error),
        false => error.into(),
    })?;
    match &options.output {
        None => {
            let whole = serde_json::json!({"schema": 1, "format": format, "document": document});
            terminal.answer_data(&whole, || document.clone())?;
        }
        Some(path) => {
            files::write(path, document)?;
            terminal.note(&format!("wrote {}", path.display()));
            terminal.json(&serde_json::json!({"schema": 1, "format": format, "file": path}))?;
        }
    }
    Ok(exit::AS_EXPECTED)
}

/// One screen; of a single scenario all that is known of it.
fn as_text(options: &Options, run: &Run, terminal: &Terminal) -> String {
    let how = terminal.text_options();
    let page = |name: &String| {
        let page = dir_of(name).ok()?.join(REPORT_FILE);
        let page = std::path::absolute(page).ok()?;
        page.is_file().then(|| file_url(Path::new(&page)))
    };
    let shown = ScreenOptions {
        all_reasons: options.all_reasons,
        // One page of several runs is there once somebody writes it.
        page: match options.runs.as_slice() {
            [run] => page(run).unwrap_or_default(),
            runs => format!("`locklab report {} -o page.html` writes it", shell_line(runs)),
        },
        ..ScreenOptions::default()
    };
    let whole = options.scenario.is_some() || terminal.common.verbose > 0;
    let mut out = if whole { text::summary(run, how) } else { run_text(run, terminal, &shown) };
    if options.proofs || options.scenario.is_some() {
        out += &text::proofs(run);
    }
    out
}
