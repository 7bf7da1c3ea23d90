//! Turns the command line's own description into a completion script for a shell.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit;
use crate::terminal::Terminal;

/// Flags of `completions`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(options: &Options, terminal: &Terminal) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "locklab", &mut script);
    terminal.result(&String::from_utf8_lossy(&script));
    exit::AS_EXPECTED
}
