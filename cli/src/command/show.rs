//! Turns a kept run into its summary.

use clap::Args;
use results::report::text;

use super::run::store;
use crate::args::Common;
use crate::exit;
use crate::terminal::Terminal;

/// Flags of `show`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A directory, its name under runs/, or `latest`
    #[arg(default_value = "latest")]
    run: String,
}

pub(crate) fn run(options: Options, common: &Common, terminal: &Terminal) -> anyhow::Result<u8> {
    let run = store().load(&options.run).map_err(exit::input)?;
    if common.json {
        terminal.result(&serde_json::to_string(&run)?);
    } else {
        terminal.result(&text::summary(&run, terminal.text_options()));
    }
    Ok(exit::AS_EXPECTED)
}
