//! `locklab risk`: double grants and minutes without a grant in a year, for each way to set up Redis, from the rates of a service.

use chaos::risk::{
    ConfigurationRisk, RATE_FIELDS, RateField, RateUnit, RiskEstimate, ServiceRates, assess,
};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use results::run::Run;
use serde_json::json;

use super::run::load;
use crate::args;
use crate::exit;
use crate::terminal::{Terminal, columns};

const EXAMPLES: &str = "\
Examples:
  locklab risk --failovers 4/year --outage 2.2s --lag 20ms --grants 50/s --hold 5s --lease 30s
  locklab risk --failovers 2/year..12/year --outage 1s..8s --lag 20ms --grants 50/s --hold 5s --lease 30s     as far as it is known
  locklab risk --from latest --failovers 4/year --lag 20ms --grants 50/s --hold 5s --lease 30s    the outage that a run measured";

/// Flags of `risk`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    rates: RateArgs,
    /// Leases are renewed while a lock is held, so that a hold may last longer than its lease
    #[arg(long)]
    renewed: bool,
    /// Replicas of each master
    #[arg(long, value_name = "N", value_parser = args::count, default_value = "2")]
    replicas: u32,
    /// Take the outage from what the failovers of this run took
    #[arg(long, value_name = "RUN", conflicts_with = "outage")]
    from: Option<String>,
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
            let arg = Arg::new(field.name).long(field.name).help(field.about);
            arg.value_name(value)
                .default_value(field.default)
                .value_parser(|text: &str| span(text, field.unit))
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
    let units = [
        ("year", 1.0),
        ("y", 1.0),
        ("month", 12.0),
        ("week", 52.18),
        ("day", 365.25),
    ];
    let rate = text.trim().split_once('/').and_then(|(number, unit)| {
        let number: f64 = number.trim().parse().ok()?;
        let (_, a_year) = units.into_iter().find(|(name, _)| *name == unit.trim())?;
        Some(number * a_year)
    });
    rate.filter(|rate| (0.0..=100_000.0).contains(rate))
        .ok_or_else(|| args::invalid("rate", text, "4/year, 1/month or 2/week"))
}

pub(crate) fn run(options: &Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let from = options.from.as_deref().map(load).transpose()?;
    let measured = from.as_ref().map(outages).transpose()?;
    let (low, high) = rates(options, measured)?;
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
    inputs.insert("replicas".to_owned(), options.replicas.into());
    inputs.insert("renewed".to_owned(), options.renewed.into());
    let document = json!({"schema": 1, "inputs": inputs, "configurations": found});
    terminal.answer(&document, || shown(&found, measured))?;
    Ok(exit::AS_EXPECTED)
}

/// The rates at their lower and at their upper ends; what is missing or contradictory is said at once.
fn rates(options: &Options, outage: Option<Span>) -> anyhow::Result<(ServiceRates, ServiceRates)> {
    let both = ServiceRates {
        replicas: f64::from(options.replicas),
        renewed: f64::from(u8::from(options.renewed)),
        fsync_s: 0.001,
        ..ServiceRates::default()
    };
    let (mut low, mut high, mut missing) = (both, both, Vec::new());
    for (field, given) in RATE_FIELDS.iter().zip(&options.rates.0) {
        let outage = outage.filter(|_| field.name == "outage");
        match given.or(outage) {
            Some(span) => (*(field.field)(&mut low), *(field.field)(&mut high)) = span,
            None => missing.push(format!("--{} {}", field.name, field.usual)),
        }
    }
    if !missing.is_empty() {
        return Err(exit::usage(format!(
            "missing, each here with a usual value: {}",
            missing.join(" ")
        )));
    }
    for (flag, from) in [
        ("hold", low.hold_s),
        ("lease", low.lease_s),
        ("grants", low.grants_per_s),
        ("free-for", low.free_s),
    ] {
        if from <= 0.0 {
            return Err(exit::usage(format!("--{flag} must be more than 0")));
        }
    }
    if low.lease_s < high.hold_s && !options.renewed {
        return Err(exit::usage(format!(
            "a lease of {} is shorter than a hold of {}, which then outlives it by itself: say a longer --lease, or --renewed",
            time(low.lease_s),
            time(high.hold_s)
        )));
    }
    Ok((low, high))
}

/// How long the failovers of a run took until the first grant, from the shortest to the longest.
fn outages(run: &Run) -> anyhow::Result<Span> {
    let failovers = run.scenarios.iter().filter(|result| {
        let kills = result.faults.iter().any(|fault| fault.fault == "kill");
        kills && ["sentinel", "cluster"].contains(&result.topology.as_str())
    });
    let took = failovers.filter_map(|result| result.recovery.first_grant_after_fault_ns);
    let took: Vec<f64> = took.map(|ns| ns as f64 / 1e9).collect();
    let (low, high) = took.iter().fold((f64::MAX, 0.0_f64), |(low, high), took| {
        (low.min(*took), high.max(*took))
    });
    match took.is_empty() {
        true => Err(exit::input(format!(
            "{}: no master of a sentinel group or a cluster was killed in it; try a run of `locklab quickstart`, or --outage",
            run.run
        ))),
        false => Ok((low, high)),
    }
}

fn time(seconds: f64) -> String {
    results::units::duration((seconds * 1e9) as u64)
}

fn shown(found: &[ConfigurationRisk], measured: Option<Span>) -> String {
    let head = [
        "CONFIGURATION",
        "DOUBLE GRANTS",
        "MINUTES DOWN",
        "CMDS",
        "MS",
        "MOVED BY",
    ];
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
    if let Some((low, high)) = measured {
        out += &format!("\nthe outage was measured: {} to {}", time(low), time(high));
    }
    out += "\nNot in it: bugs, operators, failures that come together. The book says how each figure is derived: How often will it break?";
    out
}

fn figure(estimate: &RiskEstimate) -> String {
    match number(estimate.low) == number(estimate.high) {
        true => number(estimate.estimate),
        false => format!(
            "{} ({}–{})",
            number(estimate.estimate),
            number(estimate.low),
            number(estimate.high)
        ),
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
