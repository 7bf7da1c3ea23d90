//! One hold, from before its first request to its end: what guard, renewal and background release share.
//!
//! | file | what it is for |
//! |---|---|
//! | `acquire_options.rs`, `acquire.rs` | from the call to the grant |
//! | `guard.rs`, `guard_event.rs`, `guarded.rs` | what the holder has and hears; all guards of a client |
//! | `watchdog.rs`, `renewals.rs` | renewals, and when each is due |
//! | `release.rs`, `pending_releases.rs` | giving back, also in the background |
//! | `idempotent_requests.rs` | requests that may be repeated |

pub(crate) mod acquire;
pub(crate) mod acquire_options;
pub(crate) mod guard;
pub(crate) mod guard_event;
pub(crate) mod guarded;
pub(crate) mod idempotent_requests;
pub(crate) mod pending_releases;
pub(crate) mod release;
pub(crate) mod renewals;
pub(crate) mod watchdog;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};

use crate::bounds::ENDLESS;
use crate::client::client_core::ClientCore;
use crate::clock::{Instant, sleep_until};
use crate::durability::Durability;
use crate::hold::acquire_options::{Acquire, Lease, Owner};
use crate::hold::guard_event::{GuardEvent, LostReason};
use crate::hold::pending_releases::ReleaseKey;
use crate::hold::renewals::{DueSlot, Renewable};
use crate::kind::{LockRequest, QueuePlace};
use crate::locks::lock_inner::LockInner;
use crate::servers::server_set::Servers;
use crate::sync::{Flag, Mutex};
use crate::telemetry::HoldTelemetry;

/// What clocks may differ by over a lease: a hundredth, for crystals, and 2 ms, for rounding.
pub(crate) fn drift(lease: Duration) -> Duration {
    lease / 100 + Duration::from_millis(2)
}

/// Why a time of at least `least`, and at most a hundred years, cannot be this, if so.
pub(crate) fn outside(time: Duration, least: Duration, why: &'static str) -> Option<&'static str> {
    (!(least..=ENDLESS).contains(&time)).then_some(why)
}

/// Why no hold can be extended to this, if so. What is too short extends nothing, and is no mistake.
pub(crate) fn bad_extension(lease: Duration) -> Option<&'static str> {
    outside(lease, Duration::from_millis(1), "a lease is 1 ms to a hundred years")
}

pub(crate) fn valid_until(sent_at: Instant, lease: Duration) -> Instant {
    sent_at + lease.saturating_sub(drift(lease))
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum HolderIdentity {
    /// An owner; a fresh one if the caller named none.
    Owner(Option<Owner>),
    /// Nobody in particular has so many permits, that a counter counts.
    Count(u32),
    /// Nobody but those who know the ids of so many permits, 32 hex digits each.
    Ids(u32),
}

impl HolderIdentity {
    /// How the servers know it, and what tells its requests from others of the same name.
    fn identity(self, client: &ClientCore) -> (String, Option<u128>) {
        match self {
            HolderIdentity::Owner(owner) => {
                (client.owner_text(owner.unwrap_or_else(Owner::fresh)), owner.map(|_| rand::random()))
            }
            HolderIdentity::Count(_) => (client.owner_text(Owner::fresh()), Some(rand::random())),
            HolderIdentity::Ids(count) => {
                let ids = (0..count).map(|_| format!("{:032x}", rand::random::<u128>()));
                (ids.collect(), None)
            }
        }
    }

    fn count(self) -> u32 {
        match self {
            HolderIdentity::Owner(_) => 1,
            HolderIdentity::Count(count) | HolderIdentity::Ids(count) => count,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) lock: Arc<LockInner>,
    /// `<client uuid>:<number>`, or the ids of permits.
    pub(crate) owner: String,
    /// Who asked. An owner that the caller named may hold several times.
    who: HolderIdentity,
    id: Option<u128>,
    /// The lease that was asked for; of a renewed hold, the one that each renewal sets.
    pub(crate) lease: Duration,
    pub(crate) renewed: bool,
    since: Instant,
    pub(crate) durability: Durability,
    token_life: Option<Duration>,
    max_hold: Option<Duration>,
    /// An acquire's answer was lost: it may still be on its way, and take the lock after it was given back.
    pub(crate) unsettled: Flag,
    /// An acquire is under way: a caller that stops waiting for it now does not know what becomes of it.
    pub(crate) asking: Flag,
    /// It takes a place in the line if it is not granted; and whether the client hears when it is called.
    pub(crate) in_line: Flag,
    subscribed: Flag,
    /// Its key is followed, so that a loss is noticed when it happens.
    pub(crate) key_is_followed: Flag,
    /// Of what several may hold at once, there was room for another.
    pub(crate) room: Flag,
    /// A bit for each of several masters: whose grant came after a majority's, who had nothing to give back.
    late: AtomicU64,
    absent: AtomicU64,
    place: DueSlot,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    token: Option<u64>,
    sent_at: Instant,
    /// When what set the lease that stands now was sent.
    counts_from: Instant,
    granted_lease: Duration,
    valid_until: Instant,
    /// No request that could extend the hold on a server does so beyond this.
    server_until: Instant,
    listeners: Vec<mpsc::UnboundedSender<GuardEvent>>,
    telemetry: HoldTelemetry,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Asked,
    Held,
    Lost(LostReason),
    Ended,
}

impl Hold {
    /// A hold that is about to be asked for, for somebody and as `how` says.
    pub(crate) fn new(
        lock: &Arc<LockInner>,
        who: HolderIdentity,
        how: &Acquire,
        durability: Durability,
    ) -> Arc<Self> {
        let (renewed, lease) = match how.lease {
            Lease::Renewed => (true, lock.client.options.watchdog_lease),
            Lease::Fixed(lease) => (false, lease),
        };
        let now = Instant::now();
        let (owner, id) = who.identity(&lock.client);
        Arc::new(Hold {
            owner,
            lock: Arc::clone(lock),
            who,
            id,
            lease,
            renewed,
            since: now,
            durability,
            token_life: how.token_life,
            max_hold: how.max_hold,
            unsettled: Flag::default(),
            asking: Flag::default(),
            in_line: Flag::default(),
            subscribed: Flag::default(),
            key_is_followed: Flag::default(),
            room: Flag::default(),
            late: AtomicU64::new(0),
            absent: AtomicU64::new(0),
            place: DueSlot::default(),
            state: Mutex::new(State {
                phase: Phase::Asked,
                token: None,
                sent_at: now,
                counts_from: now,
                granted_lease: lease,
                valid_until: now,
                server_until: now,
                listeners: Vec::new(),
                telemetry: HoldTelemetry::default(),
            }),
            changed: Notify::new(),
        })
    }

    /// The same question by a new identity, so that nothing that was sent for the old one can touch it.
    pub(crate) fn anew(&self) -> Arc<Self> {
        let how = Acquire {
            lease: if self.renewed { Lease::Renewed } else { Lease::Fixed(self.lease) },
            token_life: self.token_life,
            max_hold: self.max_hold,
            ..Acquire::default()
        };
        Hold::new(&self.lock, self.who, &how, self.durability)
    }

    pub(crate) fn client(&self) -> &Arc<ClientCore> {
        &self.lock.client
    }

    pub(crate) fn request(&self) -> LockRequest<'_> {
        LockRequest {
            names: &self.lock.names,
            owner: &self.owner,
            lease: self.lease,
            count: self.who.count(),
            id: self.id,
            token_life: self.token_life,
            repeated: self.unsettled.get(),
            place: self.in_line.get().then(|| QueuePlace {
                client: &self.lock.client.id,
                subscribed: self.subscribed.get(),
                waited: self.waited(),
            }),
            writers_first: self.lock.client.options.writers_first(),
            not_after: None,
            successors: &[],
        }
    }

    /// How long the token counter is to last after its grant, if that is bounded.
    pub(crate) fn token_life(&self) -> Option<Duration> {
        self.token_life
    }

    pub(crate) fn waited(&self) -> Duration {
        self.since.elapsed()
    }

    /// What tells its acquire from others, if no answer of it was lost.
    pub(crate) fn settled_id(&self) -> Option<u128> {
        self.id.filter(|_| !self.unsettled.get())
    }

    /// Whether the caller named its owner, who may therefore ask again under the same name.
    pub(crate) fn is_of_named_owner(&self) -> bool {
        matches!(self.who, HolderIdentity::Owner(Some(_)))
    }

    /// By what a release of it is known for which the same owner waits before it asks again.
    pub(crate) fn release_key(&self) -> Option<ReleaseKey> {
        let is_waited_for = self.is_of_named_owner() && matches!(self.lock.servers, Servers::One(_));
        is_waited_for.then(|| (self.lock.names.key.clone(), self.owner.clone()))
    }

    /// Whether the server knows a repetition of its acquire and release.
    pub(crate) fn has_records(&self) -> bool {
        self.lock.format.has_records(&self.request())
    }

    /// A request that may set this lease is about to be sent.
    pub(crate) fn may_last(&self, now: Instant, lease: Duration) {
        let until = now + lease + drift(lease);
        let mut state = self.state.lock();
        state.server_until = state.server_until.max(until);
    }

    /// When no server can have it any more, if nothing more is sent.
    pub(crate) fn server_until(&self) -> Instant {
        self.state.lock().server_until
    }

    pub(crate) fn is_known(&self) -> bool {
        self.server_until() > self.since
    }

    /// Whether it was neither granted yet nor given up by its guard.
    pub(crate) fn is_asked(&self) -> bool {
        self.state.lock().phase == Phase::Asked
    }

    pub(crate) fn stand_in_line(&self, subscribed: bool) {
        self.in_line.set(true);
        self.subscribed.set(subscribed);
    }

    /// A master granted after a majority had. True if its release is known to have come too early for that.
    pub(crate) fn granted_late(&self, route: usize) -> bool {
        let bit = 1 << route;
        // Of this and `was_absent` the second sees the first.
        self.late.fetch_or(bit, Ordering::SeqCst);
        self.absent.load(Ordering::SeqCst) & bit != 0
    }

    /// A master had nothing to give back. True if it did grant: then the release had overtaken the acquire.
    pub(crate) fn was_absent(&self, route: usize) -> bool {
        let bit = 1 << route;
        self.absent.fetch_or(bit, Ordering::SeqCst);
        self.late.load(Ordering::SeqCst) & bit != 0
    }

    /// Takes a grant in, whose lease may be shorter than what was asked for; false if it came after that.
    pub(crate) fn grant(&self, token: Option<u64>, sent_at: Instant, lease: Duration, waited: bool) -> bool {
        let until = valid_until(sent_at, lease).min(self.longest_until(sent_at));
        if Instant::now() >= until {
            return false;
        }
        let mut state = self.state.lock();
        state.phase = Phase::Held;
        state.token = token;
        state.sent_at = sent_at;
        state.counts_from = sent_at;
        state.granted_lease = lease;
        state.valid_until = until;
        state.telemetry.held(self.lock.labels(), token, waited);
        true
    }

    /// Takes a successful extend or renewal in; false if the hold had ended before.
    pub(crate) fn extend(&self, sent_at: Instant, lease: Duration, by_watchdog: bool) -> bool {
        let mut state = self.state.lock();
        check(self, &mut state);
        if state.phase != Phase::Held {
            return false;
        }
        if by_watchdog {
            state.telemetry.renewed(self.lock.labels(), state.valid_until, self.lease / 3);
        }
        let until = valid_until(sent_at, lease).min(self.longest_until(state.sent_at));
        if until > state.valid_until {
            state.valid_until = until;
            state.counts_from = sent_at;
        }
        if by_watchdog {
            let sent_at = sent_at.std();
            tell(&mut state, GuardEvent::Extended { lease, sent_at });
        }
        true
    }

    /// Until when it may be held if it was granted by an attempt that was sent at `sent_at`.
    fn longest_until(&self, sent_at: Instant) -> Instant {
        sent_at + self.max_hold.unwrap_or(ENDLESS)
    }

    /// Says once that it is lost; nothing if it had ended already.
    pub(crate) fn lose(&self, reason: LostReason) {
        let mut state = self.state.lock();
        lose(self, &mut state, reason);
    }

    /// The release begins: no lost-signal and no event from here on. True if the hold was valid until now.
    pub(crate) fn end(&self) -> bool {
        let mut state = self.state.lock();
        let valid = state.phase == Phase::Held && Instant::now() < state.valid_until;
        if state.phase == Phase::Held {
            let since = state.sent_at;
            state.telemetry.ended(self.lock.labels(), since, None);
        }
        state.phase = Phase::Ended;
        state.listeners.clear();
        drop(state);
        self.changed.notify_waiters();
        valid
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state.lock().phase == Phase::Ended
    }

    /// Whether it is held, as far as is known now.
    pub(crate) fn is_held(&self) -> bool {
        let mut state = self.state.lock();
        check(self, &mut state);
        state.phase == Phase::Held
    }

    pub(crate) fn lost(&self) -> Option<LostReason> {
        let mut state = self.state.lock();
        check(self, &mut state);
        match &state.phase {
            Phase::Lost(reason) => Some(reason.clone()),
            _ => None,
        }
    }

    pub(crate) fn token(&self) -> Option<u64> {
        self.state.lock().token
    }

    pub(crate) fn sent_at(&self) -> Instant {
        self.state.lock().sent_at
    }

    /// From when on the lease that stands now counts: its grant or its last extension.
    pub(crate) fn counts_from(&self) -> Instant {
        self.state.lock().counts_from
    }

    pub(crate) fn granted_lease(&self) -> Duration {
        self.state.lock().granted_lease
    }

    /// The lease that stands now, less drift: of one that has not claimed the rest yet what it was given for.
    pub(crate) fn standing_lease(&self) -> Duration {
        let state = self.state.lock();
        state.valid_until.saturating_duration_since(state.counts_from)
    }

    /// It was given for less than was asked for, and has to claim the rest.
    pub(crate) fn is_unclaimed(&self) -> bool {
        self.granted_lease() < self.lease
    }

    pub(crate) fn valid_until(&self) -> Instant {
        self.state.lock().valid_until
    }

    pub(crate) fn listen(&self) -> mpsc::UnboundedReceiver<GuardEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.state.lock();
        check(self, &mut state);
        match &state.phase {
            Phase::Held => state.listeners.push(sender),
            // A lease can end between the grant and this call.
            Phase::Lost(reason) => {
                let (reason, at) = (reason.clone(), Instant::now().std());
                let _ = sender.send(GuardEvent::Lost { reason, at });
            }
            Phase::Asked | Phase::Ended => {}
        }
        receiver
    }

    /// Completes at the next loss or the end, at the latest when the present validity runs out.
    pub(crate) async fn change(&self) {
        let mut changed = std::pin::pin!(self.changed.notified());
        changed.as_mut().enable();
        if !self.is_held() {
            return;
        }
        let until = self.valid_until();
        tokio::select! {
            () = changed => {}
            () = self.client().background.runtime_ended(), if self.renewed => {}
            () = sleep_until(until) => {}
        }
    }
}

impl Renewable for Hold {
    fn is_held(&self) -> bool {
        Hold::is_held(self)
    }

    fn lease(&self) -> Duration {
        self.lease
    }

    fn place(&self) -> &DueSlot {
        &self.place
    }
}

/// Raises the lost-signal if the validity has run out or nobody renews it: the first look says so.
fn check(hold: &Hold, state: &mut State) {
    if hold.renewed && hold.client().background.has_no_runtime() {
        lose(hold, state, LostReason::RuntimeEnded);
    } else if state.phase == Phase::Held && Instant::now() >= state.valid_until {
        let reason = if state.valid_until >= hold.longest_until(state.sent_at) {
            LostReason::MaxHold
        } else if hold.renewed {
            LostReason::NotRenewed
        } else {
            LostReason::Expired
        };
        lose(hold, state, reason);
    }
}

fn lose(hold: &Hold, state: &mut State, reason: LostReason) {
    if state.phase != Phase::Held {
        return;
    }
    state.telemetry.ended(hold.lock.labels(), state.sent_at, Some(&reason));
    state.phase = Phase::Lost(reason.clone());
    let at = Instant::now().std();
    tell(state, GuardEvent::Lost { reason, at });
    state.listeners.clear();
    hold.changed.notify_waiters();
}

fn tell(state: &mut State, event: GuardEvent) {
    state.listeners.retain(|listener| listener.send(event.clone()).is_ok());
}
