//! What the names of conditions mean at a row or a scenario.

use itertools::Itertools;

use super::{ConditionValue, Measured};
use crate::record::figure::{
    Figure, LATENCIES, LOST_WAKEUPS, Latency, OF_ROWS, OF_SCENARIOS, QUANTILES, Quantile, Unit, point,
};
use crate::record::run::{BenchRow, Estimate, ScenarioResult};
use crate::record::verdict::{CLASSES, State, Verdict};
use crate::wording::units;

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

pub(super) fn names() -> Vec<&'static str> {
    let rows = OF_ROWS.iter().map(|figure| figure.gate);
    rows.chain(OF_SCENARIOS.iter().map(|figure| figure.gate)).filter(|name| !name.is_empty()).collect()
}

/// The figure of a name in conditions, or of that in `run.json`, with its unit or without.
fn named<T>(all: &'static [Figure<T>], name: &str) -> Option<&'static Figure<T>> {
    all.iter().find(|figure| {
        let known = [figure.gate, figure.name, &figure.name.replace("_us_", "_")];
        !figure.gate.is_empty() && known.contains(&name)
    })
}

/// What of a verdict is a number: name, unit, and value, given the load's length where it needs one.
pub(super) type OfVerdict = (&'static str, Unit, fn(&Verdict, u64) -> Option<f64>);

pub(super) static OF_VERDICT: [OfVerdict; 3] = [
    ("count", Unit::Number, |verdict, _| Some(verdict.count as f64)),
    ("worst", Unit::Time, |verdict, _| Some(verdict.worst_ns as f64)),
    ("per_minute", Unit::Number, Verdict::rate_per_minute),
];

#[derive(Debug)]
pub(super) enum Value {
    OfRow(&'static Figure<BenchRow>),
    OfScenario(&'static Figure<ScenarioResult>),
    Latency(Quantile, &'static Latency),
    OfVerdict(&'static OfVerdict, &'static str),
    Class(&'static str),
    Safety,
    Outcome,
}

/// The words of a state that may stand behind `==`.
pub(super) static STATES: [&str; 3] = ["clean", "violated", "unknown"];
pub(super) static OUTCOMES: [&str; 3] = ["as-expected", "not-as-expected", "unknown"];

impl Value {
    /// What a word without brackets means.
    pub(super) fn by_name(name: &str) -> Option<Self> {
        let class = CLASSES.into_iter().find(|class| *class == name);
        match (name, class) {
            ("safety", _) => Some(Self::Safety),
            ("outcome", _) => Some(Self::Outcome),
            (_, Some(class)) => Some(Self::Class(class)),
            _ => (named(OF_ROWS, name).map(Self::OfRow))
                .or_else(|| named(OF_SCENARIOS, name).map(Self::OfScenario)),
        }
    }

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
            Self::Latency(..) => Unit::Time,
            Self::OfVerdict((_, unit, _), _) => *unit,
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

    /// A figure with its interval, with so many digits that it does not look like a `bound` that it is not.
    pub(super) fn words(&self, figure: &Estimate, bound: Option<f64>) -> String {
        let rounded = self.number_words(figure.median);
        let alike = |bound: &f64| *bound != figure.median && self.number_words(*bound) == rounded;
        let point = bound.filter(alike).map_or(rounded, |bound| self.digits(figure.median, bound));
        match figure.low.zip(figure.high).map(<[f64; 2]>::from) {
            Some(ends) => {
                let [low, high] = ends.map(|end| self.number_words(end));
                format!("{point} ({low}–{high})")
            }
            None => point,
        }
    }

    /// A number in its unit, with the digits that tell it from another.
    fn digits(&self, value: f64, other: f64) -> String {
        let (scale, unit) = match self.unit() {
            Unit::Time => (1.0, " ns"),
            Unit::Cpu => (1.0, " µs"),
            Unit::Rate => (1.0, "/s"),
            Unit::Share => (100.0, " %"),
            Unit::Number => (1.0, ""),
        };
        let written = |decimals: usize| {
            let [value, other] = [value, other].map(|n| format!("{:.decimals$}", n * scale));
            (value != other).then_some(value)
        };
        (0..16).find_map(written).unwrap_or_else(|| (value * scale).to_string()) + unit
    }

    pub(super) fn of(&self, place: &Measured<'_>) -> ConditionValue {
        match (self, place) {
            (Self::OfRow(figure), Measured::Row(row))
                if figure.name == LOST_WAKEUPS.name && !row.is_woken() =>
            {
                ConditionValue::NotApplicable("nobody wakes the waiters of a lock that polls")
            }
            (Self::OfRow(figure), Measured::Row(row)) => found((figure.of)(row)),
            // Where a lock never recovered from a fault there is no figure, and that is no reason to pass.
            (Self::OfScenario(figure), Measured::Scenario(result)) => match (figure.of)(result) {
                None if figure.gate == "recovery" && !result.faults.is_empty() => {
                    ConditionValue::Figure(point(f64::INFINITY))
                }
                estimate => found(estimate),
            },
            (Self::Latency(quantile, latency), Measured::Row(row)) => {
                match ((latency.of)(row), latency.at(*quantile, row)) {
                    // No task waited, or nothing of the kind was measured.
                    (None, _) => ConditionValue::Nothing,
                    (_, Some(figure)) => ConditionValue::Figure(figure),
                    (Some(quantiles), None) => {
                        let n = units::count(quantiles.n);
                        ConditionValue::Missing(format!("too few samples for it: {n}"))
                    }
                }
            }
            (Self::OfVerdict(what, class), Measured::Scenario(result)) => {
                let verdict = result.verdicts.get(class);
                verdict.map_or(ConditionValue::Nothing, |verdict| of_verdict(what, verdict, result.load_ns))
            }
            (Self::Class(class), Measured::Scenario(result)) => {
                let verdict = result.verdicts.get(class);
                verdict.map_or(ConditionValue::Nothing, |verdict| state(verdict.state))
            }
            // A benchmark watches for two holders at once: of the five verdicts it knows this one.
            (Self::Safety | Self::Class("contract"), Measured::Row(row)) => state(row.safety.state),
            (Self::Outcome, Measured::Scenario(result)) => {
                ConditionValue::Word(result.outcome().words().replace(' ', "-"))
            }
            _ => ConditionValue::Nothing,
        }
    }
}

fn found(estimate: Option<Estimate>) -> ConditionValue {
    estimate.map_or(ConditionValue::Nothing, ConditionValue::Figure)
}

fn state(state: State) -> ConditionValue {
    ConditionValue::Word(state.word().to_owned())
}

fn of_verdict((_, _, of): &OfVerdict, verdict: &Verdict, load_ns: u64) -> ConditionValue {
    match of(verdict, load_ns) {
        _ if verdict.state == State::Unknown => ConditionValue::Missing("the verdict is unknown".to_owned()),
        Some(figure) => ConditionValue::Figure(point(figure)),
        None => ConditionValue::Missing("the load has no length".to_owned()),
    }
}

/// Everything that can stand in a condition, in lines for a help text.
pub fn help() -> String {
    let figures = names().join(", ");
    let latencies = LATENCIES.iter().map(|latency| latency.name).join(", ");
    let quantiles = QUANTILES.iter().map(|(name, _)| name).join(", ");
    let counts = OF_VERDICT.iter().map(|(name, ..)| name).join(", ");
    let [classes, states] = [&CLASSES[..], &STATES].map(|words| words.join(", "));
    let outcomes = OUTCOMES.join(", ");
    format!(
        "Figures: {figures}\nLatencies: {quantiles} of {latencies}\nVerdicts: {classes} == {states}; {counts} of them\n\
         Others: safety == {states}; outcome == {outcomes}\n"
    )
}
