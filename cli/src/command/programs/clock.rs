//! `locklab clock`: the difference between this machine's clock and a server's, as lines of a history that
//! several machines record.

use std::io::Write;
use std::time::Duration;

use bench::parts::clock::Reference;
use chaos::target_servers::TargetServers;
use clap::Args;

use crate::args::{TargetConsent, duration};
use crate::cancel::Cancel;
use crate::exit;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The reference by URL: one server for all machines, one that no fault touches. It is asked for its TIME
    /// and nothing else
    #[arg(value_name = "TARGET", value_parser = crate::args::target_url)]
    target: String,
    #[command(flatten)]
    mine: TargetConsent,
    /// How often it is asked
    #[arg(long, value_parser = duration, default_value = "100ms", value_name = "DURATION")]
    every: Duration,
    /// How long [default: until Ctrl-C]
    #[arg(long = "for", value_parser = duration, value_name = "DURATION")]
    length: Option<Duration>,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<u8> {
    TargetServers::of(&options.target, options.mine.yes_this_is_mine)?;
    let reference = Reference::of(&options.target).map_err(exit::usage)?;
    let mut cancel = Cancel::listen()?.flag();
    let end = options.length.map(|length| tokio::time::Instant::now() + length);
    let mut pace = tokio::time::interval(options.every.max(Duration::from_millis(1)));
    let mut out = std::io::stdout();
    loop {
        tokio::select! {
            _ = pace.tick() => {}
            _ = cancel.changed() => return Ok(exit::AS_EXPECTED),
        }
        if end.is_some_and(|end| tokio::time::Instant::now() > end) {
            return Ok(exit::AS_EXPECTED);
        }
        let line = reference.line().await.map_err(exit::missing)?;
        // The reader has gone.
        if writeln!(out, "{}", line.to_json()).and_then(|()| out.flush()).is_err() {
            return Ok(exit::AS_EXPECTED);
        }
    }
}
