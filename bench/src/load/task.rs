//! One task of a load: acquire, keep, release, each given to a sink as it happens; all workloads do these.

use std::borrow::Cow;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::draw::{CycleRequest, between};
use super::gate::Gate;
use super::load_state::LoadState;
use super::{Owners, Protects, SharedClient, Sink};
use crate::live;
use crate::subject::{AcquireEnd, AcquireRequest, Caller, ReleaseEnd};

/// The two sides between which a downgrade goes.
const WRITE: &str = "write";
const READ: &str = "read";

pub(crate) struct Task {
    pub(crate) shared: Arc<LoadState>,
    pub(crate) client: SharedClient,
    /// `None`: the client is never stopped and never dies.
    gate: Option<Arc<Gate>>,
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) number: u32,
    name: String,
    /// Whether it may ask again for what it holds, or the history says who asked.
    reenters: bool,
    /// The load's kinds by weight, as its client names them.
    mix: Vec<(Arc<str>, u32)>,
    random: ChaCha8Rng,
    cycles: u64,
    began: Instant,
}

pub(crate) struct TaskHold {
    pub(crate) asked: CycleRequest,
    pub(crate) grant: String,
    pub(crate) token: Option<u64>,
    pub(crate) called: Instant,
    /// When the cycle should have begun, in an open loop.
    pub(crate) due: Option<Instant>,
    pub(crate) granted: Instant,
    /// When the attempt that succeeded was sent, where known.
    pub(crate) sent_at: Option<Instant>,
    /// When the library returned to its caller, where it says so.
    pub(crate) returned_at: Option<Instant>,
    /// What was granted, if that is less than what was asked for.
    pub(crate) lease: Option<Duration>,
    /// Where in the lock's own source it was granted, where it says so.
    pub(crate) at: Option<String>,
}

impl Task {
    /// A task that draws from `seed`; `number` is its place among all tasks, `name` its name in its client.
    pub(crate) fn new(
        shared: Arc<LoadState>,
        client: SharedClient,
        gate: Option<Arc<Gate>>,
        sink: Arc<dyn Sink>,
        (number, name): (u32, String),
        seed: u64,
    ) -> Self {
        let own = client.kinds().first().map_or("", String::as_str);
        let named = |(kind, weight): &(String, u32)| match kind.is_empty() {
            true => (own.into(), *weight),
            false => (kind.as_str().into(), *weight),
        };
        let load = &shared.load;
        let is_named = match load.owners {
            Owners::Tasks => sink.names_owners(),
            Owners::Reserved => number % 2 == 1,
            Owners::Fresh => false,
        };
        Task {
            reenters: is_named || load.reenter > 0.0 || load.downgrade.is_some(),
            mix: shared.load.mix.iter().map(named).collect(),
            shared,
            client,
            gate,
            sink,
            number,
            name,
            random: ChaCha8Rng::seed_from_u64(seed),
            cycles: 0,
            began: Instant::now(),
        }
    }

    /// Passes when the task's client runs; false when it is dead and nothing is to be done any more.
    async fn gate(&self) -> bool {
        match &self.gate {
            None => true,
            Some(gate) => gate.pass().await,
        }
    }

    pub(super) async fn running(&self) -> bool {
        self.gate().await && self.shared.running()
    }

    /// Waits for something, but no longer than the load and the client last.
    pub(super) async fn unless_over<T>(&self, what: impl Future<Output = T>) -> Option<T> {
        let died = async {
            match &self.gate {
                None => std::future::pending().await,
                Some(gate) => gate.died().await,
            }
        };
        tokio::select! {
            done = what => Some(done),
            () = self.shared.ended() => None,
            () = died => None,
        }
    }

    /// Lets time pass; a pause of no length does not even yield.
    pub(super) async fn pause(&self, length: Duration) {
        if !length.is_zero() {
            self.unless_over(tokio::time::sleep(length)).await;
        }
    }

    pub(super) async fn think(&mut self) {
        let think = between(&mut self.random, self.shared.load.think);
        self.pause(think).await;
    }

    pub(super) fn draw(&mut self) -> CycleRequest {
        let (shared, number, cycle) = (&self.shared, self.number, self.cycles);
        self.cycles += 1;
        let lock = |random: &mut ChaCha8Rng| shared.keys.next(number, cycle, random);
        let until = shared.load.cancel.1;
        let cancels = !until.is_zero() && self.began.elapsed() < until;
        let mut asked = CycleRequest::draw(&shared.load, &self.mix, lock, cancels, &mut self.random);
        let share = shared.load.owner_moves.clamp(0.0, 1.0);
        if share > 0.0 && self.random.random_bool(share) {
            asked.moves_to = Some(neighbour(&self.name));
        }
        asked
    }

    /// Acquires; `due` is when it should have begun, in an open loop. `None`: the sink knows why.
    pub(super) fn acquire(
        &self,
        asked: CycleRequest,
        due: Option<Instant>,
    ) -> impl Future<Output = Option<TaskHold>> {
        self.acquire_by(&self.client, asked, due)
    }

    /// The same by another client than the task's own.
    pub(super) async fn acquire_by(
        &self,
        client: &SharedClient,
        asked: CycleRequest,
        due: Option<Instant>,
    ) -> Option<TaskHold> {
        if !self.gate().await {
            return None;
        }
        let others: Vec<&str> = asked.others.iter().map(|at| self.lock(*at)).collect();
        let owner = self.owner();
        let request = self.request(&asked, &others, &owner);
        let called = Instant::now();
        let call = self.sink.acquires(self, &asked, called, due);
        let end = client.acquire(request).await;
        let granted = Instant::now();
        if asked.cancel.is_some_and(|after| granted >= called + after) {
            self.sink.given_up();
        }
        match end {
            AcquireEnd::Ok { grant, token, sent_at, returned_at, lease, at } => {
                let held =
                    TaskHold { asked, grant, token, called, due, granted, sent_at, returned_at, lease, at };
                self.sink.acquired(self, call, &held);
                live::granted(called, granted);
                if self.shared.counts_grants {
                    self.shared.grants.send_modify(|grants| *grants += 1);
                }
                Some(held)
            }
            end => {
                let pause = self.sink.refused(self, call, called, end);
                self.pause(pause).await;
                None
            }
        }
    }

    fn lock(&self, lock: u32) -> &str {
        &self.shared.load.locks[lock as usize]
    }

    /// As whom it asks in this cycle; its own acquires of one cycle are one owner's.
    pub(crate) fn owner(&self) -> Cow<'_, str> {
        const RESERVED: u64 = 1 << 63;
        match self.shared.load.owners {
            Owners::Tasks => self.name.as_str().into(),
            Owners::Reserved if self.reenters => (RESERVED + self.cycles).to_string().into(),
            Owners::Fresh | Owners::Reserved => format!("{}.{}", self.name, self.cycles).into(),
        }
    }

    fn request<'a>(
        &'a self,
        asked: &'a CycleRequest,
        others: &'a [&'a str],
        owner: &'a str,
    ) -> AcquireRequest<'a> {
        let load = &self.shared.load;
        AcquireRequest {
            lock: self.lock(asked.lock),
            others,
            kind: &asked.kind,
            owner,
            reenters: self.reenters,
            wait: load.wait,
            lease: asked.lease,
            permits: asked.permits,
            cancel: asked.cancel,
        }
    }

    /// What keeps its holds; see [`Load::caller`](super::Load::caller).
    pub(crate) fn caller(&self) -> Option<Box<dyn Caller>> {
        let is_found = self.gate.is_some() || self.reenters;
        let load = &self.shared.load;
        (!is_found).then(|| load.caller(&**self.client)).flatten()
    }

    /// Acquires, keeps and gives back by a caller that has the hold meanwhile.
    pub(super) async fn cycle_of(&self, caller: &mut dyn Caller, asked: CycleRequest) {
        let called = Instant::now();
        let call = self.sink.acquires(self, &asked, called, None);
        let begun = caller.begin_acquire(self.request(&asked, &[], &self.name));
        let end = match begun {
            Ok(()) => poll_fn(|context| caller.poll_acquire(context)).await,
            Err(end) => Err(end),
        };
        let granted = Instant::now();
        let lease = match end {
            Ok(lease) => lease,
            Err(end) => {
                let pause = self.sink.refused(self, call, called, end);
                return self.pause(pause).await;
            }
        };
        let mut held = TaskHold {
            asked,
            grant: String::new(),
            token: None,
            called,
            due: None,
            granted,
            sent_at: None,
            returned_at: None,
            lease,
            at: None,
        };
        self.sink.acquired(self, call, &held);
        live::granted(called, granted);
        self.pause(held.asked.keep).await;
        let sent = Instant::now();
        // The lease counts from there, which is of interest only where it may be over.
        let lease = held.lease.or(held.asked.lease);
        if lease.is_some_and(|lease| sent.saturating_duration_since(called) > lease / 2) {
            held.sent_at = caller.sent_at();
        }
        let call = self.sink.releases(self, &held, sent);
        caller.begin_release();
        let end = poll_fn(|context| caller.poll_release(context)).await;
        self.sink.released(self, call, &held, sent, end);
    }

    /// Gives back. Whether the lock was held until then.
    pub(super) fn release(&self, held: TaskHold) -> impl Future<Output = bool> {
        self.release_by(&self.client, held)
    }

    pub(super) async fn release_by(&self, client: &SharedClient, held: TaskHold) -> bool {
        let mut end = self.release_once(client, &held).await;
        if self.shared.load.release_again && matches!(end, Some(ReleaseEnd::Unknown(_))) {
            end = self.release_once(client, &held).await;
        }
        end == Some(ReleaseEnd::Ok)
    }

    /// `None`: its client has died.
    async fn release_once(&self, client: &SharedClient, held: &TaskHold) -> Option<ReleaseEnd> {
        let live = self.gate().await;
        let sent = Instant::now();
        if !live {
            self.sink.abandoned(self, held, sent);
            return None;
        }
        let call = self.sink.releases(self, held, sent);
        let end = match &held.asked.moves_to {
            Some(owner) => client.release_as(&held.grant, owner).await,
            None => client.release(&held.grant).await,
        };
        self.sink.released(self, call, held, sent, end.clone());
        Some(end)
    }

    /// Keeps a hold as long as was drawn, does meanwhile what the load has holders do, and gives it back.
    pub(super) async fn keep(&self, held: TaskHold) {
        let load = &self.shared.load;
        let gives_up = held.asked.cancel.map(|after| held.called + after);
        let plain = load.protects == Protects::None && load.extend.is_none() && !held.asked.again;
        if plain && load.downgrade.is_none() {
            let keep = held.asked.keep;
            let left = gives_up.map_or(keep, |at| at.saturating_duration_since(Instant::now()));
            self.pause(keep.min(left)).await;
            self.release(held).await;
            return;
        }
        let until = Instant::now() + held.asked.keep;
        let until = gives_up.map_or(until, |at| until.min(at));
        if let (WRITE, Some(after)) = (&*held.asked.kind, load.downgrade) {
            let downgrade = (Instant::now() + after).min(until);
            return self.write_then_read(held, downgrade, until).await;
        }
        let seen = self.sink.begins_work(self, &held);
        if held.asked.again {
            self.keep_again(&held, until).await;
        }
        self.keep_until(&held, until).await;
        self.end_work(&held, seen).await;
        self.release(held).await;
    }

    /// Enters again after a third of the time that is left and leaves after another: what an inner hold
    /// changes of the lease, of its renewal or of its owner's count shows while the outer hold goes on.
    async fn keep_again(&self, held: &TaskHold, until: Instant) {
        let third = until.saturating_duration_since(Instant::now()) / 3;
        self.keep_until(held, until - 2 * third).await;
        let inner = CycleRequest { moves_to: None, ..held.asked.clone() };
        if let Some(inner) = self.acquire(inner, None).await {
            self.keep_until(&inner, until - third).await;
            self.release(inner).await;
        }
    }

    /// Writes for a while, takes the reading side inside, gives the writing side back and reads on until its
    /// time is up. Where the reading side is refused it stays a writer.
    async fn write_then_read(&self, writer: TaskHold, downgrade: Instant, until: Instant) {
        let seen = self.sink.begins_work(self, &writer);
        self.keep_until(&writer, downgrade).await;
        self.end_work(&writer, seen).await;
        match self.acquire(CycleRequest { kind: READ.into(), ..writer.asked.clone() }, None).await {
            Some(reader) => {
                self.release(writer).await;
                self.keep_until(&reader, until).await;
                self.release(reader).await;
            }
            None => {
                self.keep_until(&writer, until).await;
                self.release(writer).await;
            }
        }
    }

    /// The last step of a holder that was not notified that its lock is lost.
    async fn end_work(&self, held: &TaskHold, seen: Vec<i64>) {
        if self.gate().await && !self.sink.is_lost(held) {
            self.sink.ends_work(self, held, seen);
        }
    }

    /// Keeps the hold until its time or the load is over; extends it. A stopped process sees no time pass.
    async fn keep_until(&self, held: &TaskHold, until: Instant) {
        if held.asked.keep.is_zero() {
            return;
        }
        let load = &self.shared.load;
        let every = load.extend.filter(|every| !every.is_zero()).zip(held.asked.lease);
        let mut next = every.map(|(every, _)| Instant::now() + every);
        loop {
            let wake = next.map_or(until, |next| next.min(until));
            self.unless_over(tokio::time::sleep_until(wake.into())).await;
            if !self.running().await || Instant::now() >= until {
                return;
            }
            if let (Some((every, lease)), Some(_)) = (every, next) {
                let extended = !self.sink.is_lost(held) && self.extend(held, lease).await;
                next = extended.then(|| Instant::now() + every);
            }
        }
    }

    /// Extends; false once the library says that the lock is not held: then it is not asked again.
    async fn extend(&self, held: &TaskHold, lease: Duration) -> bool {
        let call = self.sink.extends(self, held, lease);
        let end = match &held.asked.moves_to {
            Some(owner) => self.client.extend_as(&held.grant, lease, owner).await,
            None => self.client.extend(&held.grant, lease).await,
        };
        let kept = end != ReleaseEnd::NotHeld;
        self.sink.extended(self, call, held, end);
        kept
    }
}

/// The owner beside this one, of the same client: t1 of t0, and t0 of t1.
fn neighbour(owner: &str) -> Arc<str> {
    let number = owner.strip_prefix('t').and_then(|number| number.parse().ok());
    format!("t{}", number.unwrap_or(0_u32) ^ 1).into()
}
