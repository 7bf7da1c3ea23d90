//! The faults on each directed link: what every open and later connection has to do, and what was done.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::clients;
use super::fault::{Chunk, ConnectionEnding, FaultBehaviour, LinkFault, MessageCounter, Slices, Treatment};
use super::resp::{Dialogue, Label, Labels, Marks, MessagePassage, MessageWords, Pattern};
use crate::Party;

/// The proxies of a deployment: settings per directed link, bytes flowing from one party to another.
#[derive(Debug, Clone, Default)]
pub struct LinkTable {
    shared: Arc<LinkTableState>,
}

#[derive(Debug, Default)]
struct LinkTableState {
    /// Every fault in force, one value for all links: changes are rare; each connection picks its own.
    faults: watch::Sender<Vec<Arc<ActiveFault>>>,
    next_id: AtomicU64,
    processes: Mutex<Arc<BTreeMap<Party, u32>>>,
    connections: Mutex<BTreeMap<u64, Weak<ConnectionEnds>>>,
    labels: Arc<OnceLock<Arc<dyn Labels>>>,
}

#[derive(Debug)]
struct ActiveFault {
    /// Changes with the fault's settings: what it decided about a chunk with other settings is void.
    id: u64,
    fault_id: u64,
    /// `None`: anybody.
    from: Option<Party>,
    to: Option<Party>,
    fault: Box<dyn FaultBehaviour>,
    effect: Arc<FaultEffect>,
}

#[derive(Debug, Default)]
struct FaultEffect {
    bytes: AtomicU64,
    chunks: AtomicU64,
    connections: Mutex<BTreeSet<u64>>,
}

impl FaultEffect {
    fn count_connection(&self, id: u64) {
        self.connections.lock().unwrap().insert(id);
    }
}

#[derive(Debug)]
pub(crate) struct ConnectionEnds {
    id: u64,
    /// Who dialled. May become better known when processes are named.
    dialler: Mutex<Party>,
    node: Party,
    peer: SocketAddr,
    local: SocketAddr,
    opened: Instant,
    /// What is said over it, if that is of interest.
    pub(super) dialogue: Option<Mutex<Dialogue>>,
    labels: Arc<OnceLock<Arc<dyn Labels>>>,
    pub(super) behaviour: ProxyBehaviour,
}

#[derive(Debug)]
pub(super) struct ProxyBehaviour {
    pub(super) speaks_redis: bool,
    /// Whether one direction may end while the other goes on.
    pub(super) half_open: bool,
}

impl ConnectionEnds {
    /// What `ask` makes of a message of a client that was named; nothing while nobody gives labels.
    pub(super) fn label_of<L: Default>(&self, ask: impl Fn(&dyn Labels, MessagePassage<'_>) -> L) -> L {
        let (Some(labels), Party::Node(node)) = (self.labels.get(), &self.node) else { return L::default() };
        let client = match *self.dialler.lock().unwrap() {
            Party::Client(client) if client > 0 => client,
            _ => return L::default(),
        };
        ask(labels.as_ref(), MessagePassage { connection: self.id, client, node })
    }
}

impl LinkTable {
    /// Puts a fault on the bytes that flow `from -> to`, by whichever side the connection was dialled; at
    /// once on open connections, and on those opened later. Several faults on one link add up, and a cut
    /// wins. Undone by the guard's `heal` or drop.
    pub fn apply(&self, from: &Party, to: &Party, fault: LinkFault) -> LinkGuard {
        self.add_fault(Some(from.clone()), Some(to.clone()), fault.behaviour())
    }

    /// Counts the messages that the pattern means and that flow `from -> to`, `None` being anybody, as each
    /// is handed to its receiver, from now on and until the watch is dropped.
    ///
    /// "The third EVALSHA reply to client 1" is
    /// `table.watch(None, Some(&Party::Client(1)), "EVALSHA".parse()?).passed(3).await`; the third EVALSHA
    /// that client 1 sends is `table.watch(Some(&Party::Client(1)), None, …)`. What counts as a message, and
    /// what it is matched by, is said at [`LinkFault::Hold`].
    pub fn watch(&self, from: Option<&Party>, to: Option<&Party>, pattern: Pattern) -> MessageWatch {
        let (passed, count) = watch::channel(0);
        let fault = Box::new(MessageCounter { pattern, passed });
        MessageWatch { _guard: self.add_fault(from.cloned(), to.cloned(), fault), count }
    }

    /// Lets every message of a named client be given a label from now on, for patterns that want one
    /// ([`Pattern::labelled`]). The first to be set stays.
    pub fn label_by(&self, labels: Arc<dyn Labels>) {
        // An error means that there is one already.
        let _ = self.shared.labels.set(labels);
    }

    /// Puts a fault on the bytes that flow `from -> to`, `None` being anybody.
    pub(crate) fn add_fault(
        &self,
        from: Option<Party>,
        to: Option<Party>,
        fault: Box<dyn FaultBehaviour>,
    ) -> LinkGuard {
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let active = Arc::new(ActiveFault { id, fault_id: id, from, to, fault, effect: Arc::default() });
        let listed = Arc::clone(&active);
        self.shared.faults.send_modify(|faults| faults.push(listed));
        LinkGuard { shared: Arc::clone(&self.shared), active }
    }

    /// How many connections are open that `dialler` opened to `node`, held ones included.
    pub fn open_connections(&self, dialler: &Party, node: &Party) -> usize {
        self.ends()
            .iter()
            .filter(|ends| ends.node == *node && *ends.dialler.lock().unwrap() == *dialler)
            .count()
    }

    pub(crate) fn set_clients(&self, pids: BTreeMap<u32, u32>) {
        self.name_processes(|named| {
            named.retain(|party, _| matches!(party, Party::Node(_)));
            let clients = pids.into_iter();
            named.extend(clients.map(|(client, pid)| (Party::Client(client), pid)));
        });
    }

    /// Says which process a party is that dials from an address which others have too.
    pub(crate) fn name_process(&self, party: Party, pid: u32) {
        self.name_processes(|named| {
            named.insert(party, pid);
        });
    }

    fn name_processes(&self, change: impl FnOnce(&mut BTreeMap<Party, u32>)) {
        change(Arc::make_mut(&mut self.shared.processes.lock().unwrap()));
        for ends in self.ends() {
            self.look_up_dialler(&ends);
        }
        // Wakes every connection, which then looks at its ends again.
        self.shared.faults.send_modify(|_| ());
    }

    /// Lists a new connection for as long as the returned value lives. Without a node that dialled it is a
    /// client's, which is looked up in the kernel's tables (blocking, about a millisecond).
    pub(super) fn register(
        &self,
        dialler: Option<Party>,
        node: Party,
        peer: SocketAddr,
        local: SocketAddr,
        behaviour: ProxyBehaviour,
    ) -> Arc<ConnectionEnds> {
        let ends = Arc::new(ConnectionEnds {
            id: self.shared.next_id.fetch_add(1, Ordering::Relaxed),
            dialler: Mutex::new(dialler.unwrap_or(Party::Client(0))),
            node,
            peer,
            local,
            opened: Instant::now(),
            dialogue: behaviour.speaks_redis.then(Mutex::default),
            labels: Arc::clone(&self.shared.labels),
            behaviour,
        });
        {
            let mut connections = self.shared.connections.lock().unwrap();
            connections.retain(|_, ends| ends.strong_count() > 0);
            connections.insert(ends.id, Arc::downgrade(&ends));
        }
        self.look_up_dialler(&ends);
        ends
    }

    /// Looks up who dialled, if the address did not tell: client 0 if no named process has the socket. It is
    /// slow for a long table, so without the lock, and again if processes were named meanwhile.
    fn look_up_dialler(&self, ends: &ConnectionEnds) {
        if matches!(*ends.dialler.lock().unwrap(), Party::Node(_)) {
            return;
        }
        loop {
            let pids = Arc::clone(&self.shared.processes.lock().unwrap());
            let dialler = clients::owner(ends.peer, ends.local, &pids);
            *ends.dialler.lock().unwrap() = dialler.unwrap_or(Party::Client(0));
            if Arc::ptr_eq(&pids, &self.shared.processes.lock().unwrap()) {
                return;
            }
        }
    }

    pub(super) fn flow(&self, ends: &Arc<ConnectionEnds>, direction: Direction) -> Flow {
        let mut flow = Flow {
            faults: self.shared.faults.subscribe(),
            ends: Arc::clone(ends),
            direction,
            active: Vec::new(),
            lifted_end: None,
        };
        flow.select_faults();
        flow
    }

    fn ends(&self) -> Vec<Arc<ConnectionEnds>> {
        self.shared.connections.lock().unwrap().values().filter_map(Weak::upgrade).collect()
    }
}

/// Which way bytes flow through a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Direction {
    /// From the one who dialled.
    Out,
    /// Back to the one who dialled.
    Back,
}

/// One direction of one connection: which faults concern it now.
#[derive(Debug)]
pub(super) struct Flow {
    faults: watch::Receiver<Vec<Arc<ActiveFault>>>,
    ends: Arc<ConnectionEnds>,
    direction: Direction,
    active: Vec<Arc<ActiveFault>>,
    lifted_end: Option<ConnectionEnding>,
}

/// What the faults on a link together do to a chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Some fault holds it; then nothing else matters yet.
    pub(super) hold: bool,
    pub(super) delay: Duration,
    /// The smallest pieces that a fault asks for, and the pause after each.
    pub(super) slice: Option<Slices>,
    /// The connection is closed after so many of its bytes.
    pub(super) close_after: Option<usize>,
    pub(super) lost: bool,
    /// It never arrives, and the connection ends so long after it was read.
    pub(super) ends: Option<(Duration, ConnectionEnding)>,
}

pub(super) type Treatments = Vec<(u64, Treatment)>;

impl Flow {
    /// Takes note of faults that came or went.
    pub(super) fn refresh(&mut self) {
        // An error means that the table is gone; then nothing changes any more.
        if self.faults.has_changed().unwrap_or(false) {
            self.select_faults();
        }
    }

    fn select_faults(&mut self) {
        let dialler = self.ends.dialler.lock().unwrap().clone();
        let (from, to) = match self.direction {
            Direction::Out => (&dialler, &self.ends.node),
            Direction::Back => (&self.ends.node, &dialler),
        };
        let faults = self.faults.borrow_and_update();
        let concerned =
            faults.iter().filter(|active| includes(&active.from, from) && includes(&active.to, to));
        let active: Vec<Arc<ActiveFault>> = concerned.cloned().collect();
        for old in &self.active {
            if !active.iter().any(|new| new.fault_id == old.fault_id) {
                self.lifted_end = self.lifted_end.or(old.fault.ends_when_lifted(self.ends.id));
            }
        }
        self.active = active;
    }

    /// Whether no fault concerns it now.
    pub(super) fn is_quiet(&self) -> bool {
        self.active.is_empty()
    }

    pub(super) fn reads_messages(&self) -> bool {
        self.active.iter().any(|active| active.fault.pattern().is_some())
    }

    pub(super) fn marks(&self, words: &MessageWords, label: Label) -> Marks {
        let meant = self.active.iter().filter(|active| {
            let pattern = active.fault.pattern();
            pattern.is_some_and(|pattern| pattern.matches(words, label))
        });
        meant.map(|active| active.id).collect()
    }

    pub(super) fn in_force(&self, mut marks: Marks) -> Marks {
        marks.retain(|mark| self.active.iter().any(|active| active.id == *mark));
        marks
    }

    pub(super) fn delivered(&self, treatments: &Treatments) {
        for (id, treatment) in treatments {
            if *treatment == Treatment::Counted
                && let Some(active) = self.active.iter().find(|active| active.id == *id)
            {
                active.fault.delivered();
            }
        }
    }

    pub(super) async fn changed(&mut self) {
        if self.faults.changed().await.is_ok() {
            self.select_faults();
        } else {
            std::future::pending::<()>().await;
        }
    }

    /// Lets every fault that has not seen the chunk yet treat it, and counts what they do.
    /// `marks` are the faults that mean it, if it is a message.
    pub(super) fn treat(
        &self,
        mut bytes: Option<&mut [u8]>,
        read_at: Instant,
        marks: &[u64],
        treatments: &mut Treatments,
    ) {
        let is_end = bytes.is_none();
        for active in &self.active {
            if treatments.iter().any(|(id, _)| *id == active.id) {
                continue;
            }
            let bytes = bytes.as_deref_mut().unwrap_or_default();
            let length = bytes.len() as u64;
            let treatment = active.fault.treat(Chunk {
                bytes,
                read_at,
                connection: self.ends.id,
                is_match: marks.contains(&active.id),
                is_end,
            });
            treatments.push((active.id, treatment));
            // An end of stream is treated as bytes are, but harming it proves nothing.
            if !matches!(treatment, Treatment::Pass | Treatment::Counted) && length > 0 {
                active.effect.bytes.fetch_add(length, Ordering::Relaxed);
                active.effect.chunks.fetch_add(1, Ordering::Relaxed);
                active.effect.count_connection(self.ends.id);
            }
        }
    }

    /// What the faults still in force have decided about a chunk: a hold wins, delays add up.
    pub(super) fn verdict(&self, treatments: &Treatments) -> Verdict {
        let mut verdict = Verdict::default();
        let in_force = treatments.iter().filter(|(id, _)| self.active.iter().any(|active| active.id == *id));
        for (_, treatment) in in_force {
            match *treatment {
                Treatment::Pass | Treatment::Changed | Treatment::Counted => {}
                Treatment::Lost => verdict.lost = true,
                Treatment::Delayed(by) => verdict.delay += by,
                Treatment::Hold => verdict.hold = true,
                Treatment::Slice(slices) => {
                    let all = verdict.slice.into_iter().chain([slices]);
                    verdict.slice = all.min_by_key(|slices| slices.size);
                }
                Treatment::EndsAfter(late, ending) => {
                    let all = verdict.ends.into_iter().chain([(late, ending)]);
                    verdict.ends = all.min_by_key(|(late, _)| *late);
                }
                Treatment::CloseAfter(bytes) => {
                    verdict.close_after = verdict.close_after.into_iter().chain([bytes]).min();
                }
            }
        }
        verdict
    }

    /// Whether a fault keeps this new connection waiting, which counts as its effect.
    pub(super) fn holds_connection(&self) -> bool {
        let mut held = false;
        for active in &self.active {
            if active.fault.holds_connections() {
                active.effect.count_connection(self.ends.id);
                held = true;
            }
        }
        held
    }

    /// The largest chunk that a fault wants to see.
    pub(super) fn largest_chunk(&self) -> usize {
        self.active.iter().filter_map(|active| active.fault.largest_chunk()).min().unwrap_or(usize::MAX)
    }

    pub(super) fn deadline(&self) -> Option<(Instant, ConnectionEnding)> {
        let deadlines =
            self.active.iter().filter_map(|active| active.fault.ends_at(self.ends.id, self.ends.opened));
        deadlines.min_by_key(|(at, _)| *at)
    }

    /// Whether a fault ends this connection, which counts as its effect; the oldest fault says how.
    pub(super) fn ending(&self) -> Option<ConnectionEnding> {
        let mut first = self.lifted_end;
        for active in &self.active {
            if let Some(ending) = active.fault.ending() {
                active.effect.count_connection(self.ends.id);
                first = first.or(Some(ending));
            }
        }
        first
    }
}

fn includes(wanted: &Option<Party>, party: &Party) -> bool {
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
    /// Waits until the `nth` message, from 1, has passed since the watch began; at once if it has already.
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
#[derive(Debug)]
#[must_use = "the fault heals when its guard is dropped"]
pub struct LinkGuard {
    shared: Arc<LinkTableState>,
    active: Arc<ActiveFault>,
}

impl LinkGuard {
    /// Bytes and connections affected so far: the evidence that the fault took effect.
    pub fn effect(&self) -> LinkEffect {
        let effect = &self.active.effect;
        LinkEffect {
            bytes: effect.bytes.load(Ordering::Relaxed),
            chunks: effect.chunks.load(Ordering::Relaxed),
            connections: effect.connections.lock().unwrap().len() as u64,
        }
    }

    /// Lifts the fault: what it held or delayed flows at once. Returns what it did in all.
    pub fn heal(self) -> LinkEffect {
        self.lift();
        self.effect()
    }

    fn lift(&self) {
        self.shared
            .faults
            .send_modify(|faults| faults.retain(|active| active.fault_id != self.active.fault_id));
    }

    /// Gives a toxic other settings in its place; what it decided with the old ones is void.
    pub(crate) fn change(&mut self, fault: Box<dyn FaultBehaviour>) {
        let changed = Arc::new(ActiveFault {
            id: self.shared.next_id.fetch_add(1, Ordering::Relaxed),
            fault_id: self.active.fault_id,
            from: self.active.from.clone(),
            to: self.active.to.clone(),
            fault,
            effect: Arc::clone(&self.active.effect),
        });
        self.shared.faults.send_modify(|faults| {
            for active in faults.iter_mut().filter(|active| active.fault_id == changed.fault_id) {
                *active = Arc::clone(&changed);
            }
        });
        self.active = changed;
    }
}

impl Drop for LinkGuard {
    fn drop(&mut self) {
        self.lift();
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
