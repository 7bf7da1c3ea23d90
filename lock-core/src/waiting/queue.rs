//! The waiters of one client in a line on the server: messages and heartbeats become events for each.
//!
//! All of them share one subscription and one heartbeat, whatever their number. Of a kind whose waiters have
//! a place each, every waiter asks the server once, for its own. Of a kind where a client has one place for
//! all, only the first of them asks, and a release in the same client names the first two as its successors
//! (`waiting/handoff.rs`). Each is then notified that it was called, or that it should ask.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::sync::{Notify, mpsc};

use crate::clock::{Instant, sleep_until};
use crate::hold::{Hold, drift};
use crate::kind::{ChannelSpec, Heartbeat, LineMessage, MissingWaiters, ServerLine, Successor, Waiting};
use crate::locks::lock_inner::LockInner;
use crate::sync::Mutex;
use crate::topology::{ChannelName, NodeError, ServerReply, Subscription};
use crate::waiting::gate::unheard_pause;

/// From one heartbeat to the next; three of them make a client count as dead when they are missed.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// For how long a client that waits no more stays subscribed: mostly it waits again soon.
const LINGER: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(crate) struct WaitQueues {
    queues: Mutex<HashMap<Key, Arc<WaitQueue>>>,
}

type Key = (&'static str, String);

fn key(lock: &LockInner) -> Key {
    (lock.word, lock.names.key.clone())
}

#[derive(Debug)]
pub(crate) struct WaitQueue {
    lock: Arc<LockInner>,
    line: &'static dyn ServerLine,
    state: Mutex<State>,
    /// The first waiter came, or the client ends.
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// In the order of their arrival.
    waiters: BTreeMap<u64, Waiter>,
    /// Their numbers. Of an owner that the caller named several may wait, in one place at the server.
    numbers: HashMap<String, BTreeSet<u64>>,
    arrivals: u64,
    started: bool,
    subscribed: bool,
    stamp: Option<Stamp>,
    /// When to look sooner than by the next heartbeat, since somebody new was told that nothing would say so.
    look_at: Option<Instant>,
}

#[derive(Debug)]
struct Waiter {
    hold: Arc<Hold>,
    owner: String,
    events: mpsc::UnboundedSender<WaiterEvent>,
    standing: QueuePosition,
}

/// What is known of a waiter's place at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueuePosition {
    /// It has not asked, or its place may be gone.
    Unknown,
    /// The server has said that it has one.
    Placed,
    /// It was given the lock and has not read so yet. Nobody waits for it: its task may outlast the call.
    Called(Instant),
}

impl Waiter {
    fn is_placed(&self) -> bool {
        self.standing == QueuePosition::Placed
    }
}

/// What the server's clock showed at some moment after `sent_at`.
#[derive(Debug, Clone, Copy)]
struct Stamp {
    sent_at: Instant,
    server_us: u64,
}

impl Stamp {
    /// A moment that is surely not after the one when the server's clock showed `server_us`; none if that
    /// clock was visibly set since. Clocks may differ by a hundredth.
    fn not_after(&self, server_us: u64, now: Instant) -> Option<Instant> {
        let apart = Duration::from_micros(server_us.abs_diff(self.server_us));
        if server_us >= self.server_us {
            let from = self.sent_at + apart.mul_f64(0.99);
            (from <= now).then_some(from)
        } else {
            self.sent_at.checked_sub(apart.mul_f64(1.01))
        }
    }
}

type HeartbeatAnswer = (Vec<String>, Result<ServerReply, NodeError>);

#[derive(Debug)]
pub(crate) enum WaiterEvent {
    /// It was given the lock for so long, from a moment surely not after the server's; none if unknown.
    Called { token: u64, lease: Duration, from: Option<Instant> },
    /// Something may have been missed, or it is the first now: ask, if it is yours to ask.
    Again,
}

/// A waiter's place. Dropping it ends the events; who asked for the server's place gives that back.
pub(crate) struct Seat {
    queue: Arc<WaitQueue>,
    number: u64,
    owner: String,
    events: mpsc::UnboundedReceiver<WaiterEvent>,
    /// Its own, where the client has none for all.
    subscription: Option<Subscription>,
}

impl WaitQueues {
    /// A seat for a hold that is about to ask for a place.
    pub(crate) fn seat(&self, hold: &Arc<Hold>, line: &'static dyn ServerLine) -> Seat {
        let lock = &hold.lock;
        let owner = line.owner(&hold.request()).into_owned();
        let (events, inbox) = mpsc::unbounded_channel();
        let waiter =
            Waiter { hold: Arc::clone(hold), owner: owner.clone(), events, standing: QueuePosition::Unknown };
        let (queue, number) = {
            let mut queues = self.queues.lock();
            let queue = queues.entry(key(lock)).or_insert_with(|| {
                Arc::new(WaitQueue {
                    lock: Arc::clone(lock),
                    line,
                    state: Mutex::default(),
                    wake: Notify::new(),
                })
            });
            // Under the map's lock, so that nobody takes the queue away from its next waiter.
            let number = queue.state.lock().arrives(waiter);
            (Arc::clone(queue), number)
        };
        Seat { queue, number, owner, events: inbox, subscription: None }
    }

    pub(crate) fn queue(&self, lock: &LockInner) -> Option<Arc<WaitQueue>> {
        self.queues.lock().get(&key(lock)).cloned()
    }

    /// Whether somebody waits for the same owner in the same line and place for another hold.
    pub(crate) fn shares_owner(&self, hold: &Hold) -> bool {
        hold.is_of_named_owner() && self.queue(&hold.lock).is_some_and(|queue| queue.waits_for_another(hold))
    }

    /// Forgets a queue that nobody sits at; false if somebody does.
    fn forget(&self, queue: &Arc<WaitQueue>) -> bool {
        let mut queues = self.queues.lock();
        let mut state = queue.state.lock();
        if !state.waiters.is_empty() {
            return false;
        }
        // The next waiter starts anew.
        state.started = true;
        let key = key(&queue.lock);
        // Since the last one left, others may have come and gone, and a newcomer sit at another queue.
        if queues.get(&key).is_some_and(|known| Arc::ptr_eq(known, queue)) {
            queues.remove(&key);
        }
        true
    }
}

impl State {
    fn arrives(&mut self, waiter: Waiter) -> u64 {
        self.arrivals += 1;
        self.numbers.entry(waiter.owner.clone()).or_default().insert(self.arrivals);
        self.waiters.insert(self.arrivals, waiter);
        self.arrivals
    }

    fn leaves(&mut self, number: u64) {
        let Some(waiter) = self.waiters.remove(&number) else {
            return;
        };
        if let Some(numbers) = self.numbers.get_mut(&waiter.owner) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.numbers.remove(&waiter.owner);
            }
        }
        // It may have it now, or have given their place away.
        self.ask_again(&waiter.owner);
    }

    /// Does something with all who wait for an owner, in the order of their arrival; false if nobody does.
    fn each(&mut self, owner: &str, mut what: impl FnMut(&mut Waiter)) -> bool {
        let Some(numbers) = self.numbers.get(owner) else {
            return false;
        };
        for number in numbers {
            if let Some(waiter) = self.waiters.get_mut(number) {
                what(waiter);
            }
        }
        true
    }

    fn ask_again(&mut self, owner: &str) -> bool {
        self.each(owner, |waiter| {
            waiter.standing = QueuePosition::Unknown;
            // A waiter that is gone has closed its inbox.
            let _ = waiter.events.send(WaiterEvent::Again);
        })
    }

    /// The first of those who have not been called.
    fn first(&self) -> Option<(u64, &Waiter)> {
        let waits = |(_, waiter): &(&u64, &Waiter)| !matches!(waiter.standing, QueuePosition::Called(_));
        self.waiters.iter().find(waits).map(|(number, waiter)| (*number, waiter))
    }
}

impl Seat {
    pub(crate) fn is_subscribed(&self) -> bool {
        self.queue.state.lock().subscribed
    }

    /// For how long the lock has been given to another waiter of this client that was not polled since.
    pub(crate) fn unread_call(&self) -> Option<Duration> {
        let state = self.queue.state.lock();
        let called = state.waiters.values().filter_map(|waiter| match waiter.standing {
            QueuePosition::Called(at) => Some(at.elapsed()),
            _ => None,
        });
        called.max()
    }

    /// Whether this waiter asks the server: where a client has one place for all, the first that lacks it.
    pub(crate) fn asks(&self) -> bool {
        let asks = |(number, first): (u64, &Waiter)| number == self.number && !first.is_placed();
        !self.queue.line.shares_place() || self.queue.state.lock().first().is_some_and(asks)
    }

    /// The server has said, to a question sent at `sent_at`, that there is a place, and the lock's time left.
    pub(crate) fn placed(&mut self, sent_at: Instant, server_us: u64, left: Option<Duration>) {
        self.queue.state.lock().stamp = Some(Stamp { sent_at, server_us });
        let look_at = Instant::now() + until_heartbeat(left);
        self.queue.placed(&self.owner, Some(look_at));
        let lock = &self.queue.lock;
        let route = &lock.servers.routes()[0];
        if self.subscription.is_none()
            && !route.hears_patterns()
            && let Some(channel) = self.queue.line.own_channel(&lock.names, &self.owner)
        {
            self.subscription =
                Some(route.channels().subscribe(lock.names.key.as_bytes(), ChannelName::Channel(&channel)));
        }
    }

    /// The next event; cancel-safe.
    pub(crate) async fn event(&mut self) -> WaiterEvent {
        let event = tokio::select! {
            // The sender is in the map as long as this seat is.
            Some(event) = self.events.recv() => event,
            _ = heard(&mut self.subscription) => WaiterEvent::Again,
        };
        if matches!(event, WaiterEvent::Called { .. }) {
            // Now that it has read so it asks for itself again, should the call have come to nothing.
            let mut state = self.queue.state.lock();
            if let Some(own) = state.waiters.get_mut(&self.number) {
                own.standing = QueuePosition::Unknown;
            }
        }
        event
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let idle = {
            let mut state = self.queue.state.lock();
            state.leaves(self.number);
            // The next one asks, unless the server knows it already.
            if self.queue.line.shares_place()
                && let Some((_, next)) = state.first()
                && !next.is_placed()
            {
                let _ = next.events.send(WaiterEvent::Again);
            }
            state.waiters.is_empty() && !state.started
        };
        if idle {
            self.queue.lock.client.wait_queues.forget(&self.queue);
        }
    }
}

impl WaitQueue {
    /// Whom the release of a hold names as its successors, and what it says of them: of those who wait here
    /// for others, the first of a client that has one place for all.
    pub(crate) fn successors(&self, given_back: &Hold) -> (Vec<Arc<Hold>>, Vec<Successor>) {
        let state = self.state.lock();
        let others = |waiter: &&Waiter| !std::ptr::eq(&*waiter.hold, given_back);
        let first = (state.waiters.values().filter(others)).take(self.line.successors());
        let successor = |waiter: &Waiter| Successor {
            owner: waiter.owner.clone(),
            lease: waiter.hold.lease,
            token_life: waiter.hold.token_life(),
            waited: waiter.hold.waited(),
        };
        first.map(|waiter| (Arc::clone(&waiter.hold), successor(waiter))).unzip()
    }

    pub(crate) fn is_subscribed(&self) -> bool {
        self.state.lock().subscribed
    }

    /// The server has said that an owner has a place; from now on its client's heartbeats name it.
    /// Another look than by the next heartbeat is due at `look_at`. False if nobody waits for that owner.
    pub(crate) fn placed(self: &Arc<Self>, owner: &str, look_at: Option<Instant>) -> bool {
        let start = {
            let mut state = self.state.lock();
            if !state.each(owner, |waiter| waiter.standing = QueuePosition::Placed) {
                return false;
            }
            state.look_at = [state.look_at, look_at].into_iter().flatten().min();
            !std::mem::replace(&mut state.started, true)
        };
        if start {
            let queue = Arc::clone(self);
            let background = &self.lock.client.background;
            background.spawn_uncounted(async move { queue.run().await });
        } else {
            self.wake.notify_one();
        }
        true
    }

    /// Listens and sends heartbeats until nobody has waited for a while.
    async fn run(self: Arc<Self>) {
        let client = Arc::clone(&self.lock.client);
        let mut subscription = self.subscription();
        let mut heartbeats: FuturesUnordered<BoxFuture<'_, HeartbeatAnswer>> = FuturesUnordered::new();
        // A channel that the client still has from before is heard at once, and no event says so. What was
        // said on it until now nobody has read.
        let heard_before = subscription.as_ref().is_some_and(Subscription::is_ready);
        self.state.lock().subscribed = heard_before;
        let pause = if heard_before { Duration::ZERO } else { HEARTBEAT };
        let mut heartbeat_at = Instant::now() + pause;
        let mut missing = Vec::new();
        loop {
            let waits = {
                let mut state = self.state.lock();
                let look_at = state.look_at.take();
                heartbeat_at = look_at.map_or(heartbeat_at, |at| at.min(heartbeat_at));
                state.waiters.values().any(Waiter::is_placed)
            };
            let wake = if waits { heartbeat_at } else { Instant::now() + LINGER };
            tokio::select! {
                ready = heard(&mut subscription) => {
                    self.state.lock().subscribed = ready;
                    // What was said before the subscription, nobody has heard.
                    if ready || is_refused(&subscription) {
                        heartbeat_at = Instant::now();
                    }
                }
                Some((asked, answer)) = heartbeats.next(), if !heartbeats.is_empty() => {
                    let pause = match self.read_heartbeat(&answer) {
                        Some(heartbeat) => self.take_in(heartbeat, &asked, &mut missing),
                        None => HEARTBEAT / 10,
                    };
                    heartbeat_at = Instant::now() + pause;
                    if is_refused(&subscription)
                        && let Some((_, first)) = self.state.lock().first()
                    {
                        heartbeat_at = heartbeat_at.min(Instant::now() + unheard_pause(first.hold.waited()));
                    }
                }
                () = sleep_until(wake) => {
                    if !waits {
                        if client.wait_queues.forget(&self) {
                            return;
                        }
                    } else if heartbeats.is_empty() {
                        heartbeats.push(self.heartbeat().boxed());
                        heartbeat_at = Instant::now() + HEARTBEAT;
                    } else {
                        heartbeat_at = Instant::now() + HEARTBEAT / 10;
                    }
                }
                () = self.wake.notified() => {
                    // A waiter that comes after a pause has said so with its own question; those who come
                    // while others wait must not put off the heartbeat of those.
                    if !waits {
                        heartbeat_at = Instant::now() + HEARTBEAT / 2;
                    }
                }
                () = client.background.closed() => {
                    // The waiters that still sit here leave at once, and the last of them forgets the queue.
                    self.state.lock().started = false;
                    client.wait_queues.forget(&self);
                    return;
                }
            }
        }
    }

    /// Listens for all waiters in one place, if there is one for all.
    fn subscription(self: &Arc<Self>) -> Option<Subscription> {
        let names = &self.lock.names;
        let route = &self.lock.servers.routes()[0];
        let subscription = self.line.channel_spec(names, &self.lock.client.id);
        let channel_name = match &subscription {
            ChannelSpec::Channel(channel) => ChannelName::Channel(channel),
            ChannelSpec::Pattern(pattern) if route.hears_patterns() => ChannelName::Pattern(pattern),
            ChannelSpec::Pattern(_) => return None,
        };
        let mut subscription = route.channels().subscribe(names.key.as_bytes(), channel_name);
        let queue = Arc::downgrade(self);
        subscription.read(Box::new(move |message| {
            let Some(queue) = queue.upgrade() else {
                return false;
            };
            if let Some(message) = queue.line.read_message(&queue.lock.names, message) {
                queue.tell(message);
            }
            true
        }));
        Some(subscription)
    }

    /// One heartbeat, with those who must have a place when it comes to the server.
    async fn heartbeat(&self) -> HeartbeatAnswer {
        let (owners, waited, subscribed) = {
            let state = self.state.lock();
            let mut owners: Vec<String> = Vec::new();
            let mut known = BTreeSet::new();
            let mut waited = Duration::ZERO;
            for waiter in state.waiters.values().filter(|waiter| waiter.is_placed()) {
                if owners.is_empty() {
                    waited = waiter.hold.waited();
                }
                if known.insert(waiter.owner.as_str()) {
                    owners.push(waiter.owner.clone());
                }
            }
            (owners, waited, state.subscribed)
        };
        let client = &self.lock.client;
        let request = self.line.heartbeat(&Waiting {
            names: &self.lock.names,
            client: &client.id,
            owners: &owners,
            waited,
            subscribed,
        });
        let deadline = Instant::now() + client.options.response_timeout;
        let answer = self.lock.servers.routes()[0].send(&request, deadline).await;
        (owners, answer)
    }

    fn read_heartbeat(&self, answer: &Result<ServerReply, NodeError>) -> Option<Heartbeat> {
        let sent = answer.as_ref().ok()?;
        let heartbeat = self.line.read_heartbeat(&sent.value)?;
        self.state.lock().stamp = Some(Stamp { sent_at: sent.sent_at, server_us: heartbeat.server_us });
        Some(heartbeat)
    }

    /// Takes in how the line stands, and says when to ask again.
    fn take_in(&self, heartbeat: Heartbeat, asked: &[String], missing: &mut Vec<String>) -> Duration {
        // Before the message: a called waiter leaves, and the next one asks unless the server has its place.
        if let MissingWaiters::AllBut(Some(there)) = &heartbeat.absent {
            self.state.lock().each(there, |waiter| waiter.standing = QueuePosition::Placed);
        }
        if let Some(message) = heartbeat.last_message {
            self.tell(message);
        }
        match heartbeat.absent {
            MissingWaiters::These(absent) => {
                for owner in absent.iter().filter_map(|place| asked.get(*place)) {
                    self.ask_again(owner);
                }
            }
            MissingWaiters::AllBut(there) => {
                let absent = asked.iter().filter(|owner| Some(*owner) != there.as_ref());
                let (twice, once): (Vec<_>, Vec<_>) =
                    (absent.cloned()).partition(|owner| missing.contains(owner));
                // A call may be on its way to a missing waiter. If that one still is a heartbeat later, it
                // was lost.
                for owner in &twice {
                    self.ask_again(owner);
                }
                let is_complete = once.is_empty() && twice.is_empty();
                *missing = once;
                if !is_complete {
                    return HEARTBEAT / 10;
                }
            }
        }
        until_heartbeat(heartbeat.left)
    }

    /// Passes a message on to its waiter. A waiter that left while it was called releases the lock by itself.
    fn tell(&self, message: LineMessage) {
        let now = Instant::now();
        match message {
            LineMessage::Called(called) => {
                let stamp = self.state.lock().stamp;
                let from = stamp.and_then(|stamp| stamp.not_after(called.server_us, now));
                self.call(&called.owner, called.token, called.lease, from);
            }
            // It stays placed: one that asks too late still has its place.
            LineMessage::Turn(owner) => {
                self.state.lock().each(&owner, |waiter| {
                    // A waiter that is gone has closed its inbox.
                    let _ = waiter.events.send(WaiterEvent::Again);
                });
            }
        }
    }

    /// Tells a waiter that it has the lock; false if nobody of that name waits.
    pub(crate) fn call(&self, owner: &str, token: u64, lease: Duration, from: Option<Instant>) -> bool {
        let mut event = Some(WaiterEvent::Called { token, lease, from });
        let mut notified = false;
        self.state.lock().each(owner, |waiter| {
            // One hold is for one waiter: the one that came first.
            if let Some(event) = event.take() {
                waiter.standing = QueuePosition::Called(Instant::now());
                notified = waiter.events.send(event).is_ok();
            }
        });
        notified
    }

    pub(crate) fn ask_again(&self, owner: &str) -> bool {
        self.state.lock().ask_again(owner)
    }

    /// Whether somebody waits for the owner of `hold` for another hold than this.
    fn waits_for_another(&self, hold: &Hold) -> bool {
        let mut others = 0;
        self.state.lock().each(&hold.owner, |waiter| {
            others += u32::from(!std::ptr::eq(&*waiter.hold, hold));
        });
        others > 0
    }
}

/// When to send the next heartbeat if the lock is another's for so long. Nobody is called when a lease ends:
/// the first who asks after that calls the next.
fn until_heartbeat(left: Option<Duration>) -> Duration {
    left.map_or(HEARTBEAT, |left| {
        let slack = Duration::from_micros(rand::random_range(1_000..10_000));
        HEARTBEAT.min(left + slack)
    })
}

/// Completes when the subscription has come or gone, and says which; never if there is none.
async fn heard(subscription: &mut Option<Subscription>) -> bool {
    match subscription {
        Some(subscription) => {
            subscription.hint().await;
            subscription.is_ready()
        }
        None => std::future::pending().await,
    }
}

fn is_refused(subscription: &Option<Subscription>) -> bool {
    subscription.as_ref().is_some_and(Subscription::is_refused)
}

/// When to claim a hold that was given for `lease` only: soon, but not so soon that short work pays for it.
pub(crate) fn claim_after(lease: Duration) -> Duration {
    (lease / 4).saturating_sub(drift(lease))
}

/// How much must be left of a believed call of `lease`: enough to claim the rest, with lost answers.
pub(crate) fn least_left(lease: Duration) -> Duration {
    (lease / 2).min(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Acquire, Client, ClientOptions, Kind, Owner, durability::Durability, hold::HolderIdentity,
        topology::tests::support::Server,
    };

    /// The last waiter to leave a queue may forget it only after others have begun a new one.
    #[tokio::test]
    async fn a_queue_is_forgotten_without_its_successor() {
        let server = Server::start(&[]);
        let target = server.url().parse().expect("a good URL");
        let client = Client::connect(&target, ClientOptions::default()).await;
        let client = client.expect("it answers");
        let lock = client.lock(Kind::Fair, "n").expect("a good name");
        let line = lock.inner.format.line().expect("it has a line");
        let queues = &client.shared().wait_queues;
        let sit = || {
            let who = HolderIdentity::Owner(Some(Owner::numbered(1)));
            queues.seat(&Hold::new(&lock.inner, who, &Acquire::default(), Durability::None), line)
        };
        let first = sit();
        let left = Arc::clone(&first.queue);
        drop(first);
        let next = sit();
        assert!(queues.forget(&left));
        assert!(Arc::ptr_eq(&queues.queue(&lock.inner).expect("somebody sits there"), &next.queue));
    }
}
