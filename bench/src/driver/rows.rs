//! Turns an arm's rounds into a row, and two arms into a comparison.

use results::{
    run::{BenchRow, Comparison, Estimate, Quantiles, Safety},
    verdict::State,
};

use super::{BenchOutcome, BenchPlan, arm::Arm};
use crate::stats;

/// A round with fewer cycles says nothing about a rate.
const FEWEST_CYCLES: u64 = 30;
/// How far Little's law may be off before stamps must have been lost; three standard errors of the sampling come on top.
const LITTLE: f64 = 0.05;

/// What is to be said of this build and machine, whatever was measured.
pub(super) fn warnings() -> Vec<String> {
    let mut warnings = Vec::new();
    if cfg!(debug_assertions) {
        warnings.push(
            "built without optimisation: the client's share of every figure is too large".into(),
        );
    }
    warnings
}

/// Adds the rows of one group, and the comparisons with its first arm.
pub(super) fn add(plan: &BenchPlan, group: &[Arm], outcome: &mut BenchOutcome) {
    for arm in group.iter().filter(|arm| !arm.rounds.is_empty()) {
        outcome.rows.push(row(plan, arm));
    }
    let Some((base, others)) = group.split_first() else {
        return;
    };
    for other in others {
        if base.rounds.is_empty() || other.rounds.is_empty() {
            continue;
        }
        if let Some(void) = [base, other].iter().find(|arm| arm.overlap.is_some()) {
            outcome.warnings.push(format!(
                "{} was not safe while it was measured, so it is compared with nothing",
                void.title()
            ));
            continue;
        }
        let comparisons = compare(plan, base, other);
        outcome.comparisons.extend(comparisons);
    }
}

fn row(plan: &BenchPlan, arm: &Arm) -> BenchRow {
    let mut why_invalid = Vec::new();
    if let Some(overlap) = &arm.overlap {
        why_invalid.push(format!("the lock was not safe: {overlap}"));
    }
    if let Some(round) = arm.rounds.iter().find(|r| r.cycles < FEWEST_CYCLES) {
        why_invalid.push(format!(
            "too few cycles: {} in a round, {FEWEST_CYCLES} are needed; measure longer",
            round.cycles
        ));
    }
    if arm.errors > 0 {
        why_invalid.push(format!(
            "{} calls ended in an error, the first: {}",
            arm.errors,
            arm.first_error.as_deref().unwrap_or("unknown")
        ));
    }
    why_invalid.extend(little(arm));
    let state = if arm.overlap.is_some() {
        State::Violated
    } else if arm.holds == 0 || !arm.exclusive(plan) {
        State::Unknown
    } else {
        State::Clean
    };
    BenchRow {
        subject: arm.subject.name().to_owned(),
        topology: plan.topology.clone(),
        workload: arm.workload.name.to_owned(),
        tasks: arm.tasks,
        locks: arm.workload.locks(arm.tasks, plan.locks),
        rounds: u32::try_from(arm.rounds.len()).unwrap_or(u32::MAX),
        cycles_per_s: over_rounds(arm),
        acquire_ns: stats::quantiles(&arm.acquire),
        release_ns: stats::quantiles(&arm.release),
        handoff_ns: handoff(arm),
        commands_per_cycle: median_of(arm, |r| r.commands),
        server_calls_per_cycle: median_of(arm, |r| r.server_calls),
        server_cpu_us_per_cycle: median_of(arm, |r| r.server_cpu_us),
        client_cpu_us_per_cycle: median_of(arm, |r| r.client_cpu_us),
        jain: stats::median(&arm.rounds.iter().map(|r| r.jain).collect::<Vec<_>>()),
        censored: arm.censored,
        safety: Safety { state },
        valid: why_invalid.is_empty(),
        why_invalid,
    }
}

fn over_rounds(arm: &Arm) -> Estimate {
    let rates: Vec<f64> = arm.rounds.iter().map(|r| r.cycles_per_s).collect();
    stats::estimate(&rates)
}

fn handoff(arm: &Arm) -> Option<Quantiles> {
    (!arm.handoff.is_empty()).then(|| stats::quantiles(&arm.handoff))
}

/// The median over rounds, if every round has the figure.
fn median_of(arm: &Arm, figure: impl Fn(&super::arm::RoundFigures) -> Option<f64>) -> Option<f64> {
    let values: Option<Vec<f64>> = arm.rounds.iter().map(figure).collect();
    values.map(|values| stats::median(&values))
}

/// Little's law over all rounds: why the row cannot be believed, if it does not hold.
fn little(arm: &Arm) -> Option<String> {
    let n = arm.rounds.len() as f64;
    let sum = |part: fn(&crate::workload::closed_loop::Little) -> f64| {
        arm.rounds.iter().map(|r| part(&r.little)).sum::<f64>() / n
    };
    let (sampled, reckoned) = (sum(|l| l.sampled), sum(|l| l.reckoned));
    let error = sum(|l| l.error * l.error).sqrt() / n.sqrt();
    let off = (sampled - reckoned).abs();
    (off > LITTLE * sampled.max(reckoned) + 3.0 * error).then(|| {
        format!(
            "Little's law does not hold: {sampled:.2} calls were under way on average, but throughput and latencies say {reckoned:.2}"
        )
    })
}

fn compare(plan: &BenchPlan, a: &Arm, b: &Arm) -> Vec<Comparison> {
    let rates = |arm: &Arm| -> Vec<f64> { arm.rounds.iter().map(|r| r.cycles_per_s).collect() };
    let gaps =
        |arm: &Arm| -> Option<Vec<f64>> { arm.rounds.iter().map(|r| r.handoff_p50).collect() };
    let mut comparisons = vec![("cycles_per_s", rates(a), rates(b), true)];
    if let (Some(gaps_a), Some(gaps_b)) = (gaps(a), gaps(b)) {
        comparisons.push(("handoff_ns", gaps_a, gaps_b, false));
    }
    comparisons
        .into_iter()
        .filter_map(|(metric, of_a, of_b, more_is_better)| {
            let ratio = stats::paired_ratio(&of_a, &of_b, plan.seed)?;
            Some(Comparison {
                a: a.subject.name().to_owned(),
                b: b.subject.name().to_owned(),
                metric: metric.to_owned(),
                r#where: format!("{}/{}/{}", plan.topology, a.workload.name, a.tasks),
                verdict: stats::verdict(&ratio, more_is_better).to_owned(),
                ratio,
            })
        })
        .collect()
}
