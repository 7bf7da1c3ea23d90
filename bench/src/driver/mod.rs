//! Carries out a benchmark: interleaved rounds, with fresh connections and names, become rows and ratios.
//!
//! | file | what it is for |
//! |---|---|
//! | `order.rs` | in which order arms are measured |
//! | `arm.rs` | the rounds of one subject, and their sums |
//! | `own_loop.rs` | rounds that drivers run by themselves |
//! | `rows.rs` | a row from an arm |
//! | `compare.rs` | arms that were measured side by side |
//! | `merged.rs` | rows from rounds of several generators |

mod arm;
mod compare;
mod merged;
mod order;
mod own_loop;
mod rows;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use results::run::{BenchRow, Comparison};
use results::secrets::redact;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::driver_loop::LoadRequest;
use crate::parts::{Barrier, GeneratorShare};
use crate::round::Round;
use crate::round::ledger::HandoffCounts;
use crate::round::record::Samples;
use crate::servers::server_stats::ServerWatch;
use crate::stats::histogram::Latencies;
use crate::subject::{Subject, SubjectError};
use crate::workload::{self, LeaseOf, Pace, Workload};
use crate::{exec, protocol, stats, subjects};
use arm::{Arm, RoundEnd, WholeRound, run_round};
pub use merged::{PartsError, ROUNDS_FILE, merged_runs};
pub use order::order;
use own_loop::OwnLoops;

/// Share of stolen CPU time from which a round is dropped. Fixed here, before anything is measured.
const DISTURBED: f64 = 0.1;

/// How long locks are leased for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Leasing {
    /// As the workload says; where it does not care, 30 s.
    #[default]
    Usual,
    /// This long. Where the workload is about renewal, the lease that is renewed.
    Fixed(Duration),
    /// Renewed by the library.
    Renewed,
}

/// What is to be measured on one target. Shown without the target's password.
#[derive(Clone, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BenchPlan {
    /// The target URL; never written down, since it may hold a password.
    #[serde(skip)]
    pub target: String,
    /// What rows say of the target: `single`, `sentinel`, `cluster`, `masters` or `external`.
    pub topology: String,
    /// Names of subjects; the first is the base of comparisons. One named twice is an A/A pair.
    pub subjects: Vec<String>,
    /// Names of workloads.
    pub workloads: Vec<String>,
    /// Numbers of concurrent tasks, those of all generators.
    pub tasks: Vec<u32>,
    /// How many generators share each load.
    pub generators: u32,
    /// Which clients and tasks are this generator's. Not part of what all of them have in common.
    #[serde(skip)]
    pub share: GeneratorShare,
    /// Lock names, where the workload has several; `None`: as many as tasks.
    pub locks: Option<u32>,
    /// Clients that share the tasks, each with its own identity and connections.
    pub clients: u32,
    /// Whether each client is a process of its own, as rows say it; the caller's subjects see to it.
    pub client_processes: bool,
    /// Whether each subject, which must be a driver program, runs the closed loop itself: one process each
    /// through the whole run, warmed up once for [`warmup`](Self::warmup) altogether. Its figures are then
    /// its own word, and nothing is judged.
    pub own_loop: bool,
    /// The cores that clients are kept on, as rows say it; empty: anywhere.
    pub client_cores: Vec<u32>,
    /// The kind of lock; empty: each subject's default.
    pub kind: String,
    /// Lease.
    pub lease: Leasing,
    /// Longest wait of an acquire; one that gives up is counted as censored.
    pub wait: Duration,
    /// Hold time; `None`: the workload's.
    pub hold: Option<Duration>,
    /// Open loop; `None`: closed.
    pub pace: Option<Pace>,
    /// `none`, `wait:K`, `wait:all`.
    pub durability: String,
    /// The round trip that a proxy on the way adds, as rows say it; nothing is done about it here.
    pub added_rtt: Option<Duration>,
    /// The round trip on the way past that proxy, as rows say it beside the one through it.
    pub direct_round_trip: Option<Duration>,
    /// Time before the window of each round, which is dropped.
    pub warmup: Duration,
    /// The window of each round.
    pub duration: Duration,
    /// Rounds of every arm; with a precision the most.
    pub rounds: u32,
    /// Ends the rounds, six of them at least, once the 95 % interval of every arm's rate reaches no farther
    /// than this share to either side of its median, half of the interval's width; `None`: all rounds.
    pub precision: Option<f64>,
    /// Decides the order of arms and the subjects' jitter.
    pub seed: u64,
    /// Replicas of each master, where that is known: what `wait:all` means.
    pub replicas: u32,
    /// What every key begins with, e.g. `locklab:<run>:`.
    pub key_prefix: String,
}

/// Where a subject is measured. Shown without the target's password.
#[derive(Clone, PartialEq, Eq)]
pub struct Placement {
    /// The target URL.
    pub target: String,
    /// What rows say of it.
    pub topology: String,
    /// Replicas of each master, where that is known: what `wait:all` means.
    pub replicas: u32,
    /// What rows say that a grant waits for: `none`, `wait:K`, or what another system's servers do.
    pub durability: String,
    /// The servers' processes, where they have no counters of their own and run on this machine.
    pub processes: Vec<u32>,
}

impl fmt::Debug for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.topology, redact(&self.target))
    }
}

impl fmt::Debug for BenchPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BenchPlan")
            .field("target", &redact(&self.target))
            .field("topology", &self.topology)
            .field("subjects", &self.subjects)
            .field("workloads", &self.workloads)
            .finish_non_exhaustive()
    }
}

impl BenchPlan {
    /// A plan with the usual settings and no subjects: 16 tasks, five rounds of 2 s after 0.5 s, lease 30 s.
    pub fn new(target: impl Into<String>) -> Self {
        BenchPlan {
            target: target.into(),
            topology: "external".into(),
            workloads: vec!["uncontended".into()],
            tasks: vec![16],
            generators: 1,
            clients: 1,
            wait: Duration::from_secs(10),
            durability: "none".into(),
            warmup: Duration::from_millis(500),
            duration: Duration::from_secs(2),
            rounds: 5,
            key_prefix: "locklab:bench:".into(),
            ..BenchPlan::default()
        }
    }

    /// The plan's own target, as the place of each subject.
    fn placed(&self, subjects: Vec<Arc<dyn Subject>>) -> Vec<(Arc<dyn Subject>, Placement)> {
        let place = |subject: &dyn Subject| Placement {
            target: self.target.clone(),
            topology: self.topology.clone(),
            replicas: self.replicas,
            durability: subject.durability().unwrap_or(&self.durability).to_owned(),
            processes: Vec::new(),
        };
        subjects.into_iter().map(|subject| (subject.clone(), place(subject.as_ref()))).collect()
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

/// Called with the line of a round.
pub type OnRound = Box<dyn Fn(&str) + Send + Sync>;

/// What a caller may hang into a run.
#[derive(Default)]
pub struct Hooks {
    /// Called before each round of each arm, and once at the end.
    pub progress: Option<OnProgress>,
    /// Ends the run when it turns true; what was measured is given.
    pub cancel: Option<watch::Receiver<bool>>,
    /// Where the generators of a load meet before each round.
    pub barrier: Option<Arc<Barrier>>,
    /// Given a line for each round, of which [`merged_runs`] makes the figures of all generators.
    pub record: Option<OnRound>,
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
    /// One row per subject, workload and number of tasks, in the plan's order, of arms with a whole round.
    pub rows: Vec<BenchRow>,
    /// Each subject against the first, per workload and number of tasks; none whose lock was unsafe.
    pub comparisons: Vec<Comparison>,
    /// Why the run ended early, if it did: the target died or the run was cancelled.
    pub cut_short: Option<String>,
    /// `redis_version` of every data node that was asked.
    pub server_versions: BTreeMap<String, String>,
    /// The median of some PINGs before the load.
    pub round_trip: Option<Duration>,
    /// What a reader must know before believing a number.
    pub warnings: Vec<String>,
}

/// A run under way.
///
/// Boxed, so that the measured cycle is compiled here: an `async fn` is compiled where it is awaited.
pub type Measuring<'a> = BoxFuture<'a, Result<BenchOutcome, SubjectError>>;

/// Measures.
///
/// # Errors
/// An unknown subject or workload, a subject that does not take this target, or a target that does not answer
/// at the very start. A target that dies later gives what was measured until then.
pub fn run<'a>(plan: &'a BenchPlan, hooks: &'a Hooks) -> Measuring<'a> {
    match subjects_of(plan) {
        Ok(subjects) => run_subjects(plan, subjects, hooks),
        Err(unknown) => Box::pin(async { Err(unknown) }),
    }
}

fn subjects_of(plan: &BenchPlan) -> Result<Vec<Arc<dyn Subject>>, SubjectError> {
    plan.subjects.iter().map(|name| subjects::find(name)).collect()
}

fn workloads_of(plan: &BenchPlan) -> Result<Vec<&'static Workload>, SubjectError> {
    plan.workloads.iter().map(|name| workload::find(name)).collect()
}

/// Whether a plan can be measured, as far as can be said without its target.
pub fn check_plan(plan: &BenchPlan) -> Result<(), SubjectError> {
    check(plan, &subjects_of(plan)?, &workloads_of(plan)?)
}

/// Measures subjects that the caller made; [`BenchPlan::subjects`] is not looked at.
pub fn run_subjects<'a>(
    plan: &'a BenchPlan,
    subjects: Vec<Arc<dyn Subject>>,
    hooks: &'a Hooks,
) -> Measuring<'a> {
    run_at(plan, plan.placed(subjects), hooks)
}

/// Measures subjects in the same rounds, each at a place of its own.
pub fn run_at<'a>(
    plan: &'a BenchPlan,
    measured: Vec<(Arc<dyn Subject>, Placement)>,
    hooks: &'a Hooks,
) -> Measuring<'a> {
    Box::pin(measure(plan, measured, hooks))
}

async fn measure(
    plan: &BenchPlan,
    measured: Vec<(Arc<dyn Subject>, Placement)>,
    hooks: &Hooks,
) -> Result<BenchOutcome, SubjectError> {
    let subjects: Vec<_> = measured.iter().map(|(subject, _)| subject.clone()).collect();
    let workloads = workloads_of(plan)?;
    check(plan, &subjects, &workloads)?;
    let mut groups = groups(plan, &measured, &workloads);
    let twins = groups.iter().any(|group| group.again.is_some());
    let mut outcome = BenchOutcome { warnings: rows::warnings(), ..BenchOutcome::default() };
    let mut watches: BTreeMap<&str, Option<ServerWatch>> = BTreeMap::new();
    for (_, place) in &measured {
        if !watches.contains_key(&*place.target) {
            let watch = match place.processes.as_slice() {
                [] => ServerWatch::find(&place.target).await,
                processes => Some(ServerWatch::of_processes(processes)),
            };
            watches.insert(&place.target, watch);
        }
    }
    if let Some(servers) = watches.get(&*plan.target).and_then(Option::as_ref) {
        outcome.server_versions = servers.versions().await;
        outcome.round_trip = servers.round_trip().await;
        let short = outcome.round_trip.filter(|trip| plan.wait < *trip);
        outcome.warnings.extend(short.map(|trip| {
            format!(
                "acquires wait for {:?}, less than a round trip to the servers ({trip:?}): no answer comes in time, and each acquire leaves an undo",
                plan.wait
            )
        }));
    }
    for arm in groups.iter().take(1).flat_map(|group| &group.arms) {
        if !plan.own_loop
            && let Some(cost) = pipe(plan, arm).await
            && !outcome.warnings.contains(&cost)
        {
            outcome.warnings.push(cost);
        }
    }
    let arms = subjects.len() + usize::from(twins);
    let orders = order(plan.seed, arms, plan.rounds);
    let total = groups.len() * arms * orders.len();
    let mut done = 0;
    let tell = |done: usize, now: String| {
        if let Some(progress) = &hooks.progress {
            progress(&Progress { done, total, now });
        }
    };
    let own = match plan.own_loop {
        true => Some(OwnLoops::start(plan, &mut groups, |now| tell(0, now)).await?),
        false => None,
    };
    'rounds: for (round, order) in orders.iter().enumerate() {
        for (number, group) in groups.iter_mut().enumerate() {
            let mut measured = Vec::new();
            let mut ended = None;
            let mut left = order.iter();
            while let Some(at) = left.next() {
                let grown = group.plan(plan);
                let arm = group.arm(*at);
                tell(done, arm.title());
                let servers = watches.get(&*arm.place.target).and_then(Option::as_ref);
                let made = match &own {
                    _ if hooks.cancelled() => Ok(RoundEnd::CutShort("interrupted".into())),
                    Some(own) => Ok(own.round(plan, arm, *at, round, servers).await),
                    None => {
                        // The first step is the meeting of all before anything is measured.
                        run_round(&grown, arm, (*at, 1 + done as u64), round, servers, hooks).await
                    }
                };
                match made {
                    Ok(RoundEnd::Whole(mut whole)) => {
                        if own.is_none()
                            && round == 0
                            && let Some(longer) = window_with_enough(&grown, arm, whole.round.cycles)
                        {
                            // What is compared has one window: those before are measured again.
                            group.window = longer;
                            done -= measured.len();
                            measured.clear();
                            left = order.iter();
                            continue;
                        }
                        done += 1;
                        if let Some(record) = &hooks.record {
                            record(&merged::line((round, number, *at), &whole));
                        }
                        if plan.generators > 1 {
                            whole.round.forget_servers();
                        }
                        measured.push((*at, whole));
                    }
                    Ok(RoundEnd::CutShort(why)) => ended = Some(why),
                    Err(e) if done == 0 => return Err(e),
                    Err(e) => ended = Some(e.to_string()),
                }
                if let Some(why) = &mut ended {
                    *why = format!("{}: {why}", arm.title());
                    break;
                }
            }
            group.keep(plan, measured);
            if ended.is_some() {
                outcome.cut_short = ended;
                break 'rounds;
            }
        }
        // In pairs, since the order of the second round of each is the reverse of that of the first.
        if round % 2 == 1 && plan.precision.is_some_and(|wanted| widest(&groups) <= wanted) {
            break;
        }
    }
    if let Some(own) = own {
        own.close().await;
    }
    if let Some(wanted) = plan.precision
        && outcome.cut_short.is_none()
        && widest(&groups) > wanted
    {
        outcome.warnings.push(imprecise(&groups, wanted));
    }
    outcome.warnings.extend(exec::escaped_processes());
    tell(done, "done".into());
    for group in &groups {
        rows::add(&group.plan(plan), &group.arms, group.dropped, &mut outcome);
        // Of parts the whole is compared.
        if plan.generators == 1 {
            compare::add(plan, &group.arms, group.again.as_ref(), &mut outcome);
        }
    }
    results::decide::decide(&mut outcome.comparisons);
    Ok(outcome)
}

/// The window that gives this lock the cycles that a row needs; schedules and several generators keep theirs.
fn window_with_enough(plan: &BenchPlan, arm: &Arm, cycles: u64) -> Option<Duration> {
    const LONGEST: Duration = Duration::from_secs(20);
    let needs = cycles > 0 && cycles < rows::FEWEST_CYCLES && arm.workload.lease != LeaseOf::Renewed;
    let may = plan.generators == 1 && plan.pace.is_none() && plan.duration < LONGEST;
    let factor = 2.0 * rows::FEWEST_CYCLES as f64 / cycles.max(1) as f64;
    (needs && may).then(|| plan.duration.mul_f64(factor).min(LONGEST))
}

/// What the pipe of a driver program costs; `None` where there is no pipe, or it could not be measured.
async fn pipe(plan: &BenchPlan, arm: &Arm) -> Option<String> {
    let name = arm.subject.name();
    arm.subject.program()?;
    let client = arm::connect_client(plan, arm, 0, 0).await.ok()?.client;
    let cost = exec::pipe_cost(client.as_ref(), &format!("{}pipe", plan.key_prefix)).await;
    // A driver that can run the loop itself says what there is without the pipe.
    let inside = match (cost, protocol::offers_load(arm.workload.name)) {
        (Some(_), true) => client.load(&inside(plan, arm)).await,
        _ => None,
    };
    client.close().await;
    let mut said = format!("{name}: {}", cost?);
    let of = format!("{}, {} tasks", arm.workload.name, arm.tasks);
    match inside {
        None => {}
        Some(Ok(report)) => {
            said += &format!("; its own loop, without the pipe, in one process, unjudged: {report} ({of})");
            if let Some(overlap) = report.overlap {
                said += &format!("; void, since it saw that {overlap}");
            }
        }
        Some(Err(why)) => said += &format!("; its own loop ({of}) went wrong: {why}"),
    }
    Some(said)
}

/// The same load as a round of this arm, as far as a driver can be asked for it.
fn inside(plan: &BenchPlan, arm: &Arm) -> LoadRequest {
    LoadRequest {
        workload: arm.workload.name.to_owned(),
        kind: plan.kind.clone(),
        tasks: arm.tasks,
        locks: arm.locks(plan),
        warmup: plan.warmup,
        measure: plan.duration,
        lease: arm.lease(plan),
        hold: arm.hold(plan),
        think: arm.workload.think,
        prefix: format!("{}load:", plan.key_prefix),
    }
}

/// How far the widest interval of a rate reaches to one side, a share of its median; infinite for few rounds.
fn widest(groups: &[Group]) -> f64 {
    groups.iter().flat_map(|group| &group.arms).map(reach).fold(0.0, f64::max)
}

fn reach(arm: &Arm) -> f64 {
    let rates: Vec<f64> = arm.each(Round::cycles_per_s);
    let estimate = stats::estimate(&rates);
    match (estimate.low, estimate.high) {
        (Some(low), Some(high)) if stats::coverage(rates.len()) >= Some(stats::LEVEL) => {
            (high - low) / 2.0 / estimate.median.max(f64::MIN_POSITIVE)
        }
        _ => f64::INFINITY,
    }
}

/// What is to be said where the most rounds were too few.
fn imprecise(groups: &[Group], wanted: f64) -> String {
    let arms = groups.iter().flat_map(|group| &group.arms);
    let wide: Vec<String> = arms
        .filter(|arm| reach(arm) > wanted)
        .map(|arm| match reach(arm) {
            reach if reach.is_finite() => format!("{} ±{:.0} %", arm.title(), 100.0 * reach),
            _ => format!("{}, too few rounds", arm.title()),
        })
        .collect();
    let wanted = 100.0 * wanted;
    format!(
        "the precision of ±{wanted} % was not reached: {}; more rounds (--rounds) or longer windows narrow an interval",
        wide.join("; ")
    )
}

/// Of each workload and number of tasks every subject. Where a difference can be shown, the first runs twice.
fn groups(
    plan: &BenchPlan,
    measured: &[(Arc<dyn Subject>, Placement)],
    workloads: &[&'static Workload],
) -> Vec<Group> {
    let twins = plan.rounds as usize >= stats::paired::FEWEST_PAIRS
        && measured.len() > 1
        && measured[1..]
            .iter()
            .all(|(subject, place)| (subject.name(), place) != (measured[0].0.name(), &measured[0].1));
    let by_name = !measured.iter().all(|(subject, _)| subject.has_callers());
    let group = |(workload, tasks)| {
        let arm = |(subject, place): &(Arc<dyn Subject>, Placement)| Arm {
            subject: subject.clone(),
            place: place.clone(),
            workload,
            tasks,
            by_name,
            rounds: Vec::new(),
            samples: Samples::default(),
            passed: HandoffCounts::default(),
            lag: Latencies::default(),
            margin: Latencies::default(),
            holds: 0,
            overlap: None,
        };
        Group {
            arms: measured.iter().map(arm).collect(),
            again: twins.then(|| arm(&measured[0])),
            window: plan.duration,
            dropped: 0,
        }
    };
    let tasks = |workload| plan.tasks.iter().map(move |tasks| (workload, *tasks));
    workloads.iter().copied().flat_map(tasks).map(group).collect()
}

/// What is compared: one workload, one number of tasks, every subject.
struct Group {
    arms: Vec<Arm>,
    again: Option<Arm>,
    window: Duration,
    dropped: u32,
}

impl Group {
    fn plan(&self, plan: &BenchPlan) -> BenchPlan {
        BenchPlan { duration: self.window, ..plan.clone() }
    }

    fn arm(&mut self, at: usize) -> &mut Arm {
        match self.arms.len() {
            n if at < n => &mut self.arms[at],
            _ => self.again.as_mut().expect("the order counts it only if there is one"),
        }
    }

    /// Keeps what one round of all arms gave, or drops all of it, since arms are compared round by round:
    /// where the hypervisor took more than a tenth of the machine away in one of them. More than half of the
    /// rounds stay whatever happens, and the rows say how it was.
    fn keep(&mut self, plan: &BenchPlan, measured: Vec<(usize, Box<WholeRound>)>) {
        // The share of CPU time that the hypervisor took.
        let stolen = |(_, whole): &(_, Box<WholeRound>)| whole.round.disturbance.steal > DISTURBED;
        let stolen = measured.iter().any(stolen);
        let drop = stolen && (self.dropped + 1) * 2 < plan.rounds;
        self.dropped += u32::from(drop);
        for (at, round) in measured {
            self.arm(at).add(*round, !drop);
        }
    }
}

/// The kind of lock that a workload asks this subject for, if somebody wishes for `wished`; empty: its own.
pub fn kind_of(wished: &str, subject: &dyn Subject, workload: &str) -> Result<String, SubjectError> {
    kind_among(wished, subject.name(), &subject.kinds(), workload::find(workload)?)
}

fn kind_among(
    wished: &str,
    name: &str,
    offered: &[String],
    workload: &Workload,
) -> Result<String, SubjectError> {
    let kind = workload.asks.kind(wished, offered);
    kind.map_err(|why| usage!("{name} cannot be measured with `{}`: {why}", workload.name))
}

fn check(
    plan: &BenchPlan,
    subjects: &[Arc<dyn Subject>],
    workloads: &[&Workload],
) -> Result<(), SubjectError> {
    if let (Some(pace), Some(workload)) = (plan.pace, workloads.iter().find(|w| !w.paced)) {
        bail!(
            "`{}` has a rhythm of its own and cannot be offered {} cycles/s; a rate goes with {}",
            workload.name,
            pace.rate_per_s,
            workload::names(|w| w.paced)
        );
    }
    for workload in workloads {
        for subject in subjects {
            kind_of(&plan.kind, subject.as_ref(), workload.name)?;
        }
    }
    if plan.generators > 1 {
        if let Some(fewest) = plan.tasks.iter().find(|tasks| **tasks < plan.generators) {
            bail!(
                "{fewest} tasks cannot be shared by {} generators: each needs one at least",
                plan.generators
            );
        }
        let waits = |w: &&&Workload| matches!(w.rhythm, workload::Rhythm::Chain | workload::Rhythm::Herd);
        if let Some(workload) = workloads.iter().find(waits) {
            bail!(
                "the tasks of `{}` wait for each other in one process and cannot be shared by generators; these can: {}",
                workload.name,
                workload::names(|w| !waits(&&w))
            );
        }
    }
    let bad_pace = |pace: Pace| !(pace.rate_per_s > 0.0 && pace.rate_per_s < 1e9);
    let all_offered = workloads.iter().all(|w| protocol::offers_load(w.name));
    let wrong = [
        (
            plan.generators > 1 && (plan.precision.is_some() || plan.own_loop),
            "generators that share a load make all rounds, and themselves: without a precision and without a driver's own loop",
        ),
        (plan.precision.is_some_and(|precision| precision <= 0.0), "a precision must be above 0"),
        (subjects.is_empty(), "no subject"),
        (plan.tasks.is_empty() || plan.tasks.contains(&0), "tasks must be at least 1"),
        (
            plan.own_loop && (plan.pace.is_some() || plan.clients > 1),
            "a driver's own loop is closed, and of one client",
        ),
        (plan.own_loop && !all_offered, "a driver's own loop is uncontended, contended or chain"),
        (plan.clients == 0, "clients must be at least 1"),
        (plan.rounds == 0, "rounds must be at least 1"),
        (plan.pace.is_some_and(bad_pace), "a rate must be above 0"),
        (plan.duration < Duration::from_millis(10), "the window must be at least 10 ms long"),
    ];
    let found = wrong.into_iter().find(|(is_wrong, _)| *is_wrong);
    found.map_or(Ok(()), |(_, why)| Err(SubjectError::usage(why)))
}
