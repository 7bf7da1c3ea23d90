//! The program `locklab`: parse the command line, run the command, exit. The only crate that prints, exits or
//! uses `anyhow`.
//!
//! | file | what it is for |
//! |---|---|
//! | `args.rs`, `project.rs` | what was asked for, on the command line and in `locklab.toml` |
//! | `command/` | the commands |
//! | `run.rs` | the directory of a run that is made or was kept |
//! | `scenario_batch.rs`, `bench_run.rs` | scenarios and rows for a command that keeps a run |
//! | `target.rs`, `provisioner.rs` | somebody else's servers, and our own |
//! | `parts.rs`, `plan_trust.rs` | plans that several machines carry out; plans from elsewhere |
//! | `terminal.rs`, `files.rs` | what is printed and written |
//! | `cancel.rs`, `exit.rs` | Ctrl-C and exit codes |

mod args;
mod bench_run;
mod cancel;
mod command;
mod exit;
mod files;
mod parts;
mod plan_trust;
mod project;
mod provisioner;
mod run;
mod scenario_batch;
mod target;
mod terminal;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::error::ErrorKind;

use crate::args::Cli;

const UNWRITTEN: &str = "the result could not be written to standard output: ";

fn main() -> ExitCode {
    // Learn the secrets of the command line first: nothing printed from now on shows them.
    for argument in std::env::args_os().chain(std::env::var_os("LOCKLAB_TARGET")) {
        results::secrets::learn(&argument.to_string_lossy());
    }
    files::survive_size_limit();
    std::panic::set_hook(Box::new(say_panic));
    let cli = match Cli::parsed() {
        Ok(cli) => cli,
        Err(error) => {
            // clap's own code for wrong usage is 2, which means "unknown" here and must not leak.
            let asked_for = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            if asked_for {
                let printed = error.print().and_then(|()| std::io::stdout().flush());
                return match printed {
                    // A reader that closes the pipe early, such as `head`, has what it asked for.
                    Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                        let _ = writeln!(std::io::stderr().lock(), "locklab: {UNWRITTEN}{error}");
                        ExitCode::from(exit::MISSING)
                    }
                    _ => ExitCode::from(exit::AS_EXPECTED),
                };
            }
            // The message repeats what was typed, which may contain anything: it is cleaned for the terminal.
            let said = terminal::message(&error.render().to_string());
            let _ = writeln!(std::io::stderr().lock(), "{said}");
            // What was asked for could not be read as a whole; this word of it can.
            if std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json") {
                let document = terminal::error_document(said.trim_end(), exit::USAGE);
                let _ = writeln!(std::io::stdout().lock(), "{document}");
            }
            return ExitCode::from(exit::USAGE);
        }
    };
    let terminal = terminal::Terminal::new(cli.common);
    let run = || command::run(cli.command, &terminal);
    let done = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>();
        Err(anyhow::anyhow!(words.cloned().unwrap_or_else(|| "it ended in a panic".to_owned())))
    });
    // A script may read only the exit code: a result that was not written must not count as complete.
    let done = done.map(|code| match terminal.take_write_error() {
        None => code,
        Some(error) => {
            terminal.warn(&format!("{UNWRITTEN}{error}"));
            exit::worse(code, exit::MISSING)
        }
    });
    match done {
        Ok(code) => {
            if code == exit::INTERRUPTED {
                terminal.no_result("interrupted", code);
            }
            ExitCode::from(code)
        }
        Err(error) => {
            let code = exit::code_of(&error);
            terminal.error(&error, code);
            ExitCode::from(code)
        }
    }
}

/// Prints a panic as any other error. One that says what the machine lacks is its command's error.
fn say_panic(panic: &PanicHookInfo<'_>) {
    let said = panic.to_string();
    if exit::code_of_text(exit::DEFECT, &said) == exit::DEFECT {
        let trace = Backtrace::capture();
        let trace = match trace.status() {
            BacktraceStatus::Captured => trace.to_string(),
            _ => String::new(),
        };
        let said = terminal::message(&format!("{said}\n{trace}"));
        let _ = writeln!(std::io::stderr().lock(), "{said}");
    } else if command::STARTING.load(Ordering::Relaxed) {
        let words = panic.payload().downcast_ref::<String>();
        let words = words.map_or(said.as_str(), String::as_str);
        let said = format!("locklab: cannot start what every command needs: {words}");
        let _ = writeln!(std::io::stderr().lock(), "{}", terminal::message(&said));
        #[expect(
            clippy::exit,
            reason = "to unwind would wait for ever, and nothing has begun that would have to be ended"
        )]
        std::process::exit(exit::MISSING.into());
    }
}
