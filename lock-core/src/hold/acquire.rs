//! Acquiring: look, subscribe, look again, sleep until a hint, the holder's end or the poll bound, and again.

use std::{future::Future, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::sync::OwnedMutexGuard;

use crate::bounds::{LAST_LOOK, SHORTEST_LEASE};
use crate::clock::{Instant, outside_of_tokio, sleep_until, timeout_at};
use crate::durability::Durability;
use crate::error::{ErrorKind, LockError};
use crate::hold::acquire_options::{Acquire, Lease, Owner};
use crate::hold::guard::Guard;
use crate::hold::release::{Open, ReleaseReason, too_many_undos};
use crate::hold::watchdog;
use crate::hold::{Hold, HolderIdentity, outside};
use crate::kind::ServerLine;
use crate::locks::lock_inner::LockInner;
use crate::servers::server_set::Servers;
use crate::servers::{AttemptAnswer, GiveBack, backoff, release_at};
use crate::topology::{NodeError, RequestPurpose, passes};
use crate::waiting::gate::{GateFront, Position, RIVALS, doubt, settle};
use crate::waiting::queue::{WaiterEvent, least_left};
use crate::waiting::subscriptions::Subscriptions;

const ACTION: &str = "acquire";

/// No future around a future, which would be as large again.
pub(crate) fn acquire_for(
    lock: &Arc<LockInner>,
    who: HolderIdentity,
    how: &Acquire,
) -> impl Future<Output = Result<Guard, LockError>> {
    let asked = search_for(lock, who, how);
    #[cfg(any(feature = "tracing", feature = "metrics"))]
    let asked = crate::telemetry::observed(lock.labels(), asked);
    asked
}

async fn search_for(lock: &Arc<LockInner>, who: HolderIdentity, how: &Acquire) -> Result<Guard, LockError> {
    let options = &lock.client.options;
    let lease = match how.lease {
        Lease::Renewed => options.watchdog_lease,
        Lease::Fixed(lease) => lease,
    };
    const MS: Duration = Duration::from_millis(1);
    let bounds = [
        (
            Some(lease),
            SHORTEST_LEASE,
            "a lease is 3 ms, of which 2 are kept for clocks that differ, to a hundred years",
        ),
        (how.token_life, MS, "a token life is 1 ms to a hundred years"),
        (how.max_hold, SHORTEST_LEASE, "a longest time of holding is 3 ms to a hundred years"),
    ];
    let bad = bounds.into_iter().find_map(|(time, least, why)| outside(time?, least, why));
    if let Some(why) = bad.or_else(outside_of_tokio) {
        return Err(LockError::invalid(ACTION, &lock.names.key, why));
    }
    let background = &lock.client.background;
    if background.has_no_runtime() {
        return Err(without_runtime(lock, ErrorKind::Failed));
    }
    let durability = how.durability.unwrap_or(options.durability);
    if let Some(why) = durability.mistake(options.replicas).or_else(|| how.owner.and_then(Owner::mistake)) {
        return Err(LockError::invalid(ACTION, &lock.names.key, why));
    }
    let durability = durability.counted(options.replicas.unwrap_or(0));
    let (once, end) = how.wait.bounds();
    let end = if once { Some(Instant::now() + options.request_timeout(durability)) } else { end };
    let hold = Hold::new(lock, who, how, durability);
    // Dropped after the search: a client that closes waits until each waiter has begun to give back, and
    // until each question is answered that may get what no lease ends.
    let mut counted = lock.format.undo_life().map(|_| background.ticket());
    let mut search = Search::new(hold, end);
    let line = lock.format.line().filter(|_| !once);
    // Behind others of this client nothing is free; but an owner that may hold it already must not queue.
    let waits = !once && how.owner.is_none() && lock.waiters_served().is_some();
    let looks = once || !waits && search.hold_back().is_none();
    if looks && line.is_none() {
        match search.look().await? {
            // Its guard could not give it back later; dropped now it does.
            Some(_) if counted.is_some() && background.is_closed() => {
                return Err(search.closed(ErrorKind::Unknown));
            }
            Some(guard) => return Ok(guard),
            None => {}
        }
        if once {
            return Err(search.give_up());
        }
    }
    if background.is_closed() {
        return Err(search.closed(search.how_certain()));
    }
    counted.get_or_insert_with(|| background.ticket());
    let ended = waited(&mut search, lock, line).await;
    ended.unwrap_or_else(|| match background.is_closed() {
        true => Err(search.closed(search.how_certain())),
        false => Err(without_runtime(lock, search.how_certain())),
    })
}

/// Waits until the search ends, or its client. Apart, so that a call that finds the lock free is not as large
/// as one that waits; boxed here, so that waiting is compiled in this crate and not with each caller.
fn waited<'a>(
    search: &'a mut Search,
    lock: &'a Arc<LockInner>,
    line: Option<&'static dyn ServerLine>,
) -> BoxFuture<'a, Option<Result<Guard, LockError>>> {
    Box::pin(async move {
        let background = &lock.client.background;
        let waits = async {
            match line {
                Some(line) => search.wait_at_server(line).await,
                None => search.wait_in_line(lock).await,
            }
        };
        tokio::select! {
            // The end first: who leaves makes the next ask, and nobody could release what a closing client
            // gets.
            biased;
            () = background.closed() => None,
            () = background.runtime_ended() => None,
            ended = waits => Some(ended),
        }
    })
}

/// The error of a client whose runtime has ended: it would renew nothing, and hear no message.
fn without_runtime(lock: &LockInner, kind: ErrorKind) -> LockError {
    LockError::local(kind, ACTION, &lock.names.key, "the runtime that its client was made in has ended")
}

/// What a waiter comes to behind others of its client.
enum GateOutcome {
    Front(OwnedMutexGuard<GateFront>),
    /// It has asked without being the first.
    Granted(Guard),
}

/// One acquire on its way. Dropping it gives back whatever may have been taken.
#[derive(Debug)]
struct Search {
    hold: Arc<Hold>,
    /// Where it may be held although nobody has a guard.
    open: Open,
    end: Option<Instant>,
    last: LastAttempt,
    /// An attempt that may have taken the lock, of which no more was heard.
    unknown: Option<NodeError>,
    /// Attempts, and failed attempts in a row.
    looks: u32,
    failures: u32,
    /// When a place in the line was asked for, and the server's clock when it was given.
    placed: Option<(Instant, u64)>,
    /// It had a place once, which somebody has to give up, whatever a later look says.
    stands: bool,
    /// Others were let go first before the last look, until the time for that was over.
    held_back: bool,
}

/// What the last attempt came to.
#[derive(Debug)]
enum LastAttempt {
    None,
    /// There was none: it stood behind another waiter of this client, which was not polled for so long.
    Behind {
        silence: Duration,
    },
    Taken {
        left: Option<Duration>,
    },
    Split,
    TooLate,
    Trouble(NodeError),
}

impl Search {
    fn new(hold: Arc<Hold>, end: Option<Instant>) -> Self {
        Search {
            open: Open::new(&hold, ReleaseReason::Undo),
            hold,
            end,
            last: LastAttempt::None,
            unknown: None,
            looks: 0,
            failures: 0,
            placed: None,
            stands: false,
            held_back: false,
        }
    }

    /// Goes on under a new identity; what the old one may have is given back in the background.
    fn start_anew(&mut self) {
        self.hold = self.hold.anew();
        self.stands = false;
        self.open = Open::new(&self.hold, ReleaseReason::Undo);
    }

    /// One attempt, within the caller's bound.
    async fn look(&mut self) -> Result<Option<Guard>, LockError> {
        let lock = Arc::clone(&self.hold.lock);
        if let Some(error) = too_many_undos(&lock) {
            self.failures += 1;
            self.last = LastAttempt::Trouble(error);
            return Ok(None);
        }
        let timeout = lock.client.options.request_timeout(self.hold.durability);
        let now = Instant::now();
        let end = self.end.map(|end| end.max(now + LAST_LOOK));
        let deadline = end.map_or(now + timeout, |end| end.min(now + timeout));
        // What this owner has just given back may be on its way yet.
        let returning = self.hold.release_key().filter(|key| lock.client.returns.has(key));
        self.open.add_all();
        self.hold.asking.set(true);
        let tried = lock.servers.acquire(&self.hold, deadline).await;
        self.hold.asking.set(false);
        self.looks += 1;
        self.failures = if tried.is_err() { self.failures + 1 } else { 0 };
        let majority = lock.servers.is_majority();
        if majority && !matches!(tried, Ok(AttemptAnswer::Granted { .. })) {
            // A vote cleans up after itself, in the background where it has to.
            self.open.close_all();
            self.start_anew();
        }
        let refused = match tried {
            Ok(AttemptAnswer::Own | AttemptAnswer::Busy { .. }) => true,
            Ok(AttemptAnswer::Queued { .. }) => !self.hold.in_line.get(),
            _ => false,
        };
        if refused && let Some(key) = &returning {
            let ended = lock.client.returns.ended(key);
            if within(Some(deadline), ended).await.is_some() {
                return Box::pin(self.look()).await;
            }
        }
        match tried {
            Ok(AttemptAnswer::Granted { token, sent_at }) => {
                // In a line at the server it stands from its first attempt on, also where nobody else does.
                let is_first = matches!(self.last, LastAttempt::None) && lock.format.line().is_some();
                let waited = self.hold.in_line.get() && !is_first;
                if self.hold.grant(token, sent_at, self.hold.lease, waited) {
                    return Ok(Some(self.granted()));
                }
                // A grant that comes after its own lease is none.
                self.start_anew();
                self.unknown = None;
                self.last = LastAttempt::TooLate;
            }
            Ok(AttemptAnswer::Queued { left, sent_at, server_us }) if self.hold.in_line.get() => {
                // From now on it may be given to this owner at any time.
                self.stands = true;
                self.placed = Some((sent_at, server_us));
                self.last = LastAttempt::Taken { left };
            }
            Ok(AttemptAnswer::Busy { left } | AttemptAnswer::Queued { left, .. }) => {
                self.nothing_taken();
                self.last = LastAttempt::Taken { left };
            }
            Ok(AttemptAnswer::Split | AttemptAnswer::Late) => self.last = LastAttempt::Split,
            Ok(AttemptAnswer::Settled) => {
                self.open.close_all();
                self.unknown = None;
                self.start_anew();
                self.last = LastAttempt::TooLate;
            }
            Ok(AttemptAnswer::Own) => {
                self.open.close_all();
                let name = &lock.names.key;
                let why = format!("{} {}", self.hold.owner, lock.format.why_own());
                return Err(LockError::local(ErrorKind::Failed, ACTION, name, why));
            }
            Ok(AttemptAnswer::Thin { acked, demanded }) => {
                return Err(Box::pin(self.too_thin(acked, demanded)).await);
            }
            Err(error) if error.definite => {
                self.nothing_taken();
                if !passes(&error, RequestPurpose::Answer) {
                    let kind = if self.unknown.is_some() { ErrorKind::Unknown } else { ErrorKind::Failed };
                    return Err(LockError::at_node(kind, ACTION, &lock.names.key, error));
                }
                self.last = LastAttempt::Trouble(error);
            }
            Err(error) => {
                // What broke off at one server, and could not be undone, breaks off again.
                if !majority && !passes(&error, RequestPurpose::Answer) {
                    return Err(LockError::at_node(ErrorKind::Unknown, ACTION, &lock.names.key, error));
                }
                // Of a failed vote the next attempt knows nothing: it has an identity of its own.
                if !majority {
                    self.hold.unsettled.set(true);
                }
                self.unknown = Some(error.clone());
                self.last = LastAttempt::Trouble(error);
            }
        }
        Ok(None)
    }

    fn granted(&mut self) -> Guard {
        self.open.close_all();
        self.hold.client().turns.had(&self.hold.lock, self.held_back);
        if self.hold.renewed || self.hold.is_unclaimed() {
            watchdog::add(&self.hold);
        }
        Guard::new(Arc::clone(&self.hold))
    }

    /// The last attempt took nothing; an earlier one may still be on its way.
    fn nothing_taken(&mut self) {
        // A waiter in a client's one place may be given the lock by a release.
        let line = self.hold.lock.format.line();
        let is_heir = self.hold.in_line.get() && line.is_some_and(|line| line.shares_place());
        if !self.hold.unsettled.get() && !is_heir && !self.stands {
            self.open.close_all();
        }
    }

    /// Gives back what too few replicas have. Only an acknowledgement makes certain that it is not held.
    async fn too_thin(&mut self, acked: u32, demanded: u32) -> LockError {
        let why = self.hold.durability.shortage(acked, demanded);
        let mut kind = ErrorKind::NotDurable;
        if let Servers::One(route) = &self.hold.lock.servers {
            let bound = Instant::now() + self.hold.client().options.response_timeout;
            let how = GiveBack { valid: false, deadline: self.end.map_or(bound, |end| end.min(bound)) };
            let request = self.hold.lock.format.undo(&self.hold.request());
            match release_at(route, &self.hold, &request, how).await {
                Ok(_) => self.nothing_taken(),
                Err(_) => kind = ErrorKind::Unknown,
            }
        }
        LockError::local(kind, ACTION, &self.hold.lock.names.key, why)
    }

    /// Waits until it is this caller's turn in this client, and then for the lock.
    async fn wait_in_line(&mut self, lock: &Arc<LockInner>) -> Result<Guard, LockError> {
        let options = &lock.client.options;
        let place = lock.client.gates.enter(lock.line_key(), GateFront::new);
        let mut front;
        loop {
            front = match self.come_to_front(&place).await? {
                GateOutcome::Granted(guard) => return Ok(guard),
                GateOutcome::Front(front) => front,
            };
            if !front.open {
                break;
            }
            // All look side by side; the front is for those who find the lock closed again.
            drop(front);
            if let Some(guard) = self.look().await? {
                return Ok(guard);
            }
            let mut next = match self.come_to_front(&place).await? {
                GateOutcome::Granted(guard) => return Ok(guard),
                GateOutcome::Front(front) => front,
            };
            next.open = false;
            next.full = true;
            let bound = next.poll_bound(options.poll_bound, self.hold.waited());
            next.look_at = Instant::now() + self.pause(bound);
        }
        if lock.format.is_shared() && !std::mem::take(&mut front.full) {
            // The one before has left, perhaps without having seen what there is room for.
            front.look_at = Instant::now();
        }
        let mut lets_go_first = self.hold_back();
        if front.subscriptions.is_none() {
            let (routes, names) = (lock.servers.routes(), &lock.names);
            let mut subscriptions = Subscriptions::on(routes, &names.key, &lock.format.channels(names));
            // Without an acknowledgement the line lives by polling.
            let bound = Instant::now() + options.response_timeout;
            let bounds = [self.end, lets_go_first].into_iter().flatten();
            within(Some(bounds.fold(bound, Instant::min)), subscriptions.ready()).await;
            front.subscriptions = Some(subscriptions);
            front.look_at = Instant::now();
        }
        loop {
            place.attend();
            let front = &mut *front;
            let look_at = lets_go_first.unwrap_or(front.look_at);
            let wake = self.end.map_or(look_at, |end| end.min(look_at));
            self.held_back = lets_go_first.is_some();
            let mut called = false;
            if let Some(subscriptions) = &mut front.subscriptions {
                let message = async {
                    tokio::select! {
                        biased;
                        () = place.called() => true,
                        () = subscriptions.hint() => false,
                    }
                };
                match within(Some(wake), message).await {
                    // What is asked now goes behind the release, on the same connections.
                    Some(true) => {
                        called = true;
                        front.look_at = Instant::now();
                        subscriptions.know();
                    }
                    Some(false) => {
                        // The message counts until somebody has looked: a waiter that goes leaves it to the
                        // next.
                        let planned = std::mem::replace(&mut front.look_at, Instant::now());
                        if !settle(subscriptions, &lock.servers, front.rivals > 0).await {
                            front.look_at = planned.min(Instant::now() + doubt());
                            continue;
                        }
                        lets_go_first = self.hold_back();
                        self.held_back = false;
                        if lets_go_first.is_some() {
                            continue;
                        }
                    }
                    None => {}
                }
            }
            if self.end.is_some_and(|end| Instant::now() >= end) {
                return Err(self.give_up());
            }
            self.hold.stand_in_line(true);
            place.attend();
            let found = self.look().await?;
            let bound = front.poll_bound(options.poll_bound, self.hold.waited());
            front.look_at = Instant::now() + self.pause(bound);
            lets_go_first = None;
            if matches!(self.last, LastAttempt::Split) {
                front.rivals = RIVALS;
            }
            if called
                && found.is_none()
                && let Some(subscriptions) = &mut front.subscriptions
            {
                subscriptions.doubt();
            }
            if let Some(guard) = found {
                front.rivals = front.rivals.saturating_sub(1);
                if lock.servers.is_majority() {
                    // Only a quorum's release calls.
                    place.serve();
                }
                front.full = !self.hold.room.get();
                front.open = lock.format.opens();
                return Ok(guard);
            }
        }
    }

    /// Waits until nobody of this client is before it. A waiter that stays alive and is not polled would keep
    /// all others from the lock: who finds that nobody has attended to the front for two poll bounds asks for
    /// itself, and so does who gives up behind such a one.
    async fn come_to_front(&mut self, place: &Position<'_>) -> Result<GateOutcome, LockError> {
        let poll_bound = self.hold.client().options.poll_bound;
        let mut front = std::pin::pin!(place.front());
        let mut asked_at = None;
        loop {
            let attended_at = place.attended_at();
            let ask_at = asked_at.map_or(attended_at, |at| attended_at.max(at)) + poll_bound * 2;
            let wake = self.end.map_or(ask_at, |end| end.min(ask_at));
            if let Some(front) = within(Some(wake), front.as_mut()).await {
                place.attend();
                return Ok(GateOutcome::Front(front));
            }
            let is_over = self.end.is_some_and(|end| Instant::now() >= end);
            let silence = place.attended_at().elapsed();
            if silence >= poll_bound * if is_over { 1 } else { 2 } {
                self.hold.stand_in_line(true);
                if let Some(guard) = self.look().await? {
                    return Ok(GateOutcome::Granted(guard));
                }
                asked_at = Some(Instant::now());
            }
            if is_over {
                if matches!(self.last, LastAttempt::None) {
                    self.last = LastAttempt::Behind { silence };
                }
                return Err(self.give_up());
            }
        }
    }

    /// Until when to let others look first. A caller who has little time looks at once.
    fn hold_back(&self) -> Option<Instant> {
        const LITTLE: Duration = Duration::from_millis(100);
        let until = self.hold.client().turns.hold_back(&self.hold.lock)?;
        let is_soon = self.end.is_some_and(|end| end < Instant::now() + LITTLE);
        (!is_soon).then_some(until)
    }

    /// Asks for a place in the line at the server and waits until it is called.
    async fn wait_at_server(&mut self, line: &'static dyn ServerLine) -> Result<Guard, LockError> {
        let client = Arc::clone(self.hold.client());
        let returning = self.hold.release_key().filter(|_| !line.shares_place());
        if let Some(key) = returning.filter(|key| client.returns.has(key)) {
            // What the same owner gives back takes its place in the line along, also this one's.
            if within(self.end, client.returns.ended(&key)).await.is_none() {
                let why = "what its owner had, or waited for, is still being given back";
                return Err(LockError::local(ErrorKind::Failed, ACTION, &self.hold.lock.names.key, why));
            }
        }
        loop {
            // A search that starts anew is another owner.
            let hold = Arc::clone(&self.hold);
            let mut seat = client.wait_queues.seat(&hold, line);
            // A release may give it the lock before it has asked.
            self.open.add_all();
            // It was called, and asks whether it has the lock still.
            let mut called = false;
            loop {
                hold.stand_in_line(seat.is_subscribed());
                let mut look_at = None;
                if std::mem::take(&mut called) || seat.asks() {
                    if let Some(guard) = self.look().await? {
                        return Ok(guard);
                    }
                    if !Arc::ptr_eq(&hold, &self.hold) {
                        break;
                    }
                    match self.placed.take() {
                        Some((sent_at, server_us)) => {
                            let left = match self.last {
                                LastAttempt::Taken { left } => left,
                                _ => None,
                            };
                            seat.placed(sent_at, server_us, left);
                        }
                        None => {
                            let pause = self.pause(client.options.poll_bound);
                            look_at = Some(Instant::now() + pause);
                        }
                    }
                }
                match within([self.end, look_at].into_iter().flatten().min(), seat.event()).await {
                    Some(WaiterEvent::Called { token, lease, from }) => {
                        let lease = lease.min(self.hold.lease);
                        self.hold.may_last(Instant::now(), lease);
                        // Replicas acknowledge to the one who asks them, so there one more look is needed. So
                        // it is of a call of which nobody knows how old it is, or of one that is too old: the
                        // server gives a holder that asks its whole lease, and any other its place again.
                        if self.hold.durability == Durability::None
                            && let Some(from) = from
                            && lease.saturating_sub(from.elapsed()) >= least_left(self.hold.lease)
                            && self.hold.grant(Some(token), from, lease, true)
                        {
                            return Ok(self.granted());
                        }
                        called = true;
                        self.last = LastAttempt::Taken { left: None };
                    }
                    // Events may come one after the other: the end is looked at after each. Who was told to
                    // ask asks once more: it may have been given the lock while it was not polled.
                    event @ (Some(WaiterEvent::Again) | None)
                        if self.end.is_some_and(|end| Instant::now() >= end) =>
                    {
                        if event.is_some()
                            && seat.asks()
                            && let Some(guard) = self.look().await?
                        {
                            return Ok(guard);
                        }
                        let polls = client.options.poll_bound;
                        if let Some(silence) = seat.unread_call().filter(|at| *at >= polls) {
                            self.last = LastAttempt::Behind { silence };
                        }
                        return Err(self.give_up());
                    }
                    Some(WaiterEvent::Again) | None => {}
                }
            }
            // What is said at this seat is for the former owner, whose undo gives back what it was given.
            drop(seat);
            let look_at = Instant::now() + self.pause(client.options.poll_bound);
            sleep_until(self.end.map_or(look_at, |end| end.min(look_at))).await;
            if self.end.is_some_and(|end| Instant::now() >= end) {
                return Err(self.give_up());
            }
        }
    }

    /// How long to sleep after a look if no message comes.
    fn pause(&self, poll_bound: Duration) -> Duration {
        let poll = poll_bound.mul_f64(rand::random_range(0.75..=1.0));
        let pace = self.hold.lock.format.pace(self.looks);
        let poll = pace.map_or(poll, |pace| pace.min(poll));
        let poll = self.stands_back_for().map_or(poll, |left| poll.min(left));
        match &self.last {
            // The server rounds what is left down, so a moment is added.
            LastAttempt::Taken { left: Some(left) } => {
                let slack = Duration::from_micros(rand::random_range(1_000..3_000));
                poll.min(*left + slack)
            }
            LastAttempt::None | LastAttempt::Behind { .. } | LastAttempt::Taken { left: None } => poll,
            LastAttempt::Split => Duration::from_millis(rand::random_range(5..50)).min(poll),
            LastAttempt::TooLate => backoff(1),
            LastAttempt::Trouble(_) => backoff(self.failures).min(poll),
        }
    }

    /// For how long a reader who waits still lets writers go first. Who looks only with the next poll stands
    /// behind writers that have long given up.
    fn stands_back_for(&self) -> Option<Duration> {
        let left = self.hold.client().options.writers_first()?.checked_sub(self.hold.waited())?;
        self.hold.lock.format.opens().then(|| left + Duration::from_millis(1))
    }

    /// The error after the last look.
    fn give_up(&mut self) -> LockError {
        let last = std::mem::replace(&mut self.last, LastAttempt::None);
        let name = &self.hold.lock.names.key;
        let (kind, error) = match (self.unknown.take(), last) {
            (Some(error), _) => (ErrorKind::Unknown, error),
            (None, LastAttempt::Trouble(error)) => (ErrorKind::Failed, error),
            (None, seen) => {
                let taken = self.hold.lock.format.taken();
                let why = match seen {
                    LastAttempt::Taken { left: Some(left) } => {
                        format!("{taken}, for {} ms more unless it is renewed or released", left.as_millis())
                    }
                    LastAttempt::TooLate => "it was granted only after the lease had passed".to_owned(),
                    LastAttempt::Split => "no contender got a majority".to_owned(),
                    LastAttempt::Behind { silence } => format!(
                        "it stood behind other waiters of this client, of which the first was polled {} ms ago",
                        silence.as_millis()
                    ),
                    _ => taken.to_owned(),
                };
                return LockError::local(ErrorKind::Busy, ACTION, name, why);
            }
        };
        LockError::at_node(kind, ACTION, name, error)
    }

    /// The error when the client closes. What an attempt may have taken is given back in the background.
    fn closed(&self, kind: ErrorKind) -> LockError {
        LockError::at_node(kind, ACTION, &self.hold.lock.names.key, NodeError::closed())
    }

    /// What is known when it is cut off.
    fn how_certain(&self) -> ErrorKind {
        if self.hold.asking.get() || self.unknown.is_some() { ErrorKind::Unknown } else { ErrorKind::Failed }
    }
}

impl Drop for Search {
    /// Who waits no more keeps nobody back.
    fn drop(&mut self) {
        let hold = &self.hold;
        if hold.in_line.get()
            && let Servers::One(route) = &hold.lock.servers
            && hold.is_asked()
            && let Some(request) = hold.lock.format.leave(&hold.request())
        {
            let (route, client) = (Arc::clone(route), hold.client());
            let deadline = Instant::now() + client.options.response_timeout;
            client.background.spawn(async move {
                // Else it counts until the time for that is over.
                let _ = route.send(&request, deadline).await;
            });
        }
    }
}

/// The future's output, or nothing at the end of the time.
pub(crate) async fn within<T>(end: Option<Instant>, future: impl Future<Output = T>) -> Option<T> {
    match end {
        Some(end) => timeout_at(end, future).await.ok(),
        None => Some(future.await),
    }
}
