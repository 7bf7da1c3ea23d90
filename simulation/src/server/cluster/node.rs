//! A node of a cluster: whose each slot is, which commands it sends elsewhere, and what it says of the
//! others. Who belongs to the cluster is settled from the start; roles, slots and epochs change.

use std::{collections::BTreeMap, time::Duration};

use cluster_config::slot_of;

use crate::server::cluster::takeover::{Election, ManualFailover};
use crate::server::command::{Spec, unknown_part};
use crate::server::keys::keyspace::is;
use crate::server::keys::number;
use crate::server::replication::links::LinkId;
use crate::server::reply::Reply;
use crate::server::settings::{Address, Membership};
use crate::server::{ConnectionId, Server};

const SLOTS: u16 = 16_384;
const NOBODY: u8 = u8::MAX;

#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    pub(crate) address: Address,
    pub(crate) id: String,
    pub(crate) master: Option<usize>,
    pub(crate) epoch: u64,
    pub(crate) link: Option<LinkId>,
    pub(crate) dialled_at: Duration,
    /// When the oldest unanswered ping was sent, and when the last answer came.
    pub(crate) pinged_since: Option<Duration>,
    pub(crate) answered_at: Duration,
    /// PFAIL: silent for this node. FAIL: since when most masters agree.
    pub(crate) is_suspect: bool,
    pub(crate) failed_at: Option<Duration>,
    /// The masters that report it silent, and when each reported.
    pub(crate) reports: BTreeMap<usize, Duration>,
    pub(crate) offset: u64,
    /// When this node last voted for one of its replicas.
    pub(crate) voted_at: Option<Duration>,
    pub(crate) claims: String,
    /// `Cluster::changes` plus one when this node's claims were last compared; 0: not yet.
    pub(crate) seen: u64,
}

/// What a node knows of its cluster, which outlives its process, as in its file.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) me: usize,
    pub(crate) nodes: Vec<Node>,
    slots: Vec<u8>,
    migrating: BTreeMap<u16, usize>,
    importing: BTreeMap<u16, usize>,
    pub(crate) epoch: u64,
    pub(crate) voted_epoch: u64,
    pub(crate) is_ok: bool,
    /// When this node last saw too few masters; and when its process began.
    pub(crate) alone_at: Option<Duration>,
    pub(crate) began: Duration,
    pub(crate) election: Option<Election>,
    pub(crate) manual_failover: Option<ManualFailover>,
    pub(crate) pinged_at: Duration,
    /// Counts the assignments of slots.
    pub(crate) changes: u64,
    /// This node's claims as text, kept until its slots change.
    own_claims: Option<String>,
}

impl Cluster {
    fn new(membership: &Membership, own: &Address) -> Self {
        let mut cluster = Cluster { slots: vec![NOBODY; SLOTS.into()], ..Cluster::default() };
        for (shard, epoch) in membership.shards.iter().zip(1..) {
            let master = cluster.nodes.len();
            for address in &shard.nodes {
                let at = cluster.nodes.len();
                let seed = address
                    .to_string()
                    .bytes()
                    .fold(0, |seed: u64, byte| seed.wrapping_mul(31) + u64::from(byte));
                cluster.nodes.push(Node {
                    id: crate::server::Dice(seed).name(),
                    address: address.clone(),
                    master: (at != master).then_some(master),
                    epoch: if at == master { epoch } else { 0 },
                    ..Node::default()
                });
            }
            for (from, to) in &shard.slots {
                cluster.slots[usize::from(*from)..=usize::from(*to)].fill(master as u8);
            }
        }
        cluster.epoch = membership.shards.len() as u64;
        let own = cluster.nodes.iter().position(|node| node.address == *own);
        cluster.me = own.expect("a node of a cluster is one of its members");
        cluster
    }

    pub(crate) fn myself(&mut self) -> &mut Node {
        &mut self.nodes[self.me]
    }

    pub(crate) fn owner(&self, slot: u16) -> Option<usize> {
        let owner = self.slots[usize::from(slot)];
        (owner != NOBODY).then_some(owner.into())
    }

    pub(crate) fn give(&mut self, slot: u16, to: usize) {
        self.slots[usize::from(slot)] = to as u8;
        self.changes += 1;
        self.own_claims = None;
    }

    pub(crate) fn is_covered(&self) -> bool {
        !self.slots.contains(&NOBODY)
    }

    fn ranges(&self, of: usize) -> Vec<(u16, u16)> {
        // Mostly one node owns a whole stretch, which one comparison shows.
        const STRETCH: u16 = 256;
        let of = of as u8;
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        let mut add = |from: u16, to: u16| match ranges.last_mut() {
            Some((_, last)) if *last + 1 == from => *last = to,
            _ => ranges.push((from, to)),
        };
        let stretches = self.slots.chunks(STRETCH.into());
        for (first, stretch) in (0..).step_by(STRETCH.into()).zip(stretches) {
            if *stretch == [of; STRETCH as usize] {
                add(first, first + STRETCH - 1);
            } else if stretch.contains(&of) {
                let slots = (first..).zip(stretch);
                slots.filter(|(_, owner)| **owner == of).for_each(|(slot, _)| add(slot, slot));
            }
        }
        ranges
    }

    pub(crate) fn has_slots(&self, node: usize) -> bool {
        self.slots.contains(&(node as u8))
    }

    pub(crate) fn masters(&self) -> Vec<usize> {
        let nodes = 0..self.nodes.len();
        nodes.filter(|node| self.nodes[*node].master.is_none() && self.has_slots(*node)).collect()
    }

    pub(crate) fn majority(&self) -> usize {
        self.masters().len() / 2 + 1
    }

    pub(crate) fn claims_of(&self, node: usize) -> String {
        let range = |(from, to): (u16, u16)| {
            if from == to { from.to_string() } else { format!("{from}-{to}") }
        };
        self.ranges(node).into_iter().map(range).collect::<Vec<_>>().join(" ")
    }

    /// The slots that this node announces: its own, or its master's.
    pub(crate) fn own_claims(&mut self) -> String {
        let of = self.nodes[self.me].master.unwrap_or(self.me);
        let claims = self.own_claims.take().unwrap_or_else(|| self.claims_of(of));
        self.own_claims = Some(claims.clone());
        claims
    }

    pub(crate) fn forget_claims(&mut self) {
        self.own_claims = None;
    }

    /// Parses slots as another node announced them.
    pub(crate) fn read_claims(text: &str) -> impl Iterator<Item = u16> {
        text.split_whitespace().flat_map(|range| {
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            from.parse().unwrap_or(1)..=to.parse().unwrap_or(0)
        })
    }

    pub(crate) fn is_importing(&self, slot: u16) -> bool {
        self.importing.contains_key(&slot)
    }

    pub(crate) fn end_migration(&mut self, slot: u16) {
        self.migrating.remove(&slot);
    }

    fn redirect(&self, kind: &str, slot: u16, to: usize) -> Reply {
        Reply::error(format!("{kind} {slot} {}", self.nodes[to].address))
    }

    fn named(&self, id: &[u8]) -> Option<usize> {
        self.nodes.iter().position(|node| node.id.as_bytes() == id)
    }
}

impl Server {
    pub(crate) fn start_in_cluster(&mut self) {
        let Some(membership) = &self.settings.cluster else { return };
        let before = self.cluster.take();
        let mut cluster = before.unwrap_or_else(|| Cluster::new(membership, &self.settings.address));
        for node in &mut cluster.nodes {
            *node = Node {
                address: std::mem::take(&mut node.address),
                id: std::mem::take(&mut node.id),
                master: node.master,
                epoch: node.epoch,
                answered_at: self.now,
                ..Node::default()
            };
        }
        cluster.is_ok = false;
        cluster.began = self.now;
        cluster.election = None;
        cluster.manual_failover = None;
        let master = cluster.nodes[cluster.me].master.map(|master| cluster.nodes[master].address.clone());
        self.cluster = Some(cluster);
        if let Some(master) = master {
            self.follow(master);
        }
    }

    /// The redirection or error for a command that this node does not serve; `None`: it does.
    pub(crate) fn redirected(
        &mut self,
        from: ConnectionId,
        spec: &Spec,
        command: &[Vec<u8>],
    ) -> Option<Reply> {
        let cluster = self.cluster.as_ref()?;
        let keys = spec.keys(command);
        let slot = slot_of(keys.first()?);
        if keys.iter().any(|key| slot_of(key) != slot) {
            return Some(Reply::error("CROSSSLOT Keys in request don't hash to the same slot"));
        }
        let Some(owner) = cluster.owner(slot) else {
            return Some(Reply::error("CLUSTERDOWN Hash slot not served"));
        };
        if !cluster.is_ok {
            return Some(Reply::error("CLUSTERDOWN The cluster is down"));
        }
        let connection = self.connections.get(&from);
        let asking = connection.is_some_and(|connection| connection.asking);
        let is_channel = spec.family == crate::server::Family::PubSub;
        // A replica accepts sharded subscriptions of its shard from every client.
        let reads =
            is_channel || connection.is_some_and(|connection| connection.reads_only) && !spec.has('w');
        let me = cluster.me;
        let migrating = cluster.migrating.get(&slot).copied().filter(|_| owner == me);
        let imports = cluster.is_importing(slot) && asking;
        if spec.name == "migrate" && (migrating.is_some() || cluster.is_importing(slot)) {
            return None;
        }
        if (migrating.is_some() || imports) && !is_channel {
            let there = keys.iter().filter(|key| self.keyspace.exists(key)).count();
            let cluster = self.cluster.as_ref()?;
            if there < keys.len() {
                let again = Reply::error("TRYAGAIN Multiple keys request during rehashing of slot");
                match migrating {
                    Some(_) if there > 0 => return Some(again),
                    Some(to) => return Some(cluster.redirect("ASK", slot, to)),
                    None if keys.len() > 1 => return Some(again),
                    None => {}
                }
            }
        }
        let cluster = self.cluster.as_ref()?;
        let served = owner == me || imports || reads && cluster.nodes[me].master == Some(owner);
        (!served).then(|| cluster.redirect("MOVED", slot, owner))
    }

    /// Commands that only a node of a cluster knows.
    pub(crate) fn about_cluster(
        &mut self,
        from: ConnectionId,
        name: &str,
        command: &[Vec<u8>],
    ) -> Option<Reply> {
        if self.cluster.is_none() {
            return Some(Reply::error("ERR This instance has cluster support disabled"));
        }
        let connection = self.connections.get_mut(&from)?;
        match name {
            "asking" => {
                connection.asking = true;
                Some(Reply::OK)
            }
            "readonly" => {
                connection.reads_only = true;
                Some(Reply::OK)
            }
            "bus" => self.take_message(&command[1..]),
            "migrate" => self.migrate(from, command),
            "restore" => Some(self.restore(&command[1], &command[3])),
            _ => Some(self.cluster_command(&command[1..])),
        }
    }

    fn cluster_command(&mut self, args: &[Vec<u8>]) -> Reply {
        let Some(cluster) = &mut self.cluster else { return Reply::Nil };
        let (word, rest) = args.split_first().expect("a word");
        let parse_slot = |text: &[u8]| {
            number::whole(text).and_then(|slot| u16::try_from(slot).ok()).filter(|slot| *slot < SLOTS)
        };
        let invalid = || Reply::error("ERR Invalid slot");
        match (word.to_ascii_lowercase().as_slice(), rest) {
            (b"slots", []) => self.slots_described(),
            (b"info", []) => Reply::text(self.cluster_info()),
            (b"nodes", []) => Reply::text(self.nodes_described()),
            (b"myid", []) => Reply::text(cluster.myself().id.clone()),
            (b"getkeysinslot", [of, most]) => {
                let most = number::whole(most).and_then(|most| usize::try_from(most).ok());
                let (Some(of), Some(most)) = (parse_slot(of), most) else { return invalid() };
                let names = self.keyspace.names().filter(|name| slot_of(name) == of).take(most);
                Reply::Array(names.map(|name| Reply::Bulk(name.to_vec())).collect())
            }
            (b"setslot", [of, how, rest @ ..]) => match parse_slot(of) {
                None => Reply::error("ERR Invalid or out of range slot"),
                Some(of) => self.set_slot(of, how, rest.first()),
            },
            (b"failover", []) => self.cluster_failover(),
            _ => unknown_part("cluster", word),
        }
    }

    fn set_slot(&mut self, slot: u16, how: &[u8], id: Option<&Vec<u8>>) -> Reply {
        let has_keys = self.keyspace.names().any(|name| slot_of(name) == slot);
        let Some(cluster) = &mut self.cluster else { return Reply::Nil };
        let me = cluster.me;
        if is(how, "stable") {
            cluster.migrating.remove(&slot);
            cluster.importing.remove(&slot);
            return Reply::OK;
        }
        let Some(node) = id.and_then(|id| cluster.named(id)) else {
            return Reply::error("ERR I don't know about node");
        };
        if is(how, "migrating") {
            if cluster.owner(slot) != Some(me) {
                return Reply::error(format!("ERR I'm not the owner of hash slot {slot}"));
            }
            cluster.migrating.insert(slot, node);
        } else if is(how, "importing") {
            if cluster.owner(slot) == Some(me) {
                return Reply::error(format!("ERR I'm already the owner of hash slot {slot}"));
            }
            cluster.importing.insert(slot, node);
        } else if is(how, "node") {
            if cluster.owner(slot) == Some(me) && node != me && has_keys {
                return Reply::error(format!(
                    "ERR Can't assign hashslot {slot} to a different node while I still hold keys for this hash slot."
                ));
            }
            if !has_keys {
                cluster.migrating.remove(&slot);
            }
            if node == me && cluster.importing.remove(&slot).is_some() {
                // The new owner's claim must be newer than the old owner's.
                let newest = cluster.nodes.iter().map(|node| node.epoch).max().unwrap_or(0);
                if cluster.nodes[me].epoch < newest || cluster.nodes[me].epoch == 0 {
                    cluster.epoch += 1;
                    cluster.nodes[me].epoch = cluster.epoch;
                }
            }
            cluster.give(slot, node);
            let gone = |name: &[u8]| node != me && slot_of(name) == slot;
            self.drop_shard_channels(gone);
            self.tell_all();
        } else {
            return Reply::error(
                "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP",
            );
        }
        Reply::OK
    }

    fn slots_described(&self) -> Reply {
        let Some(cluster) = &self.cluster else { return Reply::Nil };
        let described = |node: &Node| {
            let Address { host, port } = &node.address;
            let about = Reply::Array(Vec::new());
            Reply::Array(vec![Reply::text(host), Reply::Int((*port).into()), Reply::text(&node.id), about])
        };
        let mut all: Vec<((u16, u16), usize)> = (cluster.masters().into_iter())
            .flat_map(|master| cluster.ranges(master).into_iter().map(move |range| (range, master)))
            .collect();
        all.sort_unstable();
        let entry = |((from, to), master): ((u16, u16), usize)| {
            let mut parts =
                vec![Reply::Int(from.into()), Reply::Int(to.into()), described(&cluster.nodes[master])];
            let replicas =
                cluster.nodes.iter().filter(|node| node.master == Some(master) && node.failed_at.is_none());
            parts.extend(replicas.map(described));
            Reply::Array(parts)
        };
        Reply::Array(all.into_iter().map(entry).collect())
    }

    fn cluster_info(&self) -> String {
        let Some(cluster) = &self.cluster else { return String::new() };
        let state = if cluster.is_ok { "ok" } else { "fail" };
        let assigned = cluster.slots.iter().filter(|owner| **owner != NOBODY).count();
        format!(
            "cluster_state:{state}\r\ncluster_slots_assigned:{assigned}\r\ncluster_known_nodes:{}\r\ncluster_size:{}\r\ncluster_current_epoch:{}\r\ncluster_my_epoch:{}\r\n",
            cluster.nodes.len(),
            cluster.masters().len(),
            cluster.epoch,
            cluster.nodes[cluster.nodes[cluster.me].master.unwrap_or(cluster.me)].epoch,
        )
    }

    fn nodes_described(&self) -> String {
        let Some(cluster) = &self.cluster else { return String::new() };
        let mut text = String::new();
        for (at, node) in cluster.nodes.iter().enumerate() {
            let mut flags = Vec::from_iter((at == cluster.me).then_some("myself"));
            flags.push(if node.master.is_some() { "slave" } else { "master" });
            match (node.failed_at, node.is_suspect) {
                (Some(_), _) => flags.push("fail"),
                (None, true) => flags.push("fail?"),
                (None, false) => {}
            }
            let master = node.master.map_or("-", |master| &cluster.nodes[master].id);
            let connected = at == cluster.me || self.is_up(node.link);
            let link = if connected { "connected" } else { "disconnected" };
            let Address { host, port } = &node.address;
            let (id, bus, flags) = (&node.id, u32::from(*port) + 10_000, flags.join(","));
            let epoch = node.master.map_or(node.epoch, |master| cluster.nodes[master].epoch);
            let (pinged, heard) =
                (node.pinged_since.map_or(0, |at| at.as_millis()), node.answered_at.as_millis());
            text += &format!("{id} {host}:{port}@{bus} {flags} {master} {pinged} {heard} {epoch} {link}");
            let slots = if node.master.is_none() { cluster.claims_of(at) } else { String::new() };
            if !slots.is_empty() {
                text += &format!(" {slots}");
            }
            if at == cluster.me {
                let to = cluster.migrating.iter().map(|(slot, to)| (slot, "->-", to));
                let moves = to.chain(cluster.importing.iter().map(|(slot, from)| (slot, "-<-", from)));
                text.extend(
                    moves.map(|(slot, arrow, other)| format!(" [{slot}{arrow}{}]", cluster.nodes[*other].id)),
                );
            }
            text.push('\n');
        }
        text
    }
}
