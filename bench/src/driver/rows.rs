//! The row of an arm: figures of its rounds, and why they may not be believed.

use hdrhistogram::Histogram;
use results::intervals::Intervals;
use results::measures::{
    Certainty, HandoffMeasures, Interval, LittlesLaw, LoadShape, Measures, Noise, Pacing, RawSeries, Renewal,
    WaitTail,
};
use results::run::{BenchRow, Quantiles, Safety};
use results::verdict::State;

use super::arm::{Arm, connect_to};
use super::{BenchOutcome, BenchPlan};
use crate::load::LoadTiming;
use crate::round::{Disturbance, Little, Round};
use crate::stats::histogram::Coarse;
use crate::stats::{self, batch, blocks, censored};
use crate::workload::{LeaseOf, Spread};

/// A round with fewer cycles says nothing about a rate.
pub(super) const FEWEST_CYCLES: u64 = 30;
/// Windows of generators that began further apart than this share of their length are not one window.
const APART: f64 = 0.1;
/// How far Little's law may be off before stamps are lost; three standard errors of the sampling come on top.
const LITTLE: f64 = 0.03;
/// The generator's own lateness (p99) may be this share of the median response …
const LAG_SHARE: f64 = 0.1;
/// … or this long, below which timers and the scheduler do not go.
const LAG_FLOOR_NS: u64 = 1_000_000;

/// What is to be said of this build and machine, whatever was measured.
pub(super) fn warnings() -> Vec<String> {
    let slow = "built without optimisation: the client's share of every figure is too large";
    let slow = cfg!(debug_assertions).then(|| slow.to_owned());
    slow.into_iter().collect()
}

pub(super) fn add(plan: &BenchPlan, group: &[Arm], dropped: u32, outcome: &mut BenchOutcome) {
    for arm in group.iter().filter(|arm| !arm.rounds.is_empty()) {
        let mut row = row(plan, arm, dropped);
        let here = arm.place.target == plan.target;
        row.measures.load.round_trip_ns = outcome.round_trip.filter(|_| here).map(ns);
        outcome.rows.push(row);
    }
}

fn row(plan: &BenchPlan, arm: &Arm, dropped: u32) -> BenchRow {
    let samples = &arm.samples;
    let pacing = pacing(plan, arm);
    let response = plan.pace.map(|_| stats::quantiles(&samples[LoadTiming::Response]));
    let mut why_invalid = Vec::new();
    if let Some(overlap) = &arm.overlap {
        why_invalid.push(format!("the lock was not safe: {overlap}"));
    }
    // A renewal workload may see no renewal in a short window: its figures are the locks that it holds.
    let fewest = arm.rounds.iter().map(|r| r.cycles).min().unwrap_or(0);
    if fewest < FEWEST_CYCLES && arm.workload.lease != LeaseOf::Renewed {
        why_invalid
            .push(format!("too few cycles: {fewest} in a round, {FEWEST_CYCLES} are needed; measure longer"));
    }
    if samples.errors > 0 {
        why_invalid.push(format!(
            "{} calls ended in an error, the first: {}",
            samples.errors,
            samples.first_error.as_deref().unwrap_or("unknown")
        ));
    }
    if let (Some(pacing), Some(response)) = (&pacing, &response) {
        why_invalid.extend(not_kept(pacing, response, arm.tasks));
    }
    let lost: u64 = arm.sum(|r| r.renewed.lost);
    if lost > 0 {
        why_invalid.push(format!(
            "the library gave up {lost} locks that it was to keep: figures per held lock are of fewer than they say"
        ));
    }
    why_invalid.extend(little(arm));
    let apart = arm.rounds.iter().map(|round| round.apart).max().filter(|_| plan.generators > 1);
    if let Some(apart) = apart.filter(|apart| *apart > plan.duration.mul_f64(APART)) {
        why_invalid.push(format!(
            "the generators' windows began up to {apart:?} apart, over a tenth of {:?}",
            plan.duration
        ));
    }
    let state = if arm.overlap.is_some() {
        State::Violated
    } else if arm.holds == 0 || !arm.judged(plan) || arm.is_shared_out(plan) {
        State::Unknown
    } else {
        State::Clean
    };
    let locks = arm.own_locks(plan);
    let mut measures = measures(plan, arm, locks);
    measures.pacing = pacing;
    measures.response_ns = response;
    measures.noise = noise(arm, dropped);
    measures.load.generators_apart_ns = apart.map(ns);
    let rates: Vec<f64> = arm.each(Round::cycles_per_s);
    BenchRow {
        subject: arm.subject.name().to_owned(),
        topology: arm.place.topology.clone(),
        workload: arm.workload.name.to_owned(),
        tasks: plan.share.count(arm.tasks),
        locks,
        rounds: u32::try_from(arm.rounds.len()).unwrap_or(u32::MAX),
        cycles_per_s: stats::estimate(&rates),
        acquire_ns: stats::quantiles(&samples[LoadTiming::Acquire]),
        release_ns: stats::quantiles(&samples[LoadTiming::Release]),
        handoff_ns: handoff(arm),
        commands_per_cycle: median_of(arm, |r| r.per_cycle(r.spent.commands)),
        server_calls_per_cycle: median_of(arm, |r| r.per_server_cycle(r.spent.server_calls)),
        server_cpu_us_per_cycle: median_of(arm, |r| r.per_server_cycle(r.spent.server_cpu_us)),
        client_cpu_us_per_cycle: median_of(arm, |r| r.per_cycle(r.spent.client_cpu_us)),
        jain: jain(arm),
        censored: samples[LoadTiming::GaveUp].len(),
        safety: Safety { state },
        valid: why_invalid.is_empty(),
        why_invalid,
        measures: Box::new(measures),
        origin: String::new(),
    }
}

fn measures(plan: &BenchPlan, arm: &Arm, locks: u32) -> Measures {
    let samples = &arm.samples;
    let waited = |q| censored::quantile(&samples[LoadTiming::Acquire], &samples[LoadTiming::GaveUp], q);
    let one_task = arm.workload.name == "pairs" && !samples[LoadTiming::Acquire].is_empty();
    Measures {
        load: load_shape(plan, arm),
        passing: (arm.workload.hands_off
            && arm.passed.grants > 0
            && !plan.own_loop
            && !arm.is_shared_out(plan))
        .then(|| passing(arm)),
        renewal: (arm.workload.lease == LeaseOf::Renewed).then(|| renewal(plan, arm, locks)),
        recovery_ns: some(&samples[LoadTiming::Recovery]),
        recovery_late_ns: some(&samples[LoadTiming::RecoveryLate]),
        connect_ns: some(&samples[LoadTiming::Connect]),
        wave_ns: some(&samples[LoadTiming::Wave]),
        read_ns: some(&samples[LoadTiming::Read]),
        write_ns: some(&samples[LoadTiming::Write]),
        most_at_once: arm.rounds.iter().filter_map(|r| r.most_inside).max(),
        ten_thousand_pairs_ns: one_task.then(|| ten_thousand_pairs_ns(arm)),
        generator_cpu_us_per_cycle: median_of(arm, |r| r.spent.generator_cpu_us),
        bytes_per_cycle: median_of(arm, |r| r.per_server_cycle(r.spent.server_bytes)),
        client_bytes_per_waiter: (arm.workload.spread == Spread::One && arm.tasks > 1)
            .then(|| median_of(arm, |r| r.spent.client_memory))
            .flatten()
            .map(|bytes| bytes / f64::from(arm.tasks - 1)),
        wait_tail: (!samples[LoadTiming::GaveUp].is_empty()).then(|| WaitTail {
            p50_ns: waited(0.5),
            p90_ns: waited(0.9),
            p99_ns: waited(0.99),
        }),
        certainty: certainty(plan, arm, locks),
        littles_law: law(arm).map(|(sampled, reckoned, _)| LittlesLaw { sampled, reckoned }),
        raw: raw(plan, arm),
        ..Measures::default()
    }
}

fn ns(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn load_shape(plan: &BenchPlan, arm: &Arm) -> LoadShape {
    LoadShape {
        mode: plan.pace.map_or("closed", |_| "open").into(),
        arrivals: plan.pace.map(|_| "constant".to_owned()),
        rate_per_s: plan.pace.map(|pace| pace.rate_per_s / f64::from(plan.share.of)),
        kind: arm.kind(plan),
        hold_ns: ns(arm.hold(plan)),
        think_ns: ns(arm.workload.think),
        asks: arm.workload.asks.words(),
        lease_ns: arm.lease(plan).map(ns),
        durability: arm.place.durability.clone(),
        added_rtt_ns: plan.added_rtt.map(ns),
        round_trip_ns: None,
        direct_round_trip_ns: plan.direct_round_trip.map(ns),
        clients: plan.share.count(plan.clients.min(arm.tasks)),
        client_processes: plan.client_processes,
        own_loop: plan.own_loop,
        generators: (plan.generators > 1).then_some(plan.generators),
        generators_apart_ns: None,
        client_cores: plan.client_cores.clone(),
    }
}

fn pacing(plan: &BenchPlan, arm: &Arm) -> Option<Pacing> {
    plan.pace?;
    let seconds: f64 = arm.sum(Round::seconds);
    let due: u64 = arm.sum(|r| r.offered.as_ref().map_or(0, |offered| offered.due));
    let cycles: u64 = arm.sum(|r| r.cycles);
    Some(Pacing {
        offered_per_s: due as f64 / seconds,
        achieved_per_s: cycles as f64 / seconds,
        late: arm.samples.late,
        not_begun: due.saturating_sub(arm.samples[LoadTiming::StartLag].len()),
        lag_ns: stats::quantiles(&arm.lag),
        start_lag_ns: stats::quantiles(&arm.samples[LoadTiming::StartLag]),
    })
}

/// Why an open loop's figures are not those of its schedule.
fn not_kept(pacing: &Pacing, response: &Quantiles, tasks: u32) -> Vec<String> {
    let mut why = Vec::new();
    if !pacing.is_kept() {
        why.push(format!(
            "the schedule was not kept: {:.0} of {:.0} cycles/s were completed, {} ticks began late, {} not at all; it is more than \
             the lock can do, or more than {tasks} tasks can have under way (--tasks)",
            pacing.achieved_per_s, pacing.offered_per_s, pacing.late, pacing.not_begun
        ));
    }
    if let (Some(lag), Some(p50)) = (pacing.lag_ns.p99, response.p50)
        && lag as f64 > (LAG_SHARE * p50 as f64).max(LAG_FLOOR_NS as f64)
    {
        why.push(format!(
            "the generator itself was late: p99 of its lag is {:.2} ms, over a tenth of the median response and over 1 ms",
            lag as f64 / 1e6
        ));
    }
    why
}

fn passing(arm: &Arm) -> HandoffMeasures {
    let passed = &arm.passed;
    let seconds: f64 = arm.sum(Round::seconds);
    let commands: Option<f64> = arm.sum(|r| r.spent.commands);
    let cpu_us: Option<f64> = arm.sum(|r| r.spent.server_cpu_us);
    let acquire = &arm.samples[LoadTiming::Acquire];
    let per = |what: Option<f64>, n: u64| what.filter(|_| n > 0).map(|what| what / n as f64);
    let p50 = acquire.value_at_quantile(0.5);
    HandoffMeasures {
        grants: passed.grants,
        to_another: passed.to_another,
        to_itself: passed.to_itself,
        notified_ns: some(&passed.notified),
        commands_per_handoff: per(commands, passed.to_another),
        wasted_commands_per_grant: per(commands, passed.grants).map(|n| (n - 2.0).max(0.0)),
        server_cpu_us_per_handoff: per(cpu_us, passed.to_another),
        most_bypasses: passed.most_bypasses,
        inversions: passed.inversions as f64 / passed.grants.max(1) as f64,
        starved: arm.sum(|r| r.starved),
        share_min: median_of(arm, |r| r.share_min),
        longest_over_median: (p50 > 0).then(|| acquire.max() as f64 / p50 as f64),
        // With several locks the times of all would be added up, and that is no share of anything.
        idle: match arm.workload.spread {
            Spread::One => {
                // Of permits each is idle by itself.
                let permits = arm.workload.asks.permits().map_or(1.0, f64::from);
                passed.idle_ns as f64 / 1e9 / seconds / permits
            }
            _ => 0.0,
        },
        longest_idle_ns: passed.longest_idle_ns,
        lost_wakeups: passed.lost_wakeups,
    }
}

fn renewal(plan: &BenchPlan, arm: &Arm, locks: u32) -> Renewal {
    let seconds: f64 = arm.sum(Round::seconds);
    let thousands = f64::from(locks) / 1_000.0;
    let per = |what: fn(&Round) -> Option<f64>| {
        let sum: Option<f64> = arm.sum(what);
        sum.map(|sum| sum / seconds / thousands)
    };
    let renewed: u64 = arm.sum(|r| r.renewed.renewed);
    let margin = &arm.margin;
    Renewal {
        held: u64::from(locks),
        lease_ns: connect_to(plan, arm, 0, 0).watchdog.map(ns),
        window_ns: Some(ns(plan.duration)),
        renewals_per_s: (renewed > 0).then(|| renewed as f64 / seconds),
        commands_per_s_per_1000: per(|r| r.spent.commands),
        server_cpu_us_per_s_per_1000: median_of(arm, |r| server_us_per_s_per_1000(r, locks)),
        bytes_per_s_per_1000: per(|r| r.spent.server_bytes),
        client_cpu_us_per_s_per_1000: per(|r| r.spent.client_cpu_us),
        least_margin_ns: (!margin.is_empty()).then(|| margin.min()),
        margin_p001_ns: (margin.len() >= 20_000).then(|| margin.value_at_quantile(0.001)),
        lost: arm.sum(|r| r.renewed.lost),
        server_bytes_per_lock: median_of(arm, |r| r.spent.server_memory)
            .map(|bytes| bytes / f64::from(locks)),
        client_bytes_per_lock: median_of(arm, |r| r.spent.client_memory)
            .map(|bytes| bytes / f64::from(locks)),
    }
}

fn server_us_per_s_per_1000(round: &Round, locks: u32) -> Option<f64> {
    let thousands = f64::from(locks) / 1_000.0;
    let us = round.spent.server_cpu_us?;
    Some(us / round.seconds() / thousands)
}

/// What 10,000 pairs take one task, from the rate of all.
fn ten_thousand_pairs_ns(arm: &Arm) -> u64 {
    let rates: Vec<f64> = arm.each(Round::cycles_per_s);
    let per_task = stats::median(&rates) / f64::from(arm.tasks);
    (10_000.0 / per_task.max(1e-9) * 1e9) as u64
}

fn certainty(plan: &BenchPlan, arm: &Arm, locks: u32) -> Certainty {
    let series: Vec<Vec<f64>> = arm.each(|r: &Round| parts(plan, r).into_iter().map(f64::from).collect());
    let seconds: f64 = arm.sum(Round::seconds);
    let parts = series.iter().map(Vec::len).sum::<usize>() as f64;
    let batches = batch::means(&series);
    let interval = |parts: fn(&Round) -> &[Coarse], q: f64| {
        let rounds: Vec<_> = arm.rounds.iter().map(parts).collect();
        blocks::quantile(&rounds, q, plan.seed)
    };
    Certainty {
        cycles_coverage: stats::coverage(arm.rounds.len()),
        cycles_within_rounds: batches.as_ref().map(|b| b.interval.scaled(parts / seconds)),
        batch_lag1: batches.map(|b| b.lag1),
        acquire_p50_ns: interval(|r| &r.samples.acquire_per_part, 0.5),
        acquire_p99_ns: (arm.samples[LoadTiming::Acquire].len() >= 2_000)
            .then(|| interval(|r| &r.samples.acquire_per_part, 0.99))
            .flatten(),
        handoff_p50_ns: interval(|r| &r.passed.handoff_per_part, 0.5),
        server_cpu_us_per_cycle: interval_of(arm, |r| r.per_server_cycle(r.spent.server_cpu_us)),
        server_cpu_us_per_s_per_1000: (arm.workload.lease == LeaseOf::Renewed)
            .then(|| interval_of(arm, |r| server_us_per_s_per_1000(r, locks)))
            .flatten(),
    }
}

fn noise(arm: &Arm, dropped_rounds: u32) -> Noise {
    let worst =
        |what: fn(&Disturbance) -> f64| arm.rounds.iter().map(|r| what(&r.disturbance)).fold(0.0, f64::max);
    let pressures: Option<Vec<f64>> = arm.each(|r| r.disturbance.pressure);
    Noise {
        steal: worst(|d| d.steal),
        pressure: pressures.map(|p| p.into_iter().fold(0.0, f64::max)),
        load_average: crate::environment::load_average(),
        switches_per_s: worst(|d| d.switches_per_s),
        dropped_rounds,
    }
}

/// Cycles in each part of a round's window; a driver does not say when each of its own ended.
fn parts(plan: &BenchPlan, round: &Round) -> Vec<u32> {
    if plan.own_loop { Vec::new() } else { round.samples.cycles_per_part.to_vec() }
}

fn raw(plan: &BenchPlan, arm: &Arm) -> RawSeries {
    RawSeries {
        cycles_per_s: arm.each(Round::cycles_per_s),
        cycles_per_part: arm.each(|r| parts(plan, r)),
        acquire_ns: arm.samples[LoadTiming::Acquire].pairs(),
        handoff_ns: arm.passed.handoff.pairs(),
        acquire_over_time: acquire_over_time(arm),
    }
}

/// The parts of all rounds, one after the other, as intervals of the time of measuring.
fn acquire_over_time(arm: &Arm) -> Option<Intervals> {
    let mut samples = Vec::new();
    let mut begun_ns = 0.0;
    for round in &arm.rounds {
        let parts = &round.samples.acquire_per_part;
        let part_ns = round.seconds() * 1e9 / parts.len() as f64;
        for (number, part) in parts.iter().enumerate() {
            let middle_ns = (begun_ns + (number as f64 + 0.5) * part_ns) as u64;
            let seen = part.iter();
            samples.extend(seen.map(|(ns, times)| (middle_ns, *ns, u64::from(*times))));
        }
        begun_ns += round.seconds() * 1e9;
    }
    Intervals::of(begun_ns as u64, samples)
}

fn some(histogram: &Histogram<u64>) -> Option<Quantiles> {
    (!histogram.is_empty()).then(|| stats::quantiles(histogram))
}

/// The median over the rounds in which anybody was served; NaN, which is no figure, where nobody ever was.
fn jain(arm: &Arm) -> f64 {
    let served = arm.rounds.iter().filter_map(|r| stats::jain(&r.per_task));
    match served.collect::<Vec<_>>().as_slice() {
        [] => f64::NAN,
        served => stats::median(served),
    }
}

fn handoff(arm: &Arm) -> Option<Quantiles> {
    some(&arm.passed.handoff).filter(|_| arm.workload.hands_off)
}

fn median_of(arm: &Arm, figure: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
    let values: Option<Vec<f64>> = arm.each(figure);
    values.map(|values| stats::median(&values))
}

fn interval_of(arm: &Arm, figure: impl Fn(&Round) -> Option<f64>) -> Option<Interval> {
    let values: Option<Vec<f64>> = arm.each(figure);
    let estimate = stats::estimate(&values?);
    let (low, high) = estimate.low.zip(estimate.high)?;
    Some(Interval { low, high })
}

/// Little's law over all rounds: calls sampled, calls reckoned, standard error of the sampling.
fn law(arm: &Arm) -> Option<(f64, f64, f64)> {
    let n = arm.rounds.len() as f64;
    let sum = |part: fn(&Little) -> f64| arm.sum::<f64, f64>(|r| part(&r.little)) / n;
    let (sampled, reckoned) = (sum(|l| l.sampled), sum(|l| l.reckoned));
    let error = sum(|l| l.error * l.error).sqrt() / n.sqrt();
    (sampled > 0.0 || reckoned > 0.0).then_some((sampled, reckoned, error))
}

/// Why the row cannot be believed, if Little's law does not hold.
fn little(arm: &Arm) -> Option<String> {
    let (sampled, reckoned, error) = law(arm)?;
    let off = (sampled - reckoned).abs();
    (off > LITTLE * sampled.max(reckoned) + 3.0 * error).then(|| {
        format!(
            "Little's law does not hold: {sampled:.2} calls were under way on average, but throughput and latencies say {reckoned:.2}"
        )
    })
}
