//! `locklab compare`: what differs between kept runs, configuration first, then verdicts that changed, then
//! figures with what they show.

use clap::Args;
use results::compare::compare;
use results::compare::pivot::{Grouping, pivot};
use results::report::text;

use crate::exit;
use crate::run::load;
use crate::terminal::Terminal;

#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct Options {
    /// Directories, their names under runs/, or `latest`; the first is the base. One is enough with --rows or
    /// --cols
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
    /// Show the figures as tables, with these fields as rows, such as `topology`
    #[arg(long, value_name = "FIELD[,FIELD]", value_delimiter = ',')]
    rows: Vec<String>,
    /// The fields of the columns, such as `subject`; the first column is the base
    #[arg(long, value_name = "FIELD[,FIELD]", value_delimiter = ',')]
    cols: Vec<String>,
    /// Compare rows with different loads, kinds or durabilities, too
    #[arg(long)]
    force: bool,
}

fn after_help() -> String {
    let names: Vec<&str> = results::compare::pivot::FIELDS.iter().map(|field| field.name).collect();
    format!("Fields: {}", names.join(", "))
}

pub(crate) fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
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
    let runs = options.runs.iter().map(|name| load(name));
    let runs = runs.collect::<anyhow::Result<Vec<_>>>()?;
    let how = terminal.text_options();
    match grouping {
        Some(grouping) => {
            let tables = pivot(&runs, &grouping).map_err(exit::input)?;
            terminal.answer_painted(&tables, || text::pivot(&tables, how))?;
        }
        None => {
            let compared = compare(&runs, options.force).map_err(exit::input)?;
            terminal.answer_painted(&compared, || text::comparison(&compared, how))?;
        }
    }
    Ok(exit::AS_EXPECTED)
}
