//! The program `locklab`: parse the command line, run the command, exit. The only crate that prints, exits or uses `anyhow`.

mod args;
mod cancel;
mod command;
mod exit;
mod files;
mod terminal;

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;

use crate::args::Cli;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // clap's own code for wrong usage is 2, which means "unknown" here and must not leak.
            let asked_for = matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            );
            let _ = error.print();
            return ExitCode::from(if asked_for { 0 } else { exit::USAGE });
        }
    };
    let terminal = terminal::Terminal::new(cli.common);
    // Before any thread is started: a network is entered by the thread that asks, and those it starts.
    if cli.command.isolate() {
        match cluster_config::isolate() {
            Ok(isolation) => terminal.note(&format!("in a network of its own: {}", isolation.note)),
            Err(why) => terminal.warn(&format!("not isolated, proxies cut the links: {why}")),
        }
    }
    let done = command::run(cli.command, &terminal);
    // A script that reads only the exit code must not take a result for complete that never arrived.
    let done = done.map(|code| match terminal.lost() {
        None => code,
        Some(error) => {
            terminal.warn(&format!(
                "the result could not be written to standard output: {error}"
            ));
            exit::worse(code, exit::USAGE)
        }
    });
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            terminal.error(&error);
            ExitCode::from(exit::code_of(&error))
        }
    }
}
