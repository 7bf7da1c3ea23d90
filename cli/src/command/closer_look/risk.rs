//! `locklab risk`: double grants and minutes without a grant in a year, for each way to set up Redis, from
//! the rates of a service.

use std::collections::BTreeMap;
use std::time::Duration;

use chaos::replica_lag::{ReplicaLag, measure_replica_lag};
use chaos::risk::{
    ConfigurationRisk, RATE_FIELDS, RateField, RateUnit, RiskEstimate, ServiceRates, YEAR_S, assess,
    failover_outages,
};
use chaos::watch::{LiveWatch, WatchOptions, watch_live};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use results::run::Run;
use results::watch::WatchReport;
use serde_json::json;

use crate::args::{self, TargetConsent};
use crate::cancel::Cancel;
use crate::exit;
use crate::run::load;
use crate::target::Servers;
use crate::terminal::{Terminal, columns};

const EXAMPLES: &str = "\
Examples:
  locklab risk --failovers 4/year --outage 2.2s --lag 20ms --grants 50/s --hold 5s --lease 30s
  locklab risk --failovers 2/year..12/year --outage 1s..8s --lag 20ms --grants 50/s --hold 5s --lease 30s     as far as it is known
  locklab risk --from latest --failovers 4/year --lag 20ms --grants 50/s --hold 5s --lease 30s    the outage that a run measured
  locklab risk --target redis://127.0.0.1:6379 --watch 60s --failovers 4/year --outage 2.2s       the rest measured there; reads only";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    rates: RateArgs,
    /// Leases are renewed while a lock is held, so that a hold may last longer than its lease
    #[arg(long)]
    renewed: bool,
    /// Replicas of each master [default: those of the target, else 2]
    #[arg(long, value_name = "N", value_parser = args::count)]
    replicas: Option<u32>,
    /// Take the outage from what the failovers of this run took, or grants, holds and leases from a run of
    /// `watch`
    #[arg(long, value_name = "RUN")]
    from: Option<String>,
    /// Measure lag, grants, holds and leases on these servers; what a flag says counts instead
    #[arg(long, value_name = "URL", value_parser = args::target_url)]
    target: Option<String>,
    /// How long to watch the target, by MONITOR
    #[arg(long, value_name = "DURATION", value_parser = args::duration, default_value = "60s", requires = "target")]
    watch: Duration,
    #[command(flatten)]
    mine: TargetConsent,
}

/// A value that is known to lie between two.
type Span = (f64, f64);

/// What was measured: inputs by their names, and what no range can say.
#[derive(Debug, Default)]
struct Measured {
    spans: BTreeMap<&'static str, Span>,
    renewed: bool,
    replicas: Option<u32>,
    /// Why something is not among them.
    reasons: Vec<String>,
}

/// What is said of each of [`RATE_FIELDS`]: one value, or `LOW..HIGH` where it is known no better.
#[derive(Debug)]
struct RateArgs(Vec<Option<Span>>);

impl FromArgMatches for RateArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |field: &RateField| matches.get_one(field.name).copied();
        Ok(Self(RATE_FIELDS.iter().map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for RateArgs {
    fn augment_args(command: Command) -> Command {
        command.args(RATE_FIELDS.iter().map(|field| {
            let value = match field.unit {
                RateUnit::PerYear => "N/year",
                RateUnit::PerSecond => "RATE",
                RateUnit::Seconds => "DURATION",
                RateUnit::Share => "SHARE",
            };
            let default = field.default.map(|text| format!(" [default: {text}]"));
            let help = format!("{}{}", field.about, default.unwrap_or_default());
            let arg = Arg::new(field.name).long(field.name).help(help);
            arg.value_name(value).value_parser(|text: &str| {
                span(text, field.unit).map_err(|why| format!("{why} (usual: {})", field.usual))
            })
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn span(text: &str, unit: RateUnit) -> Result<Span, String> {
    let one = |text: &str| match unit {
        RateUnit::PerYear => yearly(text),
        RateUnit::PerSecond => args::rate(text),
        RateUnit::Seconds => Ok(args::duration(text)?.as_secs_f64()),
        RateUnit::Share => args::share(text),
    };
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    let (low, high) = (one(low)?, one(high)?);
    match low <= high {
        true => Ok((low, high)),
        false => Err(format!("`{text}` begins above its end")),
    }
}

fn yearly(text: &str) -> Result<f64, String> {
    let units = [("year", 1.0), ("y", 1.0), ("month", 12.0), ("week", 52.18), ("day", 365.25)];
    let rate = text.trim().split_once('/').and_then(|(number, unit)| {
        let number: f64 = number.trim().parse().ok()?;
        let (_, a_year) = units.into_iter().find(|(name, _)| *name == unit.trim())?;
        Some(number * a_year)
    });
    rate.filter(|rate| (0.0..=100_000.0).contains(rate))
        .ok_or_else(|| args::invalid("rate", text, "4/year, 1/month or 2/week"))
}

pub(crate) async fn run(options: &Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let mut measured = Measured::default();
    if let Some(from) = &options.from {
        measured.add_run(&load(from)?)?;
    }
    if let Some(url) = &options.target {
        // Before it is watched for a minute.
        spans(options, &measured, &MEASURED_AT_SERVERS)?;
        measured.add_servers(url, options, terminal).await?;
    }
    let (low, high) = rates(options, &measured)?;
    let found = assess(&low, &high, terminal.common.seed.unwrap_or(1));
    let inputs = RATE_FIELDS.iter().map(|field| {
        let unit = match field.unit {
            RateUnit::PerYear => "_per_year",
            RateUnit::PerSecond => "_per_s",
            RateUnit::Seconds => "_s",
            RateUnit::Share => "",
        };
        let [low, high] = [low, high].map(|mut rates| *(field.field)(&mut rates));
        let name = format!("{}{unit}", field.name.replace('-', "_"));
        (name, json!({"low": low, "high": high}))
    });
    let mut inputs: serde_json::Map<_, _> = inputs.collect();
    inputs.insert("replicas".to_owned(), (low.replicas as u32).into());
    inputs.insert("renewed".to_owned(), (low.renewed > 0.0).into());
    let names: Vec<&str> = measured.spans.keys().copied().collect();
    let document = json!({"schema": 1, "inputs": inputs, "measured": names, "configurations": found});
    terminal.answer(&document, || to_text(&found, &measured))?;
    Ok(exit::AS_EXPECTED)
}

/// Inputs that the traffic of servers shows, and questions to them.
const MEASURED_AT_SERVERS: [&str; 5] = ["lag", "grants", "hold", "lease", "rtt"];

/// What each of [`RATE_FIELDS`] is: as a flag says, else as it was measured, else by default. All that is
/// missing is said at once, but for what is yet to be measured.
fn spans(options: &Options, measured: &Measured, later: &[&str]) -> anyhow::Result<Vec<Span>> {
    let (mut all, mut missing) = (Vec::new(), Vec::new());
    for (field, given) in RATE_FIELDS.iter().zip(&options.rates.0) {
        let default = || field.default.and_then(|text| span(text, field.unit).ok());
        let seen = measured.spans.get(field.name).copied();
        match given.or(seen).or_else(default) {
            Some(span) => all.push(span),
            None if later.contains(&field.name) => {}
            None => missing.push(format!("--{} {}", field.name, field.usual)),
        }
    }
    if missing.is_empty() {
        return Ok(all);
    }
    let why = measured.reasons.iter().map(|why| format!("; {why}"));
    Err(exit::usage(format!(
        "missing, each here with a usual value: {}{}",
        missing.join(" "),
        why.collect::<String>()
    )))
}

/// The rates at their lower and at their upper ends; what is missing or contradictory is said at once.
fn rates(options: &Options, measured: &Measured) -> anyhow::Result<(ServiceRates, ServiceRates)> {
    let renewed = options.renewed || measured.renewed;
    let replicas = options.replicas.or(measured.replicas).unwrap_or(2);
    let both = ServiceRates {
        replicas: f64::from(replicas),
        renewed: f64::from(u8::from(renewed)),
        fsync_s: 0.001,
        ..ServiceRates::default()
    };
    let (mut low, mut high) = (both, both);
    for (field, span) in RATE_FIELDS.iter().zip(spans(options, measured, &[])?) {
        (*(field.field)(&mut low), *(field.field)(&mut high)) = span;
    }
    let positive = ["hold", "lease", "grants", "free-for"];
    for field in RATE_FIELDS.iter().filter(|field| positive.contains(&field.name)) {
        if *(field.field)(&mut low) <= 0.0 {
            let (name, usual) = (field.name, field.usual);
            return Err(exit::usage(format!("--{name} must be more than 0 (usual: {usual})")));
        }
    }
    if high.failovers_per_year * high.outage_s > YEAR_S {
        return Err(exit::usage(format!(
            "{} outages of {} are longer than a year (usual: 4/year of 2.2s)",
            number(high.failovers_per_year),
            time(high.outage_s)
        )));
    }
    if low.lease_s < high.hold_s && !renewed {
        return Err(exit::usage(format!(
            "a lease of {} is shorter than a hold of {}, which then outlives it by itself: say a longer --lease, or --renewed (usual: a hold of 5s, a lease of 30s)",
            time(low.lease_s),
            time(high.hold_s)
        )));
    }
    Ok((low, high))
}

impl Measured {
    fn add(&mut self, name: &'static str, values: impl IntoIterator<Item = f64>) {
        let values = values.into_iter().filter(|value| *value > 0.0);
        let span = values.fold(None, |span: Option<Span>, value| {
            let (low, high) = span.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        });
        if let Some(span) = span {
            self.spans.insert(name, span);
        }
    }

    /// What a run measured: how long failovers took until the first grant, or what it watched.
    fn add_run(&mut self, run: &Run) -> anyhow::Result<()> {
        if let Some(watch) = &run.watch {
            self.add_watch(watch);
            return Ok(());
        }
        self.add("outage", failover_outages(run));
        match self.spans.is_empty() {
            true => Err(exit::input(format!(
                "{}: no master of a sentinel group or a cluster was killed in it, and nothing was watched; try a run of `locklab quickstart`, or --outage",
                run.run
            ))),
            false => Ok(()),
        }
    }

    /// What the traffic of servers shows. Holds are taken to be exponential, with the mean that their median
    /// says, and their 99th percentile: where these differ, or locks do, so does the input.
    fn add_watch(&mut self, watch: &WatchReport) {
        let grants = watch.grants() as f64;
        if grants == 0.0 || watch.seconds <= 0.0 {
            self.reasons.push("no lock was granted while it was watched".to_owned());
            return;
        }
        let doubt = 2.0 * grants.sqrt();
        let rates = [grants - doubt, grants, grants + doubt].map(|grants| grants / watch.seconds);
        self.add("grants", rates);
        // A lock that is hardly asked for says little of the service.
        let locks = watch.locks.iter().filter(|lock| lock.grants as f64 >= 0.05 * grants);
        let locks: Vec<_> = locks.collect();
        self.renewed = locks.iter().any(|lock| lock.renewals > 0);
        self.add("lease", locks.iter().filter_map(|lock| Some(lock.lease_ms? / 1e3)));
        let lease_s = self.spans.get("lease").map_or(f64::MAX, |lease| lease.0);
        let most_s = if self.renewed { f64::MAX } else { lease_s };
        let means = locks.iter().flat_map(|lock| {
            let of = |ms: Option<f64>, rest: f64| Some((ms? / 1e3 / -rest.ln()).min(most_s));
            [of(lock.hold_ms.p50, 0.5), of(lock.hold_ms.p99, 0.01)]
        });
        self.add("hold", means.flatten());
        let hold_s = self.spans.get("hold").map_or(0.0, |hold| hold.1);
        let between = locks.iter().map(|lock| lock.names as f64 / lock.grants.max(1) as f64);
        self.add("free-for", between.map(|names| names * watch.seconds - hold_s));
    }

    fn add_lag(&mut self, lag: &ReplicaLag) {
        let at = |share: f64| {
            let place = (lag.lags_s.len() as f64 * share) as usize;
            lag.lags_s.get(place.min(lag.lags_s.len().saturating_sub(1)))
        };
        // No lag is shorter than the way of a message.
        let least_s = lag.rtt_s.unwrap_or(1e-6);
        self.add("rtt", lag.rtt_s);
        let lags = [at(0.5), at(0.99)].into_iter().flatten();
        self.add("lag", lags.map(|lag_s| lag_s.max(least_s)));
        self.replicas = u32::try_from(lag.replicas).ok().filter(|some| *some > 0);
        if lag.lags_s.is_empty() {
            self.reasons.push("no replica was found there, whose lag could be measured".to_owned());
        }
    }

    async fn add_servers(&mut self, url: &str, options: &Options, terminal: &Terminal) -> anyhow::Result<()> {
        let mut servers = Servers::of(url, options.mine.yes_this_is_mine)?;
        if !servers.are_redis() {
            return Err(exit::usage("risk reads the traffic of Redis and Valkey alone"));
        }
        let found = servers.ask().await?.clone();
        let live = LiveWatch {
            length: options.watch,
            sample: None,
            max_cost: 0.2,
            cancel: Cancel::listen()?.flag(),
        };
        let note = |line: &str| terminal.note(line);
        let (seen, lag) = tokio::join!(
            watch_live(found.clone(), &live, WatchOptions::default(), &note),
            measure_replica_lag(&found, options.watch, &live.cancel),
        );
        let report = seen?.report;
        let ended_by = report.cost.as_ref().map(|cost| cost.ended_by.as_str());
        if let Some(why) = ended_by.filter(|why| !why.is_empty()) {
            terminal.warn(&format!("the watch ended early: {why}"));
        }
        self.add_watch(&report);
        self.add_lag(&lag);
        Ok(())
    }
}

fn time(seconds: f64) -> String {
    results::units::duration((seconds * 1e9) as u64)
}

fn to_text(found: &[ConfigurationRisk], measured: &Measured) -> String {
    let head = ["CONFIGURATION", "DOUBLE GRANTS", "MINUTES DOWN", "CMDS", "MS", "MOVED BY"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(found.iter().map(|one| {
        vec![
            one.name.to_owned(),
            figure(&one.double_grants_per_year),
            figure(&one.unavailable_minutes_per_year),
            one.commands_per_grant.to_string(),
            number(one.grant_p50_ms),
            one.matters_most.unwrap_or("-").to_owned(),
        ]
    }));
    let mut out = columns(&rows, 3..5);
    out += "\nDOUBLE GRANTS and MINUTES DOWN (without a grant) are of a year, CMDS of a cycle,\nMS of a grant without load; MOVED BY is the input that moves the double grants most.";
    for (name, span) in &measured.spans {
        let shown = |value: f64| match *name {
            "grants" => format!("{}/s", number(value)),
            _ => time(value),
        };
        out += &format!("\nmeasured: {name} {} to {}", shown(span.0), shown(span.1));
    }
    out += "\nNot in it: bugs, operators, failures that come together. The book says how each figure is derived: How often will it break?";
    out
}

fn figure(estimate: &RiskEstimate) -> String {
    match number(estimate.low) == number(estimate.high) {
        true => number(estimate.estimate),
        false => {
            format!("{} ({}–{})", number(estimate.estimate), number(estimate.low), number(estimate.high))
        }
    }
}

/// Two digits that say something.
fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value < 1e-6 => "<1e-6".to_owned(),
        value if value < 0.001 => format!("{value:.1e}"),
        value if value < 10.0 => {
            let decimals = (1 - value.log10().floor() as i32).clamp(0, 6) as usize;
            format!("{value:.decimals$}")
        }
        value => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use chaos::risk::USUAL_SERVICE;

    use super::*;

    #[test]
    fn the_usual_values_of_required_inputs_are_those_of_the_usual_service() {
        let mut usual = USUAL_SERVICE;
        for field in RATE_FIELDS.iter().filter(|field| field.default.is_none()) {
            let value = *(field.field)(&mut usual);
            assert_eq!(span(field.usual, field.unit), Ok((value, value)), "{}", field.name);
        }
    }
}
