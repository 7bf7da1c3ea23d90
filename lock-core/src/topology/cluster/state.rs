//! The current slot map and its refresh, one at a time.
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch, time::timeout};

use super::map::{Members, Shard, View};
use crate::sync::{Flag, Mutex, RwLock};
use crate::{
    clock::Instant,
    target::{Endpoint, addresses},
    topology::{
        NodeError,
        dial::{Dialer, Proof},
        flight::{Joined, Refresh, Worth, hear},
        node::{Node, Purpose},
        slot::SLOTS,
    },
};

/// The least time between the ends of two refreshes: a failover answers hundreds of requests with MOVED at once.
const HOLD_OFF: Duration = Duration::from_millis(50);
/// How long after the first good answer others may still outrank it.
const GRACE: Duration = Duration::from_millis(30);
/// How many nodes are asked at once.
const WITNESSES: usize = 8;
const NOBODY: u16 = u16::MAX;

/// The nodes of a cluster and the map of its slots.
pub(super) struct State {
    pub(super) dialer: Arc<Dialer>,
    seeds: Vec<Endpoint>,
    nodes: Mutex<BTreeMap<Endpoint, Arc<Node>>>,
    map: RwLock<Arc<Map>>,
    members: Mutex<Members>,
    refresh: Refresh,
    turns: AtomicUsize,
    version: watch::Sender<u64>,
    closed: Flag,
    me: std::sync::Weak<State>,
}

struct Map {
    shards: Vec<Shard>,
    masters: Vec<Arc<Node>>,
    /// Per slot the index of its master.
    owners: Vec<u16>,
    rank: (u64, bool, u32),
}

impl State {
    pub(super) fn new(seeds: Vec<Endpoint>, dialer: Arc<Dialer>) -> Arc<Self> {
        let empty = Map {
            shards: Vec::new(),
            masters: Vec::new(),
            owners: vec![NOBODY; SLOTS.into()],
            rank: (0, false, 0),
        };
        Arc::new_cyclic(|me| State {
            dialer,
            seeds,
            nodes: Mutex::default(),
            map: RwLock::new(Arc::new(empty)),
            members: Mutex::default(),
            refresh: Refresh::new(HOLD_OFF),
            turns: AtomicUsize::new(0),
            version: watch::Sender::new(0),
            closed: Flag::default(),
            me: me.clone(),
        })
    }

    pub(super) fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        let map = self.map.read();
        let index = *map.owners.get(usize::from(slot))?;
        map.masters.get(usize::from(index)).cloned()
    }

    pub(super) fn masters(&self) -> Vec<Arc<Node>> {
        self.map.read().masters.clone()
    }

    pub(super) fn version(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// The node at an address, known before or not.
    pub(super) fn node(&self, endpoint: Endpoint) -> Arc<Node> {
        let mut nodes = self.nodes.lock();
        let node = nodes.entry(endpoint).or_insert_with_key(|endpoint| {
            Node::new(endpoint.clone(), self.dialer.clone(), Proof::Answers)
        });
        if self.closed.get() {
            node.close();
        }
        node.clone()
    }

    /// Reads the map anew, or joins the refresh under way.
    pub(super) fn refresh(&self) -> Joined<()> {
        let read = |state: Arc<State>| async move { state.read_map().await };
        self.refresh.join(&self.me, read)
    }

    async fn read_map(&self) {
        if self.closed.get() {
            return;
        }
        let asked = self.witnesses();
        let answers = asked.iter().map(|node| self.ask(node)).collect();
        let mut best: Option<View> = None;
        hear(answers, GRACE, |view| {
            let Some(view) = view else {
                return Worth::Nothing;
            };
            if best.as_ref().is_none_or(|best| view.rank() > best.rank()) {
                best = Some(view);
            }
            Worth::Good
        })
        .await;
        if let Some(view) = best {
            self.adopt(view);
        }
    }

    /// Some of the nodes that can be asked, others each time where there are many.
    fn witnesses(&self) -> Vec<Arc<Node>> {
        for seed in &self.seeds {
            self.node(seed.clone());
        }
        let nodes = self.nodes.lock();
        let turn = self.turns.fetch_add(1, Ordering::Relaxed) * WITNESSES % nodes.len().max(1);
        nodes
            .values()
            .cycle()
            .skip(turn)
            .take(WITNESSES.min(nodes.len()))
            .cloned()
            .collect()
    }

    async fn ask(&self, node: &Arc<Node>) -> Option<View> {
        let deadline = Instant::now() + self.dialer.connect_timeout;
        let lease = node.dialled(Purpose::Command, deadline).await.ok()?;
        let mut pipe = redis::pipe();
        for question in ["SLOTS", "INFO", "NODES"] {
            pipe.cmd("CLUSTER").arg(question);
        }
        match timeout(self.dialer.response_timeout, lease.conn.pipeline(&pipe, 3)).await {
            Ok(Ok(answers)) => View::read(&answers, &node.endpoint),
            Ok(Err(_)) => None,
            Err(_) => {
                lease.conn.suspect(self.dialer.response_timeout);
                None
            }
        }
    }

    fn adopt(&self, view: View) {
        let rank = view.rank();
        let old = self.map.read().clone();
        // A node cut off from the others still knows an older configuration; it is no reason to go back while the
        // masters of the newer one can be reached.
        if rank.0 < old.rank.0 && old.masters.iter().any(|master| master.is_connected()) {
            return;
        }
        let masters: Vec<_> = view
            .shards
            .iter()
            .map(|shard| self.node(shard.master.clone()))
            .collect();
        let mut members = self.members.lock();
        for (count, master) in members.see(&view.shards).into_iter().zip(&masters) {
            master.known_replicas(count);
        }
        drop(members);
        let same = old.shards == view.shards;
        if same && old.rank == rank {
            return;
        }
        let mut owners = vec![NOBODY; SLOTS.into()];
        for (index, shard) in (0..NOBODY).zip(&view.shards) {
            for &(from, to) in &shard.ranges {
                owners[usize::from(from)..=usize::from(to)].fill(index);
            }
        }
        // A node that owns nothing any more is forgotten, and closed when its last request has ended. The seeds stay:
        // somebody has to be asked when all else is gone.
        let keep = |endpoint: &Endpoint| {
            view.shards.iter().any(|shard| shard.master == *endpoint)
                || self.seeds.contains(endpoint)
        };
        self.nodes.lock().retain(|endpoint, _| keep(endpoint));
        *self.map.write() = Arc::new(Map {
            shards: view.shards,
            masters,
            owners,
            rank,
        });
        if !same {
            self.version.send_modify(|version| *version += 1);
        }
    }

    pub(super) fn unreached(&self) -> NodeError {
        NodeError::local(format!(
            "no node of the cluster answered CLUSTER SLOTS: {} within {:?}",
            self.label(),
            self.dialer.connect_timeout
        ))
    }

    pub(super) fn label(&self) -> String {
        addresses(&self.seeds)
    }

    pub(super) fn close(&self) {
        self.closed.set(true);
        for node in self.nodes.lock().values() {
            node.close();
        }
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cluster({})", self.label())
    }
}
