//! Runs one round of one arm and adds what it gave to the arm's sums.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use hdrhistogram::Histogram;

use super::{BenchPlan, Hooks};
use crate::{
    server_stats::ServerWatch,
    subject::{ConnectTo, Subject, SubjectError},
    workload::{
        Workload,
        closed_loop::{self, Little, Load, Round, SharedClient},
        record::histogram,
    },
};

/// A subject under one workload with one number of tasks, and its rounds so far.
pub(super) struct Arm {
    pub(super) subject: Arc<dyn Subject>,
    pub(super) workload: &'static Workload,
    pub(super) tasks: u32,
    pub(super) rounds: Vec<RoundFigures>,
    pub(super) acquire: Histogram<u64>,
    pub(super) release: Histogram<u64>,
    pub(super) handoff: Histogram<u64>,
    pub(super) holds: u64,
    pub(super) censored: u64,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
    /// The first overlap, in words.
    pub(super) overlap: Option<String>,
}

/// What is kept of a round beside the merged histograms.
pub(super) struct RoundFigures {
    pub(super) cycles: u64,
    pub(super) cycles_per_s: f64,
    pub(super) handoff_p50: Option<f64>,
    pub(super) jain: f64,
    pub(super) little: Little,
    pub(super) commands: Option<f64>,
    pub(super) server_calls: Option<f64>,
    pub(super) server_cpu_us: Option<f64>,
    pub(super) client_cpu_us: Option<f64>,
}

impl Arm {
    pub(super) fn new(subject: Arc<dyn Subject>, workload: &'static Workload, tasks: u32) -> Self {
        Arm {
            subject,
            workload,
            tasks,
            rounds: Vec::new(),
            acquire: histogram(),
            release: histogram(),
            handoff: histogram(),
            holds: 0,
            censored: 0,
            errors: 0,
            first_error: None,
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

    /// Whether an overlap of two holds would be wrong for this kind: readers and permits may overlap, and are not judged here.
    pub(super) fn exclusive(&self, plan: &BenchPlan) -> bool {
        let kinds = self.subject.kinds();
        let kind = match plan.kind.as_str() {
            "" => kinds.first().map_or("", String::as_str),
            kind => kind,
        };
        !matches!(kind, "read" | "semaphore" | "permits" | "latch")
    }

    fn add(&mut self, plan: &BenchPlan, round: &Round, locks: &[String]) {
        for (sum, part) in [
            (&mut self.acquire, &round.acquire),
            (&mut self.release, &round.release),
            (&mut self.handoff, &round.handoff),
        ] {
            sum.add(part).expect("both grow as far as they must");
        }
        self.holds += round.judge.seen;
        self.censored += round.censored;
        self.errors += round.errors;
        if self.first_error.is_none() {
            self.first_error.clone_from(&round.first_error);
        }
        if let (None, Some((a, b)), true) =
            (&self.overlap, &round.judge.overlap, self.exclusive(plan))
        {
            let shared = a.to_ns.min(b.to_ns) - b.from_ns;
            self.overlap = Some(format!(
                "two holds of `{}` overlapped for {:?} at {:?} of round {}",
                locks[a.lock as usize],
                Duration::from_nanos(shared),
                Duration::from_nanos(b.from_ns),
                self.rounds.len() + 1
            ));
        }
        let handed_on = !round.handoff.is_empty();
        self.rounds.push(RoundFigures {
            cycles: round.cycles,
            cycles_per_s: round.cycles as f64 / round.elapsed.as_secs_f64(),
            handoff_p50: handed_on.then(|| round.handoff.value_at_quantile(0.5) as f64),
            jain: crate::stats::jain(&round.per_task),
            little: round.little,
            commands: round.commands_per_cycle,
            server_calls: round.server_calls_per_cycle,
            server_cpu_us: round.server_cpu_us_per_cycle,
            client_cpu_us: round.client_cpu_us_per_cycle,
        });
    }
}

/// One round with fresh connections and fresh names. `Ok(Some(_))`: it was cut short, and why; nothing of it is kept.
pub(super) async fn run_round(
    plan: &BenchPlan,
    arm: &mut Arm,
    at: usize,
    round: usize,
    servers: Option<&ServerWatch>,
    hooks: &Hooks,
) -> Result<Option<String>, SubjectError> {
    if hooks.cancelled() {
        return Ok(Some("interrupted".into()));
    }
    let count = arm.workload.locks(arm.tasks, plan.locks);
    let (workload, tasks) = (arm.workload.name, arm.tasks);
    let locks: Vec<String> = (0..count)
        .map(|i| format!("{}{workload}:{tasks}:{at}:{round}:{i}", plan.key_prefix))
        .collect();
    let clients = connect(plan, arm, round).await?;
    let load = Load {
        workload: arm.workload,
        tasks,
        locks: locks.clone(),
        kind: plan.kind.clone(),
        lease: plan.lease,
        wait: plan.wait,
        hold: plan.hold.unwrap_or(arm.workload.hold),
        think: plan.think.unwrap_or(arm.workload.think),
        warmup: plan.warmup,
        duration: plan.duration,
    };
    let measured = closed_loop::run(load, &clients, servers, || hooks.cancelled()).await;
    join_all(clients.into_iter().filter_map(|client| {
        // Tasks are over, so nobody else has it.
        Arc::into_inner(client).map(|client| client.close())
    }))
    .await;
    if measured.cut_short.is_some() {
        return Ok(measured.cut_short);
    }
    arm.add(plan, &measured, &locks);
    Ok(None)
}

async fn connect(
    plan: &BenchPlan,
    arm: &Arm,
    round: usize,
) -> Result<Vec<SharedClient>, SubjectError> {
    let mut clients = Vec::new();
    for number in 1..=plan.clients.min(arm.tasks) {
        let to = ConnectTo {
            target: plan.target.clone(),
            client: format!("c{number}"),
            seed: plan
                .seed
                .wrapping_mul(1_000_003)
                .wrapping_add(round as u64 * 1_009 + u64::from(number)),
            durability: plan.durability.clone(),
            watchdog: None,
            log: None,
            env: Vec::new(),
        };
        // Nobody listens to events here, so the receiver is dropped and a subject need not pass them on.
        clients.push(Arc::new(arm.subject.connect(&to).await?.client));
    }
    Ok(clients)
}
