//! The network between clients and servers: connections, links that delay, hold or refuse, and the order in
//! which everything arrives.
//!
//! One queue has all that is under way, by the time of its arrival. What arrives over a link that is cut, or
//! at a server that is stopped, is kept there in its order until that is over; nothing is lost out of the
//! middle of a connection, and nothing overtakes within one.

mod machine;
#[cfg(test)]
mod tests;
mod trace;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;

use chaos::roles::Roles;
use cluster_config::{Label, MessagePassage, MessageWords, Pattern};
pub(crate) use machine::Machine;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use crate::host::Host;
use crate::runtime::lock;
use crate::runtime::system::Skew;
use crate::server::{ConnectionId, LinkId, Loss, Order, Reply, counted, write_command};

/// From one party to another, by name.
pub(crate) type Way = (Arc<str>, Arc<str>);

pub(crate) struct Network {
    state: Mutex<State>,
    /// Something arrives earlier than was known.
    sooner: Notify,
}

pub(crate) struct State {
    random: ChaCha8Rng,
    began: Instant,
    /// Since it began, when somebody last had a look: the time stands still as long as anything is done.
    now: Duration,
    /// How long bytes are under way where no fault acts.
    latency: (Duration, Duration),
    pub(crate) hosts: BTreeMap<String, Host>,
    /// What the names mean by which clients know servers (nothing: for now, nothing), and how often each was
    /// looked up since.
    names: BTreeMap<String, (Option<String>, u64)>,
    links: BTreeMap<Way, Link>,
    connections: BTreeMap<u64, Connection>,
    /// What came for a server that is stopped.
    waiting: BTreeMap<String, Vec<Event>>,
    queue: BTreeMap<(Duration, u64), Event>,
    count: u64,
    awaited: Option<Duration>,
    counters: Vec<MessageCounter>,
    /// What messages are about, where a fault asks for that.
    roles: Option<Arc<Mutex<Roles>>>,
    /// What clients and servers said to each other, where somebody wants to read it.
    trace: Option<Vec<String>>,
}

#[derive(Default)]
struct Link {
    cuts: i32,
    refusals: i32,
    /// How much later bytes arrive, give or take.
    delays: Vec<(Duration, Duration)>,
    held: Vec<Event>,
    chosen: Vec<MessageFault>,
}

/// Messages of a link that a fault holds or loses, by what they say.
pub(crate) struct MessageFault {
    pub(crate) span: u64,
    pub(crate) pattern: Pattern,
    /// The first that is harmed, and how many are.
    pub(crate) nth: u64,
    pub(crate) count: u64,
    pub(crate) is_lost: bool,
    pub(crate) fitted: u64,
}

/// What a message says, or the command that it answers, and what it is about.
type Message<'a> = (&'a MessageWords, Label);

/// Messages for which a fault waits, by what they say.
struct MessageCounter {
    ends: [Option<Arc<str>>; 2],
    pattern: Pattern,
    passed: watch::Sender<u64>,
}

impl MessageCounter {
    fn fits(&self, way: &Way, (words, label): Message<'_>) -> bool {
        let mut ends = self.ends.iter().zip([&way.0, &way.1]);
        ends.all(|(end, there)| end.as_ref().is_none_or(|end| end == there))
            && self.pattern.matches(words, label)
    }
}

/// What a fault on a message leaves of one direction of its connection.
#[derive(Debug, Default)]
enum Flow {
    #[default]
    Free,
    /// From that message on everything is held, by the fault of this span.
    Held(u64, Vec<Event>),
    /// The next message is lost.
    Loses,
    /// A message was lost: another one would take its place, so the connection is reset before.
    Lost,
}

struct Connection {
    /// From the server, and to it.
    ways: [Way; 2],
    /// The name that a server has for it which opened it.
    link: Option<LinkId>,
    /// The server's name for it, once it was accepted.
    accepted: Option<ConnectionId>,
    /// Bytes that are no whole command yet.
    parsed: Vec<u8>,
    received: VecDeque<u8>,
    reader: Option<Waker>,
    phase: Phase,
    /// When the last bytes arrive that are under way to the server, and to the client.
    last: [Duration; 2],
    /// In the same order.
    flows: [Flow; 2],
    /// It is reset, which its ends may not know yet: the server's answers reach nobody.
    is_broken: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Dialling,
    Open,
    Refused,
    /// The server's end is closed.
    Closed,
    Reset,
}

#[derive(Debug)]
enum Event {
    /// At the server.
    Dial(u64),
    Request(u64, Vec<u8>),
    Hangup(u64),
    /// A reset, of which the client's end learns by itself, maybe later.
    Broken(u64),
    /// At the client.
    Accepted(u64),
    Refused(u64),
    Reply(u64, Vec<u8>),
    Ended(u64, Phase),
    /// What comes behind it is harmed.
    Turned(u64, Flow),
    /// What came before it is counted.
    Passed(u64, watch::Sender<u64>),
    Tick(String),
}

impl Network {
    /// Of servers by name; everything random comes from `seed`. To be called on the runtime.
    pub(crate) fn new(
        seed: u64,
        latency: (Duration, Duration),
        hosts: BTreeMap<String, Host>,
        roles: Option<Arc<Mutex<Roles>>>,
    ) -> Arc<Self> {
        Arc::new(Network {
            state: Mutex::new(State {
                random: ChaCha8Rng::seed_from_u64(seed),
                began: Instant::now(),
                now: Duration::ZERO,
                latency,
                hosts,
                names: BTreeMap::new(),
                links: BTreeMap::new(),
                connections: BTreeMap::new(),
                waiting: BTreeMap::new(),
                queue: BTreeMap::new(),
                count: 0,
                awaited: None,
                counters: Vec::new(),
                roles,
                trace: None,
            }),
            sooner: Notify::new(),
        })
    }

    /// Carries everything to where it goes, without end.
    pub(crate) async fn carry(self: Arc<Self>) {
        loop {
            let (next, began) = {
                let mut state = self.state();
                state.now = state.began.elapsed();
                state.step();
                let next = state.queue.first_key_value().map(|((at, _), _)| *at);
                state.awaited = next;
                (next, state.began)
            };
            match next {
                None => self.sooner.notified().await,
                Some(at) => tokio::select! {
                    biased;
                    () = tokio::time::sleep_until(began + at) => {}
                    () = self.sooner.notified() => {}
                },
            }
        }
    }

    pub(crate) fn with<T>(&self, what: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        state.now = state.began.elapsed();
        let done = what(&mut state);
        let next = state.queue.first_key_value().map(|((at, _), _)| *at);
        let sooner = match (next, state.awaited) {
            (Some(next), Some(awaited)) => next < awaited,
            (next, None) => next.is_some(),
            (None, Some(_)) => false,
        };
        drop(state);
        if sooner {
            self.sooner.notify_one();
        }
        done
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// From now on keeps what clients and servers say to each other.
    pub(crate) fn begin_trace(&mut self) {
        self.trace = Some(Vec::new());
    }

    pub(crate) fn take_trace(&mut self) -> Vec<String> {
        self.trace.take().unwrap_or_default()
    }

    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    fn step(&mut self) {
        let now = self.now();
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let event = entry.remove();
            self.arrive(event);
        }
    }

    fn schedule(&mut self, at: Duration, event: Event) {
        self.count += 1;
        self.queue.insert((at, self.count), event);
    }

    /// Puts an event of a connection on its way; `to_server`: in that direction.
    fn send(&mut self, connection: u64, to_server: bool, event: Event) {
        let now = self.now();
        let (low, high) = self.latency;
        let mut under_way = self.random.random_range(low..=high);
        let Some(of) = self.connections.get(&connection) else { return };
        if of.is_broken && matches!(event, Event::Reply(..)) {
            return;
        }
        if let Some(link) = self.links.get(&of.ways[usize::from(to_server)]) {
            for (latency, jitter) in &link.delays {
                let jitter = self.random.random_range(Duration::ZERO..=*jitter * 2);
                under_way += (*latency + jitter).saturating_sub(jitter / 2);
            }
        }
        let of = self.connections.get_mut(&connection).expect("as before");
        let last = &mut of.last[usize::from(to_server)];
        let at = (now + under_way).max(*last);
        *last = at;
        self.schedule(at, event);
    }

    /// Hands an event over, or keeps it where it cannot pass.
    fn arrive(&mut self, event: Event) {
        let Some((connection, to_server)) = event.of() else {
            if let Event::Tick(server) = event {
                self.tick(&server);
            }
            return;
        };
        let Some(of) = self.connections.get(&connection) else { return };
        let way = &of.ways[usize::from(to_server)];
        if let Some(link) = self.links.get_mut(way).filter(|link| link.cuts > 0) {
            return link.held.push(event);
        }
        self.hand_over(event);
    }

    /// Hands over what is at its machine, unless its process is stopped or a fault holds or loses it.
    fn hand_over(&mut self, event: Event) {
        let now = self.now();
        let Some((connection, to_server)) = event.of() else { return };
        let Some(of) = self.connections.get_mut(&connection) else { return };
        // The kernel accepts for a process that is stopped.
        let there = &of.ways[usize::from(to_server)].1;
        let is_stopped = (self.hosts.get(&**there)).is_some_and(|host| host.is_stopped);
        if is_stopped && !matches!(event, Event::Dial(_)) {
            return self.waiting.entry(there.to_string()).or_default().push(event);
        }
        match &mut of.flows[usize::from(to_server)] {
            Flow::Free => {}
            Flow::Held(_, held) => return held.push(event),
            flow if matches!(event, Event::Request(..) | Event::Reply(..)) => {
                if !matches!(flow, Flow::Lost) {
                    *flow = Flow::Lost;
                } else if !of.is_broken {
                    self.reset(|number, _| number == connection, Phase::Reset);
                }
                return;
            }
            Flow::Loses | Flow::Lost if matches!(event, Event::Passed(..)) => return,
            Flow::Loses | Flow::Lost => {}
        }
        if let Some(link) = of.link.filter(|_| !to_server) {
            let there = Arc::clone(&of.ways[0].1);
            return self.arrive_by_link(&there, link, event);
        }
        let server = Arc::clone(&of.ways[1].1);
        let host = self.hosts.get_mut(&*server);
        match event {
            Event::Dial(_) => {
                let link = self.links.get(&of.ways[1]);
                let refuses = link.is_some_and(|link| link.refusals > 0);
                match host {
                    Some(host) if host.runs && !refuses => {
                        let id = host.accept(connection);
                        of.accepted = Some(id);
                        self.send(connection, false, Event::Accepted(connection));
                    }
                    _ => self.send(connection, false, Event::Refused(connection)),
                }
            }
            Event::Request(_, bytes) => {
                let Some(host) = host.filter(|host| host.runs) else { return };
                let Some(id) = of.accepted else { return };
                match of.parsed.is_empty() {
                    true => of.parsed = bytes,
                    false => of.parsed.extend(bytes),
                }
                let wall = host.wall(now);
                let mut links = of.ways.iter().filter_map(|way| self.links.get(way));
                let chooses = self.roles.is_some() || !self.counters.is_empty();
                if chooses || links.any(|link| !link.chosen.is_empty()) {
                    return self.execute_chosen(connection, wall, id);
                }
                while let Some(command) = command(&mut of.parsed) {
                    trace::command(&mut self.trace, now, connection, &of.ways[1], &command);
                    host.server.execute(wall, id, &command);
                }
                self.flush(&server);
            }
            Event::Hangup(_) => {
                if let (Some(host), Some(id)) = (host, of.accepted) {
                    host.hang_up(id);
                }
                self.connections.remove(&connection);
                self.flush(&server);
            }
            Event::Broken(_) => {
                // A client lets go of its end itself; a server's link is not asked again.
                if of.link.is_some() {
                    of.phase = Phase::Reset;
                }
                if let (Some(host), Some(id)) = (host, of.accepted) {
                    host.hang_up(id);
                }
                self.flush(&server);
            }
            Event::Accepted(_) => of.turn(Phase::Open),
            Event::Refused(_) => of.turn(Phase::Refused),
            Event::Reply(_, bytes) => {
                trace::reply(&mut self.trace, now, connection, &of.ways[0], "told", &bytes);
                of.received.extend(bytes);
                of.wake();
            }
            Event::Ended(_, phase) => of.turn(phase),
            // What is harmed already stays so; a fault that is over holds nothing.
            Event::Turned(_, flow) if matches!(of.flows[0], Flow::Free) => {
                let link = self.links.get(&of.ways[0]);
                let chosen = link.map_or(&[][..], |link| &link.chosen);
                if !matches!(flow, Flow::Held(by, _) if chosen.iter().all(|one| one.span != by)) {
                    of.flows[0] = flow;
                }
            }
            Event::Passed(_, passed) => passed.send_modify(|passed| *passed += 1),
            Event::Turned(..) | Event::Tick(_) => {}
        }
    }

    /// Carries out what a client sent, but for what faults on messages hold or lose.
    fn execute_chosen(&mut self, connection: u64, wall: Duration, id: ConnectionId) {
        while let Some(of) = self.connections.get_mut(&connection)
            && let Some(command) = command(&mut of.parsed)
        {
            let [back, way] = of.ways.clone();
            let (client, server) = &way;
            let mut words = MessageWords::default();
            command.iter().for_each(|word| words.push(word));
            let labels = match (&self.roles, client_number(client)) {
                (Some(roles), Some(client)) => {
                    lock(roles).command(MessagePassage { connection, client, node: server }, &words)
                }
                _ => (None, None),
            };
            match harm(&mut self.links, &way, (&words, labels.0)) {
                Some(Flow::Held(span, mut held)) => {
                    let mut bytes = Vec::new();
                    write_command(&command, &mut bytes);
                    bytes.append(&mut of.parsed);
                    held.push(Event::Request(connection, bytes));
                    of.flows[1] = Flow::Held(span, held);
                    break;
                }
                Some(_) => {
                    of.flows[1] = Flow::Lost;
                    if !of.parsed.is_empty() {
                        self.reset(|number, _| number == connection, Phase::Reset);
                    }
                    break;
                }
                None => {}
            }
            let counters = self.counters.iter().filter(|one| one.fits(&way, (&words, labels.0)));
            counters.for_each(|one| one.passed.send_modify(|passed| *passed += 1));
            // What answers commands before this one is neither harmed nor counted.
            self.flush(server);
            trace::command(&mut self.trace, self.now, connection, &way, &command);
            self.send_marked(connection, &back, (&words, labels.1), |state| {
                if let Some(host) = state.hosts.get_mut(&**server) {
                    host.server.execute(wall, id, &command);
                }
                state.flush(server);
            });
        }
    }

    /// Sends a message to a client: before it what faults make of it, behind it what counts it.
    fn send_marked(
        &mut self,
        connection: u64,
        way: &Way,
        message: Message<'_>,
        send: impl FnOnce(&mut Self),
    ) {
        let counters = self.counters.iter().filter(|one| one.fits(way, message));
        let counters: Vec<_> = counters.map(|one| one.passed.clone()).collect();
        if let Some(flow) = harm(&mut self.links, way, message) {
            self.send(connection, false, Event::Turned(connection, flow));
        }
        send(self);
        for passed in counters {
            self.send(connection, false, Event::Passed(connection, passed));
        }
    }

    /// Sends what a server has for a client, each published message by itself: that has a role of its own.
    fn send_to_client(&mut self, connection: u64, mut bytes: Vec<u8>) {
        let way = self.connections.get(&connection).map(|of| of.ways[0].clone());
        let client = way.as_ref().and_then(|way| client_number(&way.1));
        if let (Some(way), Some(client), Some(roles)) = (way, client, self.roles.clone()) {
            while let Some((words, length)) = published(&bytes) {
                let rest = bytes.split_off(length);
                let label = lock(&roles).push(MessagePassage { connection, client, node: &way.0 }, &words);
                self.send_marked(connection, &way, (&words, label), |state| {
                    state.send(connection, false, Event::Reply(connection, bytes));
                });
                bytes = rest;
            }
        }
        if !bytes.is_empty() {
            self.send(connection, false, Event::Reply(connection, bytes));
        }
    }

    /// Hands over what arrives at the server that opened the connection.
    fn arrive_by_link(&mut self, name: &str, link: LinkId, event: Event) {
        let now = self.now();
        let Some(host) = self.hosts.get_mut(name).filter(|host| host.runs) else { return };
        let wall = host.wall(now);
        match event {
            Event::Accepted(_) => host.server.dialled(wall, link),
            Event::Reply(_, bytes) => host.server.arrived(wall, link, &bytes),
            Event::Refused(_) | Event::Ended(..) => {
                host.server.link_closed(wall, link);
                host.links.remove(&link);
            }
            _ => {}
        }
        self.flush(name);
    }

    fn tick(&mut self, name: &str) {
        let now = self.now();
        if let Some(host) = self.hosts.get_mut(name) {
            host.tick(now);
            self.flush(name);
        }
    }

    /// Sends what a server has ready, and sees to its next timer.
    pub(crate) fn flush(&mut self, name: &str) {
        let now = self.now();
        let Some(host) = self.hosts.get_mut(name) else { return };
        let (ready, ended) = host.ready();
        let orders = host.orders();
        let requests = host.requests();
        let timer = host.timer(now);
        for (connection, bytes) in ready {
            if let Some(of) = self.connections.get(&connection) {
                trace::reply(&mut self.trace, now, connection, &of.ways[0], "says", &bytes);
            }
            self.send_to_client(connection, bytes);
        }
        for connection in ended {
            self.send(connection, false, Event::Ended(connection, Phase::Closed));
        }
        for (connection, bytes) in requests {
            self.send(connection, true, Event::Request(connection, bytes));
        }
        for order in orders {
            self.follow(name, order);
        }
        if let Some(at) = timer {
            self.schedule(at, Event::Tick(name.to_owned()));
        }
    }

    fn follow(&mut self, name: &str, order: Order) {
        match order {
            Order::Dial { link, to } => {
                let connection = self.dial(name.to_owned(), &to.to_string(), Some(link));
                if let Some(host) = self.hosts.get_mut(name) {
                    host.links.insert(link, connection);
                }
            }
            Order::HangUp { link } => {
                let host = self.hosts.get_mut(name);
                if let Some(connection) = host.and_then(|host| host.links.remove(&link)) {
                    self.send(connection, true, Event::Hangup(connection));
                }
            }
        }
    }

    /// Lets every server begin: each has its timers, and opens what it opens itself.
    pub(crate) fn begin(&mut self) {
        let names: Vec<String> = self.hosts.keys().cloned().collect();
        names.iter().for_each(|name| self.tick(name));
    }

    /// Lets a stopped server go on: it finds all that came meanwhile.
    pub(crate) fn go_on(&mut self, name: &str) -> bool {
        if let Some(host) = self.hosts.get_mut(name) {
            host.is_stopped = false;
            // It is at the machine: a link that was cut since then does not hold it.
            for event in self.waiting.remove(name).unwrap_or_default() {
                self.hand_over(event);
            }
            self.tick(name);
        }
        false
    }

    /// Ends the process of a server: its connections are reset, and what it has not saved is gone; after a
    /// cut of the power also what was not synced. False where none runs.
    pub(crate) fn end_process(&mut self, name: &str, loss: Loss) -> bool {
        let ended = self.hosts.get_mut(name).is_some_and(|host| host.end(loss));
        if ended {
            self.waiting.remove(name);
            let own = |of: &Connection| *of.ways[1].1 == *name || *of.ways[1].0 == *name;
            self.reset(|_, connection| own(connection), Phase::Reset);
        }
        ended
    }

    pub(crate) fn start_process(&mut self, name: &str) -> bool {
        let now = self.now();
        let loading = Duration::from_millis(self.random.random_range(0..300));
        let host = self.hosts.get_mut(name);
        let started = host.is_some_and(|host| host.start(now, loading));
        self.flush(name);
        started
    }

    /// Gives a server an order, past the network; nothing where none runs.
    pub(crate) fn order<T: AsRef<[u8]>>(&mut self, name: &str, order: &[T]) -> Option<ConnectionId> {
        let now = self.now();
        let host = self.hosts.get_mut(name).filter(|host| host.is_live())?;
        let wall = host.wall(now);
        let (own, words) = (host.server.connect(), order.iter().map(AsRef::as_ref));
        let words: Vec<_> = words.map(<[u8]>::to_vec).collect();
        host.server.execute(wall, own, &words);
        self.flush(name);
        Some(own)
    }

    pub(crate) fn said(&mut self, name: &str, own: ConnectionId) -> Option<Reply> {
        let host = self.hosts.get_mut(name).filter(|host| host.is_live())?;
        let said = host.server.output(own);
        let (reply, _) = Reply::read(&said)?;
        host.server.disconnect(own);
        Some(reply)
    }

    pub(crate) fn is_stopped(&self, name: &str) -> bool {
        self.hosts.get(name).is_some_and(|host| host.is_stopped)
    }

    pub(crate) fn stop(&mut self, name: &str) -> bool {
        let host = self.hosts.get_mut(name).filter(|host| host.runs);
        host.map(|host| host.is_stopped = true).is_some()
    }

    /// Sets the clock of a server's machine wrong, or right with zeros.
    pub(crate) fn set_clock(&mut self, name: &str, skew: Skew) -> bool {
        let set = self.hosts.get_mut(name).map(|host| host.set_clock(skew)).is_some();
        self.tick(name);
        set
    }

    /// Ends connections at both ends. Of what is under way to a server half arrives.
    fn reset(&mut self, which: impl Fn(u64, &Connection) -> bool, how: Phase) -> u64 {
        let ended: Vec<(u64, bool)> = (self.connections.iter_mut())
            .filter(|(number, connection)| connection.is_open() && which(**number, connection))
            .map(|(number, connection)| {
                let [_, to_server] = std::mem::take(&mut connection.flows);
                let has_lost = !matches!(to_server, Flow::Free);
                if has_lost {
                    connection.flows[1] = Flow::Lost;
                }
                connection.is_broken = true;
                (*number, has_lost)
            })
            .collect();
        for (connection, has_lost) in &ended {
            // What was sent after a message that is lost, or held for ever, takes its place nowhere.
            let arrives = self.random.random_bool(0.5) && !has_lost;
            let own = |event: &Event| match event.of() {
                // That the client has let go of it stays true.
                _ if matches!(event, Event::Hangup(_)) => false,
                Some((number, to_server)) => number == *connection && !(to_server && arrives),
                None => false,
            };
            self.queue.retain(|_, event| !own(event));
            (self.links.values_mut()).for_each(|link| link.held.retain(|event| !own(event)));
            self.send(*connection, false, Event::Ended(*connection, how));
            self.send(*connection, true, Event::Broken(*connection));
        }
        ended.len() as u64
    }

    pub(crate) fn end_way(&mut self, way: &Way, by_reset: bool) -> u64 {
        let how = if by_reset { Phase::Reset } else { Phase::Closed };
        self.reset(|_, connection| connection.ways.contains(way), how)
    }

    /// Ends the connections of a client, as servers do that drop it: whether it had any.
    pub(crate) fn end_client(&mut self, client: &str) -> bool {
        self.reset(|_, connection| *connection.ways[1].0 == *client, Phase::Closed) > 0
    }

    /// Begins to hold or to lose messages of a way.
    pub(crate) fn choose(&mut self, way: &Way, chosen: MessageFault) {
        self.links.entry(way.clone()).or_default().chosen.push(chosen);
    }

    /// How many messages passed from one party to another, anybody where none is named, from now on.
    pub(crate) fn watch(&mut self, ends: [Option<Arc<str>>; 2], pattern: Pattern) -> watch::Receiver<u64> {
        let (passed, count) = watch::channel(0);
        self.counters.push(MessageCounter { ends, pattern, passed });
        count
    }

    /// Ends that, and lets go what is held: whether anything was harmed.
    pub(crate) fn choose_no_more(&mut self, way: &Way, span: u64) -> bool {
        self.step();
        let link = self.links.entry(way.clone()).or_default();
        let mut ended = link.chosen.extract_if(.., |one| one.span == span);
        let harmed = ended.any(|one| one.fitted >= one.nth);
        drop(ended);
        let mut free = Vec::new();
        for of in self.connections.values_mut() {
            for flow in &mut of.flows {
                if matches!(flow, Flow::Held(by, _) if *by == span)
                    && let Flow::Held(_, held) = std::mem::take(flow)
                {
                    free.extend(held);
                }
            }
        }
        // It is at its machine: before what came later, to a link that is cut or a process that is stopped.
        let later = std::mem::take(&mut self.waiting);
        free.into_iter().for_each(|event| self.hand_over(event));
        for (name, events) in later {
            self.waiting.entry(name).or_default().extend(events);
        }
        harmed
    }

    /// Begins or ends to hold what arrives over a way.
    pub(crate) fn cut(&mut self, way: &Way, on: bool) {
        // What is there by now finds the link as it was.
        self.step();
        let link = self.links.entry(way.clone()).or_default();
        link.cuts += if on { 1 } else { -1 };
        if link.cuts == 0 {
            // Now, and so before what is still under way: nothing overtakes within a connection.
            let held = std::mem::take(&mut link.held);
            let now = self.now();
            held.into_iter().for_each(|event| self.schedule(now, event));
        }
    }

    pub(crate) fn held(&self, way: &Way) -> usize {
        self.links.get(way).map_or(0, |link| link.held.len())
    }

    pub(crate) fn refuse(&mut self, way: &Way, on: bool) {
        let link = self.links.entry(way.clone()).or_default();
        link.refusals += if on { 1 } else { -1 };
    }

    /// Begins or ends to let bytes arrive later.
    pub(crate) fn delay(&mut self, way: &Way, by: (Duration, Duration), on: bool) {
        let link = self.links.entry(way.clone()).or_default();
        match (on, link.delays.iter().position(|delay| *delay == by)) {
            (true, _) => link.delays.push(by),
            (false, Some(at)) => drop(link.delays.remove(at)),
            (false, None) => {}
        }
    }

    pub(crate) fn is_connected(&self, way: &Way) -> bool {
        let mut all = self.connections.values().filter(|one| one.is_open());
        all.any(|connection| connection.ways.contains(way))
    }

    /// What a name means now; an address is its own.
    fn lookup(&mut self, name: &str) -> Option<String> {
        let Some((means, lookups)) = self.names.get_mut(name) else { return Some(name.to_owned()) };
        *lookups += 1;
        means.clone()
    }

    /// From now on a name means the address of that server, or nothing. How often it was looked up before.
    pub(crate) fn point(&mut self, name: &str, server: Option<&str>) -> u64 {
        let host = server.and_then(|server| self.hosts.get(server));
        let address = host.map(|host| host.address.clone());
        self.names.insert(name.to_owned(), (address, 0)).map_or(0, |(_, lookups)| lookups)
    }

    /// Gives a server another address, where it is found from now on.
    pub(crate) fn move_away(&mut self, server: &str) {
        if let Some(host) = self.hosts.get_mut(server) {
            host.address = format!("elsewhere.{}", host.address);
        }
    }

    fn dial(&mut self, client: String, address: &str, link: Option<LinkId>) -> u64 {
        let means = self.lookup(address);
        let means = means.as_deref().unwrap_or(address);
        let found = self.hosts.iter().find(|(_, host)| host.address == means);
        let server: Arc<str> = found.map_or(means, |(name, _)| name).into();
        let client: Arc<str> = client.into();
        self.count += 1;
        let number = self.count;
        self.connections.insert(
            number,
            Connection {
                ways: [(Arc::clone(&server), Arc::clone(&client)), (client, server)],
                link,
                accepted: None,
                parsed: Vec::new(),
                received: VecDeque::new(),
                reader: None,
                phase: Phase::Dialling,
                last: [Duration::ZERO; 2],
                is_broken: false,
                flows: Default::default(),
            },
        );
        self.send(number, true, Event::Dial(number));
        number
    }
}

impl Event {
    /// The connection that it belongs to, and whether it arrives at the server.
    fn of(&self) -> Option<(u64, bool)> {
        match self {
            Event::Dial(of) | Event::Request(of, _) | Event::Hangup(of) | Event::Broken(of) => {
                Some((*of, true))
            }
            Event::Accepted(of)
            | Event::Refused(of)
            | Event::Reply(of, _)
            | Event::Turned(of, _)
            | Event::Passed(of, _)
            | Event::Ended(of, _) => Some((*of, false)),
            Event::Tick(_) => None,
        }
    }
}

impl Connection {
    fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Dialling | Phase::Open)
    }

    fn turn(&mut self, phase: Phase) {
        self.phase = phase;
        self.wake();
    }

    fn wake(&mut self) {
        self.reader.take().into_iter().for_each(Waker::wake);
    }
}

/// Of a client, which is called `c1` and so on.
pub(crate) fn client_number(name: &str) -> Option<u32> {
    name.strip_prefix('c')?.parse().ok()
}

/// What faults on messages make of one that its link is about to carry.
fn harm(links: &mut BTreeMap<Way, Link>, way: &Way, (words, label): Message<'_>) -> Option<Flow> {
    let chosen = links.get_mut(way)?.chosen.iter_mut();
    let counted = chosen.filter(|one| one.pattern.matches(words, label)).map(|one| {
        one.fitted += 1;
        let harmed = (one.nth..one.nth + one.count).contains(&one.fitted);
        harmed.then_some(if one.is_lost { Flow::Loses } else { Flow::Held(one.span, Vec::new()) })
    });
    counted.fold(None, Option::or)
}

/// The words of a published message at the beginning of what a server says, and how long it is.
fn published(bytes: &[u8]) -> Option<(MessageWords, usize)> {
    let (Reply::Array(parts), length) = Reply::read(bytes)? else { return None };
    let mut words = MessageWords::default();
    for part in &parts {
        let Reply::Bulk(word) = part else { return None };
        words.push(word);
    }
    matches!(words.get(0)?, b"message" | b"pmessage" | b"smessage").then_some((words, length))
}

/// The first whole command of what was received, which must be arrays of bulk strings.
fn command(bytes: &mut Vec<u8>) -> Option<Vec<Vec<u8>>> {
    let (count, mut at) = counted(bytes)?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let (length, head) = counted(bytes.get(at..)?)?;
        at += head;
        words.push(bytes.get(at..at + length)?.to_vec());
        at += length + 2;
    }
    if at > bytes.len() {
        return None;
    }
    bytes.drain(..at);
    Some(words)
}
