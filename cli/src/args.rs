//! The command line: its commands, the options of all of them, and the values that several share (durations,
//! rates, sizes).

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};

use crate::command;

/// Commands with `--seed` and `--out`.
const TAKE_SEED: [&str; 8] = ["quickstart", "bench", "chaos", "audit", "soak", "simulate", "replay", "kube"];
/// Commands with `--out` alone.
const TAKE_OUT: [&str; 6] = ["up", "check", "conform", "man", "merge", "watch"];

impl Cli {
    pub(crate) fn parsed() -> Result<Self, clap::Error> {
        let matches = program().try_get_matches_from(std::env::args_os())?;
        Self::from_arg_matches(&matches)
    }
}

/// Every command; those beyond the first group are hidden from `--help`.
pub(crate) fn commands() -> clap::Command {
    Cli::command().mut_subcommands(|one| {
        let is_shown = GROUPS[0].1.contains(&one.get_name());
        one.hide(!is_shown)
    })
}

/// The program as it is parsed: a common option is shown only where it does something.
pub(crate) fn program() -> clap::Command {
    let mut program = commands();
    for (id, besides) in [("seed", &[][..]), ("out", &TAKE_OUT)] {
        let option = program.get_arguments().find(|one| one.get_id() == id);
        let option = option.map(|option| option.clone().hide(true));
        let names = program.get_subcommands().map(|one| one.get_name().to_owned());
        let those = [&TAKE_SEED[..], besides].concat();
        let others = names.filter(|name| !those.contains(&name.as_str()));
        for name in others.collect::<Vec<_>>() {
            program = program.mut_subcommand(name, |one| one.args(option.clone()));
        }
    }
    program.build();
    program
}

const AFTER_HELP: &str =
    "`locklab help all` shows the other commands, `locklab help COMMAND` all options of one.";

/// A laboratory for distributed locks on Redis: how fast is a lock, and is it still a lock when things break?
#[derive(Debug, Parser)]
#[command(name = "locklab", version, max_term_width = 100, disable_help_subcommand = true, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const COMMON: &str = "Common options";

/// Flags of every command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Print one JSON document on standard output, everything else on standard error
    #[arg(help_heading = COMMON, hide_short_help = true, long, global = true)]
    pub(crate) json: bool,
    /// Seed of everything random; printed, and kept with the run
    #[arg(help_heading = COMMON, hide_short_help = true, long, global = true, value_parser = seed, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// The run's own directory, instead of a new one under runs/
    #[arg(help_heading = COMMON, hide_short_help = true, long, global = true, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print only results and errors
    #[arg(help_heading = COMMON, hide_short_help = true, long, short, global = true)]
    pub(crate) quiet: bool,
    /// Print more about what is going on
    #[arg(help_heading = COMMON, hide_short_help = true, long, short, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Colour in results
    #[arg(help_heading = COMMON, hide_short_help = true, long, global = true, value_enum, default_value = "auto", value_name = "WHEN")]
    pub(crate) color: Color,
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check what this machine, or a target, has and lacks for locks, and how to fix it
    Doctor(command::doctor::Options),
    /// Run the main job, in about 40 s: four topologies, a load and a failover on each, a broken lock; a
    /// report
    Quickstart(command::quickstart::Options),
    /// Judge any lock by every scenario that fits it, with a sound lock beside each conviction: a scorecard
    Audit(command::audit::Options),
    /// Run scenarios with faults, by file or by built-in name, and judge each
    Chaos(command::chaos::Options),
    /// Measure locks under load, without faults; subjects and topologies take turns
    Bench(command::bench::Options),
    /// Write a driver of 60 to 100 lines, for a lock library in any language, into a new directory
    NewDriver(command::new_driver::Options),
    /// Say how many double grants a year, and how many minutes without a grant, each way to set up Redis is
    /// to expect
    Risk(command::risk::Options),
    /// Write what keeps a lock judged: `locklab.toml`, a scenario, a budget, and a workflow that runs them
    Init(command::init::Options),
    /// Show a run as text, or write it as HTML, Markdown, JUnit, CSV, JSON, SVG or text with -o
    Report(command::report::Options),
    /// Compare runs; the first is the base
    Compare(command::compare::Options),
    /// Hold a lock while a command runs, as flock(1) does
    Lock(command::lock::Options),
    /// Start servers; the first line of standard output is the target URL; stays until Ctrl-C
    Up(command::up::Options),
    /// List the servers that `up` started
    Ps,
    /// Stop the servers of `up --detach`
    Down(command::down::Options),
    /// Run the library in simulated time: a thousand seeds of faults on simulated servers, judged as
    /// scenarios are
    Simulate(command::simulate::Options),
    /// Run random faults, seed after seed, on configurations that must stay clean; resumes where it was
    /// interrupted
    Soak(command::soak::Options),
    /// Judge the history of a run, or one from elsewhere, again
    Check(command::check::Options),
    /// Compare this machine's clock with a server's, and print the difference as lines of a history
    Clock(command::clock::Options),
    /// Run the same plan again and count how many of the repeats convict; with --shrink find the smallest
    /// plan that still does
    Replay(command::replay::Options),
    /// List runs, subjects, workloads, faults, topologies, scenarios, checkers or servers
    List(command::list::Options),
    /// Decide on a run by conditions such as 'p99(acquire) < 5ms'; exit code 1 if one is not met
    Gate(command::gate::Options),
    /// Join runs of the same plan, made by several machines, into one
    Merge(command::merge::Options),
    /// Carry a plan in parts on Kubernetes: print the objects, or apply them and bring the merged run home
    Kube(command::kube::Options),
    /// Run the fault proxy by itself, with Toxiproxy's HTTP API
    Proxy(command::proxy::Options),
    /// Show what a lock sends to its server, command by command, from acquire to release
    Trace(command::trace::Options),
    /// Watch the locks of a running application: who holds what for how long, and what is dangerous, without
    /// a driver
    Watch(command::watch::Options),
    /// Check step by step whether a driver keeps to the driver protocol, and say how to fix it
    Conform(command::conform::Options),
    /// Print a completion script for a shell
    Completions(command::completions::Options),
    /// Print a manual page, or write all of them with --out DIR
    Man(command::man::Options),
    /// Speak the driver protocol for one of our own subjects (clients of a scenario are such processes)
    Driver(command::driver::Options),
    /// End what drivers have left once standard input ends, which is when the locklab that started them has
    /// ended
    Guard(command::guard::Options),
    /// Every command in groups, or one with all its options
    Help(command::help::Options),
}

/// What is shown of a run when it is over.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct ResultArgs {
    /// Say which scenarios do not apply for which reason, not only how many
    #[arg(long, hide_short_help = true)]
    pub(crate) all_reasons: bool,
    /// Open the page of the run when it is over
    #[arg(long, hide_short_help = true)]
    pub(crate) open: bool,
}

/// The commands in the order in which one meets them; the first group is what `--help` shows.
pub(crate) const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Try, measure, decide",
        &["doctor", "quickstart", "audit", "chaos", "bench", "new-driver", "report", "compare", "lock"],
    ),
    ("Look again", &["replay", "check", "gate", "merge", "list"]),
    ("Look closer", &["init", "risk", "watch", "conform", "trace", "simulate", "soak"]),
    ("Servers", &["up", "ps", "down", "proxy", "kube"]),
    ("For programs", &["driver", "clock", "completions", "man"]),
];

/// Servers beyond this machine.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct TargetConsent {
    /// The target is not on this machine, and you may put load on it and write locks there
    #[arg(long, hide_short_help = true)]
    pub(crate) yes_this_is_mine: bool,
}

/// The message about a value that cannot be parsed.
pub(crate) fn invalid(what: &str, text: &str, example: &str) -> String {
    format!("invalid {what} `{text}`; write it as {example}")
}

/// The most of anything that can be counted out on the command line. Each task takes memory before it begins.
const COUNT_MAX: u32 = 1_000_000;

/// A number of things, at least one.
pub(crate) fn count(text: &str) -> Result<u32, String> {
    let count = text.trim().replace('_', "").parse().ok();
    count.filter(|count| (1..=COUNT_MAX).contains(count)).ok_or_else(|| {
        format!("`{text}` is no number of things; write a whole number from 1 to {COUNT_MAX}, such as 16")
    })
}

fn seed(text: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is no seed; write a whole number, such as 7");
    text.trim().parse().map_err(|_| bad())
}

/// A hundred years. Instants and nanoseconds in 64 bits have room for three times as much.
const DURATION_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// A duration such as `250ms`, `10s`, `2m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let bare = text.trim();
    if bare == "0" {
        return Ok(Duration::ZERO);
    }
    match humantime::parse_duration(bare) {
        Err(_) => Err(invalid("duration", text, "250ms, 10s or 2m")),
        Ok(long) if long > DURATION_MAX => {
            Err(format!("`{text}` is longer than a hundred years (876000h), which is the limit"))
        }
        Ok(duration) => Ok(duration),
    }
}

/// The duration of a lease, which must last.
pub(crate) fn lease_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("a lease must last; leave it out for the default".to_owned()),
        lease => Ok(lease),
    }
}

/// A loopback address, IPv4 if there is one: most clients of Toxiproxy know nothing else.
pub(crate) fn loopback(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs();
    let mut found: Vec<SocketAddr> =
        found.map_err(|_| invalid("address", text, "HOST:PORT, e.g. 127.0.0.1:8474"))?.collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    let address = found.into_iter().find(|address| address.ip().is_loopback());
    address.ok_or_else(|| {
        format!("`{text}` is not on this machine alone; use a loopback address such as 127.0.0.1")
    })
}

/// A number per unit, such as `30/m`, in the units of this table; a bare number is per the first.
pub(crate) fn per(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, unit) = text.trim().split_once('/').unwrap_or((text.trim(), units[0].0));
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim())?;
    let number: f64 = number.trim().replace('_', "").parse().ok()?;
    Some(number * factor)
}

/// A rate such as `5000/s` or `30/m`, as cycles per second; a bare number is per second.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let units = [("s", 1.0), ("sec", 1.0), ("m", 1.0 / 60.0), ("min", 1.0 / 60.0), ("h", 1.0 / 3_600.0)];
    let rate = per(text, &units).filter(|rate| *rate > 0.0 && *rate <= 1e7);
    rate.ok_or_else(|| invalid("rate", text, "5000/s or 30/m"))
}

/// A size such as `600kB`, `32MB` or `2GB`, as bytes; a bare number is bytes.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let bad = || invalid("size", text, "600kB, 32MB or 2GB");
    let bare = text.trim();
    let (number, unit) = [("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)]
        .into_iter()
        .find_map(|(word, unit)| Some((bare.strip_suffix(word)?, unit)))
        .unwrap_or((bare.strip_suffix('B').unwrap_or(bare), 1));
    let number: u64 = number.trim().replace('_', "").parse().map_err(|_| bad())?;
    number.checked_mul(unit).ok_or_else(bad)
}

/// How many replicas must acknowledge; kept as its words, since subjects in other languages take words.
pub(crate) fn durability(text: &str) -> Result<String, String> {
    match text.parse::<lock_core::Durability>() {
        Ok(durability) => Ok(durability.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// The kind of lock on these servers: the one that was asked for, if it works there.
pub(crate) fn kind_of(
    asked: Option<lock_core::Kind>,
    target: &lock_core::Target,
) -> anyhow::Result<lock_core::Kind> {
    use lock_core::Kind;
    let masters = target.topology_kind() == lock_core::TopologyKind::Masters;
    match asked {
        None if masters => Ok(Kind::Redlock),
        None => Ok(Kind::Reentrant),
        Some(kind) if (kind == Kind::Redlock) == masters => Ok(kind),
        Some(kind) if masters => Err(crate::exit::usage(format!(
            "--kind {kind}: independent masters (redlock://) take only the kind redlock"
        ))),
        Some(_) => Err(crate::exit::usage("--kind redlock needs independent masters: a redlock:// URL")),
    }
}

/// A target's URL as it is typed; `@FILE` is the one in that file, since a command line can be read by every
/// user of the machine.
pub(crate) fn target_url(text: &str) -> Result<String, String> {
    let Some(path) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    let read = results::limits::read_text(path)?;
    let url = read.trim();
    if !url.contains("://") || url.contains('\n') {
        return Err(format!(
            "{path} has to hold the target's URL, e.g. redis://127.0.0.1:6379, and nothing else"
        ));
    }
    results::secrets::learn(url);
    Ok(url.to_owned())
}

/// A failed acquire as an error of the command, where a longer wait would not have helped.
pub(crate) fn acquire_failure(error: &lock_core::LockError, kind: lock_core::Kind) -> anyhow::Error {
    let name = error.lock();
    match (error.kind(), error.server_code()) {
        (lock_core::ErrorKind::Invalid, _) => crate::exit::usage(error),
        // In the server's words that is a line of a script, named by a hash.
        (_, Some("WRONGTYPE")) => crate::exit::usage(format!(
            "could not use {name} at {}: that key, or one that goes with it, holds something else than a lock of the kind {kind}; \
             `redis-cli TYPE {name}` there says what; use another name",
            error.node().unwrap_or("the server")
        )),
        _ => crate::exit::missing(error),
    }
}

/// A share such as `10%`, from 0 to 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let bad = || invalid("share", text, "10% or 0.1");
    let text = text.trim();
    let (number, of) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let number: f64 = number.trim().parse().map_err(|_| bad())?;
    let share = number / of;
    (0.0..=1.0).contains(&share).then_some(share).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        commands().debug_assert();
    }

    /// What each text is read as, and what is refused.
    fn reads<T: PartialEq + std::fmt::Debug>(
        read: fn(&str) -> Result<T, String>,
        good: impl IntoIterator<Item = (&'static str, T)>,
        bad: &[&str],
    ) {
        for (text, value) in good {
            assert_eq!(read(text), Ok(value), "{text}");
        }
        for text in bad {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn values_are_as_documented() {
        let ms = Duration::from_millis;
        let times = [("250ms", ms(250)), ("10s", ms(10_000)), ("2m", ms(120_000))];
        reads(duration, times, &["soon", "10", "101y", "18446744073709551615s"]);
        reads(count, [("1", 1), ("1_000_000", 1_000_000)], &["0", "-1", "1.5", "4294967295"]);
        reads(duration, [("0", Duration::ZERO)], &[]);
        let rates = [("5000/s", 5_000.0), ("30/m", 0.5), ("250", 250.0)];
        let bad = ["", "fast", "5/week", "0/s", "-1/s", "inf/s", "NaN"];
        reads(rate, rates, &bad);
        let sizes = [("0", 0), ("17B", 17), ("600kB", 600_000)];
        reads(bytes, sizes, &["", "MB", "1.5", "-1", "1TB", "99999999999GB"]);
        reads(bytes, [("32 MB", 32_000_000)], &[]);
        let shares = [("10%", 0.1), ("0.25", 0.25), ("100%", 1.0)];
        reads(share, shares, &["", "%", "101%", "-1%", "2", "NaN", "few"]);
        let hows = ["none", "wait:2", "wait:all"];
        reads(durability, hows.map(|how| (how, how.to_owned())), &["wait:0", "wait"]);
    }
}
