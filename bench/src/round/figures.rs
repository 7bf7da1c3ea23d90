//! The figures of a round: what tasks leave behind while they run, so that others can watch and judge it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::ledger::{LockCycle, part_of};
use super::record::{SHARDS, Samples, TaskState, raise};
use super::renewals::Renewals;
use crate::load::{CycleRequest, LoadState, LoadTiming, Sink, Task, TaskHold};
use crate::per_thread::PerThread;
use crate::stats::histogram::{Latencies, add_coarse};
use crate::subject::{AcquireEnd, ReleaseEnd};
use crate::workload::{CycleShape, Rhythm};

/// Share of the lease that is not trusted, as in the contract's definition.
const DRIFT: f64 = 0.01;
/// How long a task keeps still after a failed acquire: a target that refuses is not to be stormed.
const AFTER_ERROR: Duration = Duration::from_millis(20);
/// A cycle that begins so much after it was due is late.
const LATE_NS: u64 = 1_000_000;

/// What an open loop offered within the window.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct OfferedLoad {
    pub(crate) due: u64,
    /// From the due time to the pacer's waking.
    pub(crate) lag: Latencies,
}

/// What the tasks of a round have done so far. Times: nanoseconds on the round's clock; 0: none.
pub(super) struct Figures {
    asks: CycleShape,
    lease: Option<Duration>,
    listens: bool,
    pub(super) clients: u32,
    base: Instant,
    /// The window; `u64::MAX` until it is known.
    from_ns: AtomicU64,
    to_ns: AtomicU64,
    pub(super) states: Vec<TaskState>,
    pub(super) samples: PerThread<Samples, SHARDS>,
    pub(super) renewals: Renewals,
    offered: Option<Mutex<OfferedLoad>>,
    /// Holds that last, and the most that ever did at once.
    inside: AtomicU64,
    most_inside: AtomicU64,
}

impl Figures {
    pub(super) fn new(shared: &LoadState, asks: CycleShape, clients: usize) -> Arc<Self> {
        let load = &shared.load;
        Arc::new(Figures {
            asks,
            lease: load.lease,
            listens: load.workload.rhythm == Rhythm::Keep,
            clients: u32::try_from(clients).unwrap_or(u32::MAX),
            base: Instant::now(),
            from_ns: AtomicU64::new(u64::MAX),
            to_ns: AtomicU64::new(u64::MAX),
            states: (0..load.own_tasks()).map(|_| TaskState::default()).collect(),
            samples: PerThread::default(),
            renewals: Renewals::default(),
            offered: load.pace.map(|_| Mutex::new(OfferedLoad::default())),
            inside: AtomicU64::new(0),
            most_inside: AtomicU64::new(0),
        })
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.ns_at(Instant::now())
    }

    fn ns_at(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.base);
        since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos()) + 1
    }

    pub(super) fn window(&self) -> (u64, u64) {
        (self.from_ns.load(Relaxed), self.to_ns.load(Relaxed))
    }

    pub(super) fn set_window(&self, from_ns: u64, to_ns: u64) {
        self.to_ns.store(to_ns, SeqCst);
        self.from_ns.store(from_ns, SeqCst);
    }

    pub(super) fn within(&self, t_ns: u64) -> bool {
        let (from, to) = self.window();
        from <= t_ns && t_ns < to
    }

    pub(super) fn inside(&self, from_ns: u64, to_ns: u64) -> u64 {
        let (from, to) = self.window();
        to_ns.min(to).saturating_sub(from_ns.max(from))
    }

    /// The most holds that lasted at once; `None` where a lock has one holder.
    pub(super) fn most_inside(&self) -> Option<u64> {
        (self.asks != CycleShape::One).then(|| self.most_inside.load(Relaxed))
    }

    pub(super) fn total_cycles(&self) -> u64 {
        self.states.iter().map(|s| s.cycles.load(Relaxed)).sum()
    }

    pub(super) fn first_error(&self) -> Option<String> {
        self.samples.parts().find_map(|shard| shard.first_error.clone())
    }

    /// What was offered; the round is over. `None` in a closed loop.
    pub(super) fn take_offered(&self) -> Option<OfferedLoad> {
        let offered = self.offered.as_ref()?;
        Some(std::mem::take(&mut *offered.lock().expect("no panic")))
    }

    fn samples(&self) -> MutexGuard<'_, Samples> {
        self.samples.own().1
    }

    fn state(&self, task: &Task) -> &TaskState {
        &self.states[task.number as usize]
    }

    fn is_read(&self, asked: &CycleRequest) -> bool {
        matches!(self.asks, CycleShape::Sides { .. }) && &*asked.kind == "read"
    }

    /// When a hold ended, by contract perhaps before its release. A renewed one does not end by itself.
    fn end_ns(&self, held: &TaskHold, release_ns: u64) -> u64 {
        let Some(lease) = held.lease.or(self.lease) else { return release_ns };
        // It counts from the sending, after the call: one that is long beside the time since is not over.
        if lease / 2 > Duration::from_nanos(release_ns.saturating_sub(self.ns_at(held.called))) {
            return release_ns;
        }
        let sent_ns = self.ns_at(held.sent_at.unwrap_or(held.called));
        let trusted = lease.mul_f64(1.0 - DRIFT);
        release_ns.min(sent_ns.saturating_add(u64::try_from(trusted.as_nanos()).unwrap_or(u64::MAX)))
    }

    pub(super) fn cycle_done(&self, number: u32, t_ns: u64) {
        self.count_cycle(&mut self.samples(), number, t_ns);
    }

    fn count_cycle(&self, samples: &mut Samples, number: u32, t_ns: u64) {
        let state = &self.states[number as usize];
        raise(&state.cycles, 1);
        let (from, to) = self.window();
        if (from..to).contains(&t_ns) {
            raise(&state.in_window, 1);
            samples.cycles_per_part[part_of(t_ns, from, to)] += 1;
        }
    }

    /// Writes down that a hold is over, however it ended.
    fn over(&self, samples: &mut Samples, task: &Task, held: &TaskHold, release_ns: u64, freed_ns: u64) {
        let to_ns = self.end_ns(held, release_ns);
        samples.turns.extend(held.asked.locks().map(|lock| LockCycle {
            granted_ns: self.ns_at(held.granted),
            called_ns: self.ns_at(held.called),
            release_ns,
            freed_ns,
            to_ns,
            lock,
            task: task.number,
            shared: self.is_read(&held.asked),
        }));
        let state = self.state(task);
        if raise(&state.open, -1) == 0 {
            state.holding_since.store(0, Release);
        }
    }

    fn left(&self) {
        if self.asks != CycleShape::One {
            self.inside.fetch_sub(1, Relaxed);
        }
    }
}

impl Sink for Figures {
    fn acquires(&self, task: &Task, _asked: &CycleRequest, called: Instant, due: Option<Instant>) -> u64 {
        let (state, called_ns) = (self.state(task), self.ns_at(called));
        state.calling_since.store(called_ns, Release);
        if self.within(called_ns) {
            state.asked.store(1, Relaxed);
        }
        let due_ns = due.map(|due| self.ns_at(due));
        if let Some(due_ns) = due_ns.filter(|due_ns| self.within(*due_ns)) {
            let lag_ns = called_ns.saturating_sub(due_ns);
            let mut samples = self.samples();
            samples.add(LoadTiming::StartLag, lag_ns);
            samples.late += u64::from(lag_ns > LATE_NS);
        }
        0
    }

    fn acquired(&self, task: &Task, _call: u64, held: &TaskHold) {
        let (called_ns, granted_ns) = (self.ns_at(held.called), self.ns_at(held.granted));
        let state = self.state(task);
        if raise(&state.open, 1) == 1 {
            state.holding_since.store(granted_ns, Release);
        }
        if self.asks != CycleShape::One {
            self.most_inside.fetch_max(self.inside.fetch_add(1, Relaxed) + 1, Relaxed);
        }
        state.calling_since.store(0, Release);
        if self.listens {
            self.renewals.granted(task.number % self.clients, &held.grant, held.sent_at);
        }
        let (from, to) = self.window();
        let mut samples = self.samples();
        samples.in_calls_ns += self.inside(called_ns, granted_ns);
        if !(from..to).contains(&granted_ns) {
            return;
        }
        let service_ns = granted_ns - called_ns;
        samples.add(LoadTiming::Acquire, service_ns);
        if matches!(self.asks, CycleShape::Sides { .. }) {
            let side = if self.is_read(&held.asked) { LoadTiming::Read } else { LoadTiming::Write };
            samples.add(side, service_ns);
        }
        let mut response_ns = service_ns;
        if let Some(due) = held.due {
            response_ns = granted_ns.saturating_sub(self.ns_at(due));
            samples.add(LoadTiming::Response, response_ns);
        }
        let part = part_of(granted_ns, from, to);
        add_coarse(&mut samples.acquire_per_part[part], response_ns);
    }

    fn refused(&self, task: &Task, _call: u64, called: Instant, end: AcquireEnd) -> Duration {
        let (called_ns, ended_ns) = (self.ns_at(called), self.now_ns());
        self.state(task).calling_since.store(0, Release);
        let mut samples = self.samples();
        samples.in_calls_ns += self.inside(called_ns, ended_ns);
        match end {
            AcquireEnd::Busy => {
                if self.within(ended_ns) {
                    samples.add(LoadTiming::GaveUp, ended_ns - called_ns);
                }
                return Duration::ZERO;
            }
            AcquireEnd::Failed(why) => samples.error("acquire", &why),
            AcquireEnd::Unknown(why) => samples.unknown("acquire", &why),
            AcquireEnd::Ok { .. } => return Duration::ZERO,
        }
        AFTER_ERROR
    }

    fn releases(&self, task: &Task, _held: &TaskHold, sent: Instant) -> u64 {
        self.left();
        self.state(task).calling_since.store(self.ns_at(sent), Release);
        0
    }

    fn released(&self, task: &Task, _call: u64, held: &TaskHold, sent: Instant, end: ReleaseEnd) {
        let (release_ns, freed_ns) = (self.ns_at(sent), self.now_ns());
        self.state(task).calling_since.store(0, Release);
        let mut samples = self.samples();
        samples.in_calls_ns += self.inside(release_ns, freed_ns);
        self.over(&mut samples, task, held, release_ns, freed_ns);
        match end {
            ReleaseEnd::Ok => {
                if self.within(freed_ns) {
                    samples.add(LoadTiming::Release, freed_ns - release_ns);
                }
                self.count_cycle(&mut samples, task.number, freed_ns);
            }
            ReleaseEnd::NotHeld => samples.error("release", "the lock was not held any more"),
            ReleaseEnd::Failed(why) => samples.error("release", &why),
            ReleaseEnd::Unknown(why) => samples.unknown("release", &why),
        }
    }

    fn abandoned(&self, task: &Task, held: &TaskHold, at: Instant) {
        let at_ns = self.ns_at(at);
        self.over(&mut self.samples(), task, held, at_ns, at_ns);
    }

    fn due(&self, at: Instant) {
        let due_ns = self.ns_at(at);
        if self.within(due_ns) {
            let mut offered = self.offered.as_ref().expect("an open loop").lock().expect("no panic");
            offered.due += 1;
            offered.lag.add(self.now_ns().saturating_sub(due_ns));
        }
    }

    fn timed(&self, _task: &Task, what: LoadTiming, from: Instant, to: Instant) {
        let (from_ns, to_ns) = (self.ns_at(from), self.ns_at(to));
        // A wave counts by its beginning, all else by its end.
        let counts = match what {
            LoadTiming::Wave => from_ns,
            _ => to_ns,
        };
        if self.within(counts) {
            self.samples().add(what, to_ns.saturating_sub(from_ns));
        }
    }

    fn not_connected(&self, _task: &Task, why: &str) -> Duration {
        self.samples().error("connect", why);
        AFTER_ERROR
    }
}
