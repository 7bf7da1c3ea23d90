//! One subject under one workload with one number of tasks: its rounds, and their sums.

use std::{sync::Arc, time::Duration};

use futures_util::future::{join_all, try_join_all};
use serde::{Deserialize, Serialize};

use super::{BenchPlan, Hooks, Leasing, Placement, kind_among, kind_of};
use crate::{
    load::{Connector, Load},
    round::{self, Clients, Round, ledger::HandoffCounts, record::Samples},
    server_stats::ServerWatch,
    stats::histogram::Latencies,
    subject::{ConnectTo, Connected, Subject, SubjectError, counted_durability, is_shared},
    workload::{CycleShape, LeaseOf, Rhythm, Spread, Workload},
};

/// The lease that is renewed where renewal is measured: short enough that a window of a second sees some.
const RENEWED: Duration = Duration::from_secs(3);
/// The lease where neither the plan nor the workload cares.
const USUAL: Duration = Duration::from_secs(30);

/// A subject under one workload with one number of tasks, and its rounds so far.
pub(super) struct Arm {
    pub(super) subject: Arc<dyn Subject>,
    pub(super) place: Placement,
    pub(super) workload: &'static Workload,
    pub(super) tasks: u32,
    /// Whether holds go by the names of their grants: a lock of the same run knows no other way.
    pub(super) by_name: bool,
    /// Without their samples, which are merged here, but for those of each part.
    pub(super) rounds: Vec<Round>,
    pub(super) samples: Samples,
    pub(super) passed: HandoffCounts,
    pub(super) lag: Latencies,
    pub(super) margin: Latencies,
    pub(super) holds: u64,
    pub(super) overlap: Option<String>,
}

impl Arm {
    /// The kind of lock that its cycles ask for, where that is another than the subject's own.
    pub(super) fn kind(&self, plan: &BenchPlan) -> Option<String> {
        let kinds = self.subject.kinds();
        let foreign = !plan.kind.is_empty() && kinds.first() != Some(&plan.kind);
        foreign.then(|| plan.kind.clone())
    }

    pub(super) fn lock(&self, plan: &BenchPlan) -> String {
        results::measures::lock(self.subject.name(), self.kind(plan).as_deref())
    }

    pub(super) fn title(&self) -> String {
        let (subject, workload) = (self.subject.name(), self.workload.name);
        format!("{subject}, {workload}, {} tasks", self.tasks)
    }

    pub(super) fn locks(&self, plan: &BenchPlan) -> u32 {
        self.workload.locks(self.tasks, plan.locks).max(self.workload.asks.fewest_locks())
    }

    /// Those of them that tasks of this generator take.
    pub(super) fn own_locks(&self, plan: &BenchPlan) -> u32 {
        let (locks, tasks) = (self.locks(plan), self.tasks);
        if plan.share.of == 1 || self.workload.spread != Spread::Own {
            return locks;
        }
        let own = (0..plan.share.count(tasks)).map(|own| plan.share.number(own));
        own.map(|task| locks.saturating_sub(task).div_ceil(tasks)).sum()
    }

    /// Whether it is known how many may hold a lock at once: a single reader or permit is not judged.
    pub(super) fn judged(&self, plan: &BenchPlan) -> bool {
        let kinds = self.subject.kinds();
        let kind = match plan.kind.as_str() {
            "" => kinds.first().map_or("", String::as_str),
            kind => kind,
        };
        self.workload.asks != CycleShape::One || !is_shared(kind)
    }

    /// Whether tasks of several generators take the same locks: none of them sees all holds.
    pub(super) fn is_shared_out(&self, plan: &BenchPlan) -> bool {
        plan.generators > 1 && self.workload.spread != Spread::Own
    }

    pub(super) fn hold(&self, plan: &BenchPlan) -> Duration {
        plan.hold.unwrap_or(self.workload.hold)
    }

    pub(super) fn lease(&self, plan: &BenchPlan) -> Option<Duration> {
        let wished = match plan.lease {
            Leasing::Usual => Some(USUAL),
            Leasing::Fixed(lease) => Some(lease),
            Leasing::Renewed => None,
        };
        self.workload.lease(wished, plan.lease != Leasing::Usual)
    }

    /// Adds a round; one that is not to be `counted` still says whether the lock was safe.
    pub(super) fn add(&mut self, whole: WholeRound, counted: bool) {
        let WholeRound { mut round, overlap } = whole;
        self.holds += round.judge.seen;
        self.overlap = self.overlap.take().or(overlap);
        if !counted {
            return;
        }
        self.samples.merge(&round.samples);
        self.passed.merge(&round.passed);
        self.margin.merge(&round.renewed.margin);
        if let Some(offered) = &round.offered {
            self.lag.merge(&offered.lag);
        }
        round.samples.keep_parts();
        self.rounds.push(round);
    }

    /// The first overlap of a round, in words, where this lock is judged.
    fn overlap_of(
        &self,
        plan: &BenchPlan,
        locks: &[String],
        (number, round): (usize, &Round),
    ) -> Option<String> {
        let overlap = round.judge.overlap.filter(|_| self.judged(plan))?;
        let too_many = match self.workload.asks.permits() {
            Some(permits) => format!("more than {permits} permits of"),
            None => "two holds of".to_owned(),
        };
        Some(format!(
            "{too_many} `{}` overlapped for {:?} at {:?} of round {}",
            locks[overlap.lock as usize],
            Duration::from_nanos(overlap.to_ns - overlap.from_ns),
            Duration::from_nanos(overlap.from_ns),
            number + 1
        ))
    }

    pub(super) fn each<T, R: FromIterator<T>>(&self, figure: impl FnMut(&Round) -> T) -> R {
        self.rounds.iter().map(figure).collect()
    }

    pub(super) fn sum<T, R: std::iter::Sum<T>>(&self, figure: impl FnMut(&Round) -> T) -> R {
        self.rounds.iter().map(figure).sum()
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct WholeRound {
    pub(super) round: Round,
    /// What was seen of two holds at once, in words.
    pub(super) overlap: Option<String>,
}

pub(super) enum RoundEnd {
    Whole(Box<WholeRound>),
    /// Why; nothing of it is kept.
    CutShort(String),
}

pub(super) async fn run_round(
    plan: &BenchPlan,
    arm: &Arm,
    (at, step): (usize, u64),
    round: usize,
    servers: Option<&ServerWatch>,
    hooks: &Hooks,
) -> Result<RoundEnd, SubjectError> {
    let asks = arm.workload.asks;
    let count = arm.locks(plan);
    let (workload, tasks) = (arm.workload.name, arm.tasks);
    let locks: Vec<String> =
        (0..count).map(|i| format!("{}{workload}:{tasks}:{at}:{round}:{i}", plan.key_prefix)).collect();
    let mut clients = connect(plan, arm, round).await?;
    let kind = kind_of(&plan.kind, arm.subject.as_ref(), arm.workload.name)?;
    let (hold, think) = (arm.hold(plan), arm.workload.think);
    let round_plan = round::Plan {
        load: Load {
            workload: arm.workload,
            tasks,
            share: plan.share,
            locks: locks.clone(),
            mix: asks.mix(&kind),
            together: asks.fewest_locks(),
            permits: asks.permits().unwrap_or(1),
            lease: arm.lease(plan),
            wait: Some(plan.wait),
            hold: (hold, hold),
            think: (think, think),
            pace: plan.pace,
            seed: seed(plan, round, 0),
            by_name: arm.by_name,
            ..Load::default()
        },
        asks,
        connector: Connector::new(arm.subject.clone(), connect_to(plan, arm, round, 0)),
        warmup: plan.warmup,
        duration: plan.duration,
        meeting: hooks.barrier.clone().map(|barrier| (barrier, step)),
    };
    let mut measured = round::run(round_plan, &mut clients, servers, || hooks.cancelled()).await;
    join_all(clients.clients.into_iter().filter_map(|client| {
        // Tasks are over, so nobody else has it.
        Arc::into_inner(client).map(|client| client.close())
    }))
    .await;
    Ok(match measured.cut_short {
        Some(why) => RoundEnd::CutShort(why),
        None => {
            let overlap = arm.overlap_of(plan, &locks, (round, &measured));
            if arm.is_shared_out(plan) {
                measured.forget_hand_offs();
            }
            RoundEnd::Whole(Box::new(WholeRound { round: measured, overlap }))
        }
    })
}

fn seed(plan: &BenchPlan, round: usize, client: u32) -> u64 {
    plan.seed
        .wrapping_mul(1_000_003)
        .wrapping_add(u64::from(plan.share.index) << 32)
        .wrapping_add(round as u64 * 1_009 + u64::from(client))
}

pub(super) fn connect_to(plan: &BenchPlan, arm: &Arm, round: usize, number: u32) -> ConnectTo {
    let renewed = arm.workload.lease == LeaseOf::Renewed;
    // Servers that decide it by themselves cannot be asked.
    let durability = match arm.subject.durability() {
        Some(_) => "none",
        None => &plan.durability,
    };
    let (target, client) = (&arm.place.target, format!("c{number}"));
    let durability = &counted_durability(durability, target, arm.place.replicas);
    ConnectTo {
        watchdog: match plan.lease {
            Leasing::Fixed(lease) if renewed => Some(lease),
            _ => renewed.then_some(RENEWED),
        },
        ..ConnectTo::new(target, &client, seed(plan, round, number), durability)
    }
}

/// Connects one client. A driver says only now which kinds it has: the plan's kind is looked for there.
pub(super) async fn connect_client(
    plan: &BenchPlan,
    arm: &Arm,
    round: usize,
    number: u32,
) -> Result<Connected, SubjectError> {
    let connected = arm.subject.connect(&connect_to(plan, arm, round, number)).await?;
    kind_among(&plan.kind, arm.subject.name(), connected.client.kinds(), arm.workload)?;
    Ok(connected)
}

async fn connect(plan: &BenchPlan, arm: &Arm, round: usize) -> Result<Clients, SubjectError> {
    let mut all = Clients { clients: Vec::new(), events: Vec::new() };
    let own = 0..plan.share.count(plan.clients.min(arm.tasks));
    // Side by side: what a driver may take to say hello is then one time for all of them.
    let connecting = own.map(async |own| connect_client(plan, arm, round, plan.share.number(own) + 1).await);
    for connected in try_join_all(connecting).await? {
        all.clients.push(Arc::new(connected.client));
        if arm.workload.rhythm == Rhythm::Keep {
            all.events.push(connected.events);
        }
        // Else nobody listens to events, so the receiver is dropped and a subject need not pass them on.
    }
    Ok(all)
}
