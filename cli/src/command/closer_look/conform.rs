//! `locklab conform`: tries a driver against the driver protocol, step by step, and says how to fix what
//! fails.

use std::path::PathBuf;
use std::time::Duration;

use bench::exec::conform::NotTried;
use bench::subjects::startable;
use chaos::audit::driver_trial::DriverTrial;
use chaos::target_servers::TargetServers;
use clap::Args;

use crate::args::{TargetConsent, duration};
use crate::exit;
use crate::files;
use crate::terminal::Terminal;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The driver, split like a shell line, e.g. 'python3 driver.py --fast'; or a peer that
    /// `locklab list subjects` names
    #[arg(value_name = "PROGRAM ARG…")]
    driver: String,
    /// Servers to try it on [default: some are started for it, of the first topology on which it says that it
    /// works]
    #[arg(long, value_name = "URL", value_parser = crate::args::target_url)]
    target: Option<String>,
    #[command(flatten)]
    mine: TargetConsent,
    /// The kind of lock to try [default: the first that the driver lists]
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// How long a reply may take beyond the wait that was asked for, or a `lost` after its lease; the reply
    /// to hello four times as long
    #[arg(long, value_parser = duration, default_value = "5s", value_name = "DURATION")]
    patience: Duration,
    /// Also write a JUnit file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

pub(crate) async fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let driver = &options.driver;
    let is_named = driver.starts_with("peer:") || driver.starts_with("exec:");
    let subject = startable(&if is_named { driver.clone() } else { format!("exec:{driver}") })?;
    if let Some(why) = subject.missing() {
        return Err(exit::missing(why));
    }
    if let Some(target) = &options.target {
        // That nobody answers there is no fault of the driver.
        TargetServers::of(target, options.mine.yes_this_is_mine)?.ask().await?;
    }
    let trial = DriverTrial {
        subject: subject.as_ref(),
        target: options.target.as_deref(),
        kind: options.kind,
        patience: options.patience,
        log_dir: terminal.common.out.as_deref(),
    };
    let bar = terminal.bar(0, "hello");
    let found = trial.run(|step| bar.set_message(step)).await?;
    bar.finish_and_clear();
    if let Some(left) = bench::exec::escaped_processes() {
        terminal.warn(&left);
    }
    match &found.not_tried {
        Some(NotTried::Kind(why)) => {
            return Err(exit::usage(format!("--kind: {driver} was not tried: {why}")));
        }
        Some(NotTried::Topology { why, .. }) => {
            return Err(exit::input(format!(
                "{driver} was not tried: {why}; name servers on which it works by --target, or none"
            )));
        }
        None => {}
    }
    if let Some(path) = &options.junit {
        files::write(path, found.junit(driver)?)?;
    }
    terminal.answer(&found.to_json(driver), || found.text(driver))?;
    Ok(exit::of(found.conforms()))
}
