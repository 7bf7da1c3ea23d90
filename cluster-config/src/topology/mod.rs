//! A topology as checked data ("sentinel, two replicas"); starts nothing.
//!
//! | file | what it is for |
//! |---|---|
//! | `kind.rs` | shapes, durability and provisioners, by their words |
//! | `user.rs` | the user and the password of servers |
//! | `file.rs` | `[topology]` in files |
//! | `validate.rs` | what is wrong with one |

mod file;
mod kind;
mod user;
mod validate;

use std::collections::BTreeMap;

use crate::Role;

pub use file::{TopologyTable, json_schema};
pub use kind::{Persistence, ProvisionerKind, TopologyKind};
pub(crate) use user::OWN_USER;
pub use user::Secret;

/// The shape wanted, as data. A count that a kind does not use is ignored.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Topology {
    /// Which shape.
    pub kind: TopologyKind,
    /// Replicas per master, 0 to 5 (sentinel, cluster; masters, where nothing promotes them).
    pub replicas: u32,
    /// Independent masters, 1 to 9 (masters).
    pub masters: u32,
    /// Masters that share the slots, 1 to 100 and up to 200 nodes with their replicas (cluster). With fewer
    /// than three no replica is ever promoted after a crash, since a vote needs a majority of the masters.
    pub shards: u32,
    /// Sentinels, 1 to 7 (sentinel). One or two cannot outvote the loss of one.
    pub sentinels: u32,
    /// `redis`, `valkey`, a version such as `redis-7.2`, or a path; of another system its name or a path.
    pub server: String,
    /// redis.conf lines for every data node: directive, then its value; of another system its settings.
    pub config: BTreeMap<String, String>,
    /// `sentinel` lines of sentinel.conf for its master: directive, then its value, such as
    /// `down-after-milliseconds` and `30000` (sentinel).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sentinel_config: BTreeMap<String, String>,
    /// What a server writes to its disk; `None`: what `config` says, and nothing by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistence: Option<Persistence>,
    /// A master refuses writes with fewer replicas in sight, 0 to `replicas`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub min_replicas_to_write: u32,
    /// Everything speaks TLS and nothing else, with certificates made for the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// Data nodes admit only the user `locklab`, whose password is made for the run and stands in the URL.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acl: bool,
    /// What its servers run in.
    #[serde(default, skip_serializing_if = "ProvisionerKind::is_default")]
    pub provisioner: ProvisionerKind,
    /// The image of containers, for example `redis:7.4`, pulled if the engine lacks it. `None`: that of the
    /// server's makers (`redis:8`, `postgres:17`) where a registry answers, else the installed server; always
    /// that for a `server` that is a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A node before it has an address: its place in the topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeOutline {
    pub(crate) role: Role,
    /// From 1 among the data nodes, or among the sentinels.
    pub(crate) number: u32,
}

impl NodeOutline {
    /// `n1` or `s1`.
    pub(crate) fn name(self) -> String {
        let letter = if self.role == Role::Sentinel { 's' } else { 'n' };
        format!("{letter}{}", self.number)
    }
}

impl Topology {
    /// The usual one of a kind: sentinel 1+2+3, cluster 3+3, 5 masters. Counts without a meaning are 0.
    pub fn of(kind: TopologyKind) -> Self {
        let (replicas, masters, shards, sentinels) = match kind {
            TopologyKind::Sentinel => (2, 0, 0, 3),
            TopologyKind::Cluster => (1, 0, 3, 0),
            TopologyKind::Masters => (0, 5, 0, 0),
            _ => (0, 0, 0, 0),
        };
        Topology {
            kind,
            replicas,
            masters,
            shards,
            sentinels,
            server: kind.server().into(),
            config: BTreeMap::new(),
            sentinel_config: BTreeMap::new(),
            persistence: None,
            min_replicas_to_write: 0,
            tls: false,
            acl: false,
            provisioner: ProvisionerKind::Process,
            image: None,
        }
    }

    fn number(&self, key: &str) -> u32 {
        match key {
            "replicas" => self.replicas,
            "masters" => self.masters,
            "shards" => self.shards,
            _ => self.sentinels,
        }
    }

    fn number_mut(&mut self, key: &str) -> &mut u32 {
        match key {
            "replicas" => &mut self.replicas,
            "masters" => &mut self.masters,
            "shards" => &mut self.shards,
            _ => &mut self.sentinels,
        }
    }

    /// Data nodes: everything but sentinels.
    pub fn data_nodes(&self) -> u32 {
        match self.kind {
            TopologyKind::Etcd3 | TopologyKind::ZooKeeper3 => 3,
            TopologyKind::Sentinel | TopologyKind::Cluster | TopologyKind::Masters => {
                self.count(Role::Master) * (1 + self.replicas)
            }
            _ => 1,
        }
    }

    /// How many nodes begin with this role.
    pub fn count(&self, role: Role) -> u32 {
        let masters = match self.kind {
            TopologyKind::Cluster => self.shards,
            TopologyKind::Masters => self.masters,
            _ => 1,
        };
        match (role, self.kind) {
            (Role::Master, _) => masters,
            (Role::Replica, _) => self.data_nodes() - masters,
            (Role::Sentinel, TopologyKind::Sentinel) => self.sentinels,
            (Role::Sentinel, _) => 0,
        }
    }

    /// The names of the nodes that begin with this role, in their order.
    pub fn names(&self, role: Role) -> Vec<String> {
        self.places().into_iter().filter(|place| place.role == role).map(NodeOutline::name).collect()
    }

    /// Every node: masters first, then replicas, then sentinels.
    pub(crate) fn places(&self) -> Vec<NodeOutline> {
        let masters = self.count(Role::Master);
        [Role::Master, Role::Replica, Role::Sentinel]
            .into_iter()
            .flat_map(|role| {
                let before = if role == Role::Replica { masters } else { 0 };
                (1..=self.count(role)).map(move |number| NodeOutline { role, number: before + number })
            })
            .collect()
    }

    /// What a reader should know about a shape that can be started but does not do what its kind promises.
    pub fn remark(&self) -> Option<&'static str> {
        match self.kind {
            TopologyKind::Cluster if self.shards < 3 => Some(
                "with fewer than 3 shards no replica is promoted after a crash: a vote needs a majority of the masters",
            ),
            TopologyKind::Sentinel if self.sentinels < 3 => {
                Some("with fewer than 3 sentinels the loss of one can stop every failover")
            }
            _ => None,
        }
    }
}
