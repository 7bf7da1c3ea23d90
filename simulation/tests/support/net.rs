//! A small network between simulated servers: each byte takes a millisecond, unless its way is cut.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use simulation::server::{Address, ConnectionId, LinkId, Loss, Order, Server, Settings};

use super::{EPOCH, shown, words};

const LATENCY: Duration = Duration::from_millis(1);

/// One end of a connection: whose, and how it is called there.
type Opened = (usize, LinkId);
type Accepted = (usize, ConnectionId);

enum Event {
    Dial(Opened, usize),
    ToServer(Accepted, Vec<u8>),
    ToLink(Opened, Vec<u8>),
    Closed(Opened),
}

pub struct Net {
    pub now: Duration,
    pub servers: Vec<Server>,
    addresses: Vec<Address>,
    events: BTreeMap<(Duration, u64), Event>,
    numbered: u64,
    open: BTreeMap<Opened, Accepted>,
    input: BTreeMap<Accepted, Vec<u8>>,
    clients: BTreeMap<Accepted, Vec<u8>>,
    down: BTreeSet<usize>,
    /// From and to: what is said there is kept until the way is open again.
    pub cut: BTreeSet<(usize, usize)>,
    kept: Vec<((usize, usize), Event)>,
}

pub fn address(at: usize) -> Address {
    Address { host: format!("10.0.0.{at}"), port: 6379 }
}

impl Net {
    pub fn new(settings: impl IntoIterator<Item = Settings>) -> Self {
        let mut net = Net {
            now: EPOCH,
            servers: Vec::new(),
            addresses: Vec::new(),
            events: BTreeMap::new(),
            numbered: 0,
            open: BTreeMap::new(),
            input: BTreeMap::new(),
            clients: BTreeMap::new(),
            down: BTreeSet::new(),
            cut: BTreeSet::new(),
            kept: Vec::new(),
        };
        for (at, settings) in settings.into_iter().enumerate() {
            let own = Some(settings.address.clone()).filter(|own| own.port > 0);
            let own = own.unwrap_or_else(|| address(at));
            let settings = Settings { address: own.clone(), seed: 77 + at as u64, ..settings };
            net.addresses.push(own);
            let mut server = Server::new(settings);
            server.tick(EPOCH);
            net.servers.push(server);
        }
        net.collect();
        net
    }

    fn send(&mut self, from: usize, to: usize, event: Event) {
        if self.cut.contains(&(from, to)) {
            self.kept.push(((from, to), event));
            return;
        }
        self.numbered += 1;
        self.events.insert((self.now + LATENCY, self.numbered), event);
    }

    pub fn heal(&mut self) {
        self.cut.clear();
        for ((from, to), event) in std::mem::take(&mut self.kept) {
            self.send(from, to, event);
        }
    }

    /// Sends what is ready everywhere.
    fn collect(&mut self) {
        for at in 0..self.servers.len() {
            for order in self.servers[at].orders() {
                match order {
                    Order::Dial { link, to } => {
                        let to = self.addresses.iter().position(|address| *address == to).expect("a server");
                        self.send(at, to, Event::Dial((at, link), to));
                    }
                    Order::HangUp { link } => {
                        if let Some(accepted) = self.open.remove(&(at, link)) {
                            self.servers[accepted.0].disconnect(accepted.1);
                        }
                    }
                }
            }
            for id in self.servers[at].ended() {
                let opened = self.open.iter().find(|(_, accepted)| **accepted == (at, id));
                if let Some(opened) = opened.map(|(opened, _)| *opened) {
                    self.open.remove(&opened);
                    self.send(at, opened.0, Event::Closed(opened));
                }
            }
        }
        for (opened, accepted) in self.open.clone() {
            let bytes = self.servers[opened.0].link_output(opened.1);
            if !bytes.is_empty() {
                self.send(opened.0, accepted.0, Event::ToServer(accepted, bytes));
            }
            let bytes = self.servers[accepted.0].output(accepted.1);
            if !bytes.is_empty() {
                self.send(accepted.0, opened.0, Event::ToLink(opened, bytes));
            }
        }
        for ((at, id), heard) in &mut self.clients {
            heard.extend(self.servers[*at].output(*id));
        }
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Dial(opened, to) if self.down.contains(&to) => {
                self.send(to, opened.0, Event::Closed(opened))
            }
            Event::Dial(opened, to) => {
                let id = self.servers[to].connect();
                self.open.insert(opened, (to, id));
                self.servers[opened.0].dialled(self.now, opened.1);
            }
            Event::Closed(opened) => self.servers[opened.0].link_closed(self.now, opened.1),
            Event::ToLink(opened, bytes) => self.servers[opened.0].arrived(self.now, opened.1, &bytes),
            Event::ToServer(accepted, bytes) => {
                let mut input = self.input.remove(&accepted).unwrap_or_default();
                input.extend(bytes);
                let mut read = 0;
                while let Some((reply, length)) = simulation::server::Reply::read(&input[read..]) {
                    read += length;
                    let simulation::server::Reply::Array(parts) = reply else { panic!("a command") };
                    let word = |part| match part {
                        simulation::server::Reply::Bulk(word) => word,
                        other => panic!("{other:?}"),
                    };
                    let command: Vec<_> = parts.into_iter().map(word).collect();
                    self.servers[accepted.0].execute(self.now, accepted.1, &command);
                }
                self.input.insert(accepted, input.split_off(read));
            }
        }
        self.collect();
    }

    /// Lets time pass.
    pub fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            let message = self.events.first_key_value().map(|((at, _), _)| *at);
            let ticks = self.servers.iter().enumerate();
            let tick = ticks.filter_map(|(at, server)| Some((server.next_event()?, at))).min();
            let next = message.into_iter().chain(tick.map(|(due, _)| due)).min();
            let Some(next) = next.filter(|next| *next <= until) else {
                break;
            };
            self.now = next.max(self.now);
            if message == Some(next) {
                let (_, event) = self.events.pop_first().expect("it is there");
                self.step(event);
            } else if let Some((_, at)) = tick {
                self.servers[at].tick(self.now);
                self.collect();
            }
        }
        self.now = until;
    }

    pub fn client(&mut self, at: usize) -> Accepted {
        let client = (at, self.servers[at].connect());
        self.clients.insert(client, Vec::new());
        client
    }

    /// Says something as a client; what was heard by now.
    pub fn say(&mut self, client: Accepted, line: &str) -> String {
        self.servers[client.0].execute(self.now, client.1, &words(line));
        self.collect();
        self.heard(client)
    }

    pub fn heard(&mut self, client: Accepted) -> String {
        shown(&std::mem::take(self.clients.get_mut(&client).expect("a client")))
    }

    pub fn ask(&mut self, at: usize, line: &str) -> String {
        let client = self.client(at);
        let said = self.say(client, line);
        self.servers[at].disconnect(client.1);
        self.clients.remove(&client);
        said
    }

    pub fn crash(&mut self, at: usize, loss: Loss) {
        self.servers[at].crash(loss);
        self.down.insert(at);
        self.clients.retain(|(of, _), _| *of != at);
        for (opened, accepted) in self.open.clone() {
            if accepted.0 == at || opened.0 == at {
                self.open.remove(&opened);
                match accepted.0 == at {
                    true => self.send(at, opened.0, Event::Closed(opened)),
                    false => self.servers[accepted.0].disconnect(accepted.1),
                }
            }
        }
        self.events.retain(|_, event| match event {
            Event::ToServer((of, _), _) | Event::ToLink((of, _), _) => *of != at,
            _ => true,
        });
    }

    pub fn restart(&mut self, at: usize, loading: Duration) {
        self.down.remove(&at);
        self.servers[at].restart(self.now, loading);
        self.collect();
    }
}
