//! Turns "harm the bytes from A to B" into what every open and later connection has to do, and counts what it did.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::clients;
use super::fault::{Chunk, Ending, Harm, LinkFault, Treatment, Watched};
use super::resp::{Dialogue, Marks, Pattern, Words};
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
    clients: Mutex<Arc<BTreeMap<u32, u32>>>,
    connections: Mutex<BTreeMap<u64, Weak<Ends>>>,
}

/// A harm in force.
#[derive(Debug)]
struct Active {
    id: u64,
    /// Nobody in particular: anybody.
    from: Option<Party>,
    to: Option<Party>,
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
    /// What is said over it, if that is of interest.
    pub(super) dialogue: Option<Mutex<Dialogue>>,
}

impl Ends {
    /// Looks up which client dialled: 0 if the socket belongs to no process that was named.
    fn name_client(&self, pids: &BTreeMap<u32, u32>) {
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
        self.put(Some(from.clone()), Some(to.clone()), fault.harm())
    }

    /// Counts the messages that the pattern means and that flow `from -> to`, `None` being anybody, as each is handed to its
    /// receiver, from now on and until the watch is dropped.
    ///
    /// "The third EVALSHA reply to client 1" is
    /// `table.watch(None, Some(&Party::Client(1)), "EVALSHA".parse()?).passed(3).await`; the third EVALSHA that client 1
    /// sends is `table.watch(Some(&Party::Client(1)), None, …)`. What counts as a message, and what it is matched by, is said at
    /// [`LinkFault::Hold`].
    pub fn watch(
        &self,
        from: Option<&Party>,
        to: Option<&Party>,
        pattern: Pattern,
    ) -> MessageWatch {
        let (passed, count) = watch::channel(0);
        let harm = Box::new(Watched { pattern, passed });
        MessageWatch {
            _guard: self.put(from.cloned(), to.cloned(), harm),
            count,
        }
    }

    fn put(&self, from: Option<Party>, to: Option<Party>, harm: Box<dyn Harm>) -> LinkGuard {
        let active = Arc::new(Active {
            id: self.shared.next_id.fetch_add(1, Ordering::Relaxed),
            from,
            to,
            harm,
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
        *self.shared.clients.lock().unwrap() = Arc::new(pids);
        for ends in self.ends() {
            self.name(&ends);
        }
        // Wakes every connection, which then looks at its ends again.
        self.shared.harms.send_modify(|_| ());
    }

    /// Lists a new connection for as long as the returned value lives. `dialler` is the node that dialled; without one it
    /// was a client, which is looked up in the kernel's tables (blocking, about a millisecond). `listens`: what is said may be Redis.
    pub(super) fn register(
        &self,
        dialler: Option<Party>,
        node: Party,
        peer: SocketAddr,
        local: SocketAddr,
        listens: bool,
    ) -> Arc<Ends> {
        let ends = Arc::new(Ends {
            id: self.shared.next_id.fetch_add(1, Ordering::Relaxed),
            dialler: Mutex::new(dialler.unwrap_or(Party::Client(0))),
            node,
            peer,
            local,
            dialogue: listens.then(|| Mutex::new(Dialogue::new())),
        });
        {
            let mut connections = self.shared.connections.lock().unwrap();
            connections.retain(|_, ends| ends.strong_count() > 0);
            connections.insert(ends.id, Arc::downgrade(&ends));
        }
        self.name(&ends);
        ends
    }

    /// Says which client dialled, if it was one. The look-up is slow when the kernel's table is long, so it is made without the lock, which
    /// every new connection needs; and it is made again if clients were named anew meanwhile.
    fn name(&self, ends: &Ends) {
        if matches!(*ends.dialler.lock().unwrap(), Party::Node(_)) {
            return;
        }
        loop {
            let pids = Arc::clone(&self.shared.clients.lock().unwrap());
            ends.name_client(&pids);
            if Arc::ptr_eq(&pids, &self.shared.clients.lock().unwrap()) {
                return;
            }
        }
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

/// What the harms on a link together do to a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Some harm holds it; then nothing else matters yet.
    pub(super) hold: bool,
    /// All delays together, from the moment of reading.
    pub(super) late: Duration,
    /// The smallest pieces that a harm asks for, and the pause after each.
    pub(super) slice: Option<(usize, Duration)>,
    /// The connection is closed after so many of its bytes.
    pub(super) last: Option<usize>,
    /// It never arrives.
    pub(super) lost: bool,
}

/// Which harms have treated a chunk, and how.
pub(super) type Treatments = Vec<(u64, Treatment)>;

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
            .filter(|active| is(&active.from, from) && is(&active.to, to));
        self.active = concerned.cloned().collect();
    }

    /// Whether no harm concerns it now.
    pub(super) fn is_quiet(&self) -> bool {
        self.active.is_empty()
    }

    /// Whether some harm is about messages.
    pub(super) fn reads_messages(&self) -> bool {
        self.active
            .iter()
            .any(|active| active.harm.pattern().is_some())
    }

    /// The harms that mean a message of these words.
    pub(super) fn marks(&self, words: &Words) -> Marks {
        let meant = self.active.iter().filter(|active| {
            let pattern = active.harm.pattern();
            pattern.is_some_and(|pattern| pattern.matches(words))
        });
        meant.map(|active| active.id).collect()
    }

    /// Those of the harms that still concern it.
    pub(super) fn in_force(&self, mut marks: Marks) -> Marks {
        marks.retain(|mark| self.active.iter().any(|active| active.id == *mark));
        marks
    }

    /// What was treated so has arrived.
    pub(super) fn delivered(&self, treatments: &Treatments) {
        for (id, treatment) in treatments {
            if *treatment == Treatment::Noted
                && let Some(active) = self.active.iter().find(|active| active.id == *id)
            {
                active.harm.delivered();
            }
        }
    }

    /// Returns when harms may have come or gone.
    pub(super) async fn changed(&mut self) {
        if self.harms.changed().await.is_ok() {
            self.select();
        } else {
            std::future::pending::<()>().await;
        }
    }

    /// Lets every harm that has not seen the chunk yet treat it, and counts what they do.
    /// `marks` are the harms that mean it, if it is a message.
    pub(super) fn treat(
        &self,
        bytes: &mut [u8],
        read_at: Instant,
        marks: &[u64],
        treatments: &mut Treatments,
    ) {
        for active in &self.active {
            if treatments.iter().any(|(id, _)| *id == active.id) {
                continue;
            }
            let length = bytes.len() as u64;
            let treatment = active.harm.treat(Chunk {
                bytes: &mut *bytes,
                read_at,
                connection: self.ends.id,
                meant: marks.contains(&active.id),
            });
            treatments.push((active.id, treatment));
            // An end of stream is treated as bytes are, but harming it proves nothing.
            if !matches!(treatment, Treatment::Pass | Treatment::Noted) && length > 0 {
                active.bytes.fetch_add(length, Ordering::Relaxed);
                active.chunks.fetch_add(1, Ordering::Relaxed);
                active.connections.lock().unwrap().insert(self.ends.id);
            }
        }
    }

    /// What the harms still in force have decided about a chunk: a hold wins, delays add up.
    pub(super) fn verdict(&self, treatments: &Treatments) -> Verdict {
        let mut verdict = Verdict {
            hold: false,
            late: Duration::ZERO,
            slice: None,
            last: None,
            lost: false,
        };
        let in_force = treatments
            .iter()
            .filter(|(id, _)| self.active.iter().any(|active| active.id == *id));
        for (_, treatment) in in_force {
            match *treatment {
                Treatment::Pass | Treatment::Changed | Treatment::Noted => {}
                Treatment::Lost => verdict.lost = true,
                Treatment::Late(by) => verdict.late += by,
                Treatment::Hold => verdict.hold = true,
                Treatment::Slice(size, delay) => {
                    let smaller = verdict.slice.is_none_or(|(least, _)| size < least);
                    verdict.slice = if smaller {
                        Some((size, delay))
                    } else {
                        verdict.slice
                    };
                }
                Treatment::Last(bytes) => {
                    verdict.last = Some(verdict.last.map_or(bytes, |least| least.min(bytes)));
                }
            }
        }
        verdict
    }

    /// Whether a harm keeps this new connection waiting, which counts as its effect.
    pub(super) fn holds_connection(&self) -> bool {
        let mut held = false;
        for active in &self.active {
            if active.harm.holds_connections() {
                active.connections.lock().unwrap().insert(self.ends.id);
                held = true;
            }
        }
        held
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
}

fn is(wanted: &Option<Party>, party: &Party) -> bool {
    wanted.as_ref().is_none_or(|wanted| wanted == party)
}

/// Counts certain messages as they pass; see [`LinkTable::watch`].
#[derive(Debug)]
#[must_use = "it counts until it is dropped"]
pub struct MessageWatch {
    _guard: LinkGuard,
    count: watch::Receiver<u64>,
}

impl MessageWatch {
    /// Waits until the `nth` message has passed, counted from 1 since the watch began; at once if it has already.
    pub async fn passed(&mut self, nth: u64) {
        // The sender lives in the guard.
        let _ = self.count.wait_for(|count| *count >= nth).await;
    }

    /// How many have passed so far.
    pub fn count(&self) -> u64 {
        *self.count.borrow()
    }
}

/// The undo of a link fault, and what it did so far. Dropping it heals.
#[must_use = "the fault heals when its guard is dropped"]
pub struct LinkGuard {
    shared: Arc<Shared>,
    active: Arc<Active>,
}

impl LinkGuard {
    /// Bytes and connections harmed so far: the proof that it bit.
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
    /// Bytes that were delayed, held, cut up, changed or lost.
    pub bytes: u64,
    /// Pieces in which they were read; a burst may be one piece.
    pub chunks: u64,
    /// Connections to whose bytes that happened, or that were held, closed or reset themselves.
    pub connections: u64,
}
