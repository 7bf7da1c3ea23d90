//! `locklab bench --sweep`: rows at rising levels, one curve per subject and topology, with its knee.

use std::time::Duration;

use bench::driver::BenchPlan;
use bench::sweep::knee::{Answer, Knee, Search, Step};
use bench::sweep::levels;
use bench::workload::{self, Pace};
use clap::ValueEnum;
use cluster_config::{Links, Topology};
use results::measures::{KneeAt, Sweep, SweepPoint, UnknownRate};
use results::run::BenchRow;

use super::bench::{Options, plan, up};
use super::bench_run::{Ended, measure};
use super::run::Keeper;
use crate::exit;

/// What is raised from level to level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Over {
    /// Tasks, up to --tasks (256)
    Tasks,
    /// Cycles offered per second, from --rate (1000/s) on, until they are not kept: the knee; a window lasts for 120 cycles at least
    Rate,
}

/// Refuses workloads that a level would not raise.
pub(super) fn check(over: Over, workloads: &[String]) -> anyhow::Result<()> {
    let [wished] = workloads else {
        return Err(exit::usage(
            "--sweep: a curve is about one workload; name one with --workload",
        ));
    };
    let paced = workload::find(wished).map_err(exit::usage)?.paced;
    match over {
        Over::Rate if !paced => Err(exit::usage(format!(
            "--sweep rate: `{wished}` sets its own pace; choose another workload, or leave it out for `uncontended`"
        ))),
        _ => Ok(()),
    }
}

/// What a rate must do to be kept.
const KEPT: &str = "99 % of the offered cycles completed in the window and the row valid";
/// Measurements that a search for the knee may take.
const TRIES: u32 = 24;
/// No window of a search is shorter.
const SHORTEST: Duration = Duration::from_millis(500);
/// The proof of a candidate is so many times as long.
const LONG: u32 = 4;
/// So many cycles are due in a window at least, and twice as many in a proof: of fewer, one that ends behind the window is over 1 % of all, and
/// those that a valid row needs are few beside it.
const CYCLES: f64 = 120.0;

/// How long a rate is offered.
fn window(usual: Duration, rate_per_s: f64, long: bool) -> Duration {
    let (times, cycles) = if long {
        (LONG, 2.0 * CYCLES)
    } else {
        (1, CYCLES)
    };
    let enough = Duration::from_secs_f64(cycles / rate_per_s);
    (usual.max(SHORTEST) * times).max(enough)
}

/// What a row says of the rate that it was offered.
fn answer(row: &BenchRow) -> Answer {
    let pacing = row.measures.pacing.as_ref();
    let late = pacing.is_some_and(|pacing| !pacing.is_kept());
    match (row.valid, late) {
        (true, _) => Answer::Kept,
        (false, true) => Answer::NotKept,
        (false, false) => Answer::Unknown,
    }
}

/// Measures all levels.
pub(crate) async fn run(
    over: Over,
    options: &Options,
    keeper: &mut Keeper,
) -> anyhow::Result<Option<Ended>> {
    let mut lab = Lab { options, keeper };
    if let Some(url) = &options.target {
        return lab.levels_at(over, url, "external").await;
    }
    for kind in &options.topology {
        let (topology, name) = (Topology::of(*kind), kind.name());
        let deployment = up(options, topology, Links::Direct, name, lab.keeper).await?;
        let ended = lab.levels_at(over, &deployment.url(), name).await;
        deployment.down().await?;
        if let Some(ended) = ended? {
            return Ok(Some(ended));
        }
    }
    Ok(None)
}

struct Lab<'a> {
    options: &'a Options,
    keeper: &'a mut Keeper,
}

impl Lab<'_> {
    async fn levels_at(
        &mut self,
        over: Over,
        url: &str,
        topology: &str,
    ) -> anyhow::Result<Option<Ended>> {
        let base = plan(self.options, url, topology, self.keeper);
        if over == Over::Rate {
            return self.knees(&base).await;
        }
        let most = self.options.tasks.iter().max().copied();
        let (mut ended, mut done) = (None, Vec::new());
        for level in levels(most.unwrap_or(256)) {
            let plan = with(&base, |plan| plan.tasks = vec![level]);
            ended = self.level(f64::from(level), &plan, &mut done).await?;
            if ended.is_some() {
                break;
            }
        }
        self.keep(over, done);
        Ok(ended)
    }

    /// Measures a plan, and puts its rows with their level behind the others.
    async fn level(
        &mut self,
        level: f64,
        plan: &BenchPlan,
        done: &mut Vec<(f64, BenchRow)>,
    ) -> anyhow::Result<Option<Ended>> {
        let begin = self.keeper.run.rows.len();
        let ended = measure(plan, self.keeper).await?;
        let rows = self.keeper.run.rows[begin..].iter().cloned();
        done.extend(rows.map(|row| (level, row)));
        Ok(ended)
    }

    /// Sets the rows of each subject beside each other.
    fn keep(&mut self, over: Over, done: Vec<(f64, BenchRow)>) {
        let mut subjects: Vec<&str> = done.iter().map(|(_, row)| row.subject.as_str()).collect();
        subjects.sort_unstable();
        subjects.dedup();
        for subject in subjects {
            let rows = done.iter().filter(|(_, row)| row.subject == subject);
            let rows: Vec<&(f64, BenchRow)> = rows.collect();
            self.keeper.run.sweeps.push(curve(over, &rows));
        }
    }

    async fn knees(&mut self, base: &BenchPlan) -> anyhow::Result<Option<Ended>> {
        for subject in base.subjects.clone() {
            let mut search = Search::new(self.options.rate.unwrap_or(1_000.0), 1.0, 1e6, TRIES);
            let mut done: Vec<(f64, BenchRow)> = Vec::new();
            let mut why = String::new();
            let knee: Knee = loop {
                let (rate_per_s, long) = match search.next() {
                    Step::Done(knee) => break knee,
                    Step::Measure { rate_per_s, long } => (rate_per_s, long),
                };
                let plan = with(base, |plan| {
                    plan.subjects = vec![subject.clone()];
                    plan.rounds = 1;
                    plan.duration = window(base.duration, rate_per_s, long);
                    plan.pace = Some(Pace { rate_per_s });
                    // Room enough that the lock, not the number of tasks, is what gives way.
                    plan.tasks = vec![self.options.tasks.first().copied().unwrap_or(256)];
                });
                let ended = self.level(rate_per_s, &plan, &mut done).await?;
                if ended.is_some() {
                    return Ok(ended);
                }
                let row = done.last().map(|(_, row)| row);
                let came = row.map_or(Answer::Unknown, answer);
                if let (Answer::Unknown, Some(row)) = (came, row) {
                    why = row.why_invalid.join("; ");
                }
                search.record(came);
            };
            let unknown = knee
                .unknown_per_s
                .map(|rate_per_s| UnknownRate { rate_per_s, why });
            done.sort_by(|a, b| a.0.total_cmp(&b.0));
            let rows: Vec<&(f64, BenchRow)> = done.iter().collect();
            if rows.is_empty() {
                continue;
            }
            self.keeper.run.sweeps.push(Sweep {
                knee: Some(KneeAt {
                    good_per_s: knee.good_per_s,
                    bad_per_s: knee.bad_per_s,
                    unknown,
                    rule: KEPT.to_owned(),
                }),
                ..curve(Over::Rate, &rows)
            });
        }
        Ok(None)
    }
}

fn name(over: Over) -> String {
    over.to_possible_value()
        .map_or(String::new(), |value| value.get_name().to_owned())
}

/// The rows of one subject, level by level.
fn curve(over: Over, rows: &[&(f64, BenchRow)]) -> Sweep {
    let first = rows.first().map(|(_, row)| row.clone()).unwrap_or_default();
    Sweep {
        over: name(over),
        subject: first.subject,
        kind: first.measures.load.kind,
        topology: first.topology,
        workload: first.workload,
        points: rows.iter().map(|(level, row)| point(*level, row)).collect(),
        ..Sweep::default()
    }
}

/// The plan with one change.
fn with(base: &BenchPlan, change: impl FnOnce(&mut BenchPlan)) -> BenchPlan {
    let mut plan = base.clone();
    change(&mut plan);
    plan
}

fn point(level: f64, row: &BenchRow) -> SweepPoint {
    SweepPoint {
        level,
        cycles_per_s: row.cycles_per_s,
        latency_ns: row.measures.response_ns.unwrap_or(row.acquire_ns),
        handoff_p50_ns: row.handoff_ns.and_then(|handoff| handoff.p50),
        commands_per_cycle: row.commands_per_cycle,
        server_cpu_us_per_cycle: row.server_cpu_us_per_cycle,
        valid: row.valid,
    }
}

#[cfg(test)]
mod tests {
    use results::measures::Pacing;

    use super::*;

    #[test]
    fn a_window_is_long_enough_for_the_cycles_that_a_row_needs() {
        let usual = Duration::from_millis(200);
        assert_eq!(window(usual, 1_000.0, false), SHORTEST);
        assert_eq!(window(usual, 1_000.0, true), SHORTEST * LONG);
        assert_eq!(window(usual, 20.0, false), Duration::from_secs(6));
        assert_eq!(window(usual, 20.0, true), Duration::from_secs(12));
        assert_eq!(window(Duration::from_secs(9), 20.0, false).as_secs(), 9);
    }

    #[test]
    fn only_a_schedule_that_was_not_kept_is_a_rate_that_was_not() {
        let mut row = BenchRow::default();
        let offered = |achieved_per_s| {
            Some(Pacing {
                offered_per_s: 100.0,
                achieved_per_s,
                ..Pacing::default()
            })
        };
        row.measures.pacing = offered(98.0);
        assert_eq!(answer(&row), Answer::NotKept);
        row.measures.pacing = offered(100.0);
        assert_eq!(answer(&row), Answer::Unknown, "invalid for another reason");
        row.valid = true;
        assert_eq!(answer(&row), Answer::Kept);
    }
}
