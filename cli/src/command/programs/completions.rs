//! `locklab completions`: a completion script for a shell, made from the command line's own description.

use clap::Args;
use clap_complete::Shell;

use crate::args::commands;
use crate::terminal::Terminal;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(options: &Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut commands(), "locklab", &mut script);
    let script = String::from_utf8_lossy(&script);
    let document = serde_json::json!({"schema": 1, "shell": options.shell.to_string(), "script": script});
    terminal.answer_data(&document, || script.to_string())
}
