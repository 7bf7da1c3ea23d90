//! What the names of conditions mean at a row or a scenario.

use super::{Found, Place};
use crate::figure::{
    Figure, LATENCIES, Latency, OF_ROWS, OF_SCENARIOS, QUANTILES, Quantile, Unit, point,
};
use crate::run::{BenchRow, Estimate, ScenarioResult};
use crate::units;
use crate::verdict::{CLASSES, Verdict};

/// Bounds of CPU are times.
pub(super) const NS_PER_US: f64 = 1e3;

/// What a bound in a unit may look like. CPU is gated as a time.
pub(super) fn examples(unit: Unit) -> &'static str {
    match unit {
        Unit::Time | Unit::Cpu => "a time such as 800us, 5ms or 2s",
        Unit::Rate => "a rate such as 5000/s or 30/min",
        Unit::Share => "a share such as 5% or 0.05",
        Unit::Number => "a number",
    }
}

/// The names of all figures.
pub(super) fn names() -> Vec<&'static str> {
    let rows = OF_ROWS.iter().map(|figure| figure.gate);
    let scenarios = OF_SCENARIOS.iter().map(|figure| figure.gate);
    let names = rows.chain(scenarios);
    names.filter(|name| !name.is_empty()).collect()
}

/// The figure of a name in conditions, or of that in `run.json`, with its unit or without.
fn named<T>(all: &'static [Figure<T>], name: &str) -> Option<&'static Figure<T>> {
    all.iter().find(|figure| {
        let known = [figure.gate, figure.name, &figure.name.replace("_us_", "_")];
        !figure.gate.is_empty() && known.contains(&name)
    })
}

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
    OfRow(&'static Figure<BenchRow>),
    OfScenario(&'static Figure<ScenarioResult>),
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
            Self::OfRow(figure) => figure.gate,
            Self::OfScenario(figure) => figure.gate,
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
        let of_row = named(OF_ROWS, name).map(Self::OfRow);
        of_row.or_else(|| named(OF_SCENARIOS, name).map(Self::OfScenario))
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
            Self::OfRow(figure) => figure.unit,
            Self::OfScenario(figure) => figure.unit,
            Self::Latency(..) | Self::OfVerdict(OfVerdict::Worst, _) => Unit::Time,
            _ => Unit::Number,
        }
    }

    pub(super) fn number_words(&self, value: f64) -> String {
        match self.unit() {
            Unit::Time if value.is_infinite() => "never".to_owned(),
            Unit::Rate => format!("{}/s", Unit::Rate.words(value)),
            Unit::Cpu => Unit::Time.words(value * NS_PER_US),
            unit => unit.words(value),
        }
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
            (Self::OfRow(figure), Place::Row(row)) => found((figure.of)(row)),
            // Where a lock never recovered from a fault there is no figure, and that is no reason to pass.
            (Self::OfScenario(figure), Place::Scenario(result)) => match (figure.of)(result) {
                None if figure.gate == "recovery" && !result.faults.is_empty() => {
                    Found::Figure(point(f64::INFINITY))
                }
                estimate => found(estimate),
            },
            (Self::Latency(quantile, latency), Place::Row(row)) => match (latency.of)(row) {
                // No task waited, or nothing of the kind was measured.
                None => Found::Nothing,
                Some(quantiles) => latency.at(*quantile, row).map_or_else(
                    || {
                        let n = units::count(quantiles.n);
                        Found::Missing(format!("too few samples for it: {n}"))
                    },
                    Found::Figure,
                ),
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

fn found(estimate: Option<Estimate>) -> Found {
    estimate.map_or(Found::Nothing, Found::Figure)
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
    let latencies: Vec<&str> = LATENCIES.iter().map(|latency| latency.name).collect();
    let quantiles: Vec<&str> = QUANTILES.iter().map(|(name, _)| *name).collect();
    let counts: Vec<&str> = OF_VERDICT.iter().map(|(name, _)| *name).collect();
    format!(
        "Figures: {}\nLatencies: {} of {}\nVerdicts: {} == {}; {} of them\nOthers: safety == {}; outcome == {}\n",
        names().join(", "),
        quantiles.join(", "),
        latencies.join(", "),
        CLASSES.join(", "),
        STATES.join(", "),
        counts.join(", "),
        STATES.join(", "),
        OUTCOMES.join(", ")
    )
}
