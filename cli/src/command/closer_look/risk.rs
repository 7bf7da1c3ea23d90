//! `locklab risk`: double grants and minutes without a grant in a year, for each way to set up Redis, from
//! the rates of a service.

use std::time::Duration;

use chaos::measured_rates::{MEASURED_AT_SERVERS, MeasuredRates};
use chaos::risk::{
    RATE_FIELDS, RateField, RateUnit, RiskEstimate, ServiceRates, ServiceRisk, YEAR_S, assess,
};
use chaos::target_servers::TargetServers;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use serde_json::json;

use crate::args::{self, TargetConsent};
use crate::cancel::Cancel;
use crate::exit;
use crate::run::load;
use crate::terminal::{Terminal, columns};

#[derive(Debug, Args)]
#[command(after_help = include_str!("../../../help/risk.txt").trim_end())]
pub(crate) struct Options {
    #[command(flatten)]
    rates: RateArgs,
    /// Leases are renewed while a lock is held, so that a hold may last longer than its lease
    #[arg(long)]
    renewed: bool,
    /// Replicas of each master [default: those of the target, else 2]
    #[arg(long, value_name = "N", value_parser = args::count)]
    replicas: Option<u32>,
    /// Replicas that acknowledge a grant, in the row `sentinel, wait:K`
    #[arg(long, value_name = "K", value_parser = args::count, default_value = "1")]
    acknowledgers: u32,
    /// Independent masters
    #[arg(long, value_name = "N", value_parser = args::count, default_value = "5")]
    masters: u32,
    /// Take the outage from what the failovers of this run took, the lag from before its first fault; or
    /// grants, holds and leases from a run of `watch`
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
    if low <= high { Ok((low, high)) } else { Err(format!("`{text}` begins above its end")) }
}

fn yearly(text: &str) -> Result<f64, String> {
    let units = [("year", 1.0), ("y", 1.0), ("month", 12.0), ("week", 52.18), ("day", 365.25)];
    let rate = text.contains('/').then(|| args::per(text, &units)).flatten();
    let rate = rate.filter(|rate| (0.0..=100_000.0).contains(rate));
    rate.ok_or_else(|| args::invalid("rate", text, "4/year, 1/month or 2/week"))
}

pub(crate) async fn run(options: &Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let mut measured = MeasuredRates::default();
    if let Some(from) = &options.from {
        measured.add_run(&load(from)?).map_err(exit::input)?;
    }
    if let Some(url) = &options.target {
        // Before it is watched for a minute.
        spans(options, &measured, &MEASURED_AT_SERVERS)?;
        let mut servers = TargetServers::of(url, options.mine.yes_this_is_mine)?;
        if !servers.are_redis() {
            return Err(exit::usage("risk reads the traffic of Redis and Valkey alone"));
        }
        let found = servers.ask().await?.clone();
        let cancel = Cancel::listen()?.flag();
        let note = |line: &str| terminal.note(line);
        let ended_by = measured.add_servers(found, options.watch, cancel, &note).await?;
        if let Some(why) = ended_by {
            terminal.warn(&format!("the watch ended early: {why}"));
        }
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
    inputs.insert("acknowledgers".to_owned(), options.acknowledgers.into());
    inputs.insert("masters".to_owned(), options.masters.into());
    inputs.insert("renewed".to_owned(), (low.renewed > 0.0).into());
    let names: Vec<&str> = measured.spans.keys().copied().collect();
    let document = json!({
        "schema": 1,
        "inputs": inputs,
        "measured": names,
        "configurations": found.configurations,
        "overtaken_holders_per_year": found.overtaken_holders_per_year,
    });
    terminal.answer(&document, || to_text(&found, &measured))
}

/// What each of [`RATE_FIELDS`] is: as a flag says, else as it was measured, else by default. All that is
/// missing is said at once, but for what is yet to be measured.
fn spans(options: &Options, measured: &MeasuredRates, later: &[&str]) -> anyhow::Result<Vec<Span>> {
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
fn rates(options: &Options, measured: &MeasuredRates) -> anyhow::Result<(ServiceRates, ServiceRates)> {
    let renewed = options.renewed || measured.renewed;
    let replicas = options.replicas.or(measured.replicas).unwrap_or(2);
    let both = ServiceRates {
        replicas: f64::from(replicas),
        acknowledgers: f64::from(options.acknowledgers),
        masters: f64::from(options.masters),
        renewed: f64::from(u8::from(renewed)),
        fsync_s: 0.001,
        ..ServiceRates::default()
    };
    let (mut low, mut high) = (both, both);
    for (field, span) in RATE_FIELDS.iter().zip(spans(options, measured, &[])?) {
        (*(field.field)(&mut low), *(field.field)(&mut high)) = span;
    }
    let positive = ["hold", "lease", "grants", "free-for"];
    let mut positive = RATE_FIELDS.iter().filter(|field| positive.contains(&field.name));
    if let Some(RateField { name, usual, .. }) = positive.find(|field| *(field.field)(&mut low) <= 0.0) {
        return Err(exit::usage(format!("--{name} must be more than 0 (usual: {usual})")));
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

fn time(seconds: f64) -> String {
    results::units::duration((seconds * 1e9) as u64)
}

fn to_text(found: &ServiceRisk, measured: &MeasuredRates) -> String {
    let head = ["CONFIGURATION", "DOUBLE GRANTS", "MINUTES DOWN", "BLOCKED", "CMDS", "MS", "MOVED BY"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(found.configurations.iter().map(|one| {
        vec![
            one.name.clone(),
            figure(&one.double_grants_per_year),
            figure(&one.unavailable_minutes_per_year),
            figure(&one.blocked_locks_per_year),
            one.commands_per_grant.to_string(),
            number(one.grant_p50_ms),
            one.matters_most.unwrap_or("-").to_owned(),
        ]
    }));
    let mut out = columns(&rows, 4..6);
    out += "\nDOUBLE GRANTS, MINUTES DOWN (without a grant) and BLOCKED (locks whose release is forgotten, until\ntheir lease ends) are of a year, CMDS of a cycle, MS of a grant without load; MOVED BY is the input that\nmoves the double grants most.";
    let overtaken = &found.overtaken_holders_per_year;
    if overtaken.high > 0.0 {
        out += &format!(
            "\nWhichever it is, pauses and clocks let {} holders a year be overtaken.",
            figure(overtaken)
        );
    }
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
    let [low, middle, high] = [estimate.low, estimate.estimate, estimate.high].map(number);
    if low == high { middle } else { format!("{middle} ({low}–{high})") }
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
