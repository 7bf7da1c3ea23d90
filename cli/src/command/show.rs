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
    /// Also the proof of every violated verdict: who held when, and the shortest history that still convicts
    #[arg(long)]
    proofs: bool,
    /// Also how the lock came through each fault, in a suite of any length
    #[arg(long)]
    faults: bool,
}

pub(crate) fn run(options: Options, common: &Common, terminal: &Terminal) -> anyhow::Result<u8> {
    let run = store().load(&options.run).map_err(exit::input)?;
    if common.json {
        terminal.result(&serde_json::to_string(&run)?);
    } else {
        let mut out = text::summary(&run, terminal.text_options());
        if options.faults {
            out.push_str(&format!(
                "\n{}",
                text::faults(&run, terminal.text_options().width)
            ));
        }
        if options.proofs {
            out.push_str(&text::proofs(&run));
        }
        terminal.result(&out);
    }
    Ok(exit::AS_EXPECTED)
}
