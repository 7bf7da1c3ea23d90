//! The clients of a run, which faults may stop, kill and bring back.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bench::recorded::{LoadRun, RunningClient};
use bench::sink::Sink;
use bench::subject::{ConnectTo, Connected, Subject, SubjectError, counted_durability};
use chaos::plan::{ClientPlan, Plan};
use results::history::{Entry, Event};

use crate::client;
use crate::runtime::lock;
use crate::runtime::process::Process;
use crate::runtime::system::Skew;

/// A restarted client tries for so long to find a server.
const TRIES: u32 = 100;

pub(crate) struct Clients {
    subject: Arc<dyn Subject>,
    target: String,
    durability: String,
    watchdog: Option<Duration>,
    load: LoadRun,
    sink: Arc<dyn Sink>,
    slots: Vec<Slot>,
    dead: Mutex<Vec<Arc<RunningClient>>>,
}

struct Slot {
    plan: ClientPlan,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: Option<(Arc<RunningClient>, Arc<Process>)>,
    incarnation: u32,
    /// Of its machine's clock, which outlives its process.
    skew: Skew,
}

impl Clients {
    pub(crate) fn new(
        plan: &Plan,
        subject: Arc<dyn Subject>,
        target: String,
        load: LoadRun,
        sink: Arc<dyn Sink>,
    ) -> Self {
        let slot = |plan: &ClientPlan| Slot { plan: plan.clone(), state: Mutex::default() };
        let replicas = plan.topology.replicas;
        Clients {
            subject,
            durability: counted_durability(&plan.lock.durability, &target, replicas),
            target,
            watchdog: plan.lock.watchdog.map(|lease| lease.0),
            load,
            sink,
            slots: plan.load.clients.iter().map(slot).collect(),
            dead: Mutex::default(),
        }
    }

    pub(crate) async fn start(&self) -> Result<(), SubjectError> {
        let all = self.slots.iter().map(|slot| self.connect(slot));
        let connected = futures_util::future::try_join_all(all).await?;
        for (slot, (connected, process)) in self.slots.iter().zip(connected) {
            self.begin(slot, connected, process);
        }
        Ok(())
    }

    async fn connect(&self, slot: &Slot) -> Result<(Connected, Arc<Process>), SubjectError> {
        let to = ConnectTo {
            target: self.target.clone(),
            client: slot.plan.name.clone(),
            seed: slot.plan.seed,
            durability: self.durability.clone(),
            watchdog: self.watchdog,
            log: None,
            env: Vec::new(),
            within: Vec::new(),
        };
        let process = Process::new(&slot.plan.name);
        process.set_clock(lock(&slot.state).skew);
        let connected = client::connect(&self.subject, &to, &process).await?;
        Ok((connected, process))
    }

    fn begin(&self, slot: &Slot, connected: Connected, process: Arc<Process>) {
        let watchdog = connected.client.watchdog();
        self.sink.record(Entry::Event(Event::Client {
            client: slot.plan.name.clone(),
            watchdog_ms: watchdog.map(|lease| lease.as_millis() as u64),
            features: connected.client.abilities().features.unwrap_or_default(),
        }));
        let (name, seeds) = (&slot.plan.name, &slot.plan.task_seeds);
        let mut state = lock(&slot.state);
        let running = (self.load).start_client(name, state.incarnation, seeds, connected);
        state.incarnation += 1;
        state.running = Some((Arc::new(running), process));
    }

    pub(crate) fn count(&self) -> u32 {
        self.slots.len() as u32
    }

    fn slot(&self, number: u32) -> Option<&Slot> {
        self.slots.get(number.checked_sub(1)? as usize)
    }

    fn running(&self, number: u32) -> Option<(Arc<RunningClient>, Arc<Process>)> {
        lock(&self.slot(number)?.state).running.clone()
    }

    pub(crate) fn pause(&self, number: u32) -> bool {
        self.running(number).map(|(running, _)| running.pause()).is_some()
    }

    pub(crate) fn resume(&self, number: u32) {
        self.running(number).iter().for_each(|(running, _)| running.resume());
    }

    pub(crate) async fn kill(&self, number: u32) -> bool {
        let Some(slot) = self.slot(number) else { return false };
        let Some((running, process)) = lock(&slot.state).running.take() else { return false };
        process.kill();
        running.died().await;
        lock(&self.dead).push(running);
        true
    }

    pub(crate) async fn restart(&self, number: u32) {
        let Some(slot) = self.slot(number) else { return };
        for _ in 0..TRIES {
            match self.connect(slot).await {
                // Two faults killed it, and the first that ended has brought it back.
                Ok((_, process)) if lock(&slot.state).running.is_some() => return process.kill(),
                Ok((connected, process)) => return self.begin(slot, connected, process),
                // As a supervisor of services starts it once more.
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }

    pub(crate) fn delay_writes(&self, number: u32, latency: Duration) -> bool {
        self.running(number).map(|(running, _)| running.delay_writes(latency)).is_some()
    }

    /// Sets the wall clock of a client's machine wrong, or right: whether a process runs there.
    pub(crate) fn set_clock(&self, number: u32, skew: Skew) -> bool {
        let Some(slot) = self.slot(number) else { return false };
        let mut state = lock(&slot.state);
        state.skew = skew;
        state.running.iter().map(|(_, process)| process.set_clock(skew)).count() > 0
    }

    /// Waits for all tasks to end; stop the load first. Why the history is not complete.
    pub(crate) async fn finish(&self) -> Vec<String> {
        let dead = lock(&self.dead).drain(..).collect::<Vec<_>>();
        let running = self.slots.iter().filter_map(|slot| Some(lock(&slot.state).running.take()?.0));
        let all = dead.into_iter().chain(running.collect::<Vec<_>>());
        let ends = all.filter_map(Arc::into_inner).map(async |client| client.finish().await);
        futures_util::future::join_all(ends).await.into_iter().filter_map(|end| end.late).collect()
    }
}
