//! `locklab risk`: double grants and minutes without a grant in a year, for each way to set up Redis, from the rates of a service.

use chaos::risk::{ConfigurationRisk, RATE_FIELDS, RiskEstimate, ServiceRates, assess};
use clap::Args;
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

/// Flags of `risk`. Each takes one value, or `LOW..HIGH` where it is known no better.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Crashes of a master; usual are 1/year to 12/year
    #[arg(long, value_name = "N/year", value_parser = yearly)]
    failovers: Option<Span>,
    /// From a crash to the first grant after it; usual are 1s to 30s, and `chaos` measures it
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    outage: Option<Span>,
    /// How far the replica that is promoted is behind; usual are 1ms to 1s
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    lag: Option<Span>,
    /// Grants on the servers that fail together; usual are 1/s to 1000/s
    #[arg(long, value_name = "RATE", value_parser = per_second)]
    grants: Option<Span>,
    /// The mean time of a hold; usual are 50ms to 1m
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    hold: Option<Span>,
    /// The lease; usual are 10s to 30s
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    lease: Option<Span>,
    /// Leases are renewed while a lock is held, so that a hold may last longer than its lease
    #[arg(long)]
    renewed: bool,
    /// From the first possible grant after a crash to the next caller of the same lock
    #[arg(long, value_name = "DURATION", value_parser = seconds, default_value = "0s")]
    next_caller: Span,
    /// The share of the crashes that take the machine along, with what its disk has not yet
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "100%")]
    machine_share: Span,
    /// Replicas of each master
    #[arg(long, value_name = "N", value_parser = args::count, default_value = "2")]
    replicas: u32,
    /// Partitions that leave a master with some of its clients
    #[arg(long, value_name = "N/year", value_parser = yearly, default_value = "0/year")]
    partitions: Span,
    /// How long a partition lasts
    #[arg(long, value_name = "DURATION", value_parser = seconds, default_value = "1m")]
    partition_lasts: Span,
    /// The share of the callers on the old master's side of a partition
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "50%")]
    cut_off_share: Span,
    /// `min-replicas-max-lag` of the servers
    #[arg(long, value_name = "DURATION", value_parser = seconds, default_value = "10s")]
    max_lag: Span,
    /// A message to a server and back
    #[arg(long, value_name = "DURATION", value_parser = seconds, default_value = "500us")]
    rtt: Span,
    /// Take the outage from what the failovers of this run took
    #[arg(long, value_name = "RUN", conflicts_with = "outage")]
    from: Option<String>,
}

/// A value that is known to lie between two.
type Span = (f64, f64);

fn spanned(text: &str, one: impl Fn(&str) -> Result<f64, String>) -> Result<Span, String> {
    let (low, high) = match text.split_once("..") {
        Some((low, high)) => (one(low)?, one(high)?),
        None => (one(text)?, one(text)?),
    };
    match low <= high {
        true => Ok((low, high)),
        false => Err(format!("`{text}` begins above its end")),
    }
}

fn seconds(text: &str) -> Result<Span, String> {
    spanned(text, |text| Ok(args::duration(text)?.as_secs_f64()))
}

fn per_second(text: &str) -> Result<Span, String> {
    spanned(text, args::rate)
}

fn yearly(text: &str) -> Result<Span, String> {
    let bad = |text: &str| args::invalid("rate", text, "4/year, 1/month or 2/week");
    spanned(text, |text| {
        let (number, unit) = text.trim().split_once('/').ok_or_else(|| bad(text))?;
        let a_year = match unit.trim() {
            "year" | "y" => 1.0,
            "month" => 12.0,
            "week" => 52.18,
            "day" => 365.25,
            _ => return Err(bad(text)),
        };
        let number: f64 = number.trim().parse().map_err(|_| bad(text))?;
        match (0.0..=100_000.0).contains(&(number * a_year)) {
            true => Ok(number * a_year),
            false => Err(bad(text)),
        }
    })
}

fn share(text: &str) -> Result<Span, String> {
    let bad = |text: &str| args::invalid("share", text, "10% or 0.1");
    spanned(text, |text| {
        let (number, of) = match text.trim().strip_suffix('%') {
            Some(number) => (number, 100.0),
            None => (text.trim(), 1.0),
        };
        let share = number.trim().parse::<f64>().map_err(|_| bad(text))? / of;
        match (0.0..=1.0).contains(&share) {
            true => Ok(share),
            false => Err(bad(text)),
        }
    })
}

pub(crate) fn run(options: &Options, terminal: &Terminal) -> anyhow::Result<u8> {
    let from = options.from.as_deref().map(load).transpose()?;
    let measured = from.as_ref().map(outages).transpose()?;
    let outage = options.outage.or(measured);
    let (low, high) = rates(options, outage)?;
    let found = assess(&low, &high, terminal.common.seed.unwrap_or(1));
    let inputs = RATE_FIELDS.iter().map(|&(name, field)| {
        let ends = (*field(&mut low.clone()), *field(&mut high.clone()));
        let unit = match name {
            "failovers" | "partitions" => "per_year",
            "grants" => "per_s",
            "machine-share" | "cut-off-share" => "",
            _ => "s",
        };
        let name = [&name.replace('-', "_"), unit].join("_");
        let name = name.trim_end_matches('_').to_owned();
        (name, json!({"low": ends.0, "high": ends.1}))
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
    let needed = [
        ("--failovers", options.failovers, "4/year"),
        ("--outage", outage, "2.2s"),
        ("--lag", options.lag, "20ms"),
        ("--grants", options.grants, "50/s"),
        ("--hold", options.hold, "5s"),
        ("--lease", options.lease, "30s"),
    ];
    let missing = needed.iter().filter(|(_, given, _)| given.is_none());
    let missing: Vec<String> = missing
        .map(|(flag, _, usual)| format!("{flag} {usual}"))
        .collect();
    if !missing.is_empty() {
        return Err(exit::usage(format!(
            "missing, each here with a usual value: {}",
            missing.join(" ")
        )));
    }
    let [failovers, outage, lag, grants, hold, lease] =
        needed.map(|(_, given, _)| given.unwrap_or_default());
    for (flag, (from, _)) in [("--hold", hold), ("--lease", lease), ("--grants", grants)] {
        if from <= 0.0 {
            return Err(exit::usage(format!("{flag} must be more than 0")));
        }
    }
    if lease.0 < hold.1 && !options.renewed {
        return Err(exit::usage(format!(
            "a lease of {} is shorter than a hold of {}, which then outlives it by itself: say a longer --lease, or --renewed",
            time(lease.0),
            time(hold.1)
        )));
    }
    let at = |end: fn(Span) -> f64| ServiceRates {
        failovers_per_year: end(failovers),
        outage_s: end(outage),
        lag_s: end(lag),
        grants_per_s: end(grants),
        hold_s: end(hold),
        lease_s: end(lease),
        next_caller_s: end(options.next_caller),
        machine_share: end(options.machine_share),
        replicas: f64::from(options.replicas),
        partitions_per_year: end(options.partitions),
        partition_s: end(options.partition_lasts),
        cut_off_share: end(options.cut_off_share),
        max_lag_s: end(options.max_lag),
        rtt_s: end(options.rtt),
        fsync_s: 0.001,
        renewed: f64::from(u8::from(options.renewed)),
    };
    Ok((at(|span| span.0), at(|span| span.1)))
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
    let mut out = columns("<<<>><", &rows);
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
