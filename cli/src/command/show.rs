//! `locklab show`: the summary of a kept run.

use clap::Args;
use results::report::text;

use super::run::load;
use crate::exit;
use crate::terminal::Terminal;

/// Flags of `show`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A directory, its name under runs/, or `latest`
    #[arg(default_value = "latest")]
    run: String,
    /// Also the proof of every violated verdict: the holds with their times, and the shortest history that still convicts
    #[arg(long)]
    proofs: bool,
    /// Also the recovery from each fault, in a suite of any length
    #[arg(long)]
    faults: bool,
}

pub(crate) fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let run = load(&options.run)?;
    terminal.answer_painted(&run, || {
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
        out
    })?;
    Ok(exit::AS_EXPECTED)
}
