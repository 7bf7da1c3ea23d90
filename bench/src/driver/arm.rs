//! Runs one round of one arm and adds what it gave to the arm's sums.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use hdrhistogram::Histogram;

use super::{BenchPlan, Hooks, Leasing, kind_of};
use crate::{
    server_stats::ServerWatch,
    subject::{ConnectTo, Subject, SubjectError, is_shared},
    workload::{
        Asks, LeaseOf, Workload,
        ledger::Passed,
        record::{Coarse, PARTS, Samples, histogram, merge},
        round::{self, Crew, Disturbance, Little, Load, Round, Spent},
    },
};

/// The lease that is renewed where renewal is measured: short enough that a window of a second sees some.
const RENEWED: Duration = Duration::from_secs(3);
/// The lease where neither the plan nor the workload cares.
const USUAL: Duration = Duration::from_secs(30);

/// A subject under one workload with one number of tasks, and its rounds so far.
pub(super) struct Arm {
    pub(super) subject: Arc<dyn Subject>,
    pub(super) workload: &'static Workload,
    pub(super) tasks: u32,
    pub(super) rounds: Vec<RoundFigures>,
    pub(super) samples: Samples,
    pub(super) passed: Passed,
    pub(super) lag: Histogram<u64>,
    pub(super) margin: Histogram<u64>,
    pub(super) holds: u64,
    /// The first overlap, in words.
    pub(super) overlap: Option<String>,
}

/// What is kept of a round beside the merged histograms.
pub(super) struct RoundFigures {
    pub(super) cycles: u64,
    pub(super) seconds: f64,
    pub(super) cycles_per_s: f64,
    pub(super) cycles_per_part: [u32; PARTS],
    pub(super) acquire_per_part: Vec<Coarse>,
    pub(super) handoff_per_part: Vec<Coarse>,
    pub(super) handoff_p50: Option<f64>,
    pub(super) jain: f64,
    pub(super) starved: u64,
    pub(super) share_min: Option<f64>,
    pub(super) most_inside: Option<u64>,
    pub(super) grants: u64,
    pub(super) to_another: u64,
    pub(super) due: u64,
    pub(super) renewed: u64,
    pub(super) lost: u64,
    pub(super) little: Little,
    pub(super) spent: Spent,
    pub(super) disturbance: Disturbance,
}

impl RoundFigures {
    /// What was spent per cycle by clients, where it can be told.
    pub(super) fn per_cycle(&self, what: Option<f64>) -> Option<f64> {
        what.filter(|_| self.spent.cycles > 0)
            .map(|what| what / self.spent.cycles as f64)
    }

    /// What was spent per cycle by servers.
    pub(super) fn per_server_cycle(&self, what: Option<f64>) -> Option<f64> {
        what.filter(|_| self.spent.cycles_at_servers > 0)
            .map(|what| what / self.spent.cycles_at_servers as f64)
    }
}

impl Arm {
    pub(super) fn new(subject: Arc<dyn Subject>, workload: &'static Workload, tasks: u32) -> Self {
        Arm {
            subject,
            workload,
            tasks,
            rounds: Vec::new(),
            samples: Samples::new(),
            passed: Passed::default(),
            lag: histogram(),
            margin: histogram(),
            holds: 0,
            overlap: None,
        }
    }

    pub(super) fn title(&self) -> String {
        format!(
            "{}, {}, {} tasks",
            self.subject.name(),
            self.workload.name,
            self.tasks
        )
    }

    /// What its cycles ask for.
    pub(super) fn asks(&self, plan: &BenchPlan) -> Asks {
        self.workload.asks.with(&plan.asks)
    }

    /// How many lock names a round needs.
    pub(super) fn locks(&self, plan: &BenchPlan) -> u32 {
        let locks = self.workload.locks(self.tasks, plan.locks);
        locks.max(self.asks(plan).fewest_locks())
    }

    /// Whether it is known how many may hold a lock at once: a single reader or permit says nothing of the others, and is not judged.
    pub(super) fn judged(&self, plan: &BenchPlan) -> bool {
        let kinds = self.subject.kinds();
        let kind = match plan.kind.as_str() {
            "" => kinds.first().map_or("", String::as_str),
            kind => kind,
        };
        self.asks(plan) != Asks::One || !is_shared(kind)
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
    pub(super) fn add(&mut self, plan: &BenchPlan, whole: WholeRound, counted: bool) {
        let WholeRound { round, locks } = whole;
        self.holds += round.judge.seen;
        if let (None, Some(overlap), true) =
            (&self.overlap, &round.judge.overlap, self.judged(plan))
        {
            let too_many = match self.asks(plan).permits() {
                Some(permits) => format!("more than {permits} permits of"),
                None => "two holds of".to_owned(),
            };
            self.overlap = Some(format!(
                "{too_many} `{}` overlapped for {:?} at {:?} of round {}",
                locks[overlap.lock as usize],
                Duration::from_nanos(overlap.to_ns - overlap.from_ns),
                Duration::from_nanos(overlap.from_ns),
                self.rounds.len() + 1
            ));
        }
        if !counted {
            return;
        }
        self.samples.merge(&round.samples);
        merge(&mut self.passed.handoff, &round.passed.handoff);
        merge(&mut self.passed.notified, &round.passed.notified);
        merge(&mut self.margin, &round.renewed.margin);
        let passed = &mut self.passed;
        passed.grants += round.passed.grants;
        passed.to_another += round.passed.to_another;
        passed.to_itself += round.passed.to_itself;
        passed.inversions += round.passed.inversions;
        passed.idle_ns += round.passed.idle_ns;
        passed.lost_wakeups += round.passed.lost_wakeups;
        passed.most_bypasses = passed.most_bypasses.max(round.passed.most_bypasses);
        passed.longest_idle_ns = passed.longest_idle_ns.max(round.passed.longest_idle_ns);
        if let Some(offered) = &round.offered {
            merge(&mut self.lag, &offered.lag);
        }
        let quantile =
            |h: &Histogram<u64>, q: f64| (!h.is_empty()).then(|| h.value_at_quantile(q) as f64);
        let seconds = round.elapsed.as_secs_f64();
        self.rounds.push(RoundFigures {
            cycles: round.cycles,
            seconds,
            cycles_per_s: round.cycles as f64 / seconds,
            cycles_per_part: round.samples.cycles_per_part,
            handoff_p50: quantile(&round.passed.handoff, 0.5),
            jain: crate::stats::jain(&round.per_task),
            starved: round.starved,
            share_min: round.share_min,
            most_inside: round.most_inside,
            grants: round.passed.grants,
            to_another: round.passed.to_another,
            due: round.offered.as_ref().map_or(0, |offered| offered.due),
            renewed: round.renewed.renewed,
            lost: round.renewed.lost,
            little: round.little,
            spent: round.spent,
            disturbance: round.disturbance,
            handoff_per_part: round.passed.handoff_per_part,
            acquire_per_part: round.samples.acquire_per_part,
        });
    }
}

/// A round that went to its end.
pub(super) struct WholeRound {
    round: Round,
    locks: Vec<String>,
}

impl WholeRound {
    /// Share of CPU time that the hypervisor took.
    pub(super) fn steal(&self) -> f64 {
        self.round.disturbance.steal
    }
}

/// How a round ended.
pub(super) enum Ended {
    Whole(Box<WholeRound>),
    /// Why; nothing of it is kept.
    CutShort(String),
}

/// One round with fresh connections and fresh names.
pub(super) async fn run_round(
    plan: &BenchPlan,
    arm: &Arm,
    at: usize,
    round: usize,
    servers: Option<&ServerWatch>,
    hooks: &Hooks,
) -> Result<Ended, SubjectError> {
    if hooks.cancelled() {
        return Ok(Ended::CutShort("interrupted".into()));
    }
    let asks = arm.asks(plan);
    let count = arm.locks(plan);
    let (workload, tasks) = (arm.workload.name, arm.tasks);
    let locks: Vec<String> = (0..count)
        .map(|i| format!("{}{workload}:{tasks}:{at}:{round}:{i}", plan.key_prefix))
        .collect();
    let mut crew = connect(plan, arm, round).await?;
    let load = Load {
        workload: arm.workload,
        subject: arm.subject.clone(),
        connect: connect_to(plan, arm, round, 0),
        tasks,
        locks: locks.clone(),
        asks,
        kind: kind_of(&plan.kind, arm.subject.as_ref(), arm.workload.name)?,
        lease: arm.lease(plan),
        wait: plan.wait,
        hold: plan.hold.unwrap_or(arm.workload.hold),
        think: plan.think.unwrap_or(arm.workload.think),
        warmup: plan.warmup,
        duration: plan.duration,
        pace: plan.pace,
        seed: seed(plan, round, 0),
    };
    let measured = round::run(load, &mut crew, servers, || hooks.cancelled()).await;
    join_all(crew.clients.into_iter().filter_map(|client| {
        // Tasks are over, so nobody else has it.
        Arc::into_inner(client).map(|client| client.close())
    }))
    .await;
    Ok(match measured.cut_short {
        Some(why) => Ended::CutShort(why),
        None => Ended::Whole(Box::new(WholeRound {
            round: measured,
            locks,
        })),
    })
}

fn seed(plan: &BenchPlan, round: usize, client: u32) -> u64 {
    plan.seed
        .wrapping_mul(1_000_003)
        .wrapping_add(round as u64 * 1_009 + u64::from(client))
}

pub(super) fn connect_to(plan: &BenchPlan, arm: &Arm, round: usize, number: u32) -> ConnectTo {
    let renewed = arm.workload.lease == LeaseOf::Renewed;
    ConnectTo {
        target: plan.target.clone(),
        client: format!("c{number}"),
        seed: seed(plan, round, number),
        durability: plan.durability.clone(),
        watchdog: match plan.lease {
            Leasing::Fixed(lease) if renewed => Some(lease),
            _ => renewed.then_some(RENEWED),
        },
        log: None,
        env: Vec::new(),
    }
}

async fn connect(plan: &BenchPlan, arm: &Arm, round: usize) -> Result<Crew, SubjectError> {
    let mut crew = Crew {
        clients: Vec::new(),
        events: Vec::new(),
    };
    for number in 1..=plan.clients.min(arm.tasks) {
        let to = connect_to(plan, arm, round, number);
        let connected = arm.subject.connect(&to).await?;
        crew.clients.push(Arc::new(connected.client));
        if arm.workload.listens {
            crew.events.push(connected.events);
        }
        // Else nobody listens to events, so the receiver is dropped and a subject need not pass them on.
    }
    Ok(crew)
}
