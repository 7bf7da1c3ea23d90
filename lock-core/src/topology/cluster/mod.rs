//! The route to a cluster: each request goes to its slot's master, by a map that one task at a time renews.

mod map;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::Value;
use tokio::sync::watch;
use tokio::time::timeout;

use self::map::{Shard, View};
use super::dial::{Dialer, Proof};
use super::flight::{AnswerValue, Joined, Refresh, hear};
use super::node::{Node, Purpose};
use super::pubsub::{ChannelRouter, Channels};
use super::slot::{SLOTS, slot};
use super::{NodeError, Request, Topology};
use crate::PubSub;
use crate::client::target::{Endpoint, addresses};
use crate::clock::{Instant, timeout_at};
use crate::sync::{Flag, Mutex};
use crate::topology::refusal::{UNREADABLE, is_passing, unreadable};

/// How long after the first good answer others may still outrank it.
const GRACE: Duration = Duration::from_millis(30);
const WITNESSES: usize = 8;
const NOBODY: u16 = u16::MAX;
/// What errors say of servers that never know a map, without a code of its own.
const FINAL: [&str; 4] = ["cluster support disabled", "unknown command", "unknown subcommand", "unsupported"];

pub(crate) struct Cluster {
    state: Arc<State>,
    channels: Channels,
}

impl Cluster {
    /// The slot map is read by the first request.
    pub(crate) fn new(seeds: Vec<Endpoint>, dialer: Arc<Dialer>, way: PubSub) -> Self {
        let state = State::new(seeds, dialer);
        let channels = Channels::new(state.clone(), way, &state.dialer.runtime);
        Cluster { state, channels }
    }

    /// Reads the slot map, and finds out whether the servers know sharded channels where that decides.
    pub(crate) async fn connect(
        seeds: Vec<Endpoint>,
        dialer: Arc<Dialer>,
        way: PubSub,
        deadline: Instant,
    ) -> Result<Self, NodeError> {
        let state = State::new(seeds, dialer);
        // What passes by itself, a script that runs or a file that is read, is waited for.
        while timeout_at(deadline, state.refresh()).await.is_err() || state.masters().is_empty() {
            let why = state.unreached();
            if Instant::now() >= deadline || !is_passing(why.code.as_deref()) {
                return Err(why);
            }
        }
        let way = match way {
            PubSub::Auto | PubSub::Both => {
                let sharded = knows_sharded_channels(&state.masters(), deadline).await;
                match (sharded, way) {
                    (false, _) => PubSub::Plain,
                    (true, PubSub::Auto) => PubSub::Sharded,
                    (true, way) => way,
                }
            }
            way => way,
        };
        let channels = Channels::new(state.clone(), way, &state.dialer.runtime);
        Ok(Cluster { state, channels })
    }
}

/// Asks the masters for the first definite answer to PUBSUB SHARDNUMSUB (Redis 7.0 and later know it).
async fn knows_sharded_channels(masters: &[Arc<Node>], deadline: Instant) -> bool {
    let probe = redis::cmd("PUBSUB").arg("SHARDNUMSUB").take();
    for node in masters {
        let Ok(lease) = node.dialled(Purpose::Command, deadline).await else {
            continue;
        };
        match timeout_at(deadline, lease.conn.command(&probe)).await {
            Ok(Ok(Value::ServerError(error))) if is_passing(Some(error.code())) => {}
            Ok(Ok(answer)) => return !matches!(answer, Value::ServerError(_)),
            Ok(Err(_)) => {}
            // What is asked next would get this answer.
            Err(_) => lease.conn.kill(),
        }
    }
    false
}

/// Why answers make no map: as the server says, or because nothing has slots.
fn refusal(answers: Vec<Value>) -> (Option<String>, String) {
    let refused = answers.iter().find(|answer| matches!(answer, Value::ServerError(_)));
    match refused.or(answers.first()) {
        Some(Value::ServerError(error)) => {
            let details = error.details().unwrap_or_default();
            let remedy = match details.contains("cluster support disabled") {
                true => "; a single server's URL begins with redis://",
                false => "",
            };
            (Some(error.code().to_owned()), format!("{} {details}{remedy}", error.code()))
        }
        Some(Value::Array(slots)) if slots.is_empty() => (None, "no master has any".to_owned()),
        _ => (Some(UNREADABLE.to_owned()), unreadable(&Value::Array(answers))),
    }
}

impl Topology for Cluster {
    fn owner(&self, request: &Request) -> Option<Arc<Node>> {
        match request.first_key() {
            Some(key) => self.state.owner(slot(key)),
            None => self.state.masters().first().cloned(),
        }
    }
    fn search(&self) -> Option<Joined<()>> {
        Some(self.state.refresh())
    }
    fn moved(&self, to: Option<&Arc<Node>>) {
        *self.state.told.lock() = to.cloned();
        self.suspect();
    }
    fn redirected(&self, from: &Node, message: &str) -> Option<Arc<Node>> {
        // `MOVED 3999 127.0.0.1:6381`, IPv6 without brackets, the host empty if it is the one that was asked.
        let (host, port) = message.split_whitespace().nth(2)?.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Some(self.state.node(map::endpoint(host, port.parse().ok()?, &from.endpoint)?))
    }
    fn is_sharded(&self) -> bool {
        true
    }
    fn dialer(&self) -> &Dialer {
        &self.state.dialer
    }
    fn channels(&self) -> &Channels {
        &self.channels
    }
    fn masters(&self) -> Vec<Arc<Node>> {
        self.state.masters()
    }
    fn name(&self) -> String {
        match &*self.state.why_none.lock() {
            Some(none) if self.state.masters().is_empty() => {
                format!("{}: {}", self.state.label(), none.why.message)
            }
            _ => self.state.label(),
        }
    }
    fn refuses(&self) -> Option<NodeError> {
        let none = self.state.why_none.lock().clone();
        none.filter(|none| none.is_final && self.state.masters().is_empty()).map(|none| none.why)
    }
    fn close_nodes(&self) {
        self.state.close();
    }
}

impl ChannelRouter for State {
    fn place(&self, slot: u16) -> Option<Arc<Node>> {
        self.owner(slot)
    }
    fn misplaced(&self) {
        drop(self.refresh());
    }
    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.version.subscribe())
    }
}

struct State {
    dialer: Arc<Dialer>,
    seeds: Vec<Endpoint>,
    nodes: Mutex<BTreeMap<Endpoint, Arc<Node>>>,
    map: Mutex<Arc<Map>>,
    refresh: Refresh,
    /// Whom a redirection named since the last look at the map.
    told: Mutex<Option<Arc<Node>>>,
    /// Why the last look at the map found none.
    why_none: Mutex<Option<NoMap>>,
    turns: AtomicUsize,
    version: watch::Sender<u64>,
    closed: Flag,
    me: std::sync::Weak<State>,
}

/// Why a node says nothing of the map, and whether it will say the same until somebody corrects it.
#[derive(Clone)]
struct NoMap {
    why: NodeError,
    is_final: bool,
}

struct Map {
    shards: Vec<Shard>,
    masters: Vec<Arc<Node>>,
    /// Per slot the index of its master.
    owners: Vec<u16>,
    rank: (u64, bool, u32),
}

impl State {
    fn new(seeds: Vec<Endpoint>, dialer: Arc<Dialer>) -> Arc<Self> {
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
            map: Mutex::new(Arc::new(empty)),
            refresh: Refresh::default(),
            told: Mutex::default(),
            why_none: Mutex::default(),
            turns: AtomicUsize::new(0),
            version: watch::Sender::new(0),
            closed: Flag::default(),
            me: me.clone(),
        })
    }

    fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        let map = self.map.lock();
        map.masters.get(usize::from(*map.owners.get(usize::from(slot))?)).cloned()
    }

    fn masters(&self) -> Vec<Arc<Node>> {
        self.map.lock().masters.clone()
    }

    fn node(&self, endpoint: Endpoint) -> Arc<Node> {
        let mut nodes = self.nodes.lock();
        let node = nodes
            .entry(endpoint)
            .or_insert_with_key(|endpoint| Node::new(endpoint.clone(), self.dialer.clone(), Proof::Answers));
        if self.closed.get() {
            node.close();
        }
        node.clone()
    }

    /// Reads the map anew, or joins the refresh under way.
    fn refresh(&self) -> Joined<()> {
        let read = |state: Arc<State>| async move { state.read_map().await };
        self.refresh.join(&self.dialer.runtime, &self.me, read)
    }

    async fn read_map(&self) {
        if self.closed.get() {
            return;
        }
        if let Some(view) = self.told_view().await {
            return self.adopt(view, false);
        }
        let asked = self.witnesses();
        let answers = asked.iter().map(|node| self.ask(node)).collect();
        let mut views: Vec<View> = Vec::new();
        let mut why_none = None;
        hear(answers, GRACE, |answer| match answer {
            Ok(view) => {
                views.push(view);
                AnswerValue::Good
            }
            Err(why) => {
                why_none.get_or_insert(why);
                AnswerValue::Nothing
            }
        })
        .await;
        let epochs: Vec<u64> = views.iter().map(|view| view.epoch).collect();
        match views.into_iter().max_by_key(View::rank) {
            Some(view) => {
                let agreeing = epochs.iter().filter(|epoch| **epoch == view.epoch).count();
                self.adopt(view, agreeing > asked.len() / 2);
            }
            None => *self.why_none.lock() = why_none,
        }
    }

    /// What the node says that a redirection named: it took the slot over, and so knows the newest
    /// configuration. Others are asked where it does not answer, or knows an older one.
    async fn told_view(&self) -> Option<View> {
        let told = self.told.lock().take()?;
        let view = timeout(GRACE, self.ask(&told)).await.ok()?.ok()?;
        (view.rank() >= self.map.lock().rank).then_some(view)
    }

    fn witnesses(&self) -> Vec<Arc<Node>> {
        for seed in &self.seeds {
            self.node(seed.clone());
        }
        let nodes = self.nodes.lock();
        let turn = self.turns.fetch_add(1, Ordering::Relaxed) * WITNESSES % nodes.len().max(1);
        nodes.values().cycle().skip(turn).take(WITNESSES.min(nodes.len())).cloned().collect()
    }

    /// What a node says of the map, or why it says nothing.
    async fn ask(&self, node: &Arc<Node>) -> Result<View, NoMap> {
        let deadline = Instant::now() + self.dialer.connect_timeout;
        let lease = node.dialled(Purpose::Command, deadline).await;
        let lease = lease.map_err(|error| NoMap {
            is_final: error.fatal,
            why: NodeError::at(node, error.code, error.message),
        })?;
        let mut pipe = redis::pipe();
        for question in ["SLOTS", "INFO"] {
            pipe.cmd("CLUSTER").arg(question);
        }
        let limit = self.dialer.response_timeout;
        let (code, why) = match timeout(limit, lease.conn.pipeline(&pipe, 2)).await {
            Ok(Ok(answers)) => match View::read(&answers, &node.endpoint) {
                Some(view) => return Ok(view),
                None => refusal(answers),
            },
            Ok(Err(error)) => (None, error.to_string()),
            Err(_) => {
                lease.conn.suspect(limit);
                (None, format!("no answer within {limit:?}"))
            }
        };
        // Any other error without a code may be of a proxy that is not ready.
        let is_final = match code.as_deref() {
            Some("ERR") => FINAL.iter().any(|sign| why.to_lowercase().contains(sign)),
            code => code == Some("NOPERM"),
        };
        Err(NoMap { is_final, why: NodeError::at(node, code, format!("{}: {why}", node.label)) })
    }

    /// Goes by a view from now on. `by_majority`: more than half of the asked nodes know its configuration.
    fn adopt(&self, view: View, by_majority: bool) {
        let rank = view.rank();
        let old = self.map.lock().clone();
        // A node cut off from the others still knows an older configuration, which is no reason to go back
        // while the masters of the newer one can be reached. A new cluster counts from 1, and most say so.
        let older = rank.0 < old.rank.0 && !by_majority;
        if older && old.masters.iter().any(|master| master.is_connected()) {
            return;
        }
        let masters: Vec<_> = view.shards.iter().map(|shard| self.node(shard.master.clone())).collect();
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
        // A node that owns nothing any more is forgotten, and closed when its last request has ended. The
        // seeds stay: somebody has to be asked when all else is gone.
        let keep = |endpoint: &Endpoint| {
            view.shards.iter().any(|shard| shard.master == *endpoint) || self.seeds.contains(endpoint)
        };
        self.nodes.lock().retain(|endpoint, _| keep(endpoint));
        *self.map.lock() = Arc::new(Map { shards: view.shards, masters, owners, rank });
        if !same {
            self.version.send_modify(|version| *version += 1);
        }
    }

    fn unreached(&self) -> NodeError {
        let why = self.why_none.lock().take().map(|none| none.why).unwrap_or_else(|| {
            let limit = self.dialer.connect_timeout;
            NodeError::local(format!("{} within {limit:?}", self.label()))
        });
        NodeError {
            node: None,
            message: format!("no node of the cluster answered CLUSTER SLOTS with its slots: {}", why.message),
            ..why
        }
    }

    fn label(&self) -> String {
        addresses(&self.seeds)
    }

    fn close(&self) {
        self.closed.set(true);
        for node in self.nodes.lock().values() {
            node.close();
        }
    }
}
