//! The client processes of a run and their tasks, which faults may stop, kill and bring back.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bench::exec::{Member, Processes};
use bench::parts::GeneratorShare;
use bench::recorded::{LoadRun, RunningClient};
use bench::sink::Sink as _;
use bench::subject::{ConnectTo, Connected, Subject, SubjectError, counted_durability};
use cluster_config::Deployment;
use nix::sys::signal::Signal;
use results::history::{Entry, Event};

use crate::faults::{ClientControl, FaultError, failed};
use crate::planning::plan::{ClientPlan, Plan};
use crate::run::tracker::Tracker;
use crate::servers::names::Names;
use crate::servers::shim::Shims;

/// A process that got SIGKILL is gone within milliseconds; a machine that swaps may need longer.
const DEATH_WITHIN: Duration = Duration::from_secs(10);

pub(crate) struct Clients {
    subject: Arc<dyn Subject>,
    target: String,
    durability: String,
    watchdog: Option<Duration>,
    logs: PathBuf,
    shims: Option<Arc<Shims>>,
    names: Option<Arc<Names>>,
    load: LoadRun,
    tracker: Arc<Tracker>,
    deployment: Arc<Deployment>,
    slots: Vec<Slot>,
    share: GeneratorShare,
    /// Clients that died: their tasks end by themselves, and are waited for at the end.
    dead: Mutex<Vec<Arc<RunningClient>>>,
}

struct Slot {
    plan: ClientPlan,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct ClientsReport {
    /// Why the history may be incomplete: tasks that did not end, drivers that ended unkilled.
    pub(crate) incomplete: Vec<String>,
    /// Requests without an answer, which are unknown and nothing worse.
    pub(crate) unanswered: Vec<String>,
    /// Events that are not in the history, and processes that left their groups.
    pub(crate) strays: Vec<String>,
}

#[derive(Default)]
struct State {
    running: Option<Arc<RunningClient>>,
    incarnation: u32,
}

impl Clients {
    #[expect(clippy::too_many_arguments, reason = "what a run has, each once")]
    pub(crate) fn new(
        plan: &Plan,
        subject: Arc<dyn Subject>,
        deployment: Arc<Deployment>,
        load: LoadRun,
        tracker: Arc<Tracker>,
        logs: PathBuf,
        shims: Option<Arc<Shims>>,
        names: Option<Arc<Names>>,
        share: GeneratorShare,
    ) -> Self {
        let target = names.as_ref().map_or_else(|| deployment.url(), |names| names.url(&deployment));
        let replicas = deployment.topology().replicas;
        Self {
            subject,
            durability: counted_durability(&plan.lock.durability, &target, replicas),
            target,
            watchdog: plan.lock.watchdog.map(|lease| lease.0),
            logs,
            shims,
            names,
            load,
            tracker,
            deployment,
            slots: plan
                .load
                .clients
                .iter()
                .map(|plan| Slot { plan: plan.clone(), state: Mutex::default() })
                .collect(),
            share,
            dead: Mutex::default(),
        }
    }

    fn own(&self) -> impl Iterator<Item = (u32, &Slot)> {
        (1..).zip(&self.slots).filter(|(number, _)| self.share.has(number - 1))
    }

    /// Connects every client, and tells the proxies which process is which; nobody asks for a lock yet.
    pub(crate) async fn connect(&self) -> Result<Vec<Connected>, SubjectError> {
        let all = self.own().map(|(_, slot)| self.connect_one(&slot.plan));
        let connected = futures_util::future::try_join_all(all).await?;
        let pids = (self.own().zip(&connected))
            .filter_map(|((number, _), one)| Some((number, one.client.pid()?)))
            .collect();
        self.name(pids).await;
        Ok(connected)
    }

    /// Tells the proxies which process is which. They look every open connection up, which must not keep
    /// others from reading what clients say: a grant that is read late counts as one that was given late.
    async fn name(&self, pids: BTreeMap<u32, u32>) {
        let deployment = self.deployment.clone();
        let named = tokio::task::spawn_blocking(move || deployment.set_clients(pids)).await;
        named.expect("naming clients does not panic");
    }

    pub(crate) fn start(&self, connected: Vec<Connected>) {
        for ((_, slot), connected) in self.own().zip(connected) {
            self.start_one(slot, connected);
        }
    }

    /// Waits for all tasks to end (stop the load first) and closes the clients.
    pub(crate) async fn finish(&self) -> ClientsReport {
        let killed = lock(&self.dead).drain(..).collect::<Vec<_>>();
        let killed = killed.into_iter().map(|client| (true, client));
        let running = self.slots.iter();
        let running = running.filter_map(|slot| lock(&slot.state).running.take());
        let ends = killed
            .chain(running.map(|client| (false, client)))
            .filter_map(|(killed, client)| Some((killed, Arc::into_inner(client)?)))
            .map(async |(killed, client)| (killed, client.finish().await));
        let mut finished = ClientsReport::default();
        for (killed, end) in futures_util::future::join_all(ends).await {
            finished.incomplete.extend(end.late);
            // What a fault killed was to end; any other end leaves out what the client would have done.
            finished.incomplete.extend(end.ended.filter(|_| !killed));
            finished.unanswered.extend(end.unanswered);
            finished.strays.extend(end.strays.into_iter().chain(end.outside));
        }
        finished
    }

    async fn connect_one(&self, plan: &ClientPlan) -> Result<Connected, SubjectError> {
        let to = ConnectTo {
            target: self.target.clone(),
            client: plan.name.clone(),
            seed: plan.seed,
            durability: self.durability.clone(),
            watchdog: self.watchdog,
            log: Some(self.logs.join(format!("{}.log", plan.name))),
            env: self.shims.as_ref().map_or(Vec::new(), |shims| shims.env(&plan.name)),
            within: self.names.as_ref().map_or(Vec::new(), |names| names.within().to_vec()),
        };
        self.subject.connect(&to).await
    }

    fn start_one(&self, slot: &Slot, connected: Connected) {
        let plan = &slot.plan;
        self.tracker.record(Entry::Event(Event::Client {
            client: plan.name.clone(),
            watchdog_ms: connected
                .client
                .watchdog()
                .map(|lease| u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)),
            features: connected.client.abilities().features.unwrap_or_default(),
        }));
        let mut state = lock(&slot.state);
        let running = self.load.start_client(&plan.name, state.incarnation, &plan.task_seeds, connected);
        state.incarnation += 1;
        state.running = Some(Arc::new(running));
    }

    fn slot(&self, client: u32) -> Result<&Slot, FaultError> {
        (client as usize)
            .checked_sub(1)
            .and_then(|index| self.slots.get(index))
            .ok_or_else(|| failed!("there is no client {client}"))
    }

    fn running(&self, client: u32) -> Result<(Arc<RunningClient>, Processes), FaultError> {
        let running = lock(&self.slot(client)?.state).running.clone();
        running
            .filter(|running| !running.is_dead())
            .and_then(|running| {
                let processes = running.processes()?.clone();
                Some((running, processes))
            })
            .ok_or_else(|| failed!("client {client} has no process"))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn send(processes: &Processes, signal: Signal, client: u32) -> Result<(), FaultError> {
    processes.signal(signal).map_err(|error| failed!("client {client}: {error}"))
}

#[async_trait]
impl ClientControl for Clients {
    fn pid(&self, client: u32) -> Option<u32> {
        let (_, processes) = self.running(client).ok()?;
        Some(processes.first())
    }

    fn members(&self, client: u32) -> Vec<Member> {
        self.running(client).map_or(Vec::new(), |(_, processes)| processes.members())
    }

    fn pause(&self, client: u32) -> Result<(), FaultError> {
        let (running, processes) = self.running(client)?;
        running.pause();
        send(&processes, Signal::SIGSTOP, client).inspect_err(|_| running.resume())
    }

    fn resume(&self, client: u32) {
        if let Ok((running, processes)) = self.running(client) {
            // An error means that it died meanwhile: then there is nothing to go on.
            let _ = send(&processes, Signal::SIGCONT, client);
            running.resume();
        }
    }

    async fn kill(&self, client: u32) -> Result<(), FaultError> {
        let (running, processes) = self.running(client)?;
        send(&processes, Signal::SIGKILL, client)?;
        if tokio::time::timeout(DEATH_WITHIN, running.died()).await.is_err() {
            return Err(failed!("client {client} is still there {DEATH_WITHIN:?} after SIGKILL"));
        }
        drop(running);
        if let Some(running) = lock(&self.slot(client)?.state).running.take() {
            lock(&self.dead).push(running);
        }
        Ok(())
    }

    async fn restart(&self, client: u32) -> Result<(), FaultError> {
        let slot = self.slot(client)?;
        let connected = self.connect_one(&slot.plan).await.map_err(|error| FaultError(error.to_string()))?;
        self.start_one(slot, connected);
        let pids: BTreeMap<u32, u32> =
            (1..=self.count()).filter_map(|number| Some((number, self.pid(number)?))).collect();
        self.name(pids).await;
        Ok(())
    }

    async fn block(&self, client: u32, time: Duration) -> Result<Duration, FaultError> {
        let (running, _) = self.running(client)?;
        running.block(time).await.map_err(FaultError)
    }

    fn delay_writes(&self, client: u32, latency: Duration) -> Result<(), FaultError> {
        let (running, _) = self.running(client)?;
        running.delay_writes(latency);
        Ok(())
    }

    fn late_writes(&self, client: u32) -> u64 {
        let slot = self.slot(client).ok();
        slot.and_then(|slot| Some(lock(&slot.state).running.as_ref()?.late_writes())).unwrap_or(0)
    }

    fn holder(&self) -> Option<u32> {
        let name = self.tracker.holder()?;
        u32::try_from(self.slots.iter().position(|slot| slot.plan.name == name)? + 1).ok()
    }

    fn unclear(&self) -> u64 {
        self.tracker.unclear()
    }

    fn count(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }
}
