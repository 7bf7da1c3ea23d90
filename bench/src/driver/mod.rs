//! Turns a plan into measured rows and comparisons: rounds, interleaved, each with fresh connections and fresh names.

mod arm;
mod order;
mod rows;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use results::run::{BenchRow, Comparison};
use tokio::sync::watch;

use crate::{
    server_stats::ServerWatch,
    subject::{Subject, SubjectError},
    subjects,
    workload::{self, Workload},
};
use arm::{Arm, run_round};
pub use order::order;

/// What is to be measured on one target.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BenchPlan {
    /// The target URL.
    pub target: String,
    /// What rows say of the target: `single`, `sentinel`, `cluster`, `masters` or `external`.
    pub topology: String,
    /// Names of subjects; the first is the base of comparisons. One named twice is an A/A pair.
    pub subjects: Vec<String>,
    /// Names of workloads.
    pub workloads: Vec<String>,
    /// Numbers of concurrent tasks.
    pub tasks: Vec<u32>,
    /// Lock names, where the workload has several; `None`: as many as tasks.
    pub locks: Option<u32>,
    /// Clients that share the tasks, each with its own identity and connections.
    pub clients: u32,
    /// The kind of lock; empty: each subject's default.
    pub kind: String,
    /// Lease; `None`: renewed by the library.
    pub lease: Option<Duration>,
    /// Longest wait of an acquire; one that gives up is counted as censored.
    pub wait: Duration,
    /// Hold time; `None`: the workload's.
    pub hold: Option<Duration>,
    /// Think time; `None`: the workload's.
    pub think: Option<Duration>,
    /// `none`, `wait:K`, `wait:all`.
    pub durability: String,
    /// Time before the window of each round, which is dropped.
    pub warmup: Duration,
    /// The window of each round.
    pub duration: Duration,
    /// Rounds of every arm.
    pub rounds: u32,
    /// Decides the order of arms and the subjects' jitter.
    pub seed: u64,
    /// What every key begins with, e.g. `locklab:<run>:`.
    pub key_prefix: String,
}

impl BenchPlan {
    /// A plan for a target with the usual settings and no subjects: 16 tasks, five rounds of 2 s after 0.5 s, lease 30 s.
    pub fn new(target: impl Into<String>) -> Self {
        BenchPlan {
            target: target.into(),
            topology: "external".into(),
            subjects: Vec::new(),
            workloads: vec!["uncontended".into()],
            tasks: vec![16],
            locks: None,
            clients: 1,
            kind: String::new(),
            lease: Some(Duration::from_secs(30)),
            wait: Duration::from_secs(10),
            hold: None,
            think: None,
            durability: "none".into(),
            warmup: Duration::from_millis(500),
            duration: Duration::from_secs(2),
            rounds: 5,
            seed: 0,
            key_prefix: "locklab:bench:".into(),
        }
    }

    /// The length of all rounds of all arms; connecting and draining come on top.
    pub fn expected_length(&self) -> Duration {
        let arms = self.subjects.len() * self.workloads.len() * self.tasks.len();
        let rounds = u32::try_from(arms)
            .unwrap_or(u32::MAX)
            .saturating_mul(self.rounds);
        (self.warmup + self.duration).saturating_mul(rounds)
    }
}

/// How far a bench has come.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Progress {
    /// Rounds of single arms done.
    pub done: usize,
    /// Rounds of single arms in all.
    pub total: usize,
    /// What is measured now: subject, workload, tasks.
    pub now: String,
}

/// Called with how far a bench has come.
pub type OnProgress = Box<dyn Fn(&Progress) + Send + Sync>;

/// What a caller may hang into a run.
#[derive(Default)]
pub struct Hooks {
    /// Called before each round of each arm, and once at the end.
    pub progress: Option<OnProgress>,
    /// Ends the run when it turns true; what was measured is given.
    pub cancel: Option<watch::Receiver<bool>>,
}

impl Hooks {
    fn cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(|cancel| *cancel.borrow())
    }
}

/// What was measured.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct BenchOutcome {
    /// One row per subject, workload and number of tasks, in the plan's order; only arms with at least one whole round.
    pub rows: Vec<BenchRow>,
    /// Each subject against the first, per workload and number of tasks. A row whose lock was unsafe is compared with none.
    pub comparisons: Vec<Comparison>,
    /// Why the run ended early, if it did: the target died or the run was cancelled.
    pub cut_short: Option<String>,
    /// `redis_version` of every data node that was asked.
    pub server_versions: BTreeMap<String, String>,
    /// What a reader must know before believing a number.
    pub warnings: Vec<String>,
}

/// Measures.
///
/// # Errors
/// An unknown subject or workload, a subject that does not take this target, or a target that does not answer at the very
/// start. A target that dies later gives what was measured until then.
pub async fn run(plan: &BenchPlan, hooks: &Hooks) -> Result<BenchOutcome, SubjectError> {
    let subjects: Vec<Arc<dyn Subject>> = plan
        .subjects
        .iter()
        .map(|name| subjects::find(name))
        .collect::<Result<_, _>>()?;
    run_subjects(plan, subjects, hooks).await
}

/// Measures subjects that the caller made; [`BenchPlan::subjects`] is not looked at.
///
/// # Errors
/// As [`run`].
pub async fn run_subjects(
    plan: &BenchPlan,
    subjects: Vec<Arc<dyn Subject>>,
    hooks: &Hooks,
) -> Result<BenchOutcome, SubjectError> {
    check(plan, &subjects)?;
    let workloads: Vec<&'static Workload> = plan
        .workloads
        .iter()
        .map(|name| workload::find(name))
        .collect::<Result<_, _>>()?;
    // Groups are what is compared: one workload, one number of tasks, every subject.
    let mut groups: Vec<Vec<Arm>> = Vec::new();
    for workload in workloads {
        for tasks in &plan.tasks {
            let arms = subjects
                .iter()
                .map(|s| Arm::new(s.clone(), workload, *tasks));
            groups.push(arms.collect());
        }
    }
    let mut outcome = BenchOutcome {
        warnings: rows::warnings(),
        ..BenchOutcome::default()
    };
    let servers = ServerWatch::find(&plan.target).await;
    if let Some(servers) = &servers {
        outcome.server_versions = servers.versions().await;
    }
    let orders = order(plan.seed, subjects.len(), plan.rounds);
    let total = groups.len() * subjects.len() * orders.len();
    let mut done = 0;
    let tell = |done: usize, now: String| {
        if let Some(progress) = &hooks.progress {
            progress(&Progress { done, total, now });
        }
    };
    'rounds: for (round, order) in orders.iter().enumerate() {
        for group in &mut groups {
            for at in order {
                let arm = &mut group[*at];
                tell(done, arm.title());
                match run_round(plan, arm, *at, round, servers.as_ref(), hooks).await {
                    Ok(None) => done += 1,
                    Ok(Some(why)) => {
                        outcome.cut_short = Some(format!("{}: {why}", arm.title()));
                        break 'rounds;
                    }
                    Err(e) if done == 0 => return Err(e),
                    Err(e) => {
                        outcome.cut_short = Some(format!("{}: {e}", arm.title()));
                        break 'rounds;
                    }
                }
            }
        }
    }
    tell(done, "done".into());
    for group in &groups {
        rows::add(plan, group, &mut outcome);
    }
    Ok(outcome)
}

fn check(plan: &BenchPlan, subjects: &[Arc<dyn Subject>]) -> Result<(), SubjectError> {
    let wrong = if subjects.is_empty() {
        "no subject"
    } else if plan.tasks.is_empty() || plan.tasks.contains(&0) {
        "tasks must be at least 1"
    } else if plan.clients == 0 {
        "clients must be at least 1"
    } else if plan.rounds == 0 {
        "rounds must be at least 1"
    } else if plan.duration < Duration::from_millis(10) {
        "the window must be at least 10 ms long"
    } else {
        return Ok(());
    };
    Err(SubjectError::usage(wrong))
}
