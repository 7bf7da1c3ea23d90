//! Comparisons of arms measured side by side, with the first once more as the measure of no difference.

use results::run::{Comparison, Ratio};

use super::{BenchOutcome, BenchPlan, arm::Arm};
use crate::{round::Round, stats::paired};

/// Adds the comparisons of one group with its first arm; `again` is that arm's twin, if there is one.
pub(super) fn add(plan: &BenchPlan, group: &[Arm], again: Option<&Arm>, outcome: &mut BenchOutcome) {
    let Some((base, others)) = group.split_first() else { return };
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
        if is_piped(plan, base) != is_piped(plan, other) {
            outcome.warnings.push(format!(
                "{} and {} are not compared: only one of them is measured through a driver's pipe; `--own-loop` measures both without it",
                base.title(),
                other.title()
            ));
            continue;
        }
        outcome.comparisons.extend(compare(plan, base, other, again));
    }
}

/// Whether an arm's figures contain a pipe.
fn is_piped(plan: &BenchPlan, arm: &Arm) -> bool {
    !plan.own_loop && (plan.client_processes || arm.subject.program().is_some())
}

/// `topology/workload/tasks`, and what else sets rows apart; of two topologies both, with `+` between.
fn place(plan: &BenchPlan, a: &Arm, b: &Arm) -> String {
    let mut place = a.place.topology.clone();
    if b.place.topology != place {
        place.push_str(&format!("+{}", b.place.topology));
    }
    place.push_str(&format!("/{}/{}", a.workload.name, a.tasks));
    if let Some(rtt) = plan.added_rtt {
        place.push_str(&format!("/+{rtt:?}"));
    }
    place
}

/// The figures that are compared, declared beforehand; a positive sign: more is better.
fn figures(arm: &Arm) -> Vec<(&'static str, Vec<f64>)> {
    let mut figures = vec![("cycles_per_s", arm.each(Round::cycles_per_s))];
    let gaps: Option<Vec<f64>> = arm.each(Round::handoff_p50);
    if let (Some(gaps), true) = (gaps, arm.workload.hands_off) {
        figures.push(("handoff_ns", gaps));
    }
    figures
}

fn compare(plan: &BenchPlan, a: &Arm, b: &Arm, again: Option<&Arm>) -> Vec<Comparison> {
    let (of_a, of_b) = (figures(a), figures(b));
    let of_again = again.map(figures).unwrap_or_default();
    let ratio = |metric: &str, of_a: &[f64], others: &[(&str, Vec<f64>)]| -> Option<Ratio> {
        let (_, values) = others.iter().find(|(name, _)| *name == metric)?;
        paired::ratio(of_a, values)
    };
    let mut comparisons: Vec<Comparison> = of_a
        .iter()
        .filter_map(|(metric, values)| {
            let (_, others) = of_b.iter().find(|(name, _)| name == metric)?;
            let test = paired::test(values, others);
            Some(Comparison {
                a: a.lock(plan),
                b: b.lock(plan),
                metric: (*metric).to_owned(),
                r#where: place(plan, a, b),
                ratio: ratio(metric, values, &of_b)?,
                verdict: String::new(),
                same_again: ratio(metric, values, &of_again),
                p: test.map(|test| test.p),
                p_adjusted: None,
                detectable: test.map(|test| test.detectable),
            })
        })
        .collect();
    // For a caller who looks at one target only; a caller that has several decides over all of them again.
    results::decide::decide(&mut comparisons);
    comparisons
}
