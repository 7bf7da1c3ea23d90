//! Injects a plan's faults at their times, heals them, and records both on the run's one clock.

use std::sync::Arc;
use std::time::Duration;

use bench::parts::GeneratorShare;
use bench::sink::Sink;
use cluster_config::MessageWatch;
use results::history::{Entry, Event, Phase};
use results::run::FaultSpan;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::faults::Fault as _;
use crate::faults::command_fault::CommandFault;
use crate::faults::engine::{ByEngine, Engine};
use crate::faults::{FaultGuard, FaultKind, FaultWorld, HealReport, Injection, Proof, Target, failed};
use crate::run::resolve::{self, resolve};
use crate::run::shared_clients;
use crate::scenario::{FaultParty, FaultSite, FaultSpec, FaultTrigger, OnMessage};
use crate::servers::hooks::{HEAL, Hooks};

/// A fault that is being injected when the load ends, such as a slow restart, has so long to be done.
const DONE_WITHIN: Duration = Duration::from_secs(5);

/// A fault that nobody met goes on so much longer at most; each waiter asks again within its patience.
const MET_WITHIN: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(10);
/// Longer than any load.
const FOR_EVER: Duration = Duration::from_secs(366 * 86_400);

#[derive(Clone)]
pub(crate) struct NemesisContext {
    pub(crate) world: Arc<FaultWorld>,
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) grants: watch::Receiver<u64>,
    /// Turns true when the load has ended: everything is to be healed.
    pub(crate) end: watch::Receiver<bool>,
    /// The lock whose slot says which master is meant in a cluster.
    pub(crate) lock: String,
    /// How many faults are over: injected and, where they have an end of their own, healed.
    pub(crate) over: watch::Sender<usize>,
    /// Commands that carry faults out.
    pub(crate) hooks: Arc<Hooks>,
    pub(crate) engine: Option<Arc<dyn Engine>>,
    pub(crate) share: GeneratorShare,
    /// Whom faults harm, and when each is to have left its target by the plan.
    pub(crate) harmed: watch::Sender<Vec<(Target, Instant)>>,
}

impl NemesisContext {
    fn one_is_over(&self) {
        self.over.send_modify(|over| *over += 1);
    }

    /// Waits until no fault is left on these targets that was to have left them by `due`: one that began late
    /// is injected late, or ends late, which must not end the next of its kind, and a heal may still be
    /// starting a server. Links bear several faults at a time.
    async fn left_by(&self, targets: &[Target], due: Instant) {
        let process = |target: &&Target| !matches!(target, Target::Link(..));
        let own: Vec<&Target> = targets.iter().filter(process).collect();
        let mut harmed = self.harmed.subscribe();
        let is_late = |(target, leaves_at): &(Target, Instant)| *leaves_at <= due && own.contains(&target);
        let free = harmed.wait_for(|harmed| !harmed.iter().any(is_late));
        // The sender is in this very scene.
        let _ = free.await;
    }

    fn harms(&self, targets: &[Target], leaves_at: Instant) {
        let new = targets.iter().map(|target| (target.clone(), leaves_at));
        self.harmed.send_modify(|harmed| harmed.extend(new));
    }

    fn has_left(&self, targets: &[Target], leaves_at: Instant) {
        self.harmed.send_modify(|harmed| {
            for target in targets {
                let at = harmed.iter().position(|(one, until)| one == target && *until == leaves_at);
                at.map(|at| harmed.swap_remove(at));
            }
        });
    }

    /// Takes a fault off its targets.
    async fn heal(&self, guard: Box<dyn FaultGuard>, targets: &[Target], leaves_at: Instant) -> HealReport {
        let healed = guard.heal().await;
        self.has_left(targets, leaves_at);
        healed
    }
}

/// Faults under way. Dropping it undoes them by their guards.
pub(crate) struct Nemesis {
    scene: NemesisContext,
    waiting: Vec<(FaultSpec, Watched)>,
    early: Vec<(FaultSpec, ActiveFault)>,
    running: JoinSet<(u64, FaultSpan)>,
}

struct ActiveFault {
    targets: Vec<Target>,
    /// When it is to have left them by the plan.
    leaves_at: Instant,
    span: FaultSpan,
    guard: Option<Box<dyn FaultGuard>>,
}

impl Nemesis {
    pub(crate) fn new(faults: &[FaultSpec], scene: NemesisContext) -> Self {
        Self {
            waiting: faults
                .iter()
                .filter(|fault| shared_clients::has_fault(scene.share, &fault.on))
                .map(|fault| (fault.clone(), None))
                .collect(),
            scene,
            early: Vec::new(),
            running: JoinSet::new(),
        }
    }

    /// Injects the faults at time zero, before the load's first call: servers and links that are bad from the
    /// beginning. Clients have no tasks yet, so faults on them wait for the load. Messages that faults wait
    /// for are counted from now on.
    pub(crate) async fn before_load(&mut self) {
        let (early, later) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|(fault, _)| fault.when == FaultTrigger::AtNs(0) && !on_clients(&fault.on));
        self.waiting = later;
        for (fault, watched) in &mut self.waiting {
            if let FaultTrigger::OnMessage(message) = &fault.when {
                *watched = Some(watch(message, &self.scene).await);
            }
        }
        for (fault, _) in early {
            let injected = inject(&fault, &self.scene, Instant::now()).await;
            self.early.push((fault, injected));
        }
    }

    /// Lets time run: `began` is when the load began.
    pub(crate) fn start(&mut self, began: Instant) {
        for (fault, injected) in std::mem::take(&mut self.early) {
            let scene = self.scene.clone();
            self.running.spawn(async move {
                let span = carry_on(&fault, injected, &scene, began).await;
                (fault.span, span)
            });
        }
        for (fault, watched) in std::mem::take(&mut self.waiting) {
            let scene = self.scene.clone();
            self.running.spawn(async move { (fault.span, whole(&fault, watched, &scene, began).await) });
        }
    }

    /// Waits until every fault is healed (tell `end` first) and gives the spans in the order of the plan.
    pub(crate) async fn finish(mut self) -> Vec<FaultSpan> {
        let mut spans = Vec::new();
        // Faults that were injected before a load that never began: dropping their guards undoes them.
        for (fault, injected) in std::mem::take(&mut self.early) {
            spans.push((fault.span, injected.span));
        }
        while let Some(outcome) = self.running.join_next().await {
            match outcome {
                Ok(span) => spans.push(span),
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            }
        }
        spans.sort_by_key(|(number, _)| *number);
        // One that hit nobody here is another part's.
        spans.retain(|(_, span)| !span.targets.is_empty());
        spans.into_iter().map(|(_, span)| span).collect()
    }
}

fn on_clients(on: &FaultSite) -> bool {
    matches!(on, FaultSite::Parties(parties) if parties.iter().any(FaultParty::is_client))
}

/// The messages that a fault waits for, or why they cannot be watched; `None`: it waits for something else.
type Watched = Option<Result<MessageWatch, String>>;

/// Begins to count. Who is master is asked now: a message that is due later may come from another.
async fn watch(message: &OnMessage, scene: &NemesisContext) -> Result<MessageWatch, String> {
    let mut parties = [None, None];
    for (party, who) in parties.iter_mut().zip([&message.from, &message.to]) {
        if let Some(who) = who {
            let found = resolve::one(who, &scene.world, &scene.lock).await;
            *party = Some(found.map_err(|error| error.to_string())?);
        }
    }
    let links = scene.world.deployment.links();
    let links = links.map_err(|error| error.to_string())?;
    let [from, to] = &parties;
    Ok(links.watch(from.as_ref(), to.as_ref(), message.pattern()))
}

async fn whole(fault: &FaultSpec, mut watched: Watched, scene: &NemesisContext, began: Instant) -> FaultSpan {
    let mut end = scene.end.clone();
    let mut grants = scene.grants.clone();
    let due = async {
        match &fault.when {
            FaultTrigger::AtNs(at_ns) => {
                tokio::time::sleep_until(began + Duration::from_nanos(*at_ns)).await;
            }
            FaultTrigger::OnMessage(message) => match &mut watched {
                Some(Ok(watch)) => watch.passed(message.nth).await,
                _ => std::future::pending().await,
            },
            FaultTrigger::AfterFirstGrant => {
                // The sender lives as long as the load: an error means that there is no load any more.
                if grants.wait_for(|grants| *grants > 0).await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    };
    tokio::select! {
        () = due => {}
        _ = end.wait_for(|end| *end) => {
            let why = match &watched {
                None => "the load ended before it was due".to_owned(),
                Some(Ok(watch)) => {
                    format!("the load ended before it was due: {} such messages passed", watch.count())
                }
                Some(Err(why)) => format!("what it waits for cannot be watched: {why}"),
            };
            let now_ns = scene.sink.ns(std::time::Instant::now());
            return unproved(fault, vec![fault.on.to_string()], now_ns, why);
        }
    }
    // By the plan: a harness that stood still comes later, and the next fault with it.
    let due = match fault.when {
        FaultTrigger::AtNs(at_ns) => began + Duration::from_nanos(at_ns),
        _ => Instant::now(),
    };
    carry_on(fault, inject(fault, scene, due).await, scene, Instant::now()).await
}

/// The harm is on record before it is done, so that whatever it causes lies inside its span.
async fn inject(fault: &FaultSpec, scene: &NemesisContext, due: Instant) -> ActiveFault {
    let now_ns = scene.sink.ns(std::time::Instant::now());
    let unhurt = |targets: Vec<String>, injected_ns: u64, why: String| ActiveFault {
        targets: Vec::new(),
        leaves_at: due,
        span: unproved(fault, targets, injected_ns, why),
        guard: None,
    };
    let Some(kind) = fault.kind() else {
        return unhurt(vec![fault.on.to_string()], now_ns, "this build does not have this fault".to_owned());
    };
    let mut targets = match resolve(&fault.on, &scene.world, &scene.lock).await {
        Ok(targets) => targets,
        Err(error) => return unhurt(vec![fault.on.to_string()], now_ns, error.to_string()),
    };
    targets.retain(|target| shared_clients::has_target(scene.share, target));
    if targets.is_empty() {
        return unhurt(Vec::new(), now_ns, "another part does it".to_owned());
    }
    let names: Vec<String> = targets.iter().map(Target::to_string).collect();
    tokio::select! {
        () = scene.left_by(&targets, due) => {}
        () = overdue(scene.end.clone()) => {
            return unhurt(names, now_ns, "the load ended before its target had recovered".to_owned());
        }
    }
    let leaves_at = match fault.lasts_ns.map(Duration::from_nanos) {
        _ if kind.one_shot => due,
        Some(lasts) => due + lasts,
        None => due + FOR_EVER,
    };
    scene.harms(&targets, leaves_at);
    let injected_ns = record(scene, fault, &names, Phase::Inject);
    let injection = Injection {
        targets: targets.clone(),
        with: fault.with.clone(),
        lasts: fault.lasts_ns.map(Duration::from_nanos),
    };
    let hooked = hooked(kind, &injection, scene);
    let engine = scene.engine.as_deref().filter(|engine| engine.takes(fault));
    let carry_out = async {
        match (&hooked, engine) {
            (Some(hooked), _) => hooked.inject(&scene.world, &injection).await,
            (None, Some(engine)) => ByEngine { engine, kind }.inject(&scene.world, &injection).await,
            (None, None) => kind.fault.inject(&scene.world, &injection).await,
        }
    };
    let carried_out = tokio::select! {
        carried_out = carry_out => carried_out,
        () = overdue(scene.end.clone()) => Err(failed!("the load ended while it was being injected")),
    };
    match carried_out {
        Ok(guard) => ActiveFault {
            targets,
            leaves_at,
            span: FaultSpan {
                done_ns: Some(scene.sink.ns(std::time::Instant::now())),
                ..unproved(fault, names, injected_ns, String::new())
            },
            guard: Some(guard),
        },
        Err(error) => {
            scene.has_left(&targets, leaves_at);
            let healed_ns = record(scene, fault, &names, Phase::Heal);
            let mut unhurt = unhurt(names, injected_ns, error.to_string());
            unhurt.span.healed_ns = Some(healed_ns);
            unhurt
        }
    }
}

/// The command that takes the fault's place, if the scenario gives one; clients and links are our own.
fn hooked(kind: &FaultKind, injection: &Injection, scene: &NemesisContext) -> Option<CommandFault> {
    let on_nodes = |target: &Target| matches!(target, Target::Node(_));
    let harm = scene.hooks.get(kind.name)?.clone();
    injection.targets.iter().all(on_nodes).then(|| CommandFault {
        shows: kind.shows,
        harm,
        heal: scene.hooks.get(&format!("{}{HEAL}", kind.name)).cloned(),
    })
}

/// Completes when a fault has had its time after the load's end; its rest ends with the servers.
async fn overdue(mut end: watch::Receiver<bool>) {
    if end.wait_for(|end| *end).await.is_err() {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(DONE_WITHIN).await;
}

/// Waits as long as the fault lasts, which counts from when it was in force, heals it, and says what shows
/// that it took effect.
async fn carry_on(
    fault: &FaultSpec,
    injected: ActiveFault,
    scene: &NemesisContext,
    began: Instant,
) -> FaultSpan {
    let ActiveFault { targets, leaves_at, mut span, guard } = injected;
    let (Some(mut guard), Some(kind)) = (guard, fault.kind()) else { return span };
    let lasts = fault.lasts_ns.map(Duration::from_nanos);
    let mut end = scene.end.clone();
    let ended = end.wait_for(|end| *end);
    match lasts.filter(|_| !kind.one_shot) {
        Some(lasts) => {
            if timeout_at(began + lasts, ended).await.is_err() {
                met(guard.as_mut(), scene.end.clone()).await;
            }
        }
        None => {
            if !kind.one_shot {
                scene.one_is_over();
                let _ = ended.await;
                if kind.stays_down {
                    return proved(span, guard.proof());
                }
            }
        }
    }
    let healed = scene.heal(guard, &targets, leaves_at).await;
    if kind.one_shot || lasts.is_some() {
        scene.one_is_over();
    }
    span = proved(span, healed.proof);
    match healed.failed {
        None => {
            span.healed_ns = Some(record(scene, fault, &span.targets, Phase::Heal));
        }
        Some(why) => span.proof = format!("{}; could not be undone: {why}", span.proof),
    }
    span
}

/// Waits for the evidence of a fault that has lasted its time: who would meet it may have slept.
async fn met(guard: &mut dyn FaultGuard, mut end: watch::Receiver<bool>) {
    let evidence = async move {
        while guard.awaits_evidence() {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        _ = tokio::time::timeout(MET_WITHIN, evidence) => {}
        _ = end.wait_for(|end| *end) => {}
    }
}

/// A fault of which nothing shows yet that it took effect.
fn unproved(fault: &FaultSpec, targets: Vec<String>, injected_ns: u64, why: String) -> FaultSpan {
    FaultSpan { fault: fault.fault.clone(), targets, injected_ns, proof: why, ..FaultSpan::default() }
}

fn proved(mut span: FaultSpan, proof: Proof) -> FaultSpan {
    span.bit = proof.bit;
    span.proof = proof.words;
    span
}

fn record(scene: &NemesisContext, fault: &FaultSpec, targets: &[String], phase: Phase) -> u64 {
    scene.sink.record(Entry::Event(Event::Fault {
        fault: fault.fault.clone(),
        targets: targets.to_vec(),
        span: fault.span,
        phase,
    }))
}
