//! The load engine: how the tasks of a workload acquire, hold and release, one step after the other.
//! `locklab bench` and the scenarios of `locklab chaos` run the same tasks; they differ in the sink that
//! receives each step: one keeps figures, the other a history.
//!
//! | file | what it is for |
//! |---|---|
//! | `load_state.rs`, `task.rs`, `steps.rs` | the tasks: what they share, one of them, what it repeats |
//! | `draw.rs`, `keys.rs` | what a cycle asks for, and which lock it takes |
//! | `pacer.rs`, `herd.rs` | when a cycle begins: a rate, or waves |
//! | `gate.rs` | stops the tasks of a client whose process is stopped |

mod draw;
mod gate;
mod herd;
mod keys;
mod load_state;
mod pacer;
mod steps;
mod task;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::parts::GeneratorShare;
use crate::subject::{AcquireEnd, Caller, ConnectTo, LockClient, ReleaseEnd, Subject};
use crate::workload::arrivals::Schedule;
use crate::workload::{self, Pace, Workload};
pub(crate) use draw::CycleRequest;
pub(crate) use gate::Gate;
pub(crate) use load_state::LoadState;
pub(crate) use pacer::Pacer;
pub(crate) use steps::{cycle, run};
pub(crate) use task::{Task, TaskHold};

pub(crate) type SharedClient = Arc<Box<dyn LockClient>>;

/// What the tasks of a load do.
#[derive(Debug, Clone)]
pub struct Load {
    /// Which locks are taken, and in which order of steps.
    pub workload: &'static Workload,
    /// Tasks of all clients together, those of other generators included.
    pub tasks: u32,
    /// Which of them run here.
    pub share: GeneratorShare,
    /// Lock names.
    pub locks: Vec<String>,
    /// Kinds by weight, above 0; each cycle draws one. An empty name is the client's own default.
    pub mix: Vec<(String, u32)>,
    /// How many locks one acquire of the kind `multi` takes.
    pub together: u32,
    /// Permits of one acquire, for the kinds that count.
    pub permits: u32,
    /// The lease asked for; `None`: renewed.
    pub lease: Option<Duration>,
    /// The longest wait; `None`: without bound.
    pub wait: Option<Duration>,
    /// How long a holder keeps, uniform between the two, whatever its lease.
    pub hold: (Duration, Duration),
    /// Pause between two cycles, uniform between the two.
    pub think: (Duration, Duration),
    /// Cycles begin on a schedule (open loop); `None`: each after the one before.
    pub pace: Option<Pace>,
    /// Decides the schedule.
    pub seed: u64,
    /// Every holder extends by the full lease this often; needs a lease.
    pub extend: Option<Duration>,
    /// Share of holds that take the lock once more inside, 0 to 1.
    pub reenter: f64,
    /// Share of acquires whose caller gives up, 0 to 1, and until when; what is left of them shows after.
    pub cancel: (f64, Duration),
    /// Share of holds that another owner of the same client extends and releases, 0 to 1.
    pub owner_moves: f64,
    /// Share of cycles with a quarter of the lease and of the hold, 0 to 1.
    pub short_leases: f64,
    /// Whether a caller whose release ended unknown releases once more.
    pub release_again: bool,
    /// As whom tasks ask; only a recorded load asks as anybody else than its tasks.
    pub owners: Owners,
    /// How long a writer writes before it becomes a reader, without anybody in between; `None`: never.
    pub downgrade: Option<Duration>,
    /// What the holder works on; only a recorded load has it.
    pub protects: Protects,
    /// Whether holds go by the names of their grants although the client has callers that keep them: so do
    /// those of the lock beside it.
    pub by_name: bool,
}

/// What a holder works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protects {
    /// Nothing.
    None,
    /// A counter per lock: read when granted, sleep, write at the end. A lost update is damage.
    #[default]
    Counter,
    /// A register per lock that refuses a token lower than one it has taken.
    Register,
}

/// As whom tasks ask for locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Owners {
    /// Each task as itself, by its name.
    #[default]
    Tasks,
    /// Each acquire as an owner that nobody has been before: a caller that names none.
    Fresh,
    /// As fresh ones; but each second task asks as owners from 2^63 on, which are no caller's in lock-core.
    Reserved,
}

impl Default for Load {
    /// A closed loop over one of the locks, drawn anew for each cycle; no locks and no tasks yet.
    fn default() -> Self {
        Load {
            workload: workload::find("uniform").expect("a workload of ours"),
            tasks: 0,
            share: GeneratorShare::WHOLE,
            locks: Vec::new(),
            mix: vec![(String::new(), 1)],
            together: 2,
            permits: 1,
            lease: None,
            wait: None,
            hold: (Duration::ZERO, Duration::ZERO),
            think: (Duration::ZERO, Duration::ZERO),
            pace: None,
            seed: 0,
            extend: None,
            reenter: 0.0,
            cancel: (0.0, Duration::ZERO),
            owner_moves: 0.0,
            short_leases: 0.0,
            release_again: false,
            owners: Owners::Tasks,
            downgrade: None,
            protects: Protects::None,
            by_name: false,
        }
    }
}

impl Load {
    pub(crate) fn own_tasks(&self) -> u32 {
        self.share.count(self.tasks)
    }

    /// What keeps the holds of a task of this client, where each is only kept and given back and nobody but
    /// the task has to find it; `None`: they go by the names of their grants.
    pub(crate) fn caller(&self, client: &dyn LockClient) -> Option<Box<dyn Caller>> {
        let only_kept = !self.by_name
            && self.protects == Protects::None
            && self.extend.is_none()
            && self.downgrade.is_none()
            && self.reenter <= 0.0
            && self.cancel.0 <= 0.0
            && !self.release_again
            && self.owner_moves <= 0.0;
        let kinds: Vec<&str> = self.mix.iter().map(|(kind, _)| kind.as_str()).collect();
        only_kept.then(|| client.caller(&kinds)).flatten()
    }

    /// When the cycles that begin here are due; `None` in a closed loop. Generators take turns.
    pub(crate) fn schedule(&self) -> Option<(Duration, Schedule)> {
        let Pace { rate_per_s } = self.pace?;
        let GeneratorShare { index, of } = self.share;
        let phase = Duration::try_from_secs_f64(f64::from(index) / rate_per_s).unwrap_or_default();
        let rate_per_s = rate_per_s / f64::from(of);
        Some((phase, Pace { rate_per_s }.schedule()))
    }
}

pub(crate) struct Connector {
    pub(crate) subject: Arc<dyn Subject>,
    pub(crate) to: ConnectTo,
    /// What the clients had sent that were closed; `None` once one could not say.
    commands: Mutex<Option<u64>>,
}

impl Connector {
    pub(crate) fn new(subject: Arc<dyn Subject>, to: ConnectTo) -> Self {
        Connector { subject, to, commands: Mutex::new(Some(0)) }
    }

    /// What the clients that tasks connected, and closed again, have sent.
    pub(crate) fn commands(&self) -> Option<u64> {
        *self.commands.lock().expect("no panic")
    }

    /// Closes a client of a task's own and keeps count of what it sent.
    pub(super) async fn close(&self, client: SharedClient) {
        let sent = client.commands().await;
        {
            let mut commands = self.commands.lock().expect("no panic");
            *commands = commands.zip(sent).map(|(all, sent)| all + sent);
        }
        if let Some(client) = Arc::into_inner(client) {
            client.close().await;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadTiming {
    /// From the sending of an acquire to its grant.
    Acquire,
    /// The same of those who asked for a side, apart.
    Read,
    Write,
    /// From the sending of a release to its answer.
    Release,
    /// Open loop: from the due time to the grant.
    Response,
    /// Open loop: from the due time to the sending.
    StartLag,
    /// How long acquires lasted that gave up.
    GaveUp,
    /// From the dialling of a client to its first use.
    Connect,
    /// From the death of a holder to the next grant.
    Recovery,
    /// From the end of a dead holder's lease to the next grant.
    RecoveryLate,
    /// From the arrival of a herd to the moment at which the last of it was served.
    Wave,
}

impl LoadTiming {
    pub(crate) const COUNT: usize = LoadTiming::Wave as usize + 1;
}

/// Receives each step of the tasks: a call before it is sent, and its answer before anybody acts on it.
pub(crate) trait Sink: Send + Sync + 'static {
    /// An acquire is sent next; `due`: when it should have been. Its number comes back with the answer.
    fn acquires(&self, task: &Task, asked: &CycleRequest, called: Instant, due: Option<Instant>) -> u64;
    fn acquired(&self, task: &Task, call: u64, held: &TaskHold);
    fn refused(&self, task: &Task, call: u64, called: Instant, end: AcquireEnd) -> Duration;
    fn releases(&self, task: &Task, held: &TaskHold, sent: Instant) -> u64;
    fn released(&self, task: &Task, call: u64, held: &TaskHold, sent: Instant, end: ReleaseEnd);
    fn abandoned(&self, task: &Task, held: &TaskHold, at: Instant);

    /// Whether it writes down who asked: then a client must know each task by its name.
    fn names_owners(&self) -> bool {
        false
    }
    fn extends(&self, _task: &Task, _held: &TaskHold, _lease: Duration) -> u64 {
        0
    }
    fn extended(&self, _task: &Task, _call: u64, _held: &TaskHold, _end: ReleaseEnd) {}
    /// Its caller gave up an acquire before the answer.
    fn given_up(&self) {}
    fn is_lost(&self, _held: &TaskHold) -> bool {
        false
    }
    /// The holder begins its work on what the lock protects; what it saw there.
    fn begins_work(&self, _task: &Task, _held: &TaskHold) -> Vec<i64> {
        Vec::new()
    }
    fn ends_work(&self, _task: &Task, _held: &TaskHold, _seen: Vec<i64>) {}

    fn due(&self, _at: Instant) {}
    fn timed(&self, _task: &Task, _what: LoadTiming, _from: Instant, _to: Instant) {}
    /// A client of the task's own could not be connected. How long the task is to keep still.
    fn not_connected(&self, _task: &Task, _why: &str) -> Duration {
        Duration::ZERO
    }
}
