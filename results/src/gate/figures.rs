//! Turns the names of conditions into what they mean at a row or a scenario: the registry of everything that can be gated.

use super::{Found, Place};
use crate::compare::point;
use crate::run::{BenchRow, Estimate, Quantiles, ScenarioResult};
use crate::units;
use crate::verdict::{CLASSES, Verdict};

/// What a number is, and so how it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Nanoseconds inside; `5ms` outside.
    Time,
    /// Per second; `5000/s`, or bare.
    Rate,
    /// A share inside; `5%`, or bare.
    Share,
    /// A bare number.
    Number,
}

impl Unit {
    /// What a bound may look like.
    pub(super) fn examples(self) -> &'static str {
        match self {
            Self::Time => "a time such as 800us, 5ms or 2s",
            Self::Rate => "a rate such as 5000/s or 30/min",
            Self::Share => "a share such as 5% or 0.05",
            Self::Number => "a number",
        }
    }

    /// A number of this unit, in words.
    pub(super) fn words(self, value: f64) -> String {
        match self {
            Self::Time if value.is_infinite() => "never".to_owned(),
            Self::Time => units::duration(value.round() as u64),
            Self::Rate => format!("{}/s", units::figure(value)),
            Self::Share => format!("{} %", units::figure(100.0 * value)),
            Self::Number => units::figure(value),
        }
    }
}

/// A figure by its own name.
pub(super) struct Figure {
    pub(super) name: &'static str,
    unit: Unit,
    of: Source,
}

enum Source {
    Row(fn(&BenchRow) -> Option<Estimate>),
    Scenario(fn(&ScenarioResult) -> Option<Estimate>),
}

fn counted(count: u64) -> Option<Estimate> {
    Some(point(count as f64))
}

const fn of_row(name: &'static str, unit: Unit, of: fn(&BenchRow) -> Option<Estimate>) -> Figure {
    Figure {
        name,
        unit,
        of: Source::Row(of),
    }
}

/// All figures. CPU is kept in microseconds and gated as a time.
pub(super) static FIGURES: [Figure; 19] = [
    of_row("cycles", Unit::Rate, |row| Some(row.cycles_per_s)),
    of_row("commands", Unit::Number, |row| {
        row.commands_per_cycle.map(point)
    }),
    of_row("server_calls", Unit::Number, |row| {
        row.server_calls_per_cycle.map(point)
    }),
    of_row("server_cpu", Unit::Time, |row| {
        row.server_cpu_us_per_cycle.map(|us| point(us * 1e3))
    }),
    of_row("client_cpu", Unit::Time, |row| {
        row.client_cpu_us_per_cycle.map(|us| point(us * 1e3))
    }),
    of_row("bytes", Unit::Number, |row| {
        row.measures.bytes_per_cycle.map(point)
    }),
    of_row("jain", Unit::Number, |row| Some(point(row.jain))),
    of_row("censored", Unit::Number, |row| counted(row.censored)),
    of_row("starved", Unit::Number, |row| {
        counted(row.measures.passing.as_ref()?.starved)
    }),
    of_row("share_min", Unit::Number, |row| {
        row.measures.passing.as_ref()?.share_min.map(point)
    }),
    of_row("lost_wakeups", Unit::Number, |row| {
        counted(row.measures.passing.as_ref()?.lost_wakeups)
    }),
    of_row("bypasses", Unit::Number, |row| {
        counted(row.measures.passing.as_ref()?.most_bypasses)
    }),
    of_row("inversions", Unit::Share, |row| {
        Some(point(row.measures.passing.as_ref()?.inversions))
    }),
    of_row("idle", Unit::Share, |row| {
        Some(point(row.measures.passing.as_ref()?.idle))
    }),
    of_row("wasted", Unit::Number, |row| {
        let passing = row.measures.passing.as_ref()?;
        passing.wasted_commands_per_grant.map(point)
    }),
    of_row("lost_renewals", Unit::Number, |row| {
        counted(row.measures.renewal.as_ref()?.lost)
    }),
    of_row("achieved", Unit::Rate, |row| {
        Some(point(row.measures.pacing.as_ref()?.achieved_per_s))
    }),
    Figure {
        name: "grants",
        unit: Unit::Rate,
        of: Source::Scenario(|result| {
            (result.grants_per_s > 0.0).then(|| point(result.grants_per_s))
        }),
    },
    Figure {
        name: "recovery",
        unit: Unit::Time,
        of: Source::Scenario(|result| {
            let ns = result.recovery.first_grant_after_fault_ns?;
            Some(point(ns as f64))
        }),
    },
];

/// The names of `run.json`, which mean the same.
static LONG_NAMES: [(&str, &str); 6] = [
    ("cycles_per_s", "cycles"),
    ("commands_per_cycle", "commands"),
    ("server_calls_per_cycle", "server_calls"),
    ("server_cpu_per_cycle", "server_cpu"),
    ("client_cpu_per_cycle", "client_cpu"),
    ("grants_per_s", "grants"),
];

/// A latency of rows.
pub(super) struct Latency {
    pub(super) name: &'static str,
    of: fn(&BenchRow) -> Option<&Quantiles>,
}

/// All latencies, for `p50(…)` and its sisters.
pub(super) static LATENCIES: [Latency; 10] = [
    Latency {
        name: "acquire",
        of: |row| Some(&row.acquire_ns),
    },
    Latency {
        name: "release",
        of: |row| Some(&row.release_ns),
    },
    Latency {
        name: "handoff",
        of: |row| row.handoff_ns.as_ref(),
    },
    Latency {
        name: "response",
        of: |row| row.measures.response_ns.as_ref(),
    },
    Latency {
        name: "notified",
        of: |row| row.measures.passing.as_ref()?.notified_ns.as_ref(),
    },
    Latency {
        name: "recovery",
        of: |row| row.measures.recovery_ns.as_ref(),
    },
    Latency {
        name: "connect",
        of: |row| row.measures.connect_ns.as_ref(),
    },
    Latency {
        name: "wave",
        of: |row| row.measures.wave_ns.as_ref(),
    },
    Latency {
        name: "read",
        of: |row| row.measures.read_ns.as_ref(),
    },
    Latency {
        name: "write",
        of: |row| row.measures.write_ns.as_ref(),
    },
];

/// A place in a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantile {
    P50,
    P90,
    P99,
    P999,
    Max,
}

/// All of them by name.
pub(super) static QUANTILES: [(&str, Quantile); 5] = [
    ("p50", Quantile::P50),
    ("p90", Quantile::P90),
    ("p99", Quantile::P99),
    ("p999", Quantile::P999),
    ("max", Quantile::Max),
];

/// What of a verdict is a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OfVerdict {
    Count,
    Worst,
    PerMinute,
}

/// All of them by name.
pub(super) static OF_VERDICT: [(&str, OfVerdict); 3] = [
    ("count", OfVerdict::Count),
    ("worst", OfVerdict::Worst),
    ("per_minute", OfVerdict::PerMinute),
];

/// What a condition speaks of.
pub(super) enum Value {
    Figure(&'static Figure),
    Latency(Quantile, &'static Latency),
    OfVerdict(OfVerdict, &'static str),
    /// A verdict's state.
    Class(&'static str),
    /// Whether a lock was safe while it was measured.
    Safety,
    /// Whether a scenario came out as it expects.
    Outcome,
}

/// The words of a state that may stand behind `==`.
pub(super) static STATES: [&str; 3] = ["clean", "violated", "unknown"];
/// The same of `outcome`.
pub(super) static OUTCOMES: [&str; 3] = ["as-expected", "not-as-expected", "unknown"];

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Figure(figure) => figure.name,
            Self::Latency(_, latency) => latency.name,
            Self::OfVerdict(_, class) | Self::Class(class) => class,
            Self::Safety => "safety",
            Self::Outcome => "outcome",
        })
    }
}

impl Value {
    /// What a word without brackets means.
    pub(super) fn by_name(name: &str) -> Option<Self> {
        match name {
            "safety" => return Some(Self::Safety),
            "outcome" => return Some(Self::Outcome),
            _ => {}
        }
        if let Some(class) = CLASSES.iter().find(|class| **class == name) {
            return Some(Self::Class(class));
        }
        let long = LONG_NAMES.iter().find(|(long, _)| *long == name);
        let name = long.map_or(name, |(_, short)| short);
        let figure = FIGURES.iter().find(|figure| figure.name == name);
        figure.map(Self::Figure)
    }

    /// The words that its bound may be; empty where it is a number.
    pub(super) fn states(&self) -> &'static [&'static str] {
        match self {
            Self::Class(_) | Self::Safety => &STATES,
            Self::Outcome => &OUTCOMES,
            _ => &[],
        }
    }

    pub(super) fn unit(&self) -> Unit {
        match self {
            Self::Figure(figure) => figure.unit,
            Self::Latency(..) | Self::OfVerdict(OfVerdict::Worst, _) => Unit::Time,
            _ => Unit::Number,
        }
    }

    pub(super) fn number_words(&self, value: f64) -> String {
        self.unit().words(value)
    }

    /// A figure with its interval.
    pub(super) fn words(&self, figure: &Estimate) -> String {
        let point = self.number_words(figure.median);
        match (figure.low, figure.high) {
            (Some(low), Some(high)) => format!(
                "{point} ({}–{})",
                self.number_words(low),
                self.number_words(high)
            ),
            _ => point,
        }
    }

    /// What a row or a scenario has of it.
    pub(super) fn of(&self, place: &Place<'_>) -> Found {
        match (self, place) {
            (Self::Figure(figure), place) => of_figure(figure, place),
            (Self::Latency(quantile, latency), Place::Row(row)) => match (latency.of)(row) {
                // Nobody waited, or nothing of the kind was measured.
                None => Found::Nothing,
                Some(quantiles) => of_quantile(*quantile, latency.name, quantiles, row),
            },
            (Self::OfVerdict(what, class), Place::Scenario(result)) => {
                match result.verdicts.get(class) {
                    Some(verdict) => of_verdict(*what, verdict, result),
                    None => Found::Nothing,
                }
            }
            (Self::Class(class), Place::Scenario(result)) => match result.verdicts.get(class) {
                Some(verdict) => Found::Word(verdict.state.word().to_owned()),
                None => Found::Nothing,
            },
            // A benchmark watches for two holders at once: of the five verdicts it knows this one.
            (Self::Safety | Self::Class("contract"), Place::Row(row)) => {
                Found::Word(row.safety.state.word().to_owned())
            }
            (Self::Outcome, Place::Scenario(result)) => {
                Found::Word(result.outcome().words().replace(' ', "-"))
            }
            _ => Found::Nothing,
        }
    }
}

fn of_figure(figure: &Figure, place: &Place<'_>) -> Found {
    let estimate = match (&figure.of, place) {
        (Source::Row(of), Place::Row(row)) => of(row),
        (Source::Scenario(of), Place::Scenario(result)) => {
            let estimate = of(result);
            // Behind a fault that was never come through there is no figure, and that is no reason to pass.
            if estimate.is_none() && figure.name == "recovery" && !result.faults.is_empty() {
                return Found::Figure(point(f64::INFINITY));
            }
            estimate
        }
        _ => None,
    };
    estimate.map_or(Found::Nothing, Found::Figure)
}

fn of_quantile(quantile: Quantile, name: &str, quantiles: &Quantiles, row: &BenchRow) -> Found {
    let ns = match quantile {
        Quantile::P50 => quantiles.p50,
        Quantile::P90 => quantiles.p90,
        Quantile::P99 => quantiles.p99,
        Quantile::P999 => quantiles.p999,
        Quantile::Max => quantiles.max,
    };
    let certainty = &row.measures.certainty;
    let interval = match (quantile, name) {
        (Quantile::P50, "acquire") => certainty.acquire_p50_ns,
        (Quantile::P99, "acquire") => certainty.acquire_p99_ns,
        (Quantile::P50, "handoff") => certainty.handoff_p50_ns,
        _ => None,
    };
    match ns {
        None => Found::Missing(format!(
            "too few samples for it: {}",
            units::count(quantiles.n)
        )),
        Some(ns) => Found::Figure(Estimate {
            median: ns as f64,
            low: interval.map(|interval| interval.low),
            high: interval.map(|interval| interval.high),
        }),
    }
}

fn of_verdict(what: OfVerdict, verdict: &Verdict, result: &ScenarioResult) -> Found {
    if verdict.state == crate::verdict::State::Unknown {
        return Found::Missing("the verdict is unknown".to_owned());
    }
    match what {
        OfVerdict::Count => Found::Figure(point(verdict.count as f64)),
        OfVerdict::Worst => Found::Figure(point(verdict.worst_ns as f64)),
        OfVerdict::PerMinute if result.load_ns > 0 => {
            Found::Figure(point(verdict.count as f64 * 60e9 / result.load_ns as f64))
        }
        OfVerdict::PerMinute => Found::Missing("the load has no length".to_owned()),
    }
}

/// Everything that can stand in a condition, in lines for a help text.
pub fn help() -> String {
    let figures: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
    let latencies: Vec<&str> = LATENCIES.iter().map(|latency| latency.name).collect();
    let quantiles: Vec<&str> = QUANTILES.iter().map(|(name, _)| *name).collect();
    let counts: Vec<&str> = OF_VERDICT.iter().map(|(name, _)| *name).collect();
    format!(
        "Figures: {}\nLatencies: {} of {}\nVerdicts: {} == {}; {} of them\nOthers: safety == {}; outcome == {}\n",
        figures.join(", "),
        quantiles.join(", "),
        latencies.join(", "),
        CLASSES.join(", "),
        STATES.join(", "),
        counts.join(", "),
        STATES.join(", "),
        OUTCOMES.join(", ")
    )
}
