//! Turns "harm the bytes from A to B" into what every open and later connection has to do, and counts what it did.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::watch;

use super::clients;
use super::fault::{Ending, Harm, LinkFault, Treatment};
use crate::Party;

/// The proxies of a deployment: settings per directed link, bytes flowing from one party to another.
#[derive(Debug, Clone)]
pub struct LinkTable {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Every harm in force. One value for all links: changes are rare, and each connection picks what concerns it.
    harms: watch::Sender<Vec<Arc<Active>>>,
    next_id: AtomicU64,
    clients: Mutex<BTreeMap<u32, u32>>,
    connections: Mutex<BTreeMap<u64, Weak<Ends>>>,
}

/// A harm in force.
#[derive(Debug)]
struct Active {
    id: u64,
    from: Party,
    to: Party,
    harm: Box<dyn Harm>,
    bytes: AtomicU64,
    chunks: AtomicU64,
    connections: Mutex<BTreeSet<u64>>,
}

/// The two ends of one connection through a proxy.
#[derive(Debug)]
pub(super) struct Ends {
    id: u64,
    /// Who dialled. May become better known when processes are named.
    dialler: Mutex<Party>,
    /// Who was dialled.
    node: Party,
    peer: SocketAddr,
    local: SocketAddr,
}

impl Ends {
    /// Looks up which client dialled: 0 if the socket belongs to no process that was named.
    fn name_client(&self, pids: &BTreeMap<u32, u32>) {
        if matches!(*self.dialler.lock().unwrap(), Party::Node(_)) {
            return;
        }
        let client = clients::owner(self.peer, self.local, pids).unwrap_or(0);
        *self.dialler.lock().unwrap() = Party::Client(client);
    }
}

impl LinkTable {
    pub(super) fn new() -> LinkTable {
        LinkTable {
            shared: Arc::new(Shared::default()),
        }
    }

    /// Puts a fault on the bytes that flow `from -> to`, whoever dialled; at once on open connections, and on those opened
    /// later. Several faults on one link add up, and a cut wins. Undone by the guard's `heal` or drop.
    pub fn apply(&self, from: &Party, to: &Party, fault: LinkFault) -> LinkGuard {
        let active = Arc::new(Active {
            id: self.shared.next_id.fetch_add(1, Ordering::Relaxed),
            from: from.clone(),
            to: to.clone(),
            harm: fault.harm(),
            bytes: AtomicU64::new(0),
            chunks: AtomicU64::new(0),
            connections: Mutex::default(),
        });
        let listed = Arc::clone(&active);
        self.shared.harms.send_modify(|harms| harms.push(listed));
        LinkGuard {
            shared: Arc::clone(&self.shared),
            active,
        }
    }

    /// How many connections are open that `dialler` opened to `node`, held ones included.
    pub fn open_connections(&self, dialler: &Party, node: &Party) -> usize {
        self.ends()
            .iter()
            .filter(|ends| ends.node == *node && *ends.dialler.lock().unwrap() == *dialler)
            .count()
    }

    pub(crate) fn set_clients(&self, pids: BTreeMap<u32, u32>) {
        let mut named = self.shared.clients.lock().unwrap();
        *named = pids;
        for ends in self.ends() {
            ends.name_client(&named);
        }
        // Wakes every connection, which then looks at its ends again.
        self.shared.harms.send_modify(|_| ());
    }

    /// Lists a new connection for as long as the returned value lives. `dialler` is the node that dialled; without one it
    /// was a client, which is looked up in the kernel's tables (blocking, about a millisecond).
    pub(super) fn register(
        &self,
        dialler: Option<Party>,
        node: Party,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Arc<Ends> {
        let ends = Arc::new(Ends {
            id: self.shared.next_id.fetch_add(1, Ordering::Relaxed),
            dialler: Mutex::new(dialler.unwrap_or(Party::Client(0))),
            node,
            peer,
            local,
        });
        {
            let mut connections = self.shared.connections.lock().unwrap();
            connections.retain(|_, ends| ends.strong_count() > 0);
            connections.insert(ends.id, Arc::downgrade(&ends));
        }
        // Under the same lock as `set_clients`, so that an older naming never overwrites a newer one.
        ends.name_client(&self.shared.clients.lock().unwrap());
        ends
    }

    /// One direction of a connection, as its harms see it.
    pub(super) fn flow(&self, ends: &Arc<Ends>, direction: Direction) -> Flow {
        let mut flow = Flow {
            harms: self.shared.harms.subscribe(),
            ends: Arc::clone(ends),
            direction,
            active: Vec::new(),
        };
        flow.select();
        flow
    }

    fn ends(&self) -> Vec<Arc<Ends>> {
        let connections = self.shared.connections.lock().unwrap();
        connections.values().filter_map(Weak::upgrade).collect()
    }
}

/// Which way bytes flow through a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the one who dialled.
    Out,
    /// Back to the one who dialled.
    Back,
}

/// One direction of one connection: which harms concern it now.
#[derive(Debug)]
pub(super) struct Flow {
    harms: watch::Receiver<Vec<Arc<Active>>>,
    ends: Arc<Ends>,
    direction: Direction,
    active: Vec<Arc<Active>>,
}

/// What the harms on a link together do to a chunk: a hold wins, delays add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Now,
    Late(Duration),
    Hold,
}

impl Flow {
    /// Takes note of harms that came or went.
    pub(super) fn refresh(&mut self) {
        // An error means that the table is gone; then nothing changes any more.
        if self.harms.has_changed().unwrap_or(false) {
            self.select();
        }
    }

    fn select(&mut self) {
        let dialler = self.ends.dialler.lock().unwrap().clone();
        let (from, to) = match self.direction {
            Direction::Out => (&dialler, &self.ends.node),
            Direction::Back => (&self.ends.node, &dialler),
        };
        let harms = self.harms.borrow_and_update();
        let concerned = harms
            .iter()
            .filter(|active| active.from == *from && active.to == *to);
        self.active = concerned.cloned().collect();
    }

    /// Returns when harms may have come or gone.
    pub(super) async fn changed(&mut self) {
        if self.harms.changed().await.is_ok() {
            self.select();
        } else {
            std::future::pending::<()>().await;
        }
    }

    pub(super) fn verdict(&self, luck: f64) -> Verdict {
        let mut late = Duration::ZERO;
        for active in &self.active {
            match active.harm.treat(luck) {
                Treatment::Pass => {}
                Treatment::Late(by) => late += by,
                Treatment::Hold => return Verdict::Hold,
            }
        }
        if late.is_zero() {
            Verdict::Now
        } else {
            Verdict::Late(late)
        }
    }

    /// Whether a harm ends this connection, which counts as its effect; the oldest harm says how.
    pub(super) fn ending(&self) -> Option<Ending> {
        let mut first = None;
        for active in &self.active {
            if let Some(ending) = active.harm.ending() {
                active.connections.lock().unwrap().insert(self.ends.id);
                first = first.or(Some(ending));
            }
        }
        first
    }

    /// Counts a chunk for every harm that touches it, once each; `counted` remembers which did.
    pub(super) fn count(&self, bytes: usize, luck: f64, counted: &mut Vec<u64>) {
        for active in &self.active {
            if active.harm.treat(luck) == Treatment::Pass || counted.contains(&active.id) {
                continue;
            }
            counted.push(active.id);
            active.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            active.chunks.fetch_add(1, Ordering::Relaxed);
            active.connections.lock().unwrap().insert(self.ends.id);
        }
    }

    /// Counts this connection, of which nothing has flowed yet, for every harm that holds it.
    pub(super) fn count_held_connection(&self) {
        for active in &self.active {
            if active.harm.treat(0.0) == Treatment::Hold {
                active.connections.lock().unwrap().insert(self.ends.id);
            }
        }
    }
}

/// The undo of a link fault, and what it did so far. Dropping it heals.
#[must_use = "the fault heals when its guard is dropped"]
pub struct LinkGuard {
    shared: Arc<Shared>,
    active: Arc<Active>,
}

impl LinkGuard {
    /// Bytes delayed or held so far, and connections affected: the proof that it bit.
    pub fn effect(&self) -> LinkEffect {
        LinkEffect {
            bytes: self.active.bytes.load(Ordering::Relaxed),
            chunks: self.active.chunks.load(Ordering::Relaxed),
            connections: self.active.connections.lock().unwrap().len() as u64,
        }
    }

    /// Lifts the fault: what it held or delayed flows at once. Returns what it did in all.
    pub fn heal(self) -> LinkEffect {
        self.lift();
        self.effect()
    }

    fn lift(&self) {
        self.shared
            .harms
            .send_modify(|harms| harms.retain(|active| active.id != self.active.id));
    }
}

impl Drop for LinkGuard {
    fn drop(&mut self) {
        self.lift();
    }
}

impl fmt::Debug for LinkGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkGuard")
            .field("from", &self.active.from)
            .field("to", &self.active.to)
            .field("harm", &self.active.harm)
            .field("effect", &self.effect())
            .finish()
    }
}

/// What a link fault did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkEffect {
    /// Bytes that were delayed or held.
    pub bytes: u64,
    /// Pieces in which they were read; a burst may be one piece.
    pub chunks: u64,
    /// Connections whose bytes were delayed or held, or that were held, closed or reset themselves.
    pub connections: u64,
}
