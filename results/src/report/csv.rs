//! Comma-separated values in the long form: one figure per line, so that new figures add no columns.

use std::collections::BTreeMap;

use itertools::Itertools;

use super::number_among;
use crate::record::figure::{
    ACQUIRE, CLIENT_CPU, COMMANDS, CYCLES, Figure, HANDOFF, JAIN, Latency, QUANTILES, RELEASE, SERVER_CALLS,
    SERVER_CPU,
};
use crate::record::run::{BenchRow, Run, ScenarioResult};

/// The document: a heading and a line per figure.
pub(super) fn render(run: &Run) -> String {
    let mut out =
        String::from("part,subject,topology,name,tasks,metric,value,low,high,kind,added_rtt_ns,run,number\n");
    let mut known = BTreeMap::new();
    for row in &run.rows {
        let (kind, rtt_ns) = (row.measures.load.kind.clone(), row.added_rtt_ns());
        let apart = [kind.unwrap_or_default(), whole(rtt_ns)];
        let key = (&row.subject, &row.topology, &row.workload, row.tasks);
        let of = (row.origin.as_str(), apart);
        let number = number_among(&mut known, (key, of.clone()));
        bench(&mut out, row, &tail(run, of, number));
    }
    let mut known = BTreeMap::new();
    for result in &run.scenarios {
        let key = (&result.subject, &result.topology, &result.name);
        let of = (result.origin.as_str(), <[String; 2]>::default());
        let number = number_among(&mut known, (key, of.clone()));
        scenario(&mut out, result, &tail(run, of, number));
    }
    out
}

/// What tells rows of the same place apart: kind, added round trip, run, and number.
type Tail = [String; 4];

fn tail(run: &Run, (origin, [kind, rtt_ns]): (&str, [String; 2]), number: u32) -> Tail {
    let from = if origin.is_empty() { run.name() } else { origin };
    [kind, rtt_ns, from.to_owned(), number.to_string()]
}

const FIGURES: [(Figure<BenchRow>, &[Latency]); 6] = [
    (CYCLES, &[ACQUIRE, RELEASE, HANDOFF]),
    (COMMANDS, &[]),
    (SERVER_CALLS, &[]),
    (SERVER_CPU, &[]),
    (CLIENT_CPU, &[]),
    (JAIN, &[]),
];

fn bench(out: &mut String, row: &BenchRow, tail: &Tail) {
    let (tasks, workload) = (row.tasks.to_string(), row.workload.as_str());
    let place = ["bench", &row.subject, &row.topology, workload, &tasks];
    let mut line = |metric: &str, value: String, low: Option<f64>, high: Option<f64>| {
        push(out, place, [metric, &value, &number(low), &number(high)], tail);
    };
    line("safety", row.safety.state.word().to_owned(), None, None);
    line("valid", row.valid.to_string(), None, None);
    line("rounds", row.rounds.to_string(), None, None);
    line("censored", row.censored.to_string(), None, None);
    // A figure of a lock that was not safe is void, and a spreadsheet does not look at the line above.
    if row.is_void() {
        return;
    }
    for (figure, latencies) in FIGURES {
        let found = (figure.of)(row);
        let value = number(found.map(|found| found.median));
        let (low, high) = found.map_or((None, None), |found| (found.low, found.high));
        line(figure.name, value, low, high);
        for latency in latencies {
            let Some(quantiles) = (latency.of)(row) else {
                continue;
            };
            for (name, of) in QUANTILES {
                line(&format!("{}_{name}_ns", latency.name), whole(of(quantiles)), None, None);
            }
        }
    }
}

fn scenario(out: &mut String, result: &ScenarioResult, tail: &Tail) {
    let (name, topology) = (result.name.as_str(), result.topology.as_str());
    let place = ["scenario", &result.subject, topology, name, ""];
    let mut line = |metric: &str, value: String| {
        push(out, place, [metric, &value, "", ""], tail);
    };
    for (class, verdict) in result.verdicts.iter() {
        line(class, verdict.state.word().to_owned());
        line(&format!("{class}_count"), verdict.count.to_string());
        line(&format!("{class}_worst_ns"), verdict.worst_ns.to_string());
    }
    line("as_expected", result.as_expected.to_string());
    line("exit_code", result.exit_code.to_string());
    line("grants_per_s", number(Some(result.grants_per_s)));
    line("first_grant_after_fault_ns", whole(result.recovery.first_grant_after_fault_ns));
    for (operation, endings) in &result.operations {
        for (ending, count) in endings {
            line(&format!("{operation}_{ending}"), count.to_string());
        }
    }
}

pub(super) fn number(value: Option<f64>) -> String {
    let value = value.filter(|value| value.is_finite());
    value.map_or(String::new(), |value| value.to_string())
}

fn whole(value: Option<u64>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

fn push(out: &mut String, place: [&str; 5], figure: [&str; 4], tail: &Tail) {
    let fields = place.into_iter().chain(figure).chain(tail.iter().map(String::as_str));
    out.push_str(&fields.map(quoted).join(","));
    out.push('\n');
}

/// Quoted as in RFC 4180 where needed. What a spreadsheet would take for a formula gets an apostrophe.
fn quoted(field: &str) -> String {
    let formula = field.starts_with(['=', '+', '@', '\t', '\r'])
        || (field.starts_with('-') && field.parse::<f64>().is_err());
    let field = format!("{}{field}", if formula { "'" } else { "" });
    if field.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
}
