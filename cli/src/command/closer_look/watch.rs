//! `locklab watch`: what the locks of a running application do, from the traffic of its servers or a file of
//! it. Reads only.

use std::time::Duration;

use anyhow::Context as _;
use chaos::target_servers::TargetServers;
use chaos::watch::{LiveWatch, WatchOptions, look_once, read_file, watch_live};
use clap::Args;
use results::store::HISTORY_FILE;
use results::watch::WatchReport;

use crate::args::TargetConsent;
use crate::exit;
use crate::run::Keeper;
use crate::terminal::Terminal;

#[derive(Debug, Args)]
#[command(after_help = include_str!("../../../help/watch.txt").trim_end())]
pub(crate) struct Options {
    /// Target URL, e.g. redis://127.0.0.1:6379: all masters of a sentinel group, a cluster or independent
    /// masters are watched
    #[arg(value_parser = crate::args::target_url, required_unless_present = "file", conflicts_with = "file")]
    target: Option<String>,
    /// What `redis-cli monitor` or `redis-cli --replica` has printed, or an append-only file with timestamps;
    /// `-` for standard input
    #[arg(long, value_name = "FILE")]
    file: Option<String>,
    /// How long to watch at most; Ctrl-C ends it sooner
    #[arg(long = "for", value_parser = crate::args::duration, default_value = "60s", value_name = "DURATION")]
    length: Duration,
    /// Watch a replica of each shard: grants, holds and ends, no refusals and no clients. With --file:
    /// MONITOR was run on a replica
    #[arg(long)]
    light: bool,
    /// Look once, by SCAN, at who holds what now and for how much longer
    #[arg(long, conflicts_with_all = ["light", "file"])]
    once: bool,
    /// Watch in slices: 5s/60s watches for 5 s of each 60 s
    #[arg(long, value_parser = sample, value_name = "DURATION/DURATION", conflicts_with = "file")]
    sample: Option<(Duration, Duration)>,
    /// End when watching takes more of a server than this many cores
    #[arg(long, default_value_t = 0.2, value_name = "CORES")]
    max_cost: f64,
    /// Show the values of locks, which name their owners, in the place of a hash
    #[arg(long, hide_short_help = true)]
    show_values: bool,
    #[command(flatten)]
    mine: TargetConsent,
}

/// `5s/60s`.
fn sample(text: &str) -> Result<(Duration, Duration), String> {
    let bad = || crate::args::invalid("sample", text, "5s/60s: watch for 5 s of each 60 s");
    let (on, of) = text.split_once('/').ok_or_else(bad)?;
    let (on, of) = (crate::args::duration(on)?, crate::args::duration(of)?);
    if !on.is_zero() && on <= of { Ok((on, of)) } else { Err(bad()) }
}

pub(crate) async fn run(options: Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let watching = WatchOptions {
        show_values: options.show_values,
        effects_only: options.light,
        ..WatchOptions::default()
    };
    let begin = || Keeper::begin(terminal, "watch", "watch", 0);
    let (traffic, mut keeper) = if let Some(path) = options.file {
        let reading = tokio::task::spawn_blocking(move || read_file(&path, watching));
        (reading.await?.map_err(exit::input)?, begin()?)
    } else {
        let url = options.target.context("a target or a file is required")?;
        let mut servers = TargetServers::of(&url, options.mine.yes_this_is_mine)?;
        if !servers.are_redis() {
            return Err(exit::usage("watch reads the traffic of Redis and Valkey alone"));
        }
        let found = servers.ask_some().await?.clone();
        let keeper = begin()?;
        let (cancel, note) = (keeper.cancel.flag(), |line: &str| terminal.note(line));
        let (length, sample, max_cost) = (options.length, options.sample, options.max_cost);
        let traffic = match options.once {
            true => look_once(&found, options.show_values, &cancel, &note).await,
            false => {
                let live = LiveWatch { length, sample, max_cost, cancel };
                watch_live(found, &live, watching, &note).await
            }
        };
        match traffic {
            Ok(traffic) => (traffic, keeper),
            Err(why) => {
                keeper.discard();
                return Err(why.into());
            }
        }
    };
    let code = code_of(&traffic.report, options.once);
    keeper.run.warnings.extend(traffic.warnings);
    let cost = traffic.report.cost.as_ref();
    if let Some(cost) = cost.filter(|cost| !cost.ended_by.is_empty()) {
        let warning = format!("the watch ended early: {}", cost.ended_by);
        keeper.run.warnings.push(warning);
    }
    if traffic.cut {
        let warning = "the history keeps its first 40,000 lines: `locklab check` sees these alone";
        keeper.run.warnings.push(warning.to_owned());
    }
    let history: String = traffic.history.into_iter().map(|line| line.to_json() + "\n").collect();
    if !history.is_empty() {
        keeper.write(HISTORY_FILE, &history)?;
    }
    keeper.run.watch = Some(Box::new(traffic.report));
    keeper.finish(false)?;
    Ok(code)
}

fn code_of(report: &WatchReport, once: bool) -> u8 {
    match () {
        () if report.dangers().next().is_some() => exit::NOT_AS_EXPECTED,
        () if report.is_empty() && !once => exit::UNKNOWN,
        () => exit::AS_EXPECTED,
    }
}
