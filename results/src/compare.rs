//! Turns two or more runs into what differs between them, and how surely; measures nothing.
//!
//! Runs of different times are compared by the range of their rounds alone: conservative, since a machine may have changed in
//! between. A change must move the whole range to be shown. Rows of one run, interleaved, say more; they are compared where
//! they are measured.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::decide::EQUIVALENCE;
use crate::run::{BenchRow, Comparison, Estimate, Ratio, Run, SCHEMA, ScenarioResult};
use crate::verdict::State;

/// A figure of a benchmark row, and which direction is good.
#[derive(Debug)]
pub struct Metric {
    /// Its name, as in [`Comparison::metric`].
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Whether more is better.
    pub higher_is_better: bool,
    /// The figure; `None` where the row has none.
    pub of: fn(&BenchRow) -> Option<Estimate>,
}

/// All figures that are compared.
pub static METRICS: [Metric; 5] = [
    Metric {
        name: "cycles_per_s",
        unit: "1/s",
        higher_is_better: true,
        of: |row| Some(row.cycles_per_s),
    },
    Metric {
        name: "acquire_p50_ns",
        unit: "ns",
        higher_is_better: false,
        of: |row| row.acquire_ns.p50.map(|ns| point(ns as f64)),
    },
    Metric {
        name: "acquire_p99_ns",
        unit: "ns",
        higher_is_better: false,
        of: |row| row.acquire_ns.p99.map(|ns| point(ns as f64)),
    },
    Metric {
        name: "commands_per_cycle",
        unit: "1",
        higher_is_better: false,
        of: |row| row.commands_per_cycle.map(point),
    },
    Metric {
        name: "server_cpu_us_per_cycle",
        unit: "µs",
        higher_is_better: false,
        of: |row| row.server_cpu_us_per_cycle.map(point),
    },
];

fn point(median: f64) -> Estimate {
    Estimate {
        median,
        low: None,
        high: None,
    }
}

/// What `compare --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunComparison {
    /// The form's version.
    pub schema: u32,
    /// The base run.
    pub base: String,
    /// Figures, side by side.
    pub comparisons: Vec<Against>,
    /// Verdicts that changed.
    pub scenarios: Vec<VerdictChange>,
    /// How many scenarios the runs have in common with the base; those without a change are not listed.
    pub scenarios_in_common: usize,
    /// Configuration that differs, and may be the reason.
    pub differences: Vec<Difference>,
    /// Rows that were left out, and why.
    pub left_out: Vec<String>,
}

/// A comparison, with the run that its `b` is from; its `a` is from the base. Both name the subject.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Against {
    /// The run of `b`.
    pub run: String,
    /// The comparison.
    #[serde(flatten)]
    pub comparison: Comparison,
}

/// A verdict, or an outcome, that is another than in the base.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VerdictChange {
    /// The run that is compared with the base.
    pub run: String,
    /// The scenario's name.
    pub scenario: String,
    /// Its topology.
    pub topology: String,
    /// Its subject.
    pub subject: String,
    /// One of the five classes, or `outcome`.
    pub class: String,
    /// In the base.
    pub a: String,
    /// In the run.
    pub b: String,
}

/// A setting that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The run that is compared with the base.
    pub run: String,
    /// The setting, e.g. `environment.cores` or `servers.redis.version`.
    pub field: String,
    /// In the base; empty if it is not there.
    pub a: String,
    /// In the run; empty if it is not there.
    pub b: String,
}

/// Why runs cannot be compared.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompareError {
    /// Fewer than two were given.
    #[error("two runs or more are needed to compare, the first is the base; {0} given")]
    TooFew(usize),
    /// A run has no row and no scenario that the base has.
    #[error(
        "{other} and {base} have nothing in common: no row of the same subject, topology, workload and tasks, and no scenario \
         of the same name, topology and subject"
    )]
    NothingInCommon {
        /// The base.
        base: String,
        /// The run.
        other: String,
    },
}

/// Compares every run with the first. Rows match on subject, topology, workload and tasks; scenarios on name, topology and
/// subject. Where several are alike (an A/A pair, repeats), the first of one goes with the first of the other, and so on.
pub fn compare(runs: &[Run]) -> Result<RunComparison, CompareError> {
    let [base, others @ ..] = runs else {
        return Err(CompareError::TooFew(0));
    };
    if others.is_empty() {
        return Err(CompareError::TooFew(1));
    }
    let mut result = RunComparison {
        schema: SCHEMA,
        base: base.run.clone(),
        comparisons: Vec::new(),
        scenarios: Vec::new(),
        scenarios_in_common: 0,
        differences: Vec::new(),
        left_out: Vec::new(),
    };
    for other in others {
        let rows = pairs(&base.rows, &other.rows, row_key);
        let scenarios = pairs(&base.scenarios, &other.scenarios, scenario_key);
        if rows.is_empty() && scenarios.is_empty() {
            return Err(CompareError::NothingInCommon {
                base: base.run.clone(),
                other: other.run.clone(),
            });
        }
        for (a, b) in &rows {
            if [a, b].iter().any(|row| row.safety.state == State::Violated) {
                result.left_out.push(format!(
                    "{}: {}: void, the lock was not safe",
                    other.run,
                    row_key(b)
                ));
                continue;
            }
            if !(a.valid && b.valid) {
                result.left_out.push(format!(
                    "{}: {}: invalid, so nothing is shown by it",
                    other.run,
                    row_key(b)
                ));
            }
            result
                .comparisons
                .extend(compare_rows(a, b).into_iter().map(|comparison| Against {
                    run: other.run.clone(),
                    comparison,
                }));
        }
        for (a, b) in &scenarios {
            changes(&other.run, a, b, &mut result.scenarios);
        }
        result.scenarios_in_common += scenarios.len();
        result
            .differences
            .extend(differences(base, other, &rows, &scenarios));
    }
    Ok(result)
}

/// Compares every metric that both rows have, `b` against `a`. Of rows that are invalid the verdict is `not-shown`.
pub fn compare_rows(a: &BenchRow, b: &BenchRow) -> Vec<Comparison> {
    METRICS
        .iter()
        .filter_map(|metric| {
            let ratio = ratio(&(metric.of)(a)?, &(metric.of)(b)?)?;
            let verdict = if a.valid && b.valid {
                verdict(&ratio, metric.higher_is_better)
            } else {
                "not-shown"
            };
            Some(Comparison {
                a: a.subject.clone(),
                b: b.subject.clone(),
                metric: metric.name.to_owned(),
                r#where: format!("{}/{}/{}", b.topology, b.workload, b.tasks),
                ratio,
                verdict: verdict.to_owned(),
                ..Comparison::default()
            })
        })
        .collect()
}

/// b over a, from the lowest that it can be to the highest; `None` where a ratio has no meaning.
fn ratio(a: &Estimate, b: &Estimate) -> Option<Ratio> {
    let good = |value: f64| value.is_finite() && value > 0.0;
    if !good(a.median) || !good(b.median) {
        return None;
    }
    let interval = match (a.low, a.high, b.low, b.high) {
        (Some(a_low), Some(a_high), Some(b_low), Some(b_high))
            if good(a_low) && good(a_high) && good(b_low) && good(b_high) =>
        {
            Some((b_low / a_high, b_high / a_low))
        }
        _ => None,
    };
    Some(Ratio {
        point: b.median / a.median,
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
    })
}

/// `better` or `worse` if the interval leaves out 1, else `equivalent` if it is wholly within [`EQUIVALENCE`], else
/// `not-shown`; without an interval nothing is shown.
pub fn verdict(ratio: &Ratio, higher_is_better: bool) -> &'static str {
    let (Some(low), Some(high)) = (ratio.low, ratio.high) else {
        return "not-shown";
    };
    if low > 1.0 {
        if higher_is_better { "better" } else { "worse" }
    } else if high < 1.0 {
        if higher_is_better { "worse" } else { "better" }
    } else if low >= 1.0 - EQUIVALENCE && high <= 1.0 + EQUIVALENCE {
        "equivalent"
    } else {
        "not-shown"
    }
}

fn row_key(row: &BenchRow) -> String {
    let load = &row.measures.load;
    let rate = load.rate_per_s.map(|rate| format!(" at {rate}/s"));
    let rtt = load
        .added_rtt_ns
        .map(|ns| format!(" with {ns} ns more of round trip"));
    format!(
        "{} on {}/{}/{}{}{}",
        row.subject,
        row.topology,
        row.workload,
        row.tasks,
        rate.unwrap_or_default(),
        rtt.unwrap_or_default()
    )
}

fn scenario_key(result: &ScenarioResult) -> String {
    format!(
        "{} on {} with {}",
        result.name, result.topology, result.subject
    )
}

/// The n-th of a key in `a` with the n-th of that key in `b`, in the order of `a`.
fn pairs<'a, T>(a: &'a [T], b: &'a [T], key: impl Fn(&T) -> String) -> Vec<(&'a T, &'a T)> {
    let mut waiting: BTreeMap<String, std::collections::VecDeque<&T>> = BTreeMap::new();
    for item in b {
        waiting.entry(key(item)).or_default().push_back(item);
    }
    a.iter()
        .filter_map(|item| Some((item, waiting.get_mut(&key(item))?.pop_front()?)))
        .collect()
}

fn changes(run: &str, a: &ScenarioResult, b: &ScenarioResult, out: &mut Vec<VerdictChange>) {
    let mut change = |class: &str, before: &str, after: &str| {
        if before != after {
            out.push(VerdictChange {
                run: run.to_owned(),
                scenario: b.name.clone(),
                topology: b.topology.clone(),
                subject: b.subject.clone(),
                class: class.to_owned(),
                a: before.to_owned(),
                b: after.to_owned(),
            });
        }
    };
    for ((class, one), (_, other)) in a.verdicts.iter().zip(b.verdicts.iter()) {
        change(class, one.state.word(), other.state.word());
    }
    change("outcome", a.outcome().words(), b.outcome().words());
}

fn differences(
    base: &Run,
    other: &Run,
    rows: &[(&BenchRow, &BenchRow)],
    scenarios: &[(&ScenarioResult, &ScenarioResult)],
) -> Vec<Difference> {
    let mut a = settings(base);
    let mut b = settings(other);
    for (one, two) in rows {
        for (settings, row) in [(&mut a, one), (&mut b, two)] {
            settings.insert(format!("{}: locks", row_key(row)), row.locks.to_string());
            settings.insert(format!("{}: rounds", row_key(row)), row.rounds.to_string());
        }
    }
    for (one, two) in scenarios {
        for (settings, result) in [(&mut a, one), (&mut b, two)] {
            let key = scenario_key(result);
            settings.insert(format!("{key}: kind"), result.kind.clone());
            settings.insert(format!("{key}: seed"), result.seed.to_string());
            settings.insert(format!("{key}: durability"), result.durability.clone());
            // Loads end when their last operation does, so only whole seconds are a setting.
            settings.insert(
                format!("{key}: load_s"),
                format!("{:.0}", result.load_ns as f64 / 1e9),
            );
            let faults: Vec<String> = result
                .faults
                .iter()
                .map(|fault| format!("{} {}", fault.fault, fault.targets.join("+")))
                .collect();
            settings.insert(format!("{key}: faults"), faults.join(", "));
        }
    }
    let fields: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    fields
        .into_iter()
        .filter(|field| a.get(*field) != b.get(*field))
        .map(|field| Difference {
            run: other.run.clone(),
            field: field.clone(),
            a: a.get(field).cloned().unwrap_or_default(),
            b: b.get(field).cloned().unwrap_or_default(),
        })
        .collect()
}

fn settings(run: &Run) -> BTreeMap<String, String> {
    let environment = &run.meta.environment;
    let mut settings: BTreeMap<String, String> = [
        ("command", run.command.clone()),
        ("command_line", run.meta.command_line.join(" ")),
        ("seed", run.meta.seed.to_string()),
        ("version", run.meta.version.clone()),
        ("commit", run.meta.commit.clone()),
        ("partial", run.partial.to_string()),
        ("environment.host", environment.host.clone()),
        ("environment.cpu", environment.cpu.clone()),
        ("environment.cores", environment.cores.to_string()),
        (
            "environment.memory_bytes",
            environment.memory_bytes.to_string(),
        ),
        ("environment.kernel", environment.kernel.clone()),
        ("environment.rustc", environment.rustc.clone()),
    ]
    .map(|(field, value)| (field.to_owned(), value))
    .into();
    for (name, server) in &environment.servers {
        settings.insert(format!("servers.{name}.version"), server.version.clone());
        settings.insert(format!("servers.{name}.config"), server.config.join("; "));
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Meta, Safety};

    fn row(subject: &str, median: f64, spread: Option<f64>) -> BenchRow {
        BenchRow {
            subject: subject.to_owned(),
            topology: "single".to_owned(),
            workload: "uncontended".to_owned(),
            tasks: 64,
            cycles_per_s: Estimate {
                median,
                low: spread.map(|spread| median * (1.0 - spread)),
                high: spread.map(|spread| median * (1.0 + spread)),
            },
            valid: true,
            ..BenchRow::default()
        }
    }

    fn run(name: &str, rows: Vec<BenchRow>) -> Run {
        Run {
            rows,
            ..Run::new(name, "bench", Meta::default())
        }
    }

    fn cycles(a: BenchRow, b: BenchRow) -> String {
        let result = compare(&[run("a", vec![a]), run("b", vec![b])]).expect("a common row");
        result.comparisons[0].comparison.verdict.clone()
    }

    #[test]
    fn a_change_must_move_the_whole_range() {
        assert_eq!(
            cycles(row("s", 100.0, Some(0.05)), row("s", 120.0, Some(0.05))),
            "better"
        );
        assert_eq!(
            cycles(row("s", 120.0, Some(0.05)), row("s", 100.0, Some(0.05))),
            "worse"
        );
        assert_eq!(
            cycles(row("s", 100.0, Some(0.05)), row("s", 108.0, Some(0.05))),
            "not-shown"
        );
        assert_eq!(
            cycles(row("s", 100.0, Some(0.005)), row("s", 100.2, Some(0.005))),
            "equivalent"
        );
        assert_eq!(
            cycles(row("s", 100.0, None), row("s", 900.0, Some(0.01))),
            "not-shown"
        );
    }

    #[test]
    fn less_is_better_where_less_is_good() {
        let ratio = Ratio {
            point: 2.0,
            low: Some(1.9),
            high: Some(2.1),
        };
        assert_eq!(verdict(&ratio, false), "worse");
        assert_eq!(verdict(&ratio, true), "better");
    }

    #[test]
    fn invalid_rows_show_nothing_and_unsafe_ones_are_left_out() {
        let invalid = BenchRow {
            valid: false,
            ..row("s", 900.0, Some(0.01))
        };
        assert_eq!(cycles(row("s", 100.0, Some(0.01)), invalid), "not-shown");
        let unsafe_row = BenchRow {
            safety: Safety {
                state: State::Violated,
            },
            ..row("s", 900.0, Some(0.01))
        };
        let runs = [
            run("a", vec![row("s", 100.0, None)]),
            run("b", vec![unsafe_row]),
        ];
        let result = compare(&runs).expect("a common row");
        assert!(result.comparisons.is_empty());
        assert_eq!(
            result.left_out,
            ["b: s on single/uncontended/64: void, the lock was not safe"]
        );
    }

    #[test]
    fn nothing_in_common_is_an_error_and_not_an_empty_answer() {
        let runs = [
            run("a", vec![row("s", 1.0, None)]),
            run("b", vec![row("t", 1.0, None)]),
        ];
        let message = compare(&runs).expect_err("nothing in common").to_string();
        assert!(
            message.starts_with("b and a have nothing in common"),
            "{message}"
        );
        assert_eq!(compare(&runs[..1]), Err(CompareError::TooFew(1)));
        assert_eq!(compare(&[]), Err(CompareError::TooFew(0)));
    }

    #[test]
    fn changed_verdicts_and_settings_are_listed() {
        let scenario = |state, seed| {
            let mut result = ScenarioResult {
                name: "failover".to_owned(),
                seed,
                as_expected: true,
                ..ScenarioResult::default()
            };
            result.verdicts.contract.state = state;
            result
        };
        let mut a = run("a", vec![]);
        a.scenarios = vec![scenario(State::Clean, 7)];
        let mut b = run("b", vec![]);
        b.scenarios = vec![scenario(State::Violated, 8)];
        b.meta.environment.cores = 8;
        let result = compare(&[a, b]).expect("a common scenario");
        assert_eq!(result.scenarios.len(), 1);
        let change = &result.scenarios[0];
        assert_eq!(
            (change.class.as_str(), change.a.as_str(), change.b.as_str()),
            ("contract", "clean", "violated")
        );
        let fields: Vec<&str> = result
            .differences
            .iter()
            .map(|difference| difference.field.as_str())
            .collect();
        assert_eq!(fields, ["environment.cores", "failover on  with : seed"]);
        assert_eq!(result.scenarios_in_common, 1);
    }

    #[test]
    fn twins_are_matched_in_order() {
        let a = run("a", vec![row("s", 100.0, None), row("s", 200.0, None)]);
        let b = run("b", vec![row("s", 100.0, None), row("s", 200.0, None)]);
        let result = compare(&[a, b]).expect("common rows");
        assert_eq!(result.comparisons.len(), 2);
        assert!(
            result
                .comparisons
                .iter()
                .all(|against| against.comparison.ratio.point == 1.0)
        );
    }

    #[test]
    fn the_json_has_the_promised_fields() {
        let runs = [
            run("a", vec![row("s", 1.0, None)]),
            run("b", vec![row("s", 2.0, None)]),
        ];
        let value = serde_json::to_value(compare(&runs).expect("a common row")).expect("json");
        assert_eq!(value["schema"], 1);
        assert_eq!(value["base"], "a");
        let first = &value["comparisons"][0];
        for (field, expected) in [
            ("a", "s"),
            ("b", "s"),
            ("metric", "cycles_per_s"),
            ("where", "single/uncontended/64"),
            ("verdict", "not-shown"),
            ("run", "b"),
        ] {
            assert_eq!(first[field], expected, "{field}");
        }
        assert_eq!(first["ratio"]["point"], 2.0);
        assert!(first["ratio"]["low"].is_null());
        assert!(value["differences"].is_array());
    }
}
