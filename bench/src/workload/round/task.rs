//! One task of a round: acquire and release, each written down as it happens. Workloads are made of these two steps.

use std::{
    sync::{
        Arc,
        atomic::Ordering::{Relaxed, SeqCst},
    },
    time::{Duration, Instant},
};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::shared::{Shared, SharedClient};
use crate::{
    subject::{AcquireEnd, AcquireRequest, ReleaseEnd},
    workload::{
        Asks,
        ledger::{Turn, part_of},
        record::{add, add_coarse},
    },
};

/// How long a task keeps still after a failed acquire: a target that refuses is not to be stormed.
const AFTER_ERROR: Duration = Duration::from_millis(20);
/// A tick that begins so much after it was due is late.
const LATE_NS: u64 = 1_000_000;

/// A task and its client.
pub(crate) struct Task {
    pub(crate) shared: Arc<Shared>,
    pub(crate) client: SharedClient,
    pub(crate) number: u32,
    pub(crate) random: ChaCha8Rng,
    owner: String,
    /// Holds that were not given back yet.
    open: u32,
}

/// A lock that a task holds.
pub(crate) struct Held {
    pub(crate) lock: u32,
    /// Locks that the same grant holds beside it.
    others: Vec<u32>,
    /// Whether others may hold it, too.
    shared: bool,
    pub(crate) grant: String,
    pub(crate) called_ns: u64,
    pub(crate) granted_ns: u64,
    /// The end of the lease as its client reckons it, less what is not trusted.
    pub(crate) contract_end_ns: u64,
    pub(crate) sent_at: Option<Instant>,
}

impl Task {
    pub(super) fn new(shared: Arc<Shared>, client: SharedClient, number: u32) -> Self {
        let seed = shared
            .load
            .seed
            .wrapping_mul(0x9E37_79B9)
            .wrapping_add(u64::from(number));
        Task {
            shared,
            client,
            number,
            random: ChaCha8Rng::seed_from_u64(seed),
            owner: format!("t{number}"),
            open: 0,
        }
    }

    pub(crate) fn running(&self) -> bool {
        self.shared.running()
    }

    /// Lets time pass; a pause of no length does not even yield.
    pub(crate) async fn pause(&self, length: Duration) {
        if !length.is_zero() {
            tokio::time::sleep(length).await;
        }
    }

    /// Acquires; `due_ns` is when it should have begun, in an open loop. `None`: not acquired, and written down why.
    pub(crate) async fn acquire(&mut self, lock: u32, due_ns: Option<u64>) -> Option<Held> {
        let client = self.client.clone();
        self.acquire_by(&client, lock, due_ns).await
    }

    /// The same by another client than the task's own.
    pub(crate) async fn acquire_by(
        &mut self,
        client: &SharedClient,
        lock: u32,
        due_ns: Option<u64>,
    ) -> Option<Held> {
        let shared = self.shared.clone();
        let load = &shared.load;
        let state = &shared.states[self.number as usize];
        let count = u32::try_from(load.locks.len()).unwrap_or(u32::MAX);
        let asked = load.asks.draw(&load.kind, lock, count, &mut self.random);
        let request = AcquireRequest {
            locks: std::iter::once(&lock)
                .chain(&asked.others)
                .map(|lock| load.locks[*lock as usize].clone())
                .collect(),
            kind: asked.kind,
            owner: self.owner.clone(),
            wait: Some(load.wait),
            lease: load.lease,
            permits: asked.permits,
        };
        let called_ns = shared.now_ns();
        state.calling_since.store(called_ns, SeqCst);
        if shared.within(called_ns) {
            state.asked.store(1, Relaxed);
        }
        self.note_start(called_ns, due_ns);
        let end = client.acquire(request).await;
        let granted_ns = shared.now_ns();
        let held = if let AcquireEnd::Ok {
            grant,
            sent_at,
            lease,
            ..
        } = end
        {
            if self.open == 0 {
                state.holding_since.store(granted_ns, SeqCst);
            }
            self.open += 1;
            shared.entered();
            Ok(Held {
                lock,
                others: asked.others,
                shared: asked.shared,
                grant,
                called_ns,
                granted_ns,
                contract_end_ns: shared.contract_end_ns(sent_at, called_ns, lease.or(load.lease)),
                sent_at,
            })
        } else {
            Err(end)
        };
        state.calling_since.store(0, SeqCst);
        let held = match held {
            Ok(held) => held,
            Err(end) => {
                self.not_acquired(called_ns, granted_ns, end).await;
                return None;
            }
        };
        if load.workload.counts_grants {
            shared.grants.send_modify(|grants| *grants += 1);
        }
        let (from, to) = shared.window();
        let mut samples = shared.samples(self.number);
        samples.in_calls_ns += shared.inside(called_ns, granted_ns);
        if (from..to).contains(&granted_ns) {
            let service_ns = granted_ns - called_ns;
            add(&mut samples.acquire, service_ns);
            if matches!(load.asks, Asks::Sides { .. }) {
                let side = match held.shared {
                    true => &mut samples.reads,
                    false => &mut samples.writes,
                };
                add(side, service_ns);
            }
            let response_ns = due_ns.map_or(service_ns, |due| granted_ns.saturating_sub(due));
            if due_ns.is_some() {
                add(&mut samples.response, response_ns);
            }
            let part = part_of(granted_ns, from, to);
            add_coarse(&mut samples.acquire_per_part[part], response_ns);
        }
        Some(held)
    }

    fn note_start(&self, called_ns: u64, due_ns: Option<u64>) {
        let Some(due_ns) = due_ns.filter(|due| self.shared.within(*due)) else {
            return;
        };
        let lag_ns = called_ns.saturating_sub(due_ns);
        let mut samples = self.shared.samples(self.number);
        add(&mut samples.start_lag, lag_ns);
        samples.late += u64::from(lag_ns > LATE_NS);
    }

    async fn not_acquired(&self, called_ns: u64, ended_ns: u64, end: AcquireEnd) {
        {
            let mut samples = self.shared.samples(self.number);
            samples.in_calls_ns += self.shared.inside(called_ns, ended_ns);
            match end {
                AcquireEnd::Busy => {
                    if self.shared.within(ended_ns) {
                        add(&mut samples.gave_up, ended_ns - called_ns);
                    }
                    return;
                }
                AcquireEnd::Failed(why) => samples.error("acquire", &why),
                AcquireEnd::Unknown(why) => samples.unknown("acquire", &why),
                AcquireEnd::Ok { .. } => return,
            }
        }
        tokio::time::sleep(AFTER_ERROR).await;
    }

    /// Gives back. Whether the lock was held until then.
    pub(crate) async fn release(&mut self, held: Held) -> bool {
        let client = self.client.clone();
        self.release_by(&client, held).await
    }

    /// The same by the client that acquired.
    pub(crate) async fn release_by(&mut self, client: &SharedClient, held: Held) -> bool {
        let shared = self.shared.clone();
        let state = &shared.states[self.number as usize];
        let release_ns = shared.now_ns();
        shared.left();
        state.calling_since.store(release_ns, SeqCst);
        let gone = client.release(&held.grant).await;
        let freed_ns = shared.now_ns();
        state.calling_since.store(0, SeqCst);
        let done = matches!(gone, ReleaseEnd::Ok);
        {
            let mut samples = shared.samples(self.number);
            samples.in_calls_ns += shared.inside(release_ns, freed_ns);
            match gone {
                ReleaseEnd::Ok if shared.within(freed_ns) => {
                    add(&mut samples.release, freed_ns - release_ns);
                }
                ReleaseEnd::Ok => {}
                ReleaseEnd::NotHeld => samples.error("release", "the lock was not held any more"),
                ReleaseEnd::Failed(why) => samples.error("release", &why),
                ReleaseEnd::Unknown(why) => samples.unknown("release", &why),
            }
        }
        self.over(&held, release_ns, freed_ns);
        if done {
            self.cycle_done(freed_ns);
        }
        done
    }

    /// Writes down that a hold is over, however it ended.
    pub(crate) fn over(&mut self, held: &Held, release_ns: u64, freed_ns: u64) {
        let state = &self.shared.states[self.number as usize];
        let turn = |lock: u32| Turn {
            granted_ns: held.granted_ns,
            called_ns: held.called_ns,
            release_ns,
            freed_ns,
            to_ns: release_ns.min(held.contract_end_ns),
            lock,
            task: self.number,
            shared: held.shared,
        };
        let locks = std::iter::once(&held.lock).chain(&held.others);
        let mut samples = self.shared.samples(self.number);
        samples.turns.extend(locks.map(|lock| turn(*lock)));
        drop(samples);
        self.open -= 1;
        if self.open == 0 {
            state.holding_since.store(0, SeqCst);
        }
    }

    /// Counts a cycle.
    pub(crate) fn cycle_done(&self, t_ns: u64) {
        Self::count_cycle(&self.shared, self.number, t_ns);
    }

    /// The same, for whoever is no task.
    pub(super) fn count_cycle(shared: &Shared, number: u32, t_ns: u64) {
        let state = &shared.states[number as usize];
        state.cycles.fetch_add(1, Relaxed);
        let (from, to) = shared.window();
        if (from..to).contains(&t_ns) {
            state.in_window.fetch_add(1, Relaxed);
            let part = part_of(t_ns, from, to);
            shared.samples(number).cycles_per_part[part] += 1;
        }
    }

    /// Writes down an error that is neither an acquire's nor a release's.
    pub(crate) async fn error(&self, what: &str, why: &str) {
        self.shared.samples(self.number).error(what, why);
        tokio::time::sleep(AFTER_ERROR).await;
    }
}
