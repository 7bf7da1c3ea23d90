//! Turns a run into the inputs of its charts.

use super::cells;
use crate::run::{BenchRow, Run, ScenarioResult};
use crate::svg::{self, Bar, Chart, DotRow, PricePoint};
use crate::verdict::State;

pub(super) const THROUGHPUT: &str = "Cycles per second";
pub(super) const LATENCY: &str = "Acquire latency";

/// The price of safety, one point per scenario with a load and a known contract verdict; `None` without any.
pub(super) fn price(run: &Run) -> Option<Chart> {
    let points: Vec<PricePoint> = run
        .scenarios
        .iter()
        .filter(|result| {
            result.verdicts.contract.state != State::Unknown && result.grants_per_s > 0.0
        })
        .filter_map(|result| {
            let violations_per_min = match result.verdicts.contract.state {
                State::Clean => 0.0,
                _ => result.per_minute("contract")?,
            };
            Some(PricePoint {
                label: label(result),
                throughput: result.grants_per_s,
                violations_per_min,
            })
        })
        .collect();
    (!points.is_empty()).then(|| svg::price(&points))
}

/// Scenarios that have no place on that chart, since their contract verdict is unknown.
pub(super) fn unplaced(run: &Run) -> Vec<&str> {
    run.scenarios
        .iter()
        .filter(|result| result.verdicts.contract.state == State::Unknown)
        .map(|result| result.name.as_str())
        .collect()
}

fn label(result: &ScenarioResult) -> String {
    if result.durability.is_empty() || result.durability == "none" {
        format!("{} · {}", result.name, result.topology)
    } else {
        format!(
            "{} · {} · {}",
            result.name, result.topology, result.durability
        )
    }
}

pub(super) fn throughput(run: &Run) -> Chart {
    let rows: Vec<Bar> = run
        .rows
        .iter()
        .map(|row| Bar {
            label: row.subject.clone(),
            detail: detail(row),
            value: (!cells::is_void(row)).then_some(row.cycles_per_s.median),
            interval: row.cycles_per_s.low.zip(row.cycles_per_s.high),
            note: VOID.to_owned(),
        })
        .collect();
    svg::bars(THROUGHPUT, "acquire and release pairs per second", &rows)
}

pub(super) fn latency(run: &Run) -> Chart {
    let rows: Vec<DotRow> = run
        .rows
        .iter()
        .map(|row| DotRow {
            label: row.subject.clone(),
            detail: detail(row),
            quantiles: (!cells::is_void(row)).then_some(row.acquire_ns),
            note: VOID.to_owned(),
        })
        .collect();
    svg::dots(LATENCY, &rows)
}

const VOID: &str = "void: not safe while it was measured";

fn detail(row: &BenchRow) -> String {
    let place = row.place();
    if row.valid || cells::is_void(row) {
        place
    } else {
        format!("{place} · invalid")
    }
}
